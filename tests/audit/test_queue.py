"""From a run to the sinks: nobody waits for one that is slow, and nothing is lost without being counted."""

from __future__ import annotations

import asyncio
import json
import stat
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from codecall import AuditEvent, CodeCallPlugin, JsonLinesSink, OptionsError
from codecall.audit import queue as audit_delivery
from codecall.audit.events import RunDetails
from codecall.audit.queue import Sink
from codecall.audit.recorder import Audit, RunRecord
from codecall.envelopes import ExecutionResult
from codecall.options import AuditOptions
from codecall.presets import load_preset


def audit_of(*sinks: Sink) -> Audit:
    return Audit(AuditOptions(sinks=sinks))


def note(audit: Audit, *numbers: int, held: int = 0) -> None:
    for number in numbers:
        audit.note("codecall.execute.start", f"run_{number}", "ann", lambda number=number: {"number": number}, held)


class Slow:
    """A sink that takes nothing until it is told to."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.events: list[AuditEvent] = []

    def __call__(self, event: AuditEvent) -> None:
        self.go.wait()
        self.events.append(event)


def numbers(events: list[AuditEvent]) -> list[object]:
    return [event.fields.get("number", event.name) for event in events]


async def test_each_sink_gets_all_events_in_order():
    plain: list[AuditEvent] = []
    awaited: list[AuditEvent] = []

    async def sink(event: AuditEvent) -> None:
        await asyncio.sleep(0)
        awaited.append(event)

    audit = audit_of(plain.append, sink)
    note(audit, *range(500))
    await audit.flush()
    assert numbers(plain) == numbers(awaited) == [*range(500)]
    assert audit.dropped == 0


async def test_tools_that_hang_in_all_threads_of_asyncio_hold_up_no_flush():
    go = threading.Event()
    taken = ThreadPoolExecutor(1)
    asyncio.get_running_loop().set_default_executor(taken)
    hanging = asyncio.get_running_loop().run_in_executor(None, go.wait)
    try:
        events: list[AuditEvent] = []
        audit = audit_of(events.append)
        note(audit, 1, 2)
        await asyncio.wait_for(audit.flush(), 10)
        assert numbers(events) == [1, 2]
    finally:
        go.set()
        await hanging


async def test_a_sink_that_hangs_holds_up_nobody_and_what_it_misses_is_counted(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(audit_delivery, "MAX_QUEUED", 100)
    slow, quick = Slow(), list[AuditEvent]()
    taken = threading.Semaphore(0)

    def sink(event: AuditEvent) -> None:
        quick.append(event)
        taken.release()

    audit = audit_of(slow, sink)
    for first in range(0, 200, 50):
        note(audit, *range(first, first + 50))
        for _ in range(50):
            assert taken.acquire(timeout=5)
    assert numbers(quick) == [*range(200)]
    assert audit.dropped == 99  # one is with the sink, a hundred wait
    assert [record.message for record in caplog.records] == [
        "audit: Slow has missed 1 events so far (100 are waiting, 0 characters)"
    ]
    slow.go.set()
    await audit.flush()
    # The sink is told of the gap where it knows of it.
    assert numbers(slow.events) == [0, "codecall.audit.lost", *range(1, 101)]
    assert slow.events[1].fields == {"events": 99}


@pytest.mark.parametrize("plain", [True, False])
async def test_what_waits_for_a_sink_that_hangs_is_bounded_in_characters(
    plain: bool, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(audit_delivery, "MAX_HELD", 10_000)
    has_one, go = threading.Event(), threading.Event()
    async_go = asyncio.Event()
    taken: list[AuditEvent] = []

    def hangs(event: AuditEvent) -> None:
        has_one.set()
        go.wait()
        taken.append(event)

    async def async_hangs(event: AuditEvent) -> None:
        has_one.set()
        await async_go.wait()
        taken.append(event)

    def note_large(*numbers: int) -> None:
        for number in numbers:
            audit.note(
                "codecall.execute.start", "run", "ann", lambda number=number: {"number": number, "in": ["x" * 1_900]}
            )

    audit = audit_of(hangs if plain else async_hangs)
    note_large(0)
    assert await asyncio.to_thread(has_one.wait, 5)
    note_large(*range(1, 20))
    # All are on their way to the sink before it takes any.
    assert await asyncio.to_thread(audit._notes.flush, 5)
    await asyncio.sleep(0)
    assert audit.dropped == 14  # one is with the sink, five wait
    assert "(5 are waiting, 9," in caplog.text
    go.set()
    async_go.set()
    await audit.flush()
    assert numbers(taken) == [0, "codecall.audit.lost", 1, 2, 3, 4, 5]
    assert taken[1].fields == {"events": 14}
    note(audit, 99)
    await audit.flush()
    assert taken[-1].fields["number"] == 99


async def test_the_end_of_a_server_does_not_wait_for_a_sink_that_hangs(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("codecall.audit.recorder.FLUSH_SECONDS", 0.1)
    slow = Slow()
    audit = audit_of(slow)
    note(audit, 1, 2, 3)
    await audit.flush()
    assert "audit: Slow has not taken 3 events in time" in caplog.text
    slow.go.set()
    await audit.flush()
    assert numbers(slow.events) == [1, 2, 3]


async def test_a_sink_that_fails(caplog: pytest.LogCaptureFixture):
    taken: list[AuditEvent] = []

    def fails(event: AuditEvent) -> None:
        if event.fields.get("number") in (1, 2):
            raise SystemExit("no")
        taken.append(event)

    def forgot(event: AuditEvent) -> object:
        return asyncio.sleep(0)

    audit = audit_of(fails, forgot)
    note(audit, 0, 1, 2, 3)
    await audit.flush()
    assert numbers(taken) == [0, "codecall.audit.lost", "codecall.audit.lost", 3]
    assert [event.as_dict()["events"] for event in taken[1:3]] == [1, 1]
    assert "audit: fails has missed 1 events so far (SystemExit: no)" in caplog.text
    assert "declared with `async def`" in caplog.text
    assert audit.dropped == 6


async def test_an_async_sink_that_hangs_or_fails(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(audit_delivery, "ASYNC_SECONDS", 0.02)
    taken: list[AuditEvent] = []

    async def sink(event: AuditEvent) -> None:
        if event.fields.get("number") == 1:
            await asyncio.Event().wait()
        if event.fields.get("number") == 2:
            raise ValueError("no")
        taken.append(event)

    audit = audit_of(sink)
    note(audit, 0, 1, 2, 3)
    await audit.flush()
    assert numbers(taken) == [0, "codecall.audit.lost", "codecall.audit.lost", 3]
    assert audit.dropped == 2
    assert "sink has missed 1 events so far (TimeoutError" in caplog.text


async def test_what_waits_is_bounded_in_characters(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(audit_delivery, "MAX_HELD", 1_000)
    made, gate = threading.Event(), threading.Event()
    taken: list[AuditEvent] = []
    audit = audit_of(taken.append)

    def fields() -> dict[str, object]:
        made.set()
        gate.wait()
        return {"number": 0}

    audit.note("codecall.execute.start", "run", "ann", fields)
    assert made.wait(5)
    note(audit, 1, 2, 3, held=400)
    gate.set()
    await audit.flush()
    assert numbers(taken) == [0, 1, 2]
    assert audit.dropped == 1


async def test_an_event_that_cannot_be_made_is_counted(caplog: pytest.LogCaptureFixture):
    taken: list[AuditEvent] = []
    audit = audit_of(taken.append)
    audit.note("codecall.execute.start", "run", "ann", lambda: {"number": 1 // 0})
    note(audit, 1)
    await audit.flush()
    assert numbers(taken) == [1]
    assert audit.dropped == 1
    assert "the record of runs has missed 1 events so far (ZeroDivisionError" in caplog.text


async def test_threads_end_when_there_is_nothing_to_do(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(audit_delivery, "IDLE_SECONDS", 0.01)
    before = set(threading.enumerate())

    def working() -> list[threading.Thread]:
        new = set(threading.enumerate()) - before
        return [thread for thread in new if thread.name.startswith("codecall audit")]

    taken: list[AuditEvent] = []
    audit = audit_of(taken.append)
    for number in range(3):
        note(audit, number)
        await audit.flush()
        for thread in working():
            await asyncio.to_thread(thread.join)
    assert numbers(taken) == [0, 1, 2]


# ----------------------------------------------------------------------------------------------------------- files


def event(number: int, **fields: Any) -> AuditEvent:
    return AuditEvent("codecall.execute.start", 0.0, "run", "ann", {"number": number, **fields})


def lines(path: Path) -> list[int]:
    return [json.loads(line)["number"] for line in path.read_text(encoding="ascii").splitlines()]


def test_a_file_that_has_grown_too_large_is_moved_away(tmp_path: Path):
    size = len(event(10).as_json()) + 1
    path = tmp_path / "audit.jsonl"
    sink = JsonLinesSink(path, max_bytes=3 * size, backups=2)
    for number in range(10, 21):
        sink(event(number))
    assert lines(path) == [19, 20]
    assert lines(tmp_path / "audit.jsonl.1") == [16, 17, 18]
    assert lines(tmp_path / "audit.jsonl.2") == [13, 14, 15]
    assert len([*tmp_path.iterdir()]) == 3
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    # What is longer than a file may be is written all the same, alone.
    sink(event(21, text="x" * 999))
    sink(event(22))
    assert lines(tmp_path / "audit.jsonl.1") == [21]
    assert lines(path) == [22]


def test_a_file_that_is_a_link_is_not_written(tmp_path: Path):
    path, elsewhere = tmp_path / "audit.jsonl", tmp_path / "elsewhere"
    sink = JsonLinesSink(path)
    path.symlink_to(elsewhere)
    with pytest.raises(OSError, match="symbolic link"):
        sink(event(1))
    with pytest.raises(OptionsError, match="is a link"):
        JsonLinesSink(path)
    assert not elsewhere.exists()


def test_what_is_torn_costs_one_line(tmp_path: Path):
    path = tmp_path / "audit.jsonl"
    sink = JsonLinesSink(path)
    sink(event(1))
    with path.open("a", encoding="ascii") as file:
        file.write('{"number":2,"na')
    sink(event(3))
    kept, torn, last = path.read_text(encoding="ascii").splitlines()
    assert (json.loads(kept)["number"], torn, json.loads(last)["number"]) == (1, '{"number":2,"na', 3)


async def test_a_file_that_cannot_be_written_and_then_can(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    folder = tmp_path / "log"
    folder.mkdir()
    audit = audit_of(JsonLinesSink(folder / "audit.jsonl"))
    note(audit, 1)
    await audit.flush()
    (folder / "audit.jsonl").rename(tmp_path / "moved.jsonl")
    folder.rmdir()
    note(audit, 2, 3)
    await audit.flush()
    assert "audit: JsonLinesSink has missed 1 events so far (FileNotFoundError" in caplog.text
    folder.mkdir()
    note(audit, 4)
    await audit.flush()
    events = [json.loads(line) for line in (folder / "audit.jsonl").read_text(encoding="ascii").splitlines()]
    assert [told["event"] for told in events] == ["codecall.audit.lost", "codecall.execute.start"]
    assert events[0]["events"] == 2
    assert lines(tmp_path / "moved.jsonl") == [1]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device that is always full: Linux has one")
def test_a_full_disk_is_an_error():
    with pytest.raises(OSError, match="No space left"):
        JsonLinesSink("/dev/full")(event(1))


def test_wrong_options_are_refused(tmp_path: Path):
    for wrong in ({"backups": 0}, {"max_bytes": 0}):
        with pytest.raises(OptionsError, match="must be 1 or more"):
            JsonLinesSink(tmp_path / "a", **wrong)
    with pytest.raises(OptionsError, match="there is no folder"):
        JsonLinesSink(tmp_path / "no" / "a")
    for sink in (5, "", {"backups": 2}):
        with pytest.raises(OptionsError, match=r"audit\.sinks"):
            CodeCallPlugin.init(audit={"sinks": [sink]})


def test_nothing_is_missing_when_the_process_ends(tmp_path: Path):
    program = """
    import asyncio, sys
    from codecall import JsonLinesSink
    from codecall.audit.recorder import Audit
    from codecall.options import AuditOptions

    async def main():
        audit = Audit(AuditOptions(sinks=(JsonLinesSink(sys.argv[1]),)))
        for number in range(2_000):
            audit.note("codecall.execute.start", "run", "ann", lambda number=number: {"number": number})

    asyncio.run(main())
    """
    path = tmp_path / "audit.jsonl"
    subprocess.run([sys.executable, "-c", textwrap.dedent(program), str(path)], check=True, timeout=60)
    assert lines(path) == [*range(2_000)]


async def test_scripts_contexts_consoles_and_values_that_wait_are_counted(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(audit_delivery, "MAX_HELD", 1_000)
    made, gate = threading.Event(), threading.Event()
    audit = audit_of(lambda _: None)

    def fields() -> dict[str, object]:
        made.set()
        gate.wait()
        return {"number": 0}

    audit.note("codecall.execute.start", "run", "ann", fields)
    assert made.wait(5)
    dropped: list[int] = []
    for script, context_bytes in (("x" * 400, 0), ("", 400), ("x" * 400, 0)):
        run = RunDetails("run", "ann", script, "secure", load_preset("secure"), context_bytes)
        RunRecord(audit, run).on_queued()
        dropped.append(audit.dropped)
    for result in (ExecutionResult("ok", value_bytes=400), ExecutionResult("ok", logs=("x" * 400,))):
        record = RunRecord(audit, RunDetails("run", "ann", "", "secure", load_preset("secure")))
        record.on_finished(result)
        dropped.append(audit.dropped)
    gate.set()
    await audit.flush()
    assert dropped == [0, 0, 1, 2, 3]
