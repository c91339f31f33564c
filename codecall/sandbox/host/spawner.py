"""How workers are spawned: forked by a fork server where there can be one, else started one by one."""

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

MAX_ABANDONED = 2
"""Fork servers kept although they hang, for the sake of the scripts that run in their workers."""

logger = logging.getLogger("codecall")


class WorkerSpawner:
    """Spawns the workers of one pool.

    Args:
        options: Whether to fork, and how long a start may take.
        prepare: What workers make ready for.
    """

    def __init__(self, options: PoolOptions, prepare: wire.Prepare) -> None:
        self._options = options
        self._prepare = prepare
        self._server: ForkServer | None = None
        self._abandoned: list[ForkServer] = []
        self._report: tuple[WorkerProcess, asyncio.Task[None]] | None = None
        """The worker whose jail is reported at start-up, and the task that waits for it."""
        self.closed = False
        """Set when no worker is to be spawned any more."""
        self.layers: list[wire.Layer] = []
        """The layers of the jail as the first worker found them; empty before there was one."""

    @property
    def forks(self) -> bool:
        """Whether a fork server runs: then a worker can be spawned without waiting."""
        return self._server is not None

    def spawn(self, memory_mb: int) -> WorkerProcess:
        """Spawn a worker with room for an engine heap of that many MiB; it loads in the background.

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
            self._abandon(server)
            if (server := self._running_server()) is None:
                raise
            return WorkerProcess.fork(server, prepare)

    def prefork(self) -> WorkerProcess:
        """Fork a worker for the memory of the preset, without waiting; only while `forks`.

        Raises:
            WorkerStartupError: it could not be started.
        """
        if self._server is None:
            raise WorkerStartupError("There is no fork server")
        return WorkerProcess.fork(self._server, self._prepare)

    def log_first_jail_report(self, worker: WorkerProcess) -> None:
        """Wait in a task for `worker`, the first one, so that the log says at start-up how scripts are jailed."""
        if self._report is None:
            self._report = worker, asyncio.create_task(self._log_report(worker))

    async def _log_report(self, worker: WorkerProcess) -> None:
        try:
            await self._wait_ready(worker)
        except WorkerStartupError as failure:
            if not self.closed:
                logger.error("scripts cannot run: %s", failure.message)  # noqa: TRY400 - the reason is all there is

    async def wait_ready(self, worker: WorkerProcess) -> None:
        """Wait until a new worker is ready.

        Raises:
            WorkerStartupError: it died, took too long, or lacks a layer of the jail that is required.
        """
        if self._report is not None and self._report[0] is worker:
            await asyncio.wait([self._report[1]])
        await self._wait_ready(worker)

    async def _wait_ready(self, worker: WorkerProcess) -> None:
        server = self._server
        try:
            await worker.wait_ready(self._options.startup_timeout_ms)
        except WorkerStartupError:
            # One worker may die for reasons of its own. One that neither lives nor dies is the fork server's fault.
            if server is not None and not worker.layers and (worker.alive() or not server.alive()):
                self._abandon(server)
            raise
        if not self.layers:
            self.layers = worker.layers
            _log_layers(worker.layers)

    async def aclose(self) -> None:
        """End the fork server, and with it every worker it has forked."""
        self.closed = True
        if self._report is not None:
            self._report[1].cancel()
            await asyncio.wait([self._report[1]])
        if self._server is not None:
            self._abandon(self._server)
        for server in self._abandoned:
            server.close()
        for server in self._abandoned:
            await anyio.to_thread.run_sync(server.wait)
        self._abandoned.clear()

    def _running_server(self) -> ForkServer | None:
        """The fork server, started by the first call. None where there can be none, or is to be none."""
        if self._server is None and self._options.fork_server and not self.closed and ForkServer.available():
            # Not in a thread: it takes two milliseconds, and a process that is started there is lost when the caller
            # is cancelled meanwhile.
            self._server = ForkServer(self._prepare)
        return self._server

    def _abandon(self, server: ForkServer) -> None:
        """Fork no more workers with `server`. Those that run scripts go on; they end with it, when the pool is
        closed."""
        if self._server is server:
            self._server = None
            self._abandoned = [other for other in self._abandoned if other.alive()]
            self._abandoned.append(server)
        for old in self._abandoned[:-MAX_ABANDONED]:
            old.kill()

    def _prepared_for(self, memory_mb: int) -> wire.Prepare:
        limits = self._prepare.limits
        if memory_mb <= limits.memory_mb:
            return self._prepare
        limits = msgspec.structs.replace(limits, memory_mb=memory_mb)
        return msgspec.structs.replace(self._prepare, limits=limits)


def _log_layers(layers: list[wire.Layer]) -> None:
    """Log the one line at start-up that says how the workers are jailed."""
    missing = [f"{layer.name} ({layer.detail})" for layer in layers if not layer.active]
    if missing:
        active = len(layers) - len(missing)
        logger.warning(
            "scripts run with %d of %d layers of the jail; missing: %s", active, len(layers), "; ".join(missing)
        )
    else:
        logger.info("scripts run with all %d layers of the jail", len(layers))
