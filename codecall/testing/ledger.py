"""What happened in one test: the calls its scripts made, and what went wrong with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import Final, Literal

from codecall.errors import Called
from codecall.testing.calls import Call, Calls

Wrong = Literal["undeclared", "invalid_input", "unused", "answer", "recording", "failed"]
"""What fails a test: a call without a stub; input the schema refuses; a stub used too rarely; a stub that could not
answer; a call that is not as recorded; a script that failed while nobody looked. The first three and the last can be
allowed."""

_MAX_LISTED: Final = 10
"""Names that one line lists."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that fails the test."""

    kind: Wrong
    text: str
    """What happened."""
    advice: str = ""
    """What to do about it, or how to allow it; whole lines."""
    cause: BaseException | None = None
    """What a callable of the test raised, to be raised again."""


class Ledger:
    """The calls of one test, and its problems."""

    def __init__(self) -> None:
        self.allowed: set[Wrong] = set()
        """What does not fail the test."""
        self._problems: list[Problem] = []
        self._told = 0
        self._calls: list[Call] = []
        self._moments = count(1)

    @property
    def calls(self) -> Calls:
        """Every call so far."""
        return Calls(tuple(self._calls))

    def begin(self, kind: Called, name: str, given: dict[str, object]) -> Call:
        """A script calls."""
        call = Call(len(self._calls) + 1, kind, name, given, next(self._moments))
        self._calls.append(call)
        return call

    def end(self, call: Call, outcome: str) -> None:
        """It has its answer."""
        call.outcome = outcome
        call.ended = next(self._moments)

    def note(self, kind: Wrong, text: str, advice: str = "", *, cause: BaseException | None = None) -> None:
        """Something went wrong: what, and what to do about it."""
        self._problems.append(Problem(kind, text, advice, cause))

    def failures(self) -> list[Problem]:
        """What fails the test so far."""
        return [problem for problem in self._problems if problem.kind not in self.allowed]

    def untold(self) -> list[Problem]:
        """Those of `failures` that were not asked for before."""
        told, self._told = self._told, len(self._problems)
        return [problem for problem in self._problems[told:] if problem.kind not in self.allowed]


def told(problems: Sequence[Problem]) -> str:
    """Problems for a person to read; the same advice is given once."""
    lines: list[str] = []
    for problem, following in zip(problems, [*problems[1:], None], strict=False):
        lines.append(problem.text)
        if problem.advice and (following is None or following.advice != problem.advice):
            lines.append(problem.advice)
    return "\n".join(lines)


def listed(names: Sequence[str]) -> str:
    """Names in one line; it says how many more there are."""
    more = f" and {len(names) - _MAX_LISTED} more" if len(names) > _MAX_LISTED else ""
    return f"{', '.join(names[:_MAX_LISTED])}{more}"
