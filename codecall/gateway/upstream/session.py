"""The MCP client session with one upstream server, and everything the gateway reads of FastMCP's and MCP's insides.

`RelayingSession` is the SDK's session, but that it hands whatever the server sends to a `MessageRouter`, leaves results
unjudged, bounds what the server may ask for, and reports its own end.

Private names of the two libraries that the gateway uses, all of them in the functions at the end of this file:

- `ClientSession._x_mcp_header_maps`: parameters that go into HTTP headers. The SDK fills it when it lists tools
  itself; the gateway sets what that would have set.
- `FastMCP._mcp_server`: the SDK's server, on which FastMCP registers its handlers. A REST API's lists its tools by one
  of the gateway's.
- `_srctx` of a request's context, which FastMCP calls an escape hatch: the SDK's own context, which knows the method.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Final, Self, cast

import mcp_types
from fastmcp import Context, FastMCP
from mcp import ClientSession
from mcp.shared.dispatcher import coerce_request_id
from mcp.shared.jsonrpc_dispatcher import cancelled_request_id_from_params
from mcp.shared.message import SessionMessage
from mcp_types.methods import parse_server_notification
from mcp_types.version import LATEST_HANDSHAKE_VERSION
from pydantic import ValidationError
from pydantic_core import to_json

from codecall.fastmcp_errors import first_fault
from codecall.gateway.upstream.bounds.initialize_result import (
    INITIALIZE_METHODS,
    cut_initialize_result,
    find_initialize_excess,
)
from codecall.gateway.upstream.bounds.long_results import UnreadableResultError, attach_parts, detach_parts
from codecall.gateway.upstream.messages import (
    MAX_UNSOLICITED_BYTES,
    Throttle,
    count_values,
    is_lost,
    is_within_value_limit,
    shorten_error,
    unreadable_response,
)
from codecall.gateway.upstream.questions import MAX_QUESTIONS
from codecall.gateway.upstream.relay import CURRENT_CALL, MessageRouter

MAX_OPEN_REQUESTS: Final = 32
"""Requests of one server that may wait for answers of one caller, or of nobody knows whom; more are refused."""

MAX_OPEN_BY_ALL: Final = 128
"""The same of all callers together. Each request may have 4 MiB."""

MAX_QUESTION_VALUES: Final = 2_000
"""Values and names in one request of a server, or in the questions of one answer. The SDK takes up to 16 microseconds
for each, in one turn; a text is one value, however long, and a form that offers 250 countries has 1,300."""

MAX_STATE_CHARS: Final = 1024 * 1024
"""Characters of the state of an answer that asks, as JSON. Sealed, it comes back in the body of a request."""

_MESSAGES_PER_S: Final = 1000
"""Messages read of one server in a second that are no answers. What they cost is bounded by the transports."""

_VALUES_PER_MESSAGE: Final = 10
"""Values and names of a request that count as much as one message more."""

MAX_SENT_REQUESTS: Final = 10_000
"""Requests to one server of which is known that they were not answered; of more, those that calls wait for."""

_Item = SessionMessage | Exception
_RESPONSES: Final = (mcp_types.JSONRPCResponse, mcp_types.JSONRPCError)


class RelayingSession(ClientSession):
    """A session that hands whatever the server sends besides results to `router`.

    Args:
        read: messages of the server.
        write: messages to it.
        router: answers its requests and takes its notifications.
        on_close: called when no more messages come.
        options: as for `ClientSession`.
    """

    def __init__(
        self, read: Any, write: Any, *, router: MessageRouter, on_close: Callable[[], None], **options: Any
    ) -> None:
        callbacks: dict[str, Any] = {
            "sampling_callback": router.handle_sampling,
            "elicitation_callback": router.handle_elicitation,
            "list_roots_callback": router.handle_list_roots,
            "logging_callback": router.handle_log,
            "message_handler": router.handle_notification,
            # Which logs a client wants stands in its own requests.
            "log_level": None,
        }
        self.router = router
        writer = self._requests = _RequestWriter(write, router)
        reader = _BoundedReader(read, writer, router, on_close, lambda: self.protocol_version)
        super().__init__(cast("Any", reader), cast("Any", writer), **{**options, **callbacks})

    def awaits(self, request_id: mcp_types.RequestId | None) -> bool:
        """Whether the server has still to answer that request."""
        return request_id is not None and coerce_request_id(request_id) in self._requests.sent_requests

    def keep_result(self, request_id: mcp_types.RequestId, result: dict[str, Any]) -> bool:
        """Keep a result until the response to that request comes, whose own stands for it; whether it waits for one."""
        if awaited := self.awaits(request_id):
            self._requests.kept_results[coerce_request_id(request_id)] = result
        return awaited

    async def send_request(self, *arguments: Any, **options: Any) -> Any:
        """As `ClientSession.send_request`; of a long result, the rest of what `detach_parts` has read.

        Raises:
            UnreadableResultError: the result is not what MCP says.
        """
        try:
            result = await super().send_request(*arguments, **options)
        except ValidationError as failure:
            raise UnreadableResultError(first_fault(failure)) from None
        return attach_parts(result)

    async def list_tools(self, *, params: mcp_types.PaginatedRequestParams | None = None) -> mcp_types.ListToolsResult:
        """List the tools as the server does: those with an invalid `x-mcp-header` are left out, and logged together,
        where they have been counted."""
        return await self.send_request(mcp_types.ListToolsRequest(params=params), mcp_types.ListToolsResult)

    async def validate_tool_result(self, name: str, result: mcp_types.CallToolResult) -> None:
        """Do nothing: the result is checked where it is used."""


class _RequestWriter:
    """Writes messages to a server, and knows which of the server's own requests wait for an answer."""

    def __init__(self, stream: Any, router: MessageRouter) -> None:
        self.open_requests: dict[mcp_types.RequestId, str | None] = {}
        """With the caller who is asked, where the stream says so."""
        self.sent_requests: dict[mcp_types.RequestId, str] = {}
        """Requests to the server that it has not answered, and their methods."""
        self.kept_results: dict[mcp_types.RequestId, dict[str, Any]] = {}
        """Results that belong in responses to come."""
        self._answering: set[mcp_types.RequestId] = set()
        self._stream = stream
        self._router = router

    async def send(self, item: SessionMessage) -> None:
        message = item.message
        if isinstance(message, mcp_types.JSONRPCRequest):
            self._router.request_sent(message.id)
            if len(self.sent_requests) >= MAX_SENT_REQUESTS:  # of a server that does not answer
                for given_up in [each for each in self.sent_requests if not self._router.awaits(each)]:
                    del self.sent_requests[given_up]
                    self.kept_results.pop(given_up, None)
            self.sent_requests[coerce_request_id(message.id)] = message.method
        if isinstance(message, mcp_types.JSONRPCNotification) and message.method == "notifications/cancelled":
            self.kept_results.pop(coerce_request_id(cancelled_request_id_from_params(message.params) or ""), None)
        if not isinstance(message, _RESPONSES) or message.id is None:
            await self._stream.send(item)
            return
        request_id = coerce_request_id(message.id)
        self._answering.add(request_id)
        try:
            await self._stream.send(item)
        finally:
            self._answering.discard(request_id)
            self.open_requests.pop(request_id, None)

    async def refuse(self, request_id: mcp_types.RequestId, reason: str) -> None:
        """Answer a request that goes no further."""
        error = mcp_types.ErrorData(code=mcp_types.INVALID_REQUEST, message=f"Refused by the gateway: {reason}")
        await self._stream.send(SessionMessage(mcp_types.JSONRPCError(jsonrpc="2.0", id=request_id, error=error)))

    def cancel(self, request_id: mcp_types.RequestId) -> None:
        """The server wants no answer any more. One that is being written is written all the same."""
        if request_id not in self._answering:
            self.open_requests.pop(request_id, None)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stream.__aexit__(kind, value, trace)


class _BoundedReader:
    """Reads messages of a server: no faster, and no more of its requests at once, than is allowed. Calls `on_close`
    when it is read no more."""

    def __init__(
        self,
        stream: Any,
        writer: _RequestWriter,
        router: MessageRouter,
        on_close: Callable[[], None],
        version: Callable[[], str | None],
    ) -> None:
        self._stream = stream
        self._writer = writer
        self._router = router
        self._on_close = on_close
        self._version = version
        self._throttle = Throttle(_MESSAGES_PER_S)

    @property
    def last_context(self) -> Any:
        """The context of the sender of the last message, for streams that know it."""
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> _Item:
        while not await self._accept(item := await self._stream.receive()):
            pass
        return item

    async def _accept(self, item: _Item) -> bool:
        """Whether the session gets this message; a request that it does not get has been answered."""
        message = None if isinstance(item, Exception) else item.message
        if isinstance(message, mcp_types.JSONRPCError):
            shorten_error(message)
        if isinstance(message, _RESPONSES):
            cast("SessionMessage", item).message = await self._bounded(message)
            return True
        await self._throttle.wait()
        if isinstance(message, mcp_types.JSONRPCNotification):
            if not self._is_valid(message):
                self._router.notification_dropped(message.method)
                return False
            cancels = message.method == "notifications/cancelled"
            if cancels and (cancelled := cancelled_request_id_from_params(message.params)) is not None:
                self._writer.cancel(coerce_request_id(cancelled))
        elif isinstance(message, mcp_types.JSONRPCRequest):
            request_id = coerce_request_id(message.id)
            if request_id in self._writer.open_requests:
                await self._writer.refuse(message.id, "a request with this id waits for its answer")
                return False
            caller, waiting = self._caller(), list(self._writer.open_requests.values())
            own = waiting.count(caller)
            if own >= MAX_OPEN_REQUESTS or len(waiting) >= MAX_OPEN_BY_ALL:
                count = own if own >= MAX_OPEN_REQUESTS else len(waiting)
                await self._writer.refuse(message.id, f"{count} requests wait for their answers")
                return False
            data = to_json(message.params)
            if not is_within_value_limit(data, MAX_QUESTION_VALUES):
                await self._writer.refuse(message.id, f"it has more than {MAX_QUESTION_VALUES:,} values")
                return False
            await self._throttle.wait(count_values(data) // _VALUES_PER_MESSAGE)
            self._writer.open_requests[request_id] = caller
        return True

    def _caller(self) -> str | None:
        """Whom the last message concerns, if it came on the stream of a call."""
        call = None if self.last_context is None else self.last_context.get(CURRENT_CALL)
        return None if call is None else call.caller

    async def _bounded(
        self, message: mcp_types.JSONRPCResponse | mcp_types.JSONRPCError
    ) -> mcp_types.JSONRPCResponse | mcp_types.JSONRPCError:
        """The response that the session gets: without what it need not read; an error in place of one that asks too
        much."""
        response_id = None if message.id is None else coerce_request_id(message.id)
        if response_id is not None and not (isinstance(message, mcp_types.JSONRPCError) and is_lost(message.error)):
            self._router.response_received(response_id)
        method = None if response_id is None else self._writer.sent_requests.pop(response_id, None)
        if method is None:  # else an answer, which waits for nothing
            await self._throttle.wait()
            return message
        kept = self._writer.kept_results.pop(cast("mcp_types.RequestId", response_id), None)
        if isinstance(message, mcp_types.JSONRPCResponse):
            message.result = message.result if kept is None else kept
            is_initialize = method in INITIALIZE_METHODS
            excess = self._initialize_excess(message.result) if is_initialize else _excess_asked(message.result)
            if excess is not None:
                return unreadable_response(message.id, f"it has more than {excess}")
            if not is_initialize:
                await detach_parts(message.result, self._version())
        return message

    def _initialize_excess(self, result: dict[str, Any]) -> str | None:
        """Cut what the server says of itself; what it still has too much of, if it has."""
        if left_out := cut_initialize_result(result):
            self._router.initialize_result_cut(left_out)
        excess = self._router.initialize_excess = find_initialize_excess(result)
        return excess

    def _is_valid(self, message: mcp_types.JSONRPCNotification) -> bool:
        """Whether a notification is what MCP says; the SDK logs each that is not with a traceback."""
        try:
            read = parse_server_notification(
                message.method, self._version() or LATEST_HANDSHAKE_VERSION, message.params
            )
        except KeyError:  # not of this version: the SDK ignores it
            return True
        except ValidationError:
            return False
        if isinstance(read, mcp_types.ProgressNotification):  # JSON has no NaN and no infinity
            return math.isfinite(read.params.progress) and math.isfinite(read.params.total or 0)
        return True

    async def aclose(self) -> None:
        self._on_close()
        await self._stream.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> _Item:
        while not await self._accept(item := await self._stream.__anext__()):
            pass
        return item

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._on_close()
        await self._stream.__aexit__(kind, value, trace)


def _excess_asked(result: Mapping[str, Any]) -> str | None:
    """How much of what an answer may ask, if it asks more: `20 questions`. What the SDK refuses at once is none."""
    state, requests = result.get("requestState"), result.get("inputRequests")
    if isinstance(state, str) and (len(state) > MAX_STATE_CHARS or len(json.dumps(state)) > MAX_STATE_CHARS):
        return f"{MAX_STATE_CHARS // 2**20} MiB of state"
    if not isinstance(requests, dict):
        return None
    if len(cast("dict[str, object]", requests)) > MAX_QUESTIONS:
        return f"{MAX_QUESTIONS} questions"
    data = to_json(requests)
    if len(data) > MAX_UNSOLICITED_BYTES:
        return f"{MAX_UNSOLICITED_BYTES // 2**20} MiB of questions"
    return None if is_within_value_limit(data, MAX_QUESTION_VALUES) else f"{MAX_QUESTION_VALUES:,} values of questions"


def set_header_parameters(session: ClientSession, tool: str, headers: Mapping[Any, str]) -> None:
    """Have `session` send these parameters of a tool as HTTP headers too."""
    session._x_mcp_header_maps[tool] = cast("Any", headers)  # pyright: ignore[reportPrivateUsage]


def handle_requests(server: FastMCP[Any], method: str, params_type: type[Any], handler: Callable[..., Any]) -> None:
    """Have `handler` answer the requests of a method that come to `server`."""
    server._mcp_server.add_request_handler(method, params_type, handler)  # pyright: ignore[reportPrivateUsage]


def request_method(context: Context | None) -> str | None:
    """The method of the request that is being answered, such as `tools/list`; None outside of requests."""
    request = context.request_context if context is not None else None
    return getattr(getattr(request, "_srctx", None), "method", None)
