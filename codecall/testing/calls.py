"""The calls a script made, compared as plain Python: `calls.names == [...]`, `calls == [(name, input), ...]`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Final, cast, overload

from codecall.errors import CallKind, CodeCallError
from codecall.wording import join_names

_MAX_VALUE_CHARS: Final = 200
"""Most characters of an input or a value that a message shows."""

_MAX_LINES: Final = 50
"""Most calls that a message shows."""

_MAX_CONCURRENT: Final = 5
"""Most numbers of concurrent calls that a message shows for one call."""


@dataclass(slots=True, eq=False)
class Call:
    """One call of a script. Compares equal to a tuple `(name, input)`."""

    number: int
    """From 1, in the order in which the calls of the test began."""
    kind: CallKind
    """`tool`, `resource` (`readResource`), `prompt` (`getPrompt`) or `result` (`getResult`)."""
    name: str
    """The tool's name, the resource's URI, the prompt's name, or the handle."""
    input: dict[str, object]
    """What the script gave it; empty for a resource."""
    started: int
    """When it began: a number that grows with each beginning and each end of a call in the test."""
    ended: int | None = None
    """When it ended, counted as `started` is; None while it runs."""
    outcome: str = "pending"
    """`ok`; the code of the error it ended with; `cancelled` when the script ended first; `pending` while it runs."""
    value: object = None
    """What the script got, as JSON data; None when the call failed."""
    error: CodeCallError | None = None
    """What the call failed with."""
    raised: str | None = None
    """What a function of the test raised, and where: its type, message, file and line."""

    def overlaps(self, other: Call) -> bool:
        """Whether both ran at the same time, for a while at least."""
        return self is not other and _before(self.started, other.ended) and _before(other.started, self.ended)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, tuple):
            return (self.name, self.input) == cast("tuple[object, ...]", other)
        return self is other

    __hash__ = None  # pyright: ignore[reportAssignmentType] - equal to tuples, whose hashes its own could not match

    def __repr__(self) -> str:
        arguments = "" if self.kind == "resource" else abbreviate(self.input)
        raised = f" ({self.raised})" if self.raised else ""
        end = abbreviate(self.value) if self.outcome == "ok" else f"{self.outcome}{raised}"
        return f"{self.name}({arguments}) -> {end}"


@dataclass(frozen=True, slots=True, eq=False)
class Calls(Sequence[Call]):
    """Calls in the order in which they began. Equal to a list of `(name, input)` that says the same."""

    items: tuple[Call, ...] = field(default=())
    """The calls."""

    def of(self, name: str) -> Calls:
        """The calls of that name, URI or glob (`users:*`)."""
        return Calls(tuple(item for item in self.items if item.name == name or fnmatchcase(item.name, name)))

    @property
    def names(self) -> list[str]:
        """The name or URI of each."""
        return [item.name for item in self.items]

    @property
    def inputs(self) -> list[dict[str, object]]:
        """The input of each."""
        return [item.input for item in self.items]

    @property
    def outcomes(self) -> list[str]:
        """How each ended: `ok`, the code of an error, `cancelled`."""
        return [item.outcome for item in self.items]

    @property
    def by_end(self) -> Calls:
        """The same calls in the order in which they ended; those that did not end come last."""
        return Calls(tuple(sorted(self.items, key=lambda item: (item.ended is None, item.ended))))

    @property
    def overlaps(self) -> list[tuple[Call, Call]]:
        """Each pair that ran at the same time."""
        return [
            (first, second)
            for index, first in enumerate(self.items)
            for second in self.items[index + 1 :]
            if first.overlaps(second)
        ]

    @property
    def max_concurrent(self) -> int:
        """The most of them that ran at any one time; 1 when they ran one after the other, 0 when there are none."""
        return max((sum(_runs_at(other, item.started) for other in self.items) for item in self.items), default=0)

    def assert_called_once_with(self, arguments: dict[str, object] | None = None, /, **named: object) -> None:
        """Fail unless there is exactly one call, and its input is `arguments` with `named` added.

        Raises:
            AssertionError: there is none, there are several, or the input is another.
        """
        __tracebackhide__ = True
        expected = {**(arguments or {}), **named}
        if len(self.items) != 1:
            raise AssertionError(f"one call with {abbreviate(expected)} was expected; there are {self!r}")
        if self.items[0].input != expected:
            raise AssertionError(f"expected: {abbreviate(expected)}\n     got: {abbreviate(self.items[0].input)}")

    @overload
    def __getitem__(self, index: int) -> Call: ...
    @overload
    def __getitem__(self, index: slice) -> Calls: ...
    def __getitem__(self, index: int | slice) -> Call | Calls:
        return Calls(self.items[index]) if isinstance(index, slice) else self.items[index]

    def __len__(self) -> int:
        return len(self.items)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Calls):
            return [*map(_pair, self.items)] == [*map(_pair, other.items)]
        if isinstance(other, (list, tuple)):
            return [*map(_pair, self.items)] == [*cast("Iterable[object]", other)]
        return NotImplemented

    __hash__ = None  # pyright: ignore[reportAssignmentType] - equal to lists, which have none

    def __repr__(self) -> str:
        if not self.items:
            return "no calls"
        return "\n".join([f"{len(self.items)} call{'s' * (len(self.items) > 1)}:", *self.lines()])

    def lines(self) -> list[str]:
        """One line a call for a person to read, with the numbers of the calls that ran beside it. It says how many more
        there are."""
        lines: list[str] = []
        for item in self.items[:_MAX_LINES]:
            concurrent = [str(other.number) for other in self.items if item.overlaps(other)]
            suffix = f"  (beside {join_names(concurrent, _MAX_CONCURRENT)})" if concurrent else ""
            lines.append(f"  {item.number} {item!r}{suffix}")
        if len(self.items) > _MAX_LINES:
            lines.append(f"  … {len(self.items) - _MAX_LINES} more")
        return lines


def abbreviate(value: object) -> str:
    """JSON data for a person to read; of long text the first characters and the number of all."""
    text = json.dumps(value, ensure_ascii=False, default=repr)
    return text if len(text) <= _MAX_VALUE_CHARS else f"{text[:_MAX_VALUE_CHARS]}… ({len(text)} characters)"


def compare_calls(calls: Calls, expected: object) -> list[str] | None:
    """The lines that pytest shows when `calls == expected` is false; None when `expected` is no list."""
    if not isinstance(expected, (list, tuple, Calls)):
        return None
    expected_lines = [_format_pair(item) for item in cast("Iterable[object]", expected)]
    actual_lines = [_format_pair(item) for item in calls]
    lines = ["the calls are others than expected"]
    for index in range(max(len(expected_lines), len(actual_lines))):
        left = expected_lines[index] if index < len(expected_lines) else None
        right = actual_lines[index] if index < len(actual_lines) else None
        if left == right:
            lines.append(f"    {left}")
        else:
            lines += [f"  - {left}  (expected)"] if left is not None else []
            lines += [f"  + {right}  (made)"] if right is not None else []
    return lines


def _pair(item: Call) -> tuple[str, dict[str, object]]:
    return item.name, item.input


def _format_pair(item: object) -> str:
    if isinstance(item, Call):
        return f"{item.name}({abbreviate(item.input)})"
    match item:
        case (str() as name, arguments):  # pyright: ignore[reportUnknownVariableType]
            return f"{name}({abbreviate(cast('object', arguments))})"
        case _:
            return repr(item)


def _before(started: int, ended: int | None) -> bool:
    return ended is None or started < ended


def _runs_at(item: Call, moment: int) -> bool:
    return item.started <= moment and _before(moment, item.ended)
