"""Which call of an earlier run is the one that a script makes now.

Calls of one tool are matched by their input, in the order of the earlier run. Calls that were made there while others
were under way have no order among themselves: a script that works on ten things at once makes its calls now in this
order, now in that. So a call is the one it looks like as soon as all that came before that one have been come to.

A call that failed there, or of which nobody knows how it ended, is made again, and another may be made in its place.
A call that is none of the earlier ones, and has none of those places, is made; and when the script has waited for all
that it had under way then, nothing of that tool is matched any more, since what follows may be meant for another state
of the world.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from heapq import heappop, heappush
from itertools import islice
from typing import Final, NamedTuple

from codecall.resume.store import StoredCall


class Match(NamedTuple):
    """What was found for a call."""

    number: int = 0
    """The earlier call whose place it has, counting from 1; 0 for none."""
    value: str | None = None
    """Its value as JSON text, if the call need not be made."""
    diverged: bool = False
    """It is none of the earlier calls, and some of its tool have not been come to."""


Key = tuple[str, str]

MAX_CANDIDATES: Final = 20
"""Calls of the same input, and places, that are looked at for one call: the first ones, as many as run side by side."""


class _UnmatchedCalls:
    """The calls of one tool that went well, and that have not been come to."""

    def __init__(self) -> None:
        self.calls: dict[int, StoredCall] = {}
        self._first: dict[int, list[tuple[int, int]]] = {}
        """For each run of the chain a heap of epochs and numbers, in which some may be that have been come to."""

    def add(self, number: int, call: StoredCall) -> None:
        """One more."""
        self.calls[number] = call
        for run, epoch in call.epochs:
            heappush(self._first.setdefault(run, []), (epoch, number))

    def may_match(self, call: StoredCall) -> bool:
        """Whether all that came before the call have been come to."""
        # Nearly always it is one of the first, and needs no look at all the others.
        if all(self._first_epoch(run) >= epoch for run, epoch in call.epochs):
            return True
        return not any(other.precedes(call) for other in self.calls.values())

    def _first_epoch(self, run: int) -> float:
        heap = self._first.get(run, [])
        while heap and heap[0][1] not in self.calls:
            heappop(heap)
        return heap[0][0] if heap else math.inf


class PreviousCalls:
    """The calls of an earlier run, of which each is matched once.

    Args:
        calls: in any order.
    """

    def __init__(self, calls: Sequence[StoredCall] = ()) -> None:
        self._unmatched: Final = defaultdict[Key, _UnmatchedCalls](_UnmatchedCalls)
        self._by_input: Final = defaultdict[tuple[Key, str], list[int]](list)
        """Numbers of those, by their input."""
        self._unfinished: Final = defaultdict[Key, dict[int, StoredCall]](dict)
        """Those that are made again."""
        self._diverged: Final[dict[Key, int]] = {}
        """Epochs of this run after which nothing of a tool is matched any more."""
        for number, call in enumerate(calls, 1):
            if call.state == "ok":
                self._unmatched[call.key].add(number, call)
                self._by_input[call.key, call.digest].append(number)
            else:
                self._unfinished[call.key][number] = call

    def match(self, called: str, name: str, digest: str, epoch: int) -> Match:
        """What there is for this call, of that epoch of this run. What is given is not given again."""
        key = (called, name)
        if epoch > self._diverged.get(key, epoch):
            return Match()
        there = self._unmatched[key]
        alike = self._by_input[key, digest]
        for number in alike[:MAX_CANDIDATES]:
            if there.may_match(call := there.calls[number]):
                del there.calls[number]
                alike.remove(number)
                if call.diverged:
                    self._diverged.setdefault(key, epoch)
                return Match(number, call.value)
        for places in (self._unfinished[key], self._unfinished["", ""]):
            some = islice(places.items(), MAX_CANDIDATES)
            if reachable := [number for number, call in some if there.may_match(call)]:
                number = next((number for number in reachable if places[number].digest == digest), reachable[0])
                del places[number]
                return Match(number)
        if not there.calls:
            return Match()
        self._diverged.setdefault(key, epoch)
        return Match(diverged=True)
