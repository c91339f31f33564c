"""What a realm keeps of its script's calls, for the case that the script fails: where each was made, and the last
answers. Nothing here is parsed, and little is kept, until then."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import msgspec

from codecall.sandbox.wire import Answer

MAX_SITES: Final = 16
"""Places in the script of which the last answer is kept."""

MAX_KEPT_CHARS: Final = 512 * 1024
"""Characters of answers that are kept in all. A longer answer is not, and the oldest make room for the newest."""


class Made(msgspec.Struct):
    """One call, as the prelude tells it, and what became of it."""

    name: str
    stack: str
    """What the engine said of where it was made."""
    wrapped: bool
    """Whether the script gets `{success: true, data}` of it."""
    reference: bool = False
    """Whether the script asked for a reference to its value."""
    number: int = 0
    payload: str | None = None
    """JSON text of its answer, while that is kept; of the error, when it failed."""
    failed: bool = False

    def value(self) -> object:
        """The answer as the script got it.

        Raises:
            msgspec.MsgspecError, RecursionError: it cannot be read.
        """
        value: object = msgspec.json.decode(self.payload or "null")
        return {"success": True, "data": value} if self.wrapped else value


@dataclass(slots=True)
class Journal:
    """The calls of one script."""

    open: dict[int, Made] = field(default_factory=dict[int, Made])
    """By number: those that wait for an answer, and those that failed."""
    kept: dict[tuple[str, str], Made] = field(default_factory=dict[tuple[str, str], Made])
    """The last answers, one of each place and name, the newest last."""
    chars: int = 0

    def made(self, number: int, call: Made) -> None:
        """The script made a call."""
        call.number = number
        self.open[number] = call

    def answered(self, answer: Answer) -> None:
        """A call ended."""
        call = self.open[answer.call]
        call.payload, call.failed = answer.payload, not answer.ok
        if call.failed:
            return
        del self.open[answer.call]
        site = (call.stack, call.name)
        self._drop(site)
        if len(answer.payload) > MAX_KEPT_CHARS:
            return
        self.kept[site] = call
        self.chars += len(answer.payload)
        while len(self.kept) > MAX_SITES or self.chars > MAX_KEPT_CHARS:
            self._drop(next(iter(self.kept)))

    def _drop(self, site: tuple[str, str]) -> None:
        if (old := self.kept.pop(site, None)) is not None:
            self.chars -= len(old.payload or "")
