"""The worker pools of a test session.

Tests may be plain functions or coroutines of any event loop. So the workers live on an event loop of their own, in a
thread that starts with the first script and ends with the session; all tests of the session share them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Event
from typing import TypeVar

import anyio
import anyio.to_thread
import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal

from codecall.options import PoolOptions
from codecall.presets import Preset, resolve_preset
from codecall.sandbox.enclave import Enclave

__tracebackhide__ = True  # pytest: tracebacks of tests end in the tests

T = TypeVar("T")

EnclaveJob = Callable[[BlockingPortal | None], Awaitable[T]]
"""Runs on the event loop of the workers; gets the event loop of the test, or None if that has none."""


@dataclass(frozen=True, slots=True)
class PresetChoice:
    """The limits that a test asks for."""

    preset: str | None = None
    """A name, or the path of a preset file; None: `CODECALL_VM_PRESET`, else `secure`."""
    limits: Mapping[str, object] = field(default_factory=dict[str, object])
    """Values of the preset to replace."""


class SessionEnclaves:
    """The worker pools of one test session, one for each preset, and the event loop they live on."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._portal: BlockingPortal | None = None
        self._enclaves: dict[tuple[object, ...], Enclave] = {}

    @property
    def portal(self) -> BlockingPortal:
        """The event loop of the workers; it is started when it is first used."""
        if self._portal is None:
            self._portal = self._stack.enter_context(start_blocking_portal(name="codecall-tests"))
        return self._portal

    def enclave(self, choice: PresetChoice, *, starlark: bool = False) -> tuple[Enclave, Preset]:
        """The enclave for `choice`, and the limits its scripts run under; with `starlark` one that runs that, too.

        Raises:
            OptionsError: unknown preset, unknown limit, or a value of the wrong type or out of range.
        """
        base = resolve_preset(choice.preset)
        preset = base.replaced(choice.limits) if choice.limits else base
        # What a worker is created with cannot change from script to script.
        fixed = {"worker_max_runs": preset.worker_max_runs, "require_jail": preset.require_jail}
        key = (base, *fixed.values(), starlark)
        if key not in self._enclaves:
            pool = PoolOptions.read({"min_workers": 0}, where="pool")
            self._enclaves[key] = Enclave(base.replaced(fixed), pool=pool, starlark=starlark)
        return self._enclaves[key], preset

    def run(self, job: EnclaveJob[T]) -> T:
        """Run `job` while this thread waits; interrupting the wait cancels the job."""
        future = self.portal.start_task_soon(job, None)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    async def run_async(self, job: EnclaveJob[T]) -> T:
        """Run `job` while the event loop of the caller goes on. Cancelling the caller cancels the job."""
        outcome: list[T] = []
        error: Exception | None = None
        async with BlockingPortal() as test_loop:
            try:
                outcome.append(await run_on_loop(self.portal, partial(job, test_loop)))
            except Exception as failure:  # raised here it would arrive in a group
                error = failure
        if error is not None:
            raise error
        return outcome[0]

    def close(self) -> None:
        """End all workers, and the event loop. Idempotent."""
        portal, self._portal = self._portal, None
        if portal is None:
            return
        try:
            for enclave in self._enclaves.values():
                portal.call(enclave.aclose)
        finally:
            self._enclaves.clear()
            self._stack.close()


async def run_on_loop(portal: BlockingPortal, job: Callable[[], Awaitable[T]]) -> T:
    """Run `job` on the event loop behind `portal` while this one goes on. Cancelling the caller cancels the job.

    Raises:
        BaseException: what `job` raised.
    """
    started: list[Future[tuple[list[T], BaseException | None]]] = []
    cancelled = Event()

    async def contained() -> tuple[list[T], BaseException | None]:
        try:
            return [await job()], None
        except anyio.get_cancelled_exc_class():
            raise
        except BaseException as failure:  # one that is no Exception would end all that the portal does
            return [], failure

    def wait() -> tuple[list[T], BaseException | None]:
        future = portal.start_task_soon(contained)
        started.append(future)
        if cancelled.is_set():
            future.cancel()
        return future.result()

    try:
        # A limiter of its own: however many wait, none waits for a thread that another holds.
        result, failure = await anyio.to_thread.run_sync(wait, abandon_on_cancel=True, limiter=anyio.CapacityLimiter(1))
    except anyio.get_cancelled_exc_class():
        cancelled.set()
        for future in started:
            future.cancel()
        raise
    if failure is not None:
        raise failure
    return result[0]


ENCLAVES = pytest.StashKey[SessionEnclaves]()
"""Where the configuration of pytest holds the worker pools, once a test has needed one."""


def configured_preset(config: pytest.Config) -> str | None:
    """The preset of the command line or the configuration file; paths in the configuration are relative to the root."""
    command_line: str | None = config.getoption("codecall_preset", None)
    preset: str = command_line or config.getini("codecall_preset")
    if not preset:
        return None
    path = config.rootpath / preset
    return str(path) if command_line is None and path.suffix == ".toml" else preset


def session_enclaves(config: pytest.Config) -> SessionEnclaves:
    """The worker pools of this session."""
    if (enclaves := config.stash.get(ENCLAVES, None)) is None:
        enclaves = config.stash[ENCLAVES] = SessionEnclaves()
    return enclaves


def display_path(path: Path, root: Path) -> str:
    """A path as messages show it: relative to the root if it is below."""
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)
