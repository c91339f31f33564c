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
import json
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import replace
from functools import partial
from typing import Any, Final, TypeVar

from anyio import to_thread
from fastmcp import Context

from codecall.approvals import planned_calls
from codecall.approvals.channel import CHANNEL
from codecall.approvals.elicitation import NO_ANSWER_HINT, Channel
from codecall.approvals.flows import NO_FLOW, FlowRuling, ValueFlow
from codecall.approvals.folder import in_thread
from codecall.approvals.gate.decisions import CURRENT_CALL, By, CallDecisions, CurrentCall, PendingCall
from codecall.approvals.gate.questions import RunQuestions
from codecall.approvals.grants import GrantKey
from codecall.approvals.handover import EarlierAnswers
from codecall.approvals.interfaces import Approvals, RunIdentity
from codecall.approvals.request import (
    ApprovalRequest,
    CallInput,
    Decision,
    Match,
    describe_input,
    entry_version,
    source_names,
)
from codecall.approvals.rules import NO_RULE
from codecall.calls.interfaces import CurrentEntry, ResolvedInput
from codecall.catalog.entries import CatalogEntry, call_kind, entry_label
from codecall.envelopes import CallRecord, ExecutionResult
from codecall.errors import AccessDeniedError, FlowDeniedError
from codecall.jsonio.decode import exceeds_chars, sha256
from codecall.redaction.threaded import ThreadedCleaner
from codecall.sandbox.clock import RunClock
from codecall.sandbox.interfaces import CallMemory, Foresee, OnCallEnd, RunObserver

T = TypeVar("T")

logger = logging.getLogger("codecall")

QUICK_CHARS: Final = 2_048
"""Characters of an input up to which it is made ready for a question at once, which keeps the order of the calls."""

QUICK_SCHEMA_CHARS: Final = 65_536
"""Schemas up to this many characters are hashed at once: half a millisecond; larger ones in a thread."""

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
        "_decisions",
        "_describing",
        "_granted",
        "_identity",
        "_planned_calls",
        "_service",
        "earlier",
        "flow",
        "notes",
        "questions",
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
        earlier: EarlierAnswers | None = None,
        notes: dict[str, str] | None = None,
    ) -> None:
        self._service = service
        self.flow = flow
        """Follows the values of the run; None: no rule is about them."""
        self._identity = identity
        self._describing = ThreadedCleaner()
        hint = NO_ANSWER_HINT if channel is not None else None
        self._decisions = decisions = CallDecisions(service, identity, hint)
        self.notes = notes if notes is not None else {}
        """What the run wants to know on whatever instance it goes on, as texts."""
        self.questions = RunQuestions(
            service,
            context,
            identity,
            clock,
            decisions,
            channel=channel,
            others=others,
            earlier=earlier,
            notes=self.notes,
        )
        """All that the run asks."""
        self._granted = False
        """Whether a grant may be kept for this run."""
        self._planned_calls = planned_calls.PlannedCalls()
        self.earlier = earlier
        """What another instance has kept of this run."""
        for grant in earlier.run.grants if earlier is not None else ():
            grant_key = GrantKey(identity.caller, identity.session, identity.run_id, grant.tool, grant.version)
            self._grant(grant_key, match=grant.match, calls=grant.calls_left, expires=grant.expires, ahead=grant.ahead)

    def on_call(self, record: CallRecord, input_json: str) -> OnCallEnd | None:  # noqa: ARG002
        """See `RunObserver`."""
        previous = CURRENT_CALL.set(CurrentCall.begin(self._decisions, record, self.flow))

        def on_end(value: str | None) -> None:
            CURRENT_CALL.reset(previous)
            if self.flow is not None and value is not None:
                self.flow.note(record, value)

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
        if (folder := self._service.folder) is not None:
            ids = [grant.id for grant in self._service.grants.of_run(self._identity.run_id)]
            in_thread(folder.forget_grants, ids)
        self._service.grants.end_run(self._identity.run_id)

    def keep_record(self, memory: CallMemory, *, has_worker: bool) -> None:
        """The calls of the run are recorded, so that another instance can go on with it, or this one without its
        worker, if it has one to give up."""
        if (channel := self.questions.channel) is not None:
            channel.recorded(self._identity.run_id, memory, has_worker=has_worker)

    @property
    def identity(self) -> RunIdentity:
        """Whose run it is."""
        return self._identity

    @property
    def outlives_request(self) -> bool:
        """Whether the run goes on after its request has been answered with a question."""
        return CHANNEL.get() is not None

    async def admit(
        self,
        entry: CatalogEntry,
        arguments: Mapping[str, object],
        resolved: ResolvedInput | None = None,
        current_entry: CurrentEntry | None = None,
        check_input: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """Return if the call may be made now; it counts as made.

        Args:
            entry: What is called.
            arguments: The input as the script wrote it.
            resolved: It with the content of blocks; None if it has none.
            current_entry: Gives what is called as it is once somebody has decided.
            check_input: Finds what is certainly wrong with the input, before anybody is asked about it.

        Raises:
            AccessDeniedError: a rule denies it.
            ApprovalDeniedError: a person does.
            ApprovalRequiredError: there is no way to ask, no answer, or what is called has changed meanwhile.
            ToolCallError: the tool is certain to refuse the input, which somebody would have to allow.
        """
        self._decisions.note_called(entry)
        # Resources and prompts are only read; what is sent along with the request for them is a flow all the same.
        sent = resolved or ResolvedInput(dict(arguments), dict(arguments))
        ruling = await self._service.rules.ruling(entry, sent.arguments) if entry.kind == "tool" else NO_RULE
        kind, name = call_kind(entry), entry.name
        if ruling.action == "deny":
            self._decisions.note(name, "denied", "rule", rule=ruling.rule)
            hint = "The operator's rules about approvals deny this call; do without it."
            raise AccessDeniedError(f"{entry_label(entry)} may not be called so", tool_name=name, hint=hint)
        flow = await self.flow.ruling(entry, sent.displayed, sent.references) if self.flow is not None else NO_FLOW
        if flow.action == "deny":
            self._decisions.note(name, "denied", "flow", flow=flow.rule, sources=flow.sources)
            raise FlowDeniedError(
                f"{entry_label(entry)} may not be given what {source_names(flow.sources)} returned",
                tool_name=name,
                called=kind,
            )
        if "ask" in (ruling.action, flow.action):
            if check_input is not None:
                await check_input()
            rule = ruling.rule if ruling.action == "ask" else 0
            await self._ask(entry, sent.arguments, rule, flow, resolved, current_entry=current_entry)
        await self.questions.continue_here()
        if kind == "tool":
            _admitted.set(name)

    async def plan(self, find: planned_calls.FindEntry, foresee: Foresee) -> None:
        """Ask for the calls that the script names, if that is to be done before its first call.

        Args:
            find: Gives the tool of a name.
            foresee: Gives the calls.

        Raises:
            ApprovalDeniedError: a person wants the run to end.
            ApprovalRequiredError: there is no answer.
        """
        self._planned_calls = planned_calls.PlannedCalls(foresee)
        channel, service = self.questions.channel, self._service
        if not service.options.ask_first or channel is None:
            return
        groups = await planned_calls.planned_groups(await self._planned_calls.calls(), service.rules, find)
        if not groups:
            return
        text, groups = planned_calls.question(groups)
        if self.earlier is not None and not self.earlier.waits_for(sha256(text)):
            return  # it has been answered on another instance
        requests = [group.request(self._identity.caller, self._identity.run_id) for group in groups]
        self._decisions.open = {id(request): (request, None) for request in requests}
        try:
            question = channel.elicit(text, planned_calls.form(groups))
            allowed = await self.questions.ask(requests[0], question, partial(planned_calls.read_form, groups=groups))
        finally:
            self._decisions.open.clear()
        if allowed is None:
            raise self._decisions.denied(requests[0], "client", "a person denied the calls of this script", stops=True)
        for group, calls in zip(groups, allowed, strict=True):
            if calls:
                grant = self._grant(await self._key(group.entry), match=group.match, calls=calls, ahead=True)
                fields = {"scope": "calls", "calls": calls, "grant": grant}
                self._decisions.note(group.entry.name, "allowed", "client", rule=group.rule, **fields)

    async def ask(self, entry: CatalogEntry, arguments: Mapping[str, object]) -> None:
        """Return if a person allows a call that no rule is about: of code, all of which they see as it is.

        Raises:
            ApprovalDeniedError: a person denies it.
            ApprovalRequiredError: there is no way to ask, or no answer.
        """
        await self._ask(entry, arguments, 0, is_code=True)

    async def _ask(
        self,
        entry: CatalogEntry,
        arguments: Mapping[str, object],
        rule: int,
        flow: FlowRuling = NO_FLOW,
        resolved: ResolvedInput | None = None,
        *,
        current_entry: CurrentEntry | None = None,
        is_code: bool = False,
    ) -> None:
        readable = arguments if resolved is None else resolved.displayed
        for_approver = self._service.options.approver is not None
        describe = partial(describe_input, readable, is_code=is_code, for_approver=for_approver)
        large = exceeds_chars(readable, QUICK_CHARS)
        masked, shown, digest, unshown_chars = await self._describing.run(describe) if large else describe()
        if resolved is not None and resolved.data:
            # A text that reads like what is shown of data is another input.
            digest = sha256(json.dumps([digest, *map(" ".join, resolved.data)]))
        identity, record = self._identity, self._decisions.record
        sources = flow.sources if flow.action == "ask" else ()
        key = await self._key(entry, sources)
        call = PendingCall(key, CallInput(arguments, digest), current_entry)
        request = ApprovalRequest(
            entry.name,
            entry.server,
            masked,
            rule,
            identity.caller,
            identity.run_id,
            None if record is None else record.line,
            kind=call_kind(entry),
            sources=sources,
            shown=shown,
            digest=digest,
            unshown_chars=unshown_chars,
            alone=record is None,
        )
        if (folder := self._service.folder) is not None:
            granted = self._service.grants.of_tool(key)
            for withdrawn in await to_thread.run_sync(folder.withdrawn, granted) if granted else ():
                self._service.grants.revoke(withdrawn)
        ahead = not for_approver
        if await self._use_grant(call, request, ahead=ahead):
            return
        self._decisions.set_gated(True)
        await self._decide(call, request, ahead=ahead)
        self._decisions.set_gated(False)

    async def _decide(self, call: PendingCall, request: ApprovalRequest, *, ahead: bool) -> None:
        """Return if somebody allows the call now; raise what they, or nobody, say otherwise."""
        key, waiting = call.key, id(request)
        self._decisions.open[waiting] = request, key
        try:
            # The calls made together with this one are open, too, by the time at which the run may have to end.
            await asyncio.sleep(0)
            async with self.questions.turn:
                if await self._use_grant(call, request, ahead=ahead):
                    return None
                request = replace(
                    request,
                    approved=self._decisions.approved(request.tool),
                    foreseen=await self._planned_calls.count(request.tool),
                    fixed=await self._planned_calls.fixed(request.tool, request.line, call.input.arguments),
                )
                by: By = "approver"
                decision = await self.questions.ask_operator(request, key)
                if decision is None and await self._use_grant(call, request, ahead=True):
                    return None
                if decision is None and not self.questions.batches:
                    decision, by = await self.questions.ask_client(request, key), "client"
                if decision is not None:
                    return await self._settle(call, request, decision, by)
            await self._settle(call, request, await self.questions.ask_client(request, key), "client")
        finally:
            self._decisions.open.pop(waiting, None)

    async def _key(self, entry: CatalogEntry, sources: Sequence[str] = ()) -> GrantKey:
        large = exceeds_chars(entry.input_schema, QUICK_SCHEMA_CHARS)
        version = await to_thread.run_sync(entry_version, entry, sources) if large else entry_version(entry, sources)
        identity = self._identity
        return GrantKey(identity.caller, identity.session, identity.run_id, entry.name, version)

    def _grant(self, key: GrantKey, **bounds: Any) -> str:
        """Keep what a person has allowed; the id of the grant."""
        self._granted = True
        grant = self._service.grants.add(key, **bounds)
        if (folder := self._service.folder) is not None:
            in_thread(folder.keep_grant, grant)
        return grant.id

    async def _use_grant(self, call: PendingCall, request: ApprovalRequest, *, ahead: bool) -> bool:
        if not self._service.grants.of_tool(call.key):
            return False
        await self._check_unchanged(call, request, "this run looked it up")
        grant = self._service.grants.use(call.key, call.input, ahead=ahead)
        if grant is not None:
            self._decisions.count(request, "grant", grant=grant.id)
        return grant is not None

    async def _check_unchanged(self, call: PendingCall, request: ApprovalRequest, since: str) -> None:
        """Raise ApprovalRequiredError where what would be called now is not what was asked about, or allowed before."""
        if call.current_entry is None:
            return
        now = await call.current_entry()
        if now is None or await self._key(now, request.sources) != call.key:
            raise self._decisions.changed(request, since, gone=now is None)

    async def _settle(self, call: PendingCall, request: ApprovalRequest, decision: Decision, by: By) -> None:
        """Keep what a decision allows beyond this call, or raise what it denies."""
        if decision.action != "allow":
            raise self._decisions.denied(request, by, "a person denied it", stops=decision.action == "stop")
        await self._check_unchanged(call, request, "a person was asked about it")
        key = call.key
        grant: str | None = None
        if decision.scope == "calls" and decision.calls > 1:
            grant = self._grant(key, calls=decision.calls - 1)
        elif decision.scope in ("input", "fixed"):
            match: Match | None = Match(request.digest, request.shown)
            if decision.scope == "fixed":
                match = Match.of_part(call.input.arguments, decision.fixed)
            if match is None:
                names = ", ".join(decision.fixed)
                logger.warning("approvals: %r is allowed once: its input has no (short) %s", request.tool, names)
            else:
                grant = self._grant(key, lifetime=decision.lifetime, match=match)
        self._decisions.count(request, by, scope=decision.scope, calls=decision.calls, grant=grant)
