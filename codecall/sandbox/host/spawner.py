"""How workers are made: forked by a fork server where there can be one, else started one by one."""

from __future__ import annotations

import asyncio
import logging

import anyio
import anyio.to_thread
import msgspec

from codecall.errors import WorkerStartupError
from codecall.options import PoolOptions
from codecall.sandbox import wire
from codecall.sandbox.host.process import ForkServer, WorkerProcess

logger = logging.getLogger("codecall")


MAX_GIVEN_UP = 2
"""Fork servers kept although they hang, for the sake of the scripts that run in their workers."""


class WorkerSpawner:
    """Makes the workers of one pool.

    Args:
        options: Whether to fork, and how long a start may take.
        prepare: What workers make ready for.
    """

    def __init__(self, options: PoolOptions, prepare: wire.Prepare) -> None:
        self._options = options
        self._prepare = prepare
        self._server: ForkServer | None = None
        self._given_up: list[ForkServer] = []
        self._greeting: tuple[WorkerProcess, asyncio.Task[None]] | None = None
        self.closed = False
        """Set when no worker is to be made any more."""
        self.layers: list[wire.Layer] = []
        """The layers of the jail as the first worker found them; empty before there was one."""

    @property
    def forks(self) -> bool:
        """Whether a fork server runs: then a worker can be made without waiting."""
        return self._server is not None

    def spawn(self, memory_mb: int) -> WorkerProcess:
        """A new process with room for an engine heap of that many MiB; it loads while the caller goes on.

        Raises:
            WorkerStartupError: it could not be started.
        """
        prepare = self._prepared_for(memory_mb)
        if (server := self._running_server()) is None:
            return WorkerProcess.spawn(prepare)
        try:
            return WorkerProcess.fork(server, prepare)
        except WorkerStartupError:
            # It has died, and its workers with it. If a second one is no better, that is for the caller.
            self._give_up(server)
            if (server := self._running_server()) is None:
                raise
            return WorkerProcess.fork(server, prepare)

    def prefork(self) -> WorkerProcess:
        """The same for the memory of the preset, without waiting; only while `forks`.

        Raises:
            WorkerStartupError: it could not be started.
        """
        if self._server is None:
            raise WorkerStartupError("There is no fork server")
        return WorkerProcess.fork(self._server, self._prepare)

    def log_first_jail_report(self, worker: WorkerProcess) -> None:
        """Learn of its jail as soon as that worker is ready, so that the log says at the start what holds scripts."""
        if self._greeting is None:
            self._greeting = worker, asyncio.create_task(self._greet(worker))

    async def _greet(self, worker: WorkerProcess) -> None:
        try:
            await self._settle(worker)
        except WorkerStartupError as failure:
            if not self.closed:
                logger.error("scripts cannot run: %s", failure.message)  # noqa: TRY400 - the reason is all there is

    async def wait_ready(self, worker: WorkerProcess) -> None:
        """Wait until a new worker is ready.

        Raises:
            WorkerStartupError: it died, took too long, or lacks a layer of the jail that is required.
        """
        if self._greeting is not None and self._greeting[0] is worker:
            await asyncio.wait([self._greeting[1]])
        await self._settle(worker)

    async def _settle(self, worker: WorkerProcess) -> None:
        server = self._server
        try:
            await worker.wait_ready(self._options.startup_timeout_ms)
        except WorkerStartupError:
            # One worker may die for reasons of its own. One that neither lives nor dies is the fork server's fault.
            if server is not None and not worker.layers and (worker.alive() or not server.alive()):
                self._give_up(server)
            raise
        if not self.layers:
            self.layers = worker.layers
            _tell(worker.layers)

    async def aclose(self) -> None:
        """End the fork server, and with it every worker it has made."""
        self.closed = True
        if self._greeting is not None:
            self._greeting[1].cancel()
            await asyncio.wait([self._greeting[1]])
        if self._server is not None:
            self._give_up(self._server)
        for server in self._given_up:
            server.close()
        for server in self._given_up:
            await anyio.to_thread.run_sync(server.wait)
        self._given_up.clear()

    def _running_server(self) -> ForkServer | None:
        """The fork server, started when first asked for. None where there can be none, or shall be."""
        if self._server is None and self._options.fork_server and not self.closed and ForkServer.available():
            # Not in a thread: it takes two milliseconds, and a process that is started there is lost when the caller
            # is cancelled meanwhile.
            self._server = ForkServer(self._prepare)
        return self._server

    def _give_up(self, server: ForkServer) -> None:
        """Make no more workers with it. Those that run scripts go on; they end with it, when the pool is closed."""
        if self._server is server:
            self._server = None
            self._given_up = [other for other in self._given_up if other.alive()]
            self._given_up.append(server)
        for old in self._given_up[:-MAX_GIVEN_UP]:
            old.kill()

    def _prepared_for(self, memory_mb: int) -> wire.Prepare:
        limits = self._prepare.limits
        if memory_mb <= limits.memory_mb:
            return self._prepare
        limits = msgspec.structs.replace(limits, memory_mb=memory_mb)
        return msgspec.structs.replace(self._prepare, limits=limits)


def _tell(layers: list[wire.Layer]) -> None:
    """The one line at start-up that says how the workers are jailed."""
    missing = [f"{layer.name} ({layer.detail})" for layer in layers if not layer.active]
    if missing:
        held = len(layers) - len(missing)
        logger.warning(
            "scripts run with %d of %d layers of the jail; missing: %s", held, len(layers), "; ".join(missing)
        )
    else:
        logger.info("scripts run with all %d layers of the jail", len(layers))
