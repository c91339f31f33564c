"""Asking on connections of 2026-07-28, where a server asks by answering: `InputRequiredResult` with its questions.

A call of a meta-tool runs in a task of its own, and a request waits for it. When the call has questions, the request is
answered with them, and the call waits in place, with its worker. The client makes the request again with the answers;
that request finds the call by its state, and waits for it in turn.

A state is random and used once. It says nothing, and is worth nothing to another caller or with other arguments.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final

from fastmcp import Context
from fastmcp.exceptions import ValidationError
from fastmcp.tools.base import InputRequiredToolResult, ToolResult
from mcp_types import (
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequest,
    InputRequiredResult,
)

from codecall.concurrency import abandon
from codecall.identity import client_key
from codecall.jsonio.decode import canonical_digest_async

KEPT_S: Final = 60.0
"""Seconds for which the answer of a call is kept that has ended while no request waited for it."""

MAX_KEPT: Final = 1_000
"""Most calls of a server that no request waits for; the one that has been so for longest is cancelled."""

_SETTLED_TURNS: Final = 5
"""Turns of the event loop without a further question after which those that there are make up the list."""


class RoundTripChannel:
    """A `Channel` whose questions become the answer of a request. All that are open are asked together."""

    batches = True

    def __init__(self) -> None:
        self.open: dict[str, tuple[InputRequest, asyncio.Future[object]]] = {}
        """The open questions, by the names that their answers have."""
        self.asked = asyncio.Event()
        """Set when there are questions."""
        self._count = 0

    async def elicit(self, message: str, schema: Mapping[str, Any]) -> ElicitResult:
        """See `Channel`."""
        form = ElicitRequestFormParams(message=message, requested_schema=dict(schema))
        answer = await self.ask(ElicitRequest(params=form))
        return answer if isinstance(answer, ElicitResult) else ElicitResult(action="cancel")

    async def ask(self, request: InputRequest) -> object:
        """See `Channel`."""
        self._count += 1
        name = f"question-{self._count}"
        answer: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        self.open[name] = request, answer
        self.asked.set()
        try:
            return await answer
        finally:
            self.open.pop(name, None)
            if not self.open:
                self.asked.clear()

    def answer(self, responses: Mapping[str, object]) -> None:
        """Take the answers that a request has brought. A question that has none stays open."""
        for name, (_, answer) in list(self.open.items()):
            if name not in responses or answer.done():
                continue
            answer.set_result(responses[name])
            del self.open[name]
        if not self.open:
            self.asked.clear()

    async def settle(self) -> None:
        """Wait until no further question comes at once."""
        quiet = count = 0
        while quiet < _SETTLED_TURNS:
            await asyncio.sleep(0)
            quiet, count = (quiet + 1, count) if len(self.open) == count else (0, len(self.open))

    def questions(self) -> dict[str, InputRequest]:
        """The open questions, as the client gets them."""
        return {name: request for name, (request, _) in self.open.items()}


CHANNEL: Final[ContextVar[RoundTripChannel | None]] = ContextVar("codecall_round_trips", default=None)
"""The channel of the call that this task belongs to."""


@dataclass(slots=True, eq=False)
class WaitingCall:
    """A call of a meta-tool that outlives its request."""

    caller: str
    request: str
    """A digest of the name and the arguments, which are the same in each of its requests."""
    channel: RoundTripChannel
    task: asyncio.Task[ToolResult]
    state: str = ""
    """By which the next request finds it."""


class RoundTrips:
    """The calls of a server that wait for requests with answers, by their state."""

    def __init__(self) -> None:
        self._waiting: dict[str, WaitingCall] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    async def respond(
        self, context: Context, name: str, arguments: Mapping[str, object], start: Callable[[], Awaitable[ToolResult]]
    ) -> ToolResult:
        """Answer a request: begin the call, or go on with the one that its state names.

        Args:
            context: FastMCP's context of the request.
            name: Name of the meta-tool.
            arguments: Its arguments.
            start: Performs the call; runs in a task of its own.

        Raises:
            ValidationError: no call of this caller with these arguments waits under the state.
        """
        caller = client_key(context)
        digest = await canonical_digest_async(json.dumps([name, arguments]))
        state = context.request_state
        if state is None:
            channel = RoundTripChannel()
            call = WaitingCall(caller, digest, channel, asyncio.create_task(_within(channel, start)))
        else:
            found = self._waiting.get(state)
            if found is None or (found.caller, found.request) != (caller, digest):
                raise ValidationError(
                    f"{name}: requestState: no such call of yours waits for an answer; it may have ended. Nothing was "
                    "run: call the tool again without requestState"
                )
            call = self._waiting.pop(state)
            call.channel.answer(context.input_responses or {})
        return await self._answer(call)

    async def flush(self) -> None:
        """Cancel all calls that wait: the server ends."""
        calls = list(self._waiting.values())
        self._waiting.clear()
        for call in calls:
            call.task.cancel()
        if calls:
            await asyncio.wait([call.task for call in calls], timeout=1.0)

    async def _answer(self, call: WaitingCall) -> ToolResult:
        while not (call.task.done() or call.channel.open):
            asked = asyncio.create_task(call.channel.asked.wait())
            try:
                await asyncio.wait({call.task, asked}, return_when=asyncio.FIRST_COMPLETED)
                await call.channel.settle()
            except asyncio.CancelledError:
                abandon(call.task)
                raise
            finally:
                asked.cancel()
        if call.task.done():
            return call.task.result()
        self._keep(call)
        return InputRequiredToolResult(
            InputRequiredResult(input_requests=dict(call.channel.questions()), request_state=call.state)
        )

    def _keep(self, call: WaitingCall) -> None:
        if len(self._waiting) >= MAX_KEPT:
            abandon(self._waiting.pop(next(iter(self._waiting))).task)
        call.state = state = secrets.token_urlsafe(32)
        self._waiting[state] = call
        loop = asyncio.get_running_loop()

        def forget() -> None:
            if self._waiting.get(state) is call:
                del self._waiting[state]
                abandon(call.task)

        # Its own questions run out of time; what it says then is kept for a client that comes late.
        call.task.add_done_callback(lambda _: loop.call_later(KEPT_S, forget))


async def _within(channel: RoundTripChannel, start: Callable[[], Awaitable[ToolResult]]) -> ToolResult:
    CHANNEL.set(channel)
    return await start()
