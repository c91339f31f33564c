"""The data of a trace, and how it is built from the fields of a run's events. Times are milliseconds since the run
started; lines and columns count from 1."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, cast


@dataclass(frozen=True, slots=True)
class TraceValue:
    """JSON data, or its size alone if the record does not have the data."""

    data: object = None
    """The data with credentials masked, within bounds; a mark stands for what was cut."""
    available: bool = False
    """Whether there is `data`."""
    chars: int | None = None
    """Characters of the whole value as JSON."""


@dataclass(frozen=True, slots=True)
class TraceCall:
    """One call that the script made."""

    number: int
    """Counts from 1."""
    called: str
    """`tool`, `resource`, `prompt` or `result`."""
    name: str
    start_ms: float | None = None
    end_ms: float | None = None
    """None for a call that was given up."""
    outcome: str = "ok"
    """`ok`, `error`, `unfinished` or `not_started`."""
    code: str | None = None
    """The code of the error."""
    line: int | None = None
    """The line of the script that made the call, from 1."""
    column: int | None = None
    reused: bool = False
    """Whether the result was taken from an earlier run."""
    input: TraceValue = TraceValue()
    result: TraceValue = TraceValue()


@dataclass(frozen=True, slots=True)
class ConsoleLine:
    """One line of the console."""

    text: str
    at_ms: float | None = None
    """When the server received it; the script wrote it between the call before and then."""


@dataclass(frozen=True, slots=True)
class LimitUsage:
    """What a run used of one limit."""

    name: str
    unit: str
    """`ms`, `bytes`, or empty for a count."""
    used: float | None
    """None if it was not measured."""
    allowed: float | None


@dataclass(frozen=True, slots=True)
class TraceError:
    """Why a run failed."""

    code: str
    message: str | None = None
    """None if the record has no texts."""
    hint: str | None = None
    name: str | None = None
    """What the error concerns: the name of the thrown error, or of the tool."""
    line: int | None = None
    column: int | None = None


@dataclass(frozen=True, slots=True)
class Trace:
    """One run of a script, or one call of `codecall:invoke`."""

    run_id: str
    when: float | None = None
    """Unix time at which it started; None if the record has no start of the run."""
    caller: str = ""
    """A hash of the caller's identity."""
    preset: str | None = None
    status: str = "unfinished"
    """As in the envelope, or `cancelled`; `unfinished` while it runs, and where the record ends before the run."""
    script: str | None = None
    """The text with credentials masked; None if the record has only its hash."""
    context: TraceValue = TraceValue()
    """What the script saw as its context."""
    script_sha256: str | None = None
    script_chars: int | None = None
    duration_ms: float | None = None
    queue_ms: float | None = None
    """How long it waited for a worker, from its start."""
    validation_ms: float | None = None
    """How long validating the script took after that."""
    calls: tuple[TraceCall, ...] = ()
    """The calls by number."""
    console: tuple[ConsoleLine, ...] = ()
    result: TraceValue = TraceValue()
    has_stored_result: bool = False
    """Whether the result was too large for the answer, and kept for later."""
    error: TraceError | None = None
    warnings: tuple[str, ...] = ()
    limits: tuple[LimitUsage, ...] = ()
    dry_run: bool = False
    resumed_from: str | None = None
    tool: str | None = None
    """The tool that ran it; None in records of older versions."""
    language: str = "javascript"
    """`javascript`, `starlark`, or `workflow`, of a composite tool."""
    steps: Mapping[str, str] = field(default_factory=dict[str, str])
    """What became of each step of a composite tool, by its id."""
    notes: tuple[str, ...] = ()
    """What the record does not have, and why."""
    name: str | None = None
    """The file that the script is in, where that is known."""


Fields = Mapping[str, object]
_NONE: Final[Fields] = {}

_LIMITS: Final = (
    ("Tool calls", "", "tool_calls", "max_tool_calls"),
    ("Script time", "ms", "script_ms", "max_script_ms"),
    ("Run time", "ms", "run_ms", "max_run_ms"),
    ("Steps", "", "steps", "max_steps"),
    ("Result", "bytes", "returned_bytes", "max_returned_bytes"),
)

INVOKE: Final = "codecall:invoke"
OF_INVOKE: Final = "This is one call of codecall:invoke: it has no script."
NO_START: Final = "The record has no beginning of this run: its script, preset and time are not known."
NO_END: Final = "The record has no end of this run: it was still running, or the process was killed."
NO_SCRIPT: Final = "The record has no script, since the option include_arguments was off; only its hash and size."
NO_INPUTS: Final = "The record has no inputs of calls, since the option include_arguments was off."
NO_RESULTS: Final = (
    "The record has no values, console lines and error messages, since the option include_results was off."
)
NO_TIMES: Final = "The record does not say when calls began: it was written by an older version."


@dataclass(slots=True)
class TraceBuilder:
    """Collects the fields of the events of one run."""

    run_id: str
    caller: str = ""
    when: float | None = None
    start: Fields | None = None
    calls: list[Fields] = field(default_factory=list[Fields])
    end: Fields | None = None
    notes: list[str] = field(default_factory=list[str])


def build_trace(builder: TraceBuilder) -> Trace:
    """Build the trace of a run from the fields of its events.

    Records are read from files: a field of another type than it should have counts as missing.
    """
    start, end = builder.start or _NONE, builder.end or _NONE
    calls = sorted((_call(fields) for fields in builder.calls), key=lambda call: call.number)
    return Trace(
        run_id=builder.run_id,
        when=builder.when,
        caller=builder.caller,
        preset=_text(start, "preset"),
        status=_text(end, "status") or "unfinished",
        script=_text(start, "script"),
        context=_value(start, "context", _integer(start, "context_bytes")),
        script_sha256=_text(start, "script_sha256"),
        script_chars=_integer(start, "script_chars"),
        duration_ms=_number(end, "duration_ms"),
        queue_ms=_number(end, "queue_ms"),
        validation_ms=_number(end, "validation_ms"),
        calls=tuple(calls),
        console=tuple(_console(end.get("console"))),
        result=_value(end, "result", _integer(end, "returned_bytes")),
        has_stored_result=end.get("result_bytes") is not None,
        error=_error(end),
        warnings=tuple(item for item in _items(end.get("warnings")) if isinstance(item, str)),
        limits=_limits(end),
        dry_run=start.get("dry_run") is True,
        resumed_from=_text(start, "resumed_from"),
        tool=_text(start, "tool"),
        language=_text(start, "language") or "javascript",
        steps=_texts(end, "step_states"),
        notes=(*_missing_notes(builder, calls), *builder.notes),
    )


def build_invoked(builder: TraceBuilder, ended: float | None) -> Trace:
    """Build the trace of one call of `codecall:invoke` from the only event of it.

    Args:
        builder: Has the event as its only call.
        ended: Unix time of the event.
    """
    call = replace(_call(builder.calls[0]), number=1, line=None, column=None, start_ms=0.0)
    duration_ms = _number(builder.calls[0], "duration_ms")
    return Trace(
        run_id=builder.run_id,
        when=None if ended is None else ended - (duration_ms or 0.0) / 1000,
        caller=builder.caller,
        status="tool_error" if call.outcome == "error" else call.outcome,
        duration_ms=duration_ms,
        calls=(replace(call, end_ms=duration_ms),),
        result=call.result,
        error=None if call.code is None else TraceError(call.code, name=call.name),
        tool=INVOKE,
        notes=(OF_INVOKE,),
    )


def _missing_notes(builder: TraceBuilder, calls: Sequence[TraceCall]) -> Iterable[str]:
    if builder.start is None:
        yield NO_START
    elif "script" not in builder.start:
        yield NO_SCRIPT
    if builder.end is None:
        yield NO_END
    if calls and not any("input" in fields for fields in builder.calls):
        yield NO_INPUTS
    if builder.end is not None and builder.end.get("status") != "cancelled" and "console" not in builder.end:
        yield NO_RESULTS
    if any("start_ms" not in fields for fields in builder.calls):
        yield NO_TIMES


def _call(fields: Fields) -> TraceCall:
    start_ms, duration_ms = _number(fields, "start_ms"), _number(fields, "duration_ms")
    return TraceCall(
        number=_integer(fields, "number") or 0,
        called=_text(fields, "called") or "tool",
        name=_text(fields, "name") or "",
        start_ms=start_ms,
        end_ms=start_ms + duration_ms if start_ms is not None and duration_ms is not None else None,
        outcome=_text(fields, "outcome") or "unfinished",
        code=_text(fields, "code"),
        line=_integer(fields, "line"),
        column=_integer(fields, "column"),
        reused=fields.get("reused") is True,
        input=_value(fields, "input", _integer(fields, "input_chars")),
        result=_value(fields, "result", _integer(fields, "result_chars")),
    )


def _value(fields: Fields, name: str, chars: int | None) -> TraceValue:
    if name not in fields:
        return TraceValue(chars=chars)
    data = fields[name]
    truncated = _truncated_chars(data)
    if truncated is not None:
        return TraceValue(chars=truncated if chars is None else chars)
    return TraceValue(data, available=True, chars=chars)


def _truncated_chars(data: object) -> int | None:
    """The characters of a value for which only the mark `__truncated` stands; None for other values."""
    if not isinstance(data, Mapping) or list(cast("Fields", data)) != ["__truncated"]:
        return None
    mark = cast("Fields", data)["__truncated"]
    return _integer(cast("Fields", mark), "characters") if isinstance(mark, Mapping) else None


def _console(lines: object) -> Iterable[ConsoleLine]:
    for line in _items(lines):
        match line:
            case [int() | float() as at_ms, str() as text] if math.isfinite(at_ms):
                yield ConsoleLine(text, float(at_ms))
            case {"__truncated": {"items": int() as omitted}}:
                yield ConsoleLine(f"…[{omitted} more lines are not in the record]")
            case _:
                pass


def _error(end: Fields) -> TraceError | None:
    value = end.get("error")
    error = cast("Fields", value) if isinstance(value, Mapping) else _NONE
    code = _text(error, "code") or _text(end, "code")
    if code is None:
        return None
    subject = next(
        (name for key in ("toolName", "resource", "prompt", "result", "name") if (name := _text(error, key))), None
    )
    return TraceError(
        code,
        _text(error, "message"),
        _text(error, "hint"),
        subject,
        _integer(end, "line"),
        _integer(end, "column"),
    )


def _limits(end: Fields) -> tuple[LimitUsage, ...]:
    limits = [LimitUsage(name, unit, _number(end, used), _number(end, most)) for name, unit, used, most in _LIMITS]
    memory_mb = _number(end, "max_memory_mb")
    if memory_mb is not None:
        limits.append(LimitUsage("Memory", "bytes", None, memory_mb * 1024 * 1024))
    return tuple(limit for limit in limits if limit.used is not None or limit.allowed is not None)


def _items(value: object) -> Sequence[object]:
    return cast("Sequence[object]", value) if isinstance(value, list | tuple) else ()


def _text(fields: Fields, name: str) -> str | None:
    value = fields.get(name)
    return value if isinstance(value, str) else None


def _texts(fields: Fields, name: str) -> Mapping[str, str]:
    value = fields.get(name)
    entries = cast("Fields", value).items() if isinstance(value, Mapping) else ()
    return {key: each for key, each in entries if isinstance(each, str)}


def _number(fields: Fields, name: str) -> float | None:
    """A field that is a number from 0 to 2^53; None for any other."""
    value = fields.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 2**53:
        return None
    return float(value)


def _integer(fields: Fields, name: str) -> int | None:
    number = _number(fields, name)
    return None if number is None else int(number)
