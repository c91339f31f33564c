"""The errors of composite tools themselves, and what follows those of their calls, which keep their own codes."""

from __future__ import annotations

import random
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


class WorkflowError(CodeCallError):
    """A composite tool cannot go on: a condition that is no truth value, an output that has not its type."""

    code = "WORKFLOW_ERROR"

    def __init__(self, message: str, *, code: str | None = None, hint: str | None = None) -> None:
        default = "The definition of the tool, or what its steps return, has to change; its operator can do that."
        super().__init__(message, code=code, hint=hint or default)


class TemplateError(WorkflowError):
    """A template of a composite tool failed, or took more than it may."""

    code = "TEMPLATE_ERROR"


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
