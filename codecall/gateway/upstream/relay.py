"""What a server sends besides answers, routed to the client it is for, or refused.

A server does not say which call a log message or a request of its own belongs to. So these pass only while all calls
under way on the connection belong to one caller. Otherwise logs are dropped and requests refused: no caller sees what
is another's. A call that its caller has given up counts as under way until the server has answered it or the connection
ends: a server may go on with it, and ask, at any time.
"""

from __future__ import annotations

import asyncio
import contextvars
import json
import logging
import math
import uuid
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeVar, cast

import anyio
import mcp_types
from fastmcp import Context
from mcp import ClientSession, MCPError, UrlElicitationRequiredError
from mcp.client.session import ClientRequestContext, IncomingMessage
from mcp.shared.message import ServerMessageMetadata
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from codecall.errors import InputRequiredError
from codecall.gateway.upstream.addresses import check_url
from codecall.gateway.upstream.errors import Refusal, cannot_ask_error, is_modern
from codecall.identity import client_key
from codecall.redaction.questions import HiddenTextError, check_size, quoted, visible_form
from codecall.sandbox.interfaces import ASK_CLIENT

T = TypeVar("T")

MAX_PENDING_LOGS: Final = 256
"""Log messages of one call that wait to be passed on; more are dropped, and counted in the gateway's own log."""

MAX_PENDING_CHARS: Final = 4 * 1024 * 1024
"""Characters of what waits with them; of progress beyond that, the message is dropped, and counted, too."""

MAX_QUESTIONS: Final = 20
"""Most questions of a server during one call."""

MAX_ROUNDS: Final = 10
"""How often a server may answer one request with questions; the MCP SDK's clients allow as many."""

ROUND_PAUSE_S: Final = 0.25
"""Seconds until a request is made again to a server that asked for that, and for nothing else; the SDK's longest."""

_DRAIN_S: Final = 1.0
"""Seconds the answer of a call waits for what the server sent before it."""

_Progress = tuple[float, float | None, str | None]
_Log = mcp_types.LoggingMessageNotificationParams


class InFlightCall:
    """One call under way, made on behalf of a client's request, or of the gateway itself.

    Args:
        session: with the server.
        context: FastMCP's context of the request; None: the gateway's own call.
        timeout_s: seconds it may take without a progress notification.
        logger: of the server.
        server: its name.
        sampling: whether it may use clients' models.
        is_program: whether it is a program, which is started.

    Attributes:
        scope: the cancel scope that the call runs in; cancelled when its time is up.
        was_sent: whether something of it may have gone to the server.
        undelivered: what kept a message of it from being delivered.
        refusal: the HTTP status that the server has answered a message of it with, and what that means.
    """

    def __init__(
        self,
        session: ClientSession,
        context: Context | None,
        timeout_s: float,
        logger: logging.Logger,
        server: str,
        *,
        sampling: bool = False,
        is_program: bool = False,
    ) -> None:
        self.session = session
        self._is_program = is_program
        self.was_sent = False
        self.undelivered: str | None = None
        self.refusal: Refusal | None = None
        self._sampling = sampling
        self.context = context
        self.scope = anyio.CancelScope(deadline=asyncio.get_running_loop().time() + timeout_s)
        # What is done for the client is done with the variables of its request: FastMCP finds the request there.
        self._variables = contextvars.copy_context()
        self._timeout_s = timeout_s
        self._logger = logger
        self._server = server
        self._owner: Hashable | None = None
        self._open_questions = 0
        self._asked = 0
        self._pending: deque[_Progress | str] = deque()
        """Progress, and log messages as JSON: an object may take many times the memory of its text."""
        self._dropped_logs = self._dropped_messages = 0
        self._forwarding: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[Any]] = set()

    async def run(self, send: Callable[[mcp_types.InputResponses | None, str | None], Awaitable[T]]) -> T:
        """Make a request of the client's, and see to what a server of 2026-07-28 asks in its answer to it.

        A client of that version is handed the questions. One of the handshake era is asked here, and the request is
        made again with what it answers.

        Args:
            send: makes the request, with answers to the server's questions and the state it sent with them.

        Raises:
            MCPError: the client does not answer, or the server asks more than `MAX_ROUNDS` times.
            InputRequiredError: the server wants to ask while the call is under way, and cannot.
        """
        context = self.context
        answers: mcp_types.InputResponses | None = None
        state: str | None = None
        if context is not None and is_modern(self.session):
            answers, state = context.input_responses, context.request_state
        result, rounds = self._permitted(await self._sent(send(answers, state))), 0
        if context is None or context.session.protocol_version in MODERN_PROTOCOL_VERSIONS:
            return self._named(result)
        while isinstance(result, mcp_types.InputRequiredResult):
            if (rounds := rounds + 1) > MAX_ROUNDS:
                raise _refusal(f"the server asked {MAX_ROUNDS} times and did not answer")
            requests = (result.input_requests or {}).items()
            answers = {key: await self.ask(_ask_client(context, self._server, request)) for key, request in requests}
            if not answers:
                await anyio.sleep(ROUND_PAUSE_S)
            result = self._permitted(await self._sent(send(answers or None, result.request_state)))
        return result

    async def _sent(self, request: Awaitable[T]) -> T:
        """The result of a request. An error that sends a person to URLs has them checked, as questions are."""
        try:
            result = await request
        except MCPError as failure:
            error = failure.error
            if error.code != mcp_types.URL_ELICITATION_REQUIRED:
                self._check_asked(error.message)
                raise
        else:
            if isinstance(result, mcp_types.CallToolResult) and result.is_error:
                self._check_asked(*(block.text for block in result.content if isinstance(block, mcp_types.TextContent)))
            return result
        raise named_url_error(self._server, error)

    def _check_asked(self, *texts: str) -> None:
        """Raise the error of a server that says it cannot ask while a call is under way, and tell the operator."""
        if not is_modern(self.session):
            return
        if (error := cannot_ask_error(self._server, "\n".join(texts), is_program=self._is_program)) is not None:
            self._logger.warning("%s. %s", error.message, error.hint)
            raise error from None

    def _permitted(self, result: T) -> T:
        """The result of a request, if the server may ask what it asks in it."""
        if isinstance(result, mcp_types.InputRequiredResult):
            for request in (result.input_requests or {}).values():
                check_permitted(request, self._server, sampling=self._sampling)
        return result

    def _named(self, result: T) -> T:
        """The result of a request whose questions go to the client; those of a script are named by its gate."""
        if not isinstance(result, mcp_types.InputRequiredResult) or ASK_CLIENT.get() is not None:
            return result
        requests = result.input_requests or {}
        named = named_questions(self._server, list(requests.values()))
        return cast("T", result.model_copy(update={"input_requests": dict(zip(requests, named, strict=True))}))

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Give the call its whole time again, and pass the progress on. Of several that wait, only the last is passed
        on."""
        if not self._open_questions:
            self.scope.deadline = asyncio.get_running_loop().time() + self._timeout_s
        if self._pending and isinstance(self._pending[-1], tuple):
            self._pending.pop()
        if not self._has_room(message or ""):
            message = None
            self._dropped_messages += 1
        self._enqueue((progress, total, message))

    def log(self, params: _Log) -> None:
        """Pass a log message on, if the client asked for such."""
        message = params.model_dump_json(include={"level", "logger", "data"})
        if len(self._pending) < MAX_PENDING_LOGS and self._has_room(message):
            self._enqueue(message)
        else:
            self._dropped_logs += 1

    async def ask(self, question: Coroutine[Any, Any, T]) -> T:
        """Wait for the client's answer to `question`; the call's time stands still meanwhile.

        Raises:
            MCPError: the client refused, the call ended before it answered, or the server asks too often.
        """
        if (count := self._asked + 1) > MAX_QUESTIONS:
            question.close()
            raise _refusal(f"the server has asked {MAX_QUESTIONS} times in this call")
        self._asked = count
        self._open_questions += 1
        self.scope.deadline = math.inf
        task = self._start_task(question)
        try:
            await asyncio.wait({task})
        finally:
            task.cancel()
            self._open_questions -= 1
            if not self._open_questions:
                self.scope.deadline = asyncio.get_running_loop().time() + self._timeout_s
        if task.cancelled():
            raise MCPError(code=mcp_types.INVALID_REQUEST, message="Refused by the gateway: the call has ended")
        return task.result()

    async def drain(self) -> None:
        """Wait until what the server sent before its answer has been passed on, for a second at most."""
        if self._forwarding is not None:
            await asyncio.wait({self._forwarding}, timeout=_DRAIN_S)

    def close(self) -> None:
        """End the call: nothing more is passed on or asked."""
        for task in self._tasks:
            task.cancel()
        if self._dropped_logs or self._dropped_messages:
            self._logger.warning(
                "%d log messages and the texts of %d progress notifications were left out: the client reads too slowly",
                self._dropped_logs,
                self._dropped_messages,
            )

    def refuse(self, refusal: Refusal) -> None:
        """End the call: the server has refused it, and sends no answer."""
        self.refusal = refusal
        self.scope.cancel()

    @property
    def owner(self) -> Hashable | None:
        """The caller: the client's session on handshake-era connections, the request on others; None: the gateway."""
        if self._owner is None and self.context is not None:
            self._owner = self._variables.run(_call_owner, self.context)
        return self._owner

    def _has_room(self, text: str) -> bool:
        waiting = sum(len(each if isinstance(each, str) else each[2] or "") for each in self._pending)
        return not waiting or waiting + len(text) <= MAX_PENDING_CHARS

    def _enqueue(self, message: _Progress | str) -> None:
        if self.context is None:
            return
        self._pending.append(message)
        if self._forwarding is None or self._forwarding.done():
            self._forwarding = self._start_task(self._forward_pending(self.context))

    async def _forward_pending(self, context: Context) -> None:
        while self._pending:
            message = self._pending.popleft()
            try:
                if isinstance(message, tuple):
                    await context.report_progress(*message)
                else:
                    params = _Log.model_validate_json(message)
                    text, extra = _log_text(params.data)
                    await context.log(text, level=params.level, logger_name=params.logger, extra=extra)
            except Exception as failure:
                # The client has gone, or takes no such thing; the call itself will show.
                self._logger.debug("a notification could not be passed on (%s)", type(failure).__name__)

    def _start_task(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.create_task(work, context=self._variables)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


CURRENT_CALL: Final[contextvars.ContextVar[InFlightCall | None]] = contextvars.ContextVar(
    "codecall_underway", default=None
)
"""The call that is being made."""


def _call_owner(context: Context) -> Hashable | None:
    if context.request_context is None:
        return None
    if context.session.protocol_version in MODERN_PROTOCOL_VERSIONS:
        return context.session
    return client_key(context), context.session_id


def _log_text(data: object) -> tuple[str, dict[str, Any] | None]:
    """The text and the extra fields of a log message. FastMCP sends `{"msg": …, "extra": …}`; other servers send
    anything, which is passed on as text."""
    if isinstance(data, dict):
        fields = cast("dict[str, Any]", data)
        if isinstance(message := fields.get("msg"), str):
            extra = fields.get("extra")
            return message, cast("dict[str, Any]", extra) if isinstance(extra, dict) else None
    return data if isinstance(data, str) else json.dumps(data), None


MAX_LINGERING: Final = 100
"""Callers of which it is remembered that their calls have not been answered; the calls of any more are nobody's."""

_ECHO_S: Final = 1.0
"""Seconds after its answer in which what the server sent before it is still being handled."""

_CHANGES: Final[dict[type, str]] = {
    mcp_types.ToolListChangedNotification: "tools",
    mcp_types.ResourceListChangedNotification: "resources",
    mcp_types.PromptListChangedNotification: "prompts",
}


@dataclass(eq=False)
class _LingeringCalls:
    """Calls of one caller that have ended for the caller, and not for the server."""

    owner: Hashable | None
    unanswered: set[mcp_types.RequestId]
    deadline: float = math.inf
    """By the event loop's clock; known once all are answered."""


class MessageRouter:
    """Knows the calls under way on one connection, and routes what the server sends besides answers.

    Args:
        server: its name.
        logger: of the server.
        on_change: called with "tools", "resources" or "prompts" when the server says that they have changed.
        sampling: whether the server may use clients' models.
    """

    def __init__(
        self, server: str, logger: logging.Logger, on_change: Callable[[str], None], *, sampling: bool = False
    ) -> None:
        self._sampling = sampling
        self.calls: dict[InFlightCall, None] = {}
        """In the order in which they began."""
        self.initialize_excess: str | None = None
        """What the server's first answer had too much of, if it was not read for that."""
        self._server = server
        self._logger = logger
        self._on_change = on_change
        self._unanswered: dict[mcp_types.RequestId, InFlightCall] = {}
        self._lingering: list[_LingeringCalls] = []
        self._invalid = 0

    def request_sent(self, request_id: mcp_types.RequestId) -> None:
        """Note that a request goes to the server, in the course of a call or of none."""
        call = CURRENT_CALL.get()
        if call is not None and call in self.calls:
            self._unanswered[request_id] = call

    def response_received(self, request_id: mcp_types.RequestId) -> None:
        """Note that the server has answered a request."""
        self._unanswered.pop(request_id, None)
        now = asyncio.get_running_loop().time()
        for entry in self._lingering:
            if request_id in entry.unanswered:
                entry.unanswered.discard(request_id)
                entry.deadline = math.inf if entry.unanswered else now + _ECHO_S

    def awaits(self, request_id: mcp_types.RequestId) -> bool:
        """Whether a call under way waits for the server's answer to a request."""
        return request_id in self._unanswered

    def end_call(self, call: InFlightCall, *, may_linger: bool) -> None:
        """Note that a call has ended for its caller.

        Args:
            call: the call.
            may_linger: whether the server may go on with what it has not answered.
        """
        self.calls.pop(call, None)
        unanswered = {request_id for request_id, sender in self._unanswered.items() if sender is call}
        for request_id in unanswered:
            del self._unanswered[request_id]
        if not unanswered or not may_linger:
            return
        self._expire()
        by_owner = {entry.owner: entry for entry in self._lingering}
        owner = call.owner if call.owner in by_owner or len(by_owner) < MAX_LINGERING else None
        if (entry := by_owner.get(owner)) is None:
            self._lingering.append(_LingeringCalls(owner, unanswered))
        else:
            entry.unanswered |= unanswered
            entry.deadline = math.inf

    def has_others(self, call: InFlightCall | None) -> bool:
        """Whether calls are under way besides this one, which the end of the connection would end, too."""
        return any(each is not call for each in self.calls)

    def notification_dropped(self, method: str) -> None:
        """Note that a notification of the server is not what MCP says; log it the first time, the second, the fourth
        and so on."""
        self._invalid += 1
        if self._invalid & (self._invalid - 1) == 0:
            self._logger.warning("%d invalid notifications were left out, the last a %r", self._invalid, method)

    def initialize_result_cut(self, left_out: Sequence[str]) -> None:
        """Note what was left out of what the server says of itself."""
        self._logger.warning("of what it says of itself was left out: %s", ", ".join(left_out))

    async def handle_notification(self, message: IncomingMessage) -> None:
        """Report a notification of the server that a list has changed; ignore others."""
        if (what := _CHANGES.get(type(message))) is not None:
            self._on_change(what)

    async def handle_log(self, params: mcp_types.LoggingMessageNotificationParams) -> None:
        """Pass a log message on, if there is one caller alone."""
        if (call := self._only_call()) is not None:
            call.log(params)

    async def handle_sampling(
        self, _context: ClientRequestContext, params: mcp_types.CreateMessageRequestParams
    ) -> mcp_types.CreateMessageResult | mcp_types.CreateMessageResultWithTools | mcp_types.ErrorData:
        """Answer a request for the client's model."""
        return await self._ask(mcp_types.CreateMessageRequest(params=params))

    async def handle_elicitation(
        self, _context: ClientRequestContext, params: mcp_types.ElicitRequestParams
    ) -> mcp_types.ElicitResult | mcp_types.ErrorData:
        """Answer a request for a person's input."""
        return await self._ask(mcp_types.ElicitRequest(params=params))

    async def handle_list_roots(
        self, _context: ClientRequestContext
    ) -> mcp_types.ListRootsResult | mcp_types.ErrorData:
        """Answer a request for the client's folders."""
        return await self._ask(mcp_types.ListRootsRequest())

    async def _ask(self, request: mcp_types.InputRequest) -> Any:
        call = self._only_call()
        try:
            check_permitted(request, self._server, sampling=self._sampling)
            if call is None or call.context is None:
                what = _question(request).what
                of = "several clients" if self.calls or self._lingering else "no client"
                apart = "; `per_client` keeps clients apart" if self.calls else ""
                raise _refusal(f"the gateway cannot ask for {what} while calls of {of} are under way{apart}")
            self._logger.debug("asks the client %s", request.method)
            return await call.ask(_ask_client(call.context, self._server, request))
        except MCPError as refusal:
            return refusal.error

    def _only_call(self) -> InFlightCall | None:
        """The first of the calls under way, if all have one caller: mostly it is the long one that asks."""
        self._expire()
        first = next(iter(self.calls), None)
        if first is None or any(call.owner is None or call.owner != first.owner for call in self.calls):
            return None
        return None if any(entry.owner != first.owner for entry in self._lingering) else first

    def _expire(self) -> None:
        now = asyncio.get_running_loop().time()
        self._lingering = [entry for entry in self._lingering if entry.deadline > now]


class _Question(NamedTuple):
    """What a server may ask a client."""

    what: str
    capabilities: mcp_types.ClientCapabilities
    """What the client has to offer for it."""
    answer: type[mcp_types.ClientResult]


def _question(request: mcp_types.InputRequest) -> _Question:
    match request:
        case mcp_types.CreateMessageRequest(params=params):
            with_tools = params.tools is not None or params.tool_choice is not None
            tools = mcp_types.SamplingToolsCapability() if with_tools else None
            capabilities = mcp_types.ClientCapabilities(sampling=mcp_types.SamplingCapability(tools=tools))
            answer = mcp_types.CreateMessageResultWithTools if with_tools else mcp_types.CreateMessageResult
            return _Question("its model", capabilities, answer)
        case mcp_types.ElicitRequest():
            capabilities = mcp_types.ClientCapabilities(elicitation=mcp_types.ElicitationCapability())
            return _Question("a person's input", capabilities, mcp_types.ElicitResult)
        case mcp_types.ListRootsRequest():
            capabilities = mcp_types.ClientCapabilities(roots=mcp_types.RootsCapability())
            return _Question("its roots", capabilities, mcp_types.ListRootsResult)


async def _ask_client(context: Context, server: str, request: mcp_types.InputRequest) -> Any:
    """Ask the client whose request this is. Runs with that request's variables."""
    what, capabilities, answer = _question(request)
    modern = context.session.protocol_version in MODERN_PROTOCOL_VERSIONS
    if (ask := ASK_CLIENT.get()) is not None:
        try:
            reply = await ask(request)
        except InputRequiredError as refused:
            raise _refusal(refused.message) from None
        if isinstance(reply, answer):
            return reply
        if not modern:
            raise _refusal(f"the client cannot be asked for {what}: it does not offer it, or has not answered")
    if modern:
        raise _refusal(
            f"the client cannot be asked for {what}: it speaks MCP {context.session.protocol_version}, in which only a "
            "server of that version can ask"
        )
    if not context.session.check_client_capability(capabilities):
        raise _refusal(f"the client cannot be asked for {what}: it does not offer it")
    (request,) = named_questions(server, [request])
    if isinstance(params := request.params, mcp_types.ElicitRequestURLParams) and params.elicitation_id is None:
        # It has none on 2026-07-28, and needs one before.
        request = mcp_types.ElicitRequest(params=params.model_copy(update={"elicitation_id": uuid.uuid4().hex}))
    related = ServerMessageMetadata(related_request_id=context.request_id)
    return await context.session.send_request(request, answer, metadata=related)


def named_questions(server: str, requests: Sequence[mcp_types.InputRequest]) -> list[mcp_types.InputRequest]:
    """Questions of one message, those to a person with the name of their server before them: whoever is asked for a
    password knows who asks.

    Raises:
        MCPError: a part of one cannot be seen, a URL is none that a person can be sent to, or they are too long
            together.
    """
    to_person = [request.params for request in requests if isinstance(request, mcp_types.ElicitRequest)]
    try:
        check_size(*((params.message, _form_or_url(params)) for params in to_person))
        return [_named_question(server, request) for request in requests]
    except HiddenTextError as refused:
        raise _refusal(str(refused)) from None


def _form_or_url(params: mcp_types.ElicitRequestParams) -> object:
    return params.requested_schema if isinstance(params, mcp_types.ElicitRequestFormParams) else params.url


def _named_question(server: str, request: mcp_types.InputRequest) -> mcp_types.InputRequest:
    if not isinstance(request, mcp_types.ElicitRequest):
        return request
    params, changes = request.params, dict[str, object]()
    if isinstance(params, mcp_types.ElicitRequestFormParams):
        changes["requested_schema"] = visible_form(params.requested_schema)
    else:
        check_url(params.url)
    changes["message"] = f"[{server}] {quoted(params.message).lstrip(' ')}"
    return mcp_types.ElicitRequest(params=params.model_copy(update=changes))


def named_url_error(server: str, error: mcp_types.ErrorData) -> MCPError:
    """The error of a server that wants a person to visit URLs first, its questions as `named_questions` has them.

    Raises:
        MCPError: as `named_questions`, or they are too many, or cannot be read.
    """
    try:
        listed = cast("dict[str, list[object]]", error.data or {}).get("elicitations", [])
        if len(listed) > MAX_QUESTIONS:
            raise _refusal(f"the server sends a person to more than {MAX_QUESTIONS} URLs at once")
        asked = UrlElicitationRequiredError.from_error(error).elicitations
    except (ValueError, TypeError, AttributeError):
        raise _refusal("the server sends a person to URLs in a way that cannot be read") from None
    named = [each.params for each in named_questions(server, [mcp_types.ElicitRequest(params=each) for each in asked])]
    return UrlElicitationRequiredError(cast("list[mcp_types.ElicitRequestURLParams]", named), error.message)


def check_permitted(request: mcp_types.InputRequest, server: str, *, sampling: bool) -> None:
    """Refuse what a server may not ask of clients.

    Raises:
        MCPError: it may not.
    """
    if isinstance(request, mcp_types.CreateMessageRequest) and not sampling:
        raise _refusal(f"server {server!r} may not use the client's model; `sampling = true` in its options allows it")


def _refusal(reason: str) -> MCPError:
    return MCPError(code=mcp_types.INVALID_REQUEST, message=f"Refused by the gateway: {reason}")
