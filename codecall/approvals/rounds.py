"""Asking on connections of 2026-07-28, where a server asks by answering: `InputRequiredResult` with its questions.

A call of a meta-tool or a composite tool runs in a task of its own, and a request waits for it. When the call has
questions, the request is answered with them, and the call waits in place, with its worker if it has one. The client
makes the request again with the answers; that request finds the call by its state, and waits for it in turn.

A state is random and used once. It says nothing, and is worth nothing to another caller or with other arguments.

A request may reach an instance where no such call waits. `handover.py` has what that instance needs: it runs the script
from its record as far as it had come, and goes on from there with the answers.
"""

from __future__ import annotations

import asyncio
import contextvars
import json
import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

from fastmcp import Context
from fastmcp.exceptions import ToolError, ValidationError
from fastmcp.tools.base import InputRequiredToolResult, ToolResult
from mcp_types import (
    InputRequiredResult,
)

from codecall.approvals import handover
from codecall.approvals.channel import CHANNEL, RoundTripChannel
from codecall.approvals.grants import Grants
from codecall.approvals.handover import EarlierAnswers, MovedGrant, OpenQuestion, RunLease, WaitingRun, WaitingRuns
from codecall.approvals.options import CLIENT_ROUNDS
from codecall.concurrency import abandon
from codecall.identity import client_key, is_local
from codecall.jsonio.decode import canonical_digest_async
from codecall.key_value import StoreError
from codecall.quota import NoFreeSlotError, Reservation, SlotPool

T = TypeVar("T")

logger = logging.getLogger("codecall")

RETENTION_S: Final = 60.0
"""Seconds for which the answer of a call is kept that has ended while no request waited for it."""

MAX_WAITING: Final = 1_000
"""Most calls of a server that no request waits for, those included that have ended or given up their workers."""


@dataclass(slots=True, eq=False)
class WaitingCall:
    """A call of a meta-tool or a composite tool that outlives its request."""

    caller: str
    request: str
    """A digest of the name and the arguments, which are the same in each of its requests."""
    channel: RoundTripChannel
    task: asyncio.Task[ToolResult]
    alone: bool
    """Whether there are no other callers."""
    state: str = ""
    """By which the next request finds it."""
    watch: asyncio.Task[None] | None = None
    """Sees that another instance goes on with it, or gives up its worker; None: it goes on here alone."""
    lease: RunLease | None = None
    """What other instances know of it; None: nothing."""


class RoundTrips:
    """The calls of a server that wait for requests with answers, by their state.

    Args:
        grants: What persons have allowed.
        shared: Lets other instances go on with them; None: no other instance can.
        release_s: Seconds after which a call that others could go on with is ended here, and goes on from its record
            when it is answered, if that repeats no call; None: it waits in place.
        max_rounds: How often one call is answered with questions.
    """

    def __init__(
        self,
        grants: Grants,
        shared: WaitingRuns | None = None,
        release_s: float | None = None,
        max_rounds: int = CLIENT_ROUNDS,
    ) -> None:
        self._release_s = release_s
        self._max_rounds = max_rounds
        self._slots = SlotPool(MAX_WAITING)
        self._acquired: dict[str, Reservation] = {}
        """The slots of calls that no request waits for, by their states."""
        self._waiting: dict[str, WaitingCall] = {}
        self._grants = grants
        self._shared = shared

    def __len__(self) -> int:
        return len(self._waiting)

    async def respond(
        self, context: Context, name: str, arguments: Mapping[str, object], start: Callable[[], Awaitable[ToolResult]]
    ) -> ToolResult:
        """Answer a request: begin the call, or go on with the one that its state names.

        Args:
            context: FastMCP's context of the request.
            name: Name of the tool.
            arguments: Its arguments.
            start: Performs the call; runs in a task of its own.

        Raises:
            ValidationError: no call of this caller with these arguments waits under the state.
        """
        caller, alone = client_key(context), is_local(context)
        digest = await canonical_digest_async(json.dumps([name, arguments]))
        state, responses = context.request_state, context.input_responses or {}
        if state is None:
            call = _start(caller, digest, RoundTripChannel(), alone, start)
        elif (call := self._waiting.get(state)) is not None and (call.caller, call.request) == (caller, digest):
            if call.lease is not None and not await _available(name, call.lease.claim()):
                raise _unknown(name)
            if self._waiting.pop(state, None) is None:
                raise _unknown(name)
            self._release(state)
            call.lease = call.channel.claim = None
            if call.watch is not None:
                call.watch.cancel()
                call.watch = None
            call.channel.answer(responses)
        elif call is None and self._shared is not None:
            run = await _available(name, self._shared.find(state))
            if run is None or (run.caller, run.request) != (caller, digest) or run.has_expired:
                raise _unknown(name)
            if not await _available(name, self._shared.claim(state)):
                raise _unknown(name)
            self._release(state)
            call = _start(caller, digest, RoundTripChannel(EarlierAnswers(run, responses)), alone, start)
        else:
            raise _unknown(name)
        return await self._answer(call)

    async def waiting_run(self, state: str, caller: str) -> str | None:
        """The run of the caller's call that waits under a state, here or in the store; empty if it has no record.
        None: none waits."""
        if CHANNEL.get() is not None:  # a call within a call, whose request has gone on already
            return None
        call = self._waiting.get(state)
        if call is not None and (call.lease is None or await call.lease.claimed()):
            return call.channel.run_id if call.caller == caller else None
        try:
            run = await self._shared.find(state) if self._shared is not None else None
        except StoreError:
            return None
        return run.run_id if run is not None and run.caller == caller and not run.has_expired else None

    async def flush(self) -> None:
        """Cancel all calls that wait: the server ends. Other instances may go on with them."""
        calls = list(self._waiting.values())
        self._waiting.clear()
        for call in calls:
            self._release(call.state)
            call.task.cancel()
            if call.watch is not None:
                call.watch.cancel()
        if calls:
            await asyncio.wait([call.task for call in calls], timeout=1.0)

    def _release(self, state: str) -> None:
        """The call of a state has a slot no longer."""
        if (slot := self._acquired.pop(state, None)) is not None:
            self._slots.release(slot)

    async def _claim(self, call: WaitingCall, lease: RunLease) -> None:
        """A call goes on here without an answer, unless another instance has claimed it, or may have: then it ends."""
        try:
            is_ours = await lease.claim()
        except StoreError as failure:
            logger.warning(
                "the store of runs failed (%s); a run ends whose question ran out of time, since another instance may "
                "have gone on with it",
                failure.reason,
            )
            is_ours = False
        if not is_ours:
            self._waiting.pop(call.state, None)
            self._release(call.state)
            if call.watch is not None:
                call.watch.cancel()
            abandon(call.task)
            await asyncio.get_running_loop().create_future()  # until that has cancelled this, too

    async def _answer(self, call: WaitingCall) -> ToolResult:
        channel = call.channel
        while not call.task.done():
            channel.changed.clear()
            if channel.is_quiet:
                if channel.earlier is not None:
                    channel.apply_earlier(channel.earlier)
                elif channel.rounds < self._max_rounds:
                    break
                else:
                    channel.refuse()
                continue
            changed = asyncio.create_task(channel.changed.wait())
            try:
                await asyncio.wait({call.task, changed}, return_when=asyncio.FIRST_COMPLETED)
            except asyncio.CancelledError:
                abandon(call.task)
                raise
            finally:
                changed.cancel()
        if call.task.done():
            return call.task.result()
        requests = dict(channel.questions())
        channel.count_round()
        try:
            await self._keep(call)
        except BaseException:  # its state is unknown
            self._waiting.pop(call.state, None)
            self._release(call.state)
            abandon(call.task)
            raise
        return InputRequiredToolResult(InputRequiredResult(input_requests=requests, request_state=call.state))

    async def _keep(self, call: WaitingCall) -> None:
        try:
            slot = self._slots.acquire(call.caller, alone=call.alone)
        except NoFreeSlotError as full:
            raise ToolError(f"{full}; this one has ended, and what it has done stays done") from None
        call.state = state = secrets.token_urlsafe(32)
        self._acquired[state], self._waiting[state] = slot, call
        shared, lease = self._shared, None
        if shared is not None and call.channel.may_move:
            call.lease = lease = RunLease(shared, self._entry(call))
            call.channel.claim = partial(self._claim, call, lease)
            if not await lease.is_shared():
                call.lease = lease = call.channel.claim = None
                if self._waiting.pop(state, None) is not None:
                    # The entry may exist all the same, but its name is not sent to any client.
                    self._acquired.pop(state)
                    call.state = state = secrets.token_urlsafe(32)
                    self._acquired[state], self._waiting[state] = slot, call
        loop = asyncio.get_running_loop()

        def forget(*, holds_slot: bool = False) -> None:
            if (waiting := self._waiting.pop(state, None)) is not None:
                abandon(waiting.task)
                if waiting.watch is not None:
                    waiting.watch.cancel()
                if not holds_slot:
                    self._release(state)

        # Its own questions run out of time; what it says then is kept for a client that comes late.
        # The timers know it by its state alone: a client that has its answer leaves nothing of the run behind.
        call.task.add_done_callback(lambda _: loop.call_later(RETENTION_S, forget, context=contextvars.Context()))
        if lease is not None and shared is not None:

            async def watch() -> None:
                try:
                    async with asyncio.timeout(self._release_s if call.channel.may_release else None):
                        is_ours = await lease.wait_until_claimed()
                except TimeoutError:
                    is_ours = await lease.claimed()
                if is_ours:
                    return
                if is_ours is None:  # its entry in the store has the slot
                    loop.call_later(shared.retention_s, self._release, state, context=contextvars.Context())
                forget(holds_slot=is_ours is None)

            call.watch = asyncio.create_task(watch())

    def _entry(self, call: WaitingCall) -> WaitingRun:
        channel = call.channel
        wall = handover.now() - asyncio.get_running_loop().time()
        questions = [
            OpenQuestion(name, question.identity, wall + ends)
            for name, question in channel.open.items()
            if question.limit is not None and (ends := question.limit.when()) is not None
        ]
        grants = [MovedGrant.of(grant) for grant in self._grants.of_run(channel.run_id)]
        return WaitingRun(
            1,
            call.state,
            call.caller,
            call.request,
            channel.run_id,
            channel.recorded_calls or 0,
            questions,
            channel.denied,
            grants,
            channel.notes,
        )


def _start(
    caller: str, request: str, channel: RoundTripChannel, alone: bool, start: Callable[[], Awaitable[ToolResult]]
) -> WaitingCall:
    return WaitingCall(caller, request, channel, asyncio.create_task(_within(channel, start)), alone)


def _unknown(name: str) -> ValidationError:
    return ValidationError(
        f"{name}: requestState: no such call of yours waits for an answer here; it may have ended, or wait on another "
        "instance. Nothing was run now: call the tool again without requestState if what the run has done may be done "
        "twice"
    )


async def _available(name: str, request: Awaitable[T]) -> T:
    """The answer of the store of calls that wait.

    Raises:
        ValidationError: there is none.
    """
    try:
        return await request
    except StoreError:
        raise ValidationError(
            f"{name}: requestState: the store of calls that wait does not answer. Nothing was run: make the same "
            "request again later"
        ) from None


async def _within(channel: RoundTripChannel, start: Callable[[], Awaitable[ToolResult]]) -> ToolResult:
    CHANNEL.set(channel)
    return await start()
