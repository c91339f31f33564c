"""What ends a script from outside its own logic: each limit's message and its usual way out, as data."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from codecall.sandbox.wire import Failure, Limits


class Stop(NamedTuple):
    """How one limit is told. `message` may name fields of `Limits`."""

    failure: Failure
    message: str


def _limit(code: str, message: str, hint: str | None) -> Stop:
    # The code is checked where the frame is decoded; a test sends every one of them.
    return Stop(msgspec.convert({"status": "runtime_error", "code": code, "hint": hint}, Failure), message)


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
    ),
    "STACK_OVERFLOW": _limit(
        "STACK_OVERFLOW",
        "Script exceeded the stack limit: a function calls itself too deeply",
        "Use a loop instead of recursion, or make the recursion stop earlier.",
    ),
    "OUTPUT_LIMIT": _limit(
        "OUTPUT_LIMIT",
        "The result is {detail} bytes; the limit is {max_result_bytes} bytes",
        "Return less: filter, aggregate, or select the fields that are needed.",
    ),
    "DEADLOCK": _limit(
        "DEADLOCK",
        "The script waits for a promise that can never settle",
        "Every promise the script awaits must come from callTool, an async function, or a Promise that calls its "
        "resolve.",
    ),
    "WORKER_MEMORY_EXCEEDED": _limit(
        "WORKER_MEMORY_EXCEEDED",
        "Script exceeded the memory limit of {memory_mb} MB",
        "Keep less data at once: work page by page and keep only the fields that are needed.",
    ),
    "TIMEOUT": Stop(Failure(status="timeout", code="TIMEOUT"), "Script execution timed out after {timeout_ms}ms"),
    "SELF_REFERENCE_BLOCKED": Stop(
        Failure(status="illegal_access", code="SELF_REFERENCE_BLOCKED", kind="SelfReference"), "{detail}"
    ),
}
"""By code. The texts of ITERATION_LIMIT, TOOL_CALL_LIMIT and TIMEOUT are fixed by the contract."""


def stop_failure(code: str, limits: Limits, detail: object = "") -> Failure:
    """The failure for a script that ran into `code`."""
    stop = STOPS[code]
    return msgspec.structs.replace(
        stop.failure, message=stop.message.format(detail=detail, **msgspec.structs.asdict(limits))
    )
