"""Decides what leaves the server of an exception, its text if that is meant for clients, and its frames to the log; and
what FastMCP raised it for.

The text of an exception that nobody wrote for a client may hold a path, a query or a password; it goes nowhere.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterator
from types import CodeType
from typing import Final

from fastmcp import Context
from fastmcp.exceptions import DisabledError, FastMCPError, NotFoundError, ToolError
from mcp import ClientSession, MCPError
from pydantic import ValidationError

from codecall.globs import display_name
from codecall.options import SanitizationOptions
from codecall.redaction.clean import clean_text

logger = logging.getLogger("codecall")

UNREADABLE_HINT: Final = (
    "The call may have taken effect: check before you repeat it. Of an answer that is too large, ask for less."
)
"""What to do about an answer of another server that cannot be read."""

_LOCATION: Final = 5
"""Names and indices that say where the fault of a result is: further ones may be of the server's own making."""

_MAX_READ_ERRORS: Final = 10_000
"""Errors of one failed validation that are read to find the first, which takes pydantic about 10 ms."""

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
    client's refusal comes back as an MCP error. Any other is about what the tool asks with.
    """
    return any(
        isinstance(cause, ToolError | MCPError)
        and any(
            code.co_qualname == "Context.elicit" and module == Context.__module__ for code, module in _frames(cause)
        )
        for cause in _causes(failure)
    )


def unreadable_answer(failure: BaseException) -> str | None:
    """What is to be said of another server's answer, if `failure`, or what it was raised from, was raised where the MCP
    SDK reads the results of its requests; so it is told apart from an error about arguments."""
    for cause in _causes(failure):
        if isinstance(cause, ValidationError) and any(
            code.co_qualname == "ClientSession.send_request" and module == ClientSession.__module__
            for code, module in _frames(cause)
        ):
            return f"gave an answer that cannot be read: {first_fault(cause)}"
    return None


def first_fault(failure: ValidationError, field: str | None = None, start: int = 0) -> str:
    """What is wrong first with a result, without its values: `tools[3].inputSchema: Field required`.

    Args:
        failure: of the result, or of a piece of a list in it.
        field: the list.
        start: the index of the first part of that piece.
    """
    if (count := failure.error_count()) > _MAX_READ_ERRORS:
        return f"{count:,} values are not valid"
    fault = failure.errors(include_url=False, include_context=False, include_input=False)[0]
    location = [part for part in fault["loc"] if part != field]
    if field is not None:
        location = [field, start + int(location[0]), *location[1:]]
    named = (f"[{part}]" if isinstance(part, int) else f".{display_name(part)}" for part in location[:_LOCATION])
    return f"{''.join(named).removeprefix('.')}: {display_name(fault['msg'])}"


def _frames(failure: BaseException) -> Iterator[tuple[CodeType, object]]:
    step = failure.__traceback__
    while step is not None:
        yield step.tb_frame.f_code, step.tb_frame.f_globals.get("__name__")
        step = step.tb_next


def _causes(failure: BaseException) -> Iterator[BaseException]:
    """`failure`, and what it was raised from."""
    seen: set[int] = set()
    current: BaseException | None = failure
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = current.__cause__
