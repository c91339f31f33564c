"""One run of a script for a request: what it is given, and who sees it."""

from __future__ import annotations

import base64
import hashlib
import logging
import secrets
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from fastmcp.server.context import Context

from codecall.calls.audit import RunRecord
from codecall.calls.audit_fields import Recorded
from codecall.calls.broker import Broker
from codecall.calls.callers import client_key
from codecall.calls.resuming import CannotResume, RunMemory
from codecall.catalog.offers import offers_of
from codecall.catalog.view import CatalogView
from codecall.envelopes import ExecutionResult
from codecall.meta_tools.base import Wiring
from codecall.meta_tools.leaving import unless_abandoned
from codecall.meta_tools.observing import watcher
from codecall.meta_tools.progress import progress_of
from codecall.meta_tools.results import Vault
from codecall.options import PRESET_NAMES, PluginOptions, Preset
from codecall.sandbox.services import RunWatch, Services, Watches
from codecall.telemetry.requests import Request, current
from codecall.telemetry.runs import WatchedRun

logger = logging.getLogger("codecall")

_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Asked:
    """What a client asks to have run."""

    script: str
    context: Mapping[str, Any] | None = None
    """`codecallContext`, checked."""
    allowed_tools: tuple[str, ...] | None = None
    """Names, URIs and globs; None allows all."""
    dry_run: bool = False
    context_bytes: int = 0
    """Of `context`, as JSON."""
    resume_from: str | None = None
    """The run to take up."""


@dataclass(frozen=True, slots=True)
class RunInfo:
    """What is known of a run before it begins."""

    run_id: str
    """Unguessable."""
    caller: str
    """Who it counts for, as a hash."""
    asked: Asked


def max_value_bytes(preset: Preset) -> int:
    """Longest JSON text of one tool's value that a script takes: a quarter of its heap, at most 16 MiB.

    Parsed data takes several times its text's room, and four such values fit into one frame to the worker.
    """
    return min(preset.memory_mb * _MIB // 4, 16 * _MIB)


async def run_script(wiring: Wiring, context: Context, view: CatalogView, asked: Asked) -> ExecutionResult:
    """Run what the client of `context` asks for.

    Raises:
        CannotResume: the run it is to take up cannot be; nothing has run.
    """
    options = wiring.options
    info = RunInfo(_run_id(context), client_key(context), asked)
    broker = Broker(
        context,
        view,
        allowed_tools=asked.allowed_tools,
        tool_call_timeout_ms=options.preset.tool_call_timeout_ms,
        max_value_bytes=max_value_bytes(options.preset),
        sanitization=options.sanitization,
        offers=offers_of(context, options),
        saw=watcher(wiring, context),
    )
    progress = progress_of(options.progress, context, info.run_id)
    watches = _watches(wiring, info, progress)
    if (request := current()) is not None:
        # First: what the others do for a call belongs to its span.
        watches.insert(0, _told(request, broker, options, info))
    try:
        memory = await _memory(options, context, info, broker)
    except CannotResume as refused:
        if wiring.audit.wanted:
            told = {"what": "resume", "code": refused.code, "resumed_from": asked.resume_from}
            wiring.audit.note("codecall.execute.blocked", info.run_id, info.caller, lambda: told)
        raise
    services = Services(info.run_id, Watches(watches), memory, _vault(wiring, info))
    async with progress or nullcontext(), wiring.enclaves.use(context) as enclave:
        run = enclave.run(
            asked.script,
            broker,
            context=asked.context,
            owner="" if options.pool.share_workers else info.caller,
            dry_run=asked.dry_run,
            services=services,
        )
        attended = services.attend(run if memory is None else memory.attend(run))
        return await (unless_abandoned(context, attended) if options.shutdown.end_abandoned else attended)


async def _memory(options: PluginOptions, context: Context, info: RunInfo, broker: Broker) -> RunMemory | None:
    """What remembers the calls of the run, and what is left of it if it was begun before."""
    if options.resume is None or info.asked.dry_run:
        return None
    lasts_s = options.preset.max_duration_ms / 1000
    memory = RunMemory(options.resume, run_id=info.run_id, owner=info.caller, lasts_s=lasts_s, admit=broker.admit)
    # A task whose server was killed starts again under the same id; what it had taken up itself is in what is left.
    again = context.task_id is not None and await memory.take_up(info.run_id, known=True)
    if info.asked.resume_from is not None and not again:
        await memory.take_up(info.asked.resume_from)
    return memory


def _vault(wiring: Wiring, info: RunInfo) -> Vault | None:
    """What keeps a result that is too large, and has the earlier ones of this caller."""
    if wiring.results is None:
        return None
    return Vault(wiring.results, info.caller, max_value_bytes(wiring.options.preset))


def _run_id(context: Context) -> str:
    """A new name for a run; that of a background task is always the same, whatever worker it is given to.

    It is in logs, so it does not tell the task's own id, with which anybody may ask for an anonymous task's result.
    """
    if context.task_id is None:
        return f"run_{secrets.token_urlsafe(16)}"
    digest = hashlib.blake2b(context.task_id.encode(), digest_size=16, person=b"codecall run").digest()
    return f"run_{base64.urlsafe_b64encode(digest).rstrip(b'=').decode()}"


def _watches(wiring: Wiring, info: RunInfo, progress: RunWatch | None) -> list[RunWatch]:
    """Who sees the run."""
    watches: list[RunWatch] = []
    if progress is not None:
        watches.append(progress)
    options, asked = wiring.options, info.asked
    if wiring.audit.wanted or options.audit.watchers:
        recorded = Recorded(
            info.run_id,
            info.caller,
            asked.script,
            options.preset_name,
            options.preset,
            asked.context_bytes,
            asked.allowed_tools,
            asked.dry_run,
            asked.resume_from,
        )
        if wiring.audit.wanted:
            watches.append(RunRecord(wiring.audit, recorded))
        watches.extend(watch for make in options.audit.watchers if (watch := _made(make, recorded)) is not None)
    return watches


def _made(make: Callable[[Recorded], RunWatch], recorded: Recorded) -> RunWatch | None:
    """A watch of the run; none where that fails."""
    try:
        return make(recorded)
    except Exception:
        logger.exception("audit: %s gave no watch of a run; the run goes on", type(make).__name__)
        return None


def _told(request: Request, broker: Broker, options: PluginOptions, info: RunInfo) -> RunWatch:
    """What tells OpenTelemetry of the run."""
    return WatchedRun(
        request,
        broker.reached,
        run_id=info.run_id,
        preset=options.preset_name if options.preset_name in PRESET_NAMES else "custom",
        script=info.asked.script,
        context_size=info.asked.context_bytes,
        dry_run=info.asked.dry_run,
    )
