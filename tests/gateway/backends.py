"""Servers that run for a test, and what stands in front of them."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import uvicorn
from fastmcp import FastMCP
from mcp_types import TextContent

from codecall.gateway.config.options import StdioServer
from codecall.gateway.tools.components import GatewayPrompt, GatewayResource, GatewayTemplate, GatewayTool
from codecall.gateway.upstream.relay import InFlightCall
from codecall.gateway.upstream.server import Backend

SERVERS = Path(__file__).parent / "servers"
PLAIN = SERVERS / "plain.py"
RAW = StdioServer(command=sys.executable, args=("-S", "-E", str(SERVERS / "raw.py")))
"""A server that writes whatever it is called with."""
MODERN_RAW = StdioServer(command=RAW.command, args=(*RAW.args, "modern"))
"""The same, of 2026-07-28."""


def plain_server(*words: str, **options: Any) -> StdioServer:
    """The options of a server that starts in 20 ms; `words` say what is odd about it."""
    return StdioServer(command=sys.executable, args=("-S", "-E", str(PLAIN), *words), **options)


async def call(backend: Backend, tool: str, context: Any = None, **arguments: Any) -> str:
    """The text that a tool answers with."""
    async with backend.use(context) as line:
        return result_text(await line.session.call_tool(tool, arguments, progress_callback=line.progress))


def result_text(result: Any) -> str:
    """Of a result with one text."""
    assert isinstance(result.content[0], TextContent)
    return result.content[0].text


@asynccontextmanager
async def serve_components(backend: Backend) -> AsyncGenerator[FastMCP[Any]]:
    """A FastMCP server with everything that the server behind it lists."""
    async with backend:
        server: FastMCP[Any] = FastMCP("front")
        listing = await backend.fetch_listing()
        for tool in listing.tools:
            server.add_tool(GatewayTool.from_mcp(backend, tool))
        for resource in listing.resources:
            server.add_resource(GatewayResource.from_mcp(backend, resource))
        for template in listing.templates:
            server.add_template(GatewayTemplate.from_mcp(backend, template))
        for prompt in listing.prompts:
            server.add_prompt(GatewayPrompt.from_mcp(backend, prompt))
        yield server


@asynccontextmanager
async def serve_over_http(served: Any) -> AsyncGenerator[str]:
    """The URL of a FastMCP server, or of an ASGI application, over HTTP."""
    app = served.http_app(path="/mcp") if isinstance(served, FastMCP) else served
    config = uvicorn.Config(app, log_level="critical", lifespan="on", ws="none", timeout_graceful_shutdown=0)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        task = asyncio.create_task(uvicorn.Server(config).serve(sockets=[listening]))
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
        finally:
            task.cancel()
            await asyncio.wait({task})
            # uvicorn, cancelled, leaves the loop watching it: nothing is heard of the next with its number.
            asyncio.get_running_loop().remove_reader(listening)


class CuttableLink:
    """Passes bytes on to a server over HTTP, until it is cut."""

    def __init__(self, url: str) -> None:
        self.target = url
        self.url = ""
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Take connections; after a cut at the same port as before."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", _port(self.url) if self.url else 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/mcp"

    async def cut(self) -> None:
        """Reset all connections, and refuse new ones."""
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._relay(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", _port(self.target))
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(_copy(reader, back))
                both.create_task(_copy(there, writer))
        except* OSError:
            pass
        finally:
            writer.transport.abort()
            back.transport.abort()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while chunk := await reader.read(65536):
        writer.write(chunk)
        await writer.drain()
    raise ConnectionResetError


def _port(url: str) -> int:
    port = urlsplit(url).port
    assert port is not None
    return port


def is_alive(pid: int) -> bool:
    """Whether there is such a process, and it has not ended."""
    try:
        os.kill(pid, 0)
        status = Path(f"/proc/{pid}/stat")
        return not status.exists() or status.read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


async def wait_until(condition: Any, seconds: float = 5.0) -> None:
    """Wait for what nobody announces."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


def calls_in_flight(backend: Backend) -> list[InFlightCall]:
    """The calls that a backend has under way."""
    connections = [slot.connection for slot in backend._slots.values() if slot.connection]
    return [one for connection in connections for one in connection.router.calls]
