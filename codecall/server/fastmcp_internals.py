"""Everything that this folder reads of FastMCP's and MCP's insides.

Private names, since there is no public way:

- `ServerSession._connection`: the client's connection, which outlasts the request that the session is for. It is the
  one way to notify a client outside of its requests; FastMCP's proxies read it too.
- `FastMCP._client_log_levels`: the levels of logs that clients of the handshake era have asked for, by session.
- `FastMCP._mcp_server`: the SDK's server, on which FastMCP registers its handlers. FastMCP 4.1 does not serve
  `subscriptions/listen`; `ListChangedNotifier` registers a handler for it.
"""

from __future__ import annotations

from typing import Any, Protocol, cast

from fastmcp import Context, FastMCP
from mcp.server.connection import Connection
from mcp_types import LoggingLevel


class HandlerRegistry(Protocol):
    """Where the SDK's server takes handlers of requests."""

    def add_request_handler(self, method: str, params_type: type[Any], handler: Any, /) -> None:
        """Have `handler` called for requests of `method`."""
        ...


def handler_registry(server: FastMCP[Any]) -> HandlerRegistry:
    """The SDK's server below `server`."""
    return cast("HandlerRegistry", getattr(server, "_mcp_server"))  # noqa: B009


def client_connection(context: Context) -> Connection | None:
    """The connection of the client whose request this is; None where it has none that lasts."""
    connection = getattr(context.session, "_connection", None)
    return connection if isinstance(connection, Connection) else None


def log_levels(server: FastMCP[Any]) -> dict[object, LoggingLevel]:
    """The levels of logs that clients of the handshake era have asked for, by the ids of their sessions."""
    return cast("dict[object, LoggingLevel]", getattr(server, "_client_log_levels", {}))
