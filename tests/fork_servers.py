"""Fork servers that tests share: starting one takes a fifth of a second of processor time, more than most tests."""

from __future__ import annotations

import os
import socket

from codecall.sandbox import wire
from codecall.sandbox.host.spawner import ForkedProcess, ForkServer

CANARY = "CODECALL_CANARY"
"""The variable with the secret of attacks."""


class ForkServers:
    """In the place of the class `ForkServer`: lends a running one instead of starting another.

    The tests that look at fork servers themselves, and at what is left of them, have their own.
    """

    def __init__(self) -> None:
        self._running: dict[tuple[bytes, str], ForkServer] = {}

    def __call__(self, prepare: wire.Prepare) -> LentServer:
        """One that workers with such limits may come from. Only workers that serve one script need one of their own:
        they are copies of an engine with these limits; and those that know Starlark, which is loaded in advance. One
        that was started before the secrets of attacks were in the environment could not give them away."""
        copies = prepare.runs == 1 and not prepare.limits.allow_clock
        kind = wire.pack(prepare) if copies else b"starlark" if prepare.starlark else b""
        key = kind, os.environ.get(CANARY, "")
        server = self._running.get(key)
        if server is None or not server.alive():
            server = self._running[key] = ForkServer(prepare)
        return LentServer(server)

    def available(self) -> bool:
        """Whether the system can fork."""
        return ForkServer.available()

    def close(self) -> None:
        """End them all."""
        for server in self._running.values():
            server.close()
        for server in self._running.values():
            server.wait()


class LentServer:
    """A fork server as one enclave sees it: its own workers end with it, those of others live on."""

    def __init__(self, server: ForkServer) -> None:
        self._server = server
        self._made: list[ForkedProcess] = []
        self._closed = False

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._server.pid

    def alive(self) -> bool:
        """Whether it still makes workers."""
        return not self._closed and self._server.alive()

    def fork(self, pipe: socket.socket) -> ForkedProcess:
        """A new worker with `pipe` as its descriptor 0."""
        process = self._server.fork(pipe)
        self._made = [*(process for process in self._made if process.poll() is None), process]
        return process

    def kill(self) -> None:
        """End the workers it has made here."""
        self._closed = True
        for process in self._made:
            process.kill()

    close = kill

    def wait(self) -> None:
        """Wait until they have ended."""
        for process in self._made:
            process.wait(5)
        self._made.clear()
