"""The thread that feeds a ranking: what the ranking is told, who waits for it, what happens when it fails."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Collection, Sequence

import anyio
import numpy as np
import pytest

from codecall.catalog.entries import CatalogEntry
from codecall.catalog.search.indexer import BATCH_ENTRIES, BackgroundIndexer, DocumentIdArray, Scores
from tests.catalog.catalog import CATALOG, tool

NAME = "codecall-test-feeder"
LONG = 30.0


class Told:
    """A ranking that keeps what it is told, and can be held up or made to fail."""

    def __init__(self) -> None:
        self.added: list[list[int]] = []
        self.forgotten: list[list[int]] = []
        self.holds: dict[int, CatalogEntry] = {}
        self.threads: set[int] = set()
        self.failures: list[BaseException] = []
        self.begun = threading.Event()
        self.go = threading.Event()
        self.go.set()

    def add(self, numbers: Sequence[int], entries: Sequence[CatalogEntry]) -> None:
        self.begun.set()
        assert self.go.wait(10)
        self.threads.add(threading.get_ident())
        if self.failures:
            raise self.failures.pop()
        assert not set(numbers) & self.holds.keys()
        assert len(set(numbers)) == len(numbers)
        self.added.append(list(numbers))
        self.holds |= dict(zip(numbers, entries, strict=True))

    def remove(self, numbers: Collection[int]) -> None:
        self.begun.set()
        assert self.go.wait(10)
        if self.failures:
            raise self.failures.pop()
        self.forgotten.append(list(numbers))
        for number in numbers:
            del self.holds[number]

    def scores(self, view: DocumentIdArray, query: str) -> Scores:
        return np.ones(len(view), np.float32)


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def feeder(told: Told) -> BackgroundIndexer[Told]:
    return BackgroundIndexer(lambda: told, NAME)


def view(*numbers: int) -> DocumentIdArray:
    return np.array(numbers, np.int32)


def entries(count: int) -> list[CatalogEntry]:
    return [tool(f"t{n}", "") for n in range(count)]


async def wait_for(event: threading.Event) -> None:
    assert await anyio.to_thread.run_sync(event.wait, 10)


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == NAME]


async def nothing_runs() -> None:
    for thread in threads():
        await anyio.to_thread.run_sync(thread.join, 10)
    assert threads() == []


async def test_entries_are_taken_in_off_the_loop_in_batches(told: Told, feeder: BackgroundIndexer[Told]) -> None:
    numbers = np.arange(2 * BATCH_ENTRIES + 10, dtype=np.int32)
    feeder.enqueue(numbers, entries(len(numbers)))
    await feeder.wait_until_indexed(numbers, LONG, LONG)

    assert feeder.is_indexed(numbers).all()
    assert [len(batch) for batch in told.added] == [BATCH_ENTRIES, BATCH_ENTRIES, 10]
    assert threading.get_ident() not in told.threads
    assert told.holds[7].name == "t7"


async def test_only_what_is_new_is_taken_in(told: Told, feeder: BackgroundIndexer[Told]) -> None:
    for numbers in (view(0, 1), view(0, 1), view(1, 2, 0), view(2)):
        feeder.enqueue(numbers, CATALOG)
        await feeder.wait_until_indexed(numbers, LONG, LONG)

    assert told.added == [[0, 1], [2]]


async def test_what_is_about_to_be_taken_in_is_not_asked_for_again(told: Told, feeder: BackgroundIndexer[Told]) -> None:
    told.go.clear()
    feeder.enqueue(view(0, 1), CATALOG)
    await wait_for(told.begun)
    feeder.enqueue(view(0, 1), CATALOG)
    feeder.enqueue(view(1, 2, 2), CATALOG)
    told.go.set()
    await feeder.wait_until_indexed(view(0, 1, 2), LONG, LONG)

    assert told.added == [[0, 1], [2]]


async def test_the_thread_ends_with_the_work_and_begins_anew(told: Told, feeder: BackgroundIndexer[Told]) -> None:
    await nothing_runs()
    for number in range(3):
        feeder.enqueue(view(number), CATALOG)
        await feeder.wait_until_indexed(view(number), LONG, LONG)
        await nothing_runs()
    feeder.enqueue(view(0, 1, 2), CATALOG)
    feeder.start_loading()

    assert threads() == []


async def test_warming_makes_the_ranking_once(told: Told) -> None:
    made: list[int] = []

    def make() -> Told:
        made.append(threading.get_ident())
        return told

    feeder = BackgroundIndexer(make, NAME)
    assert feeder.ranker is None
    feeder.start_loading()
    feeder.start_loading()
    await nothing_runs()
    feeder.start_loading()

    assert feeder.ranker is told
    assert len(made) == 1
    assert made[0] != threading.get_ident()


async def test_what_is_forgotten_is_no_longer_ready_when_that_is_said(
    told: Told, feeder: BackgroundIndexer[Told]
) -> None:
    ready_then: list[list[bool]] = []
    done = threading.Event()

    def forgotten() -> None:
        ready_then.append(feeder.is_indexed(view(0, 1, 2, 500)).tolist())
        done.set()

    feeder.enqueue(view(0, 1, 2), CATALOG)
    await feeder.wait_until_indexed(view(0, 1, 2), LONG, LONG)
    feeder.remove([0, 2], forgotten)
    await wait_for(done)

    assert ready_then == [[False, True, False, False]]
    assert told.forgotten == [[0, 2]]

    feeder.enqueue(view(0), [CATALOG[5]])
    await feeder.wait_until_indexed(view(0), LONG, LONG)
    assert told.holds[0] is CATALOG[5]


async def test_patience_ends(told: Told, feeder: BackgroundIndexer[Told]) -> None:
    feeder.enqueue(view(0), CATALOG)
    await feeder.wait_until_indexed(view(0), LONG, LONG)
    told.go.clear()
    feeder.enqueue(view(0, 1), CATALOG)

    with anyio.fail_after(5):
        await feeder.wait_until_indexed(view(0, 1), 0.01, LONG)  # one is there
        await feeder.wait_until_indexed(view(1), LONG, 0.01)  # none is
    assert feeder.is_indexed(view(0, 1)).tolist() == [True, False]
    told.go.set()
    await nothing_runs()


async def test_nothing_to_wait_for(feeder: BackgroundIndexer[Told]) -> None:
    feeder.enqueue(view(), [])
    await feeder.wait_until_indexed(view(), LONG, LONG)

    assert feeder.is_indexed(view()).tolist() == []
    await nothing_runs()


async def test_many_wait_for_one_build(told: Told, feeder: BackgroundIndexer[Told]) -> None:
    told.go.clear()
    answered: list[bool] = []

    async def ask() -> None:
        feeder.enqueue(view(0, 1), CATALOG)
        await feeder.wait_until_indexed(view(0, 1), LONG, LONG)
        answered.append(bool(feeder.is_indexed(view(0, 1)).all()))

    async with anyio.create_task_group() as group:
        for _ in range(20):
            group.start_soon(ask)
        await wait_for(told.begun)
        told.go.set()

    assert answered == [True] * 20
    assert told.added == [[0, 1]]


async def test_a_cancelled_caller_leaves_nothing_behind(told: Told, feeder: BackgroundIndexer[Told]) -> None:
    told.go.clear()
    feeder.enqueue(view(0), CATALOG)
    async with anyio.create_task_group() as hasty:
        hasty.start_soon(feeder.wait_until_indexed, view(0), LONG, LONG)
        await wait_for(told.begun)
        hasty.cancel_scope.cancel()
    told.go.set()
    await feeder.wait_until_indexed(view(0), LONG, LONG)

    assert told.added == [[0]]


async def test_a_failure_reaches_all_who_wait_and_the_next_try_starts_afresh(
    told: Told, feeder: BackgroundIndexer[Told]
) -> None:
    told.go.clear()
    told.failures = [ValueError("too odd")]
    caught: list[str] = []

    async def ask() -> None:
        feeder.enqueue(view(0, 1), CATALOG)
        with pytest.raises(ValueError, match="too odd"):
            await feeder.wait_until_indexed(view(0, 1), LONG, LONG)
        caught.append("yes")

    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            for _ in range(5):
                group.start_soon(ask)
            await wait_for(told.begun)
            told.go.set()
    assert caught == ["yes"] * 5
    await nothing_runs()

    feeder.enqueue(view(0, 1), CATALOG)
    await feeder.wait_until_indexed(view(0, 1), LONG, LONG)
    assert told.added == [[0, 1]]


async def test_a_failure_stops_nobody_who_needs_nothing_of_it(told: Told, feeder: BackgroundIndexer[Told]) -> None:
    feeder.enqueue(view(0), CATALOG)
    await feeder.wait_until_indexed(view(0), LONG, LONG)
    told.failures = [ValueError("too odd")]
    feeder.enqueue(view(1), CATALOG)
    with pytest.raises(ValueError, match="too odd"):
        await feeder.wait_until_indexed(view(1), LONG, LONG)

    await feeder.wait_until_indexed(view(0), LONG, LONG)
    feeder.enqueue(view(0, 2), CATALOG)
    await feeder.wait_until_indexed(view(0, 2), LONG, LONG)


async def test_who_waited_for_lost_work_is_told_even_if_others_have_begun_again(
    told: Told, feeder: BackgroundIndexer[Told]
) -> None:
    told.go.clear()
    told.failures = [ValueError("too odd")]
    feeder.enqueue(view(0), CATALOG)
    await wait_for(told.begun)
    told.go.set()
    await nothing_runs()
    told.go.clear()
    feeder.enqueue(view(1), CATALOG)

    # Nobody works on 0 any more, so waiting for it would be in vain.
    with anyio.fail_after(5), pytest.raises(ValueError, match="too odd"):
        await feeder.wait_until_indexed(view(0), LONG, LONG)
    told.go.set()


async def test_a_ranking_that_cannot_be_made_is_tried_again() -> None:
    failures: list[BaseException] = [ImportError("no such library"), SystemExit(3)]
    told = Told()

    def make() -> Told:
        if failures:
            raise failures.pop()
        return told

    feeder = BackgroundIndexer(make, NAME)
    for kind in (SystemExit, ImportError):
        feeder.enqueue(view(0), CATALOG)
        with anyio.fail_after(5), pytest.raises(kind):
            await feeder.wait_until_indexed(view(0), LONG, LONG)
        await nothing_runs()
    feeder.enqueue(view(0), CATALOG)
    await feeder.wait_until_indexed(view(0), LONG, LONG)

    assert told.added == [[0]]


async def test_what_was_to_be_forgotten_still_is_after_a_failure(told: Told, feeder: BackgroundIndexer[Told]) -> None:
    feeder.enqueue(view(0, 1), CATALOG)
    await feeder.wait_until_indexed(view(0, 1), LONG, LONG)
    told.go.clear()
    told.failures = [ValueError("too odd")]
    done = threading.Event()
    feeder.enqueue(view(2), CATALOG)
    feeder.remove([0], done.set)
    told.go.set()
    with pytest.raises(ValueError, match="too odd"):
        await feeder.wait_until_indexed(view(2), LONG, LONG)
    assert not done.is_set()

    feeder.enqueue(view(3), CATALOG[:1])
    await wait_for(done)
    assert told.forgotten == [[0]]


async def test_a_failure_to_forget_does_not_stop_the_rest(told: Told, feeder: BackgroundIndexer[Told]) -> None:
    feeder.enqueue(view(0), CATALOG)
    await feeder.wait_until_indexed(view(0), LONG, LONG)
    told.failures = [ValueError("too odd")]
    feeder.remove([0], lambda: None)
    await nothing_runs()

    feeder.enqueue(view(1), CATALOG)
    await feeder.wait_until_indexed(view(1), LONG, LONG)
    assert told.added == [[0], [1]]


async def test_a_process_that_has_no_threads_left_is_asked_again(
    told: Told, feeder: BackgroundIndexer[Told], monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as exhausted:
        exhausted.setattr(threading.Thread, "start", start)
        with pytest.raises(RuntimeError, match="thread"):
            feeder.enqueue(view(0), CATALOG)
    feeder.enqueue(view(0), CATALOG)
    await feeder.wait_until_indexed(view(0), LONG, LONG)

    assert told.added == [[0]]


@pytest.mark.parametrize("closed", [True, False])
def test_a_loop_that_has_ended_does_not_hold_up_the_thread(
    told: Told, feeder: BackgroundIndexer[Told], closed: bool
) -> None:
    told.go.clear()

    async def begin() -> asyncio.Task[None]:
        feeder.enqueue(view(0), CATALOG)
        task = asyncio.create_task(feeder.wait_until_indexed(view(0), LONG, LONG))
        await wait_for(told.begun)
        return task

    loop = asyncio.new_event_loop()
    task = loop.run_until_complete(begin())
    if closed:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            loop.run_until_complete(task)
        loop.close()
    told.go.set()
    # The first loop, if it is still there, does not run any more.
    anyio.run(feeder.wait_until_indexed, view(0), LONG, LONG)
    for thread in threads():
        thread.join(10)
        assert not thread.is_alive()
    if not closed:
        loop.run_until_complete(task)
        loop.close()


def test_loops_in_several_threads_share_one_feeder(told: Told, feeder: BackgroundIndexer[Told]) -> None:
    async def ask(numbers: DocumentIdArray) -> bool:
        feeder.enqueue(numbers, entries(len(numbers)))
        await feeder.wait_until_indexed(numbers, LONG, LONG)
        return bool(feeder.is_indexed(numbers).all())

    found: list[bool] = []
    runs = [
        threading.Thread(target=lambda last=last: found.append(anyio.run(ask, np.arange(last, dtype=np.int32))))
        for last in range(50, 450, 50)
    ]
    for run in runs:
        run.start()
    for run in runs:
        run.join(20)

    assert found == [True] * len(runs)
    assert sorted(number for batch in told.added for number in batch) == list(range(400))
