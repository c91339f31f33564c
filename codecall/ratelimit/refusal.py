"""The refusal of a rate rule, as every part of a server knows it; whether the server has rate rules or not."""

from __future__ import annotations

import msgspec
from fastmcp.exceptions import ToolError

from codecall.errors import RateLimitedError


class RateLimitRefusedError(ToolError):
    """A rule refused a call. Its text is the error object as JSON, which is what a client of the tool receives.

    Args:
        error: Why.
        run_id: The run that waits for what the request brings, and that can be resumed; empty for others.
    """

    def __init__(self, error: RateLimitedError, run_id: str = "") -> None:
        super().__init__(error_text(error))
        self.error = error
        self.run_id = run_id


def error_text(error: RateLimitedError) -> str:
    """Return the JSON of the error object."""
    return msgspec.json.encode(error.as_dict()).decode()
