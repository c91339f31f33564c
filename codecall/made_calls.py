"""The calls that a script made, and how an envelope tells them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from codecall.errors import Called

JsonObject = dict[str, object]

MAX_INPUT_SHOWN: Final = 200
"""Characters of a call's input in the list of calls of a failed run."""

MAX_INPUT_KEPT: Final = 2 * MAX_INPUT_SHOWN
"""Characters that are kept for it: in them credentials are looked for, so that half of one is not shown."""

MAX_TOLD: Final = 100
"""Calls that such a list tells one by one; of the others it tells how many there were."""

MANY: Final = 20
"""Calls beyond which less of their input is shown."""

FEW_CHARS: Final = 80
"""Characters of each input then."""

CallOutcome = Literal["ok", "error", "unfinished", "not_started"]
"""What became of a call. `unfinished`: it was given up while it ran, and may have taken effect."""


@dataclass(slots=True)
class MadeCall:
    """One call that a script made. Changes while the script runs, and no more after."""

    number: int
    """Counts from 1 within the script, whatever is called."""
    called: Called
    name: str
    """The tool's or the prompt's name, or the URI of a resource."""
    input: str = "{}"
    """The beginning of its input, as JSON text; `MAX_INPUT_KEPT` characters."""
    input_chars: int = 2
    """Characters of all of its input."""
    started: float | None = None
    """In seconds of `time.perf_counter`; None before it was."""
    ended: float | None = None
    """The same; None while it runs, and for good of a call that was given up."""
    code: str | None = None
    """The error's code, of a call that failed."""
    result_chars: int = 0
    """Characters of its value, as JSON text."""
    reused: bool = False
    """Answered from the record of an earlier run: nothing was called."""
    kept: bool = True
    """False: its value could not be kept, so that `resumeFrom` makes it again. Says nothing where nothing is kept."""

    epoch: int = 0
    """How often, until it was made, the script had made calls while it waited for no other: calls of the same epoch ran
    side by side."""
    line: int | None = None
    """Where in the script it was made, from 1, by what its worker says; None where that is not known."""
    column: int | None = None
    """The same, in characters of that line."""

    def start(self) -> None:
        """It begins."""
        self.started = time.perf_counter()

    def end(self, code: str | None = None) -> None:
        """It has ended: well, or with an error of this code."""
        self.ended, self.code = time.perf_counter(), code

    @property
    def outcome(self) -> CallOutcome:
        """What became of it, so far."""
        if self.started is None:
            return "not_started"
        if self.ended is None:
            return "unfinished"
        return "ok" if self.code is None else "error"

    @property
    def duration_ms(self) -> float | None:
        """Milliseconds it took; None of one that has not ended."""
        if self.started is None or self.ended is None:
            return None
        return round((self.ended - self.started) * 1000, 3)

    def named(self) -> JsonObject:
        """Which it is: its number, and what it called."""
        return {"number": self.number, self.called if self.called != "tool" else "toolName": self.name}

    def as_dict(self, input_chars: int = MAX_INPUT_SHOWN) -> JsonObject:
        """Its entry in `calls` of an envelope, with so many characters of its input."""
        told: JsonObject = {**self.named(), "outcome": self.outcome}
        if self.code is not None:
            told["code"] = self.code
        if self.input != "{}":
            left_out = self.input_chars - input_chars
            told["input"] = self.input if left_out <= 0 else f"{self.input[:input_chars]}…[{left_out} more characters]"
        if self.duration_ms is not None:
            told["durationMs"] = self.duration_ms
        if self.reused:
            told["reused"] = True
        if not self.kept and self.outcome == "ok":
            told["kept"] = False
        return told


def shown_of(calls: Sequence[MadeCall]) -> list[MadeCall]:
    """Those that are told one by one, by their numbers: those that failed or were given up, then the latest that went
    well, up to `MAX_TOLD`."""
    if len(calls) <= MAX_TOLD:
        return list(calls)
    urgency = {"error": 0, "unfinished": 0, "ok": 1, "not_started": 2}
    ranked = sorted(calls, key=lambda call: (urgency[call.outcome], -call.number))
    return sorted(ranked[:MAX_TOLD], key=lambda call: call.number)


def told(calls: Sequence[MadeCall]) -> JsonObject:
    """`calls` of the envelope of a run that failed, and `callsLeftOut` where there are more than `MAX_TOLD`."""
    shown = shown_of(calls)
    numbers = {call.number for call in shown}
    left_out = [call for call in calls if call.number not in numbers]
    input_chars = MAX_INPUT_SHOWN if len(shown) <= MANY else FEW_CHARS
    body: JsonObject = {"calls": [call.as_dict(input_chars) for call in shown]}
    if left_out:
        body["callsLeftOut"] = dict(Counter(call.outcome for call in left_out))
    return body


def resumed(run_id: str, calls: Sequence[MadeCall]) -> JsonObject:
    """`resumed` of the envelope of a run that took up another: which, and which calls were not made again."""
    reused = [call for call in calls if call.reused]
    body: JsonObject = {"from": run_id, "calls": [call.named() for call in reused[:MAX_TOLD]]}
    if len(reused) > MAX_TOLD:
        body["callsLeftOut"] = len(reused) - MAX_TOLD
    return body
