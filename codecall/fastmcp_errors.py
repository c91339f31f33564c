"""Decides what leaves the server of an exception, its text if that is meant for clients, and its frames to the log; and
what FastMCP raised it for.

The text of an exception that nobody wrote for a client may hold a path, a query or a password; it goes nowhere.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterator
from types import CodeType

from fastmcp import Context
from fastmcp.exceptions import DisabledError, FastMCPError, NotFoundError
from mcp import MCPError
from pydantic import ValidationError

from codecall.options import SanitizationOptions
from codecall.redaction.clean import clean_text

logger = logging.getLogger("codecall")

_MEANT_FOR_CLIENTS = (FastMCPError, MCPError, NotFoundError, DisabledError)


def is_unexpected(failure: Exception) -> bool:
    """Whether `failure` is neither FastMCP's nor the protocol's way of saying something: a bug, to be logged."""
    return not isinstance(failure, (*_MEANT_FOR_CLIENTS, ValidationError))


def client_message(failure: Exception, sanitization: SanitizationOptions) -> str:
    """What a client may read of `failure`: its cleaned text if that was meant for clients, else only its type."""
    text = clean_text(str(failure), sanitization) if isinstance(failure, _MEANT_FOR_CLIENTS) else ""
    return text or f"the server failed ({type(failure).__name__})"


def log_unexpected(activity: str, failure: Exception) -> None:
    """Log a bug: what was being done, the type of the exception and the frames it passed."""
    if is_unexpected(failure):
        frames = "".join(traceback.format_tb(failure.__traceback__))
        logger.error("%s failed with %s\n%s", activity, type(failure).__name__, frames)


def is_raised_by_elicit(failure: BaseException) -> bool:
    """Whether `failure`, or what it was raised from, was raised within FastMCP's `Context.elicit`.

    FastMCP has no exception type for it: on 2026-07-28 connections it raises a plain ToolError, on older ones the
    client's refusal comes back as an MCP error.
    """
    return any(
        code.co_qualname == "Context.elicit" and module == Context.__module__ for code, module in _frames(failure)
    )


def _frames(failure: BaseException) -> Iterator[tuple[CodeType, object]]:
    seen: set[int] = set()
    current: BaseException | None = failure
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        step = current.__traceback__
        while step is not None:
            yield step.tb_frame.f_code, step.tb_frame.f_globals.get("__name__")
            step = step.tb_next
        current = current.__cause__
