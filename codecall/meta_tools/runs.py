"""A run with its broker, its record, its progress and its memory: what scripts and composite tools share."""

from __future__ import annotations

import base64
import hashlib
import re
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from fastmcp.server.context import Context
from mcp_types import ContentBlock

from codecall.audit.events import RunDetails
from codecall.calls.blocks import BlockLimits, BlockStore
from codecall.calls.broker import Broker
from codecall.catalog.components import component_view
from codecall.catalog.view import CatalogView
from codecall.envelopes import ExecutionResult
from codecall.identity import client_key, is_local
from codecall.meta_tools.base import Runtime, observed_output_schema, result_observer
from codecall.meta_tools.run_request import ExecuteRequest, RunInfo, RunLimits
from codecall.options import PluginOptions
from codecall.presets import PRESET_NAMES, Preset
from codecall.results.languages import JAVASCRIPT, STARLARK, ReadingSyntax
from codecall.results.service import CallerResults
from codecall.resume.refusal import ResumeError
from codecall.sandbox.clock import RunClock
from codecall.sandbox.enclave import refuse_excess
from codecall.sandbox.interfaces import ObserverGroup, RunHooks, RunObserver
from codecall.server.disconnect import run_while_connected
from codecall.server.progress import progress_from_context
from codecall.telemetry.spans import RequestSpan, RunTelemetry, current_request

if TYPE_CHECKING:
    from codecall.approvals.gate.gate import CallGate
    from codecall.extraction.extractor import RunExtractor
    from codecall.resume.replay import RunMemory
    from codecall.resume.stopped_runs import StoppableRun


_MIB = 1024 * 1024

_CLOCK: Final = re.compile(r"\bDate\b|\brandom\b|\bnow\b")
"""What a script may read that another run of it reads otherwise."""


def max_value_bytes(preset: Preset) -> int:
    """Longest JSON text of one tool's value that a script takes: a quarter of its heap, at most 16 MiB.

    Parsed data takes several times its text's room, and four such values fit into one frame to the worker.
    """
    return min(preset.memory_mb * _MIB // 4, 16 * _MIB)


@dataclass(frozen=True, slots=True)
class StartedRun:
    """What a run works with."""

    info: RunInfo
    broker: Broker
    hooks: RunHooks
    gate: CallGate | None = None
    """Asks persons, where they may have to be asked."""


Run = Callable[[], Awaitable[ExecutionResult]]
"""Runs a script, or looks at it."""


def start_script(
    runtime: Runtime,
    context: Context,
    request: ExecuteRequest,
    *,
    check: Callable[[StartedRun, Run, Run], Awaitable[ExecutionResult]] | None = None,
) -> Callable[[StartedRun], AbstractAsyncContextManager[Awaitable[ExecutionResult]]]:
    """What runs the script of `request` in the enclave, for `run_observed`.

    Args:
        runtime: The services of the plugin.
        context: FastMCP's context of the request.
        request: What to run.
        check: Decides about the script before it runs: gets a dry run of it and the run itself; gives the result.
    """

    @asynccontextmanager
    async def start(run: StartedRun) -> AsyncGenerator[Awaitable[ExecutionResult]]:
        async with runtime.enclaves.use(context) as enclave:
            script = partial(
                enclave.run,
                request.script,
                run.broker,
                context=request.context,
                preset=request.preset,
                owner=run.info.caller,
                starlark=request.starlark,
            )
            if check is None:
                yield script(dry_run=request.dry_run, hooks=run.hooks)
            else:
                yield check(run, partial(script, dry_run=True), partial(script, hooks=run.hooks))

    return start


async def run_script(
    runtime: Runtime,
    context: Context,
    view: CatalogView,
    request: ExecuteRequest,
    *,
    broker_class: type[Broker] = Broker,
) -> tuple[ExecutionResult, list[ContentBlock]]:
    """Run the script of `request` for the client of `context`; its result, and the content blocks that it shows.

    Raises:
        ResumeError: the run named in `resume_from` cannot be resumed; nothing has run.
    """
    start = start_script(runtime, context, request)
    return await run_observed(runtime, context, view, request, start, broker_class=broker_class)


async def run_observed(
    runtime: Runtime,
    context: Context,
    view: CatalogView,
    request: ExecuteRequest,
    start: Callable[[StartedRun], AbstractAsyncContextManager[Awaitable[ExecutionResult]]],
    *,
    limits: RunLimits | None = None,
    broker_class: type[Broker] = Broker,
) -> tuple[ExecutionResult, list[ContentBlock]]:
    """Run what `start` gives, with its broker, its record, its progress and its memory; its result, and the content
    blocks that it shows.

    Args:
        runtime: The services of the plugin.
        context: FastMCP's context of the request.
        view: The tools of its caller.
        request: What runs.
        start: Runs it.
        limits: Times that are not those of the preset.
        broker_class: What performs its calls.

    Raises:
        ResumeError: the run named in `resume_from` cannot be resumed; nothing has run.
    """
    options = runtime.options
    preset = request.preset or options.preset
    limits = limits or RunLimits(preset.tool_call_timeout_ms, preset.max_duration_ms)
    info = RunInfo(_run_id(context), client_key(context), request)
    if not request.workflow and (refused := await _refuse_excess(runtime, info, preset)) is not None:
        return refused, []
    clock = _clock(runtime, context, info)
    relay = runtime.relay(context)
    gate = (
        await relay.gate(context, info.run_id, clock, request.script, request.composite) if relay is not None else None
    )
    broker = broker_class(
        context,
        view,
        allowed_tools=request.allowed_tools,
        tool_call_timeout_ms=limits.tool_call_timeout_ms,
        max_value_bytes=max_value_bytes(options.preset),
        sanitization=options.sanitization,
        components=component_view(context, options),
        on_result=result_observer(runtime, context),
        observed_schema=partial(observed_output_schema, runtime, context),
        create_blocks=lambda: BlockStore(BlockLimits.from_preset(options.preset), info.caller),
        gate=gate.admit if gate is not None else None,
        questions=gate.questions.pass_on if gate is not None and options.approvals is not None else None,
        clock=clock,
        composite=request.composite,
    )
    progress = progress_from_context(options.progress, context, info.run_id)
    observers = _observers(runtime, info, progress)
    if gate is not None:
        observers.append(gate)
    if (span := current_request()) is not None:
        # First: what the others do for a call belongs to its span.
        observers.insert(0, _telemetry_observer(span, broker, options, info))
    stoppable: StoppableRun | None = None
    if runtime.asking is not None and gate is not None and gate.questions.leaves_to_operator and not request.dry_run:
        from codecall.meta_tools.run_memory import begin_stoppable  # most servers leave no calls to an operator

        stoppable = await begin_stoppable(runtime.asking.stopped_runs(), info, options.resume)
    resume = options.resume if stoppable is None else stoppable.options
    with stoppable or nullcontext():
        try:
            memory: RunMemory | None = None
            if resume is not None and not request.dry_run:
                from codecall.meta_tools.run_memory import create_memory  # few servers keep runs

                memory = await create_memory(
                    resume,
                    options,
                    info,
                    broker,
                    limits,
                    is_task=context.task_id is not None,
                    stoppable=stoppable,
                    earlier=gate.earlier if gate is not None else None,
                )
        except ResumeError as refused:
            if runtime.audit.enabled:
                details = {"what": "resume", "code": refused.code, "resumed_from": request.resume_from}
                runtime.audit.note("codecall.execute.blocked", info.run_id, info.caller, lambda: details)
            raise
        if gate is not None:
            _connect(gate, broker)
        if gate is not None and memory is not None:
            # A run without a worker has none to give up, and one that reads the clock does something else the next
            # time.
            stays = request.workflow or _CLOCK.search(request.script) is not None
            gate.keep_record(memory, has_worker=not stays)
        syntax = JAVASCRIPT if request.starlark is None else STARLARK
        results = caller_results(runtime, info.caller, syntax)
        blocks = partial(_block_store, broker)
        on_plan = partial(gate.plan, broker.find) if gate is not None else None
        extractor = _extractor(runtime, context, gate, clock)
        hooks = RunHooks(
            info.run_id,
            ObserverGroup(observers),
            memory,
            results,
            request.whole_result,
            blocks,
            clock,
            on_plan,
            extractor,
        )
        asks = gate if runtime.approvals is not None else None
        async with progress or nullcontext(), start(StartedRun(info, broker, hooks, asks)) as run:
            observed = hooks.observe(run if memory is None else memory.record_outcome(run))
            watched = options.shutdown.end_abandoned and not (gate is not None and gate.outlives_request)
            result = await (run_while_connected(context, observed) if watched else observed)
        if stoppable is not None:
            result = stoppable.with_result(result)
    return _with_blocks(result, broker)


async def _refuse_excess(runtime: Runtime, info: RunInfo, preset: Preset) -> ExecutionResult | None:
    """The result of a script that is too long, which nothing that observes runs gets to see; None if it is not."""
    script, dry_run = info.request.script, info.request.dry_run
    refused = await refuse_excess(script, preset, runtime.options.sanitization, dry_run=dry_run)
    if refused is not None:
        runtime.audit.record_excess(info.run_id, info.caller)
    return None if refused is None else replace(refused, run_id=info.run_id)


def _with_blocks(result: ExecutionResult, broker: Broker) -> tuple[ExecutionResult, list[ContentBlock]]:
    """A result with warnings of what stayed outside of it and of its calls, and the content blocks that it shows."""
    store = _block_store(broker)
    warnings = [*(store.warnings() if store is not None else ()), *broker.parameter_warnings()]
    if warnings:
        result = replace(result, warnings=(*result.warnings, *warnings))
    return result, store.content(result.blocks) if store is not None else []


def _extractor(runtime: Runtime, context: Context, gate: CallGate | None, clock: RunClock) -> RunExtractor | None:
    """What answers `extract` in a run; None where nothing may."""
    options = runtime.options.extract
    if options is None:
        return None
    from codecall.extraction.extractor import RunExtractor  # few servers have it

    approvals = runtime.approvals
    model = approvals.model(context, gate.identity) if approvals is not None and gate is not None else None
    return RunExtractor(options, model, clock)


def _clock(runtime: Runtime, context: Context, info: RunInfo) -> RunClock:
    """The clock of a run; the run lends its place in the pool while it has one of the slots of those that wait."""
    if runtime.asking is None:
        return RunClock()
    return RunClock(partial(runtime.asking.slots.hold, info.run_id, info.caller, alone=is_local(context)))


def _block_store(broker: Broker) -> BlockStore | None:
    """The content blocks that the calls of a broker have returned."""
    return broker.blocks if isinstance(broker.blocks, BlockStore) else None


def _connect(gate: CallGate, broker: Broker) -> None:
    """Tell the gate and the broker of a run of each other."""
    gate.questions.on_waited = broker.refresh
    if gate.flow is not None:
        gate.flow.data = partial(_data, broker)


def _data(broker: Broker, reference: str) -> str | None:
    """The base64 of a content block that the calls of a broker have returned; None where it has none."""
    store = _block_store(broker)
    return store.data(reference) if store is not None else None


def caller_results(runtime: Runtime, caller: str, syntax: ReadingSyntax = JAVASCRIPT) -> CallerResults | None:
    """The store for results of this caller that are too large for an answer; None where nothing is kept. `syntax` is
    that of the language in which hints say how they are read."""
    if runtime.results is None:
        return None
    options = runtime.options
    inline_bytes = min(options.inline_result_bytes, options.preset.max_result_bytes)
    return CallerResults(runtime.results, caller, max_value_bytes(options.preset), inline_bytes, syntax)


def _run_id(context: Context) -> str:
    """Create the id of a run; that of a background task is the same in every worker.

    It is in logs, so it does not reveal the task's own id, with which anybody may ask for an anonymous task's result.
    """
    if context.task_id is None:
        return f"run_{secrets.token_hex(16)}"
    digest = hashlib.blake2b(context.task_id.encode(), digest_size=16, person=b"codecall run").digest()
    return f"run_{base64.urlsafe_b64encode(digest).rstrip(b'=').decode()}"


def _observers(runtime: Runtime, info: RunInfo, progress: RunObserver | None) -> list[RunObserver]:
    """The observers of the run: its progress, its record, and those of the options."""
    observers: list[RunObserver] = []
    if progress is not None:
        observers.append(progress)
    options, request = runtime.options, info.request
    if runtime.audit.observes:
        details = RunDetails(
            info.run_id,
            info.caller,
            request.script,
            options.preset_name,
            request.preset or options.preset,
            request.context_bytes,
            request.allowed_tools,
            request.dry_run,
            request.resume_from,
            request.tool,
            request.language,
            request.context,
        )
        observers += runtime.audit.observers(details)
    return observers


def _telemetry_observer(span: RequestSpan, broker: Broker, options: PluginOptions, info: RunInfo) -> RunObserver:
    """The observer that reports the run to OpenTelemetry."""
    return RunTelemetry(
        span,
        broker.used_components,
        run_id=info.run_id,
        preset=options.preset_name if options.preset_name in PRESET_NAMES else "custom",
        script=info.request.script,
        context_size=info.request.context_bytes,
        dry_run=info.request.dry_run,
    )
