"""A server of tools that read, write and destroy, a person who answers its questions, and one way to run scripts."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from fastmcp import Client, FastMCP
from fastmcp.client.elicitation import ElicitResult
from mcp.server.request_state import RequestStateSecurity
from mcp_types import ElicitRequestFormParams, InputRequiredResult, ToolAnnotations
from mcp_types import ElicitResult as Said

from codecall import ApprovalRequest, AuditEvent, CodeCallPlugin, Decision

Answer = dict[str, Any]
Approver = Callable[[ApprovalRequest], Awaitable[Decision | None]]

ONCE = "allow this call"
SEVERAL = "allow several calls of this tool in this run"
SAME_IN_RUN = "allow this input in this run"
SAME_IN_SESSION = "allow this input in this session"
FIXED_IN_RUN = "allow these fixed arguments in this run"
FIXED_IN_SESSION = "allow these fixed arguments in this session"
ALL = "allow these calls"
EACH = "ask for each call"
DENY = "deny"
STOP = "deny and stop the run"


class Office:
    """Letters and files on one server, with CodeCall installed and approvals for all that writes."""

    def __init__(self, approvals: Any = "writes", *, auth: Any = None, state_key: str = "", **options: Any) -> None:
        security = RequestStateSecurity(keys=[state_key]) if state_key else None
        self.server = FastMCP[Any]("office", auth=auth, request_state_security=security)
        self.events: list[AuditEvent] = []
        defaults = {"vm": {"preset": "secure"}, "pool": {"min_workers": 0}, "audit": {"sinks": [self.events.append]}}
        self.plugin = CodeCallPlugin.init(**defaults | options, approvals=approvals)
        self.done: list[str] = []
        self.server.tool(self.read, annotations=ToolAnnotations(read_only_hint=True))
        self.server.tool(self.send)
        self.server.tool(self.wipe, annotations=ToolAnnotations(destructive_hint=True))
        self.plugin.install(self.server)

    def read(self, number: int = 1) -> str:
        """Read a letter."""
        self.done.append(f"read {number}")
        return f"letter {number}"

    def send(self, to: str, amount: int = 1, loud: bool = False) -> str:
        """Send a letter."""
        self.done.append(f"send {to}")
        return f"sent to {to}"

    def wipe(self, path: str) -> str:
        """Remove a file."""
        self.done.append(f"wipe {path}")
        return f"wiped {path}"

    def client(self, person: Person | None = None, **options: Any) -> Client[Any]:
        """A client of the handshake era, unless `mode` says another, with this person at it."""
        handler = person.answer if person is not None else None
        return Client(self.server, **{"mode": "legacy", "elicitation_handler": handler} | options)

    async def execute(
        self, script: str, person: Person | None = None, mode: str = "legacy", **arguments: Any
    ) -> Answer:
        """The envelope of one script."""
        async with self.client(person, mode=mode) as client:
            return await run(client, script, **arguments)

    def decisions(self) -> list[tuple[Any, Any]]:
        """What the record says of approvals: who decided, and how."""
        return [
            (event.fields["by"], event.fields["decision"]) for event in self.events if event.name == "codecall.approval"
        ]


class Raw:
    """A client of 2026-07-28 that sees the questions, and answers them when a test wants it to."""

    def __init__(self, client: Client[Any], tool: str = "codecall:execute") -> None:
        self.client = client
        self._session = client.session
        self._tool = tool

    async def ask(self, arguments: dict[str, Any], **again: Any) -> Any:
        """The questions, or the envelope; the text of an error."""
        result = await self._session.call_tool(self._tool, arguments, allow_input_required=True, **again)
        if isinstance(result, InputRequiredResult):
            return result
        return result.structured_content or "".join(block.text for block in result.content if block.type == "text")

    async def go_on(
        self, asked: InputRequiredResult, arguments: dict[str, Any], *decisions: str | tuple[str, int | dict[str, int]]
    ) -> Any:
        """What follows with these answers, in order."""
        assert asked.input_requests is not None
        answers: dict[str, Any] = {
            name: Said(action="accept", content=filled_in(decision))
            for name, decision in zip(asked.input_requests, decisions, strict=False)
        }
        return await self.ask(arguments, input_responses=answers, request_state=asked.request_state)


def filled_in(answer: str | tuple[str, int | dict[str, int]]) -> dict[str, Any]:
    """A form with this answer: a decision, with how many calls or other fields."""
    decision, calls = answer if isinstance(answer, tuple) else (answer, 1)
    return {"decision": decision, **(calls if isinstance(calls, dict) else {"calls": calls})}


async def run(client: Client[Any], script: str, **arguments: Any) -> Answer:
    """The envelope of one script."""
    result = await client.call_tool("codecall:execute", {"script": script, **arguments})
    assert result.structured_content is not None
    return result.structured_content


class Person:
    """Answers each question with the next of `answers`, or else the last of them: a decision, with how many calls or
    other fields, or the name of an action."""

    def __init__(self, *answers: str | tuple[str, int | dict[str, int]]) -> None:
        self.answers = list(answers)
        self.questions: list[str] = []
        self.forms: list[dict[str, Any]] = []
        """The fields of the forms."""
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.asked = asyncio.Event()

    async def answer(self, message: str, _type: Any, params: ElicitRequestFormParams, _context: Any) -> Any:
        """FastMCP's `elicitation_handler`."""
        self.questions.append(message)
        self.forms.append(params.requested_schema["properties"])
        self.asked.set()
        await self.may_answer.wait()
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if answer in ("cancel", "decline"):
            return ElicitResult(action=answer)
        return ElicitResult(action="accept", content=filled_in(answer))


class Meddler(Person):
    """Answers, after something else has happened."""

    def __init__(self, meddle: Callable[[], object], *answers: Any) -> None:
        super().__init__(*answers)
        self.meddle = [meddle]

    async def answer(self, *asked: Any) -> Any:
        while self.meddle:
            self.meddle.pop()()
        return await super().answer(*asked)
