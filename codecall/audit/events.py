"""The events in the record of a run, and their fields: names, sizes, times and locations; values only where the options
include them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Final, Literal, NamedTuple

import msgspec

from codecall.audit.values import call_subject, redact_value
from codecall.envelopes import CallRecord, ExecutionResult, Stats
from codecall.errors import CodeCallError, IllegalAccess
from codecall.jsonio.decode import sha256
from codecall.presets import Preset
from codecall.redaction.clean import well_formed

EventName = Literal[
    "codecall.execute.start",
    "codecall.execute.tool_call",
    "codecall.execute.blocked",
    "codecall.execute.complete",
    "codecall.invoke.tool_call",
    "codecall.invoke.blocked",
    "codecall.approval",
    "codecall.audit.lost",
]

ScriptLanguage = Literal["javascript", "starlark", "workflow"]
"""What a run's script is written in; that of a composite tool is its workflow."""

_CALL_FIELDS: Final = (
    *("number", "called", "name", "input_sha256", "input_chars", "outcome", "code", "start_ms", "duration_ms"),
    *("line", "column", "result_chars", "reused", "input", "result"),
)


class EventSpec(NamedTuple):
    """One kind of event, as `docs/reference/audit.md` lists it."""

    name: EventName
    description: str
    fields: tuple[str, ...]


EVENTS: Final = (
    EventSpec(
        "codecall.execute.start",
        "A run begins. `tool` is what the client called, `language` javascript, starlark, or workflow, of a composite "
        "tool; `allowed_tools` is their number; `script` and `context` only with `include_arguments`.",
        (
            *("script_sha256", "script_chars", "context_bytes", "preset", "allowed_tools", "dry_run"),
            *("resumed_from", "tool", "language", "script", "context"),
        ),
    ),
    EventSpec(
        "codecall.execute.tool_call",
        "A call of the script ended. `called` is tool, resource, prompt, result or extract; `outcome` is ok, error "
        "or unfinished; `start_ms` counts from the beginning of the run; `input` only with `include_arguments`, "
        "`result` only with `include_results`.",
        _CALL_FIELDS,
    ),
    EventSpec(
        "codecall.execute.blocked",
        "Something was refused, which `what` names: `script`, by the language or for calling a meta-tool, with `kind`, "
        "`line` and `column`, or, without these two and without a start, for its length; `call`, with ACCESS_DENIED, "
        "RATE_LIMIT or a code of approvals, with `called` and `name`; `resume`, a run that could not be resumed, "
        "somebody else's for instance, with `resumed_from`: no script begins then.",
        ("what", "code", "kind", "line", "column", "called", "name", "resumed_from"),
    ),
    EventSpec(
        "codecall.execute.complete",
        "A run ended. `status` may also be `cancelled`; `duration_ms` includes `queue_ms` and `validation_ms`; what "
        "was used stands beside the limit it counts against; `line` and `column` are the place of the failure; "
        "`result_bytes` is the size of a result kept for later reading; `step_states` says what became of each step "
        "of a composite tool; `result`, `console`, `warnings` and `error` only with `include_results`.",
        (
            *("status", "code", "line", "column", "duration_ms", "queue_ms", "validation_ms"),
            *("script_ms", "max_script_ms", "run_ms", "max_run_ms", "steps", "max_steps", "tool_calls"),
            *("max_tool_calls", "returned_bytes", "max_returned_bytes", "max_memory_mb", "calls_failed"),
            *("calls_reused", "result_bytes", "step_states", "result", "console", "warnings", "error"),
        ),
    ),
    EventSpec(
        "codecall.invoke.tool_call",
        "A call of `codecall:invoke` ended; its `run_id` begins with `invoke_`.",
        _CALL_FIELDS,
    ),
    EventSpec(
        "codecall.invoke.blocked",
        "A call of `codecall:invoke` was refused with ACCESS_DENIED, RATE_LIMIT or a code of approvals.",
        ("what", "code", "called", "name"),
    ),
    EventSpec(
        "codecall.approval",
        "A call that a rule asks a person for, or denies, was decided. `number` is the call's in its run; `decision` "
        "is allowed, denied, stopped, unanswered or changed; `by` is rule, flow, grant, approver or client; `rule` and "
        "`flow` are numbers of rules, `sources` the tools whose values the input carried, where a rule of flows says "
        "so, `scope` what was allowed (once, calls, input), `calls` how many, and `grant` the id of the grant that was "
        "made or used.",
        ("number", "name", "decision", "by", "rule", "flow", "sources", "scope", "calls", "grant"),
    ),
    EventSpec("codecall.audit.lost", "So many `events` did not reach this sink before the next one.", ("events",)),
)
"""All events, each with all fields that it may have."""


@dataclass(frozen=True, slots=True)
class TraceContext:
    """The OpenTelemetry span that an event belongs to."""

    trace_id: int
    span_id: int
    flags: int


@dataclass(frozen=True, slots=True)
class AuditEvent:
    """One event in the record of a run."""

    name: EventName
    time: float
    """Unix time in seconds."""
    run_id: str = ""
    """The id of the run, as in its envelope. A call of `codecall:invoke` has an id of its own."""
    caller: str = ""
    """A hash of the run's caller, the same for all runs of that caller."""
    fields: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))
    """All other fields: JSON data by names in snake_case. The value of an unknown field is None."""
    trace: TraceContext | None = None
    """The span in which the event happened."""
    held: int = field(default=0, repr=False, compare=False)
    """Approximate characters that the event occupies in memory; not a part of the record."""

    def as_dict(self) -> dict[str, object]:
        """Returns the event as one flat JSON object."""
        body: dict[str, object] = {
            "event": self.name,
            "time": datetime.fromtimestamp(self.time, UTC).isoformat(timespec="milliseconds"),
        }
        if self.run_id:
            body["run_id"] = self.run_id
            body["caller"] = self.caller
        body.update(self.fields)
        if self.trace is not None:
            body["trace_id"] = f"{self.trace.trace_id:032x}"
            body["span_id"] = f"{self.trace.span_id:016x}"
        return body

    def as_json(self) -> str:
        """Returns the event as one line of ASCII JSON: no text of a script can end the line or be invisible in it."""
        # Lone surrogates, which no UTF-8 reader accepts, are replaced while they are still characters.
        text = well_formed(json.dumps(self.as_dict(), ensure_ascii=False, separators=(",", ":")))
        return text.translate(_DELETE_ESCAPED) if text.isascii() else _escape_non_ascii(text)


_DELETE_ESCAPED = {0x7F: "\\u007f"}


def _escape_non_ascii(text: str) -> str:
    return json.dumps(json.loads(text), separators=(",", ":")).translate(_DELETE_ESCAPED)


Fields = dict[str, object]


@dataclass(frozen=True, slots=True)
class RunDetails:
    """A run as it is known before it begins."""

    run_id: str
    caller: str
    """A hash of the caller."""
    script: str
    preset_name: str
    preset: Preset
    context_bytes: int = 0
    allowed_tools: Sequence[str] | None = None
    dry_run: bool = False
    resume_from: str | None = None
    tool: str = "codecall:execute"
    """The tool that runs it."""
    language: ScriptLanguage = "javascript"
    context: Mapping[str, object] | None = None
    """What the script sees as `codecallContext`, or as its variables."""


def start_fields(run: RunDetails, script: str | None, redact: Callable[[object], object] = redact_value) -> Fields:
    """Returns the fields of the start of a run.

    Args:
        run: the run.
        script: its text without credentials; None leaves it and the context out.
        redact: returns the form in which the context is recorded.
    """
    fields: Fields = {
        "script_sha256": sha256(run.script),
        "script_chars": len(run.script),
        "context_bytes": run.context_bytes,
        "preset": run.preset_name,
        "dry_run": run.dry_run,
        "allowed_tools": None if run.allowed_tools is None else len(run.allowed_tools),
        "resumed_from": run.resume_from,
        "tool": run.tool,
        "language": run.language,
    }
    if script is not None:
        fields["script"] = script
        if run.context:
            fields["context"] = redact(run.context)
    return fields


def call_fields(
    record: CallRecord, began: float | None, *, full_uri: bool, redact: Callable[[str], object] = redact_value
) -> Fields:
    """Returns the fields of a call, without its input and its value.

    Args:
        record: the call.
        began: when its run began, in seconds of `time.perf_counter`; None for a call without a run.
        full_uri: whether a resource's URI is included with its query and fragment.
        redact: returns the form in which a URI is recorded.
    """
    started = record.started
    return {
        "number": record.number,
        **call_subject(record, full_uri=full_uri, redact=redact),
        "input_chars": record.input_chars,
        "outcome": record.outcome,
        "code": record.code,
        "start_ms": round((started - began) * 1000, 3) if started is not None and began is not None else None,
        "duration_ms": record.duration_ms,
        "line": record.line,
        "column": record.column,
        "result_chars": record.result_chars if record.outcome == "ok" else None,
        "reused": record.reused,
    }


def refusal_fields(result: ExecutionResult) -> Fields:
    """Returns the fields of the refusal of a script."""
    error = result.error
    return {
        "what": "script",
        "code": error.code if error is not None else None,
        "kind": error.kind if isinstance(error, IllegalAccess) else None,
        **_location_fields(error),
    }


def end_fields(
    result: ExecutionResult,
    preset: Preset,
    console: Sequence[tuple[float, str]] | None,
    redact: Callable[[object], object] = redact_value,
) -> Fields:
    """Returns the fields of the end of a run that has a result.

    Args:
        result: the result that the caller received.
        preset: the limits of the run.
        console: the lines of the console, each with the milliseconds since the run began; None leaves out all values,
            and the texts of errors, which may contain values.
        redact: returns the form in which a value is recorded.
    """
    error, large = result.error, result.large
    fields: Fields = {
        "code": error.code if error is not None else None,
        **_location_fields(error),
        "calls_failed": sum(call.outcome == "error" for call in result.calls),
        "calls_reused": sum(call.reused for call in result.calls),
        "result_bytes": large.size if large is not None else None,
        "step_states": dict(result.steps) or None,
        **usage_fields(result.stats, preset),
        "returned_bytes": returned_bytes(result),
        "max_returned_bytes": preset.max_result_bytes,
        "max_memory_mb": preset.memory_mb,
    }
    if console is not None:
        if result.success and large is None:
            fields["result"] = redact(result.value)
        fields["console"] = redact(console)
        fields["warnings"] = redact(list(result.warnings))
        fields["error"] = None if error is None else redact(error.as_dict())
    return fields


def usage_fields(stats: Stats, preset: Preset) -> Fields:
    """Returns what a run used, each figure with its limit."""
    return {
        "script_ms": round(stats.script_ms, 3),
        "max_script_ms": preset.timeout_ms,
        "run_ms": round(stats.duration_ms, 3),
        "max_run_ms": preset.max_duration_ms,
        "steps": stats.steps,
        "max_steps": preset.max_steps,
        "tool_calls": stats.tool_calls,
        "max_tool_calls": preset.max_tool_calls,
    }


def returned_bytes(result: ExecutionResult) -> int | None:
    """Returns the bytes of JSON that a run returned; None if it failed, or its value cannot be encoded."""
    if not result.success:
        return None
    if result.large is not None:
        return result.large.size
    try:
        return len(msgspec.json.encode(result.value))
    except (UnicodeEncodeError, TypeError, ValueError, RecursionError):
        return None


def _location_fields(error: CodeCallError | None) -> Fields:
    location = error.location if error is not None else None
    return {
        "line": location.line if location is not None else None,
        "column": location.column if location is not None else None,
    }
