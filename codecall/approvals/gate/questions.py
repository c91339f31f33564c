"""The questions of one run, and who answers them: the operator, or the client's person, model and folders.

While an answer is waited for, the clocks of the run stand still. Questions about calls, those of tools and those of the
steps of a workflow wait in one line where the client is asked one after the other.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeVar, cast

from anyio import to_thread
from fastmcp import Context
from mcp_types import ElicitRequest, ElicitResult, InputRequest, InputRequiredResult, InputResponses

from codecall.approvals.channel import LIMIT
from codecall.approvals.elicitation import (
    ANSWERS,
    NO_ELICITATION,
    TOO_MANY_HINT,
    Channel,
    TooManyQuestionsError,
    TooManyWaitError,
    UnansweredError,
    can_answer,
    can_elicit,
    form_for,
    form_of,
    read_answer,
)
from codecall.approvals.gate.approver import call_approver
from codecall.approvals.gate.decisions import CallDecisions
from codecall.approvals.grants import GrantKey
from codecall.approvals.handover import EarlierAnswers, call_identity
from codecall.approvals.interfaces import Approvals, RunIdentity
from codecall.approvals.request import MAX_SHOWN_CHARS, ApprovalRequest, Decision, passed_question
from codecall.calls.clock import OUTER_CLOCKS, all_stopped
from codecall.catalog.entries import CatalogEntry, call_kind, entry_label
from codecall.errors import InputRequiredError
from codecall.identity import is_local
from codecall.redaction.questions import HiddenTextError, check_size, visible_form
from codecall.sandbox.clock import RunClock

T = TypeVar("T")

Ask = Callable[[], Coroutine[Any, Any, object]]
"""Passes one question of a tool on; gives the answer."""

logger = logging.getLogger("codecall")

_PAUSE_S: Final = 0.25
"""Seconds before a tool is called again that has answered with a state and no questions."""

_ASKED: Final = "asked"
"""The note of how many questions a run has asked."""


class RunQuestions:
    """The questions of one run.

    Args:
        service: What the gates of all runs share.
        context: FastMCP's context of the request.
        identity: Whose run it is.
        clock: Stands still while somebody is asked.
        decisions: Makes the errors of calls without a decision.
        channel: The way to the person at the client; None: there is none.
        others: The way to the client for what is no form.
        earlier: What another instance has kept of the run. What it waited for, or was denied, is asked again here.
        notes: Go with the run to another instance.
    """

    __slots__ = (
        "_asked",
        "_clock",
        "_context",
        "_decisions",
        "_identity",
        "_notes",
        "_others",
        "_service",
        "_turn",
        "channel",
        "on_waited",
    )

    def __init__(
        self,
        service: Approvals,
        context: Context,
        identity: RunIdentity,
        clock: RunClock,
        decisions: CallDecisions,
        *,
        channel: Channel | None,
        others: Channel | None,
        earlier: EarlierAnswers | None,
        notes: dict[str, str],
    ) -> None:
        self._service = service
        self._context = context
        self._identity = identity
        self._clock = clock
        self._decisions = decisions
        self.channel = channel
        """The way to the person at the client."""
        self._others = others
        self.on_waited: Callable[[], None] | None = None
        """Called when somebody has been waited for: what was looked up before may have changed."""
        self._turn = asyncio.Lock()
        self._notes = notes
        again = 0 if earlier is None else len(earlier.run.questions) + len(earlier.run.denied)
        self._asked = max(0, int(notes.get(_ASKED, 0)) - again)

    @property
    def leaves_to_operator(self) -> bool:
        """Whether a call that a rule asks for ends the run and waits in the operator's folder."""
        return self._service.folder is not None and self.channel is None

    @property
    def turn(self) -> contextlib.AbstractAsyncContextManager[object]:
        """Held while a question about a call is open: the next one may be answered by what this one allows."""
        return self._turn

    @property
    def batches(self) -> bool:
        """Whether the client takes several questions at once."""
        return self._others is not None and self._others.batches

    def _too_many(self, more: int = 1) -> TooManyQuestionsError:
        most = self._service.options.max_questions
        left = most - self._asked
        may = "no more" if left <= 0 else f"{left} more, not {more}"
        return TooManyQuestionsError(f"the run has asked {self._asked} questions already, and may ask {may}")

    def _count_question(self) -> None:
        self._asked += 1
        self._notes[_ASKED] = str(self._asked)

    # ------------------------------------------------------------------------------------------------- about calls

    async def ask_operator(self, request: ApprovalRequest, key: GrantKey) -> Decision | None:
        """The decision of the operator: that of their function, or else one in their folder; None if there is none."""
        approver, folder = self._service.options.approver, self._service.folder
        decision = await self._wait(request, call_approver(approver, request)) if approver is not None else None
        if decision is None and folder is not None:
            decision = await to_thread.run_sync(folder.decision, key, request.digest)
        return decision

    async def ask_client(self, request: ApprovalRequest, key: GrantKey) -> Decision:
        """The decision of the person at the client.

        Raises:
            ApprovalDeniedError: they, or the operator, cannot be shown the call; or they answer with none of what is
                offered.
            ApprovalRequiredError: there is no way to ask, or no answer.
        """
        folder = self._service.folder
        if self.channel is None and folder is None:
            raise self._decisions.required(request, f"nobody can be asked, since {NO_ELICITATION}")
        if (size := request.unshown_chars or len(request.shown)) > MAX_SHOWN_CHARS:
            raise self._decisions.denied(
                request,
                "client",
                f"its input has {size:,} characters, and a person is shown at most {MAX_SHOWN_CHARS:,}",
                hint="A person has to approve this call: split its input over several calls.",
            )
        if self.channel is None:
            error = self._decisions.required(request, f"nobody can be asked, since {NO_ELICITATION}")
            if folder is not None and (waiting := await to_thread.run_sync(folder.ask, self._open_calls(request, key))):
                error.shown_path = folder.path if is_local(self._context) else ""
                error.hint = folder.hint(waiting, error.shown_path)
            raise error
        if self._asked >= self._service.options.max_questions:
            raise self._decisions.required(request, str(self._too_many()), hint=TOO_MANY_HINT)
        identity = call_identity(request.tool, request.digest) + key.version[:32]
        answer = self.channel.elicit(request.question, form_for(request), identity)
        decision = await self.ask(request, answer, partial(read_answer, request=request))
        if decision is None:
            raise self._decisions.denied(request, "client", "the answer was none of those offered")
        return decision

    def _open_calls(self, request: ApprovalRequest, key: GrantKey) -> list[tuple[ApprovalRequest, GrantKey]]:
        """The call that ends the run, and the others that wait for their approval and can be shown to a person."""
        calls = [(request, key)]
        for other, other_key in self._decisions.open.values():
            size = other.unshown_chars or len(other.shown)
            if other_key is not None and size <= MAX_SHOWN_CHARS and (other.digest, other_key) != (request.digest, key):
                calls.append((other, other_key))
        return calls

    async def ask(
        self, request: ApprovalRequest, asked: Awaitable[ElicitResult], read: Callable[[ElicitResult], T]
    ) -> T:
        """What `read` reads in the answer to a form about a call.

        Raises:
            ApprovalRequiredError: there is none.
        """
        self._count_question()
        try:
            return read(await self._wait(request, asked))
        except TooManyQuestionsError as reason:
            raise self._decisions.required(request, str(reason), hint=TOO_MANY_HINT) from None
        except UnansweredError as reason:
            raise self._decisions.required(request, str(reason)) from None

    # --------------------------------------------------------------------------------------------- of tools and steps

    async def pass_on(self, entry: CatalogEntry, asked: InputRequiredResult) -> InputResponses | None:
        """Pass the questions of a tool on to the client: forms with the names of the tool and its server, and requests
        for the client's model or folders as they are.

        Returns:
            The answers; None if one cannot be passed on, or is not answered.

        Raises:
            ApprovalRequiredError: too many runs wait, or there is no answer in time.
            InputRequiredError: the run may not ask so many.
        """
        requests = asked.input_requests or {}
        if not requests:  # it asks for time, which it is given as the SDK's clients give it
            await asyncio.sleep(_PAUSE_S)
        self._check_count(entry, len(requests))
        if (questions := self._questions(entry, list(requests.values()))) is None:
            return None
        answers: list[object] = []
        # Where the client takes several at once, they are one round.
        step = max(1, len(questions)) if self.batches else 1
        for start in range(0, len(questions), step):
            answered = await self._pass_on(entry, questions[start : start + step])
            if not all(isinstance(answer, ANSWERS) for answer in answered):
                return None
            answers += answered
        return cast("InputResponses", dict(zip(requests, answers, strict=True)))

    async def _pass_on(self, entry: CatalogEntry, questions: Sequence[Ask]) -> Sequence[object]:
        """The answers to questions that are asked together; a None if there is none."""
        self._check_count(entry, len(questions))
        for _ in questions:
            self._count_question()

        async def ask_all() -> Sequence[object]:
            return await asyncio.gather(*(ask() for ask in questions))

        request = ApprovalRequest(entry.name, entry.server, {}, 0, self._identity.caller, self._identity.run_id)
        async with self._own_turn():
            try:
                return await self._wait(request, ask_all())
            except TooManyQuestionsError as reason:
                raise _not_passed_on(entry, reason) from None
            except UnansweredError:
                return [None]

    async def elicit(self, message: str, schema: Mapping[str, Any], *, identity: str, wait_s: float) -> ElicitResult:
        """Show the person at the client a form that the operator has written, and wait for the answer.

        Args:
            message: Its text.
            schema: Its fields.
            identity: What the question is about, the same if it is asked again.
            wait_s: Seconds that it may wait.

        Raises:
            UnansweredError: there is no way to ask now.
            TimeoutError: there is no answer in time.
        """
        if not can_elicit(self._context):
            raise UnansweredError(NO_ELICITATION)
        if (channel := self._others) is None:
            raise UnansweredError("what it is called by passes no questions on to the client")
        async with self._own_turn():
            return await self._wait_for(
                channel.elicit(message, schema, identity), wait_s, "waits for a person's answer"
            )

    async def continue_here(self) -> None:
        """Return if the run goes on here: not if a question ran out of time, and another instance has its answer."""
        if self._others is not None:
            await self._others.continue_here()

    def _own_turn(self) -> contextlib.AbstractAsyncContextManager[object]:
        """Held while a question is open, where the client is asked one after the other."""
        return contextlib.nullcontext() if self.batches else self._turn

    def _check_count(self, entry: CatalogEntry, more: int) -> None:
        """Refuse questions of a tool that are more than the run may ask.

        Raises:
            InputRequiredError: they are.
        """
        if more and self._asked + more > self._service.options.max_questions:
            raise _not_passed_on(entry, self._too_many(more))

    def _questions(self, entry: CatalogEntry, requests: Sequence[InputRequest]) -> list[Ask] | None:
        """What passes the questions of one answer on; None if one cannot be passed on, or all are too long to be
        shown."""
        questions: list[Ask] = []
        try:
            if self.channel is not None:
                check_size(*((form.message, form.requested_schema) for form in filter(None, map(form_of, requests))))
            for each in requests:
                if (ask := self._question(entry.name, entry.server, each)) is None:
                    return None
                questions.append(ask)
        except HiddenTextError as refused:
            logger.warning("approvals: a question of %r is not passed on: %s", entry.name, refused)
            return None
        return questions

    def _question(self, tool: str, server: str, asked_for: InputRequest) -> Ask | None:
        """Passes one question of a tool on; None if it cannot be.

        Raises:
            HiddenTextError: a person does not see all of it.
        """
        channel, others = self.channel, self._others
        if (form := form_of(asked_for)) is not None and channel is not None:
            schema = visible_form(form.requested_schema)
            return partial(channel.elicit, passed_question(tool, server, form.message), schema)
        if isinstance(asked_for, ElicitRequest) or others is None or not can_answer(self._context, asked_for):
            return None
        return partial(others.ask, asked_for)

    # ---------------------------------------------------------------------------------------------------- waiting

    async def _wait(self, request: ApprovalRequest, answer: Awaitable[T]) -> T:
        """The answer about a call.

        Raises:
            ApprovalRequiredError: too many runs wait, or none comes in time.
        """
        wait_s = self._service.options.wait_s
        try:
            return await self._wait_for(answer, wait_s, "waits for a person's approval")
        except TooManyWaitError as reason:
            raise self._decisions.required(request, str(reason)) from None
        except TimeoutError:
            raise self._decisions.required(request, f"nobody answered within {wait_s:g} s") from None

    async def _wait_for(self, answer: Awaitable[T], wait_s: float, doing: str) -> T:
        """Wait for an answer while the clocks of the run, and of the calls that it is inside of, stand still, and say
        so to the client.

        Raises:
            TooManyWaitError: it is not waited for.
            TimeoutError: none comes in time.
        """
        service = self._service
        with contextlib.ExitStack() as stack:
            if full := stack.enter_context(service.wait(self._identity)):
                if inspect.iscoroutine(answer):
                    answer.close()
                raise TooManyWaitError(full)
            stack.enter_context(self._clock.waiting())
            stack.enter_context(all_stopped(OUTER_CLOCKS.get()))
            with contextlib.suppress(Exception):
                await self._context.report_progress(0, 1, doing)
            try:
                async with asyncio.timeout(wait_s) as limit:
                    outer = LIMIT.set(limit)
                    try:
                        return await answer
                    finally:
                        LIMIT.reset(outer)
            finally:
                if self.on_waited is not None:
                    self.on_waited()


def _not_passed_on(entry: CatalogEntry, reason: TooManyQuestionsError) -> InputRequiredError:
    message = f"{entry_label(entry)} asks for input, and {reason}"
    return InputRequiredError(message, tool_name=entry.name, called=call_kind(entry), hint=TOO_MANY_HINT)
