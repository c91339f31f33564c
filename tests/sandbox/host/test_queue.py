"""The queue for workers: in turn by owner, in order within one, and a full one is shared fairly."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codecall.errors import QueueFullError
from codecall.sandbox import wire
from codecall.sandbox.host.process import WorkerProcess
from codecall.sandbox.host.queue import TIME_SLICE_S, FairQueue, QueuedRequest, WorkerRequest, start_time_slice
from codecall.sandbox.worker.startup import WARM_UP_LIMITS


def need(owner: str) -> WorkerRequest:
    return WorkerRequest(64, owner)


def served(queue: FairQueue, waiters: list[QueuedRequest]) -> list[QueuedRequest]:
    """Those waiters in the order in which places come to them."""
    order: list[QueuedRequest] = []
    while queue.grant_spawn():
        order += [waiter for waiter in waiters if waiter.may_spawn and waiter not in order]
    return order


def test_owners_take_turns() -> None:
    queue = FairQueue(10)
    waiters = [queue.add(need(owner)) for owner in "aaaabbc"]
    assert [waiter.request.owner for waiter in served(queue, waiters)] == list("abcabaa")


@given(st.lists(st.sampled_from("abc"), max_size=30))
def test_nobody_waits_longer_than_one_round_for_each_script_of_their_own(owners: list[str]) -> None:
    queue = FairQueue(100)
    waiters = [queue.add(need(owner)) for owner in owners]
    order = served(queue, waiters)
    assert len(order) == len(waiters)
    before: dict[str, int] = defaultdict(int)
    for place, waiter in enumerate(order):
        assert place <= (before[waiter.request.owner] + 1) * 3
        before[waiter.request.owner] += 1
    for owner in "abc":
        own = [waiter for waiter in waiters if waiter.request.owner == owner]
        assert [waiter for waiter in order if waiter.request.owner == owner] == own


@pytest.fixture
def worker() -> Iterator[WorkerProcess]:
    """One that has served `a`; what it would do with a script is of no interest here."""
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen([sys.executable, "-c", ""])
        worker = WorkerProcess(process, ours, wire.Prepare(WARM_UP_LIMITS, 100, 60, require_jail=False))
        worker.owner = "a"
        yield worker
        worker.kill()
        _ = process.wait()


def given_to(worker: WorkerProcess, waiters: list[QueuedRequest]) -> str:
    """Whose scripts have got that worker, in this order."""
    return "".join(waiter.request.owner for waiter in waiters if waiter.worker is worker)


def test_a_worker_stays_with_its_owner_for_a_while(worker: WorkerProcess) -> None:
    queue = FairQueue(10)
    waiters = [queue.add(WorkerRequest(1, owner)) for owner in "babaa"]
    start_time_slice(worker)
    until = worker.slice_ends_at
    assert 0 < until - time.monotonic() <= TIME_SLICE_S
    assert queue.assign(worker)
    assert given_to(worker, waiters) == "a"
    assert [waiter for waiter in waiters if waiter.worker is worker] == [waiters[1]]
    assert worker.slice_ends_at == until
    worker.slice_ends_at = 0.0
    assert not queue.assign(worker)  # it is no good for `b`, whose turn it is
    assert given_to(worker, waiters) == "a"
    assert [waiter.request.owner for waiter in served(queue, waiters)] == list("baba")


def test_a_turn_begins_anew_only_in_its_order(worker: WorkerProcess) -> None:
    queue = FairQueue(10)
    waiters = [queue.add(WorkerRequest(1, "a")) for _ in range(2)]
    assert queue.assign(worker)
    assert worker.slice_ends_at > time.monotonic()
    worker.slice_ends_at = until = time.monotonic() + 60
    assert queue.assign(worker)
    assert worker.slice_ends_at == until
    assert given_to(worker, waiters) == "aa"


def test_a_worker_with_too_little_memory_does_not_stay(worker: WorkerProcess) -> None:
    queue = FairQueue(10)
    waiters = [queue.add(WorkerRequest(1_000, "a")), queue.add(WorkerRequest(1, "a"))]
    start_time_slice(worker)
    assert not queue.assign(worker)
    assert given_to(worker, waiters) == ""


def test_a_full_queue_makes_room_for_whoever_has_less_in_it() -> None:
    queue = FairQueue(4)
    greedy = [queue.add(need("greedy")) for _ in range(4)]
    first, second = queue.add(need("other")), queue.add(need("other"))
    assert [waiter.event.is_set() for waiter in greedy] == [False, False, True, True]
    assert all(isinstance(waiter.refusal, QueueFullError) for waiter in greedy[2:])
    assert not first.event.is_set()
    assert not second.event.is_set()
    assert len(queue) == 4
    for owner in ("other", "greedy"):
        with pytest.raises(QueueFullError, match="4 scripts already wait"):
            _ = queue.add(need(owner))
    assert not queue.add(need("third")).event.is_set()


def test_whoever_leaves_leaves_no_trace() -> None:
    queue = FairQueue(2)
    waiter = queue.add(need("a"))
    queue.remove(waiter)
    queue.remove(waiter)
    assert len(queue) == 0
    assert not queue.grant_spawn()
