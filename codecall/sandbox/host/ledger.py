"""What became of each call of one script, kept by the server: names, the beginnings of inputs, outcomes and times, no
results."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from codecall.made_calls import MAX_INPUT_KEPT, MadeCall
from codecall.sandbox import wire

MAX_NAMES: Final = 5
"""Different names that one list of a summary has; it says how many more there were."""

MAX_NAME_SHOWN: Final = 60
"""Most characters of a name, and of a code, in a summary."""

MAX_SUMMARY: Final = 320
"""Most characters of a summary; what is beyond is cut with a mark."""


@dataclass(slots=True)
class Ledger:
    """The calls of one script."""

    calls: dict[int, MadeCall] = field(default_factory=dict[int, MadeCall])
    """By their number, in the order in which the script made them."""

    epoch: int = 0
    """See `MadeCall.epoch`; of the calls that are added next."""

    def add(self, call: wire.Call) -> None:
        """The script has made a call; it will be started when its turn comes."""
        self.calls[call.call] = MadeCall(
            call.call,
            call.kind,
            call.name,
            call.input[:MAX_INPUT_KEPT],
            len(call.input),
            epoch=self.epoch,
            line=call.line,
            column=call.column,
        )

    def summary(self, told: int | None = None) -> str:
        """What the calls came to, in one sentence for the hint of a script that failed; empty where nothing is to tell.

        Args:
            told: Number of the call whose failure is the script's own, which is told elsewhere.
        """
        done: list[str] = []
        failed: list[str] = []
        running: list[str] = []
        waiting = 0
        now = time.perf_counter()
        for number, call in self.calls.items():
            name = _short(call.name)
            if call.started is None:
                waiting += 1
            elif call.ended is None:
                running.append(f"{name} for {now - call.started:.1f} s")
            elif call.code is None:
                done.append(name)
            elif number != told:
                failed.append(f"{name} ({_short(call.code)})")
        said = [
            *_part(done, "had completed and {is} not undone"),
            *_part(failed, "had failed"),
            *_part(running, "{was} still running and may have taken effect"),
        ]
        if waiting:
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
