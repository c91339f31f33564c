"""A server that is a program: started with little, spoken to over pipes, and ended with everything it has started.

On POSIX it gets a process group of its own, so that what `npx` or a shell has started ends with it. A program that
leaves its group on purpose gets away.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import signal
import sys
from asyncio.subprocess import PIPE, Process, SubprocessStreamProtocol
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Final

from mcp.client.stdio import get_default_environment

from codecall.gateway.config.names import describe_program
from codecall.gateway.upstream.errors import ConnectFailure
from codecall.gateway.upstream.messages import MAX_LINES_PER_S, Throttle
from codecall.redaction.patterns import CREDENTIAL

GRACE_S: Final = 2.0
"""Seconds a program has to end by itself once its input is closed, and once more after SIGTERM."""

STDERR_LINES: Final = 50
"""Last lines of its stderr that are kept."""

STDERR_LINE_CHARS: Final = 4096
"""Characters of each of them."""

_CHUNK: Final = 64 * 1024
_POLL_S: Final = 0.02
_STOPPING: Final[set[asyncio.Task[None]]] = set()
"""Programs being ended; nobody's cancellation ends that."""
_KNOWN: Final[set[ServerProcess]] = set()
"""Programs that have been started and not been ended."""


def kill_all() -> None:
    """Kill all programs and what they have started: this process ends at once. May be called by a signal handler."""
    for program in tuple(_KNOWN):
        program.kill()


class _Watched(SubprocessStreamProtocol):
    """Pipes as streams, and the moment the program ends: asyncio's `wait` also waits for whoever has inherited them."""

    def __init__(self) -> None:
        super().__init__(limit=_CHUNK, loop=asyncio.get_running_loop())
        self.exited = asyncio.Event()

    def process_exited(self) -> None:
        super().process_exited()
        self.exited.set()


class ServerProcess:
    """One running program.

    Attributes:
        pid: of the program, which is also its process group's.
        said: the last lines it wrote to stderr, without the credentials it was given.
        exited: set when it has ended, whatever it has started may be doing.
    """

    def __init__(
        self,
        transport: asyncio.SubprocessTransport,
        pipes: _Watched,
        logger: logging.Logger,
        hidden: re.Pattern[str] | None,
    ) -> None:
        process = Process(transport, pipes, asyncio.get_running_loop())
        if process.stdin is None or process.stdout is None or process.stderr is None:
            raise RuntimeError("a program without pipes")
        self.pid = process.pid
        self.stdin = process.stdin
        self.stdout = process.stdout
        self.stderr_lines: deque[str] = deque(maxlen=STDERR_LINES)
        self.exited = pipes.exited
        self._hidden = hidden
        self._process = process
        self._transport = transport
        self._stopping: asyncio.Task[None] | None = None
        self._listening = asyncio.create_task(self._listen(process.stderr, logger))
        _KNOWN.add(self)

    @classmethod
    async def start(
        cls,
        command: str,
        args: Sequence[str],
        env: Mapping[str, str],
        cwd: str | None,
        logger: logging.Logger,
        *,
        secrets: Collection[str] = (),
    ) -> ServerProcess:
        """Start `command` with the few variables of the environment that every server gets, and `env`. What is `hidden`
        is replaced in all that it writes to stderr.

        Raises:
            Why: there is no such program, or it cannot be started.
        """
        if sys.platform == "win32":
            from mcp.os.win32.utilities import get_windows_executable_command

            command = await asyncio.to_thread(get_windows_executable_command, command)
        try:
            transport, pipes = await asyncio.get_running_loop().subprocess_exec(
                _Watched,
                command,
                *args,
                stdin=PIPE,
                stdout=PIPE,
                stderr=PIPE,
                env={**get_default_environment(), **env},
                cwd=cwd,
                start_new_session=True,
            )
        except FileNotFoundError:
            if cwd is not None and not await asyncio.to_thread(os.path.isdir, cwd):
                raise ConnectFailure("its folder was not found", "Check its `cwd`.") from None
            raise ConnectFailure("its program was not found", _where(command)) from None
        except PermissionError:
            raise ConnectFailure(
                "its program may not be run", "Make it executable, or give another `command`."
            ) from None
        except (OSError, ValueError) as failure:
            raise ConnectFailure(f"its program could not be started ({type(failure).__name__})") from None
        # Longest first: one may be the beginning of another.
        longest = sorted(map(re.escape, secrets), key=len, reverse=True)
        return cls(transport, pipes, logger, re.compile("|".join(longest)) if longest else None)

    @property
    def exit_code(self) -> int | None:
        """Exit code, negative for a signal; None while it runs."""
        return self._process.returncode

    async def stop(self) -> None:
        """End it and what it has started: close its input, then SIGTERM, then SIGKILL. Goes on if the caller leaves."""
        if self._stopping is None:
            self._stopping = asyncio.create_task(self._stop())
            _STOPPING.add(self._stopping)
            self._stopping.add_done_callback(_STOPPING.discard)
        await asyncio.shield(self._stopping)

    def kill(self) -> None:
        """End it and what it has started, waiting for nothing."""
        self._signal(getattr(signal, "SIGKILL", signal.SIGTERM))

    async def _stop(self) -> None:
        self.stdin.close()
        # A program that is stuck writing does not see that its input has ended.
        draining = asyncio.create_task(self._drain())
        try:
            await self._ends_within(GRACE_S, whole_group=False)
            # Whoever is left in the group has outlived the program, or is it.
            if self._signal(signal.SIGTERM) and not await self._ends_within(GRACE_S, whole_group=True):
                self.kill()
                await self._ends_within(GRACE_S, whole_group=True)
        finally:
            _KNOWN.discard(self)
            draining.cancel()
            self._listening.cancel()
            if self.stdin.transport.get_write_buffer_size():  # somebody else holds its input, and reads nothing
                self.stdin.transport.abort()
            with suppress(PermissionError):
                self._transport.close()
            await asyncio.wait({draining, self._listening})

    async def _ends_within(self, seconds: float, *, whole_group: bool) -> bool:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.exited.wait()
                while whole_group and self._signal(0):  # noqa: ASYNC110 - nobody tells when a group is empty
                    await asyncio.sleep(_POLL_S)
                return True
        return False

    def _signal(self, number: int) -> bool:
        """Send a signal to the whole group; whether anybody is there to get it."""
        if sys.platform == "win32":
            if self.exit_code is None and number:
                self._process.terminate()
            return self.exit_code is None
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:
            return False
        except PermissionError:
            return self.exit_code is None
        return True

    async def _drain(self) -> None:
        with suppress(OSError):
            while await self.stdout.read(_CHUNK):
                pass

    async def _listen(self, stderr: asyncio.StreamReader, logger: logging.Logger) -> None:
        rest, pace = b"", Throttle(MAX_LINES_PER_S)
        while chunk := await stderr.read(_CHUNK):
            *lines, rest = (rest + chunk).split(b"\n")
            # Of a line without end only the beginning is kept.
            rest = rest[: 4 * STDERR_LINE_CHARS]
            for line in lines:
                if line:
                    self._hear(line, logger)
                await pace.wait()
        if rest:
            self._hear(rest, logger)

    def _hear(self, line: bytes, logger: logging.Logger) -> None:
        text = line[: 4 * STDERR_LINE_CHARS].decode("utf-8", "replace").rstrip("\r")
        if self._hidden is not None:
            text = self._hidden.sub(CREDENTIAL, text)
        text = text[:STDERR_LINE_CHARS]
        self.stderr_lines.append(text)
        logger.debug("%s", text)


def _where(command: str) -> str:
    """What to do about a program that is not there."""
    program = describe_program(command)
    if "/" in command or "\\" in command:
        return f"There is no {program} at the path that `command` gives."
    return f"{program} is not on the PATH; give the whole path."
