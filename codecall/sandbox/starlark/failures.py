"""Why a Starlark script failed: the place in its text, found in the evaluator's own stack, and what to do."""

from __future__ import annotations

import inspect
import re
from types import FrameType, TracebackType
from typing import Final

from starlark.eval.errors import EvalError

from codecall.sandbox.agentscript.checked import LineTable
from codecall.sandbox.wire import Failure

_EVALUATOR: Final = {"_eval_expr": "expr", "_exec_stmt": "stmt"}
"""Functions of the evaluator that stand for a place in the script, and their variable that holds the node."""

HINTS: Final = (
    (r"'dict' value has no field", 'Use brackets: value["key"], or value.get("key").'),
    (r"value has no field or method", "dir(value) lists what it has; keys of dicts are read with brackets."),
    (r"^KeyError", 'Use value.get("key", default), or look at value.keys().'),
    (r"'string' is not iterable", "Use text.elems() for its characters, text.split() for its words."),
    (r"free variable .* referenced before", "Bind it where the function is made: lambda x=x: …"),
    (r"referenced before assignment", "Assign it before, on every way that leads here."),
    (r"called recursively", "No function may call itself: use a loop and a list of what is left to do."),
    (r"unsupported binary operation: string|: int \+ string", "Make a text of it: str(x), or use format()."),
    (r"too deeply nested", "Give parts of it names, or call fewer functions inside one another."),
    (r"index out of range", "Look at len(items) first."),
    (r"NoneType.* has no|'NoneType'", "The value is None: look where it comes from."),
)
"""What to do about an error of the evaluator, by its message."""


class ToolFailedError(EvalError):
    """A call failed; the server has the record of it."""

    def __init__(self, message: str, call: int) -> None:
        super().__init__(message)
        self.call = call


class TaskFailedError(EvalError):
    """A function given to `parallel` failed."""

    def __init__(self, index: int, failure: Exception) -> None:
        message = failure.message if isinstance(failure, EvalError) else type(failure).__name__
        super().__init__(f"parallel: task {index} failed: {message}")
        self.offset = offset_of(failure)
        """Where in the script the function failed."""


def offset_of(error: BaseException) -> int | None:
    """The offset of the innermost expression or statement that an error passed."""
    if isinstance(error, TaskFailedError):
        return error.offset
    offset: int | None = None
    trace: TracebackType | None = error.__traceback__
    while trace is not None:
        offset = _offset(trace.tb_frame, offset)
        trace = trace.tb_next
    return offset


def calling_offset() -> int | None:
    """The offset of the call that the script is in."""
    frame: FrameType | None = inspect.currentframe()
    while frame is not None:
        if frame.f_code.co_name == "_eval_expr":
            return _offset(frame, None)
        frame = frame.f_back
    return None


def _offset(frame: FrameType, default: int | None) -> int | None:
    name = _EVALUATOR.get(frame.f_code.co_name)
    node = frame.f_locals.get(name) if name is not None else None
    start = getattr(node, "start", None)
    # The function around the script has no place in it.
    return start if isinstance(start, int) and node is not None else default


def failure_of(error: Exception, lines: LineTable) -> Failure:
    """How the failure of a script is reported."""
    offset = offset_of(error)
    line, column = (None, None) if offset is None else lines.position(offset)
    if isinstance(error, ToolFailedError):
        return Failure(status="tool_error", code="TOOL", call=error.call, line=line, column=column)
    message = error.message if isinstance(error, EvalError) else f"{type(error).__name__}: {error}"
    hint = next((hint for pattern, hint in HINTS if re.search(pattern, message)), None)
    return Failure(
        status="runtime_error",
        code="EXECUTION_ERROR",
        message=message[:100_000],
        name="Error",
        line=line,
        column=column,
        hint=hint,
    )
