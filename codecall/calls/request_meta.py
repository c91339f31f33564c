"""What a tool that is called for a script, or by `codecall:invoke`, sees of the client's request: not its `_meta`.

A client writes into it what is for the tool that it calls, CodeCall's: a progress token, credentials, notes of its own.
A proxy would pass all of that on to other servers. What the connection itself says (protocol, client, capabilities,
level of logs) stays, since FastMCP reads it there; of that the gateway passes on the level of logs alone.
"""

from __future__ import annotations

import contextvars
from dataclasses import replace
from typing import Final

import mcp_types
from fastmcp.server.dependencies import fastmcp_request_ctx

CONNECTION_KEYS: Final = frozenset(
    {
        mcp_types.PROTOCOL_VERSION_META_KEY,
        mcp_types.CLIENT_INFO_META_KEY,
        mcp_types.CLIENT_CAPABILITIES_META_KEY,
        mcp_types.LOG_LEVEL_META_KEY,
    }
)
"""Keys of `_meta` that are part of the protocol and the same in all requests of a connection."""


def context_without_meta() -> contextvars.Context:
    """A copy of the current context in which the client's request has none of the `_meta` that the client wrote."""
    copy = contextvars.copy_context()
    request = fastmcp_request_ctx.get()
    if request is not None and request.meta and not request.meta.keys() <= CONNECTION_KEYS:
        meta = {key: value for key, value in request.meta.items() if key in CONNECTION_KEYS}
        copy.run(fastmcp_request_ctx.set, replace(request, meta=meta or None))
    return copy
