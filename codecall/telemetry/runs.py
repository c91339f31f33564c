"""One run of a script, as OpenTelemetry is told of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from opentelemetry.trace import Tracer

from codecall.envelopes import ExecutionResult
from codecall.made_calls import MadeCall
from codecall.telemetry import names
from codecall.telemetry.codes import error_type
from codecall.telemetry.meters import Meters
from codecall.telemetry.requests import Reached, Request, end
from codecall.telemetry.sizes import utf8_size

_REFUSED = ("syntax_error", "illegal_access")


class WatchedRun:
    """Sees one run: a `RunWatch`.

    The spans of its stages are made when each has ended, with the times they had: a run that waits for nothing and a
    script that is refused have none.

    Args:
        request: The request it belongs to.
        reached: What its calls have got to, so far.
        run_id: Names it.
        preset: Its limits, by name.
        script: What is run.
        context_size: Bytes of its `context`.
        dry_run: Whether it is only looked at.
    """

    def __init__(
        self,
        request: Request,
        reached: Reached,
        *,
        run_id: str,
        preset: str,
        script: str,
        context_size: int,
        dry_run: bool,
    ) -> None:
        self._request = request
        self._reached = reached
        self._dry_run = dry_run
        self._waited_from = time.time_ns()
        self._ran_from = 0
        self._validated = 0
        self._checked = False
        self._to_tools = 0
        self._from_tools = 0
        script_size = utf8_size(script)
        self._script_bytes = script_size + context_size
        if request.span.is_recording():
            request.span.set_attributes(
                {
                    names.RUN_ID: run_id,
                    names.PRESET: preset,
                    names.DRY_RUN: dry_run,
                    names.SCRIPT_SIZE: script_size,
                }
            )

    def waiting(self) -> None:
        """See `RunWatch.waiting`."""
        self._waited_from = time.time_ns()

    def running(self) -> None:
        """See `RunWatch.running`."""
        self._ran_from = self._validated = time.time_ns()
        self._queued(self._ran_from, None)

    def checked(self, validation_ms: float) -> None:
        """See `RunWatch.checked`."""
        self._checked = True
        self._validated = self._ran_from + round(validation_ms * 1_000_000)
        self._stage(names.VALIDATE, self._ran_from, self._validated, None)

    def said(self, lines: Sequence[str]) -> None:
        """See `RunWatch.said`."""

    def calling(self, made: MadeCall, text: str) -> Callable[[str | None], None]:
        """See `RunWatch.calling`."""
        sent = utf8_size(text)
        self._to_tools += sent
        ended = self._request.calling(made, self._reached, sent)

        def told(value: str | None) -> None:
            received = 0 if value is None else utf8_size(value)
            self._from_tools += received
            self._request.kept_characters += len(value or "")
            ended(received)

        return told

    def ended(self, result: ExecutionResult) -> None:
        """See `RunWatch.ended`."""
        code = error_type(result.error.code) if result.error is not None else None
        self._end(result.status, code)
        meters = self._request.meters
        if meters is not None and self._ran_from and not self._dry_run and not self._refused(result.status):
            meters.script_time.record(result.stats.script_ms / 1000, {names.STATUS: result.status})
        span = self._request.span
        if span.is_recording():
            span.set_attributes(
                {
                    names.SCRIPT_DURATION: result.stats.script_ms / 1000,
                    names.STEPS: result.stats.steps,
                    names.CALLS: len(result.calls),
                }
            )

    def cancelled(self) -> None:
        """See `RunWatch.cancelled`."""
        self._end("cancelled", None)

    def _end(self, status: str, code: str | None) -> None:
        now = time.time_ns()
        if not self._ran_from:
            self._queued(now, code)
        elif self._refused(status):
            self._stage(names.VALIDATE, self._ran_from, now, code)
        elif not self._dry_run:
            self._stage(names.RUN, self._validated, now, code)
        if (meters := self._request.meters) is not None:
            ended: dict[str, str | bool] = {names.STATUS: status, names.DRY_RUN: self._dry_run}
            meters.executions.add(1, ended if code is None else {**ended, names.ERROR: code})
            self._count(meters)

    def _refused(self, status: str) -> bool:
        """Whether nothing ran. One that has passed may be ended for what it calls, under the same status."""
        return status in _REFUSED and not self._checked

    def _count(self, meters: Meters) -> None:
        directions = {"scripts": self._script_bytes, "to_tools": self._to_tools, "from_tools": self._from_tools}
        for direction, size in directions.items():
            if size:
                meters.io.add(size, {names.DIRECTION: direction})

    def _queued(self, until: int, code: str | None) -> None:
        self._stage(names.QUEUE, self._waited_from, until, code)
        if (meters := self._request.meters) is not None:
            meters.queue_time.record((until - self._waited_from) / 1e9, {} if code is None else {names.ERROR: code})

    def _stage(self, name: str, start: int, until: int, code: str | None) -> None:
        tracer: Tracer | None = self._request.tracer
        if tracer is not None:
            end(tracer.start_span(name, start_time=start), code, {}, max(start, until))
