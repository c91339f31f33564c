"""What a client receives while its script runs: progress and console lines, in both eras, over every transport."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import re
import socket
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, Literal

import pytest
from fastmcp import Client, Context, FastMCP
from fastmcp.client.logging import LogMessage
from fastmcp.client.transports import StdioTransport
from fastmcp.utilities.tests import asgi_server
from fastmcp_tasks import TasksExtension, call_tool_task
from hypothesis import given
from hypothesis import strategies as st
from mcp.shared.exceptions import MCPDeprecationWarning
from mcp_types import CallToolResult, LoggingLevel

from codecall import CodeCallPlugin
from codecall.gateway.config.options import GatewayOptions
from codecall.gateway.gateway import Gateway
from codecall.server.progress import INTERVAL_S, ClientChannel, ProgressNotifier, RisingProgress, channel_from_context
from tests.gateway.backends import serve_over_http
from tests.loaded_python import LoadedPython
from tests.redis_server import RedisServer

Mode = Literal["legacy", "auto"]
MODES: tuple[Mode, ...] = ("legacy", "auto")
LOG_LEVEL = "io.modelcontextprotocol/logLevel"
LIVE = "console.log('one'); await callTool('step', {}); console.log('two'); return 'end'"


class ClientRecorder:
    """Records what one client receives. Progress must rise with each notification, as the protocol says."""

    def __init__(self) -> None:
        self.progress: list[tuple[float, str]] = []
        self.totals: set[float | None] = set()
        self.lines: list[str] = []
        self.runs: set[str] = set()
        self.levels: set[str] = set()
        self._news = asyncio.Condition()

    async def on_progress(self, progress: float, total: float | None, message: str | None) -> None:
        async with self._news:
            self.totals.add(total)
            self.progress.append((progress, message or ""))
            self._news.notify_all()

    async def on_line(self, message: LogMessage) -> None:
        assert message.logger == "codecall.console"
        async with self._news:
            self.lines.append(message.data["msg"])
            self.runs.add(message.data["extra"]["runId"])
            self.levels.add(message.level)
            self._news.notify_all()

    async def until(self, condition: Callable[[ClientRecorder], bool]) -> None:
        """Wait until the condition holds for what was received."""
        async with asyncio.timeout(20), self._news:
            await self._news.wait_for(lambda: condition(self))

    def has_progress(self, pattern: str) -> bool:
        """Whether a message of progress looks like this."""
        return any(re.search(pattern, message) for _, message in self.progress)

    def rises(self) -> bool:
        """Whether each progress is more than the one before it, and no notification has a total."""
        values = [progress for progress, _ in self.progress]
        return self.totals <= {None} and all(before < after for before, after in pairwise(values))

    @property
    def handlers(self) -> dict[str, Any]:
        """Arguments of a client."""
        return {"progress_handler": self.on_progress, "log_handler": self.on_line}


class Stairs:
    """A server whose tool `step` waits for `gate`."""

    def __init__(self, **options: Any) -> None:
        self.gate = asyncio.Event()
        self.waiting = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.server = FastMCP[Any]("stairs")
        self.server.tool(self.step)
        self.server.tool(self.report)
        self.server.tool(self.subscriptions)
        defaults = {"vm": {"preset": "secure"}, "pool": {"min_workers": 0}}
        CodeCallPlugin.init(**defaults | options).install(self.server)

    async def step(self, number: int = 0) -> int:
        """Wait."""
        self.waiting.set()
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return number

    async def report(self, ctx: Context, seed: int = 0) -> None:
        """Report progress, at random, and not in order."""
        numbers = random.Random(seed)
        for _ in range(20):
            await ctx.report_progress(numbers.random() * 100, 100, f"part {numbers.random()}")
            await asyncio.sleep(0)
        await ctx.report_progress(3, 4, "nearly\nthere")
        await self.step()

    async def subscriptions(self, ctx: Context) -> list[bool]:
        """Whether the client gets progress, and whether it gets lines."""
        listener = channel_from_context(ctx)
        return [listener.progress, listener.lines] if listener else []

    @asynccontextmanager
    async def client(
        self, over: str, mode: Mode, recorder: ClientRecorder, level: LoggingLevel = "info"
    ) -> AsyncGenerator[Client[Any]]:
        """A client that requests everything."""
        async with AsyncExitStack() as stack:
            http = await stack.enter_async_context(asgi_server(self.server)) if over == "http" else None
            unopened = (
                http.client(mode=mode, **recorder.handlers)
                if http is not None
                else Client(self.server, mode=mode, **recorder.handlers)
            )
            client = await stack.enter_async_context(unopened)
            if mode == "legacy":
                await enable_logs(client, level)
            yield client


async def enable_logs(client: Client[Any], level: LoggingLevel) -> None:
    """Request logs as a client does before 2026-07-28."""
    with pytest.warns(MCPDeprecationWarning):
        await client.set_logging_level(level)


async def execute(client: Client[Any], script: str) -> dict[str, Any]:
    """The envelope."""
    answer = await client.call_tool("codecall:execute", {"script": script})
    assert answer.structured_content is not None
    return answer.structured_content


def senders() -> list[asyncio.Task[Any]]:
    """The tasks that send progress and lines to clients."""
    return [task for task in asyncio.all_tasks() if "ProgressNotifier._send" in repr(task.get_coro())]


async def wait_for_end(task: asyncio.Task[Any]) -> None:
    """Wait for the end of a task, whatever it is."""
    with suppress(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("over", ["memory", "http"])
async def test_a_client_receives_messages_of_its_script_while_it_runs(over: str, mode: Mode) -> None:
    stairs, recorder = Stairs(), ClientRecorder()
    async with stairs.client(over, mode, recorder) as client:
        run = asyncio.create_task(execute(client, LIVE))
        await recorder.until(lambda r: r.has_progress("^0 calls done, now step, [0-9.]+ s$") and r.lines == ["one"])
        assert not run.done()
        stairs.gate.set()
        envelope = await run
        assert (envelope["status"], envelope["result"], envelope["logs"]) == ("ok", "end", ["one", "two"])
        await recorder.until(lambda r: len(r.lines) == 2)
    assert recorder.lines == ["one", "two"]
    assert recorder.runs == {envelope["runId"]}
    assert recorder.levels == {"info"}
    assert recorder.rises()
    assert senders() == []


STDIO = """
from fastmcp import FastMCP
from codecall import CodeCallPlugin

mcp = FastMCP("stairs")

@mcp.tool
def step(path: str) -> str:
    return open(path).read()

CodeCallPlugin.init(pool={"min_workers": 0}).install(mcp)
mcp.run(show_banner=False)
"""


@pytest.mark.parametrize("mode", MODES)
async def test_over_stdio(mode: Mode, tmp_path: Path, loaded_python: LoadedPython) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    (tmp_path / "server.py").write_text(STDIO, encoding="utf-8")
    recorder = ClientRecorder()
    command = [str(tmp_path / "server.py")]
    transport = StdioTransport(loaded_python.executable, command, cwd=str(Path.cwd()), keep_alive=False)
    async with Client(transport, mode=mode, **recorder.handlers) as client:
        if mode == "legacy":
            await enable_logs(client, "debug")
        script = f"console.log('one'); return await callTool('step', {{path: {json.dumps(str(gate))}}})"
        run = asyncio.create_task(execute(client, script))
        await recorder.until(lambda r: r.has_progress("now step") and r.lines == ["one"])
        await asyncio.to_thread(gate.write_text, "open", encoding="utf-8")
        assert (await run)["result"] == "open"
    assert recorder.rises()


async def test_a_short_script_delivers_its_lines_before_its_answer_and_no_progress() -> None:
    stairs = Stairs()
    elapsed_s, recorder = 1.0, ClientRecorder()
    while elapsed_s >= INTERVAL_S:  # the first has to wait for a worker, and any may have to wait for the processor
        recorder = ClientRecorder()
        async with stairs.client("memory", "auto", recorder) as client:
            await execute(client, "return 1")
            recorder.progress.clear()
            started_at = time.perf_counter()
            await execute(client, "for (let i = 0; i < 30; i++) console.log(`line ${i}`)")
            elapsed_s = time.perf_counter() - started_at
            await recorder.until(lambda r: len(r.lines) == 30)
    assert recorder.lines == [f"line {number}" for number in range(30)]
    assert recorder.progress == []


async def test_lines_of_scripts_that_fail() -> None:
    stairs, recorder = Stairs(), ClientRecorder()
    endings = {
        "throw new Error('no')": "EXECUTION_ERROR",
        "await callTool('nothing' + 1, {})": "TOOL_NOT_FOUND",
        "for (const a of [1]) { for (let i = 0; i < 1e9; i++) { } }": "ITERATION_LIMIT",
    }
    async with stairs.client("memory", "auto", recorder) as client:
        for number, (ending, code) in enumerate(endings.items()):
            assert (await execute(client, f"console.log('said {number}'); {ending}"))["error"]["code"] == code
        await recorder.until(lambda r: r.lines == ["said 0", "said 1", "said 2"])
    assert senders() == []


async def test_lines_have_the_level_they_were_written_with() -> None:
    stairs, recorder = Stairs(vm={"preset": "secure", "max_console_calls": 3}), ClientRecorder()
    async with stairs.client("memory", "auto", recorder) as client:
        script = "console.log('a'); console.warn('b'); console.error('c'); console.error('d')"
        logs = (await execute(client, script))["logs"]
        await recorder.until(lambda r: len(r.lines) == 4)
    assert recorder.lines == logs
    assert logs[:3] == ["a", "[warn] b", "[error] c"]
    assert "not here: 1" in logs[3]
    assert recorder.levels == {"info", "warning", "error"}


async def test_text_of_scripts_is_data() -> None:
    stairs, recorder = Stairs(vm={"preset": "experimental"}), ClientRecorder()
    name = "line\nend\x1b" + "n" * 100
    stairs.server.tool(stairs.step, name=name)
    async with stairs.client("http", "auto", recorder) as client:
        script = f"""
        console.log('a\\nb\\r\\u001b[31mred\\u0000\\u202e'); console.log('\\ud800'); console.log('x'.repeat(500000));
        await callTool({json.dumps(name)}, {{}});
        """
        run = asyncio.create_task(execute(client, script))
        await recorder.until(lambda r: len(r.lines) == 3 and r.has_progress("now line"))
        stairs.gate.set()
        assert (await run)["logs"] == recorder.lines
    assert recorder.lines == ["a\nb\r\x1b[31mred\0\u202e", "\ufffd", "x" * 500_000]
    assert recorder.has_progress(re.escape(r"now line\u000aend\u001bnnn"))
    assert all(message.isprintable() for _, message in recorder.progress)


async def test_heartbeats_in_a_call_and_while_waiting_for_a_worker() -> None:
    stairs, first, second = (
        Stairs(pool={"min_workers": 1, "max_workers": 1}, progress={"heartbeat_s": 0.12}),
        ClientRecorder(),
        ClientRecorder(),
    )
    async with stairs.client("http", "auto", first) as one, stairs.client("http", "auto", second) as other:
        blocked = asyncio.create_task(execute(one, "await callTool('step', {})"))
        await stairs.waiting.wait()
        queued = asyncio.create_task(execute(other, "console.log('mine'); return 2"))
        await first.until(lambda r: sum("now step" in message for _, message in r.progress) >= 4)
        await second.until(lambda r: len(r.progress) >= 3)
        assert all(re.fullmatch(r"waiting for a worker, [0-9.]+ s", message) for _, message in second.progress)
        stairs.gate.set()
        assert (await queued)["result"] == 2
        await blocked
        await second.until(lambda r: r.lines == ["mine"])
    assert first.lines == []
    for recorder in (first, second):
        elapsed = [float(message.rsplit(", ", 1)[1].removesuffix(" s")) for _, message in recorder.progress]
        assert elapsed == sorted(elapsed)
        assert recorder.rises()


async def test_a_script_that_waits_for_a_worker_sends_nothing_before_a_heartbeat() -> None:
    stairs, first, second = Stairs(pool={"min_workers": 1, "max_workers": 1}), ClientRecorder(), ClientRecorder()
    async with stairs.client("http", "auto", first) as one, stairs.client("http", "auto", second) as other:
        blocked = asyncio.create_task(execute(one, "await callTool('step', {})"))
        await stairs.waiting.wait()
        queued = asyncio.create_task(execute(other, "return 2"))
        await asyncio.wait({queued}, timeout=INTERVAL_S)
        await first.until(lambda r: r.has_progress("now step"))
        stairs.gate.set()
        assert (await queued)["result"] == 2
        await blocked
    assert second.progress == []


@pytest.mark.parametrize("mode", MODES)
async def test_what_tools_behind_the_gateway_report_is_in_the_message(mode: Mode, tmp_path: Path) -> None:
    gate, recorder, behind = asyncio.Event(), ClientRecorder(), FastMCP[Any]("behind")

    @behind.tool
    async def build(ctx: Context) -> None:
        """Report progress, and wait."""
        await ctx.report_progress(2, 5, "reading")
        await gate.wait()

    async with serve_over_http(behind) as url:
        options = {"servers": {"far": {"url": url}}, "cache_dir": str(tmp_path), "expose": {"mode": "always"}}
        async with (
            Gateway(GatewayOptions.read(options, where="")) as gateway,
            Client(gateway.server, mode=mode, **recorder.handlers) as client,
        ):
            run = asyncio.create_task(client.call_tool("codecall_execute", {"script": "await far.build()"}))
            await recorder.until(lambda r: r.has_progress(r"^0 calls done, now far_build \(2 of 5: reading\), "))
            gate.set()
            await run
    assert recorder.rises()


async def test_what_tools_report_of_themselves_is_in_the_message() -> None:
    """Every tool begins at its own zero: passed on as it is, the progress of the request would fall."""
    stairs, recorder = Stairs(), ClientRecorder()
    async with stairs.client("memory", "auto", recorder) as client:
        script = "await Promise.all([1, 2, 3].map((seed) => callTool('report', {seed})))"
        run = asyncio.create_task(execute(client, script))
        await recorder.until(
            lambda r: r.has_progress(r"^0 calls done, now report \(3 of 4: nearly\\u000athere\) and 2 more, ")
        )
        stairs.gate.set()
        await run
        assert recorder.rises()
        # Progress of a tool that a client calls itself is passed on as ever.
        recorder.progress.clear()
        await client.call_tool("report", {})
        await recorder.until(lambda r: len(r.progress) == 21)
        assert not recorder.rises()


async def test_many_calls() -> None:
    stairs, recorder = Stairs(), ClientRecorder()
    async with stairs.client("memory", "legacy", recorder) as client:
        script = """
        const steps = (from) => Promise.all([...Array(20).keys()].map((i) => callTool('step', {number: from + i})));
        for (let n = 0; n < 4; n++) { console.log(`batch ${n}`); await steps(n * 20); }
        await callTool('report', {});
        """
        run = asyncio.create_task(execute(client, script))
        await recorder.until(lambda r: r.has_progress("^0 calls done, now step and 19 more"))
        stairs.gate.set()
        assert (await run)["stats"]["toolCalls"] == 81
        await recorder.until(lambda r: len(r.lines) == 4)
    assert recorder.rises()
    assert len(recorder.progress) < 30


@given(st.lists(st.integers(0, 2), max_size=200))
def test_progress_rises_whatever_is_done(steps: list[int]) -> None:
    rising, counts = RisingProgress(), list(accumulate(steps))
    values = [rising.next(done) for done in counts]
    assert [int(number) for number in values] == counts
    assert all(before < after for before, after in pairwise(values))


def test_progress_rises_for_as_long_as_a_script_can_run() -> None:
    rising = RisingProgress()
    values = [rising.next(1_000) for _ in range(36_000)]
    assert all(before < after < 1_001 for before, after in pairwise(values))


@pytest.mark.parametrize(
    ("mode", "level", "expects_lines"),
    [
        ("legacy", None, False),
        ("legacy", "debug", True),
        ("legacy", "info", True),
        ("legacy", "notice", False),
        ("auto", None, True),  # FastMCP's client asks for `debug` by itself
        ("auto", "info", True),
        ("auto", "warning", False),
    ],
)
@pytest.mark.parametrize("token", [True, False])
async def test_notifications_follow_the_request(
    mode: Mode, level: LoggingLevel | None, expects_lines: bool, token: bool
) -> None:
    stairs, recorder = Stairs(), ClientRecorder()
    async with Client(stairs.server, mode=mode) as client:
        if level is not None and mode == "legacy":
            await enable_logs(client, level)
        meta: Any = {LOG_LEVEL: level} if level is not None and mode == "auto" else None
        callback = recorder.on_progress if token else None
        result = await client.session.call_tool("subscriptions", {}, meta=meta, progress_callback=callback)
    assert isinstance(result, CallToolResult)
    assert result.structured_content == {"result": [token, expects_lines] if token or expects_lines else []}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("level", "expects_lines"), [("debug", True), ("warning", False)])
async def test_the_level_of_the_server(mode: Mode, level: LoggingLevel, expects_lines: bool) -> None:
    stairs = Stairs()
    stairs.server.client_log_level = level
    async with Client(stairs.server, mode=mode) as client:
        assert (await client.call_tool("subscriptions", {})).data == [True, expects_lines]


@pytest.mark.parametrize("off", [True, False])
async def test_a_client_that_requests_nothing_receives_nothing(off: bool) -> None:
    stairs, recorder = Stairs(progress={"enabled": not off, "heartbeat_s": 0.1}), ClientRecorder()
    async with Client(stairs.server, mode="auto" if off else "legacy", **recorder.handlers) as client:
        arguments = {"script": "console.log('one'); await callTool('report', {}); return 1"}
        callback = recorder.on_progress if off else None
        run = asyncio.create_task(client.session.call_tool("codecall:execute", arguments, progress_callback=callback))
        await stairs.waiting.wait()
        loop = asyncio.get_running_loop()
        delay_over = asyncio.Event()
        loop.call_later(0.3, delay_over.set)
        await delay_over.wait()
        assert senders() == []
        stairs.gate.set()
        result = await run
    assert isinstance(result, CallToolResult)
    assert result.structured_content is not None
    assert result.structured_content["logs"] == ["one"]
    assert recorder.lines == []
    # Switched off, what tools report goes to the client as if CodeCall were not there.
    assert len(recorder.progress) == (21 if off else 0)


async def test_without_a_client() -> None:
    stairs = Stairs()
    stairs.gate.set()
    answer = await stairs.server.call_tool("codecall:execute", {"script": LIVE})
    assert answer.structured_content is not None
    assert answer.structured_content["logs"] == ["one", "two"]


async def test_a_background_task_shows_its_progress_as_its_status(redis_server: RedisServer) -> None:
    stairs = Stairs(tasks=True)
    stairs.server.add_extension(TasksExtension(url=redis_server.url))
    async with Client(stairs.server) as client, asyncio.timeout(20):
        task = await call_tool_task(client, "codecall:execute", {"script": LIVE})
        while "now step" not in ((await task.status()).status_message or ""):  # noqa: ASYNC110 - the status can only be polled
            await asyncio.sleep(0.05)
        stairs.gate.set()
        envelope = (await task.result()).structured_content or {}
    assert (envelope["status"], envelope["logs"]) == ("ok", ["one", "two"])


class UnreachableContext(Context):
    """A request whose progress cannot be sent."""

    tried = asyncio.Event()

    async def report_progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        self.tried.set()
        raise ConnectionError("-".join(("no", "route")))


async def test_what_cannot_be_sent_ends_the_sending(caplog: pytest.LogCaptureFixture) -> None:
    listener = ClientChannel(UnreachableContext(FastMCP("deaf")), None, progress=True, lines=True)
    async with ProgressNotifier(listener, 0.1, "run_1") as progress:
        progress.on_console(["one"])
        await UnreachableContext.tried.wait()
        progress.on_console(["two"])
    assert senders() == []
    (warning,) = [record.getMessage() for record in caplog.records if record.name == "codecall"]
    assert warning.startswith("notifying a client of its script failed with ConnectionError\n")
    assert "no-route" not in warning


@pytest.mark.parametrize("mode", MODES)
async def test_a_cancelled_request(mode: Mode) -> None:
    stairs, recorder = Stairs(), ClientRecorder()
    async with stairs.client("memory", mode, recorder) as client:
        run = asyncio.create_task(execute(client, LIVE))
        await recorder.until(lambda r: r.has_progress("now step"))
        run.cancel()
        await wait_for_end(run)
        await asyncio.wait_for(stairs.cancelled.wait(), 20)
        values = len(recorder.progress)
        assert (await execute(client, "return 3"))["result"] == 3
        assert senders() == []
    assert len(recorder.progress) == values


@asynccontextmanager
async def http_server(server: FastMCP[Any]) -> AsyncGenerator[tuple[str, int]]:
    """A real HTTP server on a real port, whose connections hold little that has not been read."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        run = server.run_http_async(show_banner=False, sockets=[listening], uvicorn_config={"log_level": "error"})
        task = asyncio.create_task(run)
        try:
            yield listening.getsockname()
        finally:
            task.cancel()
            await wait_for_end(task)
            # uvicorn, cancelled, leaves the loop watching it: the next socket with its number would get no events.
            asyncio.get_running_loop().remove_reader(listening)


async def post(address: tuple[str, int], script: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Send `codecall:execute`, as a client of 2026-07-28 does, over a connection that takes in little by itself."""
    body = json.dumps(
        {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {
                "name": "codecall:execute",
                "arguments": {"script": script},
                "_meta": {
                    "progressToken": "p",
                    LOG_LEVEL: "info",
                    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                    "io.modelcontextprotocol/clientCapabilities": {},
                },
            },
        }
    )
    headers = {
        "Host": "localhost",
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "Mcp-Protocol-Version": "2026-07-28",
        "Mcp-Method": "tools/call",
        "Mcp-Name": "codecall:execute",
        "Content-Length": str(len(body)),
    }
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.setblocking(False)
    await asyncio.get_running_loop().sock_connect(connection, address)
    reader, writer = await asyncio.open_connection(sock=connection, limit=1024)
    lines = ["POST /mcp HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), "", body]
    writer.write("\r\n".join(lines).encode())
    return reader, writer


async def test_a_client_that_reads_nothing_holds_up_nobody(caplog: pytest.LogCaptureFixture) -> None:
    stairs = Stairs(vm={"preset": "experimental"}, pool={"min_workers": 1, "max_workers": 1})
    stairs.gate.set()
    flood = """
    for (let i = 0; i < 300; i++) console.log('x'.repeat(1000));
    await callTool('step', {});
    for (let i = 0; i < 300; i++) console.log('y'.repeat(1000));
    """
    async with http_server(stairs.server) as address:
        _, writer = await post(address, flood)
        await asyncio.wait_for(stairs.waiting.wait(), 20)
        recorder = ClientRecorder()
        with caplog.at_level(logging.WARNING, logger="codecall"):
            url = f"http://{address[0]}:{address[1]}/mcp"
            async with Client(url, **recorder.handlers) as client:
                # There is one worker: it is free again.
                assert (await asyncio.wait_for(execute(client, "return 2"), 20))["result"] == 2
                while senders():
                    await asyncio.wait(senders(), timeout=20)
                (warning,) = [record.getMessage() for record in caplog.records if record.name == "codecall"]
                assert re.fullmatch(
                    r"run_\S+: its client reads notifications too slowly; \d{2,3} console lines are only in its answer",
                    warning,
                )
                writer.transport.abort()


async def test_a_client_that_disconnects() -> None:
    stairs = Stairs()
    async with http_server(stairs.server) as address:
        reader, writer = await post(address, LIVE)
        async with asyncio.timeout(20):
            while b"now step" not in await reader.readline():
                pass
            assert len(senders()) == 1
            writer.transport.abort()
            await stairs.cancelled.wait()
            await asyncio.gather(*senders(), return_exceptions=True)
    assert senders() == []


async def test_sixty_clients_at_once_receive_each_their_own() -> None:
    # Most of them wait for a worker, and learn so from the first heartbeat.
    pool, progress = {"min_workers": 2, "max_workers": 2, "max_queue": 100}, {"heartbeat_s": 0.1}
    stairs, recorders = Stairs(pool=pool, progress=progress), [ClientRecorder() for _ in range(60)]
    async with AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(Client(stairs.server, **recorder.handlers)) for recorder in recorders
        ]
        scripts = [f"console.log('{n}'); await callTool('step', {{}}); console.log('{n}!')" for n in range(60)]
        runs = [asyncio.create_task(execute(*both)) for both in zip(clients, scripts, strict=True)]
        for recorder in recorders:
            await recorder.until(lambda r: bool(r.progress))
        stairs.gate.set()
        assert {envelope["status"] for envelope in await asyncio.gather(*runs)} == {"ok"}
        for number, recorder in enumerate(recorders):
            await recorder.until(lambda r: len(r.lines) == 2)
            assert recorder.lines == [f"{number}", f"{number}!"]
            assert len(recorder.runs) == 1
            assert recorder.rises()
    assert senders() == []
    assert len({run for recorder in recorders for run in recorder.runs}) == 60
