"""`ApprovalService`: what the approvals of all runs of one plugin share."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

from anyio import to_thread
from fastmcp import Context
from fastmcp.exceptions import ToolError
from fastmcp.tools.base import InputRequiredToolResult, ToolResult
from mcp_types import CreateMessageRequest

from codecall.approvals.channel import CHANNEL
from codecall.approvals.elicitation import (
    Channel,
    Model,
    RequestChannel,
    UnansweredError,
    can_answer_requests,
    can_elicit,
    can_sample,
    is_modern,
)
from codecall.approvals.flows import FlowRules
from codecall.approvals.folder import ApprovalFolder, default_folder
from codecall.approvals.gate.decisions import follow_values
from codecall.approvals.gate.gate import CallGate
from codecall.approvals.grants import Grants
from codecall.approvals.handover import WaitingRuns
from codecall.approvals.interfaces import RunIdentity
from codecall.approvals.options import ApprovalOptions, FlowRule
from codecall.approvals.rounds import RoundTrips
from codecall.approvals.rules import RuleSet
from codecall.audit.recorder import Audit, new_call_id
from codecall.calls.clock import MAX_QUESTION_S
from codecall.catalog.entries import CatalogEntry
from codecall.identity import client_key, is_local, rate_limit_key
from codecall.key_value import KeyValueStore
from codecall.quota import RunSlots
from codecall.sandbox.clock import RunClock
from codecall.server.disconnect import while_connected


class ApprovalService:
    """The approvals of one plugin: its rules, and the grants that persons have given.

    Args:
        options: The option `approvals`.
        audit: The record of runs.
        slots: The slots of the plugin's runs that wait.
        flows: The option `flows`.
        samples: Whether clients' models are asked, too.
        store: Where runs are recorded, so that other instances can go on with those that wait; None: nowhere.
    """

    def __init__(
        self,
        options: ApprovalOptions,
        audit: Audit,
        slots: RunSlots,
        flows: Sequence[FlowRule] = (),
        *,
        samples: bool = False,
        store: KeyValueStore | None = None,
        asks_within: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self.options = options
        self._samples = samples
        self.audit = audit
        self.rules = RuleSet(options.rules, asks_within)
        self.flows = FlowRules(flows) if flows else None
        self.folder = _approval_folder(options.folder) if options.folder else None
        self.grants = Grants(options.run_grant_s, options.session_grant_s)
        # Questions of composite tools have times of their own.
        wait_s = max(options.wait_s, MAX_QUESTION_S)
        shared = WaitingRuns(store, wait_s) if store is not None else None
        self.rounds = RoundTrips(self.grants, shared, options.release_s, options.max_rounds)
        self._slots = slots

    def can_ask(self, context: Context) -> bool:
        """Whether somebody can be asked for the calls of a request."""
        return self.options.approver is not None or (self.options.ask_client and can_elicit(context))

    async def gate(
        self, context: Context, run_id: str, clock: RunClock, script: str = "", composite: str = ""
    ) -> CallGate:
        """Create the gate of one run for the request of `context`.

        Args:
            context: FastMCP's context of the request.
            run_id: The id of the run.
            clock: Stands still while a person is asked.
            script: The script that runs.
            composite: Name of the composite tool that runs it, if one does.
        """
        rounds = CHANNEL.get()
        first = rounds if rounds is not None and rounds.attach(clock) else None
        earlier, notes = (first.earlier, first.notes) if first is not None else (None, None)
        others = _channel(context) if can_answer_requests(context) else None
        channel = others if self.options.ask_client and can_elicit(context) else None
        session = await rate_limit_key("session", context, None)
        identity = RunIdentity(run_id, client_key(context), session, is_local(context))
        flow = follow_values(self.flows, script, context.fastmcp, composite)
        return CallGate(self, context, identity, channel, clock, others=others, flow=flow, earlier=earlier, notes=notes)

    def model(self, context: Context, run: RunIdentity | None = None) -> Model | None:
        """The way to the model of the client of a request; None if the client offers none.

        Args:
            context: FastMCP's context of the request.
            run: The run that asks; None: no run does.
        """
        channel = _channel(context) if self._samples and can_sample(context) else None
        if channel is None:
            return None
        asking = run or RunIdentity(new_call_id(), client_key(context), "", is_local(context))
        return _CountedModel(channel, partial(self.wait, asking))

    async def respond(
        self,
        context: Context,
        name: str,
        arguments: Mapping[str, object],
        start: Callable[[], Awaitable[ToolResult]],
        *,
        watch: bool = False,
    ) -> ToolResult:
        """Answer a request to a meta-tool or a composite tool in whose run a person may have to be asked.

        Args:
            context: FastMCP's context of the request.
            name: Name of the tool.
            arguments: Its arguments.
            start: Performs it.
            watch: Whether what it does ends with a client that goes away before it has an answer.
        """
        if can_answer_requests(context) and is_modern(context) and CHANNEL.get() is None:
            answer = self.rounds.respond(context, name, arguments, start)
            return await (while_connected(context, answer) if watch else answer)
        return await start()

    async def call(
        self,
        context: Context,
        name: str,
        arguments: Mapping[str, object],
        *,
        find: Callable[[], Awaitable[CatalogEntry]],
        make: Callable[[], Awaitable[ToolResult]],
    ) -> ToolResult:
        """Answer a request to a tool that a client calls itself, once its call is allowed.

        Args:
            context: FastMCP's context of the request.
            name: Name of the tool.
            arguments: Its input.
            find: Gives the tool.
            make: Makes the call.

        Raises:
            ToolCallError: a rule or a person denies the call, or there is no way to ask.
            ToolError: the tool asks a question of its own.
        """

        async def start() -> ToolResult:
            gate = await self.gate(context, new_call_id(), RunClock())
            try:
                await gate.admit(await find(), arguments, current_entry=find)
                result = await make()
            finally:
                gate.end()
            if isinstance(result, InputRequiredToolResult):
                raise ToolError(f"{name} asks a question of its own: call it through CodeCall, which passes it on")
            return result

        return await self.respond(context, name, arguments, start)

    async def flush(self) -> None:
        """The server ends: calls that wait end first, so that they are in the record."""
        await self.rounds.flush()
        if self.folder is not None:
            await to_thread.run_sync(self.folder.close)

    def wait(self, run: RunIdentity) -> AbstractContextManager[str]:
        """Count a run as waiting; why there is no room for one more, empty if there is."""
        return self._slots.hold(run.run_id, run.caller, alone=run.alone)


class _CountedModel:
    """A client's model; what waits for it is counted as what waits for a person is.

    Args:
        channel: The way to it.
        wait: See `ApprovalService.wait`.
    """

    def __init__(self, channel: Channel, wait: Callable[[], AbstractContextManager[str]]) -> None:
        self._channel = channel
        self._wait = wait

    async def ask(self, request: CreateMessageRequest) -> object:
        """See `Model`."""
        with self._wait() as full:
            if full:
                raise UnansweredError(full)
            return await self._channel.ask(request)


def _approval_folder(folder: Path) -> ApprovalFolder:
    if (path := folder.expanduser()) == default_folder():
        return ApprovalFolder(path, process=secrets.token_hex(16))
    return ApprovalFolder(path)


def _channel(context: Context) -> Channel | None:
    """The way to the client of a request; None where it can be asked in an answer only, and this is none."""
    return CHANNEL.get() or (None if is_modern(context) else RequestChannel(context))
