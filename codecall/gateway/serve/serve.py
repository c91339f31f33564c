"""Serving a gateway: over standard input and output, or streamable HTTP.

Over stdio nothing but the protocol reaches standard output; over HTTP nothing at all is printed there. SIGTERM, SIGINT
and SIGHUP let running scripts have their grace, then close the session or the port, then the servers behind; a second
one ends the process at once, and kills those servers. A client that closes standard input ends it the same way, without
any grace.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import io
import logging
import os
import select
import socket
import sys
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Any, Final, cast

import anyio
import fastmcp
from fastmcp import FastMCP

from codecall.approvals.folder import default_folder
from codecall.concurrency import tune_garbage_collection
from codecall.errors import OptionsError
from codecall.gateway.config.options import GatewayOptions, ServeOptions
from codecall.gateway.gateway import Gateway
from codecall.gateway.serve.bodies import BoundedBodies
from codecall.gateway.serve.checks import MessageChecks
from codecall.gateway.serve.pending import CountCalls
from codecall.gateway.serve.sessions import limit_sessions
from codecall.gateway.serve.watch import watching_definitions
from codecall.gateway.upstream.addresses import is_loopback
from codecall.gateway.upstream.process import kill_all
from codecall.redaction.clean import escape_invisible
from codecall.server.shutdown import ServeSignals
from codecall.telemetry.metrics import tracer

logger = logging.getLogger("codecall")

MAX_MESSAGE_CHARS: Final = 4_000
"""Characters of one message in the log."""

MAX_TRACEBACK_CHARS: Final = 16_000
"""Characters of the traceback below it, which ends with the text of the exception."""


def serve(options: GatewayOptions, *, insecure: bool = False, watch: bool = False, log_level: str = "WARNING") -> int:
    """Serve until the client leaves (stdio) or the process is told to end; the exit code. A process that SIGTERM ended
    has ended by it, and no code.

    Args:
        options: The gateway, and how it is reached.
        insecure: Let everybody who reaches an address that is not this machine's own use the gateway.
        watch: Read the definitions of composite tools again when their files change.
        log_level: From which level on there is logging, to standard error.

    Raises:
        OptionsError: the options contradict each other, the address cannot be had, or the auth provider refuses.
    """
    _configure_logging(log_level)
    tune_garbage_collection()
    options = draining_at_sigterm(options)
    with ServeSignals(kill_all) as signals:
        if options.serve.transport == "stdio":
            anyio.run(_over_stdio, options, signals, watch)
        else:
            anyio.run(_over_http, options, signals, insecure, watch)
    return signals.exit_code()


async def _over_stdio(options: GatewayOptions, signals: ServeSignals, watch: bool) -> None:
    gateway = Gateway(options, approvals_folder=default_folder())
    async with gateway:
        _finish_startup()
        if sys.stdin is not None and sys.stdin.isatty():
            print(_TERMINAL_NOTICE, file=sys.stderr)
        with (
            interruptible_stdin() as stop,
            signals.stop_with(stop) if stop is not None else contextlib.nullcontext(),
            _telling_exposure(gateway),
            watching_definitions(gateway) if watch else contextlib.nullcontext(),
        ):
            await run_stdio(gateway.server)


@contextmanager
def _telling_exposure(gateway: Gateway) -> Generator[None]:
    """Within this, standard error says what `auto` has chosen: when the servers have been asked, and at each change."""

    def say(exposure: str) -> None:
        print(f"{exposure}. {_OTHERWISE}", file=sys.stderr, flush=True)

    async def tell() -> None:
        await gateway.wait_until_listed()
        say(gateway.describe_exposure())
        gateway.on_exposure = say

    task = asyncio.create_task(tell()) if gateway.options.expose.mode == "auto" else None
    try:
        yield
    finally:
        if task is not None:
            task.cancel()


_OTHERWISE: Final = "--expose always lists CodeCall's, --expose never the servers'."

_TERMINAL_NOTICE: Final = (
    "codecall serve speaks the Model Context Protocol on standard input and output, and waits for a client.\n"
    "`codecall init` prints what to paste into yours; `--transport http` serves a URL. Ctrl-C ends."
)


async def _over_http(options: GatewayOptions, signals: ServeSignals, insecure: bool, watch: bool) -> None:
    # Starlette's, which comes with FastMCP; only HTTP needs it.
    from fastmcp.server.http import Middleware  # pyright: ignore[reportPrivateImportUsage]

    serve_options = options.serve
    fastmcp.settings.http_session_idle_timeout = serve_options.session_idle_s
    auth = None
    if serve_options.auth is not None:
        from codecall.gateway.serve.auth import create_auth_provider  # loads what signs tokens

        auth = create_auth_provider(serve_options.auth)
    if auth is None and not insecure and not is_loopback(serve_options.host):
        raise OptionsError(
            f"serve.host: {serve_options.host} can be reached from elsewhere, and nobody would have to sign in",
            hint="Configure serve.auth, listen on 127.0.0.1, or say --insecure.",
        )
    with _listen(serve_options) as listener:
        gateway = Gateway(options, approvals_folder=default_folder())
        gateway.server.auth = auth
        gateway.server.middleware[:0] = CountCalls(), MessageChecks()  # around what else there is, which may wait
        async with gateway:
            _finish_startup()
            print(f"Listening on {_url(serve_options, listener)}", file=sys.stderr, flush=True)
            watching = watching_definitions(gateway) if watch else contextlib.nullcontext()
            with signals.stop_with(lambda: None), _telling_exposure(gateway), watching:
                await gateway.server.run_http_async(
                    show_banner=False,
                    host=serve_options.host,
                    path=serve_options.path,
                    sockets=[listener],
                    # Where nobody signs in, a web page that points a name at this address (DNS rebinding) is stopped by
                    # this alone. FastMCP's default is to check nothing.
                    host_origin_protection=True if auth is None else "auto",
                    allowed_hosts=list(serve_options.allowed_hosts) or None,
                    allowed_origins=list(serve_options.allowed_origins) or None,
                    middleware=[
                        Middleware(_Begun, begun=signals.move_to_front, max_sessions=serve_options.max_sessions),
                        Middleware(BoundedBodies),
                    ],
                    uvicorn_config={"log_config": None, "access_log": False},
                )


class _Begun:
    """An ASGI application that tells when an HTTP server begins, by when that has set its signal handlers, and bounds
    the sessions it keeps: FastMCP has no option for that."""

    def __init__(self, app: Callable[..., Awaitable[None]], begun: Callable[[], object], max_sessions: int) -> None:
        self._app = app
        self._begun = begun
        self._max_sessions = max_sessions

    async def __call__(self, scope: Mapping[str, Any], receive: object, send: Callable[..., Awaitable[None]]) -> None:
        async def sending(message: Mapping[str, object]) -> None:
            if message["type"] == "lifespan.startup.complete":
                limit_sessions(scope["app"], self._max_sessions)
            await send(message)

        if scope["type"] != "lifespan":
            await self._app(scope, receive, send)
            return
        self._begun()
        await self._app(scope, receive, sending)


def draining_at_sigterm(options: GatewayOptions) -> GatewayOptions:
    """The options with `shutdown.on_sigterm` on, unless the configuration has it: this process is CodeCall's own."""
    plugin = dict(options.codecall)
    shutdown = cast("Mapping[str, object]", plugin.get("shutdown") or {})
    if "onSigterm" not in shutdown:
        plugin["shutdown"] = {"on_sigterm": True, **shutdown}
    return options.model_copy(update={"codecall": plugin})


@contextmanager
def _listen(serve_options: ServeOptions) -> Generator[socket.socket]:
    host = serve_options.host.strip("[]")
    try:
        family, *_, address = socket.getaddrinfo(host, serve_options.port, type=socket.SOCK_STREAM)[0]
        listener = socket.create_server(address[:2], family=family)  # pyright: ignore[reportArgumentType]
    except OSError as failure:
        reason = failure.strerror or type(failure).__name__
        raise OptionsError(
            f"serve.host, serve.port: cannot listen on {host} port {serve_options.port}: {reason}"
        ) from None
    with listener:
        yield listener


def _url(serve_options: ServeOptions, listener: socket.socket) -> str:
    host = serve_options.host.strip("[]")
    address = f"[{host}]" if ":" in host else host
    return f"http://{address}:{listener.getsockname()[1]}{serve_options.path}"


def _finish_startup() -> None:
    """All modules are loaded: they need not be looked through for garbage again, now or later. And who watches is
    known: spans that nobody would see need not be made."""
    gc.freeze()
    gc.enable()
    release_large_blocks()
    if tracer() is None and fastmcp.settings.telemetry_mode == "native":
        fastmcp.settings.telemetry_mode = "propagation_only"


def release_large_blocks() -> bool:
    """Have blocks of a megabyte or more given back to the system once they are free; whether the C library does that.

    glibc gives back what it has never seen freed before, and keeps the next ones of that size, up to 32 MiB each: what
    large answers took for a moment stayed with the process.
    """
    import ctypes  # takes some milliseconds, and only this needs it at the start

    set_option = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    return set_option is not None and set_option(_M_MMAP_THRESHOLD, 1024 * 1024) == 1


_M_MMAP_THRESHOLD: Final = -3
"""The option of `mallopt`: from which size on a block is mapped by itself. Setting it ends that it grows."""


def _configure_logging(level: str) -> None:
    """Everything that is logged goes to standard error, escaped and cut: servers and clients write some of it. The
    handlers of FastMCP are Rich's, which take seconds to wrap a megabyte, and show tracebacks as they are."""
    of_fastmcp = logging.getLogger("fastmcp")
    for handler in (*of_fastmcp.handlers,):
        of_fastmcp.removeHandler(handler)
    of_fastmcp.propagate = True
    of_fastmcp.setLevel(level)
    logging.basicConfig(stream=sys.stderr, level=level)
    for handler in logging.getLogger().handlers:
        handler.setFormatter(BoundedFormatter("%(levelname)s %(name)s: %(message)s"))
    for name in ("httpx", "httpx2", "httpcore", "mcp"):  # they log URLs, which may hold what is secret
        logging.getLogger(name).setLevel(max(logging.WARNING, logging.getLevelNamesMapping()[level]))


class BoundedFormatter(logging.Formatter):
    """Cuts messages and tracebacks that are too long, and escapes what a terminal would obey."""

    def format(self, record: logging.LogRecord) -> str:
        """See `logging.Formatter`."""
        # No line of what a server wrote begins where one of the log does.
        return escape_invisible(super().format(record), keep="\n\t").replace("\n", "\n    ")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - as the base class calls it
        """See `logging.Formatter`."""
        return _cut(super().formatMessage(record), MAX_MESSAGE_CHARS)

    def formatException(self, ei: Any) -> str:  # noqa: N802
        """See `logging.Formatter`."""
        return _cut(super().formatException(ei), MAX_TRACEBACK_CHARS)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}…[truncated {len(text) - most} characters]"


async def run_stdio(server: FastMCP[Any]) -> None:
    """Serve the client behind standard input and output until it leaves or the input is stopped.

    Only the protocol reaches the client: what else is printed goes to standard error.
    """
    try:
        await server.run_stdio_async(show_banner=False)
    except* ConnectionError:  # the client reads no more, which is as good as gone
        pass


@contextmanager
def interruptible_stdin() -> Generator[Callable[[], None] | None]:
    """Within this, `sys.stdin` ends when the function that it gives is called; a signal handler may do so.

    Descriptor 0 leads to the null device meanwhile, so that nothing else in the process takes what the client says.
    Windows cannot wait for a pipe and for something else at once; standard input stays as it is there, and None is
    given.
    """
    if sys.platform == "win32":
        yield None
        return
    client = os.dup(0)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    before, stdin = sys.stdin, InterruptibleStdin(client)
    sys.stdin = io.TextIOWrapper(io.BufferedReader(stdin))
    try:
        yield stdin.stop
    finally:
        sys.stdin = before
        os.dup2(client, 0)
        os.close(client)


class InterruptibleStdin(io.RawIOBase):
    """Reads from a descriptor, and finds the end of the input at the descriptor's or once it is stopped. POSIX only.

    Args:
        descriptor: a pipe, a socket, a terminal or a file; whoever gives it closes it.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._stop_reader, self._stop_writer = os.pipe()

    def stop(self) -> None:
        """End the input, even under a read that waits."""
        os.write(self._stop_writer, b"\0")

    def readable(self) -> bool:
        """Whether it can be read: always."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Wait for input and put it into `buffer`; the number of bytes, 0 at the end."""
        room = memoryview(buffer).cast("B")
        while True:
            ready, _, _ = select.select([self._descriptor, self._stop_reader], [], [])
            if self._stop_reader in ready:
                return 0
            try:
                chunk = os.read(self._descriptor, len(room))
            except BlockingIOError:  # the client shares the descriptor, and may have made it one that does not block
                continue
            room[: len(chunk)] = chunk
            return len(chunk)
