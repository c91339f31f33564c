"""What an expression of a failed script really was: the way that its tracing says, gone in the answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, cast

import msgspec

from codecall.sandbox.agentscript.grammar import Node
from codecall.sandbox.agentscript.journal import Journal, Made
from codecall.sandbox.agentscript.policy import GLOBALS, NAMES_A_CALL
from codecall.sandbox.agentscript.tracing import Path, Reading, Step

MAX_VALUES: Final = 200
"""Values that are followed where a way leads to each item of a list."""


class Undefined:
    """What JavaScript has where there is nothing."""


UNDEFINED: Final = Undefined()


@dataclass(frozen=True, slots=True)
class Sight:
    """What an expression was, if it came from this answer."""

    tool: str
    """The name that was called."""
    answer: object
    """What the call gave, as decoded JSON."""
    values: list[object]
    """What the expression may have been: more than one, where the way leads to some item of a list."""
    parents: list[object]
    """What the last step was taken from; empty where there was none."""
    path: Path
    """The way from the answer to the value."""


class Evidence:
    """The answers of one script, seen from its text.

    Args:
        reading: The script.
        journal: Its calls.
        offsets: Where each call was made, as characters of the script, by number; where that is known.
    """

    def __init__(self, reading: Reading, journal: Journal, offsets: Mapping[int, int]) -> None:
        self.reading = reading
        self._made: list[tuple[Made, Node]] = []
        for made in reversed(journal.kept.values()):
            if (offset := offsets.get(made.number)) is not None and (call := self.call_at(offset)) is not None:
                self._made.append((made, call))
        self._values: dict[int, object] = {}

    def call_at(self, offset: int) -> Node | None:
        """The call of a tool in the script over this place."""
        calls = self.reading.around(offset, "CallExpression")
        return next((call for call in calls if asks_outside(self.reading, call.callee)), None)

    def sights(self, node: Node | None, further: Path = ()) -> Iterator[Sight]:
        """What an expression was, or is some steps further, for each answer that it may have come from; the newest
        first."""
        for origin in self.reading.origins(node):
            for made, call in self._made:
                if call is not origin.call:
                    continue
                if made.number not in self._values:
                    try:
                        self._values[made.number] = made.value()
                    except (msgspec.MsgspecError, RecursionError):
                        self._values[made.number] = UNDEFINED
                answer = self._values[made.number]
                way = _from_answer(origin.path + further)
                if answer is not UNDEFINED and way is not None and (found := follow(answer, way)) is not None:
                    yield Sight(made.name, answer, *found, way)


def asks_outside(reading: Reading, callee: Node) -> bool:
    """Whether a call of this goes to the server: `callTool` and its kin, `tools["x"]`, or a member of a namespace."""
    if callee.type == "Identifier":
        return callee.name in NAMES_A_CALL
    root = callee
    while root.type == "MemberExpression":
        root = root.object
    if root is callee or root.type != "Identifier" or reading.declares(root.name):
        return False
    row = GLOBALS.get(root.name)
    return row is None or row.verdict == "refused" or root.name == "tools"


def follow(answer: object, path: Path) -> tuple[list[object], list[object]] | None:
    """The values at the end of a way, and what the last step was taken from; None where a step before it fails."""
    values, parents = [answer], list[object]()
    for step in path:
        if any(value is UNDEFINED or value is None for value in values):
            # Of some, the way goes on; reading from the others was the script's mistake, but an earlier one.
            values = [value for value in values if value is not UNDEFINED and value is not None]
        if not values:
            return None
        parents = values
        values = [below for value in values for below in _below(value, step)][:MAX_VALUES]
    return values, parents


def _below(value: object, step: str | int | Step) -> list[object]:
    """What stands one step further; of some item of a list, all."""
    items = cast("list[object]", value) if isinstance(value, list) else None
    named = cast("dict[str, object]", value) if isinstance(value, dict) else {}
    if isinstance(step, Step):
        some = items if items is not None else list(named.values()) or [UNDEFINED]
        return [*some, UNDEFINED] if step is Step.FOUND else some
    if step == "length" and isinstance(value, list | str):
        return [len(cast("list[object] | str", value))]
    if items is not None and str(step).isdecimal():
        return items[int(step) :][:1] or [UNDEFINED]
    return [named.get(str(step), UNDEFINED)]


def _from_answer(path: Path) -> Path | None:
    """The way from one answer, of a way that may begin with the list of several; None: it does not lead to this one."""
    if not path or path[0] is not Step.GATHERED:
        return path
    if len(path) < 3:
        return None
    place, step = path[1], path[2]
    if step == place or step is Step.EACH or (place is Step.EACH and isinstance(step, int)):
        return path[3:]
    return None
