"""What ends a script from outside its own logic: each limit's message and its usual way out, as data."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from codecall.sandbox.wire import Failure, Limits


class Progress(NamedTuple):
    """How far a script had come."""

    steps: int
    """Loop turns and function entries."""
    lines: int
    """Of its console, with the one that was too much."""
    line_bytes: int


class Stop(NamedTuple):
    """How one limit is told. `message` may name fields of `Limits`, and `longest_result`."""

    failure: Failure
    message: str
    far: str = ""
    """How far the script had come: stands before the hint, and may name fields of `Limits` and `Progress`."""


def _limit(code: str, message: str, hint: str, far: str = "") -> Stop:
    # The code is checked where the frame is decoded; a test sends every one of them.
    return Stop(msgspec.convert({"status": "runtime_error", "code": code, "hint": hint}, Failure), message, far)


STOPS = {
    "ITERATION_LIMIT": _limit(
        "ITERATION_LIMIT",
        "Loop exceeded the iteration limit of {max_iterations}",
        "Loop over less: page or filter with the tool's own parameters, or use array methods.",
    ),
    "STEP_LIMIT": _limit(
        "STEP_LIMIT",
        "Script exceeded the limit of {max_steps} steps",
        "Do less work in the script: filter with the tool's own parameters before looping.",
    ),
    "TOOL_CALL_LIMIT": _limit(
        "TOOL_CALL_LIMIT",
        "Script exceeded the limit of {max_tool_calls} tool calls",
        "Use a tool that returns many items at once, or larger pages.",
    ),
    "CONSOLE_LIMIT": _limit(
        "CONSOLE_LIMIT",
        "Script exceeded the console limit of {max_console_calls} calls or {max_console_bytes} bytes",
        "Log less, or return the data instead.",
        "This was line {lines}, and {line_bytes} bytes in all.",
    ),
    "STACK_OVERFLOW": _limit(
        "STACK_OVERFLOW",
        "Script exceeded the stack limit: a function calls itself too deeply",
        "Use a loop instead of recursion, or make the recursion stop earlier.",
    ),
    "OUTPUT_LIMIT": _limit(
        "OUTPUT_LIMIT",
        "The result is {detail} bytes; the limit is {longest_result} bytes",
        "Return less: filter, aggregate, or select the fields that are needed.",
    ),
    "DEADLOCK": _limit(
        "DEADLOCK",
        "The script waits for a promise that can never settle",
        "What it awaits must come from callTool or an async function, or from a `new Promise` that calls its `resolve` "
        "on every way; `Promise.race([])` never settles.",
    ),
    "WORKER_MEMORY_EXCEEDED": _limit(
        "WORKER_MEMORY_EXCEEDED",
        "Script exceeded the memory limit of {memory_mb} MB",
        "Keep less data at once: work page by page and keep only the fields that are needed.",
        "At least {steps} steps had been taken.",
    ),
    "TIMEOUT": Stop(
        Failure(
            status="timeout",
            code="TIMEOUT",
            hint="Do less in one script: page, filter with the tools' own parameters, or split the work.",
        ),
        "Script execution timed out after {timeout_ms}ms",
        "At least {steps} steps had been taken.",
    ),
    "SELF_REFERENCE_BLOCKED": Stop(
        Failure(status="illegal_access", code="SELF_REFERENCE_BLOCKED", kind="SelfReference"), "{detail}"
    ),
}
"""By code. The texts of ITERATION_LIMIT, TOOL_CALL_LIMIT and TIMEOUT are fixed by the contract."""


def stop_failure(code: str, limits: Limits, detail: object = "", progress: Progress | None = None) -> Failure:
    """The failure for a script that ran into `code`, and how far it had come where that is known."""
    stop = STOPS[code]
    fields = {"detail": detail, "longest_result": limits.longest_result, **msgspec.structs.asdict(limits)}
    hint = stop.failure.hint
    if progress is not None and stop.far:
        hint = f"{stop.far.format(**fields, **progress._asdict())} {hint}"
    return msgspec.structs.replace(stop.failure, message=stop.message.format(**fields), hint=hint)
