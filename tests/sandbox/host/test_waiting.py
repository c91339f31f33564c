"""The queue for workers: in turn by owner, in order within one, and a full one is shared fairly."""

from __future__ import annotations

from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codecall.errors import QueueFullError
from codecall.sandbox.host.waiting import Need, Queue, Waiter


def need(owner: str) -> Need:
    return Need(64, owner)


def served(queue: Queue, waiters: list[Waiter]) -> list[Waiter]:
    """Those waiters in the order in which places come to them."""
    order: list[Waiter] = []
    while queue.give_place():
        order += [waiter for waiter in waiters if waiter.has_place and waiter not in order]
    return order


def test_owners_take_turns() -> None:
    queue = Queue(10)
    waiters = [queue.join(need(owner)) for owner in "aaaabbc"]
    assert [waiter.need.owner for waiter in served(queue, waiters)] == list("abcabaa")


@given(st.lists(st.sampled_from("abc"), max_size=30))
def test_nobody_waits_longer_than_one_round_for_each_script_of_their_own(owners: list[str]) -> None:
    queue = Queue(100)
    waiters = [queue.join(need(owner)) for owner in owners]
    order = served(queue, waiters)
    assert len(order) == len(waiters)
    before: dict[str, int] = defaultdict(int)
    for place, waiter in enumerate(order):
        assert place <= (before[waiter.need.owner] + 1) * 3
        before[waiter.need.owner] += 1
    for owner in "abc":
        own = [waiter for waiter in waiters if waiter.need.owner == owner]
        assert [waiter for waiter in order if waiter.need.owner == owner] == own


def test_a_full_queue_makes_room_for_whoever_has_less_in_it() -> None:
    queue = Queue(4)
    greedy = [queue.join(need("greedy")) for _ in range(4)]
    first, second = queue.join(need("other")), queue.join(need("other"))
    assert [waiter.event.is_set() for waiter in greedy] == [False, False, True, True]
    assert all(isinstance(waiter.refusal, QueueFullError) for waiter in greedy[2:])
    assert not first.event.is_set()
    assert not second.event.is_set()
    assert len(queue) == 4
    for owner in ("other", "greedy"):
        with pytest.raises(QueueFullError, match="4 scripts already wait"):
            _ = queue.join(need(owner))
    assert not queue.join(need("third")).event.is_set()


def test_whoever_leaves_leaves_no_trace() -> None:
    queue = Queue(2)
    waiter = queue.join(need("a"))
    queue.remove(waiter)
    queue.remove(waiter)
    assert len(queue) == 0
    assert not queue.give_place()
