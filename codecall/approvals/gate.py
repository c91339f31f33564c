"""The gate that each call of a tool passes in the broker: the rules, then the grants, then a person.

RuleSet     by what the call is, and FlowRules by what it carries of what other tools have returned:
            allow: the call is made     deny: ACCESS_DENIED, FLOW_DENIED     ask:
Grants      a person has allowed it before
approver    a function of the operator, if there is one
Channel     the person at the client, if the client can show a form
otherwise   APPROVAL_REQUIRED, which ends the run
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import replace
from functools import partial
from typing import Any, Final, Literal, TypeVar

from anyio import to_thread
from fastmcp import Context
from mcp_types import ElicitRequest, ElicitResult, InputRequest, InputRequiredResult, InputResponses

from codecall.approvals import ahead
from codecall.approvals.approver import call_approver
from codecall.approvals.asking import (
    ANSWERS,
    NO_ANSWER_HINT,
    NO_ELICITATION,
    Channel,
    TooManyWait,
    Unanswered,
    can_answer,
    can_elicit,
    form_for,
    form_of,
    is_local,
    read_answer,
)
from codecall.approvals.desk import in_thread
from codecall.approvals.flows import NO_FLOW, FlowRules, FlowRuling, ValueFlow
from codecall.approvals.grants import GrantKey
from codecall.approvals.handover import GivenAnswers, call_identity
from codecall.approvals.interfaces import Approvals, RunIdentity
from codecall.approvals.request import (
    MAX_SHOWN_CHARS,
    ApprovalRequest,
    CallInput,
    Decision,
    Match,
    describe_input,
    passed_question,
    schema_version,
    source_names,
)
from codecall.approvals.rounds import CHANNEL
from codecall.approvals.rules import NO_RULE
from codecall.calls.blocks import ResolvedInput
from codecall.calls.clock import OUTER_CLOCKS, all_stopped
from codecall.calls.conversion import exceeds_chars
from codecall.catalog.entries import CatalogEntry
from codecall.envelopes import CallRecord, ExecutionResult
from codecall.errors import AccessDeniedError, ApprovalDeniedError, ApprovalRequiredError, FlowDeniedError, Location
from codecall.globs import call_kind, entry_label
from codecall.jsonio.decode import sha256
from codecall.redaction.questions import HiddenText, visible_form
from codecall.sandbox.clock import RunClock
from codecall.sandbox.interfaces import CallMemory, Foresee, OnCallEnd, RunObserver

T = TypeVar("T")

logger = logging.getLogger("codecall")

QUICK_CHARS: Final = 2_048
"""Inputs up to this many characters are made ready for a question at once, which keeps questions in the order of the
calls; larger ones in a thread."""

By = Literal["rule", "flow", "grant", "approver", "client"]

_record: Final[ContextVar[tuple[CallGate, CallRecord] | None]] = ContextVar("codecall_gated_call", default=None)
"""The call that this task makes, and the gate of its run."""


_admitted: Final[ContextVar[str]] = ContextVar("codecall_admitted_call", default="")
"""Name of the tool whose call this task makes, once a gate has let it through."""


def is_admitted(tool: str) -> bool:
    """Whether this task makes a call of that tool which a gate has let through."""
    return _admitted.get() == tool


class CallGate(RunObserver):
    """Lets the calls of one run through, after asking a person where a rule says so.

    It observes the run, too: so it knows the line of each call, and when the run has ended.
    """

    __slots__ = (
        "_approved",
        "_asked",
        "_channel",
        "_clock",
        "_context",
        "_flow",
        "_foresight",
        "_granted",
        "_identity",
        "_open",
        "_others",
        "_service",
        "_turn",
        "given",
        "notes",
    )

    def __init__(
        self,
        service: Approvals,
        context: Context,
        identity: RunIdentity,
        channel: Channel | None,
        clock: RunClock,
        *,
        others: Channel | None = None,
        flow: ValueFlow | None = None,
        given: GivenAnswers | None = None,
        notes: dict[str, str] | None = None,
    ) -> None:
        self._service = service
        self._flow = flow
        self._others = others
        """The way to the client for what is no form."""
        self._context = context
        self._identity = identity
        self._channel = channel
        self._clock = clock
        self._turn = asyncio.Lock()
        """Held while a question is open: the next one may be answered by what this one allows."""
        self._open: dict[int, ApprovalRequest] = {}
        """The calls that wait for their approval, in order."""
        self._approved: dict[str, int] = {}
        """How many calls of each tool have been allowed by a person."""
        self._asked = 0
        self._granted = False
        """Whether a grant may be kept for this run."""
        self._foresight = ahead.Foresight()
        self.given = given
        """What another instance has kept of this run."""
        self.notes = notes if notes is not None else {}
        """What the run wants to know on whatever instance it goes on, as texts."""
        for grant in given.run.grants if given is not None else ():
            grant_key = GrantKey(identity.caller, identity.session, identity.run_id, grant.tool, grant.version)
            self._grant(grant_key, match=grant.match, calls=grant.calls_left, expires=grant.expires, ahead=grant.ahead)

    def on_call(self, record: CallRecord, input_json: str) -> OnCallEnd | None:  # noqa: ARG002
        """See `RunObserver`."""
        previous = _record.set((self, record))

        def on_end(value: str | None) -> None:
            _record.reset(previous)
            if self._flow is not None and value is not None:
                self._flow.note(record, value)

        return on_end

    def on_finished(self, result: ExecutionResult) -> None:  # noqa: ARG002
        """See `RunObserver`."""
        self.end()

    def on_cancelled(self) -> None:
        """See `RunObserver`."""
        self.end()

    def end(self) -> None:
        """The run has ended, and with it what was allowed for it alone."""
        if not self._granted:
            return
        if (desk := self._service.desk) is not None:
            ids = [grant.id for grant in self._service.grants.of_run(self._identity.run_id)]
            in_thread(desk.forget_grants, ids)
        self._service.grants.end_run(self._identity.run_id)

    def keep_record(self, memory: CallMemory) -> None:
        """The calls of the run are recorded, so that another instance can go on with it."""
        if self._channel is not None:
            self._channel.recorded(self._identity.run_id, memory.unmatched)

    @property
    def identity(self) -> RunIdentity:
        """Whose run it is."""
        return self._identity

    @property
    def outlives_request(self) -> bool:
        """Whether the run goes on after its request has been answered with a question."""
        return CHANNEL.get() is not None

    async def admit(
        self, entry: CatalogEntry, arguments: Mapping[str, object], resolved: ResolvedInput | None = None
    ) -> None:
        """Return if the call may be made now; it counts as made.

        Args:
            entry: What is called.
            arguments: The input as the script wrote it.
            resolved: It with the content of blocks; None if it has none.

        Raises:
            AccessDeniedError: a rule denies it.
            ApprovalDeniedError: a person does.
            ApprovalRequiredError: nobody can be asked, or nobody answers.
        """
        # Resources and prompts are only read; what is sent along with the request for them is a flow all the same.
        sent = arguments if resolved is None else resolved.arguments
        ruling = await self._service.rules.ruling(entry, sent) if entry.kind == "tool" else NO_RULE
        kind, name = call_kind(entry), entry.name
        if ruling.action == "deny":
            self._note(name, "denied", "rule", rule=ruling.rule)
            hint = "The operator's rules about approvals deny this call; do without it."
            raise AccessDeniedError(f"{entry_label(entry)} may not be called so", tool_name=name, hint=hint)
        flow = await self._flow.ruling(entry, arguments) if self._flow is not None else NO_FLOW
        if flow.action == "deny":
            self._note(name, "denied", "flow", flow=flow.rule, sources=flow.sources)
            raise FlowDeniedError(
                f"{entry_label(entry)} may not be given what {source_names(flow.sources)} returned",
                tool_name=name,
                called=kind,
            )
        if "ask" in (ruling.action, flow.action):
            await self._ask(entry, sent, ruling.rule if ruling.action == "ask" else 0, flow, resolved)
        if kind == "tool":
            _admitted.set(name)

    async def plan(self, find: ahead.FindEntry, foresee: Foresee) -> None:
        """Ask for the calls that the script names, if that is to be done before its first call.

        Args:
            find: Gives the tool of a name.
            foresee: Gives the calls.

        Raises:
            ApprovalDeniedError: a person wants the run to end.
            ApprovalRequiredError: nobody answers.
        """
        self._foresight = ahead.Foresight(foresee)
        channel, service = self._channel, self._service
        if not service.options.ask_first or channel is None:
            return
        groups = await ahead.foreseen_groups(await self._foresight.calls(), service.rules, find)
        if not groups:
            return
        text, groups = ahead.question(groups)
        if self.given is not None and not self.given.waits_for(sha256(text)):
            return  # it has been answered on another instance
        requests = [group.request(self._identity.caller, self._identity.run_id) for group in groups]
        self._open = {id(request): request for request in requests}
        self._asked += 1
        try:
            answer = await self._wait(requests[0], channel.elicit(text, ahead.form(groups)))
            allowed = ahead.read_form(answer, groups)
        except Unanswered as reason:
            raise self._required(requests[0], str(reason)) from None
        finally:
            self._open.clear()
        if allowed is None:
            raise self._denied(requests[0], "client", "a person denied the calls of this script", stops=True)
        for group, calls in zip(groups, allowed, strict=True):
            if calls:
                grant = self._grant(self._key(group.entry), match=group.match, calls=calls, ahead=True)
                fields = {"scope": "calls", "calls": calls, "grant": grant}
                self._note(group.entry.name, "allowed", "client", rule=group.rule, **fields)

    async def ask(self, entry: CatalogEntry, arguments: Mapping[str, object]) -> None:
        """Return if a person allows a call that no rule is about: of code whose calls somebody has to look at first.
        They see all of it as it is.

        Raises:
            ApprovalDeniedError: a person denies it.
            ApprovalRequiredError: nobody can be asked, or nobody answers.
        """
        await self._ask(entry, arguments, 0, is_code=True)

    async def answer(self, entry: CatalogEntry, asked: InputRequiredResult) -> InputResponses | None:
        """Pass the questions of a tool on to the client: forms with the names of the tool and its server, and requests
        for the client's model or folders as they are.

        Returns:
            The answers; None if one cannot be passed on, or is not answered.

        Raises:
            ApprovalRequiredError: too many runs wait, or nobody answers in time.
        """
        server, identity = entry.server, self._identity
        answers: InputResponses = {}
        for name, asked_for in (asked.input_requests or {}).items():
            question = self._question(entry.name, server, asked_for)
            if question is None or self._asked >= self._service.options.max_questions:
                return None
            self._asked += 1
            request = ApprovalRequest(entry.name, server, {}, 0, identity.caller, identity.run_id)
            async with self._own_turn():
                try:
                    answer = await self._wait(request, question())
                except Unanswered:
                    return None
            if not isinstance(answer, ANSWERS):
                return None
            answers[name] = answer
        return answers

    async def elicit(self, message: str, schema: Mapping[str, Any], *, identity: str, wait_s: float) -> ElicitResult:
        """Show the person at the client a form that the operator has written, and wait for the answer.

        Args:
            message: Its text.
            schema: Its fields.
            identity: What the question is about, the same if it is asked again.
            wait_s: Seconds that it may wait.

        Raises:
            Unanswered: nobody can be asked now.
            TimeoutError: nobody answers in time.
        """
        if not can_elicit(self._context):
            raise Unanswered(NO_ELICITATION)
        if (channel := self._others) is None:
            raise Unanswered("what it is called by passes no questions on to the client")
        async with self._own_turn():
            return await self._wait_for(
                channel.elicit(message, schema, identity), wait_s, "waits for a person's answer"
            )

    def _own_turn(self) -> contextlib.AbstractAsyncContextManager[object]:
        """Held while a question is open, where the client is asked one after the other."""
        return contextlib.nullcontext() if self._batches else self._turn

    def _question(
        self, tool: str, server: str, asked_for: InputRequest
    ) -> Callable[[], Coroutine[Any, Any, object]] | None:
        """Passes one question of a tool on; None if it cannot be."""
        channel, others = self._channel, self._others
        if (form := form_of(asked_for)) is not None and channel is not None:
            try:
                schema = visible_form(form.requested_schema)
            except HiddenText as refused:
                logger.warning("approvals: a question of %r is not passed on: %s", tool, refused)
                return None
            return partial(channel.elicit, passed_question(tool, server, form.message), schema)
        if isinstance(asked_for, ElicitRequest) or others is None or not can_answer(self._context, asked_for):
            return None
        return partial(others.ask, asked_for)

    async def _ask(
        self,
        entry: CatalogEntry,
        arguments: Mapping[str, object],
        rule: int,
        flow: FlowRuling = NO_FLOW,
        resolved: ResolvedInput | None = None,
        *,
        is_code: bool = False,
    ) -> None:
        readable = arguments if resolved is None else resolved.shown
        describe = partial(describe_input, readable, is_code=is_code)
        large = exceeds_chars(readable, QUICK_CHARS)
        masked, shown, digest = await to_thread.run_sync(describe) if large else describe()
        if resolved is not None and resolved.data:
            # A text that reads like what is shown of data is another input.
            digest = sha256(json.dumps([digest, *resolved.data]))
        identity, record = self._identity, self._current_record()
        sources = flow.sources if flow.action == "ask" else ()
        key, call = self._key(entry, sources), CallInput(arguments, digest)
        line = record.line if record is not None else None
        server = entry.server
        request = ApprovalRequest(
            entry.name,
            server,
            masked,
            rule,
            identity.caller,
            identity.run_id,
            line,
            kind=call_kind(entry),
            sources=sources,
            shown=shown,
            digest=digest,
        )
        if (desk := self._service.desk) is not None:
            granted = self._service.grants.of_tool(key)
            for withdrawn in await to_thread.run_sync(desk.withdrawn, granted) if granted else ():
                self._service.grants.revoke(withdrawn)
        ahead = self._service.options.approver is None
        if self._use_grant(key, call, request, ahead=ahead):
            return None
        self._open[id(request)] = request
        try:
            # The calls made together with this one are open, too, by the time at which the run may have to end.
            await asyncio.sleep(0)
            async with self._turn:
                if self._use_grant(key, call, request, ahead=ahead):
                    return None
                request = replace(
                    request,
                    approved=self._approved.get(entry.name, 0),
                    foreseen=await self._foresight.count(entry.name),
                    fixed=await self._foresight.fixed(entry.name, line, arguments),
                )
                by: By = "approver"
                decision = await self._ask_operator(request, key)
                if decision is None and self._use_grant(key, call, request, ahead=True):
                    return None
                if decision is None and not self._batches:
                    decision, by = await self._ask_client(request, key), "client"
                if decision is not None:
                    return self._settle(key, call, request, decision, by)
            self._settle(key, call, request, await self._ask_client(request, key), "client")
        finally:
            self._open.pop(id(request), None)

    def _key(self, entry: CatalogEntry, sources: Sequence[str] = ()) -> GrantKey:
        # Its server is named, too: another one may come to offer a tool that looks the same.
        version = schema_version(
            entry.name, entry.version, entry.input_schema, entry.description, [f"server {entry.server}", *sources]
        )
        identity = self._identity
        return GrantKey(identity.caller, identity.session, identity.run_id, entry.name, version)

    def _grant(self, key: GrantKey, **bounds: Any) -> str:
        """Keep what a person has allowed; the id of the grant."""
        self._granted = True
        grant = self._service.grants.add(key, **bounds)
        if (desk := self._service.desk) is not None:
            in_thread(desk.keep_grant, grant)
        return grant.id

    def _use_grant(self, key: GrantKey, call: CallInput, request: ApprovalRequest, *, ahead: bool) -> bool:
        grant = self._service.grants.take(key, call, ahead=ahead)
        if grant is not None:
            self._count(request, "grant", grant=grant.id)
        return grant is not None

    @property
    def _batches(self) -> bool:
        return self._others is not None and self._others.batches

    async def _ask_operator(self, request: ApprovalRequest, key: GrantKey) -> Decision | None:
        """The decision of the operator: that of their function, or else one in their folder; None if there is none."""
        approver, desk = self._service.options.approver, self._service.desk
        decision = await self._wait(request, call_approver(approver, request)) if approver is not None else None
        if decision is None and desk is not None:
            decision = await to_thread.run_sync(desk.decision, key, request.digest)
        return decision

    async def _ask_client(self, request: ApprovalRequest, key: GrantKey) -> Decision:
        """The decision of the person at the client."""
        options = self._service.options
        if self._channel is None:
            error = self._required(request, f"nobody can be asked, since {NO_ELICITATION}")
            if (desk := self._service.desk) is not None and (
                waiting := await to_thread.run_sync(desk.ask, request, key)
            ):
                error.shown_path = desk.path if is_local(self._context) else ""
                error.hint = desk.hint(waiting, error.shown_path)
            raise error
        if len(request.shown) > MAX_SHOWN_CHARS:
            raise self._denied(
                request,
                "client",
                f"its input has {len(request.shown):,} characters, and a person is shown at most {MAX_SHOWN_CHARS:,}",
                hint="A person has to approve this call: split its input over several calls.",
            )
        if self._asked >= options.max_questions:
            raise self._required(request, f"the run has asked {self._asked} questions already, and may ask no more")
        self._asked += 1
        identity = call_identity(request.tool, request.digest) + key.version[:32]
        try:
            asked = self._channel.elicit(request.question, form_for(request), identity)
            decision = read_answer(await self._wait(request, asked), request)
        except Unanswered as reason:
            raise self._required(request, str(reason)) from None
        if decision is None:
            raise self._denied(request, "client", "the answer was none of those offered")
        return decision

    async def _wait(self, request: ApprovalRequest, answer: Awaitable[T]) -> T:
        """The answer about a call.

        Raises:
            ApprovalRequiredError: too many runs wait, or none comes in time.
        """
        wait_s = self._service.options.wait_s
        try:
            return await self._wait_for(answer, wait_s, "waits for a person's approval")
        except TooManyWait as reason:
            raise self._required(request, str(reason)) from None
        except TimeoutError:
            raise self._required(request, f"nobody answered within {wait_s:g} s") from None

    async def _wait_for(self, answer: Awaitable[T], wait_s: float, doing: str) -> T:
        """Wait for an answer while the clocks of the run, and of the calls that it is inside of, stand still, and say
        so to the client.

        Raises:
            TooManyWait: it is not waited for.
            TimeoutError: none comes in time.
        """
        service = self._service
        with service.wait(self._identity) as full, self._clock.stopped(), all_stopped(OUTER_CLOCKS.get()):
            if full:
                if inspect.iscoroutine(answer):
                    answer.close()
                raise TooManyWait(full)
            with contextlib.suppress(Exception):
                await self._context.report_progress(0, 1, doing)
            async with asyncio.timeout(wait_s):
                return await answer

    def _settle(self, key: GrantKey, call: CallInput, request: ApprovalRequest, decision: Decision, by: By) -> None:
        """Keep what a decision allows beyond this call, or raise what it denies."""
        if decision.action != "allow":
            raise self._denied(request, by, "a person denied it", stops=decision.action == "stop")
        grant: str | None = None
        if decision.scope == "calls" and decision.calls > 1:
            grant = self._grant(key, calls=decision.calls - 1)
        elif decision.scope in ("input", "fixed"):
            match: Match | None = Match(request.digest, request.shown)
            if decision.scope == "fixed":
                match = Match.of_part(call.arguments, decision.fixed)
            if match is None:
                names = ", ".join(decision.fixed)
                logger.warning("approvals: %r is allowed once: its input has no (short) %s", request.tool, names)
            else:
                grant = self._grant(key, lifetime=decision.lifetime, match=match)
        self._count(request, by, scope=decision.scope, calls=decision.calls, grant=grant)

    def _count(self, request: ApprovalRequest, by: By, **fields: object) -> None:
        self._approved[request.tool] = self._approved.get(request.tool, 0) + 1
        self._note(request.tool, "allowed", by, rule=request.rule, sources=request.sources, **fields)

    def _denied(
        self, request: ApprovalRequest, by: By, reason: str, *, stops: bool = False, hint: str | None = None
    ) -> ApprovalDeniedError:
        self._note(request.tool, "stopped" if stops else "denied", by, rule=request.rule, sources=request.sources)
        message = f"{request.label} was not called: {reason}"
        error = ApprovalDeniedError(message, tool_name=request.tool, called=request.kind, hint=hint)
        error.ends_script = stops
        error.location = self._location()
        return error

    def _required(self, request: ApprovalRequest, reason: str) -> ApprovalRequiredError:
        self._note(request.tool, "unanswered", "client", rule=request.rule, sources=request.sources)
        calls = [waiting.as_dict() for waiting in self._open.values()]
        error = ApprovalRequiredError(
            f"{request.label} was not called: a person has to allow it, and {reason}",
            tool_name=request.tool,
            called=request.kind,
            details={"calls": calls},
            hint=NO_ANSWER_HINT if self._channel is not None else None,
        )
        error.location = self._location()
        return error

    def _current_record(self) -> CallRecord | None:
        current = _record.get()
        return current[1] if current is not None and current[0] is self else None

    def _location(self) -> Location | None:
        record = self._current_record()
        return record.location if record is not None else None

    def _note(self, tool: str, decision: str, by: By, **fields: object) -> None:
        """Enter what was decided in the record of runs."""
        audit, record = self._service.audit, self._current_record()
        if audit.enabled:
            number = record.number if record is not None else None
            body = {"number": number, "name": tool, "decision": decision, "by": by, **fields}
            audit.note("codecall.approval", self._identity.run_id, self._identity.caller, lambda: body)


def follow_values(rules: FlowRules | None, script: str) -> ValueFlow | None:
    """What follows the values of a run that begins now; None without rules about flows."""
    if rules is None:
        return None
    outer = _record.get()
    if outer is None or (flow := outer[0]._flow) is None:  # pyright: ignore[reportPrivateUsage]
        return ValueFlow(rules, script)
    return ValueFlow(rules, script, (flow, outer[1].number))
