"""The questions of a workflow's steps, which the gate of the run asks as it asks for approvals."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

from mcp_types import ElicitResult

from codecall.approvals.elicitation import TOO_MANY_HINT, TooManyQuestionsError, TooManyWaitError, UnansweredError
from codecall.composite.definition import ElicitationStep
from codecall.composite.failures import WorkflowError
from codecall.composite.templates.references import is_template
from codecall.jsonio.decode import sha256
from codecall.option_base import go_duration
from codecall.redaction.questions import MAX_SHOWN_CHARS, question_size, visible

if TYPE_CHECKING:
    from codecall.approvals.gate.gate import CallGate

_MISLEADING: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
"""Characters that end lines or change the direction of others, even those that a template has itself."""

_HINT: Final = "Call the tool itself with a client that supports elicitation, where a person can answer."


class StepQuestions:
    """Asks the questions of the steps of one run.

    Args:
        gate: Asks persons in the run; None: there is no way to ask.
        source: The definition of the workflow.
    """

    def __init__(self, gate: CallGate | None, source: str) -> None:
        self._gate = gate
        self._source = source

    async def ask(self, step: ElicitationStep, message: str) -> ElicitResult:
        """What a person says to the question of a step.

        Raises:
            WorkflowError: there is no way to ask, or no answer in time.
        """
        if (gate := self._gate) is None:
            raise _unanswered(step, "nothing asks persons on this server", _HINT)
        identity = sha256(json.dumps([self._source, step.id, message]))
        if (stored := gate.notes.get(identity)) is not None:
            return ElicitResult.model_validate_json(stored)
        text = filled_in(step.message, message)
        if (size := question_size(text, step.schema)) > MAX_SHOWN_CHARS:
            raise WorkflowError(
                f"The question of step '{step.id}' has {size:,} characters with its form; a person is shown at most "
                f"{MAX_SHOWN_CHARS:,}",
                code="INPUT_REQUIRED",
                hint="Put single fields of other steps into its `message`, not whole outputs.",
            )
        try:
            answer = await gate.questions.elicit(text, step.schema, identity=identity, wait_s=step.timeout_s)
        except TimeoutError:
            raise WorkflowError(
                f"Nobody answered within {go_duration(step.timeout_s)}",
                code="TIMEOUT",
                hint="Run the tool again when somebody can answer; the step's `timeout` may be 10m.",
            ) from None
        except TooManyWaitError as reason:
            raise _unanswered(step, str(reason), "Run the tool again when some of them have been answered.") from None
        except TooManyQuestionsError as reason:
            raise _unanswered(step, str(reason), TOO_MANY_HINT) from None
        except UnansweredError as reason:
            raise _unanswered(step, str(reason), _HINT) from None
        gate.notes[identity] = answer.model_dump_json()
        return answer


def filled_in(template: str, message: str) -> str:
    """A message as a person is shown it. What tools have returned cannot hide in it, and begins no line where the
    template does; what its author has written stays as it is.

    Args:
        template: What the author has written.
        message: What it gives.
    """
    if not is_template(template):
        return message
    own = {char for char in template if not _MISLEADING.match(char)} | {"\n"}
    first, *lines = message.translate({ord(char): visible(char) for char in {*message} - own}).split("\n")
    starts = tuple(start for line in template.split("\n") if (start := line.partition("{{")[0]).strip())
    return "\n".join([first, *(line if not line or line.startswith(starts) else f"    {line}" for line in lines)])


def _unanswered(step: ElicitationStep, reason: str, hint: str) -> WorkflowError:
    message = f"A person has to answer the question of step '{step.id}', and {reason}"
    return WorkflowError(message, code="INPUT_REQUIRED", hint=hint)
