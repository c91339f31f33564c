"""What the gate of a run is given: whose run it is, and what the gates of all runs share."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from codecall.approvals.folder import ApprovalFolder
from codecall.approvals.grants import Grants
from codecall.approvals.options import ApprovalOptions
from codecall.approvals.rules import RuleSet
from codecall.audit.recorder import Audit


class Approvals(Protocol):
    """What the gates of all runs share; `ApprovalService` has it."""

    @property
    def options(self) -> ApprovalOptions:
        """The option `approvals`."""
        ...

    @property
    def rules(self) -> RuleSet:
        """Its rules, compiled."""
        ...

    @property
    def grants(self) -> Grants:
        """What persons have allowed."""
        ...

    @property
    def audit(self) -> Audit:
        """The record of runs."""
        ...

    @property
    def folder(self) -> ApprovalFolder | None:
        """Where the operator decides; None: nowhere."""
        ...

    def wait(self, run: RunIdentity) -> AbstractContextManager[str]:
        """Count a run as waiting; why there is no room for one more, empty if there is."""
        ...


@dataclass(frozen=True, slots=True)
class RunIdentity:
    """Whose run it is."""

    run_id: str
    caller: str
    session: str
    alone: bool
    """Whether there are no other callers: over stdio, or in this process."""
