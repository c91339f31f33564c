"""SIGTERM and a real server process: what its clients get, when it ends and how, and that nothing outlives it."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from fastmcp import Client

from tests.loaded_python import LoadedPython

REPOSITORY = Path(__file__).parent.parent.parent

SECONDS = 30.0
"""For anything, on a busy machine; nothing here takes a tenth of it."""


class Server:
    """A process of `tests/server/program.py`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.output: list[str] = []

    async def says(self, text: str) -> None:
        """Wait until it has said that."""
        assert self.process.stderr is not None
        while not any(text in line for line in self.output):
            line = await asyncio.wait_for(self.process.stderr.readline(), SECONDS)
            assert line, "".join(self.output)
            self.output.append(line.decode())

    async def ends(self) -> int:
        """Its exit status."""
        assert self.process.stderr is not None
        self.output.append((await asyncio.wait_for(self.process.stderr.read(), SECONDS)).decode())
        return await asyncio.wait_for(self.process.wait(), SECONDS)


@asynccontextmanager
async def running(python: str, *arguments: str, **options: Any) -> AsyncGenerator[Server]:
    process = await asyncio.create_subprocess_exec(
        *(python, "-m", "tests.server.program", *arguments),
        cwd=REPOSITORY,
        stderr=asyncio.subprocess.PIPE,
        **options,
    )
    server = Server(process)
    try:
        yield server
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        print("".join(server.output))


async def execute(client: Client[Any], script: str) -> dict[str, Any]:
    answer = await client.call_tool("codecall:execute", {"script": script})
    assert answer.structured_content is not None
    return answer.structured_content


def live(pid: int) -> bool:
    """Whether that process runs; one that has ended may wait for whoever took it in."""
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except (FileNotFoundError, ProcessLookupError):
        return False


async def wait_until_gone(pids: list[int]) -> None:
    """Wait until none of the processes runs any more."""
    async with asyncio.timeout(SECONDS):
        while True:
            if not any(map(live, pids)):
                return
            await asyncio.sleep(0.01)


async def test_an_http_server_lets_scripts_end_and_answers_all_of_them(loaded_python: LoadedPython):
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
        fd = listening.fileno()
        async with running(loaded_python.executable, "1", str(fd), pass_fds=[fd]) as server, AsyncExitStack() as stack:
            new = await stack.enter_async_context(Client(url))
            old = Client(url, mode="legacy")
            await old.__aenter__()
            pids = (await new.call_tool("processes")).data
            short = asyncio.create_task(execute(new, "return await callTool('hold', { name: 'short' });"))
            long = asyncio.create_task(
                execute(old, "console.log('here'); return await callTool('hold', { name: 'long' });")
            )
            await server.says("held short")
            await server.says("held long")
            pids += (await new.call_tool("processes")).data
            server.process.send_signal(signal.SIGTERM)
            await server.says("SIGTERM: no new scripts; those in progress (2) have 1 s to end")
            refused = (await execute(new, "return 1"))["error"]
            assert (refused["code"], refused["message"]) == (
                "POOL_DISPOSED",
                "The server is shutting down and takes no more scripts; this one was not run",
            )
            await new.call_tool("free", {"name": "short"})
            assert (await short)["result"] == "short"
            # Long after uvicorn would have closed this stream: it does so half a second after the signal.
            result = await long
            assert (result["status"], result["error"]["code"]) == ("runtime_error", "EXECUTION_ABORTED")
            assert result["logs"] == ["here"]
            assert (result["calls"][0]["toolName"], result["calls"][0]["outcome"]) == ("hold", "unfinished")
            assert result["stats"]["toolCalls"] == 1
            await old.__aexit__(None, None, None)  # at once: later it would look for its server for five seconds
            assert await server.ends() == -signal.SIGTERM
            await wait_until_gone(pids)


class Stdio:
    """A client over the pipes of a server process."""

    def __init__(self, server: Server) -> None:
        self._process = server.process
        self._number = 0

    async def send(self, method: str, params: dict[str, Any], *, answered: bool = True) -> int:
        assert self._process.stdin is not None
        self._number += 1
        message = {"jsonrpc": "2.0", "method": method, "params": params, **({"id": self._number} if answered else {})}
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        await self._process.stdin.drain()
        return self._number

    async def answer(self, number: int) -> dict[str, Any]:
        assert self._process.stdout is not None
        while True:
            line = await asyncio.wait_for(self._process.stdout.readline(), SECONDS)
            assert line
            message = json.loads(line)
            if message.get("id") == number:
                return message["result"]

    async def shake_hands(self) -> None:
        version = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        await self.answer(await self.send("initialize", version))
        await self.send("notifications/initialized", {}, answered=False)

    async def call(self, tool: str, **arguments: Any) -> int:
        return await self.send("tools/call", {"name": tool, "arguments": arguments})


PIPES = {"stdin": asyncio.subprocess.PIPE, "stdout": asyncio.subprocess.PIPE}


async def test_a_stdio_server_answers_before_it_ends_as_the_signal_has_it(loaded_python: LoadedPython):
    async with running(loaded_python.executable, "0.2", **PIPES) as server:
        client = Stdio(server)
        await client.shake_hands()
        run = await client.call("codecall:execute", script="return await callTool('hold', { name: 'long' });")
        await server.says("held long")
        answer = await client.answer(await client.call("processes"))
        pids = answer["structuredContent"]["result"]
        assert len(pids) == 2
        server.process.send_signal(signal.SIGTERM)
        result = (await client.answer(run))["structuredContent"]
        assert result["error"]["code"] == "EXECUTION_ABORTED"
        assert await server.ends() == -signal.SIGTERM
        assert "SIGTERM: scripts that had not ended in time: 1" in "".join(server.output)
        await wait_until_gone(pids)


async def test_a_second_signal_ends_it_at_once(loaded_python: LoadedPython):
    async with running(loaded_python.executable, "3600", **PIPES) as server:
        client = Stdio(server)
        await client.shake_hands()
        await client.call("codecall:execute", script="return await callTool('hold', { name: 'long' });")
        await server.says("held long")
        pids = (await client.answer(await client.call("processes")))["structuredContent"]["result"]
        server.process.send_signal(signal.SIGTERM)
        await server.says("have 3600 s to end")
        server.process.send_signal(signal.SIGTERM)
        assert await server.ends() == -signal.SIGTERM
        await wait_until_gone(pids)
