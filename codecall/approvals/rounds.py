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
import json
import logging
import math
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

from fastmcp import Context
from fastmcp.exceptions import ToolError, ValidationError
from fastmcp.tools.base import InputRequiredToolResult, ToolResult
from mcp_types import (
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequest,
    InputRequiredResult,
)

from codecall.approvals import handover
from codecall.approvals.asking import DENY, TooManyQuestions, is_local
from codecall.approvals.grants import Grants
from codecall.approvals.handover import GivenAnswers, MovedGrant, OpenQuestion, RunLease, WaitingRun, WaitingRuns
from codecall.approvals.options import CLIENT_ROUNDS
from codecall.concurrency import abandon
from codecall.errors import RunDivergedError
from codecall.identity import client_key
from codecall.jsonio.decode import canonical_digest_async, sha256
from codecall.key_value import StoreError
from codecall.quota import NoFreeSlot, Reservation, SlotPool
from codecall.sandbox.clock import RunClock
from codecall.sandbox.interfaces import CallMemory

T = TypeVar("T")

logger = logging.getLogger("codecall")

KEPT_S: Final = 60.0
"""Seconds for which the answer of a call is kept that has ended while no request waited for it."""

MAX_KEPT: Final = 1_000
"""Most calls of a server that no request waits for, those included that have ended or given up their workers."""


_ROUNDS: Final = "rounds"
"""The note of how often a request has been answered with questions."""


class _Open(NamedTuple):
    """An open question."""

    request: InputRequest
    answer: asyncio.Future[object]
    identity: str
    """See `OpenQuestion.identity`; empty for what only this instance can ask: a model, or for folders."""
    limit: asyncio.Timeout | None
    """How long it may wait."""


class RoundTripChannel:
    """A `Channel` whose questions become the answer of a request. All that are open are asked together.

    Args:
        given: Answers to what another instance has asked.
    """

    batches = True

    def __init__(self, given: GivenAnswers | None = None) -> None:
        self.open: dict[str, _Open] = {}
        """The open questions, by the names that their answers have."""
        self.changed = asyncio.Event()
        """Set when it may be quiet now."""
        self.given = given
        self.denied: list[str] = []
        """The questions that were answered with no."""
        self.notes = dict(given.run.notes) if given is not None else {}
        """What the run wants to know on whatever instance it goes on, as texts."""
        self.run_id = ""
        """The run whose record has its calls; empty where there is none."""
        self.claim: Callable[[], Awaitable[None]] | None = None
        """Returns once no other instance can go on with the run; None: none can."""
        self._memory: CallMemory | None = None
        self._has_worker = False
        self._gates = 0
        self._clock: RunClock | None = None
        self._count = 0

    @property
    def is_quiet(self) -> bool:
        """Whether nothing happens any more until a question is answered."""
        calls = self._clock.calls_in_flight if self._clock is not None else 0
        return bool(self.open) and calls <= len(self.open)

    @property
    def rounds(self) -> int:
        """How often the request has been answered with questions, on all instances."""
        return int(self.notes.get(_ROUNDS, 0))

    def count_round(self) -> None:
        """The request is answered with questions."""
        self.notes[_ROUNDS] = str(self.rounds + 1)

    @property
    def may_move(self) -> bool:
        """Whether another instance may go on: a record says nothing of what runs within a call, or is missing there."""
        is_known = self._gates == 1 and all(question.identity and question.limit for question in self.open.values())
        return is_known and self.recorded_calls is not None

    @property
    def may_release(self) -> bool:
        """Whether the run can give up its worker, and make no call again."""
        return self._has_worker and self._memory is not None and self._memory.is_whole()

    @property
    def recorded_calls(self) -> int | None:
        """How many calls are in the record; None if some are missing there."""
        return self._memory.kept_calls() if self._memory is not None else 0

    def attach(self, clock: RunClock) -> bool:
        """A run asks by this channel; whether it is the first, within whose calls the others run."""
        self._gates += 1
        if self._gates == 1:
            self._clock = clock
            clock.on_calls = self.changed.set
        return self._gates == 1

    def recorded(self, run_id: str, memory: CallMemory, *, has_worker: bool) -> None:
        """See `Channel`."""
        if self.may_move:
            self.run_id, self._memory, self._has_worker = run_id, memory, has_worker

    async def elicit(self, message: str, schema: Mapping[str, Any], identity: str = "") -> ElicitResult:
        """See `Channel`."""
        identity = identity or sha256(message)
        if self.given is not None and self.given.is_denied(identity):
            self.denied.append(identity)
            return ElicitResult(action="decline")
        form = ElicitRequestFormParams(message=message, requested_schema=dict(schema))
        answer = await self._wait(ElicitRequest(params=form), identity)
        result = answer if isinstance(answer, ElicitResult) else ElicitResult(action="cancel")
        if result.action == "decline" or (result.content or {}).get("decision") == DENY:
            self.denied.append(identity)
        return result

    async def go_on(self) -> None:
        """See `Channel`."""
        if self.claim is not None:
            await self.claim()

    async def ask(self, request: InputRequest) -> object:
        """See `Channel`."""
        return await self._wait(request, "")

    async def _wait(self, request: InputRequest, identity: str) -> object:
        self._count += 1
        name = f"question-{self._count}"
        answer: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        limit = LIMIT.get()
        if limit is not None and self.given is not None and (left_s := self.given.left_s(identity)) is not None:
            limit.reschedule(min(limit.when() or math.inf, asyncio.get_running_loop().time() + left_s))
        self.open[name] = _Open(request, answer, identity, limit)
        self.changed.set()
        try:
            return await answer
        finally:
            self.open.pop(name, None)
            self.changed.set()

    def answer(self, responses: Mapping[str, object]) -> None:
        """Take the answers that a request has brought. A question that has none stays open."""
        for name, question in list(self.open.items()):
            if name not in responses or question.answer.done():
                continue
            question.answer.set_result(responses[name])
            del self.open[name]

    def answer_given(self, given: GivenAnswers) -> None:
        """Answer the open questions as `given` says, if the run waited for these; else the run ends."""
        self.given = None
        arrived = given.arrive(question.identity for question in self.open.values())
        missing = self._memory.unmatched() if self._memory is not None else ()
        for name, question in list(self.open.items()):
            if missing or not arrived:
                question.answer.set_exception(_other_path(missing))
            elif (answer := given.take(question.identity)) is not None:
                question.answer.set_result(answer)
            else:
                continue
            del self.open[name]

    def refuse(self) -> None:
        """The open questions are not asked: the client would take no more of them."""
        reason = f"one request asks {self.rounds} times at most, since clients give up then"
        for question in self.open.values():
            if not question.answer.done():
                question.answer.set_exception(TooManyQuestions(reason))
        self.open.clear()

    def questions(self) -> dict[str, InputRequest]:
        """The open questions, as the client gets them."""
        return {name: question.request for name, question in self.open.items()}


CHANNEL: Final[ContextVar[RoundTripChannel | None]] = ContextVar("codecall_round_trips", default=None)
"""The channel of the call that this task belongs to."""


LIMIT: Final[ContextVar[asyncio.Timeout | None]] = ContextVar("codecall_question_limit", default=None)
"""The limit of time of the question that this task asks."""


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
    kept: RunLease | None = None
    """What other instances know of it; None: nothing."""


class RoundTrips:
    """The calls of a server that wait for requests with answers, by their state.

    Args:
        grants: What persons have allowed.
        shared: Lets other instances go on with them; None: nobody else can.
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
        self._places = SlotPool(MAX_KEPT)
        self._taken: dict[str, Reservation] = {}
        """The places of calls that no request waits for, by their states."""
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
            if call.kept is not None and not await _available(name, call.kept.claim()):
                raise _unknown(name)
            if self._waiting.pop(state, None) is None:
                raise _unknown(name)
            self._leave(state)
            call.kept = call.channel.claim = None
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
            self._leave(state)
            call = _start(caller, digest, RoundTripChannel(GivenAnswers(run, responses)), alone, start)
        else:
            raise _unknown(name)
        return await self._answer(call)

    async def flush(self) -> None:
        """Cancel all calls that wait: the server ends. Other instances may go on with them."""
        calls = list(self._waiting.values())
        self._waiting.clear()
        for call in calls:
            self._leave(call.state)
            call.task.cancel()
            if call.watch is not None:
                call.watch.cancel()
        if calls:
            await asyncio.wait([call.task for call in calls], timeout=1.0)

    def _leave(self, state: str) -> None:
        """No place is taken any more by the call of a state."""
        if (place := self._taken.pop(state, None)) is not None:
            self._places.leave(place)

    async def _claim(self, call: WaitingCall, kept: RunLease) -> None:
        """A call goes on here without an answer, unless another instance has claimed it, or may have: then it ends."""
        try:
            is_ours = await kept.claim()
        except StoreError as failure:
            logger.warning(
                "the store of runs failed (%s); a run ends whose question ran out of time, since another instance may "
                "have gone on with it",
                failure.reason,
            )
            is_ours = False
        if not is_ours:
            self._waiting.pop(call.state, None)
            self._leave(call.state)
            if call.watch is not None:
                call.watch.cancel()
            abandon(call.task)
            await asyncio.get_running_loop().create_future()  # until that has cancelled this, too

    async def _answer(self, call: WaitingCall) -> ToolResult:
        channel = call.channel
        while not call.task.done():
            channel.changed.clear()
            if channel.is_quiet:
                if channel.given is not None:
                    channel.answer_given(channel.given)
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
        except BaseException:  # nobody knows its state
            self._waiting.pop(call.state, None)
            self._leave(call.state)
            abandon(call.task)
            raise
        return InputRequiredToolResult(InputRequiredResult(input_requests=requests, request_state=call.state))

    async def _keep(self, call: WaitingCall) -> None:
        try:
            place = self._places.take(call.caller, alone=call.alone)
        except NoFreeSlot as full:
            raise ToolError(f"{full}; this one has ended, and what it has done stays done") from None
        call.state = state = secrets.token_urlsafe(32)
        self._taken[state], self._waiting[state] = place, call
        shared, kept = self._shared, None
        if shared is not None and call.channel.may_move:
            call.kept = kept = RunLease(shared, self._entry(call))
            call.channel.claim = partial(self._claim, call, kept)
            if not await kept.is_kept():
                call.kept = kept = call.channel.claim = None
                if self._waiting.pop(state, None) is not None:
                    # The entry may be there all the same: nobody learns its name.
                    self._taken.pop(state)
                    call.state = state = secrets.token_urlsafe(32)
                    self._taken[state], self._waiting[state] = place, call
        loop = asyncio.get_running_loop()

        def forget(*, is_kept: bool = False) -> None:
            if self._waiting.get(state) is call:
                del self._waiting[state]
                abandon(call.task)
                if call.watch is not None:
                    call.watch.cancel()
                if not is_kept:
                    self._leave(state)

        # Its own questions run out of time; what it says then is kept for a client that comes late.
        call.task.add_done_callback(lambda _: loop.call_later(KEPT_S, forget))
        if kept is not None and shared is not None:

            async def watch() -> None:
                try:
                    async with asyncio.timeout(self._release_s if call.channel.may_release else None):
                        is_ours = await kept.wait_until_claimed()
                except TimeoutError:
                    is_ours = await kept.claimed()
                if is_ours:
                    return
                if is_ours is None:  # its entry in the store takes the place
                    loop.call_later(shared.kept_s, self._leave, state)
                forget(is_kept=is_ours is None)

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


def _other_path(missing: Sequence[str]) -> RunDivergedError:
    """The error of a script that waits for something else than before, or that has left out these calls."""
    return RunDivergedError(
        "The script went on from its record, and took another path than before: "
        + (f"it has not made its calls of {', '.join(missing[:5])}" if missing else "it waits for other approvals"),
        tool_name=missing[0] if missing else "",
        details={"expected": list(missing), "made": None},
    )


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
