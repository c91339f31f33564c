"""A server of tools that read, write and destroy, a person who answers its questions, and one way to run scripts."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from fastmcp import Client, FastMCP
from fastmcp.client.elicitation import ElicitResult
from mcp_types import ElicitRequestFormParams, ToolAnnotations

from codecall import ApprovalRequest, AuditEvent, CodeCallPlugin, Decision

Answer = dict[str, Any]
Approver = Callable[[ApprovalRequest], Awaitable[Decision | None]]

ONCE = "allow this call"
SEVERAL = "allow several calls of this tool in this run"
SAME_IN_RUN = "allow this input in this run"
SAME_IN_SESSION = "allow this input in this session"
DENY = "deny"
STOP = "deny and stop the run"


class Office:
    """Letters and files on one server, with CodeCall installed and approvals for all that writes."""

    def __init__(self, approvals: Any = "writes", **options: Any) -> None:
        self.server = FastMCP[Any]("office")
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
        """A client of the handshake era, with this person at it."""
        handler = person.answer if person is not None else None
        return Client(self.server, mode="legacy", elicitation_handler=handler, **options)

    async def execute(self, script: str, person: Person | None = None, **arguments: Any) -> Answer:
        """The envelope of one script."""
        async with self.client(person) as client:
            return await run(client, script, **arguments)

    def decisions(self) -> list[tuple[Any, Any]]:
        """What the record says of approvals: who decided, and how."""
        return [
            (event.fields["by"], event.fields["decision"]) for event in self.events if event.name == "codecall.approval"
        ]


async def run(client: Client[Any], script: str, **arguments: Any) -> Answer:
    """The envelope of one script."""
    result = await client.call_tool("codecall:execute", {"script": script, **arguments})
    assert result.structured_content is not None
    return result.structured_content


class Person:
    """Answers each question with the next of `answers`, or else the last of them: a decision, with how many calls, or
    the name of an action."""

    def __init__(self, *answers: str | tuple[str, int]) -> None:
        self.answers = list(answers)
        self.questions: list[str] = []
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.asked = asyncio.Event()

    async def answer(self, message: str, _type: Any, _params: ElicitRequestFormParams, _context: Any) -> Any:
        """FastMCP's `elicitation_handler`."""
        self.questions.append(message)
        self.asked.set()
        await self.may_answer.wait()
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if answer in ("cancel", "decline"):
            return ElicitResult(action=answer)
        decision, calls = answer if isinstance(answer, tuple) else (answer, 1)
        return ElicitResult(action="accept", content={"decision": decision, "calls": calls})
