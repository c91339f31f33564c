"""`codecall:execute`: runs one script for a request, with its broker, its record, its progress and its memory."""

from __future__ import annotations

import base64
import hashlib
import logging
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from fastmcp.exceptions import ValidationError
from fastmcp.server.context import Context
from fastmcp.tools.base import ToolResult
from mcp_types import ContentBlock, ToolAnnotations
from pydantic import Field

from codecall.audit.events import RunDetails
from codecall.audit.recorder import RunRecord
from codecall.calls.blocks import BlockLimits, BlockStore
from codecall.calls.broker import Broker
from codecall.calls.conversion import exceeds_chars
from codecall.catalog.components import component_view
from codecall.catalog.view import CatalogView
from codecall.envelopes import EXECUTE_OUTPUT_SCHEMA, ExecutionResult
from codecall.globs import MAX_GLOB_CHARS, is_glob
from codecall.identity import client_key
from codecall.meta_tools.base import (
    WELL_FORMED,
    Arguments,
    JsonObject,
    MetaTool,
    Runtime,
    parse_arguments,
    result_observer,
    tool_result,
)
from codecall.meta_tools.descriptions import describe_execute
from codecall.options import PluginOptions
from codecall.presets import PRESET_NAMES, Preset
from codecall.results.service import CallerResults
from codecall.resume.refusal import ResumeError
from codecall.sandbox.interfaces import ObserverGroup, RunHooks, RunObserver
from codecall.server.disconnect import run_while_connected
from codecall.server.progress import progress_from_context
from codecall.telemetry.spans import RequestSpan, RunTelemetry, current_request

if TYPE_CHECKING:
    from codecall.resume.replay import RunMemory

logger = logging.getLogger("codecall")

_MIB = 1024 * 1024

MAX_CONTEXT_BYTES = 256 * 1024
"""Longest `context`, as JSON. It is input for a script, not a place for data: four times the longest script."""

MAX_ALLOWED_TOOLS = 1_000
"""Most entries of `allowedTools`."""

MAX_ALL_GLOBS_CHARS = 16 * 1024
"""Most characters all globs of `allowedTools` may have together: comparing a name with them takes at most 3 ms."""

ToolPattern = Annotated[str, Field(max_length=MAX_GLOB_CHARS), WELL_FORMED]


class ExecuteArguments(Arguments):
    """Arguments of `codecall:execute`."""

    script: str
    context: dict[str, Any] | None = None
    allowed_tools: Annotated[list[ToolPattern], Field(max_length=MAX_ALLOWED_TOOLS)] | None = None
    dry_run: bool | None = None
    resume_from: Annotated[str, Field(max_length=200), WELL_FORMED] | None = None


_INPUT: JsonObject = {
    "type": "object",
    "properties": {
        "script": {"type": "string", "description": "AgentScript source, up to 64 KiB"},
        "context": {
            "type": "object",
            "description": "JSON data for codecallContext, up to 256 KiB",
        },
        "allowedTools": {
            "type": "array",
            "items": {"type": "string", "maxLength": MAX_GLOB_CHARS},
            "maxItems": MAX_ALLOWED_TOOLS,
            "description": "Names, URIs or globs; the script may use nothing else",
        },
        "dryRun": {
            "type": "boolean",
            "description": "Run nothing; the result is {valid, findings, manifest}",
        },
    },
    "required": ["script"],
    "additionalProperties": False,
}

_RESUME_FROM: JsonObject = {
    "type": "string",
    "description": "runId of a run of yours that failed: calls it completed are not made again",
}


class ExecuteTool(MetaTool):
    """Runs scripts."""

    @classmethod
    def create(cls, runtime: Runtime) -> ExecuteTool:
        """Create the tool under the advertised name."""
        return cls.build(
            runtime,
            verb="execute",
            title="Run a script over tools",
            description=describe_execute(runtime.options),
            parameters=_parameters(runtime.options),
            output_schema=EXECUTE_OUTPUT_SCHEMA,
            # What a script may do is what the tools it calls may do.
            annotations=ToolAnnotations(
                read_only_hint=False, destructive_hint=True, idempotent_hint=False, open_world_hint=True
            ),
        )

    async def respond(self, arguments: dict[str, Any]) -> ToolResult:
        """Run the script. A script that fails is an envelope; only wrong arguments are an error.

        Raises:
            ValidationError: the arguments are wrong, or the run they name cannot be resumed.
        """
        parsed = parse_arguments(ExecuteArguments, self.name, arguments)
        context_bytes = self._check_context(parsed.context)
        self._check_globs(parsed.allowed_tools or ())
        self._check_resume(parsed)
        context, view = self._view()
        request = ExecuteRequest(
            parsed.script,
            parsed.context,
            tuple(parsed.allowed_tools) if parsed.allowed_tools is not None else None,
            bool(parsed.dry_run),
            context_bytes,
            parsed.resume_from,
        )
        try:
            result, blocks = await run_script(self._runtime, context, view, request)
        except ResumeError as refused:
            raise ValidationError(f"{self.name}: resumeFrom: {refused.message}. {refused.hint}") from None
        return self.envelope_result(result, blocks)

    def envelope_result(self, result: ExecutionResult, blocks: Sequence[ContentBlock]) -> ToolResult:
        """Turn the result of a run into the answer of the tool, with the content blocks that it shows."""
        if result.error is not None:
            self.spell_hint(result.error)
        is_error = self._runtime.options.mark_errors and not result.success
        return tool_result(result.envelope(), blocks=blocks, is_error=is_error)

    def _check_resume(self, arguments: ExecuteArguments) -> None:
        if arguments.resume_from is None:
            return
        if self._runtime.options.resume is None:
            raise ValidationError(
                f"{self.name}: resumeFrom: this server keeps nothing of runs that failed. `calls` of the envelope says "
                "what was done; write a script that does the rest"
            )
        if arguments.dry_run:
            raise ValidationError(f"{self.name}: resumeFrom: a dry run makes no calls, so there is nothing to take up")

    def _check_context(self, context: JsonObject | None) -> int:
        """Check that `context` is JSON data of a size that is allowed; returns its bytes as JSON."""
        if not context:
            return 0
        # No JSON is less than a fifth of what `exceeds_chars` takes it for: far too much is refused without being
        # written.
        if exceeds_chars(context, 5 * MAX_CONTEXT_BYTES):
            raise ValidationError(
                f"{self.name}: context: more than {MAX_CONTEXT_BYTES:,} bytes of JSON are not allowed"
            )
        try:
            size = len(msgspec.json.encode(context))
        except UnicodeEncodeError:
            raise ValidationError(f"{self.name}: context: holds text that is not valid Unicode") from None
        except (TypeError, ValueError, RecursionError) as failure:
            raise ValidationError(f"{self.name}: context: not JSON data: {failure}") from None
        if size > MAX_CONTEXT_BYTES:
            raise ValidationError(
                f"{self.name}: context: {size:,} bytes of JSON; at most {MAX_CONTEXT_BYTES:,} are allowed"
            )
        return size

    def _check_globs(self, allowed: Sequence[str]) -> None:
        size = sum(len(pattern) for pattern in allowed if is_glob(pattern))
        if size > MAX_ALL_GLOBS_CHARS:
            raise ValidationError(
                f"{self.name}: allowedTools: the globs have {size:,} characters; at most {MAX_ALL_GLOBS_CHARS:,} are "
                "allowed. Give exact names, of which the length does not count, or fewer globs"
            )


def _parameters(options: PluginOptions) -> JsonObject:
    """The schema of the arguments, with `resumeFrom` where runs can be resumed."""
    if options.resume is None:
        return _INPUT
    return {**_INPUT, "properties": {**_INPUT["properties"], "resumeFrom": _RESUME_FROM}}


@dataclass(frozen=True, slots=True)
class ExecuteRequest:
    """A script to run, and what it may use."""

    script: str
    context: Mapping[str, Any] | None = None
    """`codecallContext`, after its checks."""
    allowed_tools: tuple[str, ...] | None = None
    """Names, URIs and globs that the script may use; None allows all."""
    dry_run: bool = False
    context_bytes: int = 0
    """Size of `context` as JSON."""
    resume_from: str | None = None
    """Id of the run to resume."""


@dataclass(frozen=True, slots=True)
class RunInfo:
    """What identifies a run before it begins."""

    run_id: str
    """Unguessable."""
    caller: str
    """Key of the caller for whom it runs, as a hash."""
    request: ExecuteRequest


def max_value_bytes(preset: Preset) -> int:
    """Longest JSON text of one tool's value that a script takes: a quarter of its heap, at most 16 MiB.

    Parsed data takes several times its text's room, and four such values fit into one frame to the worker.
    """
    return min(preset.memory_mb * _MIB // 4, 16 * _MIB)


async def run_script(
    runtime: Runtime, context: Context, view: CatalogView, request: ExecuteRequest
) -> tuple[ExecutionResult, list[ContentBlock]]:
    """Run the script of `request` for the client of `context`; its result, and the content blocks that it shows.

    Raises:
        ResumeError: the run named in `resume_from` cannot be resumed; nothing has run.
    """
    options = runtime.options
    info = RunInfo(_run_id(context), client_key(context), request)
    broker = Broker(
        context,
        view,
        allowed_tools=request.allowed_tools,
        tool_call_timeout_ms=options.preset.tool_call_timeout_ms,
        max_value_bytes=max_value_bytes(options.preset),
        sanitization=options.sanitization,
        components=component_view(context, options),
        on_result=result_observer(runtime, context),
        create_blocks=lambda: BlockStore(BlockLimits.from_preset(options.preset), info.caller),
    )
    progress = progress_from_context(options.progress, context, info.run_id)
    observers = _observers(runtime, info, progress)
    if (span := current_request()) is not None:
        # First: what the others do for a call belongs to its span.
        observers.insert(0, _telemetry_observer(span, broker, options, info))
    try:
        memory = await _memory(options, context, info, broker)
    except ResumeError as refused:
        if runtime.audit.enabled:
            details = {"what": "resume", "code": refused.code, "resumed_from": request.resume_from}
            runtime.audit.note("codecall.execute.blocked", info.run_id, info.caller, lambda: details)
        raise
    results, blocks = caller_results(runtime, info.caller), partial(_block_store, broker)
    hooks = RunHooks(info.run_id, ObserverGroup(observers), memory, results, blocks)
    async with progress or nullcontext(), runtime.enclaves.use(context) as enclave:
        run = enclave.run(
            request.script,
            broker,
            context=request.context,
            owner="" if options.pool.share_workers else info.caller,
            dry_run=request.dry_run,
            hooks=hooks,
        )
        observed = hooks.observe(run if memory is None else memory.record_outcome(run))
        result = await (run_while_connected(context, observed) if options.shutdown.end_abandoned else observed)
    if (store := _block_store(broker)) is None:
        return result, []
    if store.beside:
        warning = (
            f"Tools returned {store.beside} pictures, sounds or files beside structured values; scripts get the value "
            "alone. Call such a tool without a script for both."
        )
        result = replace(result, warnings=(*result.warnings, warning))
    return result, store.content(result.blocks)


def _block_store(broker: Broker) -> BlockStore | None:
    """The content blocks that the calls of a broker have returned."""
    return broker.blocks if isinstance(broker.blocks, BlockStore) else None


async def _memory(options: PluginOptions, context: Context, info: RunInfo, broker: Broker) -> RunMemory | None:
    """Create the memory of the run's calls; it holds those of the run that is resumed."""
    if options.resume is None or info.request.dry_run:
        return None
    from codecall.resume.replay import RunMemory  # few servers keep runs

    lasts_s = options.preset.max_duration_ms / 1000
    memory = RunMemory(options.resume, run_id=info.run_id, owner=info.caller, lasts_s=lasts_s, admit=broker.admit)
    # A task whose server was killed starts again under the same id; what it had resumed itself is in its own record.
    restarted = context.task_id is not None and await memory.resume(info.run_id, already_ended=True)
    if info.request.resume_from is not None and not restarted:
        await memory.resume(info.request.resume_from)
    return memory


def caller_results(runtime: Runtime, caller: str) -> CallerResults | None:
    """The store for results of this caller that are too large for an answer; None where nothing is kept."""
    if runtime.results is None:
        return None
    options = runtime.options
    return CallerResults(runtime.results, caller, max_value_bytes(options.preset), options.inline_result_bytes)


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
    if runtime.audit.enabled or options.audit.watchers:
        details = RunDetails(
            info.run_id,
            info.caller,
            request.script,
            options.preset_name,
            options.preset,
            request.context_bytes,
            request.allowed_tools,
            request.dry_run,
            request.resume_from,
        )
        if runtime.audit.enabled:
            observers.append(RunRecord(runtime.audit, details))
        observers.extend(
            observer for factory in options.audit.watchers if (observer := _safe_observer(factory, details)) is not None
        )
    return observers


def _safe_observer(factory: Callable[[RunDetails], RunObserver], details: RunDetails) -> RunObserver | None:
    """Create an observer of the run; None where `factory` fails, which is logged."""
    try:
        return factory(details)
    except Exception:
        logger.exception("audit: %s gave no watch of a run; the run goes on", type(factory).__name__)
        return None


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
