"""Taking up a run that failed: what is answered from its record, what is made again, and what becomes of both when the
store fails."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, SupportsFloat
from weakref import WeakKeyDictionary

import anyio
import pytest
from fastmcp import Client, FastMCP
from fastmcp.exceptions import ToolError
from key_value.aio.stores.memory import MemoryStore
from key_value.aio.stores.redis import RedisStore

from codecall import CodeCallPlugin, OptionsError
from codecall.envelopes import CallRecord
from codecall.errors import CallKind
from codecall.options import ResumeOptions
from codecall.resume import store as kept_runs
from codecall.resume.refusal import ResumeError
from codecall.resume.replay import RunMemory
from codecall.resume.store import COLLECTION, RunStore
from tests.redis_server import RedisServer

Answer = dict[str, Any]


class Mail:
    """A server whose tools have effects, and one client of it."""

    def __init__(self, client: Client[Any], sent: list[str], broken: set[str], hanging: anyio.Event) -> None:
        self.client = client
        self.sent = sent
        """What its tools have done."""
        self.broken = broken
        """Whom the next letter does not reach."""
        self.hanging = hanging

    async def run(self, script: str, **more: Any) -> Answer:
        """The envelope of a script."""
        result = await self.client.call_tool("codecall:execute", {"script": script, **more})
        assert result.structured_content is not None
        return result.structured_content

    async def refusal(self, script: str = "return 1", **more: Any) -> str:
        """The text of a call that must be refused."""
        with pytest.raises(ToolError) as refused:
            await self.run(script, **more)
        return str(refused.value)


@asynccontextmanager
async def mail(**options: Any) -> AsyncGenerator[Mail]:
    """A server that runs."""
    server = FastMCP("mail")
    sent: list[str] = []
    broken = {"down"}
    hanging = anyio.Event()

    @server.tool
    async def send(to: str, size: int = 1) -> str:
        sent.append(to)
        if to in broken:
            broken.discard(to)
            raise ValueError("mail server is down")
        return f"sent {to} {'x' * size}"

    @server.tool
    async def gone(to: str) -> str:
        sent.append(f"gone {to}")
        return to

    @server.tool
    async def note(text: str = "") -> str:
        sent.append(f"note {text}")
        return text

    @server.resource("mail://count")
    def count() -> str:
        sent.append("count")
        return str(len(sent))

    @server.prompt
    def letter(to: str) -> str:
        sent.append("letter")
        return f"Dear {to}"

    @server.tool
    async def hang() -> None:
        sent.append("hang")
        hanging.set()
        await asyncio.sleep(60)

    given = {"vm": {"preset": "secure"}, "pool": {"min_workers": 0}} | options
    plugin = CodeCallPlugin.init(**given)
    async with Client(plugin.install(server)) as client:
        yield Mail(client, sent, broken, hanging)


SEND = "const out = []; for (const to of codecallContext.to) out.push((await callTool('send', {to})).slice(0, 8));"
FAILS = f"{SEND} null.x;"
ENDS = f"{SEND} return out;"


def resumable(**more: Any) -> dict[str, Any]:
    return {"resume": {"store": MemoryStore(), **more}}


@pytest.fixture(scope="module")
async def running() -> AsyncGenerator[Mail]:
    """One server for the tests that only look at what its scripts do."""
    async with mail(**resumable()) as shop:
        yield shop


@pytest.fixture
def shop(running: Mail) -> Mail:
    """The same, of which nobody has asked anything."""
    running.sent.clear()
    running.broken.add("down")
    return running


async def test_completed_calls_are_not_made_again(shop: Mail):
    failed = await shop.run(FAILS, context={"to": ["a", "b"]})
    assert failed["status"] == "runtime_error"
    assert [(call["number"], call["outcome"]) for call in failed["calls"]] == [(1, "ok"), (2, "ok")]
    ended = await shop.run(ENDS, context={"to": ["a", "b", "c"]}, resumeFrom=failed["runId"])
    assert ended["result"] == ["sent a x", "sent b x", "sent c x"]
    assert ended["resumed"] == {
        "from": failed["runId"],
        "calls": [{"number": 1, "toolName": "send"}, {"number": 2, "toolName": "send"}],
    }
    assert ended["runId"] != failed["runId"]
    assert shop.sent == ["a", "b", "c"]
    # It has succeeded, so there is nothing to resume; the failed one still can be.
    assert "succeeded" in await shop.refusal(resumeFrom=ended["runId"])
    again = await shop.run(ENDS, context={"to": ["a"]}, resumeFrom=failed["runId"])
    assert again["result"] == ["sent a x"]
    assert shop.sent == ["a", "b", "c"]


async def test_a_failed_call_is_made_again_and_the_envelope_says_which_were_reused(shop: Mail):
    failed = await shop.run(ENDS, context={"to": ["a", "down", "b"]})
    assert failed["status"] == "tool_error"
    assert [call["outcome"] for call in failed["calls"]] == ["ok", "error"]
    again = await shop.run(FAILS, context={"to": ["a", "down", "b"]}, resumeFrom=failed["runId"])
    assert [call.get("reused", False) for call in again["calls"]] == [True, False, False]
    assert shop.sent == ["a", "down", "down", "b"]
    # A chain: the second run failed too, and knows what the first did.
    ended = await shop.run(ENDS, context={"to": ["a", "down", "b"]}, resumeFrom=again["runId"])
    assert ended["status"] == "ok"
    assert len(ended["resumed"]["calls"]) == 3
    assert shop.sent == ["a", "down", "down", "b"]


async def test_an_input_that_is_too_large_is_not_taken_for_an_empty_one(shop: Mail):
    failed = await shop.run("await callTool('note', {}); null.x")
    large = "return await callTool('note', { text: 'x'.repeat(1_048_576) })"
    again = await shop.run(large, resumeFrom=failed["runId"])
    assert again["error"]["code"] == "MESSAGE_TOO_LARGE"
    mended = await shop.run("return await callTool('note', { text: 'short' })", resumeFrom=again["runId"])
    assert mended["result"] == "short"
    assert shop.sent == ["note ", "note short"]


async def test_a_mended_script_that_was_refused_loses_nothing(shop: Mail):
    failed = await shop.run(FAILS, context={"to": ["a"]})
    refused = await shop.run("eval('1')", resumeFrom=failed["runId"])
    assert refused["status"] == "illegal_access"
    assert refused["resumed"] == {"from": failed["runId"], "calls": []}
    for earlier in (failed, refused):
        assert (await shop.run(ENDS, context={"to": ["a"]}, resumeFrom=earlier["runId"]))["status"] == "ok"
    assert shop.sent == ["a"]


async def test_calls_side_by_side_resources_and_prompts(shop: Mail):
    script = """
    const all = await Promise.all(["a", "b", "c"].map(to => callTool("send", {to, size: 2})));
    all.push(await readResource("mail://count"), (await getPrompt("letter", {to: "Ann"})).messages.length);
    if (codecallContext.fail) null.x;
    return all;
    """
    failed = await shop.run(script, context={"fail": True})
    ended = await shop.run(script, context={"fail": False}, resumeFrom=failed["runId"])
    assert ended["result"] == ["sent a xx", "sent b xx", "sent c xx", "4", 1]
    assert shop.sent == ["a", "b", "c", "count", "letter"]
    assert [*map(tuple, map(dict.keys, ended["resumed"]["calls"]))] == [
        *[("number", "toolName")] * 3,
        ("number", "resource"),
        ("number", "prompt"),
    ]


async def test_keys_may_stand_in_another_order(shop: Mail):
    failed = await shop.run("await callTool('send', {to: 'a', size: 2}); null.x")
    ended = await shop.run("return await callTool('send', {size: 2, to: 'a'})", resumeFrom=failed["runId"])
    assert ended["result"] == "sent a xx"
    assert shop.sent == ["a"]


async def test_runs_that_used_up_their_time_can_be_taken_up():
    limits = {"vm": {"preset": "secure", "max_duration_ms": 400, "timeout_ms": 300}}
    async with mail(**resumable(), **limits) as shop:
        for_ever = "for (let i = 0; i < 1e9; i++) { 'x'.repeat(1000000).lastIndexOf('y'); }"
        for end, status in (("await callTool('hang', {})", "timeout"), (for_ever, "timeout")):
            shop.sent.clear()
            failed = await shop.run(f"await callTool('send', {{to: 'a'}}); {end}")
            assert failed["status"] == status, failed
            assert failed["calls"][0]["outcome"] == "ok"
            ended = await shop.run("return await callTool('send', {to: 'a'})", resumeFrom=failed["runId"])
            assert ended["status"] == "ok"
            assert shop.sent.count("a") == 1


async def test_what_may_not_be_called_any_more_is_not_answered():
    async with mail(**resumable()) as shop:
        failed = await shop.run("await callTool('gone', {to: 'a'}); null.x")
        script = "return await callTool('gone', {to: 'a'}, {throwOnError: false})"
        denied = await shop.run(script, resumeFrom=failed["runId"], allowedTools=["send"])
        assert denied["result"]["error"]["code"] == "ACCESS_DENIED"
        assert denied["resumed"]["calls"] == []
        server = shop.client.transport.server  # type: ignore[union-attr]
        server.local_provider.remove_tool("gone")
        missing = await shop.run(script, resumeFrom=failed["runId"])
        assert missing["result"]["error"]["code"] == "TOOL_NOT_FOUND"
        assert shop.sent == ["gone a"]


async def test_a_value_that_is_too_large_is_not_kept_and_that_is_said(caplog: pytest.LogCaptureFixture):
    async with mail(**resumable(max_value_chars=100)) as shop:
        failed = await shop.run("for (const size of [1, 200]) await callTool('send', {to: 'a', size}); null.x")
        assert [call.get("kept", True) for call in failed["calls"]] == [True, False]
        assert "is not kept for resumeFrom: it has 209 characters; at most 100 are" in caplog.text
        script = "for (const size of [1, 200]) await callTool('send', {to: 'a', size}); return 1"
        assert len((await shop.run(script, resumeFrom=failed["runId"]))["resumed"]["calls"]) == 1
        assert shop.sent == ["a"] * 3
    async with mail(**resumable(max_run_chars=300)) as shop:
        failed = await shop.run("for (const size of [200, 200, 1]) await callTool('send', {to: 'a', size}); null.x")
        assert [call.get("kept", True) for call in failed["calls"]] == [True, False, True]


async def test_without_a_store_nothing_is_offered():
    async with mail() as shop:
        (execute,) = [tool for tool in await shop.client.list_tools() if tool.name == "codecall:execute"]
        assert "resumeFrom" not in json.dumps(execute.model_dump())
        assert "this server keeps nothing" in await shop.refusal(resumeFrom="run_" + "a" * 22)
        assert "resumed" not in await shop.run("return 1")
    async with mail(**resumable()) as shop:
        (execute,) = [tool for tool in await shop.client.list_tools() if tool.name == "codecall:execute"]
        assert "resumeFrom" in execute.input_schema["properties"]
        assert "resumeFrom: <runId>" in (execute.description or "")
        assert "a dry run makes no calls" in await shop.refusal(resumeFrom="run_" + "a" * 22, dryRun=True)


async def test_a_run_that_ended_well_without_calls_leaves_nothing():
    store = Failing()
    async with mail(resume={"store": store}) as shop:
        await shop.run("return 1")
        assert store.asked == []


def test_the_options_are_checked():
    with pytest.raises(OptionsError, match=r"resume\.store"):
        CodeCallPlugin.init(resume={})
    with pytest.raises(OptionsError, match="ttl_s"):
        CodeCallPlugin.init(resume={"store": MemoryStore(), "ttl_s": 0})


# ---------------------------------------------------------------------------------------------- stores that fail


class Failing:
    """A store in memory that can be told to fail, or to hang, from some request on."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.asked: list[str] = []
        self.fails: Callable[[str], bool] = lambda _: False
        self.hangs = False

    async def _ask(self, what: str) -> None:
        self.asked.append(what)
        if self.fails(what):
            if self.hangs:
                await asyncio.Event().wait()
            raise ConnectionError("no store")

    async def get(self, key: str, *, collection: str | None = None) -> dict[str, Any] | None:
        await self._ask(f"get {key}")
        return await self.store.get(key, collection=collection)

    async def put(
        self, key: str, value: Mapping[str, Any], *, collection: str | None = None, ttl: SupportsFloat | None = None
    ) -> None:
        await self._ask(f"put {key}")
        await self.store.put(key, value, collection=collection, ttl=ttl)


@pytest.mark.parametrize("hangs", [False, True])
async def test_a_store_that_fails_ends_no_run(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, hangs: bool
):
    monkeypatch.setattr(kept_runs, "REQUEST_TIMEOUT_S", 0.05)
    store = Failing()
    store.hangs = hangs
    async with mail(resume={"store": store}) as shop:
        store.fails = lambda what: what.startswith("put") and what.endswith(".2")
        failed = await shop.run(FAILS, context={"to": ["a", "b", "c"]})
        assert [call.get("kept", True) for call in failed["calls"]] == [True, False, False]
        assert failed["warnings"] == ["This run cannot be resumed with resumeFrom: the store of runs failed."]
        assert len([record for record in caplog.records if "the store of runs failed" in record.message]) == 1
        # Its record has a gap, and says so itself.
        assert "is incomplete" in await shop.refusal(ENDS, resumeFrom=failed["runId"])
        # A run that goes well has nothing to warn of.
        assert "warnings" not in await shop.run(ENDS, context={"to": ["a", "b"]})
        # Nothing is run where it is not known what was done.
        shop.sent.clear()
        store.fails = lambda what: what.startswith("get")
        told = await shop.refusal(ENDS, context={"to": ["a"]}, resumeFrom=failed["runId"])
        assert "the store of runs does not answer; nothing was run" in told
        assert shop.sent == []


async def test_a_record_of_which_something_has_gone_is_not_used():
    store = MemoryStore()
    async with mail(resume={"store": store}) as shop:
        failed = await shop.run(FAILS, context={"to": ["a", "b"]})
        await store.delete(f"{failed['runId']}.0.2", collection=COLLECTION)
        assert "is incomplete" in await shop.refusal(ENDS, resumeFrom=failed["runId"])


# ------------------------------------------------------------------------------------------ a server that is killed


class Run:
    """One run's memory without its script: what it does can end at any moment, as when its server is killed."""

    def __init__(self, store: Any, run_id: str, *, lasts_s: float = 60, allowed: bool = True) -> None:
        options = ResumeOptions(store=store)

        async def admit(_called: CallKind, name: str) -> str:
            assert allowed
            return name

        self.memory = RunMemory(options, run_id=run_id, owner="ann", lasts_s=lasts_s, admit=admit)
        self._number = 0

    async def call(self, given: str, *, ends: bool = True) -> bool:
        """Whether the call is answered without being made; one that does not end is made, and never ends."""
        self._number += 1
        made = CallRecord(self._number, "tool", "send", epoch=self._number)
        text = json.dumps({"to": given})
        value = await self.memory.recall(made, text)
        made.reused = value is not None
        assert value in (None, f'"{given}"')
        if ends:
            await self.memory.keep(made, text, f'"{given}"')
        return made.reused


ONE, TWO = "run_" + "1" * 22, "run_" + "2" * 22


async def killed_twice(store: Any) -> None:
    """A run is begun three times under its name, as a task is whose worker dies."""
    first = Run(store, ONE)
    assert not await first.memory.resume(ONE, already_ended=True)
    assert [await first.call(to) for to in "abc"] == [False] * 3
    await first.call("d", ends=False)
    await first.call("e")
    second = Run(store, ONE)
    assert await second.memory.resume(ONE, already_ended=True)
    assert [await second.call(to) for to in "abcde"] == [True, True, True, False, True]
    await second.call("f")
    third = Run(store, ONE)
    assert await third.memory.resume(ONE, already_ended=True)
    assert [await third.call(to) for to in "abcdefg"] == [True] * 6 + [False]


async def test_a_run_whose_server_was_killed_is_begun_again_under_its_name():
    await killed_twice(MemoryStore())


async def test_the_same_in_redis(redis_server: RedisServer):
    async with RedisStore(url=redis_server.url) as store:
        await killed_twice(store)
        run = Run(store, TWO)
        for number in range(50):
            assert not await run.call(f"{number}")
        again = Run(store, ONE)
        await again.memory.resume(TWO, already_ended=True)
        assert all([await again.call(f"{number}") for number in range(50)])
        # Everything goes by itself.
        client = store._client  # pyright: ignore[reportPrivateUsage]
        assert all([0 < await client.ttl(key) <= 3_600 + 60 + 120 for key in await client.keys("*")])


async def test_a_run_that_may_still_be_running_is_not_taken_up():
    store = MemoryStore()
    await Run(store, ONE).call("a")
    with pytest.raises(ResumeError, match="has not ended yet") as refused:
        await Run(store, TWO).memory.resume(ONE)
    assert refused.value.hint == "If it does not answer, resume it in 70 s: it has ended then."
    await Run(store, ONE, lasts_s=-20).call("a")
    later = Run(store, TWO)
    await later.memory.resume(ONE)
    assert await later.call("a")


async def test_the_record_is_in_the_store_before_the_script_knows():
    store = Failing()
    run = Run(store, ONE)
    await run.call("a")
    assert store.asked == [f"put {ONE}", f"put {ONE}.0.1"]
    kept = RunStore(store, 60, 100)
    header = await kept.header(ONE)
    assert header is not None
    assert [call.value for call in await kept.calls(ONE, header)] == ['"a"']


async def test_a_cancelled_run_keeps_what_was_done():
    store = MemoryStore()
    async with mail(resume={"store": store}) as shop:
        running = asyncio.ensure_future(shop.run("await callTool('send', {to: 'a'}); await callTool('hang', {})"))
        await shop.hanging.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    (run_id,) = {key.split(".")[0] for key in await store.keys(collection=COLLECTION)}
    async with mail(resume={"store": store}) as shop:
        ended = await shop.run("return await callTool('send', {to: 'a'})", resumeFrom=run_id)
        assert ended["result"] == "sent a x"
        assert shop.sent == []


class Cancels(MemoryStore):
    """A store whose own requests are cancelled."""

    async def put(self, key: str, value: Mapping[str, Any], **more: Any) -> None:
        raise asyncio.CancelledError


async def test_a_store_that_cancels_itself_is_one_that_fails():
    async with mail(resume={"store": Cancels()}) as shop:
        ended = await shop.run(ENDS, context={"to": ["a"]})
        assert ended["result"] == ["sent a x"]
        failed = await shop.run(FAILS, context={"to": ["b"]})
        assert "the store of runs failed" in failed["warnings"][-1]
        assert shop.sent == ["a", "b"]


async def test_what_is_kept_of_all_runs_of_a_caller_is_bounded(monkeypatch: pytest.MonkeyPatch):
    # The other tests here are the same caller on the same event loop.
    monkeypatch.setattr("codecall.resume.limits._LIMITS", WeakKeyDictionary())
    async with mail(**resumable(max_caller_chars=3_500)) as shop:
        first = await shop.run(FAILS, context={"to": ["a", "b"]})
        second = await shop.run(FAILS, context={"to": ["c", "d"]}, resumeFrom=first["runId"])
        assert [call.get("kept") for call in second["calls"]] == [None, None]
        full = await shop.run(FAILS, context={"to": ["a", "b"]}, resumeFrom=first["runId"])
        # It is answered all the same, and says that it is the last of its kind.
        assert [call["number"] for call in full["resumed"]["calls"]] == [1, 2]
        assert "the stored calls of your runs have reached 3,500 characters" in full["warnings"][-1]
        assert "is incomplete" in await shop.refusal(resumeFrom=full["runId"])
        some = await shop.run(FAILS, context={"to": ["e", "f", "g"]})
        assert "cannot be resumed" in some["warnings"][-1]
        assert "is incomplete" in await shop.refusal(resumeFrom=some["runId"])
        assert shop.sent == ["a", "b", "c", "d", "e", "f", "g"]
