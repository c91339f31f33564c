"""The option `extract` of `CodeCallPlugin.init`: whether scripts may have a model read values, and how much."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypedDict

from pydantic import Field

from codecall.option_base import Options


class ExtractOptions(Options):
    """How `extract(value, type)` of scripts is answered, and how much of it one run may use."""

    extractor: Callable[[Any], Any] | None = None
    """An async function that answers in place of the client's model. It takes an `ExtractionRequest` and returns JSON
    data. None: the client's model is asked (MCP sampling), if the client offers it."""
    max_requests: int = Field(default=10, ge=1, le=1_000)
    """Most requests to the model in one run; one `extract` makes one, and a second if the first answer does not fit."""
    max_tokens: int = Field(default=50_000, ge=100, le=100_000_000)
    """Most tokens of all requests of one run and their answers, as estimated from their length."""
    max_answer_tokens: int = Field(default=2_000, ge=16, le=100_000)
    """Most tokens of one answer."""
    timeout_s: float = Field(default=120.0, gt=0, le=86_400)
    """Seconds that one answer may take. The time limits of the script stand still meanwhile."""


class ExtractDict(TypedDict, total=False):
    """`extract`: whether scripts may have a model read values. See `codecall.extraction.options.ExtractOptions`."""

    extractor: Callable[[Any], Any] | None
    max_requests: int
    max_tokens: int
    max_answer_tokens: int
    timeout_s: float
