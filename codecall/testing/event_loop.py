"""The worker pools of a test session.

Tests may be plain functions or coroutines of any event loop. So the workers live on an event loop of their own, in a
thread that the session starts when the first script runs and ends with itself; every test of the session shares them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from threading import Event
from typing import TypeVar

import anyio
import anyio.to_thread
from anyio.from_thread import BlockingPortal, start_blocking_portal

from codecall.options import PoolOptions
from codecall.presets import Preset, resolve_preset
from codecall.sandbox.enclave import Enclave

# ----------------------------------------------------------------------------------------------------
# Work handed from one event loop to another, each in a thread of its own.

__tracebackhide__ = True  # pytest: tracebacks of tests end in the tests

T = TypeVar("T")


async def run_on_loop(portal: BlockingPortal, job: Callable[[], Awaitable[T]]) -> T:
    """Do `job` on the event loop behind `portal` while this one goes on; it is cancelled with the caller.

    Raises:
        BaseException: what `job` raised.
    """
    started: list[Future[tuple[list[T], BaseException | None]]] = []
    given_up = Event()

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
        if given_up.is_set():
            future.cancel()
        return future.result()

    try:
        # A limiter of its own: however many wait, none waits for a thread that another holds.
        done, failure = await anyio.to_thread.run_sync(wait, abandon_on_cancel=True, limiter=anyio.CapacityLimiter(1))
    except anyio.get_cancelled_exc_class():
        given_up.set()
        for future in started:
            future.cancel()
        raise
    if failure is not None:
        raise failure
    return done[0]


# ----------------------------------------------------------------------------------------------------
# The worker pools of a test session.


EnclaveJob = Callable[[BlockingPortal | None], Awaitable[T]]
"""Something to do on the event loop of the workers, given the event loop of the test if that has one."""


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
        """The event loop; it is started when it is first asked for."""
        if self._portal is None:
            self._portal = self._stack.enter_context(start_blocking_portal(name="codecall-tests"))
        return self._portal

    def enclave(self, choice: PresetChoice) -> tuple[Enclave, Preset]:
        """The enclave for `choice`, and the limits its scripts run under.

        Raises:
            OptionsError: unknown preset, unknown limit, or a value of the wrong type or out of range.
        """
        base = resolve_preset(choice.preset)
        preset = base.replaced(choice.limits) if choice.limits else base
        # What a worker is made for cannot change from script to script.
        made = {"worker_max_runs": preset.worker_max_runs, "require_jail": preset.require_jail}
        key = (base, *made.values())
        if key not in self._enclaves:
            self._enclaves[key] = Enclave(base.replaced(made), pool=PoolOptions.read({"min_workers": 0}, where="pool"))
        return self._enclaves[key], preset

    def run(self, job: EnclaveJob[T]) -> T:
        """Do `job` while this thread waits; when the wait is interrupted, `job` is cancelled."""
        future = self.portal.start_task_soon(job, None)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    async def run_async(self, job: EnclaveJob[T]) -> T:
        """Do `job` while the event loop of the caller goes on; it is cancelled with the caller."""
        outcome: list[T] = []
        trouble: Exception | None = None
        async with BlockingPortal() as callers:
            try:
                outcome.append(await run_on_loop(self.portal, partial(job, callers)))
            except Exception as failure:  # raised here it would arrive in a group
                trouble = failure
        if trouble is not None:
            raise trouble
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
