"""Asking a person in the middle of a run, as each protocol era lets a server ask.

    handshake era   the server sends the question over the open connection, and the run waits for the answer
    2026-07-28      a server cannot send one: the call ends with the question (`InputRequiredResult`), and the client
                    makes it once more with the answer. `paused.py` keeps the run in between

A client that can do neither gets a clear refusal.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final, Literal, NamedTuple, Protocol, cast

from fastmcp.server.context import Context
from mcp import MCPError
from mcp_types import (
    ClientCapabilities,
    ElicitationCapability,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequiredResult,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from codecall.composite.definition import JsonObject
from codecall.composite.failures import WorkflowError
from codecall.option_base import format_duration

_HINT: Final = "Call the tool with a client that supports elicitation, where a person can answer."


class Question(NamedTuple):
    """What a person is asked."""

    message: str
    schema: JsonObject
    timeout_s: float


class Answer(NamedTuple):
    """What a person answered."""

    action: Literal["accept", "decline", "cancel"]
    content: Mapping[str, object] | None = None


class Asker(Protocol):
    """Asks a person."""

    async def ask(self, step_id: str, question: Question) -> Answer | None:
        """The answer; None if it comes with a later request.

        Raises:
            WorkflowError: nobody can be asked, or nobody answers in time.
        """
        ...


class ClientAsker:
    """Asks the person in front of the client of a request.

    Args:
        context: The request.
        answers: Answers that came with it, by the ids of steps.
    """

    def __init__(self, context: Context, answers: Mapping[str, Answer]) -> None:
        self._context = context
        self._answers = dict(answers)

    async def ask(self, step_id: str, question: Question) -> Answer | None:
        """See `Asker.ask`."""
        if step_id in self._answers:
            return self._answers.pop(step_id)
        request = self._context.request_context
        wanted = ClientCapabilities(elicitation=ElicitationCapability())
        if request is None or not self._context.session.check_client_capability(wanted):
            raise WorkflowError("This client cannot ask a person for input", code="INPUT_REQUIRED", hint=_HINT)
        if request.protocol_version in MODERN_PROTOCOL_VERSIONS:
            return None
        try:
            async with asyncio.timeout(question.timeout_s):
                result = await self._context.session.elicit_form(
                    question.message, question.schema, self._context.request_id
                )
        except TimeoutError:
            raise late_answer(question.timeout_s) from None
        except MCPError as failure:
            message = f"The client could not ask a person for input: {failure.error.message:.200}"
            raise WorkflowError(message, code="INPUT_REQUIRED", hint=_HINT) from None
        return Answer(result.action, result.content)


def late_answer(timeout_s: float) -> WorkflowError:
    """The error of a question that nobody answered in time."""
    return WorkflowError(
        f"Nobody answered within {format_duration(timeout_s)}",
        code="TIMEOUT",
        hint="Run the tool again when somebody can answer; the step's `timeout` may be 10m.",
    )


def ask_with_result(questions: Mapping[str, Question], state: str) -> InputRequiredResult:
    """The answer to a request of 2026-07-28 that has the questions; `state` comes back with their answers."""
    return InputRequiredResult(
        input_requests={
            step_id: ElicitRequest(
                params=ElicitRequestFormParams(message=question.message, requested_schema=question.schema)
            )
            for step_id, question in questions.items()
        },
        request_state=state,
    )


def answers_of(context: Context) -> dict[str, Answer]:
    """The answers that came with a request, by the ids of steps."""
    responses = context.input_responses if context.request_context is not None else None
    return {
        step_id: Answer(response.action, cast("Mapping[str, object] | None", response.content))
        for step_id, response in (responses or {}).items()
        if isinstance(response, ElicitResult)
    }
