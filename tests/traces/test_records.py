"""From records of runs to traces: whatever a file holds, and whatever is missing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client
from hypothesis import given, settings
from hypothesis import strategies as st

from codecall import AuditEvent, JsonLinesSink, OptionsError
from codecall.traces import Trace, TraceSink, render, traces_of
from codecall.traces.model import NO_END, NO_INPUTS, NO_RESULTS, NO_SCRIPT, NO_START, NO_TIMES, OF_INVOKE
from codecall.traces.records import MAX_OPEN_PAGES as MAX_OPEN
from codecall.traces.records import TraceAssembler
from tests.traces.shop import FAILING, REPORT, SECRET, shop

RUN_1, RUN_2 = f"run_{1:032}", f"run_{2:032}"

BAD = "const a = 1;\neval('a')"


async def recorded(sinks: Sequence[Any], *scripts: str, **audit: bool) -> None:
    """Run scripts; the server has ended then, and its record is whole."""
    async with Client(shop(audit={"sinks": list(sinks), **audit})) as client:
        for script in scripts:
            await client.call_tool("codecall:execute", {"script": script})


def read(path: Path) -> list[Trace]:
    with path.open(encoding="ascii") as lines:
        return list(traces_of(lines))


async def test_calls_of_invoke_are_calls_without_a_script(tmp_path: Path):
    path = tmp_path / "audit.jsonl"
    async with Client(shop(audit={"sinks": [JsonLinesSink(path)]})) as client:
        for tool, given in (("regions_list", {"token": "t"}), ("nosuch", {})):
            await client.call_tool("codecall:invoke", {"tool": tool, "input": given}, raise_on_error=False)
        await client.call_tool("codecall:execute", {"script": "return 1"})
    listed, refused, run = read(path)
    for trace in (listed, refused):
        assert trace.run_id.startswith("invoke_")
        assert (trace.tool, trace.notes, trace.script) == ("codecall:invoke", (OF_INVOKE,), None)
        assert trace.when is not None
        assert trace.caller == run.caller
        assert OF_INVOKE in render(trace)
    assert (listed.status, listed.error) == ("ok", None)
    assert [(call.number, call.name, call.outcome, call.start_ms) for call in listed.calls] == [
        (1, "regions_list", "ok", 0.0)
    ]
    assert listed.calls[0].end_ms == listed.duration_ms
    assert (refused.status, refused.error and refused.error.code) == ("tool_error", "TOOL_NOT_FOUND")


async def test_a_record_with_everything_and_a_folder_of_pages(tmp_path: Path):
    folder = tmp_path / "pages"
    folder.mkdir()
    (folder / "mine.html").write_text("mine", encoding="utf-8")
    sinks = [JsonLinesSink(tmp_path / "audit.jsonl"), TraceSink(folder, keep=2)]
    await recorded(sinks, REPORT, FAILING, BAD, include_arguments=True, include_results=True)
    done, failed, refused = read(tmp_path / "audit.jsonl")

    assert (done.status, done.error, done.notes, done.preset) == ("ok", None, (), "secure")
    assert done.script is not None
    assert done.script.startswith("// Which regions")
    assert [call.name for call in done.calls[:3]] == ["auth_login", "regions_list", "orders_search"]
    assert [call.line for call in done.calls] == [2, 3, *[7] * 7, *[14] * 5]
    assert done.calls[2].column == 27
    for call in done.calls:
        assert call.start_ms is not None
        assert call.end_ms is not None
        assert done.queue_ms is not None
        assert done.duration_ms is not None
        assert done.queue_ms <= call.start_ms < call.end_ms <= done.duration_ms
    assert done.calls[1].result.data == {"regions": ["north", "south", "east", "west", "coast", "inland", "islands"]}
    assert [line.text for line in done.console] == ["7 regions", "[warn] 5 of them are late"]
    assert done.result.available
    assert {limit.name for limit in done.limits} == {
        "Tool calls",
        "Script time",
        "Run time",
        "Steps",
        "Result",
        "Memory",
    }
    returned = next(limit for limit in done.limits if limit.name == "Result")
    assert returned.used == len(json.dumps(done.result.data, separators=(",", ":")))

    assert failed.error is not None
    assert (failed.status, failed.error.code, failed.error.line) == ("tool_error", "TOOL_EXECUTION_ERROR", 8)
    assert "small letters" in (failed.error.message or "")
    assert failed.error.name == "rates_convert"
    assert failed.calls[-1].outcome == "error"

    assert refused.error is not None
    assert (refused.status, refused.error.line, refused.calls) == ("illegal_access", 2, ())

    pages = sorted(path for path in folder.iterdir() if path.name != "mine.html")
    assert [path.name.partition("-")[2] for path in pages] == [f"{run.run_id}.html" for run in (failed, refused)]
    assert {path.stat().st_mode & 0o777 for path in pages} == {0o600}
    assert pages[0].read_text(encoding="utf-8") == render(failed)
    assert (folder / "mine.html").read_text(encoding="utf-8") == "mine"
    for text in ((tmp_path / "audit.jsonl").read_text(encoding="ascii"), render(done)):
        assert SECRET not in text


async def test_a_starlark_run_says_its_tool_and_is_coloured_as_starlark(tmp_path: Path):
    sinks = [JsonLinesSink(tmp_path / "audit.jsonl")]
    audit = {"sinks": sinks, "include_arguments": True}
    async with Client(shop(audit=audit, starlark=True)) as client:
        await client.call_tool("execute_tool_script", {"script": "# all of them\nreturn 1 // 1"})
        await client.call_tool("codecall:execute", {"script": "return 1 // one"})
    starlark, javascript = read(tmp_path / "audit.jsonl")
    assert (starlark.tool, starlark.language) == ("execute_tool_script", "starlark")
    assert (javascript.tool, javascript.language) == ("codecall:execute", "javascript")
    page = render(starlark)
    assert "<dt>Tool</dt><dd>execute_tool_script</dd>" in page
    assert '<span class="comment"># all of them</span>' in page
    assert "<dt>Tool</dt>" not in render(javascript)
    assert '<span class="comment">// one</span>' in render(javascript)


async def test_a_record_without_values_says_what_is_missing(tmp_path: Path):
    await recorded([JsonLinesSink(tmp_path / "audit.jsonl")], FAILING)
    (trace,) = read(tmp_path / "audit.jsonl")
    assert trace.notes == (NO_SCRIPT, NO_INPUTS, NO_RESULTS)
    assert trace.script is None
    assert trace.error is not None
    assert (trace.error.message, trace.error.line) == (None, 8)
    assert trace.calls[0].input.chars
    assert not trace.calls[0].input.available
    page = render(trace)
    assert "small letters" not in page
    assert f"{trace.script_chars:,} characters" in page


def line(event: str, run_id: str = RUN_1, **fields: object) -> str:
    time = "2026-11-22T03:00:00.000+00:00"
    return json.dumps({"event": f"codecall.{event}", "run_id": run_id, "caller": "c", "time": time, **fields})


def test_runs_without_a_beginning_or_an_end():
    start, call = line("execute.start"), line("execute.tool_call", number=1, called="tool", name="t", duration_ms=3)
    lost = json.dumps({"event": "codecall.audit.lost", "events": 7, "time": "?"})
    again, end = line("execute.start", script="1"), line("execute.complete", status="ok", console=[])
    first, second, third = traces_of(
        [start, call, lost, again, end, line("execute.complete", RUN_2, status="cancelled")]
    )
    assert first.notes == (
        NO_SCRIPT,
        NO_END,
        NO_INPUTS,
        NO_TIMES,
        "While it ran, 7 events of all runs did not get into the record.",
    )
    assert (second.status, second.notes) == ("ok", ())
    assert (third.run_id, third.status, third.notes) == (RUN_2, "cancelled", (NO_START,))
    assert first.when == second.when == 1795316400.0


def test_lines_that_are_no_events():
    lines = [
        "",
        line("execute.start"),
        '{"event": "codecall.exec',
        "[1]",
        "{}",
        '{"event": 7}',
        line("invoke.tool_call"),
        "[" * 9_999,
    ]
    skipped: list[int] = []
    assert [trace.run_id for trace in traces_of(lines, skipped)] == [RUN_1]
    assert skipped == [3, 4, 5, 8]
    with pytest.raises(ValueError, match="line 3 is no event"):
        list(traces_of(lines))


@pytest.mark.parametrize("run_id", ["run_1", f"{RUN_1}\n", RUN_1.replace("0", "٠"), f'{RUN_1}"""', RUN_1 * 9, "", 7])
def test_ids_that_no_server_makes(run_id: object):
    skipped: list[int] = []
    lines = [line("execute.start"), json.dumps({"event": "codecall.execute.start", "run_id": run_id})]
    assert [trace.run_id for trace in traces_of(lines, skipped)] == [RUN_1]
    assert skipped == [2]


def test_with_too_many_runs_at_once_the_oldest_is_told_as_it_is():
    runs = TraceAssembler(2)
    events = [json.loads(line("execute.start", f"run_{n:032}")) for n in range(3)]
    assert [[trace.run_id for trace in runs.add(event)] for event in events] == [[], [], [f"run_{0:032}"]]
    assert [trace.run_id for trace in runs.unfinished()] == [RUN_1, RUN_2]
    assert runs.unfinished() == []


json_data = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(["ok", "error", "tool"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.text() | st.sampled_from(["__truncated", "characters", "items", "message"]), inner, max_size=3
        )
    ),
    max_leaves=6,
)
NAMES = """
status code error console warnings result result_bytes returned_bytes number called name start_ms duration_ms line
column outcome reused input input_chars script preset dry_run resumed_from queue_ms validation_ms steps max_steps time
caller events max_memory_mb tool_calls max_tool_calls
"""
names = st.sampled_from(NAMES.split())
events = st.sampled_from(["execute.start", "execute.tool_call", "execute.complete", "audit.lost", "other"])


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(events, st.dictionaries(names, json_data)), max_size=8))
def test_whatever_a_record_holds_there_is_a_page(matches: list[tuple[str, dict[str, Any]]]):
    lines = [json.dumps({"run_id": RUN_1, **fields, "event": f"codecall.{event}"}) for event, fields in matches]
    for trace in traces_of(lines):
        render(trace).encode()


# ------------------------------------------------------------------------------------------------------- sink


def test_a_sink_that_cannot_be(tmp_path: Path):
    with pytest.raises(OptionsError, match="there is no folder"):
        TraceSink(tmp_path / "none")
    with pytest.raises(OptionsError, match="keep must be 1 or more"):
        TraceSink(tmp_path, keep=0)


def test_a_page_is_written_for_a_run_that_never_ends_and_never_outside_the_folder(tmp_path: Path):
    sink = TraceSink(tmp_path)
    for number in range(MAX_OPEN + 1):
        sink(AuditEvent("codecall.execute.start", 1_790_000_000.0, f"../{number}"))
    (page,) = tmp_path.iterdir()
    assert page.name == "20260921T141320.000Z-___0.html"
    assert NO_END in page.read_text(encoding="utf-8")


def test_a_page_that_cannot_be_written_leaves_nothing(tmp_path: Path):
    folder = tmp_path / "pages"
    folder.mkdir()
    sink = TraceSink(folder)
    end = AuditEvent("codecall.execute.complete", 1_790_000_000.0, RUN_1)
    (folder / f"20260921T141320.000Z-{RUN_1}.html").mkdir()
    with pytest.raises(OSError, match="Is a directory"):
        sink(end)
    assert [path.name for path in folder.iterdir()] == [f"20260921T141320.000Z-{RUN_1}.html"]
