"""What of a client's messages over HTTP is refused once it is parsed: what would be kept, or sent again and again."""

from __future__ import annotations

from typing import Any, Final

import mcp_types
from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
from mcp import MCPError

MAX_PROGRESS_TOKEN: Final = 1_024
"""Characters of a progress token, which is in each progress notification of its request."""


class MessageChecks(Middleware):
    """Refuses a second `initialize` in a session, and long progress tokens."""

    async def on_initialize(
        self,
        context: MiddlewareContext[mcp_types.InitializeRequest],
        call_next: CallNext[mcp_types.InitializeRequest, mcp_types.InitializeResult | None],
    ) -> mcp_types.InitializeResult | None:
        """See FastMCP's `Middleware`. The SDK would keep a second one in place of the first, and its body may be as
        large as any."""
        if context.fastmcp_context is not None and context.fastmcp_context.session.client_params is not None:
            raise MCPError(code=mcp_types.INVALID_REQUEST, message="This session is already initialized")
        return await call_next(context)

    async def on_request(self, context: MiddlewareContext[Any], call_next: CallNext[Any, Any]) -> Any:
        """See FastMCP's `Middleware`."""
        request = context.fastmcp_context.request_context if context.fastmcp_context is not None else None
        token: object = (request.meta or {}).get("progressToken") if request is not None else None
        if isinstance(token, str) and len(token) > MAX_PROGRESS_TOKEN:
            message = f"progressToken may have {MAX_PROGRESS_TOKEN:,} characters; this one has {len(token):,}"
            raise MCPError(code=mcp_types.INVALID_PARAMS, message=message)
        return await call_next(context)
