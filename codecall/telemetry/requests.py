"""One call of a meta-tool, as OpenTelemetry is told of it.

Spans and metrics hold names, sizes, times and codes: never a script, an input, a value or a message. A name is told
only once a call has reached what it names, since until then it is a text of the script's.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Generator
from contextlib import contextmanager
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Any, Final, Literal, Self

from opentelemetry import context as otel_context
from opentelemetry.trace import INVALID_SPAN, Span, Status, StatusCode, Tracer, set_span_in_context
from opentelemetry.util.types import AttributeValue

from codecall.errors import Called, CodeCallError
from codecall.made_calls import MadeCall
from codecall.telemetry import names
from codecall.telemetry.codes import error_type
from codecall.telemetry.meters import Meters
from codecall.telemetry.sizes import tokens, utf8_size

Operation = Literal["search", "describe", "invoke", "execute"]
Reached = Collection[tuple[Called, str]]
"""What calls have got to: kinds and names of things that exist."""

_SPAN_OF: Final[dict[Called, str]] = {
    "tool": names.EXECUTE_TOOL,
    "resource": names.READ_RESOURCE,
    "prompt": names.GET_PROMPT,
    "result": names.GET_RESULT,
}
_NAMED: Final[dict[Called, str]] = {"tool": names.TOOL, "prompt": names.PROMPT}
"""URIs are no names: there is no end to them, and templates put arguments into them."""

_CURRENT: ContextVar[Request | None] = ContextVar("codecall_request", default=None)


class Request:
    """A call of a meta-tool, from its arguments to its answer. To be entered once, in the task that answers it.

    Args:
        operation: Which meta-tool.
        meters: Where measurements go, if anybody reads them.
        tracer: What makes spans, if anybody sees them.
    """

    def __init__(self, operation: Operation, meters: Meters | None, tracer: Tracer | None) -> None:
        self.operation: Operation = operation
        self.meters = meters
        self.span: Span = INVALID_SPAN
        self.status = "error"
        """Until there is an answer."""
        self.code: str | None = None
        """`error.type`, once there is one."""
        self.kept_characters = 0
        """Of the values that calls of a script gave it."""
        self._tracer = tracer
        self._began = 0.0
        self._tokens: tuple[Token[Request | None], Token[otel_context.Context] | None] | None = None

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
        if self.meters is not None:
            took = time.perf_counter() - self._began
            kind_of = {names.OPERATION: self.operation, names.STATUS: self.status}
            self.meters.request_duration.record(took, kind_of)
        end(self.span, self.code, {names.STATUS: self.status})

    def answered(self, body: dict[str, Any] | None, text: str) -> None:
        """There is an answer: its structured content, and its text. None: a task goes back into its queue."""
        if body is None:
            self.status = "cancelled"
            return
        self.status = str(body.get("status", "ok"))
        failure: object = body.get("error")
        if isinstance(failure, dict):
            self.code = error_type(failure.get("code"))  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
        size = utf8_size(text)
        searches = self.operation in ("search", "describe")
        if self.meters is not None:
            self.meters.io.add(size, {names.DIRECTION: "answers"})
            if searches:
                self.meters.tokens_spent.add(tokens(len(text)))
            elif self.kept_characters > len(text):
                saved = tokens(self.kept_characters - len(text))
                self.meters.tokens_saved.add(saved, {names.SAVING: "results"})
        if self.span.is_recording():
            self.span.set_attribute(names.ANSWER_SIZE, size)
            if searches:
                self.span.set_attribute(names.FOUND, len(body.get("tools", ())))

    def calling(self, made: MadeCall, reached: Reached, input_size: int | None = None) -> Callable[[int], None]:
        """A call starts; what is returned is told its end, and the bytes of its value, in the same task. What happens
        between the two is below its span."""
        span: Span = INVALID_SPAN
        attached: Token[otel_context.Context] | None = None
        if (tracer := self.tracer) is not None:
            told: dict[str, AttributeValue] = {names.CALL_NUMBER: made.number, names.CALL_KIND: made.called}
            if made.called == "tool":
                told[names.GEN_AI_OPERATION] = names.EXECUTE_TOOL
            if input_size is not None:
                told[names.INPUT_SIZE] = input_size
            span = tracer.start_span(_SPAN_OF[made.called], attributes=told)
            attached = otel_context.attach(set_span_in_context(span))
        began = time.perf_counter()

        def ended(output_size: int) -> None:
            took = time.perf_counter() - began
            if attached is not None:
                otel_context.detach(attached)
            outcome = "reused" if made.reused else made.outcome
            code = error_type(made.code)
            known = made.called in _NAMED and (made.called, made.name) in reached
            if self.meters is not None:
                kind = {names.CALL_KIND: made.called, names.CALL_OUTCOME: outcome}
                self.meters.tool_time.record(took, kind)
                counted = {**kind, names.OPERATION: self.operation, **_error(code)}
                if made.called == "tool" and known:
                    counted[names.TOOL] = made.name
                self.meters.tool_calls.add(1, counted)
            last: dict[str, AttributeValue] = {names.CALL_OUTCOME: outcome, names.OUTPUT_SIZE: output_size}
            if known:
                span.update_name(f"{_SPAN_OF[made.called]} {made.name}")
                last[_NAMED[made.called]] = made.name
            end(span, code, last)

        return ended


def current() -> Request | None:
    """The request that is being answered, if anybody listens."""
    return _CURRENT.get()


@contextmanager
def invoking(tool: str, reached: Reached) -> Generator[Callable[[str], None]]:
    """Around the one call of `codecall:invoke`; what it gives is told the value, as JSON text."""
    request = current()
    if request is None:
        yield lambda _value: None
        return
    made = MadeCall(1, "tool", tool)
    ended = request.calling(made, reached)
    received = 0

    def got(value: str) -> None:
        nonlocal received
        made.end()
        received = utf8_size(value)

    made.start()
    try:
        yield got
    except CodeCallError as error:
        made.end(error.code)
        raise
    finally:
        ended(received)


def end(span: Span, code: str | None, told: dict[str, AttributeValue], at: int | None = None) -> None:
    """End a span; what failed is marked by its code, without a message, which may hold anything."""
    if span.is_recording():
        if code is not None:
            told[names.ERROR] = code
            span.set_status(Status(StatusCode.ERROR))
        if told:
            span.set_attributes(told)
    span.end(at)


def _error(code: str | None) -> dict[str, str]:
    return {} if code is None else {names.ERROR: code}
