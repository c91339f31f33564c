"""The errors of composite tools themselves, and what follows those of their calls, which keep their own codes."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from codecall.composite.definition import MAX_DELAY_FACTOR
from codecall.errors import (
    AccessDeniedError,
    ApprovalDeniedError,
    CodeCallError,
    FlowDeniedError,
    InputRequiredError,
    InvalidInputError,
    RateLimitedError,
    TaskStartedError,
    ToolCallError,
    ToolNotFoundError,
)
from codecall.errors.hints import DEFAULT_HINTS, MAX_HINT
from codecall.sandbox.starlark import policy as starlark
from codecall.wording import cut


class WorkflowError(CodeCallError):
    """A composite tool cannot go on: a condition that is no truth value, an output that has not its type."""

    code = "WORKFLOW_ERROR"

    def __init__(self, message: str, *, code: str | None = None, hint: str | None = None) -> None:
        default = "The definition of the tool, or what its steps return, has to change; its operator can do that."
        super().__init__(message, code=code, hint=hint or default)


class TemplateError(WorkflowError):
    """A template of a composite tool failed, or took more than it may."""

    code = "TEMPLATE_ERROR"


_CALL_FAILED: Final = "A call that this tool makes failed: change the arguments that it is made of, if they were wrong."
_MISSING: Final = "This tool calls what is not there, or not for you: use another one, or tell its operator."
_ASK_LESS: Final = "Ask this tool for less, where its arguments say how much; the limit is its operator's."
_SCRIPT_FAILED: Final = "The script of this tool failed, and its operator alone can change it; other arguments may do."

CALLER_HINTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "TOOL_EXECUTION_ERROR": _CALL_FAILED,
        "EXTRACTION_FAILED": _CALL_FAILED,
        "INVALID_INPUT": "A call that this tool makes is wrong: change the arguments that it is made of, if they were.",
        **dict.fromkeys(("TOOL_NOT_FOUND", "RESOURCE_NOT_FOUND", "PROMPT_NOT_FOUND", "ACCESS_DENIED"), _MISSING),
        **dict.fromkeys(("TIMEOUT", "WORKER_TIMEOUT", "WORKER_MEMORY_EXCEEDED", "MESSAGE_TOO_LARGE"), _ASK_LESS),
        **dict.fromkeys(("ITERATION_LIMIT", "STEP_LIMIT", "TOOL_CALL_LIMIT", "OUTPUT_LIMIT"), _ASK_LESS),
        **dict.fromkeys(("SYNTAX_ERROR", "VALIDATION_ERROR", "EXECUTION_ERROR", "STACK_OVERFLOW"), _SCRIPT_FAILED),
        **dict.fromkeys(("DEADLOCK", "TOO_MANY_PENDING_CALLS", "MESSAGE_FLOOD", "MESSAGE_INVALID"), _SCRIPT_FAILED),
    }
)
"""What the caller of a composite tool does, who cannot change what it runs, by the code of a failure."""

_FOR_AUTHORS: Final = tuple({*DEFAULT_HINTS.values(), *starlark.DEFAULT_HINTS.values()})
"""Hints that say nothing but what the author of any script does."""


_QUOTED: Final = re.compile(r"`.*[`…]", re.DOTALL)
"""What quotes a script, which may have backticks itself: nobody knows which of them end a quotation. One that is cut
ends in a mark."""


def caller_hint(error: CodeCallError) -> str:
    """The hint of a script's failure for the caller of the tool that it is, without what it quotes of the script; what
    only its operator can do is said to be for them."""
    code = error.code if error.source != "tool" or error.code in DEFAULT_HINTS else "TOOL_EXECUTION_ERROR"
    hint = error.hint or ""
    author = next(filter(hint.startswith, _FOR_AUTHORS), "")
    rest = hint.removeprefix(author).strip()
    if error.quotes_script:
        rest = _QUOTED.sub("`…`", rest)
    told = CALLER_HINTS.get(code)
    if isinstance(error, WorkflowError) or told is None:
        return " ".join(filter(None, (author, rest))).replace("Send the script again", "Call the tool again")
    return cut(" ".join(filter(None, (told, "" if author or not rest else "For its operator:", rest))), MAX_HINT)


_NOT_RETRIED: Final = (
    AccessDeniedError,
    ApprovalDeniedError,
    FlowDeniedError,
    InputRequiredError,
    InvalidInputError,
    TaskStartedError,
    ToolNotFoundError,
)
"""Failures that another attempt would meet again."""


def may_pass(error: ToolCallError) -> bool:
    """Whether another attempt might not meet this failure."""
    return not isinstance(error, _NOT_RETRIED) and not error.ends_script


def ends_run(error: CodeCallError) -> bool:
    """Whether a failure ends the run whatever `onError` says: a person has to decide first, or wants it to end."""
    return isinstance(error, ToolCallError) and error.ends_script


def delay_s(first_s: float, attempt: int, error: ToolCallError) -> float:
    """Seconds before the attempt after number `attempt`, which failed with `error`."""
    delay = min(first_s * 2.0 ** (attempt - 1), first_s * MAX_DELAY_FACTOR) * random.uniform(0.5, 1.0)  # noqa: S311
    if isinstance(error, RateLimitedError) and error.retry_after_ms is not None:
        return min(max(delay, error.retry_after_ms / 1000), first_s * MAX_DELAY_FACTOR)
    return delay
