"""The record of every run: what scripts did, for whoever answers for the server.

A run only takes notes. A thread makes events of them (hashing, masking), and hands each to the sinks, which have their
own threads: nothing of this is waited for by a run. `audit_events.py` lists the events.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, Literal, NamedTuple

from opentelemetry.trace import get_current_span

from codecall.audit.events import (
    AuditEvent,
    EventName,
    Fields,
    Recorded,
    Trace,
    call_fields,
    end_fields,
    refusal_fields,
    start_fields,
)
from codecall.audit.queue import FLUSH_SECONDS, Belt, Losses, Sink, lane
from codecall.audit.sinks import LoggingSink
from codecall.audit.values import chars_of, named, recorded_json, recorded_script
from codecall.envelopes import ExecutionResult, MadeCall
from codecall.jsonio.decode import digest
from codecall.options import AuditOptions
from codecall.sandbox.interfaces import Ending

logger = logging.getLogger("codecall")

BLOCKED_CALLS: Final = frozenset({"ACCESS_DENIED", "RATE_LIMIT"})
"""Codes of calls that count as blocked. A script that calls a meta-tool is itself blocked."""

REFUSED: Final = frozenset({"syntax_error", "illegal_access"})
"""Statuses of scripts that count as blocked."""

Make = Callable[[], Mapping[str, object]]
Verb = Literal["execute", "invoke"]

_CALLS: Final[dict[Verb, tuple[EventName, EventName]]] = {
    "execute": ("codecall.execute.tool_call", "codecall.execute.blocked"),
    "invoke": ("codecall.invoke.tool_call", "codecall.invoke.blocked"),
}


class _Note(NamedTuple):
    """What an event is made of, later and in another thread."""

    name: EventName
    time: float
    run_id: str
    caller: str
    trace: Trace | None
    fields: Make
    loop: asyncio.AbstractEventLoop


class Audit:
    """Records of runs, and the sinks they go to.

    Args:
        options: which sinks, and what records hold.
    """

    def __init__(self, options: AuditOptions) -> None:
        self.options = options
        sinks: tuple[Sink, ...] = (LoggingSink(),) if options.sinks is None else options.sinks
        self._sinks = [(sink, lane(sink)) for sink in sinks]
        self._losses = Losses("the record of runs")
        self._used = False
        self._notes = Belt[_Note]("codecall audit", self._carry, self._losses.add)

    @property
    def wanted(self) -> bool:
        """Whether any sink would take an event."""
        return any(getattr(sink, "enabled", True) for sink, _ in self._sinks)

    @property
    def lost(self) -> int:
        """Events so far that did not reach a sink, of all sinks."""
        return self._losses.count + sum(lane.losses.count for _, lane in self._sinks)

    def note(self, name: EventName, run_id: str, caller: str, fields: Make, held: int = 0) -> None:
        """Something happened, in the task in which it did.

        Args:
            name: of the event.
            run_id: of the run.
            caller: whose it is, as a hash.
            fields: makes the rest; called in another thread.
            held: characters that it keeps in memory until then.
        """
        self._used = True
        note = _Note(name, time.time(), run_id, caller, _trace(), fields, asyncio.get_running_loop())
        self._notes.put(note, held)

    def invoked(self, caller: str, made: MadeCall, text: str, value: str | None) -> None:
        """A call of `codecall:invoke` has ended; its input and its value, unless it failed, as JSON."""
        self.called("invoke", f"invoke_{secrets.token_urlsafe(16)}", caller, made, (text, value))

    def called(
        self,
        verb: Verb,
        run_id: str,
        caller: str,
        made: MadeCall,
        texts: tuple[str, str | None],
        *,
        began: float | None = None,
    ) -> None:
        """A call has ended. `texts`: its input, and its value unless it failed, as JSON; `began`: when its run did."""
        text, value = texts if self.options.include_results else (texts[0], None)
        options = self.options

        def fields() -> Fields:
            told = call_fields(made, began, whole=options.include_arguments)
            told["input_sha256"] = digest(text)
            if options.include_arguments:
                told["input"] = recorded_json(text)
            if value is not None:
                told["result"] = recorded_json(value)
            return told

        ended, blocked = _CALLS[verb]
        self.note(ended, run_id, caller, fields, len(text) + len(value or ""))
        if made.code in BLOCKED_CALLS:
            whole = options.include_arguments
            self.note(blocked, run_id, caller, lambda: {"what": "call", **named(made, whole=whole), "code": made.code})

    async def flush(self) -> None:
        """Wait until the sinks have been told of all; for `FLUSH_SECONDS` at most, and what is missing is logged."""
        if not self._used:
            return
        ends = time.monotonic() + FLUSH_SECONDS
        await self._notes.flushed(FLUSH_SECONDS)
        for sink, way in self._sinks:
            try:
                missing = await way.flush(max(0.0, ends - time.monotonic()))
            except TimeoutError:
                missing = 1
            if missing:
                logger.error("audit: %s has not taken %d events in time", type(sink).__name__, missing)

    def _carry(self, note: _Note) -> None:
        fields = MappingProxyType(dict(note.fields()))
        event = AuditEvent(note.name, note.time, note.run_id, note.caller, fields, note.trace, chars_of(fields))
        for sink, way in self._sinks:
            if getattr(sink, "enabled", True):
                way.put(event, note.loop)


class RunRecord:
    """Takes notes of one run; a `RunWatch`.

    Args:
        audit: where they go.
        run: the run.
    """

    def __init__(self, audit: Audit, run: Recorded) -> None:
        self._audit = audit
        self._run = run
        self._began = time.perf_counter()
        self._queue_ms: float | None = None
        self._validation_ms: float | None = None
        self._console: list[tuple[float, str]] = []

    def waiting(self) -> None:
        """See `RunWatch.waiting`."""
        self._began = time.perf_counter()
        run, whole = self._run, self._audit.options.include_arguments
        self._note("codecall.execute.start", lambda: start_fields(run, recorded_script(run.script) if whole else None))

    def running(self) -> None:
        """See `RunWatch.running`."""
        self._queue_ms = _ms_since(self._began)

    def checked(self, validation_ms: float) -> None:
        """See `RunWatch.checked`."""
        self._validation_ms = round(validation_ms, 3)

    def said(self, lines: Sequence[str]) -> None:
        """See `RunWatch.said`. What scripts say is a value like others."""
        if self._audit.options.include_results:
            at_ms = _ms_since(self._began)
            self._console.extend((at_ms, line) for line in lines)

    def calling(self, made: MadeCall, text: str) -> Ending | None:
        """See `RunWatch.calling`."""
        audit, run = self._audit, self._run
        return lambda value: audit.called("execute", run.run_id, run.caller, made, (text, value), began=self._began)

    def ended(self, result: ExecutionResult) -> None:
        """See `RunWatch.ended`."""
        if result.status in REFUSED:
            self._note("codecall.execute.blocked", lambda: refusal_fields(result))
        ending, preset = self._ending(result.status), self._run.preset
        console = self._console if self._audit.options.include_results else None
        self._note("codecall.execute.complete", lambda: ending | end_fields(result, preset, console))

    def cancelled(self) -> None:
        """See `RunWatch.cancelled`."""
        ending = self._ending("cancelled")
        self._note("codecall.execute.complete", lambda: ending)

    def _ending(self, status: str) -> Fields:
        return {
            "status": status,
            "duration_ms": _ms_since(self._began),
            "queue_ms": self._queue_ms,
            "validation_ms": self._validation_ms,
        }

    def _note(self, name: EventName, fields: Callable[[], Fields]) -> None:
        self._audit.note(name, self._run.run_id, self._run.caller, fields)


def _ms_since(began: float) -> float:
    return round((time.perf_counter() - began) * 1000, 3)


def _trace() -> Trace | None:
    span = get_current_span().get_span_context()
    return Trace(span.trace_id, span.span_id, span.trace_flags) if span.is_valid else None
