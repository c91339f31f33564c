"""What of a client's messages over HTTP is refused once it is parsed: what would be kept, or sent again and again."""

from __future__ import annotations

from typing import Any, Final

import mcp_types
from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
from mcp import MCPError
from mcp.server.streamable_http import MCP_SESSION_ID_HEADER

MAX_PROGRESS_TOKEN: Final = 1_024
"""Characters of a progress token, or bits of a number, which is in each progress notification of its request."""


class MessageChecks(Middleware):
    """Refuses a second `initialize` in a session, and long progress tokens."""

    async def on_initialize(
        self,
        context: MiddlewareContext[mcp_types.InitializeRequest],
        call_next: CallNext[mcp_types.InitializeRequest, mcp_types.InitializeResult | None],
    ) -> mcp_types.InitializeResult | None:
        """See FastMCP's `Middleware`. The SDK would keep one that comes in an open session in place of the first, be
        that one that failed, and its body may be as large as any."""
        request = context.fastmcp_context.request_context if context.fastmcp_context is not None else None
        if MCP_SESSION_ID_HEADER in getattr(getattr(request, "request", None), "headers", ()):
            raise MCPError(code=mcp_types.INVALID_REQUEST, message="This session is already initialized")
        return await call_next(context)

    async def on_request(self, context: MiddlewareContext[Any], call_next: CallNext[Any, Any]) -> Any:
        """See FastMCP's `Middleware`."""
        request = context.fastmcp_context.request_context if context.fastmcp_context is not None else None
        token: object = (request.meta or {}).get("progressToken") if request is not None else None
        is_long = isinstance(token, int) and token.bit_length() > MAX_PROGRESS_TOKEN
        if is_long or (isinstance(token, str) and len(token) > MAX_PROGRESS_TOKEN):
            message = f"progressToken may have {MAX_PROGRESS_TOKEN:,} characters, or bits if it is a number"
            raise MCPError(code=mcp_types.INVALID_PARAMS, message=message)
        return await call_next(context)
