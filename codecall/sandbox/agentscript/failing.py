"""From what the engine says of an error to the failure that is reported, with its place in the script as sent."""

from __future__ import annotations

import re

import msgspec

from codecall.sandbox.agentscript.instrument import Program
from codecall.sandbox.agentscript.stops import stop_failure
from codecall.sandbox.wire import Failure, Limits

# A function's name stands before the place, and a script chooses that name.
_FRAME = re.compile(r"(?m)^ +at (?:.* )?\(?<input>:(\d{1,6}):(\d{1,6})\)?$")


class Report(msgspec.Struct):
    """What the prelude says of an error that ended the script."""

    kind: str
    name: str
    message: str
    stack: str
    call: int | None = None


def script_failure(report: Report, program: Program | None, limits: Limits) -> Failure:
    """The failure of a script that threw what `report` tells."""
    line, column = _locate(report.stack, program)
    if report.kind == "tool":
        failure = Failure(status="tool_error", code="TOOL", call=report.call)
    elif report.kind == "stack":
        failure = stop_failure("STACK_OVERFLOW", limits)
    else:
        failure = Failure(status="runtime_error", code="EXECUTION_ERROR", message=report.message, name=report.name)
    return msgspec.structs.replace(failure, line=line, column=column)


def syntax_failure(text: str, program: Program) -> Failure:
    """The failure of a script that the engine could not compile; `text` is its message and the place."""
    message, _, stack = text.partition("\n")
    line, column = _locate(stack, program)
    return Failure(
        status="syntax_error",
        code="SYNTAX_ERROR",
        message=message.removeprefix("SyntaxError: "),
        line=line,
        column=column,
    )


def _locate(stack: str, program: Program | None) -> tuple[int | None, int | None]:
    """The innermost place in the script that a stack names."""
    if program is not None:
        for match in _FRAME.finditer(stack):
            if (place := program.original(int(match[1]), int(match[2]))) is not None:
                return place
    return None, None
