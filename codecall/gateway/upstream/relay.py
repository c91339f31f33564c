"""What a server sends besides answers, routed to the client it is for, or refused.

Over streamable HTTP what comes on the stream of a request belongs to the call that has made it. Elsewhere a server does
not say which call a log message or a request of its own belongs to: these pass only while all calls under way on the
connection belong to one caller, and count for each of the calls. Otherwise logs are dropped and requests refused: no
caller sees what is another's. A call that its caller has given up counts as under way until the server has answered it
or the connection ends: a server may go on with it, and ask, at any time.
"""

from __future__ import annotations

import asyncio
import contextvars
import json
import logging
import math
import weakref
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Final, TypeVar, cast

import anyio
import mcp_types
from fastmcp import Context
from mcp import ClientSession, MCPError
from mcp.client.session import ClientRequestContext, IncomingMessage
from mcp.server.session import ServerSession
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from codecall.calls.clock import ASK_CLIENT, OUTER_CLOCKS, stopped_in_slots
from codecall.gateway.upstream.errors import Refusal, cannot_ask_error, is_modern
from codecall.gateway.upstream.questions import (
    MAX_QUESTIONS,
    ask_client,
    check_permitted,
    named_questions,
    named_url_error,
    question_of,
    refusal,
)
from codecall.identity import client_key
from codecall.wording import join_names

T = TypeVar("T")

MAX_PENDING_LOGS: Final = 256
"""Log messages of one call that wait to be passed on; more are dropped, and counted in the gateway's own log."""

MAX_PENDING_CHARS: Final = 4 * 1024 * 1024
"""Characters of what waits with them; of progress beyond that, the message is dropped, and counted, too."""

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
        caller: who makes the request, see `share_key`.
        scope: the cancel scope that the call runs in; cancelled when its time is up.
        was_sent: whether something of it may have gone to the server.
        undelivered: what kept a message of it from being delivered.
        asked: how often its client has been asked.
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
        self.caller: str | None = None
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
        self._questions: set[_OpenQuestion] = set()
        self.asked = 0
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
                raise refusal(f"the server asked {MAX_ROUNDS} times and did not answer")
            requests = (result.input_requests or {}).items()
            answers = {key: await self.ask(ask_client(context, self._server, request)) for key, request in requests}
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
        if not self._questions:
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

    async def ask(self, question: Coroutine[Any, Any, T], others: Sequence[InFlightCall] = ()) -> T:
        """Wait for the client's answer to `question`; the call's time stands still meanwhile.

        Args:
            question: asks the client on behalf of this call.
            others: calls of the same client that may be the one that asks, too. Their times stand still as well, and
                the question is open until all have ended.

        Raises:
            MCPError: the client refused, the calls ended before it answered, or the server asks too often.
        """
        if (count := self.asked + 1) > MAX_QUESTIONS:
            question.close()
            raise refusal(f"the server has asked {MAX_QUESTIONS} times in this call")
        self.asked = count
        task = asyncio.create_task(question, context=self._variables)
        opened = _OpenQuestion(task)
        try:
            opened.add(self)
            for call in others:
                # What this one is asked through stops the clocks of its own script.
                opened.add(call).enter_context(stopped_in_slots(call.variable(OUTER_CLOCKS) or ()))
            await asyncio.wait({task})
        finally:
            task.cancel()
            for call in list(opened.calls):
                call.end_question(opened)
        if task.cancelled():
            raise refusal("the calls that it may belong to have ended" if others else "the call has ended")
        return task.result()

    def begin_question(self, question: _OpenQuestion) -> None:
        """Stop the call's time while a question is open that may be its own."""
        self._questions.add(question)
        self.scope.deadline = math.inf

    def end_question(self, question: _OpenQuestion) -> None:
        """Have the call's time go on, unless another question is open."""
        question.calls.pop(self).close()
        self._questions.discard(question)
        if not self._questions:
            self.scope.deadline = asyncio.get_running_loop().time() + self._timeout_s

    async def is_disconnected(self) -> bool:
        """Whether the client has closed the HTTP connection of its request, on which it would be asked."""
        request_context = self._variables.run(getattr, self.context, "request_context", None)
        request: Any = getattr(request_context, "request", None)
        try:
            return request is not None and await request.is_disconnected()
        except Exception:  # middleware may give it a meaning of its own
            return False

    def variable(self, variable: contextvars.ContextVar[T]) -> T | None:
        """What a variable is in the client's request."""
        return self._variables.get(variable)

    async def drain(self) -> None:
        """Wait until what the server sent before its answer has been passed on, for a second at most."""
        if self._forwarding is not None:
            await asyncio.wait({self._forwarding}, timeout=_DRAIN_S)

    def close(self) -> None:
        """End the call: nothing more is passed on or asked."""
        for task in self._tasks:
            task.cancel()
        for question in list(self._questions):
            self.end_question(question)
            if not question.calls:
                question.task.cancel()
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


class _OpenQuestion:
    """A question that waits for the client's answer, and the calls that it may belong to."""

    def __init__(self, task: asyncio.Task[Any]) -> None:
        self.task = task
        self.calls: dict[InFlightCall, ExitStack] = {}
        """Each with what ends once the question is not its own any more."""

    def add(self, call: InFlightCall) -> ExitStack:
        """Note that it may belong to a call; what is entered lasts while that is so."""
        stack = self.calls[call] = ExitStack()
        call.begin_question(self)
        return stack


CURRENT_CALL: Final[contextvars.ContextVar[InFlightCall | None]] = contextvars.ContextVar(
    "codecall_underway", default=None
)
"""The call that is being made. What comes on a stream is handled with the variables of whoever has opened it: over
streamable HTTP, of the call whose request is answered there."""


_REQUEST_KEYS: Final = weakref.WeakKeyDictionary[ServerSession, object]()
"""What stands for a request of 2026-07-28 once it has ended: its session has the whole body, and its id() is reused."""


def _call_owner(context: Context) -> Hashable | None:
    if context.request_context is None:
        return None
    if context.session.protocol_version in MODERN_PROTOCOL_VERSIONS:
        return _REQUEST_KEYS.setdefault(context.session, object())
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


MAX_TOOLS_SHOWN: Final = 3
"""Tools that a person is shown of which one asks; more are counted."""

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
        """Pass a log message on, if it is known whose it is."""
        if calls := self._possible_calls():
            calls[0].log(params)

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
        try:
            check_permitted(request, self._server, sampling=self._sampling)
            calls = self._possible_calls()
            if not calls:
                what = question_of(request).what
                if CURRENT_CALL.get() is not None:
                    raise refusal(f"the gateway cannot ask for {what}: no call that it belongs to is under way")
                of = "several clients" if self.calls else "no client"
                apart = "; `per_client` keeps clients apart" if self.calls else ""
                raise refusal(f"the gateway cannot ask for {what} while calls of {of} are under way{apart}")
            self._logger.debug("asks the client %s", request.method)
            return await self._ask_for(calls, request)
        except MCPError as refused:
            return refused.error

    async def _ask_for(self, calls: Sequence[InFlightCall], request: mcp_types.InputRequest) -> Any:
        """Ask the client whose calls these are, one of which the question belongs to."""
        gone = {call for call in calls if len(calls) > 1 and await call.is_disconnected()}
        calls = [call for call in calls if call in self.calls]
        if not calls:
            raise refusal("the calls that it may belong to have ended")
        first = min(calls, key=lambda call: (call in gone, call.asked))
        asks = (call.variable(ASK_CLIENT) for call in calls)
        tools = sorted({"another call" if ask is None else ask.tool for ask in asks})
        by = f"one of: {join_names(tools, MAX_TOOLS_SHOWN)}" if len(tools) > 1 else ""
        question = ask_client(cast("Context", first.context), self._server, request, by)
        return await first.ask(question, [call for call in calls if call is not first])

    def _possible_calls(self) -> list[InFlightCall]:
        """The calls that a message may belong to which is being handled, in the order in which they began; none where
        they are of several callers."""
        if (known := CURRENT_CALL.get()) is not None:
            return [known] if known in self.calls and known.context is not None else []
        self._expire()
        owners = {call.owner for call in self.calls} | {entry.owner for entry in self._lingering}
        return list(self.calls) if len(owners) == 1 and None not in owners else []

    def _expire(self) -> None:
        now = asyncio.get_running_loop().time()
        self._lingering = [entry for entry in self._lingering if entry.deadline > now]
