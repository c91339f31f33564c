"""The session with a server: FastMCP's own, but that it relays results unjudged and tells when it has ended."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, Self, cast

import mcp_types
from mcp import ClientSession
from mcp.shared.dispatcher import coerce_request_id
from mcp.shared.jsonrpc_dispatcher import cancelled_request_id_from_params
from mcp.shared.message import SessionMessage

from codecall.gateway.upstream.messages import Throttle
from codecall.gateway.upstream.relay import MessageRouter

MAX_OPEN_REQUESTS: Final = 32
"""Requests of one server that may wait for answers; more are refused."""

_MESSAGES_PER_S: Final = 1000
"""Messages read of one server in a second that are no answers."""

_Item = SessionMessage | Exception
_ANSWERS: Final = (mcp_types.JSONRPCResponse, mcp_types.JSONRPCError)


class RelayingSession(ClientSession):
    """A session that asks `passing` about whatever the server sends besides results.

    Args:
        read: messages of the server.
        write: messages to it.
        passing: who answers and is told.
        ended: called once, when no more messages come.
        options: as for `ClientSession`.
    """

    def __init__(
        self, read: Any, write: Any, *, router: MessageRouter, on_close: Callable[[], None], **options: Any
    ) -> None:
        answers: dict[str, Any] = {
            "sampling_callback": router.handle_sampling,
            "elicitation_callback": router.handle_elicitation,
            "list_roots_callback": router.handle_list_roots,
            "logging_callback": router.handle_log,
            "message_handler": router.handle_notification,
            # Which logs a client wants stands in its own requests.
            "log_level": None,
        }
        written = _Written(write, router)
        watched = _Watched(read, written, router, on_close)
        super().__init__(cast("Any", watched), cast("Any", written), **{**options, **answers})

    async def validate_tool_result(self, name: str, result: mcp_types.CallToolResult) -> None:
        """Nothing: whoever uses the result judges it."""


class _Written:
    """A stream of messages to a server, which knows what the server has asked and was not answered."""

    def __init__(self, inner: Any, passing: MessageRouter) -> None:
        self.open: set[mcp_types.RequestId] = set()
        self._answering: set[mcp_types.RequestId] = set()
        self._inner = inner
        self._passing = passing

    async def send(self, item: SessionMessage) -> None:
        message = item.message
        if isinstance(message, mcp_types.JSONRPCRequest):
            self._passing.request_sent(message.id)
        if not isinstance(message, _ANSWERS) or message.id is None:
            await self._inner.send(item)
            return
        number = coerce_request_id(message.id)
        self._answering.add(number)
        try:
            await self._inner.send(item)
        finally:
            self._answering.discard(number)
            self.open.discard(number)

    async def refuse(self, number: mcp_types.RequestId, why: str) -> None:
        """Answer a request that goes no further."""
        error = mcp_types.ErrorData(code=mcp_types.INVALID_REQUEST, message=f"Refused by the gateway: {why}")
        await self._inner.send(SessionMessage(mcp_types.JSONRPCError(jsonrpc="2.0", id=number, error=error)))

    def taken_back(self, number: mcp_types.RequestId) -> None:
        """The server wants no answer any more. One that is being written is written all the same."""
        if number not in self._answering:
            self.open.discard(number)

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._inner.__aexit__(kind, value, trace)


class _Watched:
    """A stream of messages of a server: no faster, and no more of its requests at once, than may be. Tells when it is
    read no more."""

    def __init__(self, inner: Any, written: _Written, passing: MessageRouter, ended: Callable[[], None]) -> None:
        self._inner = inner
        self._written = written
        self._passing = passing
        self._ended = ended
        self._pace = Throttle(_MESSAGES_PER_S)

    @property
    def last_context(self) -> Any:
        """Of whoever sent the last message, for streams that know it."""
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> _Item:
        while not await self._passes(item := await self._inner.receive()):
            pass
        return item

    async def _passes(self, item: _Item) -> bool:
        message = None if isinstance(item, Exception) else item.message
        if isinstance(message, _ANSWERS):
            if message.id is not None:
                self._passing.response_received(coerce_request_id(message.id))
            return True
        await self._pace.wait()
        if isinstance(message, mcp_types.JSONRPCNotification) and message.method == "notifications/cancelled":
            if (cancelled := cancelled_request_id_from_params(message.params)) is not None:
                self._written.taken_back(coerce_request_id(cancelled))
        elif isinstance(message, mcp_types.JSONRPCRequest):
            number = coerce_request_id(message.id)
            if number in self._written.open:
                await self._written.refuse(message.id, "a request with this id waits for its answer")
                return False
            if len(self._written.open) >= MAX_OPEN_REQUESTS:
                await self._written.refuse(message.id, f"{MAX_OPEN_REQUESTS} requests wait for their answers")
                return False
            self._written.open.add(number)
        return True

    async def aclose(self) -> None:
        self._ended()
        await self._inner.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> _Item:
        while not await self._passes(item := await self._inner.__anext__()):
            pass
        return item

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended()
        await self._inner.__aexit__(kind, value, trace)
