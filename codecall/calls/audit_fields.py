"""What the events of a run say: names, sizes, times and places; values only where they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from codecall.calls.audit_data import named, recorded
from codecall.calls.digests import sha256
from codecall.envelopes import ExecutionResult, Stats
from codecall.errors import CodeCallError, IllegalAccess
from codecall.made_calls import MadeCall
from codecall.options import Preset

Fields = dict[str, object]


@dataclass(frozen=True, slots=True)
class Recorded:
    """What is known of a run before it begins."""

    run_id: str
    caller: str
    """A hash."""
    script: str
    preset_name: str
    preset: Preset
    context_bytes: int = 0
    allowed_tools: Sequence[str] | None = None
    dry_run: bool = False
    resume_from: str | None = None


def start_fields(run: Recorded, script: str | None) -> Fields:
    """What is told of a run that begins. `script`: its text without credentials; None: only its hash is told."""
    told: Fields = {
        "script_sha256": sha256(run.script),
        "script_chars": len(run.script),
        "context_bytes": run.context_bytes,
        "preset": run.preset_name,
        "dry_run": run.dry_run,
        "allowed_tools": None if run.allowed_tools is None else len(run.allowed_tools),
        "resumed_from": run.resume_from,
    }
    if script is not None:
        told["script"] = script
    return told


def call_fields(made: MadeCall, began: float | None, *, whole: bool) -> Fields:
    """What is told of a call, but for its input and its value.

    Args:
        made: the call.
        began: when its run did, in seconds of `time.perf_counter`; None of a call without a run.
        whole: tell all of the URI of a resource.
    """
    started = made.started
    return {
        "number": made.number,
        **named(made, whole=whole),
        "input_chars": made.input_chars,
        "outcome": made.outcome,
        "code": made.code,
        "start_ms": round((started - began) * 1000, 3) if started is not None and began is not None else None,
        "duration_ms": made.duration_ms,
        "line": made.line,
        "column": made.column,
        "result_chars": made.result_chars if made.outcome == "ok" else None,
        "reused": made.reused,
    }


def refusal_fields(result: ExecutionResult) -> Fields:
    """What is told of a script that was refused."""
    error = result.error
    return {
        "what": "script",
        "code": error.code if error is not None else None,
        "kind": error.kind if isinstance(error, IllegalAccess) else None,
        **_place(error),
    }


def end_fields(
    result: ExecutionResult,
    preset: Preset,
    console: Sequence[tuple[float, str]] | None,
    keep: Callable[[object], object] = recorded,
) -> Fields:
    """What is told of a run that has ended with a result.

    Args:
        result: that its caller got.
        preset: the limits it ran under.
        console: what it said, each line with the milliseconds since the run began; None: no values are told, nor the
            texts of errors, which may hold some.
        keep: gives what is told of a value.
    """
    error, large = result.error, result.large
    told: Fields = {
        "code": error.code if error is not None else None,
        **_place(error),
        "calls_failed": sum(call.outcome == "error" for call in result.calls),
        "calls_reused": sum(call.reused for call in result.calls),
        "result_bytes": large.size if large is not None else None,
        **used(result.stats, preset),
        "returned_bytes": returned_bytes(result),
        "max_returned_bytes": preset.max_result_bytes,
        "max_memory_mb": preset.memory_mb,
    }
    if console is not None:
        if result.success and large is None:
            told["result"] = keep(result.value)
        told["console"] = keep(console)
        told["warnings"] = keep(list(result.warnings))
        told["error"] = None if error is None else keep(error.as_dict())
    return told


def used(stats: Stats, preset: Preset) -> Fields:
    """What a run used, and of how much."""
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
    """Bytes of JSON that a run gave back; None of one that failed, or whose value is no Unicode text."""
    if not result.success:
        return None
    if result.large is not None:
        return result.large.size
    try:
        return len(msgspec.json.encode(result.value))
    except (UnicodeEncodeError, TypeError, ValueError, RecursionError):
        return None


def _place(error: CodeCallError | None) -> Fields:
    location = error.location if error is not None else None
    return {
        "line": location.line if location is not None else None,
        "column": location.column if location is not None else None,
    }
