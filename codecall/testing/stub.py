"""One stub: what it stands for, which calls it answers, and whether it was used as often as it says."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from codecall.errors import Called
from codecall.testing.answers import Answer
from codecall.testing.calls import Call, Calls, short
from codecall.testing.wording import IN_TESTS, Wording

__tracebackhide__ = True  # pytest: tracebacks of tests end in the tests

When = dict[str, Any] | Callable[[dict[str, Any]], object]
"""Which calls a stub answers: those whose input has these keys with these values, or for which this is true."""


@dataclass(slots=True, eq=False, repr=False, kw_only=True)
class Stub:
    """One declared tool, resource or prompt. Made by `tool_stub(...)` and its like."""

    kind: Called
    """`tool`, `resource`, `prompt` or `result`."""
    name: str
    """Its name or URI; for a resource perhaps a glob."""
    answer: Answer
    """What answers its calls."""
    fixed: tuple[object] | None = None
    """The value of each answer, if it is always the same."""
    delay_ms: float = 0
    """Milliseconds before each answer."""
    when: When | None = None
    """Which calls it answers; None: all of its name."""
    times: int | None = None
    """How many calls it answers; None: any number, at least one."""
    optional: bool = False
    """Whether fewer calls are fine, none included."""
    check_output: bool = True
    """Whether its answers must fit the tool's output schema."""
    wording: Wording = IN_TESTS
    """The words of the place where it was declared."""
    place: str = ""
    """That place: file and line."""
    answered: list[Call] = field(default_factory=list[Call])
    """The calls it answered, as they came."""

    @property
    def calls(self) -> Calls:
        """The calls it answered."""
        return Calls(tuple(self.answered))

    def assert_called_once_with(self, arguments: dict[str, object] | None = None, /, **named: object) -> None:
        """Fail unless it answered exactly one call, with that input: `({"limit": 5})` or `(limit=5)`.

        Raises:
            AssertionError: it answered none, several, or another.
        """
        self.calls.assert_called_once_with(arguments, **named)

    def stands_for(self, kind: Called, name: str) -> bool:
        """Whether it is a stub of that name at all, whatever the input."""
        return self.kind == kind and (self.name == name or (kind == "resource" and fnmatchcase(name, self.name)))

    def takes(self, given: dict[str, Any]) -> bool:
        """Whether it answers calls with that input.

        Raises:
            Exception: what the test's own callable raised.
        """
        if self.when is None:
            return True
        if callable(self.when):
            return bool(self.when(given))
        return all(key in given and _equal(value, given[key]) for key, value in self.when.items())

    @property
    def spent(self) -> bool:
        """Whether it has answered as many calls as it may."""
        return self.times is not None and len(self.answered) >= self.times

    def shortfall(self) -> str | None:
        """How it was used too rarely, in words; None when it was not."""
        made = len(self.answered)
        if self.optional or (made > 0 and (self.times is None or made >= self.times)):
            return None
        used = f"called {made} of {self.times} times" if made else "never called"
        return f"{self!r} was {used} (declared at {self.place})"

    def __repr__(self) -> str:
        text = self.wording.stub.format(kind=self.kind, name=self.name)
        if self.wording is not IN_TESTS:
            return text if self.when is None else f"{text} {short(self.when)} -> …"
        if self.when is None:
            return f"{text})"
        return f"{text}, when={self.when!r})" if callable(self.when) else f"{text}, when={short(self.when)})"


def caller() -> str:
    """Where the code stands that uses this package: file and line."""
    frame = inspect.currentframe()
    while frame is not None and str(frame.f_globals.get("__name__")).startswith("codecall.testing"):
        frame = frame.f_back
    return "" if frame is None else f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"


def _equal(expected: object, given: object) -> bool:
    """Python's equality, with which `unittest.mock.ANY` works; but True is not 1."""
    if isinstance(expected, (bool, int, float)) and isinstance(expected, bool) != isinstance(given, bool):
        return False
    return expected == given
