"""The questions of a workflow's steps, which the gate of the run asks as it asks for approvals."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from mcp_types import ElicitResult

from codecall.approvals.asking import TooManyWait, Unanswered
from codecall.approvals.request import visible
from codecall.composite.definition import ElicitationStep
from codecall.composite.failures import WorkflowError
from codecall.jsonio.decode import sha256
from codecall.option_base import format_duration

if TYPE_CHECKING:
    from codecall.approvals.gate.gate import CallGate

_HINT: Final = "Call the tool itself with a client that supports elicitation, where a person can answer."


class StepQuestions:
    """Asks the questions of the steps of one run.

    Args:
        gate: Asks persons in the run; None: nobody can be asked.
        source: The definition of the workflow.
    """

    def __init__(self, gate: CallGate | None, source: str) -> None:
        self._gate = gate
        self._source = source

    async def ask(self, step: ElicitationStep, message: str) -> ElicitResult:
        """What a person says to the question of a step.

        Raises:
            WorkflowError: nobody can be asked, or nobody answers in time.
        """
        if (gate := self._gate) is None:
            raise _unanswered(step, "nothing asks persons on this server", _HINT)
        identity = sha256(json.dumps([self._source, step.id, message]))
        if (said := gate.notes.get(identity)) is not None:
            return ElicitResult.model_validate_json(said)
        # What tools have returned cannot hide in it; what its author has written stays as it is.
        shown = message.translate({ord(char): visible(char) for char in {*message} - {*step.message, "\n"}})
        try:
            answer = await gate.questions.elicit(shown, step.schema, identity=identity, wait_s=step.timeout_s)
        except TimeoutError:
            raise WorkflowError(
                f"Nobody answered within {format_duration(step.timeout_s)}",
                code="TIMEOUT",
                hint="Run the tool again when somebody can answer; the step's `timeout` may be 10m.",
            ) from None
        except TooManyWait as reason:
            raise _unanswered(step, str(reason), "Run the tool again when some of them have been answered.") from None
        except Unanswered as reason:
            raise _unanswered(step, str(reason), _HINT) from None
        gate.notes[identity] = answer.model_dump_json()
        return answer


def _unanswered(step: ElicitationStep, reason: str, hint: str) -> WorkflowError:
    message = f"A person has to answer the question of step '{step.id}', and {reason}"
    return WorkflowError(message, code="INPUT_REQUIRED", hint=hint)
