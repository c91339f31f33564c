"""Which call of an earlier run is the one that a script makes now.

Calls of one tool are matched by their input, in the order of the earlier run. What overlapped there has no order among
itself: a script that works on ten things at once makes its calls now in this order, now in that. So a call is the one
it looks like as soon as every call that had ended before that one began has been come to.

A call that failed there, or of which nobody knows how it ended, is made again, and another may be made in its place. A
call that is none of the earlier ones, and has none of those places, ends it: from there on nothing of that tool is
matched, since what follows may be meant for another state of the world.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Final, NamedTuple

from codecall.calls.kept_runs import Call


class Match(NamedTuple):
    """What was found for a call."""

    number: int = 0
    """The earlier call whose place it has, counting from 1; 0 for none."""
    value: str | None = None
    """Its value as JSON text, if the call need not be made."""
    parted: bool = False
    """Nothing of that tool is matched any more."""


class Earlier:
    """The calls of an earlier run, of which each is matched once.

    Args:
        calls: in the order in which they began.
    """

    def __init__(self, calls: Sequence[Call] = ()) -> None:
        self._open: Final = defaultdict[tuple[str, str], dict[int, Call]](dict)
        """Those that went well, and that have not been come to."""
        self._places: Final = defaultdict[tuple[str, str], dict[int, Call]](dict)
        """Those that are made again."""
        self._parted: Final[set[tuple[str, str]]] = set()
        for number, call in enumerate(calls, 1):
            (self._open if call.state == "ok" else self._places)[call.key][number] = call

    def match(self, called: str, name: str, digest: str) -> Match:
        """What there is for this call. What is given is not given again."""
        key = (called, name)
        if key in self._parted:
            return Match(parted=True)
        there = self._open[key]
        first_end = min((_end(call) for call in there.values()), default=math.inf)
        for number, call in there.items():
            if call.start >= first_end:
                break
            if call.digest == digest:
                del there[number]
                return Match(number, call.value)
        for places in (self._places[key], self._places["", ""]):
            reachable = [number for number, call in places.items() if call.start < first_end]
            if reachable:
                number = next((number for number in reachable if places[number].digest == digest), reachable[0])
                del places[number]
                return Match(number)
        if there:
            self._parted.add(key)
            return Match(parted=True)
        return Match()


def _end(call: Call) -> float:
    return math.inf if call.end is None else call.end
