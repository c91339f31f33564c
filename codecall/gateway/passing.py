"""What a server says besides answering: passed on to the client it is for, or refused.

A server does not say which call a log message or a question belongs to. So these pass only while all calls under way on
the connection are one caller's; otherwise logs are left out, and questions refused: nobody sees what is another's. A
call that its caller has given up counts as under way until the server has answered it, or for `LINGERS_S`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final, TypeVar

import mcp_types
from fastmcp import Context
from mcp import MCPError
from mcp.client.session import ClientRequestContext, IncomingMessage
from mcp.shared.message import ServerMessageMetadata
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel

from codecall.gateway.underway import UNDERWAY, Underway

R = TypeVar("R", bound=BaseModel)

LINGERS_S: Final = 60.0
"""Seconds after its end that a server may go on with a call that it has not answered."""

_ECHO_S: Final = 1.0
"""Seconds after its answer in which what the server said before it is still being handled."""

_CHANGES: Final[dict[type, str]] = {
    mcp_types.ToolListChangedNotification: "tools",
    mcp_types.ResourceListChangedNotification: "resources",
    mcp_types.PromptListChangedNotification: "prompts",
}


@dataclass(eq=False)
class _Lingering:
    """Calls of one caller that are over for him, and not for the server."""

    who: Hashable | None
    until: float
    """Of the event loop's clock."""
    owed: set[mcp_types.RequestId]


class Passing:
    """The calls under way on one connection, and what its server says besides answering them.

    Args:
        server: its name.
        logger: of the server.
        changed: told "tools", "resources" or "prompts" when the server says that they have changed.
    """

    def __init__(self, server: str, logger: logging.Logger, changed: Callable[[str], None]) -> None:
        self.calls: dict[Underway, None] = {}
        """In the order in which they began."""
        self._server = server
        self._logger = logger
        self._changed = changed
        self._owed: dict[mcp_types.RequestId, Underway] = {}
        self._lingering: list[_Lingering] = []

    def sent(self, number: mcp_types.RequestId) -> None:
        """A request goes to the server, in the course of a call or of none."""
        call = UNDERWAY.get()
        if call is not None and call in self.calls:
            self._owed[number] = call

    def answered(self, number: mcp_types.RequestId) -> None:
        """The server has answered a request."""
        self._owed.pop(number, None)
        now = asyncio.get_running_loop().time()
        for left in self._lingering:
            if number in left.owed:
                left.owed.discard(number)
                left.until = left.until if left.owed else min(left.until, now + _ECHO_S)

    def over(self, call: Underway, *, lingers: bool) -> None:
        """A call is over.

        Args:
            call: which.
            lingers: the server may go on with what it has not answered.
        """
        self.calls.pop(call, None)
        owed = {number for number, owner in self._owed.items() if owner is call}
        for number in owed:
            del self._owed[number]
        if not owed or not lingers:
            return
        until, who = asyncio.get_running_loop().time() + LINGERS_S, call.who
        self._expire()
        for left in self._lingering:
            if left.who == who:
                left.owed |= owed
                left.until = until
                return
        self._lingering.append(_Lingering(who, until, owed))

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
        # Whoever is asked for a password knows who asks.
        params = params.model_copy(update={"message": f"[{self._server}] {params.message}"})
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
                of = "several clients" if self.calls or self._lingering else "no client"
                raise _refused(f"the gateway cannot ask for {what} while calls of {of} are under way")
            self._logger.debug("asks the client for %s", what)
            return await call.ask(_asked(call.context, what, able, request, answer))
        except MCPError as refusal:
            return refusal.error

    def _sole(self) -> Underway | None:
        """The first of the calls under way, if all are of one caller: what asks is mostly what takes long."""
        self._expire()
        first = next(iter(self.calls), None)
        if first is None or any(call.who is None or call.who != first.who for call in self.calls):
            return None
        return None if any(left.who != first.who for left in self._lingering) else first

    def _expire(self) -> None:
        now = asyncio.get_running_loop().time()
        self._lingering = [left for left in self._lingering if left.until > now]


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
