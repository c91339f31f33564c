"""A server that is a program: started with few variables, spoken to over pipes, ended with everything it has started.

On POSIX it gets a process group of its own, so that what `npx` or a shell has started ends with it. A program that
leaves its group on purpose gets away.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process, SubprocessStreamProtocol
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Final

from mcp.client.stdio import get_default_environment

from codecall.gateway.config.names import describe_program
from codecall.gateway.upstream.errors import ConnectFailureError
from codecall.gateway.upstream.messages import MAX_LINES_PER_S, Throttle
from codecall.redaction.matching import SecretMatcher
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
"""Tasks that end programs; no cancellation of a caller ends them."""
_RUNNING: Final[set[ServerProcess]] = set()
"""Programs that have been started and not been ended."""


def kill_all() -> None:
    """Kill all programs and what they have started, for a process that ends at once. A signal handler may call it."""
    for program in tuple(_RUNNING):
        program.kill()


class _PipeProtocol(SubprocessStreamProtocol):
    """Pipes as streams, and the moment the program ends: asyncio's `wait` also waits for those that inherited them."""

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
        stderr_lines: the last lines it wrote to stderr, without the secrets it was given.
        exited: set when it has ended, whatever it has started may be doing.
    """

    def __init__(
        self,
        transport: asyncio.SubprocessTransport,
        pipes: _PipeProtocol,
        logger: logging.Logger,
        secrets: SecretMatcher,
    ) -> None:
        process = Process(transport, pipes, asyncio.get_running_loop())
        if process.stdin is None or process.stdout is None or process.stderr is None:
            raise RuntimeError("a program without pipes")
        self.pid = process.pid
        self.stdin = process.stdin
        self.stdout = process.stdout
        self.stderr_lines: deque[str] = deque(maxlen=STDERR_LINES)
        self.exited = pipes.exited
        self._secrets = secrets
        self._process = process
        self._transport = transport
        self._stop_task: asyncio.Task[None] | None = None
        self._stderr_reader = asyncio.create_task(self._read_stderr(process.stderr, logger))
        _RUNNING.add(self)

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
        """Start `command` with the few variables of the environment that every server gets, and `env`. Each of
        `secrets` is replaced in all that it writes to stderr, in every spelling.

        Raises:
            ConnectFailureError: there is no such program, or it cannot be started.
        """
        if sys.platform == "win32":
            from mcp.os.win32.utilities import get_windows_executable_command

            command = await asyncio.to_thread(get_windows_executable_command, command)
        try:
            transport, pipes = await asyncio.get_running_loop().subprocess_exec(
                _PipeProtocol,
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
                raise ConnectFailureError("its folder was not found", "Check its `cwd`.") from None
            raise ConnectFailureError("its program was not found", _path_advice(command)) from None
        except PermissionError:
            raise ConnectFailureError(
                "its program may not be run", "Make it executable, or give another `command`."
            ) from None
        except (OSError, ValueError) as failure:
            raise ConnectFailureError(f"its program could not be started ({type(failure).__name__})") from None
        return cls(transport, pipes, logger, SecretMatcher(secrets))

    @property
    def exit_code(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        return self._process.returncode

    async def stop(self) -> None:
        """End it and what it has started: close its input, then SIGTERM, then SIGKILL. Goes on if the caller leaves."""
        if self._stop_task is None:
            self._stop_task = asyncio.create_task(self._stop())
            _STOPPING.add(self._stop_task)
            self._stop_task.add_done_callback(_STOPPING.discard)
        await asyncio.shield(self._stop_task)

    def kill(self) -> None:
        """End it and what it has started, waiting for nothing."""
        self._signal(getattr(signal, "SIGKILL", signal.SIGTERM))

    async def _stop(self) -> None:
        self.stdin.close()
        # A program that is stuck writing does not see that its input has ended.
        draining = asyncio.create_task(self._drain())
        try:
            await self._wait_for_exit(GRACE_S, whole_group=False)
            # Processes left in the group have outlived the program, or are the program.
            if self._signal(signal.SIGTERM) and not await self._wait_for_exit(GRACE_S, whole_group=True):
                self.kill()
                await self._wait_for_exit(GRACE_S, whole_group=True)
        finally:
            _RUNNING.discard(self)
            draining.cancel()
            self._stderr_reader.cancel()
            if self.stdin.transport.get_write_buffer_size():  # somebody else holds its input, and reads nothing
                self.stdin.transport.abort()
            with suppress(PermissionError):
                self._transport.close()
            await asyncio.wait({draining, self._stderr_reader})

    async def _wait_for_exit(self, seconds: float, *, whole_group: bool) -> bool:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.exited.wait()
                while whole_group and self._signal(0):  # noqa: ASYNC110 - nothing reports that a group is empty
                    await asyncio.sleep(_POLL_S)
                return True
        return False

    def _signal(self, number: int) -> bool:
        """Send a signal to the whole group; False where no process of it is left."""
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

    async def _read_stderr(self, stderr: asyncio.StreamReader, logger: logging.Logger) -> None:
        rest, throttle = b"", Throttle(MAX_LINES_PER_S)
        while chunk := await stderr.read(_CHUNK):
            *lines, rest = (rest + chunk).split(b"\n")
            # Of a line without end only the beginning is kept.
            rest = rest[: 4 * STDERR_LINE_CHARS]
            for line in lines:
                if line:
                    self._record_line(line, logger)
                await throttle.wait()
        if rest:
            self._record_line(rest, logger)

    def _record_line(self, line: bytes, logger: logging.Logger) -> None:
        text = line[: 4 * STDERR_LINE_CHARS].decode("utf-8", "replace").rstrip("\r")
        text = self._secrets.replace(text, lambda _: CREDENTIAL)[:STDERR_LINE_CHARS]
        self.stderr_lines.append(text)
        logger.debug("%s", text)


def _path_advice(command: str) -> str:
    """Say what to do about a program that is not there."""
    program = describe_program(command)
    if len(command.split()) > 1:
        name = program.strip("`")
        return f'`command` is one program, and its arguments stand in `args`: command = "{name}", args = […].'
    if "/" in command or "\\" in command:
        return f"There is no {program} at the path that `command` gives."
    return f"{program} is not on the PATH; give the whole path."
