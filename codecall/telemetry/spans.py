"""Spans and measurements of calls of the meta-tools, and of the runs of scripts. `Telemetry` is the facade of a plugin.

Spans and metrics hold names, sizes, times and codes: never a script, an input, a value or a message. A name is
recorded only once a call has reached what it names, since until then it is a text of the script's.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Any, Final, Literal, Self

from opentelemetry import context as otel_context
from opentelemetry.trace import INVALID_SPAN, Span, Status, StatusCode, Tracer, set_span_in_context
from opentelemetry.util.types import AttributeValue

from codecall.envelopes import CallRecord, ExecutionResult
from codecall.errors import CallKind, CodeCallError
from codecall.sandbox.interfaces import RunObserver
from codecall.telemetry import metrics as listening
from codecall.telemetry import semconv as names
from codecall.telemetry.metrics import Instruments, PoolSource, observe_pools
from codecall.telemetry.semconv import error_type
from codecall.telemetry.tokens import ToolDefinition, estimate_characters, estimate_tokens, utf8_size

Operation = Literal["search", "describe", "invoke", "execute", "execute_tool_script", "composite"]
ReachedNames = Collection[tuple[CallKind, str]]
"""Kinds and names of the things that calls have reached, which therefore exist."""

_SPAN_OF: Final[dict[CallKind, str]] = {
    "tool": names.EXECUTE_TOOL,
    "resource": names.READ_RESOURCE,
    "prompt": names.GET_PROMPT,
    "result": names.GET_RESULT,
    "extract": names.EXTRACT,
}
_NAMED: Final[dict[CallKind, str]] = {"tool": names.TOOL, "prompt": names.PROMPT}
"""URIs are no names: there is no end to them, and templates put arguments into them."""

_CURRENT: ContextVar[RequestSpan | None] = ContextVar("codecall_request", default=None)


class RequestSpan:
    """A call of a meta-tool, from its arguments to its answer. It is entered once, in the task that answers the call.

    Args:
        operation: Which meta-tool.
        meters: Where measurements go, if anybody reads them.
        tracer: What makes spans, if anybody sees them.
    """

    def __init__(self, operation: Operation, meters: Instruments | None, tracer: Tracer | None) -> None:
        self.operation: Operation = operation
        self.instruments = meters
        self.span: Span = INVALID_SPAN
        self.status = "error"
        """Until there is an answer."""
        self.code: str | None = None
        """`error.type`, once there is one."""
        self.value_characters = 0
        """Characters of the values that calls returned to the script."""
        self._tracer = tracer
        self._began = 0.0
        self._tokens: tuple[Token[RequestSpan | None], Token[otel_context.Context] | None] | None = None

    @property
    def tracer(self) -> Tracer | None:
        """What makes spans below this one's; None if it is not recorded."""
        return self._tracer if self.span.is_recording() else None

    def __enter__(self) -> Self:
        self._began = time.perf_counter()
        attached: Token[otel_context.Context] | None = None
        if self._tracer is not None:
            self.span = self._tracer.start_span(f"codecall.{self.operation}")
            attached = otel_context.attach(set_span_in_context(self.span))
        self._tokens = _CURRENT.set(self), attached
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is not None:
            self.status = "error" if isinstance(error, Exception) else "cancelled"
            self.code = error_type(error.code) if isinstance(error, CodeCallError) else type(error).__name__
        if self._tokens is not None:
            current, attached = self._tokens
            _CURRENT.reset(current)
            if attached is not None:
                otel_context.detach(attached)
        if self.instruments is not None:
            elapsed_s = time.perf_counter() - self._began
            kind_of = {names.OPERATION: self.operation, names.STATUS: self.status}
            self.instruments.request_duration.record(elapsed_s, kind_of)
        end_span(self.span, self.code, {names.STATUS: self.status})

    def on_answer(self, body: dict[str, Any] | None, text: str) -> None:
        """Record the answer: its structured content, and its text. None: a task goes back into its queue."""
        if body is None:
            self.status = "cancelled"
            return
        self.status = str(body.get("status", "ok"))
        failure: object = body.get("error")
        if isinstance(failure, dict):
            self.code = error_type(failure.get("code"))  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
        size = utf8_size(text)
        searches = self.operation in ("search", "describe")
        if self.instruments is not None:
            self.instruments.io.add(size, {names.DIRECTION: "answers"})
            if searches:
                self.instruments.tokens_spent.add(estimate_tokens(len(text)))
            elif self.value_characters > len(text):
                saved = estimate_tokens(self.value_characters - len(text))
                self.instruments.tokens_saved.add(saved, {names.SAVING: "results"})
        if self.span.is_recording():
            self.span.set_attribute(names.ANSWER_SIZE, size)
            if searches:
                self.span.set_attribute(names.FOUND, len(body.get("tools", ())))

    def start_call(
        self, record: CallRecord, reached: ReachedNames, input_size: int | None = None
    ) -> Callable[[int], None]:
        """Start the span of a call. What is returned ends it; it is called with the bytes of the value, in the same
        task. Spans that are started between the two are below this one."""
        span: Span = INVALID_SPAN
        attached: Token[otel_context.Context] | None = None
        if (tracer := self.tracer) is not None:
            attributes: dict[str, AttributeValue] = {names.CALL_NUMBER: record.number, names.CALL_KIND: record.called}
            if record.called == "tool":
                attributes[names.GEN_AI_OPERATION] = names.EXECUTE_TOOL
            if input_size is not None:
                attributes[names.INPUT_SIZE] = input_size
            span = tracer.start_span(_SPAN_OF[record.called], attributes=attributes)
            attached = otel_context.attach(set_span_in_context(span))
        began = time.perf_counter()

        def ended(output_size: int) -> None:
            elapsed_s = time.perf_counter() - began
            if attached is not None:
                otel_context.detach(attached)
            outcome = "reused" if record.reused else record.outcome
            code = error_type(record.code)
            is_named = record.called in _NAMED and (record.called, record.name) in reached
            if self.instruments is not None:
                kind = {names.CALL_KIND: record.called, names.CALL_OUTCOME: outcome}
                self.instruments.tool_time.record(elapsed_s, kind)
                counted = {**kind, names.OPERATION: self.operation, **_error(code)}
                if record.called == "tool" and is_named:
                    counted[names.TOOL] = record.name
                self.instruments.tool_calls.add(1, counted)
            end_attributes: dict[str, AttributeValue] = {names.CALL_OUTCOME: outcome, names.OUTPUT_SIZE: output_size}
            if is_named:
                span.update_name(f"{_SPAN_OF[record.called]} {record.name}")
                end_attributes[_NAMED[record.called]] = record.name
            end_span(span, code, end_attributes)

        return ended


def current_request() -> RequestSpan | None:
    """The request that is being answered, if anything is recorded of it."""
    return _CURRENT.get()


@contextmanager
def trace_invoke(tool: str, reached: ReachedNames) -> Generator[Callable[[str], None]]:
    """The span around the one call of `codecall:invoke`. What it yields is called with the value, as JSON text."""
    request = current_request()
    if request is None:
        yield lambda _value: None
        return
    record = CallRecord(1, "tool", tool)
    ended = request.start_call(record, reached)
    received = 0

    def set_value(value: str) -> None:
        nonlocal received
        record.end()
        received = utf8_size(value)

    record.start()
    try:
        yield set_value
    except CodeCallError as error:
        record.end(error.code)
        raise
    finally:
        ended(received)


def end_span(span: Span, code: str | None, attributes: dict[str, AttributeValue], at: int | None = None) -> None:
    """End a span. A failure is marked by its code, without the message, which may contain anything."""
    if span.is_recording():
        if code is not None:
            attributes[names.ERROR] = code
            span.set_status(Status(StatusCode.ERROR))
        if attributes:
            span.set_attributes(attributes)
    span.end(at)


def _error(code: str | None) -> dict[str, str]:
    return {} if code is None else {names.ERROR: code}


_REFUSED_STATUSES = ("syntax_error", "illegal_access")


class RunTelemetry(RunObserver):
    """Measures one run.

    The spans of its stages are made when each has ended, with the times they had: a run that waits for nothing and a
    script that is refused have none.

    Args:
        request: The request it belongs to.
        reached: What its calls have reached, so far.
        run_id: Names it.
        preset: Its limits, by name.
        script: What is run.
        context_size: Bytes of its `context`.
        dry_run: Whether it is only analysed.
    """

    def __init__(
        self,
        request: RequestSpan,
        reached: ReachedNames,
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
        self._was_validated = False
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

    def on_queued(self) -> None:
        """See `RunObserver`."""
        self._waited_from = time.time_ns()

    def on_started(self) -> None:
        """See `RunObserver`."""
        self._ran_from = self._validated = time.time_ns()
        self._end_queue_stage(self._ran_from, None)

    def on_validated(self, validation_ms: float) -> None:
        """See `RunObserver`."""
        self._was_validated = True
        self._validated = self._ran_from + round(validation_ms * 1_000_000)
        self._record_stage(names.VALIDATE, self._ran_from, self._validated, None)

    def on_call(self, record: CallRecord, input_json: str) -> Callable[[str | None], None]:
        """See `RunObserver`."""
        sent = utf8_size(input_json)
        self._to_tools += sent
        ended = self._request.start_call(record, self._reached, sent)

        def attributes(value: str | None) -> None:
            received = 0 if value is None else utf8_size(value)
            self._from_tools += received
            self._request.value_characters += len(value or "")
            ended(received)

        return attributes

    def on_finished(self, result: ExecutionResult) -> None:
        """See `RunObserver`."""
        code = error_type(result.error.code) if result.error is not None else None
        self._end(result.status, code)
        meters = self._request.instruments
        if meters is not None and self._ran_from and not self._dry_run and not self._was_refused(result.status):
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

    def on_cancelled(self) -> None:
        """See `RunObserver`."""
        self._end("cancelled", None)

    def _end(self, status: str, code: str | None) -> None:
        now = time.time_ns()
        if not self._ran_from:
            self._end_queue_stage(now, code)
        elif self._was_refused(status):
            self._record_stage(names.VALIDATE, self._ran_from, now, code)
        elif not self._dry_run:
            self._record_stage(names.RUN, self._validated, now, code)
        if (meters := self._request.instruments) is not None:
            ended: dict[str, str | bool] = {names.STATUS: status, names.DRY_RUN: self._dry_run}
            meters.executions.add(1, ended if code is None else {**ended, names.ERROR: code})
            self._count_bytes(meters)

    def _was_refused(self, status: str) -> bool:
        """Whether nothing ran. A script that passed validation may end under the same status, for what it calls."""
        return status in _REFUSED_STATUSES and not self._was_validated

    def _count_bytes(self, meters: Instruments) -> None:
        directions = {"scripts": self._script_bytes, "to_tools": self._to_tools, "from_tools": self._from_tools}
        for direction, size in directions.items():
            if size:
                meters.io.add(size, {names.DIRECTION: direction})

    def _end_queue_stage(self, until: int, code: str | None) -> None:
        self._record_stage(names.QUEUE, self._waited_from, until, code)
        if (meters := self._request.instruments) is not None:
            meters.queue_time.record((until - self._waited_from) / 1e9, {} if code is None else {names.ERROR: code})

    def _record_stage(self, name: str, start: int, until: int, code: str | None) -> None:
        tracer: Tracer | None = self._request.tracer
        if tracer is not None:
            end_span(tracer.start_span(name, start_time=start), code, {}, max(start, until))


WorkerExitReason = Literal["recycled", "killed", "died", "replaced", "closed"]


class Telemetry:
    """Reports the spans and metrics of one plugin to OpenTelemetry.

    Args:
        enabled: Whether anything is reported.
    """

    def __init__(self, *, enabled: bool) -> None:
        self._enabled = enabled
        self._own: int | None = None

    def observe(self, source: PoolSource) -> None:
        """Include these pools in the gauges, for as long as `source` lives."""
        if self._enabled:
            observe_pools(source)
            _ = listening.instruments()

    def request(self, operation: Operation) -> RequestSpan | None:
        """The context to enter around the answer to a request; None where nothing is recorded."""
        meters = listening.instruments() if self._enabled else None
        tracer = listening.tracer() if self._enabled else None
        if meters is None and tracer is None and current_request() is None:
            return None
        # Where nobody listens to this one, a request whose tool calls it still must not be taken for it.
        return RequestSpan(operation, meters, tracer)

    def record_worker_exit(self, ending: WorkerExitReason) -> None:
        """A worker process has ended, or is being ended."""
        if self._enabled and (meters := listening.instruments()) is not None:
            meters.workers_ended.add(1, {names.WORKER_ENDING: ending})

    def record_listing(self, tools: Sequence[ToolDefinition], shown: int, own: Sequence[ToolDefinition]) -> None:
        """Record that a client was listed `shown` of these tools, and CodeCall's `own`."""
        if not self._enabled or (meters := listening.instruments()) is None:
            return
        if self._own is None:
            self._own = estimate_characters(own)
        hidden = estimate_characters(tools) * (len(tools) - shown) // max(1, len(tools))
        if hidden > self._own:
            meters.tokens_saved.add(estimate_tokens(hidden - self._own), {names.SAVING: "definitions"})


def record_rate_refusal(called: CallKind, rule: str, reason: Literal["limit", "unchecked"]) -> None:
    """Count a call that a rate rule refused."""
    if (meters := listening.instruments()) is not None:
        meters.refusals.add(1, {names.CALL_KIND: called, names.RULE: rule, names.REASON: reason})
