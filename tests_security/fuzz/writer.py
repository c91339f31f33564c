"""What the generator knows while it writes a program: names in reach, what is allowed where, and how deep it is."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from tests_security.fuzz.choices import Choices
from tests_security.fuzz.tokens import BREAKS, GAPS, NAMES

_SPACE, _LINE = "\ue000", "\ue001"
MAX_DEPTH: Final = 6
"""Deepest nesting of what is generated."""


@dataclass(frozen=True)
class Place:
    """What may be written here."""

    asynchronous: bool = True
    generator: bool = False
    function: bool = False
    this: bool = False
    arguments: bool = False
    superclass: bool = False
    loop: bool = False
    switch: bool = False
    labels: tuple[str, ...] = ()
    private: tuple[str, ...] = ()
    loops_around: int = 0


@dataclass
class Variable:
    """A name in reach."""

    name: str
    kind: str
    mutable: bool = False


@dataclass
class Writer:
    """One program being written."""

    choices: Choices
    place: Place = field(default_factory=Place)
    depth: int = 0
    _scopes: list[list[Variable]] = field(default_factory=lambda: [[]])
    _used: set[str] = field(default_factory=set)
    _marks: int = 100

    def reserve(self, *names: str) -> None:
        """No variable of the program gets one of `names`."""
        self._used.update(names)

    def fresh(self) -> str:
        """A name for a new variable; now and then one that hides another."""
        name = self.choices.pick(NAMES)
        if name in self._used and not (self.depth > 1 and self.choices.once_in(12)):
            stem, number = name, 2
            while name in self._used:
                name = f"{stem}{number}"
                number += 1
        self._used.add(name)
        return name

    def declare(self, name: str, kind: str, *, mutable: bool = False) -> None:
        """`name` is in reach from here to the end of the scope."""
        self._scopes[-1].append(Variable(name, kind, mutable))

    def variables(self, *kinds: str, mutable: bool = False) -> list[str]:
        """Names in reach of one of `kinds` (any when none is given), the latest first."""
        seen: dict[str, Variable] = {}
        for scope in reversed(self._scopes):
            for variable in reversed(scope):
                seen.setdefault(variable.name, variable)
        return [
            name
            for name, variable in seen.items()
            if (not kinds or variable.kind in kinds) and (variable.mutable or not mutable)
        ]

    @contextlib.contextmanager
    def scope(self, **changes: object) -> Iterator[None]:
        """A scope of its own, in a place changed so."""
        outer = self.place
        self.place = replace(outer, **changes)  # type: ignore[arg-type]
        self._scopes.append([])
        self.depth += 1
        try:
            yield
        finally:
            self.depth -= 1
            self._scopes.pop()
            self.place = outer

    def function_scope(
        self, *, asynchronous: bool = False, generator: bool = False, arrow: bool = False, method: bool = False
    ) -> contextlib.AbstractContextManager[None]:
        """The scope of a function."""
        place = self.place
        return self.scope(
            asynchronous=asynchronous,
            generator=generator,
            function=True,
            this=place.this if arrow else True,
            arguments=place.arguments if arrow else True,
            superclass=place.superclass if arrow or method else False,
            loop=False,
            switch=False,
            labels=(),
        )

    @property
    def shallow(self) -> bool:
        """Whether there is room and data for something nested."""
        return self.depth < MAX_DEPTH and self.choices.left > 0

    def mark(self) -> str:
        """A number that no other mark has."""
        self._marks += 1
        return str(self._marks)


def literal(text: str) -> str:
    """`text` as part of a literal: its blanks and line ends stay as they are."""
    return text.replace(" ", _SPACE).replace("\n", _LINE)


def render(text: str, choices: Choices, *, odd: bool) -> str:
    """The program's text; `odd`: with gaps and line ends that are legal but strange."""
    if odd:
        text = re.sub(r"[ \n]", lambda found: choices.pick(GAPS if found[0] == " " else BREAKS), text)
    return text.replace(_SPACE, " ").replace(_LINE, "\n")
