"""Engines built ahead of need: building one takes longer than running a short script."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from codecall.sandbox import wire
from codecall.sandbox.agentscript.realm import Realm

SPARE_ENGINES = 8
"""Engines a worker keeps ready at most, each about 0.3 MB."""

REST_S = 0.003
"""How long nothing must arrive before something is done ahead of need, in seconds."""


class Spares:
    """Engines that no script has seen.

    They are built while the worker has nothing else to do, so that scripts that follow one another closely find one
    ready and do not wait for the building in between. One at first: many a worker sees no more than a few scripts. Each
    script that finds none ready doubles how many there will be.

    Args:
        make: Builds one.
        first: One that is ready; others are built for its limits until a script comes with other ones.
        count: How many to keep ready at most.
    """

    def __init__(self, make: Callable[[wire.Limits], Realm], first: Realm, count: int) -> None:
        self._make = make
        self._limits = first.limits
        self._count = count
        self._wanted = min(1, count)
        self._ready = deque([first])

    def take(self, limits: wire.Limits) -> Realm:
        """An engine with these limits that no script has seen."""
        if limits != self._limits:
            self._limits = limits
            self._ready.clear()
        elif self._ready:
            return self._ready.popleft()
        else:
            self._wanted = min(2 * self._wanted, self._count)
        return self._make(limits)

    def put_back(self, realm: Realm) -> None:
        """An engine that no script has been in after all: the guard has refused it."""
        self._ready.appendleft(realm)

    def refill(self, busy: Callable[[float], bool]) -> None:
        """Build until there are enough, or until `busy(seconds)` says within that time that there is work."""
        while len(self._ready) < self._wanted:
            if busy(REST_S if self._ready else 0.0):
                return
            self._ready.append(self._make(self._limits))
