"""The enclave: validation, a pool of workers and limits behind one `execute`. Usable with no server."""

from __future__ import annotations

import hashlib
import math
import os
import secrets
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, Self, Unpack, cast

import anyio
import anyio.to_thread
from msgspec.structs import replace as replace_fields

from codecall.envelopes import ExecutionResult, select_calls
from codecall.errors import (
    CodeCallError,
    ExecutionAbortedError,
    IllegalAccess,
    Location,
    OptionsError,
    WorkerCrashedError,
    WorkerError,
    WorkerPoolDisposedError,
    WorkerStartupError,
)
from codecall.errors.hints import add_default_hint
from codecall.jsonio.decode import encode_context
from codecall.option_base import accept_wire_spelling
from codecall.options import PoolOptions, SanitizationOptions
from codecall.presets import Preset, preset_of_level, resolve_preset
from codecall.redaction.clean import clean_text, clean_value
from codecall.redaction.masking import mask_call_inputs
from codecall.redaction.threaded import ThreadedCleaner
from codecall.sandbox import wire
from codecall.sandbox.agentscript.policy import MAX_SCRIPT_BYTES, SOURCE, TOO_LONG, excess_offset
from codecall.sandbox.callbacks import (
    AnyTool,
    CallbackBroker,
    ResourceHandler,
    ToolHandler,
    check_handlers,
    never_called,
)
from codecall.sandbox.host.outcomes import excerpt_at
from codecall.sandbox.host.pool import WorkerPool
from codecall.sandbox.host.preflight import LIMITS
from codecall.sandbox.host.process import SandboxReport, kernel_facts
from codecall.sandbox.host.queue import WorkerRequest
from codecall.sandbox.host.references import ReferenceLimits
from codecall.sandbox.host.turns import ScriptRun
from codecall.sandbox.interfaces import NO_HOOKS, RunHooks, ToolBroker
from codecall.sandbox.languages import Language, check_variables, require_starlark, starlark_terms
from codecall.sandbox.lines import MAX_EXCERPT, LineTable

if TYPE_CHECKING:
    from codecall.options import LimitKeywords, PoolDict, SanitizationDict

SPARE_CPU_SECONDS: Final = 60
"""Processor time of a worker beyond what its scripts may use, in seconds: building engines, reading frames."""

_MAX_CACHED_PRESETS: Final = 64
"""Presets whose limits are kept ready."""

ABORT_S: Final = 1.0
"""Seconds that aborted scripts have to stop waiting: a cancelled tool has a quarter of one."""

MAX_WARNING: Final = 1_000
"""Characters of one warning."""


class Enclave:
    """One validated, limited, isolated way of running scripts.

        async with Enclave(preset="secure") as enclave:
            result = await enclave.execute("return 1 + 1")

    Args:
        preset: `locked_down`, `secure`, `balanced`, `experimental`, or the path of a preset file. Without it
            `CODECALL_VM_PRESET`, else `secure`.
        security_level: The same choice in the other vocabulary: STRICT, SECURE, STANDARD, PERMISSIVE.
        tool_handler: Performs the calls of scripts for which `execute` is given no other.
        pool: `PoolOptions`, or a mapping of its fields.
        sanitization: `SanitizationOptions`, or a mapping of its fields.
        max_kept_bytes: Bytes of a result that `run` may hand to the `results` of its services.
        starlark: Whether scripts may be Starlark, too; its workers then load what that needs (extra `starlark`).
        **overrides: Preset values to replace (`timeout_ms=8000`).

    Each may also be given in its wire spelling, and all as one mapping: `Enclave({"securityLevel": "STANDARD"})`.

    Raises:
        OptionsError: anything unknown, of the wrong type or out of range.
    """

    @accept_wire_spelling
    def __init__(
        self,
        preset: str | os.PathLike[str] | Preset | None = None,
        *,
        security_level: Literal["STRICT", "SECURE", "STANDARD", "PERMISSIVE"] | str | None = None,
        tool_handler: ToolHandler | None = None,
        pool: PoolOptions | PoolDict | Mapping[str, object] | None = None,
        sanitization: SanitizationOptions | SanitizationDict | Mapping[str, object] | None = None,
        max_kept_bytes: int = 0,
        starlark: bool = False,
        **overrides: Unpack[LimitKeywords],
    ) -> None:
        self._preset = resolve_preset(preset_of_level(security_level, preset), overrides, where="")
        check_handlers(tool_handler=tool_handler)
        self._tool_handler = tool_handler
        self._limits_cache = LimitsCache(max_kept_bytes)
        self._sanitization = (
            sanitization
            if isinstance(sanitization, SanitizationOptions)
            else SanitizationOptions.read(sanitization or {}, where="sanitization")
        )
        options = pool if isinstance(pool, PoolOptions) else PoolOptions.read(pool or {}, where="pool")
        if starlark:
            require_starlark()
        self._prepare = replace_fields(self._limits_cache.prepare(self._preset), starlark=starlark)
        self._pool = WorkerPool(options, self._prepare)
        self._share_workers = options.share_workers
        self._reader_key = secrets.token_bytes(16)
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
            worker.retired = True  # the probe is its owner: no script may use it

    async def aclose(self) -> None:
        """Stop everything. Scripts that run or wait end with POOL_DISPOSED. Idempotent; from any task."""
        await self._pool.aclose()

    async def dispose(self) -> None:
        """The same as `aclose`, by its name in the other vocabulary."""
        await self.aclose()

    async def drain(self, grace_s: float) -> int:
        """Close in good order: refuse new scripts and those that wait (POOL_DISPOSED), let running ones end, then end
        those that still run (EXECUTION_ABORTED, with all that is known of their calls).

        Args:
            grace_s: Seconds that running scripts have to end.

        Returns:
            How many had to be ended.
        """
        self._pool.refuse()
        return await drain_pool(self._pool, self.in_flight, grace_s)

    async def sandbox_report(self) -> SandboxReport:
        """How the worker processes are jailed: every layer, and what the kernel says of one of them.

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

    @accept_wire_spelling
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
        language: Language = "javascript",
    ) -> ExecutionResult:
        """Run one script with tools that are plain Python; resources and prompts too.

        Options may have their wire spelling too, and be one mapping: `execute(script, {"toolHandler": handler})`.

        Args:
            script: AgentScript source.
            tool_handler: Performs the calls; an exception of it reaches the script as a ToolError with its message.
                Without it the enclave's; without either there are no tools.
            tools: What `getTool` sees, and then all that may be called: mappings with `name`, `description`,
                `inputSchema`, `outputSchema`. Without it `callTool` accepts any name.
            context: `codecallContext`; JSON data.
            allowed_tools: Names or globs that may be called, URIs and names of prompts among them. None allows all.
            config: Preset values to replace for this run.
            resource_handler: Gives the value of `readResource(uri)`. Without it there are no resources.
            prompt_handler: Gives the value of `getPrompt(name, args)`. Without it there are no prompts.
            coverage: Record which lines ran: `ExecutionResult.lines`. The script runs slower.
            dry_run: Only check it: the value is `{valid, findings, manifest}`.
            language: `javascript`, or `starlark` where the enclave was made with it: then the keys of `context` are
                variables of the script, and those of `tools` its functions; without `tools` whatever it calls.

        Returns:
            How it ended. A failed script is a result, not an exception; `raise_for_status()` makes it one.

        Raises:
            OptionsError: an option is unknown or wrong; the message names it.
            TypeError: `script` is not a string, or `context` is not JSON data.
        """
        preset = resolve_preset(self._preset, config, where="config")
        broker = CallbackBroker(
            tool_handler if tool_handler is not None else self._tool_handler,
            tools,
            allowed_tools,
            self._sanitization,
            resource_handler=resource_handler,
            prompt_handler=prompt_handler,
            timeout_ms=preset.tool_call_timeout_ms,
        )
        if tools is None and (tool_handler or self._tool_handler) is None:
            tools = ()
        terms = _starlark_terms(script, language, tools, context)
        return await self.run(
            script, broker, context=context, preset=preset, coverage=coverage, dry_run=dry_run, starlark=terms
        )

    async def check(
        self,
        script: str,
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        allowed_tools: Sequence[str] | None = None,
        context: Mapping[str, Any] | None = None,
        language: Language = "javascript",
        unlisted: str = "",
        guesses: bool = True,
    ) -> ExecutionResult:
        """Check one script, by its language alone where nothing is known of the tools that it will have.

        Args:
            script: Its source.
            tools: As for `execute`; None: they are not known, and whatever it calls may be one.
            allowed_tools: As for `execute`.
            context: As for `execute`; of a script in Starlark, its variables.
            language: As for `execute`.
            unlisted: A sentence for hints about unknown names that says why no tool is known.
            guesses: Whether, where they are not known, a name that nothing declares, and that looks like another one
                misspelt or is only read, is a finding. It may be the name of a server all the same.

        Returns:
            A result with the value `{valid, findings, manifest}`, or the error that kept the script from being checked.
        """
        terms = _starlark_terms(script, language, tools, context, has_all=True)
        if tools is None:
            broker: ToolBroker = AnyTool(self._sanitization, unlisted, guesses=guesses)
        else:
            broker = CallbackBroker(never_called, tools, allowed_tools, self._sanitization)
        return await self.run(script, broker, context=context, dry_run=True, starlark=terms)

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
        starlark: wire.StarlarkTerms | None = None,
    ) -> ExecutionResult:
        """Run one script with `broker` performing its calls. Never raises for anything that script or worker do.

        Args:
            script: AgentScript source.
            broker: Answers its calls and questions.
            context: `codecallContext`; JSON data.
            preset: Limits of this run instead of the enclave's.
            owner: Whose script it is. Unless the pool shares workers, none ever serves two owners: one that has been
                taken over by a script sees nothing of anybody else.
            coverage: Note which lines ran: `ExecutionResult.lines`.
            dry_run: Only check it: the value is `{valid, findings, manifest}`.
            hooks: Its name, its observers, the memory of its calls, and the storage of a result that is too large.
            starlark: It is Starlark, and these are its terms; None: it is AgentScript.

        Raises:
            OptionsError: it is Starlark, and the enclave was made without.
        """
        if not isinstance(script, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"script: a string is needed, got {type(script).__name__}")
        if starlark is not None and not self._prepare.starlark:
            raise OptionsError("language: this enclave runs no Starlark", hint="Make it with Enclave(starlark=True).")
        preset = preset or self._preset
        if (refused := await refuse_excess(script, preset, self._sanitization, dry_run=dry_run)) is not None:
            return refused
        try:
            limits = self._limits_cache.limits(preset)
            foresee = hooks.on_plan is not None
            reader, owner = (self._reader(owner), "") if self._share_workers else ("", owner)
            start = wire.Start(script, limits, encode_context(context), dry_run, coverage, starlark, foresee, reader)
            script.encode()
        except UnicodeEncodeError:
            hint = "It holds half of a surrogate pair: write the whole character, or its escape in a string."
            error = IllegalAccess("The script contains text that is not valid Unicode", kind="UnsafeSource", hint=hint)
            return ExecutionResult(error.status, error=error)
        run: ScriptRun | None = None
        if hooks.clock is not None:
            hooks.clock.lend = self._pool.lend_places
        self.in_flight.begin()
        try:
            async with self._pool.checkout(WorkerRequest(start.limits.memory_mb, owner)) as worker:
                hooks.observer.on_started()
                reference_limits = ReferenceLimits.from_preset(preset)
                run = ScriptRun(worker, broker, start.limits, preset.max_duration_ms, hooks, reference_limits)
                self.in_flight.started(run)
                try:
                    result = await run.execute(start)
                except CodeCallError:
                    worker.retired = True
                    raise
            result = await run.store_oversized(result)
        except WorkerError as error:
            error = self._or_disposed(error)
            result = ExecutionResult(error.status, error=error) if run is None else run.failed(error)
        finally:
            self.in_flight.end(run)
        if coverage and run is not None:
            result = replace(result, lines=run.coverage.lines)
        if dry_run and isinstance(result.value, dict):
            report = cast("dict[str, object]", result.value)
            findings = await ThreadedCleaner().run(clean_value, report["findings"], self._sanitization, ())
            result = replace(result, value={**report, "findings": findings})
        return await self._cleaned(result)

    def _reader(self, owner: str) -> str:
        """What stands for an owner in a worker that serves several."""
        return hashlib.blake2b(owner.encode("utf-8", "surrogatepass"), digest_size=8, key=self._reader_key).hexdigest()

    def _or_disposed(self, error: WorkerError) -> WorkerError:
        """`error`, or POOL_DISPOSED: a worker that died because the enclave was closed did not crash."""
        if self._pool.closed and isinstance(error, (WorkerCrashedError, WorkerStartupError, ExecutionAbortedError)):
            return WorkerPoolDisposedError("The enclave was closed while the script ran")
        return error

    async def _cleaned(self, result: ExecutionResult) -> ExecutionResult:
        cleaner = ThreadedCleaner()
        if result.error is not None:
            add_default_hint(result.error)
            await cleaner.clean_error(result.error, self._sanitization)
            if result.calls and self._sanitization.remove_file_paths:
                await cleaner.run(mask_call_inputs, select_calls(result.calls))
        if result.warnings:
            result = replace(result, warnings=await cleaner.run(self._cleaned_warnings, result.warnings))
        return result

    def _cleaned_warnings(self, warnings: Sequence[str]) -> tuple[str, ...]:
        # They quote the script.
        return tuple(clean_text(warning[:MAX_WARNING], self._sanitization, ()) for warning in warnings)


async def refuse_excess(
    script: str, preset: Preset, sanitization: SanitizationOptions, *, dry_run: bool
) -> ExecutionResult | None:
    """The result of a script that is too long for any worker, or of a dry run of it; None if it is not.

    Args:
        script: Any text; however long it is, little of it is read.
        preset: The limits of the run.
        sanitization: What its result leaves out.
        dry_run: Whether it would only be checked.
    """
    if (error := excess_error(script)) is None:
        return None
    await ThreadedCleaner().clean_error(error, sanitization)
    if not dry_run:
        return ExecutionResult(error.status, error=error)
    # Of its lines nothing is known.
    size = {"bytes": len(script.encode("utf-8", "surrogatepass")), "maxBytes": MAX_SCRIPT_BYTES}
    limits = {name: getattr(preset, field) for name, field in LIMITS.items()}
    manifest = {"size": size, "limits": limits}
    return ExecutionResult("ok", value={"valid": False, "findings": [error.as_dict()], "manifest": manifest})


def excess_error(script: str) -> IllegalAccess | None:
    """The error of a script that is too long; None if it is not."""
    offset = excess_offset(script)
    if offset is None:
        return None
    error = IllegalAccess(TOO_LONG, kind="UnsafeSource", hint=SOURCE["script length"].instead)
    # What stands before the place may be tens of thousands of lines, and one is all that is shown.
    before = script[:offset].removesuffix("\r") if script[offset : offset + 1] == "\n" else script[:offset]
    ends = before.count("\n") + before.count("\r") - before.count("\r\n")
    start = max(before.rfind("\n"), before.rfind("\r")) + 1
    column = offset - start + 1
    error.location = Location(1 + ends, column)
    error.excerpt = excerpt_at(Location(1, column), LineTable(script[start : offset + MAX_EXCERPT + 1]))
    return error


class LimitsCache:
    """The limits that workers get for a preset; those of a few presets are kept ready.

    Args:
        max_kept_bytes: Most bytes of a result that is stored because it is too large for an answer.
    """

    def __init__(self, max_kept_bytes: int) -> None:
        self._max_kept_bytes = max_kept_bytes
        self._limits: dict[Preset, wire.Limits] = {}

    def limits(self, preset: Preset) -> wire.Limits:
        """The limits of a script under `preset`."""
        if (limits := self._limits.get(preset)) is None:
            values = {name: getattr(preset, name) for name in wire.PRESET_FIELDS}
            limits = wire.Limits(**values, max_kept_bytes=self._max_kept_bytes)
            if len(self._limits) < _MAX_CACHED_PRESETS:
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


class Abortable(Protocol):
    """A run that can be ended from outside."""

    def abort(self, error: CodeCallError) -> None:
        """End it with `error`."""
        ...


class InFlightRuns:
    """The runs of an enclave, or those that need none, that have not ended: to wait for them and to end them."""

    __slots__ = ("_begun", "_empty", "_runs")

    def __init__(self) -> None:
        self._begun = 0
        self._runs: set[Abortable] = set()
        self._empty: anyio.Event | None = None

    def __len__(self) -> int:
        """How many there are, including those that wait for a worker."""
        return self._begun

    def begin(self) -> None:
        """Count one more run; it waits for a worker."""
        self._begun += 1

    def started(self, run: Abortable) -> None:
        """A run has got its worker."""
        self._runs.add(run)

    def end(self, run: Abortable | None) -> None:
        """A run has ended; `run` if it had got a worker."""
        if run is not None:
            self._runs.discard(run)
        self._begun -= 1
        if not self._begun and self._empty is not None:
            self._empty.set()

    async def wait_until_empty(self) -> None:
        """Wait until all runs have ended."""
        while self._begun:
            if self._empty is None or self._empty.is_set():
                self._empty = anyio.Event()
            await self._empty.wait()

    def abort(self, message: str) -> int:
        """End the runs that have a worker with EXECUTION_ABORTED; how many there were."""
        for run in (runs := tuple(self._runs)):
            run.abort(ExecutionAbortedError(message))
        return len(runs)

    async def drain(self, grace_s: float) -> int:
        """Wait for the runs, and end those that have not ended after `grace_s` seconds; how many had to be."""
        with anyio.move_on_after(grace_s):
            await self.wait_until_empty()
        aborted = self.abort(f"The server is shutting down; the script had {grace_s:g} s to end, and had not ended")
        with anyio.move_on_after(ABORT_S):
            await self.wait_until_empty()
        return aborted


async def drain_pool(pool: WorkerPool, in_flight: InFlightRuns, grace_s: float) -> int:
    """Drain the runs of a pool that takes no more, and close it; how many had to be ended."""
    aborted = await in_flight.drain(grace_s)
    await pool.aclose()
    return aborted


def _starlark_terms(
    script: str,
    language: Language,
    tools: Sequence[Mapping[str, Any]] | None,
    context: Mapping[str, Any] | None,
    *,
    has_all: bool = False,
) -> wire.StarlarkTerms | None:
    """What a script in Starlark is told of its tools, of which None are not known, and its variables; None: it is
    AgentScript. `has_all`: it has each function that a server may offer.

    Raises:
        OptionsError: it is in neither language, or a variable cannot be one.
    """
    if language == "starlark":
        names = None if tools is None else {str(tool["name"]): tool for tool in tools}
        check_variables(context or {}, names or ())
        return starlark_terms(script, names, extracts=has_all, results=has_all)
    if language != "javascript":
        raise OptionsError(f"language: 'javascript' or 'starlark' is needed (got {language!r:.80})")
    return None
