"""Sees runs as they happen, and makes traces of them with all that they called and said."""

from __future__ import annotations

import json
import os
import re
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, cast

from codecall.audit.events import AuditEvent, Fields, RunDetails, call_fields, end_fields, start_fields
from codecall.audit.values import ValueBounds, redact_json, redact_script, redact_value
from codecall.envelopes import CallRecord, ExecutionResult
from codecall.errors import OptionsError
from codecall.files import write_private_file
from codecall.redaction.masking import Masker
from codecall.sandbox.interfaces import OnCallEnd, RunObserver
from codecall.traces.model import Trace, TraceBuilder, build_trace
from codecall.traces.page import render

# ----------------------------------------------------------------------------------------------------
# Sees runs as they happen, and makes traces of them with all that they called and said.

MAX_STORED: Final = 64 * 1024 * 1024
"""Characters of inputs and values that one run may have kept; of what comes then only the size is known."""

MAX_SHOWN: Final = 4_000_000
"""Characters of inputs and values that go through masking for one trace, in the order of the calls."""

MASKING_SECONDS: Final = 20.0
"""How long masking may take for one trace; of what is left then only the size is told."""

VALUE: Final = ValueBounds(read=1_000_000, nodes=5_000, chars=100_000, text=32_000)
"""Of each value."""


@dataclass(slots=True)
class _RecordedCall:
    """One call, and what went in and out of it, as JSON text."""

    made: CallRecord
    text: str | None
    value: str | None = None


class _RunRecorder(RunObserver):
    """Takes notes of one run; a `RunObserver`."""

    def __init__(self, run: RunDetails) -> None:
        self.run = run
        self.when = time.time()
        self._began = time.perf_counter()
        self._calls: list[_RecordedCall] = []
        self._console: list[tuple[float, str]] = []
        self._held = 0
        self._ending: Fields = {}
        self._result: ExecutionResult | None = None

    def on_queued(self) -> None:
        """See `RunObserver`."""
        self.when, self._began = time.time(), time.perf_counter()

    def on_started(self) -> None:
        """See `RunObserver`."""
        self._ending["queue_ms"] = self._since()

    def on_validated(self, validation_ms: float) -> None:
        """See `RunObserver`."""
        self._ending["validation_ms"] = validation_ms

    def on_console(self, lines: Sequence[str]) -> None:
        """See `RunObserver`."""
        at_ms = self._since()
        self._console.extend((at_ms, line) for line in lines)

    def on_call(self, record: CallRecord, input_json: str) -> OnCallEnd:
        """See `RunObserver`."""
        heard = _RecordedCall(record, self._room(input_json))
        self._calls.append(heard)

        def end(value: str | None) -> None:
            heard.value = self._room(value)

        return end

    def on_finished(self, result: ExecutionResult) -> None:
        """See `RunObserver`."""
        self._end(result.status)
        self._result = result

    def on_cancelled(self) -> None:
        """See `RunObserver`."""
        self._end("cancelled")

    def trace(self) -> Trace:
        """What is known by now. Masks all of it: not for the event loop."""
        calls, console, result = list(self._calls), list(self._console), self._result
        masker = Masker()
        left = MAX_SHOWN
        ends = time.monotonic() + MASKING_SECONDS
        left_out = 0

        def told(text: str | None, chars: int) -> object:
            nonlocal left, left_out
            if text is None or len(text) > left or time.monotonic() > ends:
                left_out += 1
                return {"__truncated": {"characters": chars}}
            left -= len(text)
            return redact_json(text, VALUE, masker)

        parts = TraceBuilder(self.run.run_id, self.run.caller, self.when)
        # In the order in which things became known: a token in an answer is known in the inputs after it.
        for heard in calls:
            fields = call_fields(heard.made, self._began, full_uri=True)
            fields["input"] = told(heard.text, heard.made.input_chars)
            if heard.made.outcome == "ok":
                fields["result"] = told(heard.value, heard.made.result_chars)
            parts.calls.append(fields)
        parts.start = start_fields(self.run, redact_script(self.run.script, masker))
        if "status" in self._ending:
            lines = [(at_ms, redact_script(line, masker)) for at_ms, line in console]
            parts.end = dict(self._ending)
            if result is not None:
                values = end_fields(result, self.run.preset, (), lambda data: redact_value(data, VALUE, masker))
                parts.end = parts.end | values
            parts.end = parts.end | {"console": lines}
        if left_out:
            parts.notes.append(f"Of {left_out:,} inputs and results only the size is here: together they are too much.")
        return build_trace(parts)

    def _end(self, status: str) -> None:
        self._ending |= {"status": status, "duration_ms": self._since()}

    def _since(self) -> float:
        return (time.perf_counter() - self._began) * 1000

    def _room(self, text: str | None) -> str | None:
        """`text`, if there is room for it."""
        if text is None or self._held + len(text) > MAX_STORED:
            return None
        self._held += len(text)
        return text


class TraceRecorder:
    """Keeps what the latest runs called and said, for traces of them; an entry of `watchers` of the option `audit`.

    Args:
        keep: runs that are kept.
    """

    def __init__(self, keep: int = 1) -> None:
        self._runs: deque[_RunRecorder] = deque(maxlen=keep)
        self._lock = threading.Lock()

    def __call__(self, run: RunDetails) -> RunObserver:
        """What watches that run."""
        notes = _RunRecorder(run)
        with self._lock:
            self._runs.append(notes)
        return notes

    def trace(self, run_id: str | None = None) -> Trace | None:
        """The trace of a run, credentials masked; of one that is under way, as far as it has come.

        Masking takes up to some seconds where there is much: call it in a thread.

        Args:
            run_id: of the run; None: the latest.

        Returns:
            None where there is no such run, or none any more.
        """
        with self._lock:
            found = [notes for notes in self._runs if run_id in (None, notes.run.run_id)]
        return found[-1].trace() if found else None


# ----------------------------------------------------------------------------------------------------
# From the record of many runs, as `JsonLinesSink` writes it, to their traces.

MAX_OPEN: Final = 10_000
"""Runs that may be under way at the same time; the oldest is told as unfinished when there are more."""

_START: Final = "codecall.execute.start"
_CALL: Final = "codecall.execute.tool_call"
_END: Final = "codecall.execute.complete"
_LOST: Final = "codecall.audit.lost"


class TraceAssembler:
    """Runs whose events come one after the other.

    Args:
        max_open: runs that may be under way at the same time.
    """

    def __init__(self, max_open: int = MAX_OPEN) -> None:
        self._max_open = max_open
        self._open: dict[str, TraceBuilder] = {}

    def add(self, event: Mapping[str, object]) -> list[Trace]:
        """Take in an event, as `AuditEvent.as_dict` gives it.

        Returns:
            The runs that are told now: one that has ended, or one that is given up for want of room.
        """
        name = event.get("event")
        if name == _LOST:
            for parts in self._open.values():
                parts.notes.append(f"While it ran, {_count(event)} events of all runs did not get into the record.")
            return []
        run_id = event.get("run_id")
        if name not in (_START, _CALL, _END) or not isinstance(run_id, str):
            return []
        told: list[Trace] = []
        if name == _START and run_id in self._open:
            told.append(build_trace(self._open.pop(run_id)))  # a background task whose first server was killed
        if run_id not in self._open:
            if len(self._open) >= self._max_open:
                told.append(build_trace(self._open.pop(next(iter(self._open)))))
            caller = event.get("caller")
            self._open[run_id] = TraceBuilder(run_id, caller if isinstance(caller, str) else "")
        parts = self._open[run_id]
        if name == _START:
            parts.start, parts.when = event, _when(event)
        elif name == _CALL:
            parts.calls.append(event)
        else:
            parts.end = event
            told.append(build_trace(self._open.pop(run_id)))
        return told

    def unfinished(self) -> list[Trace]:
        """Those of which no end has come; they are forgotten."""
        told = [build_trace(parts) for parts in self._open.values()]
        self._open.clear()
        return told


def traces_of(lines: Iterable[str], skipped: list[int] | None = None) -> Iterator[Trace]:
    """The runs of a record, in the order in which they ended; those without an end come last.

    Args:
        lines: JSON, an event each; a file that is open.
        skipped: gets the numbers, from 1, of lines that are no events, such as one that a killed process left torn.

    Raises:
        ValueError: a line is no event, and there is no `skipped`.
    """
    runs = TraceAssembler()
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            event: object = json.loads(line)
        except (ValueError, RecursionError):
            event = None
        if not isinstance(event, dict) or "event" not in event:
            if skipped is None:
                raise ValueError(f"line {number} is no event of a record of runs")
            skipped.append(number)
            continue
        yield from runs.add(cast("dict[str, object]", event))
    yield from runs.unfinished()


def _count(event: Mapping[str, object]) -> str:
    events = event.get("events")
    return f"{events:,}" if isinstance(events, int) else "some"


def _when(event: Mapping[str, object]) -> float | None:
    told = event.get("time")
    try:
        return datetime.fromisoformat(told).timestamp() if isinstance(told, str) else None
    except (ValueError, OverflowError, OSError):
        return None


# ----------------------------------------------------------------------------------------------------
# A page for every run: a sink of the record.

MAX_OPEN_PAGES: Final = 1_000
"""Runs that are under way at the same time; with more, the oldest gets its page as it is."""

_PAGE: Final = re.compile(r"\d{8}T\d{6}\.\d{3}Z-[\w-]{1,80}\.html")
_ODD: Final = re.compile(r"[^\w-]", re.ASCII)


class TraceSink:
    """Writes a page for each run into a folder, `20261122T093000.125Z-run_….html`; the oldest go.

    With `include_arguments` and `include_results` of the record's options the pages show scripts and values. They are
    made in the record's own thread, some milliseconds each, and can be read by their owner alone.

    Args:
        directory: where; it must exist.
        keep: pages that stay.

    Raises:
        OptionsError: `keep` is less than 1, or the folder does not exist.
    """

    def __init__(self, directory: str | os.PathLike[str], *, keep: int = 200) -> None:
        self._folder = Path(directory)
        if keep < 1:
            raise OptionsError("audit: TraceSink: keep must be 1 or more")
        if not self._folder.is_dir():
            raise OptionsError(f"audit: TraceSink: there is no folder {str(self._folder)!r}")
        self._keep = keep
        self._runs = TraceAssembler(MAX_OPEN_PAGES)
        self._lock = threading.Lock()

    def __call__(self, event: AuditEvent) -> None:
        """Take note of it; at the end of a run, write its page.

        Raises:
            OSError: it cannot be written, or an old one cannot be removed.
        """
        with self._lock:
            for trace in self._runs.add(event.as_dict()):
                write_private_file(self._folder / _name(trace, event.time), render(trace))
                self._clear()

    def _clear(self) -> None:
        names = sorted(entry.name for entry in os.scandir(self._folder) if _PAGE.fullmatch(entry.name))
        for name in names[: -self._keep]:
            (self._folder / name).unlink(missing_ok=True)


def _name(trace: Trace, ended: float) -> str:
    """The name of a page: they sort by the beginning of their runs."""
    when = datetime.fromtimestamp(ended if trace.when is None else trace.when, UTC)
    return f"{when:%Y%m%dT%H%M%S}.{when.microsecond // 1000:03}Z-{_ODD.sub('_', trace.run_id)[:80] or 'run'}.html"
