"""What was learned survives in a store, and a store that fails, hangs or lies is not noticed."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, SupportsFloat

import pytest
from key_value.aio.stores.filetree import FileTreeStore
from key_value.aio.stores.memory import MemoryStore

from codecall.catalog.inference import store as observed_store
from codecall.catalog.inference.output_schemas import OutputObserver
from codecall.catalog.inference.store import COLLECTION, ShapeStore
from codecall.key_value import KeyValueStore
from codecall.options import ObservedOutputOptions
from tests.catalog.catalog import tool
from tests.catalog.inference.test_output_schemas import LIST, ROWS, names, saw


def observations(store: KeyValueStore, **options: Any) -> OutputObserver:
    return OutputObserver(ObservedOutputOptions(store=store, **options))


class Hanging:
    """A store that answers when it is let to."""

    def __init__(self) -> None:
        self.asked = 0
        self.came = asyncio.Event()
        self.released = asyncio.Event()

    async def get(self, key: str, *, collection: str | None = None) -> dict[str, Any] | None:
        self.asked += 1
        self.came.set()
        while not self.released.is_set():
            try:
                await self.released.wait()
            except asyncio.CancelledError:
                continue  # nor does it let itself be cancelled
        return None

    async def put(
        self, key: str, value: Mapping[str, Any], *, collection: str | None = None, ttl: SupportsFloat | None = None
    ) -> None:
        raise AssertionError("nothing was read, so nothing is written")


class Failing:
    """A store that fails while it is told to."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.fails = True
        self.asked = 0

    async def get(self, key: str, *, collection: str | None = None) -> dict[str, Any] | None:
        self.asked += 1
        if self.fails:
            raise ConnectionError("redis://user:secret@host")
        return await self.store.get(key, collection=collection)

    async def put(
        self, key: str, value: Mapping[str, Any], *, collection: str | None = None, ttl: SupportsFloat | None = None
    ) -> None:
        await self.store.put(key, value, collection=collection, ttl=ttl)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short times for those that tests wait out."""
    monkeypatch.setattr(observed_store, "REQUEST_SECONDS", 0.05)


@pytest.fixture(params=["memory", "files"])
def make_store(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Any]:
    """Gives a store that holds what those before it were given."""
    memory = MemoryStore()
    return lambda: memory if request.param == "memory" else FileTreeStore(data_directory=tmp_path)


async def test_it_is_there_after_a_restart(make_store: Callable[[], Any]):
    before = observations(make_store())
    saw(before, ROWS, [])
    await before.flush()
    after = observations(make_store())
    assert await after.output_schema(LIST) == await before.output_schema(LIST)
    # And learning goes on from there.
    saw(after, [{"id": 3, "name": "Carl", "tags": []}])
    schema: Any = await after.output_schema(LIST)
    assert schema["items"]["required"] == ["id", "name"]
    assert schema["items"]["properties"]["tags"] == {"type": "array"}
    await after.flush()
    assert await observations(make_store()).output_schema(LIST) == schema
    assert await observations(make_store()).output_schema(tool("users:list", "Something else")) is None


async def test_nothing_but_names_and_types_is_written():
    store = MemoryStore()
    observed = observations(store)
    saw(observed, {"name": "Ann Perkins", "by_mail": {"ann@example.org": 52_117}}, owner="owner-of-it")
    await observed.flush()
    (key,) = await store.keys(COLLECTION)
    assert len(key) == 32
    assert "users" not in key
    written = json.dumps(await store.get(key, collection=COLLECTION))
    assert "by_mail" in written
    for value in ("Ann", "Perkins", "ann@", "52117", "owner-of-it"):
        assert value not in written
    _, ttl = await store.ttl(key, collection=COLLECTION)
    assert ttl is not None
    assert 80 * 86_400 < ttl <= 90 * 86_400


async def test_two_servers_learn_together():
    store = MemoryStore()
    one, two = observations(store), observations(store)
    saw(one, {"id": 1, "name": "x"})
    saw(two, {"id": 1, "size": 2})
    await one.flush()
    await two.flush()
    assert sorted(await names(two) or []) == ["id", "name", "size"]
    assert sorted(await names(observations(store)) or []) == ["id", "name", "size"]


async def test_names_of_one_caller_stay_theirs_after_a_restart():
    store = MemoryStore()
    before = observations(store)
    saw(before, {"acme": 1}, owner="ann")
    await before.flush()
    after = observations(store)
    assert await names(after, "ann") == ["acme"]
    assert await names(after, "bob") is None
    saw(after, {"acme": 1}, owner="bob")
    assert await names(after, "carl") == ["acme"]
    apart = observations(store, per_caller=True)
    saw(apart, {"own": 1}, owner="ann")
    await apart.flush()
    again = observations(store, per_caller=True)
    assert await names(again, "ann") == ["own"]
    assert await again.output_schema(LIST, "bob") is None


async def test_changes_are_written_in_the_background(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(observed_store, "DELAY_SECONDS", 0.0)
    written = asyncio.Event()

    class Telling(MemoryStore):
        puts = 0

        async def put(self, *args: Any, **options: Any) -> None:
            await super().put(*args, **options)
            self.puts += 1
            written.set()

    store = Telling()
    observed = observations(store)
    saw(observed, *[ROWS] * 4)
    await asyncio.wait_for(written.wait(), 5)
    await observed.flush()
    assert store.puts == 1
    saw(observed, *[ROWS] * 200)
    await observed.flush()
    assert store.puts <= 4  # when the round number of results changes, and no more often


def test_the_end_of_the_event_loop_writes_too():
    store = MemoryStore()

    async def learn() -> None:
        saw(observations(store), {"id": 1})
        await asyncio.sleep(0)

    asyncio.run(learn())
    assert asyncio.run(names(observations(store))) == ["id"]


async def test_a_store_that_hangs_is_not_waited_for(quick: None, caplog: pytest.LogCaptureFixture):
    store = Hanging()
    observed = observations(store)
    saw(observed, {"id": 1})
    assert await names(observed) == ["id"]
    for number in range(20):
        await observed.output_schema(tool(f"t{number}", "A tool"))
    await observed.flush()
    assert store.asked == 2
    warnings = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert [record.getMessage() for record in warnings] == [
        "The store of learned output shapes failed (TimeoutError); calls go on without it"
    ]
    store.released.set()
    await asyncio.sleep(0)


async def test_a_store_that_is_slow_is_asked_once(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(observed_store, "SLOW_SECONDS", 0.0)
    store = Failing()
    store.fails = False
    before = observations(store.store)
    saw(before, {"id": 1})
    await before.flush()
    observed = observations(store)
    assert await names(observed) == ["id"]
    for number in range(20):
        assert await observed.output_schema(tool(f"t{number}", "A tool")) is None
    assert store.asked == 1


async def test_a_store_that_fails_is_logged_once_and_tried_later(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    store = Failing()
    observed = observations(store)
    saw(observed, {"id": 1})
    assert await names(observed) == ["id"]
    assert await names(observed) == ["id"]
    assert store.asked == 1
    await observed.flush()
    assert store.asked == 2
    assert "secret" not in caplog.text
    assert len([record for record in caplog.records if record.levelno >= logging.WARNING]) == 1
    store.fails = False
    await observed.flush()
    assert await names(observations(store.store)) == ["id"]


async def test_what_somebody_else_has_written_is_not_used(caplog: pytest.LogCaptureFixture):
    store = MemoryStore()
    first = observations(store)
    saw(first, {"id": 1})
    await first.flush()
    (key,) = await store.keys(COLLECTION)
    for forged in (
        {"x": 1},
        {"layout": 1, "day": 1, "results": 1, "partial": False, "shape": {"kinds": 64, "names": [["<script>"]]}},
        {"layout": 1, "day": 1, "results": 1, "partial": False, "shape": {"kinds": "64"}},
    ):
        await store.put(key, forged, collection=COLLECTION)
        observed = observations(store)
        assert await observed.output_schema(LIST) is None
        saw(observed, {"name": "x"})
        await observed.flush()
        assert await names(observations(store)) == ["name"]
    assert "not its own" in caplog.text


async def test_an_old_entry_that_is_used_is_written_again(monkeypatch: pytest.MonkeyPatch):
    store = MemoryStore()
    first = observations(store)
    saw(first, {"id": 1})
    await first.flush()
    (key,) = await store.keys(COLLECTION)
    old: dict[str, Any] = await store.get(key, collection=COLLECTION) or {}
    today = old["day"]
    await store.put(key, old | {"day": today - 30}, collection=COLLECTION)
    second = observations(store)
    assert await names(second) == ["id"]
    await second.flush()
    renewed: dict[str, Any] = await store.get(key, collection=COLLECTION) or {}
    assert renewed["day"] == today


async def test_what_waits_for_a_store_is_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(observed_store, "MAX_UNSAVED", 3)
    store = MemoryStore()
    observed = observations(store)
    tools = [tool(f"t{number}", "A tool") for number in range(5)]
    for entry in tools:
        saw(observed, {"id": 1}, entry=entry)
    await observed.flush()
    assert len(await store.keys(COLLECTION)) == 3


async def test_cancelling_who_asks_cancels_the_question():
    store = Hanging()
    shapes = ShapeStore(store)
    asking = asyncio.create_task(shapes.get("0" * 32))
    await store.came.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert not shapes.paused
    store.released.set()
    await asyncio.sleep(0)


async def test_a_store_that_cancels_itself_is_one_that_failed(caplog: pytest.LogCaptureFixture):
    class Cancelling(Failing):
        async def get(self, key: str, *, collection: str | None = None) -> dict[str, Any] | None:
            raise asyncio.CancelledError

    observed = observations(Cancelling())
    assert await observed.output_schema(LIST) is None
    assert "WorkCancelledError" in caplog.text
    await observed.flush()
