"""Which lines of a script ran, as its worker tells: asked for by those who test scripts."""

from __future__ import annotations

from collections.abc import Sequence

from codecall.errors import MessageValidationError
from codecall.sandbox import wire


class Ran:
    """The lines of one script that ran so far."""

    def __init__(self) -> None:
        self._lines: set[int] = set()
        self._last = 0

    def expect(self, start: wire.Start) -> None:
        """A script begins; where nobody asked for its lines, none may be told."""
        self._last = start.script.count("\n") + 1 if start.coverage else 0

    def add(self, lines: Sequence[int]) -> None:
        """The worker says that these lines ran.

        Raises:
            MessageValidationError: the script has no such line, or nobody asked.
        """
        if lines:
            if max(lines) > self._last:
                raise MessageValidationError("The worker says that lines ran which cannot have run")
            self._lines.update(lines)

    @property
    def lines(self) -> tuple[int, ...]:
        """In ascending order."""
        return tuple(sorted(self._lines))
