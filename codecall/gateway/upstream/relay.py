"""What a server says besides answering: passed on to the client it is for, or refused.

A server does not say which call a log message or a question belongs to. So these pass only while all calls under way on
the connection are one caller's; otherwise logs are left out, and questions refused: nobody sees what is another's. A
call that its caller has given up counts as under way until the server has answered it, or for `LINGER_S`.
"""

from __future__ import annotations

import asyncio
import contextvars
import json
import logging
import math
from collections import deque
from collections.abc import Callable, Coroutine, Hashable
from dataclasses import dataclass
from typing import Any, Final, TypeVar, cast

import anyio
import mcp_types
from fastmcp import Context
from mcp import ClientSession, MCPError
from mcp.client.session import ClientRequestContext, IncomingMessage
from mcp.shared.message import ServerMessageMetadata
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel

from codecall.identity import client_key

# ----------------------------------------------------------------------------------------------------
# One call under way: how long it may take, whose it is, and what is passed on to him meanwhile.

T = TypeVar("T")

MAX_PENDING_LOGS: Final = 256
"""Log messages of one call that wait to be passed on; more are left out, and counted in our own log."""

_SETTLE_S: Final = 1.0
"""Seconds the answer of a call waits for what the server said before it."""

_Progress = tuple[float, float | None, str | None]
_Log = mcp_types.LoggingMessageNotificationParams


class InFlightCall:
    """One call under way, made on behalf of a request of a client, or of nobody.

    Args:
        session: with the server.
        context: FastMCP's context of the request; None: nobody's.
        timeout_s: seconds it may take without a word of progress.
        logger: of the server.

    Attributes:
        scope: what the call runs in. Cancelled when its time is up.
    """

    def __init__(
        self, session: ClientSession, context: Context | None, timeout_s: float, logger: logging.Logger
    ) -> None:
        self.session = session
        self.context = context
        self.scope = anyio.CancelScope(deadline=asyncio.get_running_loop().time() + timeout_s)
        # What is done for the client is done with the variables of his request: FastMCP finds the request there.
        self._variables = contextvars.copy_context()
        self._timeout_s = timeout_s
        self._logger = logger
        self._who: Hashable | None = None
        self._asks = 0
        self._said: deque[_Progress | _Log] = deque()
        self._left_out = 0
        self._telling: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[Any]] = set()

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Give the call its whole time again, and pass the progress on. What comes while an earlier one is being
        written replaces what waits."""
        if not self._asks:
            self.scope.deadline = asyncio.get_running_loop().time() + self._timeout_s
        if self._said and isinstance(self._said[-1], tuple):
            self._said.pop()
        self._say((progress, total, message))

    def log(self, params: _Log) -> None:
        """Pass a log message on, if the client asked for such."""
        if len(self._said) < MAX_PENDING_LOGS:
            self._say(params)
        else:
            self._left_out += 1

    async def ask(self, question: Coroutine[Any, Any, T]) -> T:
        """The client's answer to `question`; the call's time stands still meanwhile.

        Raises:
            MCPError: he refused, or the call ended before he answered.
        """
        self._asks += 1
        self.scope.deadline = math.inf
        task = self._start(question)
        try:
            await asyncio.wait({task})
        finally:
            task.cancel()
            self._asks -= 1
            if not self._asks:
                self.scope.deadline = asyncio.get_running_loop().time() + self._timeout_s
        if task.cancelled():
            raise MCPError(code=mcp_types.INVALID_REQUEST, message="Refused by the gateway: the call has ended")
        return task.result()

    async def drain(self) -> None:
        """Wait until what the server said before its answer has been passed on, but not for long."""
        if self._telling is not None:
            await asyncio.wait({self._telling}, timeout=_SETTLE_S)

    def close(self) -> None:
        """The call is over: nothing more is passed on or asked."""
        for task in self._tasks:
            task.cancel()
        if self._left_out:
            self._logger.warning("%d log messages were left out: the client reads too slowly", self._left_out)

    @property
    def owner(self) -> Hashable | None:
        """Whose call it is: on handshake-era connections the client's session, on others the request; None: nobody."""
        if self._who is None and self.context is not None:
            self._who = self._variables.run(_who, self.context)
        return self._who

    def _say(self, what: _Progress | _Log) -> None:
        if self.context is None:
            return
        self._said.append(what)
        if self._telling is None or self._telling.done():
            self._telling = self._start(self._tell(self.context))

    async def _tell(self, context: Context) -> None:
        while self._said:
            said = self._said.popleft()
            try:
                if isinstance(said, tuple):
                    await context.report_progress(*said)
                else:
                    text, extra = _text(said.data)
                    await context.log(text, level=said.level, logger_name=said.logger, extra=extra)
            except Exception as failure:
                # The client has gone, or takes no such thing; the call itself will show.
                self._logger.debug("what it said could not be passed on (%s)", type(failure).__name__)

    def _start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.create_task(work, context=self._variables)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


CURRENT_CALL: Final[contextvars.ContextVar[InFlightCall | None]] = contextvars.ContextVar(
    "codecall_underway", default=None
)
"""The call that is being made."""


def _who(context: Context) -> Hashable | None:
    if context.request_context is None:
        return None
    if context.session.protocol_version in MODERN_PROTOCOL_VERSIONS:
        return context.session
    return client_key(context), context.session_id


def _text(data: object) -> tuple[str, dict[str, Any] | None]:
    """FastMCP sends `{"msg": …, "extra": …}`; other servers anything, which is passed on as text."""
    if isinstance(data, dict):
        told = cast("dict[str, Any]", data)
        if isinstance(message := told.get("msg"), str):
            extra = told.get("extra")
            return message, cast("dict[str, Any]", extra) if isinstance(extra, dict) else None
    return data if isinstance(data, str) else json.dumps(data), None


# ----------------------------------------------------------------------------------------------------
# What a server says besides answering: passed on to the client it is for, or refused.

R = TypeVar("R", bound=BaseModel)

LINGER_S: Final = 60.0
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


class MessageRouter:
    """The calls under way on one connection, and what its server says besides answering them.

    Args:
        server: its name.
        logger: of the server.
        changed: told "tools", "resources" or "prompts" when the server says that they have changed.
    """

    def __init__(self, server: str, logger: logging.Logger, on_change: Callable[[str], None]) -> None:
        self.calls: dict[InFlightCall, None] = {}
        """In the order in which they began."""
        self._server = server
        self._logger = logger
        self._changed = on_change
        self._owed: dict[mcp_types.RequestId, InFlightCall] = {}
        self._lingering: list[_Lingering] = []

    def request_sent(self, request_id: mcp_types.RequestId) -> None:
        """A request goes to the server, in the course of a call or of none."""
        call = CURRENT_CALL.get()
        if call is not None and call in self.calls:
            self._owed[request_id] = call

    def response_received(self, request_id: mcp_types.RequestId) -> None:
        """The server has answered a request."""
        self._owed.pop(request_id, None)
        now = asyncio.get_running_loop().time()
        for left in self._lingering:
            if request_id in left.owed:
                left.owed.discard(request_id)
                left.until = left.until if left.owed else min(left.until, now + _ECHO_S)

    def end_call(self, call: InFlightCall, *, may_linger: bool) -> None:
        """A call is over.

        Args:
            call: which.
            lingers: the server may go on with what it has not answered.
        """
        self.calls.pop(call, None)
        owed = {number for number, owner in self._owed.items() if owner is call}
        for number in owed:
            del self._owed[number]
        if not owed or not may_linger:
            return
        until, who = asyncio.get_running_loop().time() + LINGER_S, call.owner
        self._expire()
        for left in self._lingering:
            if left.who == who:
                left.owed |= owed
                left.until = until
                return
        self._lingering.append(_Lingering(who, until, owed))

    async def handle_notification(self, message: IncomingMessage) -> None:
        """Any notification of the server."""
        if (what := _CHANGES.get(type(message))) is not None:
            self._changed(what)

    async def handle_log(self, params: mcp_types.LoggingMessageNotificationParams) -> None:
        """A log message of the server: for the one caller there is."""
        if (call := self._sole()) is not None:
            call.log(params)

    async def handle_sampling(
        self, _context: ClientRequestContext, params: mcp_types.CreateMessageRequestParams
    ) -> mcp_types.CreateMessageResult | mcp_types.CreateMessageResultWithTools | mcp_types.ErrorData:
        """The server asks for the client's model."""
        with_tools = params.tools is not None or params.tool_choice is not None
        tools = mcp_types.SamplingToolsCapability() if with_tools else None
        able = mcp_types.ClientCapabilities(sampling=mcp_types.SamplingCapability(tools=tools))
        answer = mcp_types.CreateMessageResultWithTools if with_tools else mcp_types.CreateMessageResult
        return await self._ask("its model", able, mcp_types.CreateMessageRequest(params=params), answer)

    async def handle_elicitation(
        self, _context: ClientRequestContext, params: mcp_types.ElicitRequestParams
    ) -> mcp_types.ElicitResult | mcp_types.ErrorData:
        """The server asks a person."""
        able = mcp_types.ClientCapabilities(elicitation=mcp_types.ElicitationCapability())
        # Whoever is asked for a password knows who asks.
        params = params.model_copy(update={"message": f"[{self._server}] {params.message}"})
        return await self._ask("a person's input", able, mcp_types.ElicitRequest(params=params), mcp_types.ElicitResult)

    async def handle_list_roots(
        self, _context: ClientRequestContext
    ) -> mcp_types.ListRootsResult | mcp_types.ErrorData:
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

    def _sole(self) -> InFlightCall | None:
        """The first of the calls under way, if all are of one caller: what asks is mostly what takes long."""
        self._expire()
        first = next(iter(self.calls), None)
        if first is None or any(call.owner is None or call.owner != first.owner for call in self.calls):
            return None
        return None if any(left.who != first.owner for left in self._lingering) else first

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
