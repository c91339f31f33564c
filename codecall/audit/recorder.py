"""Records every run: what scripts did, for the people responsible for the server.

A run only takes notes. A thread turns them into events (hashing, masking) and passes each to the sinks, which have
their own threads, so no run waits for its record. `events.py` lists the events.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal, NamedTuple

from opentelemetry.trace import get_current_span

from codecall.audit.events import (
    AuditEvent,
    EventName,
    Fields,
    RunDetails,
    TraceContext,
    call_fields,
    end_fields,
    refusal_fields,
    start_fields,
)
from codecall.audit.options import AuditFile
from codecall.audit.queue import FLUSH_SECONDS, DropCounter, QueueWorker, Sink, sink_queue
from codecall.audit.sinks import JsonLinesSink, LoggingSink
from codecall.audit.values import call_subject, estimate_chars, redact_json, redact_script
from codecall.envelopes import CallRecord, ExecutionResult
from codecall.errors import IllegalAccess, ToolCallError
from codecall.jsonio.decode import canonical_digest
from codecall.options import AuditOptions
from codecall.sandbox.interfaces import OnCallEnd, RunObserver

logger = logging.getLogger("codecall")

BLOCKED_CALLS: Final = frozenset({"ACCESS_DENIED", "APPROVAL_DENIED", "APPROVAL_REQUIRED", "FLOW_DENIED", "RATE_LIMIT"})
"""Codes of calls that are recorded as blocked. A script that calls a meta-tool is itself blocked."""

REFUSED: Final = frozenset({"syntax_error", "illegal_access"})
"""Statuses of scripts that are recorded as blocked."""

FieldsFactory = Callable[[], Mapping[str, object]]
Verb = Literal["execute", "invoke"]

_CALLS: Final[dict[Verb, tuple[EventName, EventName]]] = {
    "execute": ("codecall.execute.tool_call", "codecall.execute.blocked"),
    "invoke": ("codecall.invoke.tool_call", "codecall.invoke.blocked"),
}


class _Note(NamedTuple):
    """The data from which another thread creates an event later."""

    name: EventName
    time: float
    run_id: str
    caller: str
    trace: TraceContext | None
    fields: FieldsFactory
    loop: asyncio.AbstractEventLoop


class Audit:
    """Creates the records of runs and passes them to the sinks.

    Args:
        options: the sinks, and what records hold.
    """

    def __init__(self, options: AuditOptions) -> None:
        self.options = options
        given = (LoggingSink(),) if options.sinks is None else options.sinks
        sinks: list[Sink] = [
            JsonLinesSink(Path(each.file).expanduser(), max_bytes=each.max_bytes, backups=each.backups)
            if isinstance(each, AuditFile)
            else each
            for each in given
        ]
        self._sinks = [(sink, sink_queue(sink)) for sink in sinks]
        self._losses = DropCounter("the record of runs")
        self._used = False
        self._notes = QueueWorker[_Note]("codecall audit", self._publish, self._losses.add)

    @property
    def enabled(self) -> bool:
        """Whether any sink accepts events now."""
        return any(getattr(sink, "enabled", True) for sink, _ in self._sinks)

    @property
    def observes(self) -> bool:
        """Whether anything observes runs: a sink, or a watcher of the options."""
        return self.enabled or bool(self.options.watchers)

    def observers(self, run: RunDetails) -> list[RunObserver]:
        """Creates the observers of a run: its record, and those of the options that do not fail."""
        observers: list[RunObserver] = [RunRecord(self, run)] if self.enabled else []
        for factory in self.options.watchers:
            try:
                observers.append(factory(run))
            except Exception:
                logger.exception("audit: %s gave no watch of a run; the run goes on", type(factory).__name__)
        return observers

    @property
    def dropped(self) -> int:
        """Events that have not reached a sink so far, summed over all sinks."""
        return self._losses.count + sum(queue.drops.count for _, queue in self._sinks)

    def note(self, name: EventName, run_id: str, caller: str, fields: FieldsFactory, held: int = 0) -> None:
        """Notes that an event has happened; must be called in the task where it happened.

        Args:
            name: the event.
            run_id: the id of the run.
            caller: a hash of the run's caller.
            fields: returns the other fields; called in another thread.
            held: characters that `fields` keeps in memory until then.
        """
        self._used = True
        note = _Note(name, time.time(), run_id, caller, _trace(), fields, asyncio.get_running_loop())
        self._notes.put(note, held)

    def record_invoke(self, caller: str, record: CallRecord, text: str, value: str | None) -> None:
        """Records an ended call of `codecall:invoke`: its input as JSON, and its value as JSON unless it failed."""
        self.record_call("invoke", new_call_id(), caller, record, (text, value))

    def record_call(
        self,
        verb: Verb,
        run_id: str,
        caller: str,
        record: CallRecord,
        texts: tuple[str, str | None],
        *,
        began: float | None = None,
    ) -> None:
        """Records an ended call. `texts`: its input and, unless it failed, value as JSON; `began`: its run's start."""
        text, value = texts if self.options.include_results else (texts[0], None)
        options = self.options

        def fields() -> Fields:
            body = call_fields(record, began, full_uri=options.include_arguments)
            body["input_sha256"] = canonical_digest(text)
            if options.include_arguments:
                body["input"] = redact_json(text)
            if value is not None:
                body["result"] = redact_json(value)
            return body

        end_event, blocked_event = _CALLS[verb]
        self.note(end_event, run_id, caller, fields, len(text) + len(value or ""))
        if record.code in BLOCKED_CALLS:
            full_uri = options.include_arguments
            self.note(
                blocked_event,
                run_id,
                caller,
                lambda: {"what": "call", **call_subject(record, full_uri=full_uri), "code": record.code},
            )

    def record_excess(self, run_id: str, caller: str) -> None:
        """Records a script that was too long to begin."""
        fields: Fields = {"what": "script", "code": IllegalAccess.code, "kind": "UnsafeSource"}
        if self.enabled:
            self.note("codecall.execute.blocked", run_id, caller, lambda: fields)

    async def flush(self) -> None:
        """Waits until the sinks have all events, for at most `FLUSH_SECONDS`; logs how many are missing then."""
        if not self._used:
            return
        deadline = time.monotonic() + FLUSH_SECONDS
        await self._notes.flush_async(FLUSH_SECONDS)
        for sink, queue in self._sinks:
            try:
                missing = await queue.flush(max(0.0, deadline - time.monotonic()))
            except TimeoutError:
                missing = 1
            if missing:
                logger.error("audit: %s has not taken %d events in time", type(sink).__name__, missing)

    def _publish(self, note: _Note) -> None:
        fields = MappingProxyType(dict(note.fields()))
        event = AuditEvent(note.name, note.time, note.run_id, note.caller, fields, note.trace, estimate_chars(fields))
        for sink, queue in self._sinks:
            if getattr(sink, "enabled", True):
                queue.put(event, note.loop)


class RunRecord(RunObserver):
    """Takes notes of one run; a `RunObserver`.

    Args:
        audit: the receiver of the notes.
        run: the run.
    """

    def __init__(self, audit: Audit, run: RunDetails) -> None:
        self._audit = audit
        self._run = run
        self._began = time.perf_counter()
        self._queue_ms: float | None = None
        self._validation_ms: float | None = None
        self._console: list[tuple[float, str]] = []

    def on_queued(self) -> None:
        """See `RunObserver`."""
        self._began = time.perf_counter()
        run, with_script = self._run, self._audit.options.include_arguments
        self._note(
            "codecall.execute.start",
            lambda: start_fields(run, redact_script(run.script) if with_script else None),
            len(run.script) + run.context_bytes,
        )

    def on_started(self) -> None:
        """See `RunObserver`."""
        self._queue_ms = _ms_since(self._began)

    def on_validated(self, validation_ms: float) -> None:
        """See `RunObserver`."""
        self._validation_ms = round(validation_ms, 3)

    def on_console(self, lines: Sequence[str]) -> None:
        """See `RunObserver`. Console output is recorded like any other value."""
        if self._audit.options.include_results:
            at_ms = _ms_since(self._began)
            self._console.extend((at_ms, line) for line in lines)

    def on_call(self, record: CallRecord, input_json: str) -> OnCallEnd | None:
        """See `RunObserver`."""
        audit, run = self._audit, self._run
        return lambda value: audit.record_call(
            "execute", run.run_id, run.caller, record, (input_json, value), began=self._began
        )

    def on_finished(self, result: ExecutionResult) -> None:
        """See `RunObserver`."""
        if result.status in REFUSED:
            self._note("codecall.execute.blocked", lambda: refusal_fields(result))
        error = result.error
        if isinstance(error, ToolCallError) and error.code in BLOCKED_CALLS and not result.stats.tool_calls:
            # Refused before the script ran, so that there is no call.
            name, code = error.tool_name, error.code
            blocked: Fields = {"what": "call", "called": "tool", "name": name, "code": code}
            self._note("codecall.execute.blocked", lambda: blocked)
        timing, preset = self._timing_fields(result.status), self._run.preset
        console = self._console if self._audit.options.include_results else None
        held = result.value_bytes + sum(map(len, result.logs))
        self._note("codecall.execute.complete", lambda: timing | end_fields(result, preset, console), held)

    def on_cancelled(self) -> None:
        """See `RunObserver`."""
        timing = self._timing_fields("cancelled")
        self._note("codecall.execute.complete", lambda: timing)

    def _timing_fields(self, status: str) -> Fields:
        return {
            "status": status,
            "duration_ms": _ms_since(self._began),
            "queue_ms": self._queue_ms,
            "validation_ms": self._validation_ms,
        }

    def _note(self, name: EventName, fields: Callable[[], Fields], held: int = 0) -> None:
        self._audit.note(name, self._run.run_id, self._run.caller, fields, held)


def new_call_id() -> str:
    """Creates the id that a call of `codecall:invoke` has in the place of a run's."""
    return f"invoke_{secrets.token_urlsafe(16)}"


def _ms_since(began: float) -> float:
    return round((time.perf_counter() - began) * 1000, 3)


def _trace() -> TraceContext | None:
    span = get_current_span().get_span_context()
    return TraceContext(span.trace_id, span.span_id, span.trace_flags) if span.is_valid else None
