"""From what the engine says of an error to the failure that is reported: its place in the script, and what to do."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cached_property
from itertools import islice
from typing import Final, TypeVar, cast

import msgspec

from codecall.sandbox.agentscript import suspects
from codecall.sandbox.agentscript.case import Case, short
from codecall.sandbox.agentscript.habits import syntax_remedy
from codecall.sandbox.agentscript.instrument import Program
from codecall.sandbox.agentscript.journal import Journal, Made
from codecall.sandbox.agentscript.mending import NO_ERROR, remedy
from codecall.sandbox.agentscript.stops import Progress, stop_failure
from codecall.sandbox.agentscript.tracing import Reading
from codecall.sandbox.wire import Failure, Limits

CHARS_PER_MS: Final = 50
"""Characters of script that are parsed again in a millisecond of the time the script has left: a fifth of what this
takes, so that a slow machine does it too. Of a script with less time only the message is looked at."""

MAX_TOLD: Final = 5
"""Calls that one warning names, and calls that failed unseen of which each has a warning."""

MAX_LOOKED_AT: Final = 50
"""Failed calls that are looked at when a script ends well."""

MAX_LOST: Final = 300
"""Most characters of a failed call's message in a warning."""

MAX_FRAMES: Final = 200
"""Frames of a stack that are looked at. Names of functions stand in it, and may look like any number of frames."""

_AWAIT_IT: Final = "Write `await` in front of a call whose value or failure matters."

# A function's name stands before the place, and a script chooses that name.
_FRAME = re.compile(r"(?m)^ +at (?:.* )?\(?<input>:(\d{1,6}):(\d{1,6})\)?$")
_KEPT = re.compile(r"\bawait\b|\breturn\b|=")

Place = tuple[int, int]
"""Line and column, from 1."""

T = TypeVar("T")


class Report(msgspec.Struct):
    """What the prelude says of an error that ended the script."""

    kind: str
    """`script`: an Error; `value`: anything else that was thrown; `tool`: a failed call's own error; `stack` and
    `memory`: exhausted."""
    name: str
    message: str
    stack: str
    call: int | None = None


def place_of(program: Program, stack: str) -> Place | None:
    """The innermost place in the script of `program` that a stack names."""
    for match in islice(_FRAME.finditer(stack), MAX_FRAMES):
        if (place := program.original(int(match[1]), int(match[2]))) is not None:
            return place
    return None


class Autopsy:
    """What is known of a script that has ended.

    Args:
        program: What ran; None where nothing did.
        limits: What it ran under.
        journal: Its calls.
        room_ms: Milliseconds of its own time that it has left.
    """

    def __init__(self, program: Program | None, limits: Limits, journal: Journal, room_ms: float) -> None:
        self._program = program
        self._limits = limits
        self._journal = journal
        self._room_ms = room_ms

    # ---------------------------------------------------------------------------------------------- its failure

    def thrown(self, report: Report) -> Failure:
        """The failure of a script that threw what `report` tells."""
        place = self._place(report.stack)
        if report.kind == "tool":
            made = self._journal.open.get(report.call or 0)
            failure = Failure(status="tool_error", code="TOOL", call=report.call)
            return _placed(failure, self._place(made.stack) if made else None)
        if report.kind == "stack":
            return _placed(stop_failure("STACK_OVERFLOW", self._limits), place)
        if report.kind == "value":
            hint, place = NO_ERROR, self._only_one(suspects.values_thrown)
        else:
            # What the runtime throws after it has waited has no place of its own.
            place = place or self._only_one(suspects.parallel_calls)
            hint = self._read(lambda reading: self._hint(report, place, reading), None)
        failure = Failure(
            status="runtime_error", code="EXECUTION_ERROR", message=report.message, name=report.name, hint=hint
        )
        return _placed(failure, place)

    def stopped(self, code: str, progress: Progress, detail: object = "", stack: str = "") -> Failure:
        """The failure of a script that ran into a limit."""
        place = self._only_one(suspects.never_settled) if code == "DEADLOCK" else self._place(stack)
        return _placed(stop_failure(code, self._limits, detail, progress), place)

    def unreadable(self, text: str) -> Failure:
        """The failure of a script that the engine could not compile; `text` is its message and the place."""
        message, _, stack = text.partition("\n")
        message = message.removeprefix("SyntaxError: ")
        failure = Failure(status="syntax_error", code="SYNTAX_ERROR", message=message, hint=syntax_remedy(message))
        return _placed(failure, self._place(stack) or self._only_one(suspects.patterns) or self._end())

    def _hint(self, report: Report, place: Place | None, reading: Reading | None) -> str | None:
        places = {made.number: self._place(made.stack) for made in self._journal.kept.values()}
        offsets = {number: at for number, where in places.items() if (at := self._offset(where)) is not None}
        case = Case(reading, self._offset(place), self._journal, offsets)
        return remedy(report.name, report.message, case)

    # ------------------------------------------------------------------------------------------ calls not awaited

    def lost(self, number: int) -> str:
        """What is said of a call that failed where nobody could catch it."""
        call = self._journal.open[number]
        told = cast("dict[str, object]", msgspec.json.decode(call.payload or "{}"))
        message = f"{told.get('message', '')!s:.{MAX_LOST}} ({told.get('code')})"
        return f"{self._called(call)} was not awaited, and failed: {message}. {_AWAIT_IT}"

    def unfinished(self) -> list[str]:
        """What is said of the calls that a script has not waited for when it ends well."""
        said = [self.lost(call.number) for call in self._forgotten()]
        running = [call for call in self._journal.open.values() if not call.failed]
        if running:
            names = ", ".join(map(self._called, running[:MAX_TOLD]))
            more = f" and {len(running) - MAX_TOLD} more" if len(running) > MAX_TOLD else ""
            said.append(f"The script ended without the values of {names}{more}: not awaited. {_AWAIT_IT}")
        return said

    def idle(self, value: str) -> list[str]:
        """What is said of a script that only declares what it is for, and gives `value`, JSON text."""
        name = self._program.uncalled if self._program else None
        if name is None or value != "null" or self._journal.open or self._journal.kept:
            return []
        run = short(name)
        return [f"Nothing was returned: `{run}` is declared but never called; end with `return {run}();`"]

    def _called(self, call: Made) -> str:
        place = self._place(call.stack)
        return f"{short(call.name)}{f' (line {place[0]})' if place else ''}"

    def _forgotten(self) -> list[Made]:
        """Calls that failed and are statements of their own, without `await`: their failure went nowhere."""
        failed = [call for call in self._journal.open.values() if call.failed][:MAX_LOOKED_AT]
        # Whoever waits, or keeps the promise, writes so before the call: most scripts need not be parsed for it.
        bare = [call for call in failed if (place := self._place(call.stack)) and not _KEPT.search(self._before(place))]
        if not bare:
            return []
        spans = self._read(lambda reading: suspects.statement_calls(reading) if reading else [], [])
        offsets = {call.number: self._offset(self._place(call.stack)) or 0 for call in bare}
        return [call for call in bare if any(start <= offsets[call.number] < end for start, end in spans)][:MAX_TOLD]

    # -------------------------------------------------------------------------------------------------- the script

    def _place(self, stack: str) -> Place | None:
        """The innermost place in the script that a stack names."""
        return None if self._program is None else place_of(self._program, stack)

    @cached_property
    def _starts(self) -> list[int]:
        script = self._program.script if self._program else ""
        return [0, *(found.end() for found in re.finditer("\n", script))]

    def _offset(self, place: Place | None) -> int | None:
        return None if place is None else self._starts[place[0] - 1] + place[1] - 1

    def _before(self, place: Place) -> str:
        """The line of a place, up to there."""
        start = self._starts[place[0] - 1]
        return self._program.script[start : start + place[1] - 1] if self._program else ""

    def _end(self) -> Place | None:
        return None if self._program is None else (len(self._starts), len(self._program.script) - self._starts[-1] + 1)

    def _only_one(self, find: Callable[[Reading], Iterable[int]]) -> Place | None:
        """The place of the only thing in the script that `find` finds; None when there are several."""
        found = self._read(lambda reading: list(find(reading)) if reading else [], [])
        if len(found) != 1 or self._program is None:
            return None
        line = self._program.script.count("\n", 0, found[0])
        return line + 1, found[0] - self._starts[line] + 1

    def _read(self, use: Callable[[Reading | None], T], otherwise: T) -> T:
        """What `use` makes of the script, parsed again where there is time for it; `otherwise` if that fails."""
        script = self._program.script if self._program else ""
        try:
            return use(Reading(script) if script and len(script) <= self._room_ms * CHARS_PER_MS else None)
        except Exception:
            # A script nested to the limit, an answer beyond the stack: the failure is told all the same. The engine
            # calls this, and an exception would end the process.
            return otherwise


def _placed(failure: Failure, place: Place | None) -> Failure:
    return failure if place is None else msgspec.structs.replace(failure, line=place[0], column=place[1])
