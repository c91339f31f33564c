"""The failures a stub can have by name: CodeCall's own codes of failed calls, and what each says."""

from __future__ import annotations

from typing import Final

from codecall.errors import (
    AccessDeniedError,
    InputRequiredError,
    InvalidInputError,
    PromptNotFoundError,
    RateLimitedError,
    ResourceNotFoundError,
    ResultNotFoundError,
    TaskStartedError,
    ToolCallError,
    ToolNotFoundError,
    ToolTimeoutError,
)

CODES: Final[dict[str, tuple[type[ToolCallError], str]]] = {
    "TOOL_EXECUTION_ERROR": (ToolCallError, "{0} failed"),
    "TOOL_NOT_FOUND": (ToolNotFoundError, "{0} was not found"),
    "RESOURCE_NOT_FOUND": (ResourceNotFoundError, "{0} was not found"),
    "PROMPT_NOT_FOUND": (PromptNotFoundError, "{0} was not found"),
    "RESULT_NOT_FOUND": (ResultNotFoundError, "{0} was not found"),
    "ACCESS_DENIED": (AccessDeniedError, "{0} is not among the allowed tools"),
    "INVALID_INPUT": (InvalidInputError, "{0} refused its input"),
    "TOOL_TIMEOUT": (ToolTimeoutError, "{0} did not answer in time"),
    "INPUT_REQUIRED": (InputRequiredError, "{0} asks for input that a script cannot give"),
    "TASK_STARTED": (TaskStartedError, "{0} started a background task instead of answering"),
    "RATE_LIMIT": (RateLimitedError, "{0} is called too often"),
}
"""By code: the error a call ends with, and its message, with what was called filled in."""
