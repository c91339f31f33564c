"""What a worker may ask the server while its script has the turn, and the answers."""

from __future__ import annotations

from codecall.errors import CodeCallError, MessageFloodError, MessageValidationError
from codecall.sandbox import wire
from codecall.sandbox.broker import ToolBroker
from codecall.sandbox.host.outcomes import unexpected
from codecall.sandbox.host.payloads import json_text

MAX_QUESTIONS = 10_000
"""Most questions of one script; the runtime asks once per name."""


class Questions:
    """Answers the questions of one script.

    Args:
        broker: Knows what the script may call.
    """

    def __init__(self, broker: ToolBroker) -> None:
        self._broker = broker
        self._asked = 0

    async def answer(self, question: wire.Ask | wire.Plan) -> wire.ServerMessage:
        """The answer to `question`.

        Raises:
            CodeCallError: the worker asked too much or for what cannot be, or the server could not be asked.
        """
        self._asked += 1
        if self._asked > MAX_QUESTIONS:
            raise MessageFloodError(f"The worker asked more than {MAX_QUESTIONS} questions")
        if isinstance(question, wire.Plan):
            return wire.Planned(go=True)
        if len(question.name) > wire.MAX_NAME_LENGTH:
            raise MessageValidationError("The worker asked for a tool name longer than scripts may use")
        try:
            described = await self._broker.describe(question.name)
        except CodeCallError:
            raise
        except Exception as failure:
            raise unexpected(question.name, failure) from failure
        return wire.Described(None if described is None else json_text(described))
