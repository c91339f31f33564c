"""What became of each call of one script, kept by the server: names, outcomes and times, never values."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from codecall.errors import Called

MAX_NAMES: Final = 5
"""Different names that one list of a summary has; it says how many more there were."""

MAX_NAME_SHOWN: Final = 60
"""Most characters of a name, and of a code, in a summary."""


MAX_SUMMARY: Final = 320
"""Most characters of a summary; what is beyond is cut with a mark."""


@dataclass(slots=True)
class Entry:
    """One call that was started."""

    called: Called
    name: str
    """The tool's or the prompt's name, or the URI of a resource."""
    started: float = field(default_factory=time.perf_counter)
    """In seconds of `time.perf_counter`."""
    ended: float | None = None
    """The same; None while it runs, and for good of a call that was given up."""
    code: str | None = None
    """The error's code, of a call that failed."""

    def end(self, code: str | None = None) -> None:
        """It has ended: well, or with an error of this code."""
        self.ended, self.code = time.perf_counter(), code


@dataclass(slots=True)
class Ledger:
    """The calls of one script."""

    entries: dict[int, Entry] = field(default_factory=dict[int, Entry])
    """By their number, in the order in which they were started."""

    def start(self, number: int, called: Called, name: str) -> Entry:
        """A call begins."""
        entry = self.entries[number] = Entry(called, name)
        return entry

    def summary(self, made: int, told: int | None = None) -> str:
        """What the calls came to, in one sentence for the hint of a script that failed; empty where nothing is to tell.

        Args:
            made: Calls the script had made, those that were never started among them.
            told: Number of the call whose failure is the script's own, which is told elsewhere.
        """
        done: list[str] = []
        failed: list[str] = []
        running: list[str] = []
        now = time.perf_counter()
        for number, entry in self.entries.items():
            name = _short(entry.name)
            if entry.ended is None:
                running.append(f"{name} for {now - entry.started:.1f} s")
            elif entry.code is None:
                done.append(name)
            elif number != told:
                failed.append(f"{name} ({_short(entry.code)})")
        said = [
            *_part(done, "had completed and {is} not undone"),
            *_part(failed, "had failed"),
            *_part(running, "{was} still running and may have taken effect"),
        ]
        if waiting := made - len(self.entries):
            said.append(f"{_counted(waiting)} {'was' if waiting == 1 else 'were'} never started")
        text = f"{'; '.join(said)}." if said else ""
        return text if len(text) <= MAX_SUMMARY else f"{text[: MAX_SUMMARY - 1]}…"


def _part(names: list[str], what: str) -> list[str]:
    if not names:
        return []
    grammar = {"is": "is", "was": "was"} if len(names) == 1 else {"is": "are", "was": "were"}
    return [f"{_counted(len(names))} {what.format_map(grammar)}: {_listed(names)}"]


def _counted(count: int) -> str:
    return "1 tool call" if count == 1 else f"{count} tool calls"


def _short(name: str) -> str:
    return name if len(name) <= MAX_NAME_SHOWN else f"{name[:MAX_NAME_SHOWN]}…"


def _listed(names: Iterable[str]) -> str:
    counted = Counter(names)
    shown = [name if count == 1 else f"{count} of {name}" for name, count in list(counted.items())[:MAX_NAMES]]
    more = len(counted) - len(shown)
    return ", ".join(shown) + (f" and {more} more names" if more else "")
