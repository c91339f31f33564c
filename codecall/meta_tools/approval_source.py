"""`PluginApprovals`: who asks persons in the runs of a plugin, created once something may ask."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Final

from codecall.approvals.options import ApprovalOptions
from codecall.catalog.apps import FastMCPServer
from codecall.catalog.components import providers_and_transforms
from codecall.errors import OptionsError
from codecall.options import PluginOptions
from codecall.quota import RunSlots

if TYPE_CHECKING:
    from fastmcp import Context

    from codecall.approvals.service import ApprovalService
    from codecall.audit.recorder import Audit
    from codecall.resume.stopped_runs import StoppedRuns

_mounts_ask: Final[ContextVar[tuple[Context, bool] | None]] = ContextVar("codecall_mounts_ask", default=None)
"""Whether something that is mounted on the server of this request may ask, which is looked up once a request."""


class PluginApprovals:
    """Asks persons in the runs of one plugin. What that takes is loaded once something may ask by
    the plugin's own options, or by those of what is mounted on its server.

    Args:
        options: The options of the plugin.
        audit: The record of runs.
        is_composite: Whether the tool of a name is a composite tool of that plugin.

    Raises:
        OptionsError: runs cannot give up their workers.
    """

    def __init__(self, options: PluginOptions, audit: Audit, is_composite: Callable[[str], bool]) -> None:
        rules = options.approvals or ApprovalOptions(rules=())
        self.slots = RunSlots(rules.max_waiting)
        """The slots of its runs that wait, whoever has asked."""
        self._create = partial(_create_approvals, options, rules, audit, self.slots, is_composite)
        self._service: ApprovalService | None = None
        self._stopped_runs: StoppedRuns | None = None
        self.asks = False
        """Whether something may ask by its own options."""
        self.prepare(options)

    def stopped_runs(self) -> StoppedRuns:
        """The runs that have ended because a call waits for the operator."""
        if self._stopped_runs is None:
            from codecall.resume.stopped_runs import StoppedRuns  # most servers leave no calls to an operator

            self._stopped_runs = StoppedRuns()
        return self._stopped_runs

    def prepare(self, options: PluginOptions) -> None:
        """Be ready for what these options let ask."""
        samples = options.extract is not None or options.embedding.strategy == "model"
        if options.approvals is not None or options.flows or samples or options.composite_tools:
            self._service = self._service or self._create(samples=samples)
            self.asks = True

    def service(self) -> ApprovalService | None:
        """What the plugin's own options need; None where they ask for nothing."""
        return self._service if self.asks else None

    def relay(self, context: Context) -> ApprovalService | None:
        """What passes on questions that are asked in the middle of a request, by its server or by what is mounted on
        it; None where nothing asks."""
        if self.asks:
            return self._service
        known = _mounts_ask.get()
        if known is None or known[0] is not context:
            known = context, _mounts_what_asks(context.fastmcp)
            _mounts_ask.set(known)
        if not known[1]:
            return None
        # Only what answers a request can pass on what is asked in the middle of it.
        self._service = self._service or self._create()
        return self._service

    async def waiting_run(self, state: str, caller: str) -> str | None:
        """See `ratelimit.continuations.Asking`."""
        return await self._service.rounds.waiting_run(state, caller) if self._service is not None else None

    async def flush(self) -> None:
        """The server ends, and with it the calls that wait for a person."""
        if self._service is not None:
            await self._service.flush()


def _mounts_what_asks(server: FastMCPServer) -> bool:
    """Whether a server that is mounted on this one has a plugin, or composite tools, that may ask."""
    parts = (getattr(part, "asking", None) for part in providers_and_transforms(server))
    return any(isinstance(asking, PluginApprovals) and asking.asks for asking in parts)


def _create_approvals(
    options: PluginOptions,
    rules: ApprovalOptions,
    audit: Audit,
    slots: RunSlots,
    is_composite: Callable[[str], bool],
    *,
    samples: bool = False,
) -> ApprovalService:
    from codecall.approvals.service import ApprovalService

    store = options.resume.store if options.resume is not None else None
    if "release_s" in rules.model_fields_set and rules.release_s is not None and store is None:
        raise OptionsError("approvals.release_s needs resume: the record from which a run goes on")
    return ApprovalService(rules, audit, slots, options.flows, samples=samples, store=store, asks_within=is_composite)
