"""Where large results are kept: real stores, and stores that fail, hang or lie."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import time
import tracemalloc
import weakref
from collections.abc import AsyncGenerator, Callable, Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import Any, SupportsFloat

import pytest
from fastmcp import Client, FastMCP
from key_value.aio.stores.filetree import FileTreeStore
from key_value.aio.stores.memory import MemoryStore
from key_value.aio.stores.redis import RedisStore
from mcp import MCPError
from redis.asyncio import Redis

from codecall import CodeCallPlugin, key_value
from codecall.concurrency import with_timeout
from codecall.envelopes import LargeResult
from codecall.errors import LimitExceeded, ResultNotFoundError, ToolCallError
from codecall.key_value import KeyValueStore
from codecall.options import ResultsOptions
from codecall.results.service import ENTRY_OVERHEAD, CallerResults, ResultService, parse_handle
from codecall.results.store import COLLECTION, ENTRY_CHARS, PAGE_CHARS, ExpiringMemoryStore, entry_count
from tests.redis_server import RedisServer

ROWS = [{"id": number, "name": f"Zoë {number} 😀"} for number in range(5_000)]
TEXT = json.dumps(ROWS, ensure_ascii=False)
SIZE = len(TEXT.encode())


def vault(store: KeyValueStore | None, owner: str = "ann", **options: Any) -> CallerResults:
    return CallerResults(ResultService(ResultsOptions(store=store, **options)), owner, 10**7, 65_536)


async def store_result(own: CallerResults) -> LargeResult:
    return await own.keep(TEXT, SIZE)


class Own:
    """What a store is asked for is noted; it may fail, hang, or let itself not be cancelled."""

    def __init__(self, behaviour: str = "") -> None:
        self.store = ExpiringMemoryStore()
        self.behaviour = behaviour
        self.keys: list[str] = []
        self.came = asyncio.Event()

    async def _behave(self, key: str) -> None:
        self.keys.append(key)
        self.came.set()
        if self.behaviour == "fails":
            raise ConnectionError("redis://user:secret@host")
        if self.behaviour == "cancels":
            raise asyncio.CancelledError
        while self.behaviour == "hangs":
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                if self.behaviour == "hangs":
                    self.behaviour = "was cancelled"
                raise

    async def get(self, key: str, *, collection: str | None = None) -> dict[str, Any] | None:
        await self._behave(key)
        return await self.store.get(key, collection=collection)

    async def put(
        self, key: str, value: Mapping[str, Any], *, collection: str | None = None, ttl: SupportsFloat | None = None
    ) -> None:
        await self._behave(key)
        await self.store.put(key, value, collection=collection, ttl=ttl)


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """How long a store is waited for from now on, in seconds: little while it does not answer."""

    def wait(seconds: float) -> None:
        monkeypatch.setattr(
            key_value, "with_timeout", lambda timeout_s, request: with_timeout(min(timeout_s, seconds), request)
        )

    return wait


@pytest.fixture(params=["own", "memory", "files", "redis"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[KeyValueStore]:
    match request.param:
        case "own":
            yield ExpiringMemoryStore()
        case "memory":
            yield MemoryStore()
        case "files":
            yield FileTreeStore(data_directory=tmp_path)
        case _:
            redis = Redis.from_url(request.getfixturevalue("redis_server").url, decode_responses=True)
            yield RedisStore(client=redis)
            await redis.aclose()


async def test_every_store_gives_back_what_was_put(store: KeyValueStore) -> None:
    own, other = vault(store), vault(store, "bob")
    large = await store_result(own)
    assert (large.size, large.pages, large.items) == (SIZE, -(-len(TEXT) // PAGE_CHARS), 5_000)
    # As another process with the same store sees it.
    again = vault(store)
    assert json.loads(await again.fetch(large.handle, {})) == ROWS
    assert json.loads(await again.fetch(large.uri, {"from": 4_990})) == ROWS[4_990:]
    pages = [json.loads(await again.fetch(large.handle, {"page": page + 1})) for page in range(large.pages)]
    assert "".join(pages) == TEXT
    for foreign, handle in ((other, large.handle), (own, large.handle[:-1] + "g"), (own, "res_" + "0" * 40), (own, "")):
        with pytest.raises(ResultNotFoundError) as caught:
            await foreign.fetch(handle, {})
        assert caught.value.message == f"Result '{handle}' was not found"


async def test_a_redis_forgets_them_by_itself(redis_server: RedisServer) -> None:
    redis = Redis.from_url(redis_server.url, decode_responses=True)
    own = vault(RedisStore(client=redis), ttl_s=100)
    large = await store_result(own)
    keys = [str(key) async for key in redis.scan_iter("*")]
    assert len(keys) == entry_count(len(TEXT)) + 1 == 4
    # No key tells the handle or the owner, and no entry is there for ever.
    assert not [key for key in keys if large.handle in key or large.handle[4:] in key or "ann" in key]
    meta_key = min(keys, key=len)
    assert 90 <= await redis.ttl(meta_key) <= 100
    assert all([100 < await redis.ttl(key) <= 160 for key in keys if key != meta_key])
    await redis.delete(meta_key)  # as it does in time
    with pytest.raises(ResultNotFoundError):
        await own.fetch(large.handle, {})
    large = await store_result(own)
    page = next(key for key in [str(key) async for key in redis.scan_iter("*.2")] if key not in keys)
    await redis.delete(page)
    with pytest.raises(ResultNotFoundError):
        await own.fetch(large.handle, {})
    assert json.loads(await own.fetch(large.handle, {"from": 0, "count": 9})) == ROWS[:9]
    await redis.aclose()


async def test_a_redis_that_hangs_or_is_away(
    redis_server: RedisServer, caplog: pytest.LogCaptureFixture, patience: Callable[[float], None]
) -> None:
    redis = Redis.from_url(redis_server.url, decode_responses=True)
    own = vault(RedisStore(client=redis))
    large = await store_result(own)
    redis_server.freeze()
    patience(0.02)
    with pytest.raises(LimitExceeded, match="the store for such results failed") as caught:
        await store_result(own)
    assert "try again later" in (caught.value.hint or "")
    with pytest.raises(ToolCallError, match="does not answer"):
        await own.fetch(large.handle, {})
    redis_server.thaw()
    redis_server.stop()
    patience(5)
    with pytest.raises(LimitExceeded):
        await store_result(own)
    messages = [record.getMessage() for record in caplog.records if record.name == "codecall"]
    assert messages[0] == "The store of large results did not take a result: TimeoutError"
    assert "secret" not in "".join(messages)
    await redis.aclose()


@pytest.mark.parametrize("behaviour", ["fails", "hangs", "cancels"])
async def test_a_store_that_cannot_be_used(
    behaviour: str, caplog: pytest.LogCaptureFixture, patience: Callable[[float], None]
) -> None:
    caplog.set_level(logging.CRITICAL, "fastmcp")
    store = Own()
    server = FastMCP[Any]("shop")
    CodeCallPlugin.init(
        vm={"preset": "secure", "max_result_bytes": 2_000}, pool={"min_workers": 0}, results={"store": store}
    ).install(server)
    script = "return Array.from({length: 5000}, (_, i) => i)"
    async with Client(server) as client:

        async def execute(text: str) -> dict[str, Any]:
            answer = await client.call_tool("codecall:execute", {"script": text})
            assert answer.structured_content is not None
            return answer.structured_content

        large = (await execute(script))["largeResult"]
        patience(0.02)
        store.behaviour = behaviour
        failure = (await execute(script))["error"]
        assert failure["code"] == "OUTPUT_LIMIT"
        assert failure["message"].endswith("and the store for such results failed")
        assert "Return less" in failure["hint"]
        store.behaviour = behaviour
        failure = (await execute(f"await getResult('{large['handle']}')"))["error"]
        assert (failure["code"], failure["message"]) == (
            "TOOL_EXECUTION_ERROR",
            "The store of kept results does not answer",
        )
        store.behaviour = behaviour
        with pytest.raises(MCPError, match="does not answer; try again later"):
            await client.read_resource(large["uri"])
        store.behaviour = ""
        patience(5)
        assert len(json.loads((await client.read_resource(large["uri"]))[0].text)) == 5_000
    assert "secret" not in caplog.text


async def test_what_was_not_put_away_takes_no_room() -> None:
    store = Own("fails")
    own = vault(store, max_caller_bytes=2 * SIZE)
    for _ in range(3):
        with pytest.raises(LimitExceeded, match="failed"):
            await store_result(own)
    store.behaviour = ""
    await store_result(own)
    with pytest.raises(LimitExceeded, match="your kept results take"):
        await store_result(own)

    store = Own("hangs")
    own = vault(store, max_caller_bytes=2 * SIZE)
    waiting = asyncio.create_task(store_result(own))
    await store.came.wait()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    store.behaviour = ""
    await store_result(own)


class Lying:
    """A store that holds what somebody else has written."""

    def __init__(self, change: object) -> None:
        self.store = ExpiringMemoryStore()
        self.change = change

    async def get(self, key: str, *, collection: str | None = None) -> Any:
        value = await self.store.get(key, collection=collection)
        if isinstance(self.change, dict):
            return value if value is None else {**value, **self.change}
        return self.change

    async def put(
        self, key: str, value: Mapping[str, Any], *, collection: str | None = None, ttl: SupportsFloat | None = None
    ) -> None:
        await self.store.put(key, value, collection=collection, ttl=ttl)


@pytest.mark.parametrize(
    "change",
    [
        {"head": "{"},
        {"head": '{"size": 1, "chars": -5, "parts": {}, "x": 1}'},
        {"head": 7},
        {"head": '{"size": "1", "chars": 1, "parts": {}}'},
        {"text": "short"},
        {"text": ["x"] * ENTRY_CHARS},
        {"text": "]" * ENTRY_CHARS},
        "text",
        [],
        {"text": None, "head": None},
    ],
)
async def test_a_store_that_lies(change: object) -> None:
    own = vault(Lying(change))
    large = await store_result(own)
    with pytest.raises(ResultNotFoundError):
        await own.fetch(large.handle, {})


# ------------------------------------------------------------------------------------------------- in this process


async def test_memory_is_free_once_a_result_has_expired() -> None:
    store = ExpiringMemoryStore()
    await store.put("0", {"text": "x"}, collection=COLLECTION, ttl=0.01)
    await store.put("1", {"text": "x"}, collection=COLLECTION, ttl=0.01)
    await store.put("2", {"text": "x"}, collection=COLLECTION, ttl=100)
    assert await store.get("2", collection=COLLECTION) == {"text": "x"}
    assert await store.get("2") is None
    await store.put("1", {"text": "z"}, collection=COLLECTION, ttl=50)
    time.sleep(0.02)  # noqa: ASYNC251 - no timer runs meanwhile
    assert await store.get("0", collection=COLLECTION) is None
    await store.put("3", {"text": "y"}, collection=COLLECTION, ttl=5)
    assert len(store) == 3
    assert await store.get("1", collection=COLLECTION) == {"text": "z"}


async def test_nothing_of_the_request_that_keeps_a_result_is_kept() -> None:
    class Marker:
        """What a request is about."""

    marker = Marker()
    kept, variable, store = weakref.ref(marker), ContextVar[Marker]("request"), ExpiringMemoryStore()

    async def request(marker: Marker) -> None:
        variable.set(marker)
        await store.put("a", {"text": "x"}, ttl=100)

    await asyncio.create_task(request(marker))
    del marker
    await asyncio.sleep(0)  # the loop no longer holds the task
    gc.collect()
    assert kept() is None
    assert await store.get("a") == {"text": "x"}


async def test_results_take_no_more_memory_than_they_are_counted_with() -> None:
    text = json.dumps(["x" * ENTRY_CHARS + "😀"] * 20, ensure_ascii=False)
    own = vault(None)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        kept = await own.keep(text, len(text.encode()))
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < len(text.encode()) + (entry_count(len(text)) + 1) * ENTRY_OVERHEAD
    assert await own.fetch(kept.handle, {}) == text


async def test_memory_gives_back_what_was_put() -> None:
    store = ExpiringMemoryStore()
    value = {"text": "é😀\ud800", "number": 1, "none": None, "list": ["é"]}
    await store.put("a", value, ttl=100)
    assert await store.get("a") == value


async def test_memory_is_free_though_nobody_comes() -> None:
    store = ExpiringMemoryStore()
    await store.put("a", {"text": "x"}, ttl=0.01)
    await store.put("b", {"text": "x"}, ttl=0.02)
    loop, gone = asyncio.get_running_loop(), asyncio.Event()

    def look() -> None:
        _ = loop.call_later(0.005, look) if len(store) else gone.set()

    look()
    await asyncio.wait_for(gone.wait(), 10)
    assert await store.get("a") is None


def test_memory_outlives_an_event_loop() -> None:
    store = ExpiringMemoryStore()
    asyncio.run(store.put("a", {"text": "x"}, ttl=100))
    asyncio.run(store.put("b", {"text": "x"}, ttl=100))
    assert asyncio.run(store.get("a")) == asyncio.run(store.get("b")) == {"text": "x"}


def test_a_result_that_finds_no_room_is_refused_and_the_message_says_why() -> None:
    own = ResultService(ResultsOptions(max_caller_bytes=1_024))
    own.reserve("ann", 1_000)
    with pytest.raises(LimitExceeded, match="your kept results take 1000 of 1024 bytes"):
        own.reserve("ann", 25)
    own.reserve("ann", 24)
    shared = ResultService(ResultsOptions(max_total_bytes=10_000))
    shared.reserve("ann", 2_000)
    with pytest.raises(LimitExceeded, match="too little room left among all that are kept") as refused:
        shared.reserve("bob", 1_601)
    assert refused.value.code == "OUTPUT_LIMIT"
    shared.reserve("bob", 1_600)
    assert ENTRY_OVERHEAD > 0


def test_a_few_callers_cannot_fill_it() -> None:
    options, mib = ResultsOptions(), 1 << 20
    results = ResultService(options)
    for hog in range(8):
        try:
            for _ in range(options.max_total_bytes // mib):
                results.reserve(f"10.0.0.{hog}", mib)
        except LimitExceeded:
            continue
    results.reserve("ann", 8 * mib)
    # One result of the greatest size fits.
    alone = ResultService(options)
    alone.reserve("ann", options.max_bytes + (entry_count(options.max_bytes) + 1) * ENTRY_OVERHEAD)


async def test_sixty_callers_at_once() -> None:
    results = ResultService(ResultsOptions())

    async def one(number: int) -> None:
        own = CallerResults(results, f"caller {number}", 10**7, 65_536)
        text = json.dumps([f"{number} of {item}" for item in range(2_000)])
        handles = [(await own.keep(text, len(text))).handle for _ in range(3)]
        stranger = CallerResults(results, f"caller {number + 1}", 10**7, 65_536)
        for handle in handles:
            assert json.loads(await own.fetch(handle, {"from": 1_999})) == [f"{number} of 1999"]
            with pytest.raises(ResultNotFoundError):
                await stranger.fetch(handle, {})

    async with asyncio.TaskGroup() as group:
        for number in range(60):
            group.create_task(one(number))


@pytest.mark.parametrize(
    ("text", "valid"),
    [
        ("res_" + "a" * 40, True),
        ("codecall://results/res_" + "a" * 40, True),
        ("codecall://crm/results/res_" + "a" * 40, True),
        ("http://results/res_" + "a" * 40, False),
        ("../res_" + "a" * 40, False),
        ("res_" + "a" * 40 + "\n", False),
        ("res_" + "A" * 40, False),
        ("codecall://results/" + "x" * 2_000 + "/res_" + "a" * 40, False),
    ],
)
def test_handles(text: str, valid: bool) -> None:
    assert (parse_handle(text) is not None) is valid
