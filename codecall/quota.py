"""How much each caller has stored in this process at the same time: reservations, which expire by themselves; and how
much of each waits.

Large results (`results/service.py`) and resumable runs (`resume/replay.py`) count what they store here, a plugin its
runs that wait (`RunSlots`), approvals the answers that are kept for them (`approvals/rounds.py`). What counts here
refuses; it stores nothing itself.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from heapq import heappop, heappush
from typing import Final

FREE_FACTOR: Final = 4
"""What stays free of a total must be so many times what the owner has who reserves some more of it."""


def text_bytes(text: str) -> int:
    """Bytes of memory that a text takes: one, two or four a character, as its widest needs."""
    return sys.getsizeof(text)


class QuotaExceededError(Exception):
    """There is no room for a reservation. `owned`: what its owner has reserved already, if that is too much with it;
    None where all owners together leave too little free."""

    def __init__(self, owned: int | None = None) -> None:
        super().__init__(owned)
        self.owned = owned


class Reservation:
    """What one stored thing takes of its owner's quota, until it expires."""

    __slots__ = ("expires", "owner", "size")

    def __init__(self, owner: str, expires: float) -> None:
        self.owner = owner
        self.expires = expires
        self.size = 0

    def __lt__(self, other: Reservation) -> bool:
        return self.expires < other.expires


class Quota:
    """Counts what is reserved, for each owner and in all.

    Args:
        clock: Seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._total = 0
        self._by_owner: Counter[str] = Counter()
        self._expiring: list[Reservation] = []

    @property
    def total(self) -> int:
        """What all owners have reserved now."""
        self._drop_expired()
        return self._total

    def owned_by(self, owner: str) -> int:
        """What this owner has reserved now."""
        self._drop_expired()
        return self._by_owner[owner]

    def reserve(
        self,
        owner: str,
        seconds: float | None,
        size: int = 0,
        *,
        max_owned: int | None = None,
        max_total: int | None = None,
    ) -> Reservation:
        """A reservation of `size` that lasts so many seconds; None: until it is shrunk to 0. The limits are those of
        `grow`.

        Raises:
            QuotaExceededError: there is no room for it; nothing is thrown out to make some.
        """
        reservation = Reservation(owner, float("inf") if seconds is None else self._clock() + seconds)
        self.grow(reservation, size, max_owned=max_owned, max_total=max_total)
        if seconds is not None:
            heappush(self._expiring, reservation)
        return reservation

    def grow(
        self, reservation: Reservation, size: int, *, max_owned: int | None = None, max_total: int | None = None
    ) -> None:
        """Reserve `size` more. One that has expired stays empty, and is never refused.

        Args:
            reservation: of this quota.
            size: in the unit in which the quota counts.
            max_owned: what its owner may have in all.
            max_total: what all owners may have together; and nobody may have more than a quarter of what is free after
                it. So however many callers take what they can, the next one still finds some room.

        Raises:
            QuotaExceededError: there is no room; nothing has changed.
        """
        self._drop_expired()
        if reservation.expires <= self._clock():
            return
        owned = self._by_owner[reservation.owner]
        if max_owned is not None and owned + size > max_owned:
            raise QuotaExceededError(owned)
        if max_total is not None and (owned + size) * FREE_FACTOR > max_total - (self._total + size):
            raise QuotaExceededError
        self._add(reservation, size)

    def shrink(self, reservation: Reservation, size: int) -> None:
        """Keep no more than `size` of it."""
        self._add(reservation, min(size, reservation.size) - reservation.size)

    def _drop_expired(self) -> None:
        now = self._clock()
        while self._expiring and self._expiring[0].expires <= now:
            self.shrink(heappop(self._expiring), 0)

    def _add(self, reservation: Reservation, size: int) -> None:
        reservation.size += size
        self._total += size
        self._by_owner[reservation.owner] += size
        if not self._by_owner[reservation.owner]:
            del self._by_owner[reservation.owner]


class NoFreeSlotError(Exception):
    """There is no slot for one more; the text says why."""


class SlotPool:
    """Slots for runs that wait for an answer. However many one owner has, as many stay free for others; a single slot
    is for the first caller.

    Args:
        size: How many there are.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._in_use = Quota()

    def acquire(self, owner: str, *, alone: bool) -> Reservation:
        """One slot, until it is released.

        Args:
            owner: Whose it is.
            alone: Whether there are no others, so that it may be any.

        Raises:
            NoFreeSlotError: there is none.
        """
        own, free = self._in_use.owned_by(owner), self._size - self._in_use.total
        if free <= 0:
            raise NoFreeSlotError(f"{self._size} runs wait for an answer already")
        if own >= free and not alone:
            raise NoFreeSlotError(
                f"{own} runs of this caller wait for an answer already, and the last {free} places are for others"
            )
        return self._in_use.reserve(owner, None, 1)

    def release(self, slot: Reservation) -> None:
        """Make a slot free; again is nothing."""
        self._in_use.shrink(slot, 0)


class RunSlots:
    """The slots of the runs that wait: one for each of them, however many answers it waits for.

    Args:
        size: How many there are.
    """

    def __init__(self, size: int) -> None:
        self._slots = SlotPool(size)
        self._held: dict[str, Reservation] = {}
        self._waits = Counter[str]()

    @contextmanager
    def hold(self, run_id: str, caller: str, *, alone: bool) -> Generator[str]:
        """Within this context a run has a slot; why there is none for it, empty if there is one.

        Args:
            run_id: Names the run.
            caller: Whose it is.
            alone: See `SlotPool.acquire`.
        """
        try:
            if run_id not in self._held:
                self._held[run_id] = self._slots.acquire(caller, alone=alone)
        except NoFreeSlotError as full:
            yield str(full)
            return
        self._waits[run_id] += 1
        try:
            yield ""
        finally:
            self._waits[run_id] -= 1
            if not self._waits[run_id]:
                del self._waits[run_id]
                self._slots.release(self._held.pop(run_id))
