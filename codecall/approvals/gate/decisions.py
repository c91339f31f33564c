"""What comes of the calls of one run that rules are about: the record of it, and the errors of those not made."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Final, Literal, NamedTuple

from codecall.approvals.flows import FlowRules, ValueFlow
from codecall.approvals.grants import GrantKey
from codecall.approvals.interfaces import Approvals, RunIdentity
from codecall.approvals.request import ApprovalRequest, CallInput
from codecall.calls.interfaces import CurrentEntry
from codecall.catalog.entries import COMPOSITE_APP, CatalogEntry
from codecall.envelopes import CallRecord
from codecall.errors import ApprovalDeniedError, ApprovalRequiredError, Location

By = Literal["rule", "flow", "grant", "approver", "client"]


class CurrentCall(NamedTuple):
    """The call that a task makes."""

    decisions: CallDecisions
    """Those of its run."""
    record: CallRecord
    flow: ValueFlow | None
    """Follows the values of its run."""

    @classmethod
    def begin(cls, decisions: CallDecisions, record: CallRecord, flow: ValueFlow | None) -> CurrentCall:
        """A call that begins."""
        if flow is not None:
            flow.begin(record)
        return cls(decisions, record, flow)


CURRENT_CALL: Final[ContextVar[CurrentCall | None]] = ContextVar("codecall_gated_call", default=None)
"""The call that this task makes."""


class PendingCall(NamedTuple):
    """A call that somebody is asked about."""

    key: GrantKey
    """What a grant for it is bound to."""
    input: CallInput
    current_entry: CurrentEntry | None


class CallDecisions:
    """The decisions about the calls of one run.

    Args:
        service: What the gates of all runs share.
        identity: Whose run it is.
        hint: What to do without a decision; None: what the error says itself.
    """

    __slots__ = ("_approved", "_hint", "_identity", "_service", "open")

    def __init__(self, service: Approvals, identity: RunIdentity, hint: str | None = None) -> None:
        self._service = service
        self._identity = identity
        self._hint = hint
        self.open: dict[int, tuple[ApprovalRequest, GrantKey | None]] = {}
        """The calls that wait for their approval, in order, with what a decision about one is bound to; None: it is
        asked for before it is made."""
        self._approved: dict[str, int] = {}
        """How many calls of each tool have been allowed by a person."""

    @property
    def record(self) -> CallRecord | None:
        """The call of this run that this task makes."""
        current = CURRENT_CALL.get()
        return current.record if current is not None and current.decisions is self else None

    def set_gated(self, gated: bool) -> None:
        """Note whether the call of this run that this task makes has still to be allowed."""
        if (record := self.record) is not None:
            record.is_gated = gated

    def note_called(self, entry: CatalogEntry) -> None:
        """Note what the call of this run that this task makes has found by its name."""
        if (record := self.record) is None:
            return
        if entry.kind == "resource":
            record.read_as = entry.name
        elif entry.app_id == COMPOSITE_APP:
            # Until a run of it begins: it may be answered by a cache, without one.
            record.made_of = None

    def approved(self, tool: str) -> int:
        """How many calls of a tool have been allowed by a person."""
        return self._approved.get(tool, 0)

    def count(self, request: ApprovalRequest, by: By, **fields: object) -> None:
        """A call has been allowed."""
        self._approved[request.tool] = self.approved(request.tool) + 1
        self.note(request.tool, "allowed", by, rule=request.rule, sources=request.sources, **fields)

    def denied(
        self, request: ApprovalRequest, by: By, reason: str, *, stops: bool = False, hint: str | None = None
    ) -> ApprovalDeniedError:
        """The error of a call that somebody has denied; `stops` ends the run."""
        self.note(request.tool, "stopped" if stops else "denied", by, rule=request.rule, sources=request.sources)
        message = f"{request.label} was not called: {reason}"
        error = ApprovalDeniedError(message, tool_name=request.tool, called=request.kind, hint=hint)
        error.ends_script = stops
        error.location = self._location
        return error

    def required(self, request: ApprovalRequest, reason: str, *, hint: str | None = None) -> ApprovalRequiredError:
        """The error of a call without a decision; its details list all calls that wait."""
        self.note(request.tool, "unanswered", "client", rule=request.rule, sources=request.sources)
        calls = [waiting.as_dict() for waiting, _ in self.open.values()]
        error = ApprovalRequiredError(
            f"{request.label} was not called: a person has to allow it, and {reason}",
            tool_name=request.tool,
            called=request.kind,
            details={"calls": calls},
            hint=hint or self._hint,
        )
        error.location = self._location
        return error

    def changed(self, request: ApprovalRequest, since: str, *, gone: bool) -> ApprovalRequiredError:
        """The error of a call of what is not what was asked about, or allowed before; `since` says when that was."""
        self.note(request.tool, "changed", "rule", rule=request.rule, sources=request.sources)
        error = ApprovalRequiredError(
            f"{request.label} was not called: it {'was taken away' if gone else 'has changed'} since {since}",
            tool_name=request.tool,
            called=request.kind,
            details={"calls": [request.as_dict()]},
            hint="Look up what it is now, then make the call again: it is asked about anew.",
        )
        error.location = self._location
        return error

    def note(self, tool: str, decision: str, by: By, **fields: object) -> None:
        """Enter what was decided in the record of runs."""
        audit, record = self._service.audit, self.record
        if audit.enabled:
            number = record.number if record is not None else None
            body = {"number": number, "name": tool, "decision": decision, "by": by, **fields}
            audit.note("codecall.approval", self._identity.run_id, self._identity.caller, lambda: body)

    @property
    def _location(self) -> Location | None:
        record = self.record
        return record.location if record is not None else None


def follow_values(rules: FlowRules | None, script: str, server: object, composite: str) -> ValueFlow | None:
    """What follows the values of a run that begins now, see `ValueFlow`; None without rules, for it or what it is
    in."""
    outer = CURRENT_CALL.get()
    if outer is not None and outer.flow is not None:
        return ValueFlow(rules, script, (outer.flow, outer.record), server=server, composite=composite)
    return None if rules is None else ValueFlow(rules, script, server=server)
