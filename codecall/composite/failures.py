"""The errors of composite tools themselves; what their calls raise keeps its own code."""

from __future__ import annotations

from codecall.errors import CodeCallError


class WorkflowError(CodeCallError):
    """A composite tool cannot go on: a condition that is no truth value, an output that has not its type."""

    code = "WORKFLOW_ERROR"

    def __init__(self, message: str, *, code: str | None = None, hint: str | None = None) -> None:
        default = "The definition of the tool, or what its steps return, has to change; its operator can do that."
        super().__init__(message, code=code, hint=hint or default)


class TemplateError(WorkflowError):
    """A template of a composite tool failed, or took more than it may."""

    code = "TEMPLATE_ERROR"
