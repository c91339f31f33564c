"""What a server says besides answering: passed on to the client it is for, or refused.

A server does not say which call a log message or a question belongs to. So these pass only while all calls under way on
the connection are one caller's; otherwise logs are left out, and questions refused: nobody sees what is another's.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, TypeVar

import mcp_types
from fastmcp import Context
from mcp import MCPError
from mcp.client.session import ClientRequestContext, IncomingMessage
from mcp.shared.message import ServerMessageMetadata
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel

from codecall.gateway.underway import Underway

R = TypeVar("R", bound=BaseModel)

_CHANGES: Final[dict[type, str]] = {
    mcp_types.ToolListChangedNotification: "tools",
    mcp_types.ResourceListChangedNotification: "resources",
    mcp_types.PromptListChangedNotification: "prompts",
}


class Passing:
    """The calls under way on one connection, and what its server says besides answering them.

    Args:
        server: its name.
        logger: of the server.
        changed: told "tools", "resources" or "prompts" when the server says that they have changed.
    """

    def __init__(self, server: str, logger: logging.Logger, changed: Callable[[str], None]) -> None:
        self.calls: set[Underway] = set()
        self._server = server
        self._logger = logger
        self._changed = changed

    async def notified(self, message: IncomingMessage) -> None:
        """Any notification of the server."""
        if (what := _CHANGES.get(type(message))) is not None:
            self._changed(what)

    async def log(self, params: mcp_types.LoggingMessageNotificationParams) -> None:
        """A log message of the server: for the one caller there is."""
        if (call := self._sole()) is not None:
            call.log(params)

    async def sample(
        self, _context: ClientRequestContext, params: mcp_types.CreateMessageRequestParams
    ) -> mcp_types.CreateMessageResult | mcp_types.CreateMessageResultWithTools | mcp_types.ErrorData:
        """The server asks for the client's model."""
        with_tools = params.tools is not None or params.tool_choice is not None
        tools = mcp_types.SamplingToolsCapability() if with_tools else None
        able = mcp_types.ClientCapabilities(sampling=mcp_types.SamplingCapability(tools=tools))
        answer = mcp_types.CreateMessageResultWithTools if with_tools else mcp_types.CreateMessageResult
        return await self._ask("its model", able, mcp_types.CreateMessageRequest(params=params), answer)

    async def elicit(
        self, _context: ClientRequestContext, params: mcp_types.ElicitRequestParams
    ) -> mcp_types.ElicitResult | mcp_types.ErrorData:
        """The server asks a person."""
        able = mcp_types.ClientCapabilities(elicitation=mcp_types.ElicitationCapability())
        return await self._ask("a person's input", able, mcp_types.ElicitRequest(params=params), mcp_types.ElicitResult)

    async def roots(self, _context: ClientRequestContext) -> mcp_types.ListRootsResult | mcp_types.ErrorData:
        """The server asks for the client's folders."""
        able = mcp_types.ClientCapabilities(roots=mcp_types.RootsCapability())
        return await self._ask("its roots", able, mcp_types.ListRootsRequest(), mcp_types.ListRootsResult)

    async def _ask(
        self, what: str, able: mcp_types.ClientCapabilities, request: mcp_types.ServerRequest, answer: type[R]
    ) -> R | mcp_types.ErrorData:
        call = self._sole()
        try:
            if call is None or call.context is None:
                of = "several clients" if self.calls else "no client"
                raise _refused(f"the gateway cannot ask for {what} while calls of {of} are under way")
            self._logger.debug("asks the client for %s", what)
            return await call.ask(_asked(call.context, what, able, request, answer))
        except MCPError as refusal:
            return refusal.error

    def _sole(self) -> Underway | None:
        """A call under way, if all that are belong to one caller."""
        newest: Underway | None = None
        for call in self.calls:
            if call.who is None or (newest is not None and newest.who != call.who):
                return None
            newest = call
        return newest


async def _asked(
    context: Context, what: str, able: mcp_types.ClientCapabilities, request: mcp_types.ServerRequest, answer: type[R]
) -> R:
    """The answer of the client whose request this is. Runs with that request's variables."""
    if context.session.protocol_version in MODERN_PROTOCOL_VERSIONS:
        raise _refused(
            f"the client cannot be asked for {what}: it speaks MCP {context.session.protocol_version}, in which only a "
            "server of that version can ask"
        )
    if not context.session.check_client_capability(able):
        raise _refused(f"the client cannot be asked for {what}: it does not offer it")
    related = ServerMessageMetadata(related_request_id=context.request_id)
    return await context.session.send_request(request, answer, metadata=related)


def _refused(why: str) -> MCPError:
    return MCPError(code=mcp_types.INVALID_REQUEST, message=f"Refused by the gateway: {why}")
