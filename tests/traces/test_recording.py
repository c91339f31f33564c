"""Traces of runs as they happen."""

from __future__ import annotations

import asyncio
import logging

import pytest
from fastmcp import Client

from codecall.sandbox.interfaces import RunObserver
from codecall.traces import Trace, TraceRecorder, redaction, render
from codecall.traces import records as recording
from tests.traces.shop import SECRET, shop


def test_a_run_with_all_that_it_called_and_said(runs: list[Trace]):
    done, failed = runs
    assert (done.status, done.notes, failed.status) == ("ok", (), "tool_error")
    login, listing = done.calls[:2]
    assert login.input.data == {"user": "ann", "password": "masked-credential-1"}
    assert login.result.data == {"user": "ann", "token": "masked-credential-1"}
    # What stood under a telling name is known by itself from then on.
    assert listing.input.data == {"token": "masked-credential-1"}
    assert done.script is not None
    assert "password: 'masked-credential-1'" in done.script
    at = [line.at_ms for line in done.console]
    assert done.duration_ms is not None
    assert None not in at
    assert 0 < at[0] < at[1] <= done.duration_ms  # type: ignore[operator]
    searches = [call for call in done.calls if call.name == "orders_search"]
    assert len({call.line for call in searches}) == 1
    assert max(call.start_ms or 0 for call in searches) < min(call.end_ms or 0 for call in searches)
    assert failed.error is not None
    assert failed.error.line == failed.calls[-1].line == 8
    assert SECRET not in render(done) + render(failed)


async def test_a_run_that_is_under_way_one_that_was_cancelled_and_those_of_before():
    recorder = TraceRecorder(keep=2)
    assert recorder.trace() is None
    server = shop(audit={"sinks": [], "watchers": [recorder]})
    shown_text: list[Trace | None] = []
    looked = asyncio.Event()

    @server.tool
    async def look() -> None:
        shown_text.append(recorder.trace())
        looked.set()
        await asyncio.Event().wait()

    async with Client(server) as client:
        for number in (1, 2):
            await client.call_tool("codecall:execute", {"script": f"return {number}"})
        second = recorder.trace()
        running = asyncio.ensure_future(client.call_tool("codecall:execute", {"script": "await callTool('look')"}))
        await looked.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    (under_way,) = shown_text
    cancelled = recorder.trace()
    assert under_way is not None
    assert cancelled is not None
    assert second is not None
    assert (under_way.status, cancelled.status) == ("unfinished", "cancelled")
    assert [call.outcome for call in (*under_way.calls, *cancelled.calls)] == ["unfinished"] * 2
    assert recorder.trace(second.run_id) == second
    assert second.result.data == 2


async def test_what_there_is_no_room_for_is_told_by_its_size(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(recording, "MAX_STORED", 100)
    recorder = TraceRecorder()
    async with Client(shop(audit={"sinks": [], "watchers": [recorder]})) as client:
        await client.call_tool(
            "codecall:execute",
            {"script": "return callTool('orders_search', {region: 'west', status: 'open', limit: 1})"},
        )
    trace = recorder.trace()
    assert trace is not None
    (call,) = trace.calls
    assert call.input.available
    assert not call.result.available
    assert (call.result.chars or 0) > 100
    assert trace.notes == ("Of 1 inputs, results and texts only the size is here: together they are too much.",)


ENOUGH = """\
console.log('started with ' + codecallContext.shop);
const orders = await callTool('orders_search', {region: 'west', status: 'open', limit: 1});
console.log('done');
if (codecallContext.shop === 'closed') throw new Error('the shop is closed');
return orders;
"""


@pytest.mark.parametrize("shop_name", ["open", "closed"])
async def test_what_takes_too_long_to_mask_is_told_by_its_size(monkeypatch: pytest.MonkeyPatch, shop_name: str):
    recorder = TraceRecorder()
    async with Client(shop(audit={"sinks": [], "watchers": [recorder]})) as client:
        arguments = {"script": ENOUGH, "context": {"shop": shop_name}}
        await client.call_tool("codecall:execute", arguments, raise_on_error=False)
    whole = recorder.trace()
    monkeypatch.setattr(redaction, "MASKING_SECONDS", 0.0)
    trace = recorder.trace()
    assert whole is not None
    assert trace is not None
    assert whole.notes == ()
    assert trace.notes == ("Of 7 inputs, results and texts only the size is here: together they are too much.",)
    size = f"…[truncated {len(ENOUGH)} characters]"
    assert (trace.script, trace.script_chars, trace.context.available) == (size, len(ENOUGH), False)
    lengths = [len(line.text) for line in whole.console]
    assert [line.text for line in trace.console] == [f"…[truncated {length} characters]" for length in lengths]
    assert not any(value.available for call in trace.calls for value in (call.input, call.result))
    assert [call.name for call in trace.calls] == ["orders_search"]
    assert not trace.result.available
    assert (trace.status, trace.limits) == (whole.status, whole.limits)
    assert (trace.error is None, whole.error is None) == (shop_name == "open", shop_name == "open")
    if trace.error is not None:
        assert whole.error is not None
        assert (trace.error.code, trace.error.message) == (whole.error.code, None)
    assert render(trace)


async def test_a_watcher_that_fails_disturbs_nobody(caplog: pytest.LogCaptureFixture):
    recorder = TraceRecorder()

    def broken(_: object) -> RunObserver:
        raise RuntimeError("no")

    with caplog.at_level(logging.ERROR, "codecall"):
        async with Client(shop(audit={"sinks": [], "watchers": [broken, recorder]})) as client:
            await client.call_tool("codecall:execute", {"script": "return 1"})
    assert "gave no watch of a run" in caplog.text
    trace = recorder.trace()
    assert trace is not None
    assert trace.status == "ok"


PLACES = """\
interface Order { id: number }
const find = (region: string) =>
  callTool('orders_search', { region, status: 'open', limit: 1 });
const [one, two] = await Promise.all([find('north'),
  tools['rates_convert']({ region: 'north', to: 'EUR' })]);
for (let i = 0; i < 2; i++) { await callTool(
  'rates_convert', { region: 'west', to: 'EUR' }); }
"""


async def test_calls_know_their_place_in_the_script():
    recorder = TraceRecorder()
    async with Client(shop(audit={"sinks": [], "watchers": [recorder]})) as client:
        await client.call_tool("codecall:execute", {"script": PLACES})
    trace = recorder.trace()
    assert trace is not None
    assert trace.status == "ok"
    lines = PLACES.split("\n")
    matches = [(call.line, lines[(call.line or 0) - 1][(call.column or 0) - 1 :][:9]) for call in trace.calls]
    # Of a call that goes over several lines, the engine tells one of them.
    assert matches == [(3, "callTool("), (5, "tools['ra"), (7, "'rates_co"), (7, "'rates_co")]
