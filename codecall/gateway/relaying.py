"""What every call that is passed on to a server shares: what goes with it, and how its failure is told."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final, cast

import mcp_types
from fastmcp import Context
from fastmcp.exceptions import FastMCPError
from mcp import ClientSession
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from codecall.gateway.unavailable import SERVER_ERRORS, text_of

OF_ONE_CONNECTION: Final = frozenset(
    {
        mcp_types.PROTOCOL_VERSION_META_KEY,
        mcp_types.CLIENT_INFO_META_KEY,
        mcp_types.CLIENT_CAPABILITIES_META_KEY,
        mcp_types.SERVER_INFO_META_KEY,
        "progressToken",
        "progress_token",
    }
)
"""Keys of `_meta` that mean something on one connection only."""


@contextmanager
def told_as(kind: type[FastMCPError]) -> Generator[None]:
    """What is wrong with the server, raised as FastMCP shows it to clients, and with its cause."""
    try:
        yield
    except SERVER_ERRORS as failure:
        raise kind(text_of(failure)) from failure


def meta_of(context: Context) -> mcp_types.RequestParamsMeta | None:
    """What the client's request says besides its parameters, but for what is about his connection."""
    request = context.request_context
    if request is None or not request.meta:
        return None
    meta = {key: value for key, value in request.meta.items() if key not in OF_ONE_CONNECTION}
    return cast("mcp_types.RequestParamsMeta", meta) if meta else None


def is_modern(session: ClientSession) -> bool:
    """Whether the server answers with questions instead of asking them while a call is under way (2026-07-28)."""
    return session.protocol_version in MODERN_PROTOCOL_VERSIONS
