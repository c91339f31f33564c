"""What a worker may ask the server while its script has the turn, and the answers."""

from __future__ import annotations

from typing import Final

from codecall.errors import CodeCallError, MessageFloodError, MessageValidationError
from codecall.sandbox import wire
from codecall.sandbox.broker import ToolBroker
from codecall.sandbox.host.foresight import Foresight
from codecall.sandbox.host.outcomes import unexpected
from codecall.sandbox.host.payloads import json_text

MAX_QUESTIONS = 10_000
"""Most questions of one script; the runtime asks once per name."""

MAX_SPACES = 200
"""Most namespaces that one script asks for."""

_ASK_LESS: Final = (
    "Each name counts that is given to `getTool`, or read from or looked for in a namespace or `tools`: ask for those "
    "that are meant to be called."
)


class Questions:
    """Answers the questions of one script.

    Args:
        broker: Knows what the script may call.
    """

    def __init__(self, broker: ToolBroker) -> None:
        self._broker = broker
        self.foresight: Foresight | None = None
        """What looks at the script before it runs; None as soon as it may be running."""
        self._asked = 0
        self._spaces = 0

    async def answer(self, question: wire.Ask | wire.Plan) -> wire.ServerMessage:
        """The answer to `question`.

        Raises:
            CodeCallError: the worker asked too much or for what cannot be, or the server could not be asked.
        """
        self._asked += 1
        if self._asked > MAX_QUESTIONS:
            raise MessageFloodError(f"The worker asked more than {MAX_QUESTIONS} questions", hint=_ASK_LESS)
        if isinstance(question, wire.Plan):
            foresight = self.foresight
            if foresight is None or foresight.asked:
                raise MessageValidationError("The worker planned a script that it may be running")
            return wire.Planned(go=await foresight.look(question))
        if max(len(question.name), len(question.member)) > wire.MAX_NAME_LENGTH:
            raise MessageValidationError("The worker asked for a tool name longer than scripts may use")
        try:
            described = await self._asked_about(question)
        except CodeCallError:
            raise
        except Exception as failure:
            raise unexpected(question.name, failure) from failure
        return wire.Described(None if described is None else json_text(described))

    async def _asked_about(self, question: wire.Ask) -> dict[str, object] | None:
        match question.about:
            case "tool":
                return await self._broker.describe(question.name)
            case "member":
                return await self._broker.member(question.name, question.member)
            case "space":
                self._spaces += 1
                if self._spaces > MAX_SPACES:
                    raise MessageFloodError(f"The script uses more than {MAX_SPACES} namespaces", hint=_ASK_LESS)
                return await self._broker.space(question.name)
