"""One question for all calls that the text of a script names, asked before its first call (`ask_first`).

What the text says of a script is no promise. So each call is held against the rules again when it is made, and what is
allowed here are grants as any others: for so many calls of a tool, with the arguments that the person was shown.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from mcp_types import ElicitResult

from codecall.approvals.elicitation import UnansweredError
from codecall.approvals.request import (
    DEFAULT_CALLS,
    MAX_GRANTED_CALLS,
    ApprovalRequest,
    Match,
    describe_input,
)
from codecall.approvals.rules import RuleSet
from codecall.catalog.entries import CatalogEntry
from codecall.globs import display_name
from codecall.redaction.questions import MAX_SHOWN_CHARS, visible
from codecall.sandbox.interfaces import Foresee, PlannedCall

MAX_GROUPS: Final = 20
"""Most groups of calls in one question; what is not among them is asked for when it is called."""

ALLOW: Final = "allow these calls"
EACH: Final = "ask for each call"
STOP: Final = "deny and stop the run"


class PlannedCalls:
    """The calls that a script names, looked up once, and not before somebody needs to know.

    Args:
        foresee: Gives them; None: there is no script.
    """

    def __init__(self, foresee: Foresee | None = None) -> None:
        self._foresee = foresee
        self._calls: Sequence[PlannedCall] | None = None

    async def calls(self) -> Sequence[PlannedCall]:
        """They, in the order of the script."""
        if self._calls is None:
            self._calls = await self._foresee() if self._foresee is not None else ()
        return self._calls

    async def count(self, tool: str) -> int:
        """How many calls of a tool the script is certain to make; 0: that is not known."""
        calls = [call for call in await self.calls() if call.tool == tool]
        return len(calls) if all(call.certain for call in calls) else 0

    async def fixed(self, tool: str, line: int | None, arguments: Mapping[str, object]) -> tuple[str, ...]:
        """The names of the arguments that the script spells out in this line; none if these are all there are."""
        known = [set(call.fixed) for call in await self.calls() if (call.tool, call.line) == (tool, line)]
        names = tuple(sorted(set[str].intersection(*known) & set(arguments))) if known else ()
        return names if len(names) < len(arguments) and Match.of_part(arguments, names) is not None else ()


FindEntry = Callable[[str], Awaitable[CatalogEntry | None]]
"""Gives the tool of a name, if it may be called."""


@dataclass(slots=True)
class PlannedGroup:
    """Calls of one tool with the same known arguments."""

    entry: CatalogEntry
    rule: int
    """Number of the rule that asks for them."""
    match: Match | None
    """The arguments that are known; None: none are, or too many."""
    arguments: Mapping[str, object]
    """They, with credentials masked."""
    lines: list[int]
    certain: bool = True
    """Whether every run makes them all, and no others."""

    @property
    def server(self) -> str:
        """The server or app of the tool."""
        return self.entry.server

    @property
    def proposed(self) -> int:
        """How many calls the form proposes."""
        return min(MAX_GRANTED_CALLS, len(self.lines) if self.certain else max(DEFAULT_CALLS, len(self.lines)))

    def request(self, caller: str, run_id: str) -> ApprovalRequest:
        """The group as `details` of an error has it: its first call."""
        return ApprovalRequest(self.entry.name, self.server, self.arguments, self.rule, caller, run_id, self.lines[0])

    def shown(self) -> str:
        """The group as a person is shown it."""
        lines = ", ".join(map(str, self.lines))
        count = str(len(self.lines)) if self.certain else "not known"
        head = (
            f"Tool: {visible(display_name(self.entry.name))}\nServer: {visible(display_name(self.server))}\n"
            f"Lines of the script: {lines}\nNumber of calls: {count}\n"
        )
        if self.match is None:
            return f"{head}Input: any\n"
        return f"{head}Arguments, others may be anything:\n\n{self.match.shown}\n"


async def planned_groups(calls: Sequence[PlannedCall], rules: RuleSet, find: FindEntry) -> list[PlannedGroup]:
    """Those of the calls that a rule may ask for, by tool and known arguments, in the order of the script."""
    entries: dict[str, CatalogEntry | None] = {}
    groups: dict[tuple[str, str], PlannedGroup] = {}
    for call in calls:
        if call.tool not in entries:
            entries[call.tool] = await find(call.tool)
        entry = entries[call.tool]
        if entry is None or not (rule := rules.may_ask(entry)):
            continue
        match = Match.of_part(call.fixed, tuple(sorted(call.fixed))) if call.fixed else None
        key = entry.name, match.digest if match is not None else ""
        if (group := groups.get(key)) is None:
            masked = describe_input(call.fixed).masked if match is not None else {}
            groups[key] = group = PlannedGroup(entry, rule, match, masked, [])
        group.lines.append(call.line)
        group.certain &= call.certain
    return list(groups.values())


def question(groups: Sequence[PlannedGroup]) -> tuple[str, list[PlannedGroup]]:
    """The text that a person is shown, and the groups that it is about."""
    listed: list[PlannedGroup] = []
    parts: list[str] = []
    size = 0
    for group in groups[:MAX_GROUPS]:
        part = f"Calls {len(listed) + 1}\n\n{group.shown()}"
        size += len(part)
        if size > MAX_SHOWN_CHARS:
            break
        listed.append(group)
        parts.append(part)
    text = "A script asks for calls of tools. May they be made?\n\n" + "\n".join(parts)
    if len(groups) > len(listed):
        text += f"\nMore calls, which are asked for when they are made: {len(groups) - len(listed)}\n"
    return text, listed


def form(groups: Sequence[PlannedGroup]) -> dict[str, Any]:
    """The form that a person fills in: a decision, and how many calls of each group."""
    numbers = {
        _field(number): {
            "type": "integer",
            "title": f"Calls {number}",
            "description": "How many of them are allowed in this run; 0: ask for each.",
            "minimum": 0,
            "maximum": MAX_GRANTED_CALLS,
            "default": group.proposed,
        }
        for number, group in enumerate(groups, 1)
    }
    decision = {"type": "string", "title": "Decision", "enum": [ALLOW, EACH, STOP]}
    return {"type": "object", "properties": {"decision": decision, **numbers}, "required": ["decision"]}


def read_form(result: ElicitResult, groups: Sequence[PlannedGroup]) -> list[int] | None:
    """How many calls of each group are allowed; None: the run is to end. What is no answer to the form allows nothing.

    Raises:
        UnansweredError: the question was dismissed.
    """
    if result.action == "cancel":
        raise UnansweredError("the question was dismissed")
    content = result.content or {}
    decision = content.get("decision") if result.action == "accept" else STOP
    if decision not in (ALLOW, EACH):
        return None
    if decision == EACH:
        return [0] * len(groups)
    return [_count(content.get(_field(number), group.proposed)) for number, group in enumerate(groups, 1)]


def _field(number: int) -> str:
    return f"calls-{number}"


def _count(said: object) -> int:
    return int(said) if isinstance(said, int | float) and 0 <= said <= MAX_GRANTED_CALLS else 0
