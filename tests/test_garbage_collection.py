"""Full garbage collections wait while a thread loads or builds, and only then."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from codecall import concurrency
from codecall.concurrency import defer_full_collections, load_and_freeze

FEW = (100, 2, 2)
"""Thresholds under which a full collection comes after some hundred objects."""


@pytest.fixture(autouse=True)
def thresholds(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(concurrency._GarbageCollection, "tuned", True)
    before = gc.get_threshold()
    gc.set_threshold(*FEW)
    yield
    gc.set_threshold(*before)


def full_collections() -> int:
    return gc.get_stats()[2]["collections"]


def grow() -> int:
    """Make many lasting objects; how many full collections that set off."""
    before = full_collections()
    lasting = [[number] for number in range(300_000)]
    assert lasting
    return full_collections() - before


def test_no_full_collection_starts_inside_and_the_young_are_collected_as_ever() -> None:
    assert grow() > 0
    with defer_full_collections():
        young = gc.get_stats()[0]["collections"]
        assert grow() == 0
        assert gc.get_stats()[0]["collections"] > young
    assert gc.get_threshold() == FEW
    assert grow() > 0


def test_it_ends_with_the_last_of_several_threads() -> None:
    both_in, one_out = Barrier(2), Barrier(2)

    def first() -> None:
        with defer_full_collections():
            both_in.wait(10)
        one_out.wait(10)

    def second() -> tuple[int, int, int]:
        with defer_full_collections():
            both_in.wait(10)
            one_out.wait(10)
            return gc.get_threshold()

    with ThreadPoolExecutor(2) as pool:
        pool.submit(first)
        assert pool.submit(second).result()[2] > 1_000_000
    assert gc.get_threshold() == FEW


def test_an_error_inside_ends_it() -> None:
    with pytest.raises(ValueError, match="no"), defer_full_collections():
        raise ValueError("no")
    assert gc.get_threshold() == FEW


def test_thresholds_somebody_else_sets_meanwhile_stay() -> None:
    with defer_full_collections():
        gc.set_threshold(500, 5, 5)
    assert gc.get_threshold() == (500, 5, 5)
    gc.set_threshold(*FEW)
    with defer_full_collections():
        gc.set_threshold(500, 5, gc.get_threshold()[2])
    assert gc.get_threshold() == (500, 5, FEW[2])


def test_the_collector_of_a_host_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(concurrency._GarbageCollection, "tuned", False)
    with defer_full_collections():
        assert gc.get_threshold() == FEW
    frozen = gc.get_freeze_count()
    load_and_freeze(lambda: None)
    assert gc.get_freeze_count() <= frozen


def test_loading_takes_what_a_server_holds_out_of_collections_once() -> None:
    # In a process of its own: freezing is for good.
    script = (
        "import asyncio, gc; from codecall.meta_tools.runtime import create_search_index;"
        "from codecall.concurrency import tune_garbage_collection; from codecall.options import SearchOptions;"
        "tune_garbage_collection(); index = create_search_index(SearchOptions());"
        "before = gc.get_threshold(); assert gc.get_freeze_count() == 0; asyncio.run(index.get());"
        "frozen = gc.get_freeze_count(); assert frozen > 10_000, frozen; assert gc.get_threshold() == before;"
        "asyncio.run(index.get()); assert gc.get_freeze_count() <= frozen"
    )

    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_a_plugin_freezes_nothing() -> None:
    script = (
        "import asyncio, gc; from codecall import CodeCallPlugin\n"
        "from fastmcp import Client, FastMCP\n"
        "mcp, before = FastMCP('host'), gc.get_threshold()\n"
        "CodeCallPlugin.init().install(mcp)\n"
        "async def main():\n"
        "    async with Client(mcp) as client: await client.call_tool('codecall:search', {'query': 'x'})\n"
        "asyncio.run(main())\n"
        "assert gc.get_freeze_count() == 0 and gc.get_threshold() == before"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
