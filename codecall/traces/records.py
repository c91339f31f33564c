"""Where traces come from: a recorder that observes runs as they happen, and an assembler of the events of an audit log.
And the audit sink that writes a page for each run."""

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
from typing import Final, TypeGuard, cast

from codecall.audit.events import AuditEvent, Fields, RunDetails, call_fields, end_fields, start_fields
from codecall.envelopes import RUN_ID, CallRecord, ExecutionResult
from codecall.errors import CodeCallError, OptionsError
from codecall.files import write_private_file
from codecall.sandbox.interfaces import OnCallEnd, RunObserver
from codecall.traces.model import Trace, TraceBuilder, build_invoked, build_trace
from codecall.traces.page import render
from codecall.traces.redaction import TraceMasking
from codecall.wording import join_names

MAX_STORED: Final = 64 * 1024 * 1024
"""Most characters of inputs and results that are stored for one run; of later ones only the size is known."""


@dataclass(slots=True)
class _RecordedCall:
    """One call with its input and its result as JSON text; None for what was not stored."""

    record: CallRecord
    input_json: str | None
    result_json: str | None = None


class _RunRecorder(RunObserver):
    """Records one run."""

    def __init__(self, run: RunDetails) -> None:
        self.run = run
        self.when = time.time()
        self._start = time.perf_counter()
        self._calls: list[_RecordedCall] = []
        self._console: list[tuple[float, str]] = []
        self._stored_chars = 0
        self._end_fields: Fields = {}
        self._result: ExecutionResult | None = None

    def on_queued(self) -> None:
        """See `RunObserver`."""
        self.when, self._start = time.time(), time.perf_counter()

    def on_started(self) -> None:
        """See `RunObserver`."""
        self._end_fields["queue_ms"] = self._elapsed_ms()

    def on_validated(self, validation_ms: float) -> None:
        """See `RunObserver`."""
        self._end_fields["validation_ms"] = validation_ms

    def on_console(self, lines: Sequence[str]) -> None:
        """See `RunObserver`."""
        at_ms = self._elapsed_ms()
        self._console.extend((at_ms, line) for line in lines)

    def on_call(self, record: CallRecord, input_json: str) -> OnCallEnd:
        """See `RunObserver`."""
        call = _RecordedCall(record, self._store(input_json))
        self._calls.append(call)

        def on_end(result_json: str | None) -> None:
            call.result_json = self._store(result_json)

        return on_end

    def on_finished(self, result: ExecutionResult) -> None:
        """See `RunObserver`."""
        self._finish(result.status)
        self._result = result

    def on_cancelled(self) -> None:
        """See `RunObserver`."""
        self._finish("cancelled")

    def records(self) -> list[CallRecord]:
        """Its calls so far."""
        return [call.record for call in self._calls]

    def trace(self) -> Trace:
        """Build the trace of what is known so far. Masks all of it, so it must not be called on the event loop."""
        calls, console, result = list(self._calls), list(self._console), self._result
        masking = TraceMasking()
        builder = TraceBuilder(self.run.run_id, self.run.caller, self.when)
        # In the order in which things became known: a token in an answer is known in the inputs after it.
        for call in calls:
            fields = call_fields(call.record, self._start, full_uri=True, redact=masking.text)
            fields["input"] = masking.json(call.input_json, call.record.input_chars)
            if call.record.outcome == "ok":
                fields["result"] = masking.json(call.result_json, call.record.result_chars)
            builder.calls.append(fields)
        builder.start = start_fields(self.run, masking.text(self.run.script), masking.value)
        if "status" in self._end_fields:
            lines = [(at_ms, masking.text(line)) for at_ms, line in console]
            builder.end = dict(self._end_fields)
            if result is not None:
                builder.end = builder.end | end_fields(result, self.run.preset, (), masking.value)
            builder.end = builder.end | {"console": lines}
        if masking.omitted:
            builder.notes.append(
                f"Of {masking.omitted:,} inputs, results and texts only the size is here: together they are too much."
            )
        return build_trace(builder)

    def _finish(self, status: str) -> None:
        self._end_fields |= {"status": status, "duration_ms": self._elapsed_ms()}

    def _elapsed_ms(self) -> float:
        return (time.perf_counter() - self._start) * 1000

    def _store(self, text: str | None) -> str | None:
        """Return `text` if it still fits into `MAX_STORED`, else None."""
        if text is None or self._stored_chars + len(text) > MAX_STORED:
            return None
        self._stored_chars += len(text)
        return text


class TraceRecorder:
    """Records the latest runs, so that there are traces of them; an entry of `watchers` of the option `audit`.

    Args:
        keep: how many runs are kept.
    """

    def __init__(self, keep: int = 1) -> None:
        self._runs: deque[_RunRecorder] = deque(maxlen=keep)
        self._lock = threading.Lock()

    def __call__(self, run: RunDetails) -> RunObserver:
        """Return the observer that records the run."""
        recorder = _RunRecorder(run)
        with self._lock:
            self._runs.append(recorder)
        return recorder

    def trace(self, run_id: str | None = None) -> Trace | None:
        """Build the trace of a run, with credentials masked; of a run in progress, what is known so far.

        Masking takes up to some seconds where there is much: call it in a thread.

        Args:
            run_id: the id of the run; None stands for the latest.

        Returns:
            The trace, or None if the run was not recorded or is not kept any more.
        """
        with self._lock:
            matches = [recorder for recorder in self._runs if run_id in (None, recorder.run.run_id)]
        return matches[-1].trace() if matches else None

    def calls(self) -> list[CallRecord]:
        """The calls of the latest run so far."""
        with self._lock:
            return self._runs[-1].records() if self._runs else []


MAX_OPEN: Final = 10_000
"""Most runs in progress at the same time; with more, the oldest becomes an unfinished trace."""

_CALL_ID: Final = "invoke_"
_ID: Final = re.compile(rf"{RUN_ID.pattern}|{_CALL_ID}[\w-]{{16,64}}", re.ASCII)
_START: Final = "codecall.execute.start"
_CALL: Final = "codecall.execute.tool_call"
_END: Final = "codecall.execute.complete"
_INVOKED: Final = "codecall.invoke.tool_call"
_LOST: Final = "codecall.audit.lost"


class TraceAssembler:
    """Builds traces from the events of runs, which come one after the other.

    Args:
        max_open: most runs in progress at the same time.
    """

    def __init__(self, max_open: int = MAX_OPEN) -> None:
        self._max_open = max_open
        self._open: dict[str, TraceBuilder] = {}

    def add(self, event: Mapping[str, object]) -> list[Trace]:
        """Add an event, in the form of `AuditEvent.as_dict`.

        Returns:
            The traces that are complete now: of a run that has ended, or of the oldest one if too many are open.
        """
        name = event.get("event")
        if name == _LOST:
            for builder in self._open.values():
                builder.notes.append(f"While it ran, {_count(event)} events of all runs did not get into the record.")
            return []
        run_id = event.get("run_id")
        if name not in (_START, _CALL, _END) or not isinstance(run_id, str):
            return []
        traces: list[Trace] = []
        if name == _START and run_id in self._open:
            traces.append(build_trace(self._open.pop(run_id)))  # a background task whose first server was killed
        if run_id not in self._open:
            if len(self._open) >= self._max_open:
                traces.append(build_trace(self._open.pop(next(iter(self._open)))))
            caller = event.get("caller")
            self._open[run_id] = TraceBuilder(run_id, caller if isinstance(caller, str) else "")
        builder = self._open[run_id]
        if name == _START:
            builder.start, builder.when = event, _when(event)
        elif name == _CALL:
            builder.calls.append(event)
        else:
            builder.end = event
            traces.append(build_trace(self._open.pop(run_id)))
        return traces

    def unfinished(self) -> list[Trace]:
        """Return the traces of runs whose end has not come, and forget these runs."""
        traces = [build_trace(builder) for builder in self._open.values()]
        self._open.clear()
        return traces


def traces_of(lines: Iterable[str], skipped: list[int] | None = None) -> Iterator[Trace]:
    """Build the traces of the runs in an audit log, and of the calls of `codecall:invoke`, in the order in which they
    ended; those without an end come last.

    Args:
        lines: the lines of the log, each a JSON object; an open file will do.
        skipped: receives the numbers, from 1, of lines that are no events, such as one that a killed process left torn,
            or that name a run as no server does.

    Raises:
        ValueError: a line is no event, and there is no `skipped`.
    """
    assembler = TraceAssembler()
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            event: object = json.loads(line)
        except (ValueError, RecursionError):
            event = None
        if not _is_event(event):
            if skipped is None:
                raise ValueError(f"line {number} is no event of a record of runs")
            skipped.append(number)
            continue
        run_id, caller = event.get("run_id"), event.get("caller")
        if event["event"] == _INVOKED and isinstance(run_id, str) and run_id.startswith(_CALL_ID):
            builder = TraceBuilder(run_id, caller if isinstance(caller, str) else "", calls=[event])
            yield build_invoked(builder, _when(event))
        yield from assembler.add(event)
    yield from assembler.unfinished()


def named_run(traces: Iterable[Trace], name: str) -> list[Trace]:
    """The traces of the run with an id, else of the one run whose id begins so; none if there is none.

    Raises:
        CodeCallError: several begin so.
    """
    found = [trace for trace in traces if name and trace.run_id.startswith(name)]
    found = [trace for trace in found if trace.run_id == name] or found
    ids = list(dict.fromkeys(trace.run_id for trace in found))
    if len(ids) > 1:
        raise CodeCallError(
            f"{len(ids)} runs begin with {name!r:.80}: {join_names(ids, 5)}",
            code="USAGE",
            hint="Give more of the id.",
        )
    return found


def skipped_lines(skipped: Sequence[int]) -> str:
    """Which lines were skipped, in words."""
    if len(skipped) == 1:
        return f"line {skipped[0]} is no event"
    return f"{len(skipped)} lines are no events, the first is line {skipped[0]}"


def _is_event(data: object) -> TypeGuard[dict[str, object]]:
    if not isinstance(data, dict) or "event" not in data:
        return False
    run_id = cast("dict[str, object]", data).get("run_id")
    return run_id is None or (isinstance(run_id, str) and _ID.fullmatch(run_id) is not None)


def _count(event: Mapping[str, object]) -> str:
    events = event.get("events")
    return f"{events:,}" if isinstance(events, int) else "some"


def _when(event: Mapping[str, object]) -> float | None:
    timestamp = event.get("time")
    try:
        return datetime.fromisoformat(timestamp).timestamp() if isinstance(timestamp, str) else None
    except (ValueError, OverflowError, OSError):
        return None


MAX_OPEN_PAGES: Final = 1_000
"""Most runs in progress at the same time; with more, the oldest gets its page as it is."""

_PAGE_NAME: Final = re.compile(r"\d{8}T\d{6}\.\d{3}Z-[\w-]{1,80}\.html")
_UNSAFE_IN_FILE_NAME: Final = re.compile(r"[^\w-]", re.ASCII)


class TraceSink:
    """Writes a page for each run into a folder, `20261122T093000.125Z-run_….html`, and removes the oldest pages.

    With the audit options `include_arguments` and `include_results` the pages show scripts and values. Pages are made
    in the thread of the audit log, some milliseconds each, and only their owner can read them.

    Args:
        directory: the folder; it must exist.
        keep: how many pages are kept, 1 or more.

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
        """Add an event; at the end of a run, write its page.

        Raises:
            OSError: a page cannot be written, or an old one cannot be removed.
        """
        with self._lock:
            for trace in self._runs.add(event.as_dict()):
                write_private_file(self._folder / _page_name(trace, event.time), render(trace))
                self._remove_old_pages()

    def _remove_old_pages(self) -> None:
        names = sorted(entry.name for entry in os.scandir(self._folder) if _PAGE_NAME.fullmatch(entry.name))
        for name in names[: -self._keep]:
            (self._folder / name).unlink(missing_ok=True)


def _page_name(trace: Trace, end_time: float) -> str:
    """The file name of a page. Names sort by the start of their runs."""
    when = datetime.fromtimestamp(end_time if trace.when is None else trace.when, UTC)
    run = _UNSAFE_IN_FILE_NAME.sub("_", trace.run_id)[:80] or "run"
    return f"{when:%Y%m%dT%H%M%S}.{when.microsecond // 1000:03}Z-{run}.html"
