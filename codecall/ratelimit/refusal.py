"""The refusal of a rate rule, as every part of a server knows it; whether the server has rate rules or not."""

from __future__ import annotations

import msgspec
from fastmcp.exceptions import ToolError

from codecall.errors import RateLimitedError


class RateLimitRefusedError(ToolError):
    """A rule refused a call. Its text is the error object as JSON, which is what a client of the tool receives."""

    def __init__(self, error: RateLimitedError) -> None:
        super().__init__(error_text(error))
        self.error = error


def error_text(error: RateLimitedError) -> str:
    """Return the JSON of the error object."""
    return msgspec.json.encode(error.as_dict()).decode()
