"""Matches the calls that a script makes now with the calls of the earlier run that it resumes.

Calls of one tool are matched by their input, in the order of the earlier run. Calls that were made there while others
were under way have no order among themselves: a script that works on ten things at once makes its calls in a different
order each time. So a call matches an earlier one with the same input as soon as all calls that preceded that one are
matched.

An earlier call that failed, or whose outcome is not known, is made again, and a call with another input may take its
place. A call that matches no earlier call and takes no such place is made, and the run diverges: once the script has
awaited all calls that were under way then, no call of that tool is matched any more, since the later calls may depend
on another state of the world.
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
    """The match of a call."""

    number: int = 0
    """Number of the earlier call whose place it takes, from 1; 0 for none."""
    value: str | None = None
    """The value of the earlier call as JSON text; None if the call must be made."""
    diverged: bool = False
    """Whether the call matches no earlier call although calls of its tool are still unmatched."""
    made_of: tuple[str, ...] | None = None
    """`StoredCall.made_of` of the earlier call."""


Key = tuple[str, str]

MAX_CANDIDATES: Final = 20
"""Most earlier calls that are compared with one call: the first ones, as many as run at the same time."""


class _UnmatchedCalls:
    """The successful calls of one tool that are not matched yet."""

    def __init__(self) -> None:
        self.calls: dict[int, StoredCall] = {}
        self._first: dict[int, list[tuple[int, int]]] = {}
        """For each run of the chain, a heap of epochs and numbers; calls that are matched are removed lazily."""

    def add(self, number: int, call: StoredCall) -> None:
        """Adds a call."""
        self.calls[number] = call
        for run, epoch in call.epochs:
            heappush(self._first.setdefault(run, []), (epoch, number))

    def may_match(self, call: StoredCall) -> bool:
        """Whether all calls that preceded this one are matched."""
        # Nearly always it is one of the first, and need not be compared with all the others.
        if all(self._first_epoch(run) >= epoch for run, epoch in call.epochs):
            return True
        return not any(other.precedes(call) for other in self.calls.values())

    def _first_epoch(self, run: int) -> float:
        heap = self._first.get(run, [])
        while heap and heap[0][1] not in self.calls:
            heappop(heap)
        return heap[0][0] if heap else math.inf


class PreviousCalls:
    """The calls of an earlier run, each of which is matched once.

    Args:
        calls: the calls, in any order.
    """

    def __init__(self, calls: Sequence[StoredCall] = ()) -> None:
        self._unmatched: Final = defaultdict[Key, _UnmatchedCalls](_UnmatchedCalls)
        self._by_input: Final = defaultdict[tuple[Key, str], list[int]](list)
        """Numbers of the unmatched calls, by their input."""
        self._unfinished: Final = defaultdict[Key, dict[int, StoredCall]](dict)
        """Calls that are made again."""
        self._diverged: Final[dict[Key, int]] = {}
        """Epochs of this run after which no call of a tool is matched any more."""
        for number, call in enumerate(calls, 1):
            if call.state == "ok":
                self._unmatched[call.key].add(number, call)
                self._by_input[call.key, call.digest].append(number)
            else:
                self._unfinished[call.key][number] = call

    def unmatched(self) -> list[str]:
        """The names of the calls that succeeded and are not matched yet."""
        return [name for (_, name), unmatched in self._unmatched.items() for _ in unmatched.calls]

    def match(self, called: str, name: str, digest: str, epoch: int) -> Match:
        """Matches a call of this run that is made in `epoch`. No earlier call is matched twice."""
        key = (called, name)
        if epoch > self._diverged.get(key, epoch):
            return Match()
        unmatched = self._unmatched[key]
        numbers = self._by_input[key, digest]
        for number in numbers[:MAX_CANDIDATES]:
            if unmatched.may_match(call := unmatched.calls[number]):
                del unmatched.calls[number]
                numbers.remove(number)
                if call.diverged:
                    self._diverged.setdefault(key, epoch)
                return Match(number, call.value, made_of=call.made_of)
        for places in (self._unfinished[key], self._unfinished["", ""]):
            candidates = islice(places.items(), MAX_CANDIDATES)
            if reachable := [number for number, call in candidates if unmatched.may_match(call)]:
                number = next((number for number in reachable if places[number].digest == digest), reachable[0])
                del places[number]
                return Match(number)
        if not unmatched.calls:
            return Match()
        self._diverged.setdefault(key, epoch)
        return Match(diverged=True)
