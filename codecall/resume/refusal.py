"""The refusal to resume a run, known without what keeps runs."""

from __future__ import annotations

from codecall.errors import CodeCallError


class ResumeError(CodeCallError):
    """A run cannot be resumed; nothing has run."""

    code = "CANNOT_RESUME"
