"""Clients that vanish while their script runs: over real HTTP, in every way FastMCP serves it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Literal

import pytest
import uvicorn
from fastmcp import Client, FastMCP
from fastmcp.server.event_store import EventStore
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from codecall import CodeCallPlugin, RateLimitPlugin
from tests.approvals.conftest import Person

SCRIPT = "await callTool('hold', {}); return 1"


class Server:
    """One tool that waits until it is let go, one worker, and room for one script at a time."""

    def __init__(self, **options: Any) -> None:
        self.entered, self.left, self.let_go = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.plugin = CodeCallPlugin.init(vm={"preset": "secure"}, pool={"max_workers": 1}, **options)
        self.mcp: FastMCP[Any] = FastMCP("abandoned", transforms=[self.plugin])
        RateLimitPlugin.init(rules=[{"tool": "codecall:execute", "concurrent": 1, "per": "global"}]).install(self.mcp)
        self.mcp.tool(self.hold)

    async def hold(self) -> None:
        """Wait."""
        self.entered.set()
        try:
            await self.let_go.wait()
        except asyncio.CancelledError:
            self.left.set()
            raise


class Wire:
    """A network between client and server, which can fail."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._ends: set[asyncio.StreamWriter] = set()

    async def join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry a new connection."""
        there, onward = await asyncio.open_connection("127.0.0.1", self._to)
        self._ends |= {writer, onward}
        with contextlib.suppress(OSError, asyncio.CancelledError):
            await asyncio.gather(self._carry(reader, onward), self._carry(there, writer))

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
        writer.close()

    def fail(self) -> None:
        """Break every connection."""
        for end in self._ends:
            end.transport.abort()
        self._ends.clear()


@asynccontextmanager
async def serving(app: ASGIApp) -> AsyncGenerator[tuple[int, Wire, str]]:
    """Its port; a network on the way to it, and the address there."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        server = uvicorn.Server(uvicorn.Config(app, lifespan="on", log_level="critical", timeout_graceful_shutdown=0))
        task = asyncio.create_task(server.serve(sockets=[listening]))
        wire = Wire(port)
        network = await asyncio.start_server(wire.join, "127.0.0.1", 0)
        try:
            yield port, wire, f"http://127.0.0.1:{network.sockets[0].getsockname()[1]}/mcp"
        finally:
            network.close()
            wire.fail()
            server.should_exit = True
            await task


async def execute(client: Client[Any], script: str) -> dict[str, Any]:
    answer = await client.call_tool("codecall:execute", {"script": script}, raise_on_error=False)
    return answer.structured_content or {}


async def runs(client: Client[Any]) -> None:
    """Wait until scripts of this client run again."""
    async with asyncio.timeout(20):
        while True:
            if (await execute(client, "return 2")).get("result") == 2:
                return
            await asyncio.sleep(0.01)


async def vanish(
    server: Server, app: ASGIApp, mode: Literal["auto", "legacy"], person: Person | None = None
) -> AsyncGenerator[Client[Any]]:
    """Have a client run the script, which may have a person to be asked, and lose its network; then another client."""
    async with serving(app) as (port, wire, url):
        lost = Client(url, mode=mode, elicitation_handler=person.answer if person is not None else None)
        await lost.__aenter__()
        run = asyncio.create_task(execute(lost, SCRIPT))
        await asyncio.wait_for(server.entered.wait(), 20)
        wire.fail()
        with contextlib.suppress(Exception):
            await asyncio.wait_for(run, 20)
        async with Client(f"http://127.0.0.1:{port}/mcp") as other:
            yield other
        with contextlib.suppress(Exception):
            await lost.__aexit__(None, None, None)


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at connections sooner than a second after a script has begun."""
    monkeypatch.setattr("codecall.server.disconnect.WATCH_AFTER_S", 0.05)
    logging.getLogger("mcp").setLevel(logging.CRITICAL)


WAYS: dict[str, tuple[Literal["auto", "legacy"], dict[str, Any]]] = {
    "a stream": ("auto", {}),
    "JSON": ("auto", {"json_response": True}),
    "a stream of a session": ("legacy", {}),
    "JSON of a session": ("legacy", {"json_response": True}),
    "a stream without sessions": ("legacy", {"stateless_http": True}),
}


@pytest.mark.parametrize("asks", [False, True])
@pytest.mark.parametrize("way", WAYS)
async def test_a_script_ends_with_its_client(way: str, asks: bool) -> None:
    server, (mode, options) = Server(**({"approvals": []} if asks else {})), WAYS[way]
    async for other in vanish(server, server.mcp.http_app(**options), mode, Person("x") if asks else None):
        await asyncio.wait_for(server.left.wait(), 20)
        # Its place among the scripts that may run at once, and the only worker, are free again.
        await runs(other)
    assert server.plugin.worker_pids == ()


async def runs_on(server: Server, app: ASGIApp, mode: Literal["auto", "legacy"]) -> None:
    async for other in vanish(server, app, mode):
        # Long enough for whoever looks; and the script is still there.
        await asyncio.sleep(0.3)
        assert not server.left.is_set()
        server.let_go.set()
        await runs(other)
        assert not server.left.is_set()


async def test_where_the_answer_is_kept_it_runs_on_and_the_client_gets_it() -> None:
    server = Server()
    async with (
        serving(server.mcp.http_app(event_store=EventStore())) as (_, wire, url),
        Client(url, mode="legacy") as client,
    ):
        run = asyncio.create_task(execute(client, SCRIPT))
        await asyncio.wait_for(server.entered.wait(), 20)
        wire.fail()
        await asyncio.sleep(0.3)
        assert not server.left.is_set()
        server.let_go.set()
        assert (await asyncio.wait_for(run, 20))["result"] == 1


async def test_where_that_is_not_wanted_it_runs_on() -> None:
    server = Server(shutdown={"end_abandoned": False})
    await runs_on(server, server.mcp.http_app(), "legacy")


async def test_middleware_that_gives_a_request_again_and_again() -> None:
    server = Server()
    inner = server.mcp.http_app(json_response=True)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        body: list[Message] = []

        async def again() -> Message:
            if not body:
                body.append(await receive())
            return body[0]

        await inner(scope, again if scope["type"] == "http" else receive, send)

    await runs_on(server, app, "auto")
