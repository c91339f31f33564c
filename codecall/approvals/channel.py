"""The questions of one call on a connection of 2026-07-28: they become the answer of a request, see `rounds.py`."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Final, NamedTuple

from mcp_types import ElicitRequest, ElicitRequestFormParams, ElicitResult, InputRequest

from codecall.approvals.elicitation import DENY, TooManyQuestionsError
from codecall.approvals.handover import EarlierAnswers
from codecall.errors import RunDivergedError
from codecall.jsonio.decode import sha256
from codecall.sandbox.clock import RunClock
from codecall.sandbox.interfaces import CallMemory

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
        earlier: Answers to what another instance has asked.
    """

    batches = True

    def __init__(self, earlier: EarlierAnswers | None = None) -> None:
        self.open: dict[str, _Open] = {}
        """The open questions, by the names that their answers have."""
        self.changed = asyncio.Event()
        """Set when it may be quiet now."""
        self.earlier = earlier
        self.denied: list[str] = []
        """The questions that were answered with no."""
        self.notes = dict(earlier.run.notes) if earlier is not None else {}
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
        return self._memory.recorded_calls() if self._memory is not None else 0

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
        if self.earlier is not None and self.earlier.is_denied(identity):
            self.denied.append(identity)
            return ElicitResult(action="decline")
        form = ElicitRequestFormParams(message=message, requested_schema=dict(schema))
        answer = await self._wait(ElicitRequest(params=form), identity)
        result = answer if isinstance(answer, ElicitResult) else ElicitResult(action="cancel")
        if result.action == "decline" or (result.content or {}).get("decision") == DENY:
            self.denied.append(identity)
        return result

    async def continue_here(self) -> None:
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
        if limit is not None and self.earlier is not None and (left_s := self.earlier.left_s(identity)) is not None:
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

    def apply_earlier(self, earlier: EarlierAnswers) -> None:
        """Answer the open questions as `earlier` says, if the run waited for these; else the run ends."""
        self.earlier = None
        arrived = earlier.arrive(question.identity for question in self.open.values())
        missing = self._memory.unmatched() if self._memory is not None else ()
        for name, question in list(self.open.items()):
            if missing or not arrived:
                question.answer.set_exception(_other_path(missing))
            elif (answer := earlier.pop(question.identity)) is not None:
                question.answer.set_result(answer)
            else:
                continue
            del self.open[name]

    def refuse(self) -> None:
        """The open questions are not asked: the client would take no more of them."""
        reason = f"one request asks {self.rounds} times at most, since clients give up then"
        for question in self.open.values():
            if not question.answer.done():
                question.answer.set_exception(TooManyQuestionsError(reason))
        self.open.clear()

    def questions(self) -> dict[str, InputRequest]:
        """The open questions, as the client gets them."""
        return {name: question.request for name, question in self.open.items()}


CHANNEL: Final[ContextVar[RoundTripChannel | None]] = ContextVar("codecall_round_trips", default=None)
"""The channel of the call that this task belongs to."""


LIMIT: Final[ContextVar[asyncio.Timeout | None]] = ContextVar("codecall_question_limit", default=None)
"""The limit of time of the question that this task asks."""


def _other_path(missing: Sequence[str]) -> RunDivergedError:
    """The error of a script that waits for something else than before, or that has left out these calls."""
    return RunDivergedError(
        "The script went on from its record, and took another path than before: "
        + (f"it has not made its calls of {', '.join(missing[:5])}" if missing else "it waits for other approvals"),
        tool_name=missing[0] if missing else "",
        details={"expected": list(missing), "made": None},
    )
