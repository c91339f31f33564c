"""The server whose scripts are tested here: a help desk of eight tickets. Any FastMCP server would do."""

from __future__ import annotations

from typing import Annotated, Literal

from fastmcp import FastMCP
from fastmcp.exceptions import ToolError
from pydantic import BaseModel, Field

Status = Literal["open", "waiting", "closed"]


class Ticket(BaseModel):
    """One request of a customer."""

    id: int
    subject: str
    status: Status
    priority: Literal["low", "normal", "high"]
    agent: str | None = Field(description="Who works on it")
    idle_days: int = Field(description="Days since anything happened")


class Agent(BaseModel):
    """Somebody who works on tickets."""

    name: str
    away: bool


class Page(BaseModel):
    """Tickets, page by page."""

    tickets: list[Ticket]
    next_offset: int | None


ROWS: list[tuple[str, Status, Literal["low", "normal", "high"], str | None, int]] = [
    ("Cannot log in", "open", "high", "ann", 1),
    ("Invoice has the wrong address", "open", "normal", "bob", 12),
    ("Export stops at 1,000 rows", "waiting", "normal", "ann", 30),
    ("Dark mode", "open", "low", None, 45),
    ("Charged twice", "open", "high", None, 3),
    ("Typo on the front page", "closed", "low", "bob", 60),
    ("Webhook is late", "open", "normal", "cleo", 9),
    ("App crashes at start", "open", "high", None, 0),
]


def create() -> FastMCP[None]:
    """A help desk in its first state."""
    tickets = {
        number: Ticket(id=number, subject=subject, status=status, priority=priority, agent=agent, idle_days=idle)
        for number, (subject, status, priority, agent, idle) in enumerate(ROWS, 1)
    }
    agents = [Agent(name="ann", away=False), Agent(name="bob", away=False), Agent(name="cleo", away=True)]
    desk: FastMCP[None] = FastMCP("helpdesk")

    @desk.tool
    def tickets_list(
        status: Status | None = None,
        limit: Annotated[int, Field(ge=1, le=50)] = 3,
        offset: Annotated[int, Field(ge=0)] = 0,
    ) -> Page:
        """List tickets page by page, of one status or of all."""
        found = [ticket for ticket in tickets.values() if status in (None, ticket.status)]
        following = offset + limit
        return Page(tickets=found[offset:following], next_offset=following if following < len(found) else None)

    @desk.tool
    def tickets_assign(id: int, agent: str) -> Ticket:  # noqa: A002 - the parameter's name on the wire
        """Give a ticket to an agent."""
        if id not in tickets:
            raise ToolError(f'{{"code": "NO_SUCH_TICKET", "message": "There is no ticket {id}"}}')
        tickets[id].agent = agent
        return tickets[id]

    @desk.tool
    def agents_list() -> list[Agent]:
        """List the agents."""
        return agents

    @desk.tool
    def reports_session(user: str, password: str) -> dict[str, str]:
        """Begin a session of the report service."""
        return {"user": user, "token": f"rs-{len(password):02}-5f2b81c09d44"}

    @desk.tool
    def reports_publish(token: str, title: str, lines: list[str]) -> dict[str, str | int]:
        """Publish a report; the token is that of a session."""
        if not token.startswith("rs-"):
            raise ToolError(f'{{"code": "NO_SESSION", "message": "The token {token} is not known"}}')
        return {"url": f"https://reports.example/{title.lower().replace(' ', '-')}", "lines": len(lines)}

    @desk.resource("desk://targets")
    def targets() -> dict[str, int]:
        """After how many idle days a ticket of each priority is late."""
        return {"high": 2, "normal": 7, "low": 30}

    return desk
