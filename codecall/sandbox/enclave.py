"""Enclave: validation, a pool of workers and limits behind one `execute`. Usable with no server."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, Final, Self, cast

import anyio
import anyio.to_thread

from codecall.envelopes import ExecutionResult, select_calls
from codecall.errors import (
    CodeCallError,
    ExecutionAbortedError,
    IllegalAccess,
    OptionsError,
    WorkerCrashedError,
    WorkerError,
    WorkerPoolDisposedError,
    WorkerStartupError,
    add_default_hint,
)
from codecall.jsonio.decode import encode_context
from codecall.options import PoolOptions, SanitizationOptions
from codecall.presets import SECURITY_LEVELS, Preset, resolve_preset
from codecall.redaction.masking import mask_call_inputs
from codecall.redaction.patterns import ThreadedCleaner, clean_text, clean_value
from codecall.sandbox import wire
from codecall.sandbox.callbacks import CallbackBroker, ResourceHandler, ToolHandler
from codecall.sandbox.host.pool import WorkerPool
from codecall.sandbox.host.queue import WorkerRequest
from codecall.sandbox.host.references import ReferenceLimits
from codecall.sandbox.host.turns import ScriptRun
from codecall.sandbox.interfaces import NO_HOOKS, RunHooks, ToolBroker
from codecall.sandbox.report import SandboxReport, kernel_facts

# ----------------------------------------------------------------------------------------------------
# A preset as what workers are told of it.

SPARE_CPU_SECONDS: Final = 60
"""Processor time of a worker beyond what its scripts may use, in seconds: building engines, reading frames."""

_MOST_KEPT: Final = 64
"""Presets whose limits are kept ready."""


class LimitsCache:
    """The limits of presets.

    Args:
        max_kept_bytes: Bytes of a result that is put away because it is too large for an answer.
    """

    def __init__(self, max_kept_bytes: int) -> None:
        self._max_kept_bytes = max_kept_bytes
        self._limits: dict[Preset, wire.Limits] = {}

    def limits(self, preset: Preset) -> wire.Limits:
        """Those of one script."""
        if (limits := self._limits.get(preset)) is None:
            values = {name: getattr(preset, name) for name in wire.PRESET_FIELDS}
            limits = wire.Limits(**values, max_kept_bytes=self._max_kept_bytes)
            if len(self._limits) < _MOST_KEPT:
                self._limits[preset] = limits
        return limits

    def prepare(self, preset: Preset) -> wire.Prepare:
        """What a worker makes ready for."""
        required = preset.require_jail
        return wire.Prepare(
            limits=self.limits(preset),
            runs=preset.worker_max_runs,
            cpu_seconds=math.ceil(preset.worker_max_runs * preset.timeout_ms / 1000) + SPARE_CPU_SECONDS,
            require_jail=sys.platform == "linux" if required == "on_linux" else required,
        )


# ----------------------------------------------------------------------------------------------------
# The scripts of one enclave that have not ended: to wait for them, and to end them.

ABORT_S: Final = 1.0
"""Seconds scripts that are ended have to let go of what they wait for: a cancelled tool has a quarter of one."""


class InFlightRuns:
    """What an enclave has begun and not ended."""

    __slots__ = ("_begun", "_none", "_runs")

    def __init__(self) -> None:
        self._begun = 0
        self._runs: set[ScriptRun] = set()
        self._none: anyio.Event | None = None

    def __len__(self) -> int:
        """How many there are, those that wait for a worker included."""
        return self._begun

    def begin(self) -> None:
        """One more; it waits for a worker."""
        self._begun += 1

    def started(self, run: ScriptRun) -> None:
        """It has got its worker."""
        self._runs.add(run)

    def end(self, run: ScriptRun | None) -> None:
        """One has ended; `run` if it had got a worker."""
        if run is not None:
            self._runs.discard(run)
        self._begun -= 1
        if not self._begun and self._none is not None:
            self._none.set()

    async def ended(self) -> None:
        """Wait until there is none."""
        while self._begun:
            if self._none is None or self._none.is_set():
                self._none = anyio.Event()
            await self._none.wait()

    def abort(self, message: str) -> int:
        """End those that have a worker with EXECUTION_ABORTED; how many they were."""
        for run in (runs := tuple(self._runs)):
            run.abort(ExecutionAbortedError(message))
        return len(runs)


async def drain_pool(pool: WorkerPool, in_flight: InFlightRuns, grace_s: float) -> int:
    """Wait for the scripts of a pool that takes no more, end those that run after `grace_s` seconds, and close it; how
    many had to be ended."""
    with anyio.move_on_after(grace_s):
        await in_flight.ended()
    aborted = in_flight.abort(f"The server is shutting down; the script had {grace_s:g} s to end, and had not ended")
    with anyio.move_on_after(ABORT_S):
        await in_flight.ended()
    await pool.aclose()
    return aborted


# ----------------------------------------------------------------------------------------------------
# Enclave: validation, a pool of workers and limits behind one `execute`. Usable with no server.

MAX_WARNING = 1_000
"""Characters of one warning."""


class Enclave:
    """One validated, limited, isolated way of running scripts.

        async with Enclave(preset="secure") as enclave:
            result = await enclave.execute("return 1 + 1")

    Args:
        preset: `locked_down`, `secure`, `balanced`, `experimental`, or the path of a preset file. Without it
            `CODECALL_VM_PRESET`, else `secure`.
        security_level: The same choice in the other vocabulary: STRICT, SECURE, STANDARD, PERMISSIVE.
        pool: `PoolOptions`, or a mapping of its fields.
        sanitization: `SanitizationOptions`, or a mapping of its fields.
        max_kept_bytes: Bytes of a result that `run` may hand to the `results` of its services.
        **overrides: Preset values to replace (`timeout_ms=8000`).

    Raises:
        OptionsError: anything unknown, of the wrong type or out of range.
    """

    def __init__(
        self,
        preset: str | os.PathLike[str] | Preset | None = None,
        *,
        security_level: str | None = None,
        pool: PoolOptions | Mapping[str, object] | None = None,
        sanitization: SanitizationOptions | Mapping[str, object] | None = None,
        max_kept_bytes: int = 0,
        **overrides: object,
    ) -> None:
        if security_level is not None:
            if preset is not None:
                raise OptionsError("security_level: give either preset or security_level, not both")
            if security_level not in SECURITY_LEVELS:
                raise OptionsError(
                    f"security_level: unknown level {security_level!r}; known: {', '.join(SECURITY_LEVELS)}"
                )
            preset = SECURITY_LEVELS[security_level]
        self._preset = _resolve(preset, overrides)
        self._limiting = LimitsCache(max_kept_bytes)
        self._sanitization = (
            sanitization
            if isinstance(sanitization, SanitizationOptions)
            else SanitizationOptions.read(sanitization or {}, where="sanitization")
        )
        options = pool if isinstance(pool, PoolOptions) else PoolOptions.read(pool or {}, where="pool")
        self._prepare = self._limiting.prepare(self._preset)
        self._pool = WorkerPool(options, self._prepare)
        self.in_flight = InFlightRuns()
        """The scripts that have not ended."""

    @property
    def preset(self) -> Preset:
        """The limits scripts run under."""
        return self._preset

    @property
    def pool(self) -> WorkerPool:
        """The worker processes."""
        return self._pool

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    async def start(self) -> None:
        """Start worker processes ahead of need. Optional: the first script starts what it needs."""
        await self._pool.start()

    async def probe(self) -> None:
        """Start, and see that a worker can be had.

        Raises:
            WorkerError: none can.
        """
        await self.start()
        async with self._pool.checkout(WorkerRequest(self._preset.memory_mb)) as worker:
            worker.retired = True  # it has an owner now, who is nobody

    async def aclose(self) -> None:
        """Stop everything. Scripts that run or wait end with POOL_DISPOSED. Idempotent; from any task."""
        await self._pool.aclose()

    async def drain(self, grace_s: float) -> int:
        """Close in good order: refuse new scripts and those that wait (POOL_DISPOSED), let running ones end, then end
        those that still run (EXECUTION_ABORTED, with all that is known of their calls).

        Args:
            grace_s: Seconds running scripts have.

        Returns:
            How many had to be ended.
        """
        self._pool.refuse()
        return await drain_pool(self._pool, self.in_flight, grace_s)

    async def sandbox_report(self) -> SandboxReport:
        """How the worker processes are held: every layer of their jail, and what the kernel says of one of them.

        Starts a worker if none has been needed so far.

        Raises:
            WorkerError: no worker can be had; with a preset that requires the whole jail the message names the layer.
        """
        async with self._pool.checkout(WorkerRequest(self._preset.memory_mb)) as worker:
            return SandboxReport(
                platform=sys.platform,
                fork_server=self._pool.spawner.forks,
                runs_per_worker=self._preset.worker_max_runs,
                required=self._prepare.require_jail,
                layers=tuple(worker.layers),
                kernel=await anyio.to_thread.run_sync(kernel_facts, worker.pid),
            )

    async def execute(
        self,
        script: str,
        *,
        tool_handler: ToolHandler | None = None,
        tools: Sequence[Mapping[str, Any]] | None = None,
        context: Mapping[str, Any] | None = None,
        allowed_tools: Sequence[str] | None = None,
        config: Mapping[str, object] | None = None,
        resource_handler: ResourceHandler | None = None,
        prompt_handler: ToolHandler | None = None,
        coverage: bool = False,
        dry_run: bool = False,
    ) -> ExecutionResult:
        """Run one script with tools that are plain Python; resources and prompts too.

        Args:
            script: AgentScript source.
            tool_handler: Performs the calls; what it raises reaches the script as a ToolError with its message.
                Without it there are no tools.
            tools: What `getTool` sees, and then all that may be called: mappings with `name`, `description`,
                `inputSchema`, `outputSchema`. Without it `callTool` accepts any name.
            context: `codecallContext`; JSON data.
            allowed_tools: Names or globs that may be called, URIs and names of prompts among them. None allows all.
            config: Preset values to replace for this run.
            resource_handler: Gives the value of `readResource(uri)`. Without it there are no resources.
            prompt_handler: Gives the value of `getPrompt(name, args)`. Without it there are no prompts.
            coverage: Note which lines ran: `ExecutionResult.lines`. The script runs slower.
            dry_run: Only look at it: the value is `{valid, findings, manifest}`.

        Returns:
            How it ended. A failed script is a result, not an exception; `raise_for_status()` makes it one.

        Raises:
            OptionsError: `config` is wrong.
            TypeError: `script` is not a string, or `context` is not JSON data.
        """
        broker = CallbackBroker(
            tool_handler,
            tools,
            allowed_tools,
            self._sanitization,
            resource_handler=resource_handler,
            prompt_handler=prompt_handler,
        )
        preset = _resolve(self._preset, config or {})
        return await self.run(script, broker, context=context, preset=preset, coverage=coverage, dry_run=dry_run)

    async def run(
        self,
        script: str,
        broker: ToolBroker,
        *,
        context: Mapping[str, Any] | None = None,
        preset: Preset | None = None,
        owner: str = "",
        coverage: bool = False,
        dry_run: bool = False,
        hooks: RunHooks = NO_HOOKS,
    ) -> ExecutionResult:
        """Run one script with `broker` performing its calls. Never raises for what script or worker do.

        Args:
            script: AgentScript source.
            broker: Answers its calls and questions.
            context: `codecallContext`; JSON data.
            preset: Limits of this run instead of the enclave's.
            owner: Whose script it is. No worker ever serves two owners: one that has been taken over by a script
                sees nothing of anybody else.
            coverage: Note which lines ran: `ExecutionResult.lines`.
            dry_run: Only look at it: the value is `{valid, findings, manifest}`.
            services: Its name, who watches it, what remembers its calls, and what keeps too large a result.
        """
        if not isinstance(script, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"script: a string is needed, got {type(script).__name__}")
        chosen = preset or self._preset
        try:
            start = wire.Start(script, self._limiting.limits(chosen), encode_context(context), dry_run, coverage)
            script.encode()
        except UnicodeEncodeError:
            hint = "It holds half of a surrogate pair: write the whole character, or its escape in a string."
            error = IllegalAccess("The script contains text that is not valid Unicode", kind="UnsafeSource", hint=hint)
            return ExecutionResult(error.status, error=error)
        run: ScriptRun | None = None
        self.in_flight.begin()
        try:
            async with self._pool.checkout(WorkerRequest(start.limits.memory_mb, owner)) as worker:
                hooks.observer.on_started()
                allowance = ReferenceLimits.from_preset(chosen)
                run = ScriptRun(worker, broker, start.limits, chosen.max_duration_ms, hooks, allowance)
                self.in_flight.started(run)
                try:
                    result = await run.execute(start)
                except CodeCallError:
                    worker.retired = True
                    raise
            result = await run.store_oversized(result)
        except WorkerError as error:
            failure = self._disposed(error)
            result = ExecutionResult(failure.status, error=failure) if run is None else run.failed(failure)
        finally:
            self.in_flight.end(run)
        if coverage and run is not None:
            result = replace(result, lines=run.coverage.lines)
        if dry_run and isinstance(result.value, dict):
            told = cast("dict[str, object]", result.value)
            cleaned = await ThreadedCleaner().run(clean_value, told["findings"], self._sanitization)
            result = replace(result, value={**told, "findings": cleaned})
        return await self._cleaned(result)

    def _disposed(self, error: WorkerError) -> WorkerError:
        """A worker that died because the enclave was closed did not crash."""
        if self._pool.closed and isinstance(error, (WorkerCrashedError, WorkerStartupError, ExecutionAbortedError)):
            return WorkerPoolDisposedError("The enclave was closed while the script ran")
        return error

    async def _cleaned(self, result: ExecutionResult) -> ExecutionResult:
        turns = ThreadedCleaner()
        if result.error is not None:
            add_default_hint(result.error)
            await turns.clean_error(result.error, self._sanitization)
            if result.calls and self._sanitization.remove_file_paths:
                await turns.run(mask_call_inputs, select_calls(result.calls))
        if result.warnings:
            result = replace(result, warnings=await turns.run(self._cleaned_warnings, result.warnings))
        return result

    def _cleaned_warnings(self, warnings: Sequence[str]) -> tuple[str, ...]:
        return tuple(clean_text(warning[:MAX_WARNING], self._sanitization) for warning in warnings)


def _resolve(preset: str | os.PathLike[str] | Preset | None, overrides: Mapping[str, object]) -> Preset:
    if not isinstance(preset, Preset):
        return resolve_preset(preset, overrides)
    return preset.replaced(overrides) if overrides else preset
