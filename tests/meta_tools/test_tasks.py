"""`codecall:execute` as a background task: who gets one, and for whom it is run."""

from __future__ import annotations

import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import anyio
import httpx2
import pytest
from fastmcp import Client, Context, FastMCP
from fastmcp.client.transports import StreamableHttpTransport
from fastmcp.exceptions import ToolError
from fastmcp.server.auth import AccessToken, TokenVerifier, require_scopes
from fastmcp.server.auth.providers.jwt import JWTVerifier, RSAKeyPair
from fastmcp.utilities.tasks import TASKS_EXTENSION_ID
from fastmcp.utilities.types import Image
from fastmcp_tasks import TasksExtension, ToolTask, call_tool_task
from mcp.shared.exceptions import MCPError
from mcp_types import Implementation

from codecall import CodeCallPlugin, OptionsError, RateLimitPlugin
from tests.redis_server import RedisServer

KEYS = RSAKeyPair.generate()


class Gate:
    """Where a tool waits until a test lets it go on.

    Args:
        calls: How many there have to be before it is `reached`.
    """

    def __init__(self, calls: int = 1) -> None:
        self._expected = calls
        self.reached = anyio.Event()
        self.open = anyio.Event()
        self.left = anyio.Event()

    async def __call__(self) -> str:
        self._expected -= 1
        if self._expected <= 0:
            self.reached.set()
        try:
            await self.open.wait()
        finally:
            self.left.set()
        return "passed"


def make(plugin: CodeCallPlugin | None = None, *, url: str = "memory://", **options: Any) -> FastMCP[Any]:
    """A server with two tools whose scripts may be tasks."""
    server = FastMCP[Any]("crm", **options)
    server.tool(lambda a, b: a + b, name="add")
    server.tool(lambda: "secret", name="see_secrets", auth=require_scopes("admin"))
    (plugin or tasks()).install(server)
    # In memory, too, servers of one name share a queue, and with it what is kept for a quarter of an hour.
    name = f"crm-{uuid4()}" if url == "memory://" else None
    server.add_extension(TasksExtension(url=url, name=name, concurrency=2))
    return server


def tasks(**options: Any) -> CodeCallPlugin:
    """A plugin that has them."""
    return CodeCallPlugin.init(**{"vm": {"preset": "secure"}, "tasks": True} | options)


async def begun(client: Client[Any], script: str, **options: Any) -> ToolTask:
    """The task of a script."""
    return await call_tool_task(client, "codecall:execute", {"script": script, **options})


async def ended(client: Client[Any], script: str, **options: Any) -> dict[str, Any]:
    """The envelope that such a task ends with."""
    with anyio.fail_after(30):
        result = await (await begun(client, script, **options)).result()
    assert result.structured_content is not None, result.content
    return result.structured_content


@asynccontextmanager
async def served(server: FastMCP[Any]) -> AsyncGenerator[Any]:
    """What makes clients of that server over HTTP, which come from any address, with any token."""
    app = server.http_app(stateless_http=True)

    def client(address: str = "10.0.0.1", token: str | None = None, **headers: str) -> Client[Any]:
        def connect(**options: Any) -> httpx2.AsyncClient:
            return httpx2.AsyncClient(**options, transport=httpx2.ASGITransport(app, client=(address, 1234)))

        transport = StreamableHttpTransport("http://crm/mcp", auth=token, headers=headers, httpx_client_factory=connect)
        return Client(transport)

    async with app.router.lifespan_context(app):
        yield client


def token(subject: str, *scopes: str) -> str:
    return KEYS.create_token(subject=subject, scopes=list(scopes))


def guarded() -> JWTVerifier:
    return JWTVerifier(public_key=KEYS.public_key)


# --- who gets one


async def test_a_client_that_asks_for_a_task_polls_for_the_envelope() -> None:
    plugin = tasks()
    server = make(plugin)

    @server.tool(task=True)
    async def later() -> str:
        return "now"

    async with Client(server) as client:
        (execute,) = [tool for tool in await client.list_tools() if tool.name == "codecall:execute"]
        envelope = await ended(client, "return [await callTool('add', { a: 1, b: 2 }), await callTool('later', {})];")
        assert envelope["status"] == "ok"
        # A tool that may be a task itself is run at once: only what the client called is one.
        assert envelope["result"] == [3, "now"]
        workers = plugin.worker_pids
        assert len(workers) == 1
        assert (await ended(client, "return 1"))["runId"] != envelope["runId"]
        direct = await client.call_tool_mcp("codecall:execute", {"script": "return 2"})
        assert direct.structured_content["result"] == 2
        assert plugin.worker_pids == workers
    assert "requeue" not in execute.input_schema["properties"]


async def test_pictures_that_a_script_shows_are_in_the_result_of_its_task() -> None:
    server = make(tasks())
    server.tool(lambda: Image(data=b"\x89PNG\x00", format="png"), name="shoot")
    async with Client(server) as client:
        task = await begun(client, "emit(await callTool('shoot', {}))")
        result = await task.result()
    assert [block.type for block in result.content] == ["text", "image"]
    assert result.content[1].data == "iVBORwA="


async def test_arguments_of_a_task_are_checked() -> None:
    async with Client(make()) as client:
        task = await call_tool_task(client, "codecall:execute", {"code": "return 1"}, raise_on_error=False)
        result = await task.result()
        assert result.is_error
        assert "code: Unknown argument" in result.content[0].text or "unknown argument" in result.content[0].text


async def test_a_cancelled_task_ends_its_script() -> None:
    gate, plugin = Gate(), tasks()
    server = make(plugin)
    server.tool(gate.__call__, name="wait")
    async with Client(server) as client:
        task = await begun(client, "return await callTool('wait', {})")
        with anyio.fail_after(20):
            await gate.reached.wait()
            await task.cancel()
            assert (await task.wait()).status == "cancelled"
            await gate.left.wait()


async def test_tasks_run_under_the_options_of_now() -> None:
    plugin = tasks()
    async with Client(make(plugin)) as client:
        await plugin.reload(vm={"preset": "secure", "max_tool_calls": 1})
        twice = "await callTool('add', { a: 1, b: 2 }); await callTool('add', { a: 1, b: 2 });"
        assert (await ended(client, twice))["error"]["code"] == "TOOL_CALL_LIMIT"


@pytest.mark.parametrize("root_too", [False, True])
async def test_a_mounted_server_has_tasks_where_the_root_has_the_extension(root_too: bool) -> None:
    root = FastMCP[Any]("root")
    root.add_extension(TasksExtension())
    child = FastMCP[Any]("child")
    for server in (root, child):
        server.tool(lambda name=server.name: name, name="whose")
    tasks().install(child)
    if root_too:
        tasks().install(root)
    root.mount(child, namespace="crm")
    async with Client(root) as client:
        for name, whose in {"crm_codecall:execute": "child", "codecall:execute": "root"}.items():
            if whose == "child" or root_too:
                task = await call_tool_task(client, name, {"script": "return await callTool('whose', {})"})
                with anyio.fail_after(20):
                    result = await task.result()
                assert result.structured_content["result"] == whose


async def test_a_tool_that_is_a_task_may_run_scripts() -> None:
    server = make()

    @server.tool(task=True)
    async def report(ctx: Context) -> Any:
        answer = await ctx.fastmcp.call_tool("codecall:execute", {"script": "return 7"})
        return answer.structured_content

    async with Client(server) as client:
        with anyio.fail_after(20):
            result = await (await call_tool_task(client, "report", {})).result()
        assert result.structured_content["result"] == 7


async def test_a_server_without_the_extension_does_not_start() -> None:
    server = FastMCP[Any]("crm", transforms=[tasks()])
    with pytest.raises(RuntimeError, match=r"codecall:execute.*add_extension"):
        async with Client(server):
            pass


def test_without_the_package_the_option_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "codecall.meta_tools.tasks", raising=False)
    monkeypatch.delitem(sys.modules, "codecall.meta_tools.tasks", raising=False)
    monkeypatch.setitem(sys.modules, "fastmcp_tasks.context", None)
    monkeypatch.setitem(sys.modules, "fastmcp_tasks.dependencies", None)
    with pytest.raises(OptionsError) as refused:
        tasks()
    assert "pip install 'codecall[tasks]'" in str(refused.value.hint)


# --- for whom it is run


async def test_a_task_sees_the_tools_of_its_caller() -> None:
    script = "return [getTool('see_secrets') !== undefined, await callTool('see_secrets', {})]"
    async with served(make(auth=guarded())) as client:
        async with client(token=token("ann", "admin")) as ann:
            task = await begun(ann, script)
            assert (await task.result()).structured_content["result"] == [True, "secret"]
        async with client(token=token("ben")) as ben:
            assert (await ended(ben, script))["error"]["code"] == "TOOL_NOT_FOUND"
            with pytest.raises(MCPError, match="not found"):
                await ToolTask(ben, "codecall:execute", task.create_result).status()


class Lasting(TokenVerifier):
    """Takes every token, and has it last so long from the moment it is shown."""

    seconds = 3_600

    async def verify_token(self, token: str) -> AccessToken:
        return AccessToken(token=token, client_id=token, scopes=[], expires_at=int(time.time()) + self.seconds)


async def test_a_task_whose_token_expires_before_it_runs_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    tokens, gate = Lasting(), Gate()
    server = make(auth=tokens)
    server.tool(gate.__call__, name="wait")
    async with served(server) as client, client(token="ann") as ann:
        with anyio.fail_after(30):
            before = [await begun(ann, "return await callTool('wait', {})") for _ in range(2)]
            await gate.reached.wait()
            tokens.seconds = 60
            late = await call_tool_task(ann, "codecall:execute", {"script": "return 1"}, raise_on_error=False)
            now = time.time
            monkeypatch.setattr(time, "time", lambda: now() + 120)
            gate.open.set()
            for task in before:
                assert (await task.result()).structured_content["result"] == "passed"
            result = await late.result()
        assert result.is_error
        assert "has expired" in result.content[0].text


async def test_a_task_counts_for_the_address_it_was_asked_from() -> None:
    server = make()
    RateLimitPlugin.init(rules=[{"tool": "add", "rate": "1/hour"}]).install(server)
    add = "return await callTool('add', { a: 1, b: 2 })"
    async with served(server) as client, client("10.0.0.1") as one, client("10.0.0.2") as other:
        assert (await ended(one, add))["result"] == 3
        assert (await ended(one, add))["error"]["code"] == "RATE_LIMIT"
        assert (await ended(other, add))["result"] == 3
        # Not in a task: the same caller.
        direct = await one.call_tool_mcp("codecall:execute", {"script": add})
        assert direct.structured_content["error"]["code"] == "RATE_LIMIT"


async def test_tools_hidden_from_a_caller_are_hidden_from_their_tasks() -> None:
    server = make()

    @server.tool
    async def hide(ctx: Context) -> None:
        await ctx.disable_components(names={"add"})

    async with Client(server) as client:
        await client.call_tool("hide", {})
        assert (await ended(client, "return getTool('add') ?? 'hidden'"))["result"] == "hidden"
        assert (await ended(client, "return await callTool('add', {})"))["error"]["code"] == "TOOL_NOT_FOUND"


async def test_nobody_takes_the_place_of_another_who_asked() -> None:
    async with served(make()) as client:
        # Two clients that send the same session; ids of requests begin anew with each.
        async with client("10.0.0.1", **{"Mcp-Session-Id": "same"}) as one:
            task = await begun(one, "return 1")
            assert (await task.result()).structured_content["result"] == 1
        async with client("10.0.0.2", **{"Mcp-Session-Id": "same"}) as other:
            with pytest.raises(ToolError, match="another client"):
                await other.call_tool("codecall:execute", {"script": "return 2"})


async def test_notes_of_who_asked_go_with_what_fastmcp_keeps() -> None:
    server = make()
    async with Client(server) as client:
        assert (await ended(client, "return 1"))["result"] == 1
        task = await begun(client, "return 1", dryRun=True)
        docket = server._docket
        assert docket is not None
        async with docket.redis() as redis:
            notes = await redis.keys(docket.key("codecall:submitter:*"))
            seconds = [await redis.ttl(note) for note in notes]
        await task.result()
    assert len(seconds) == 2
    assert all(0 < left <= docket.execution_ttl.total_seconds() + 900 for left in seconds)


async def test_of_clients_that_cannot_have_tasks_nothing_is_noted() -> None:
    server = make()
    async with Client(server, mode="legacy") as client:
        meta = {"io.modelcontextprotocol/clientCapabilities": {"extensions": {TASKS_EXTENSION_ID: {}}}}
        answer = await client.call_tool("codecall:execute", {"script": "return 1"}, meta=meta)
        assert answer.structured_content is not None
        assert answer.structured_content["result"] == 1
        docket = server._docket
        assert docket is not None
        async with docket.redis() as redis:
            assert await redis.keys(docket.key("codecall:submitter:*")) == []


async def test_a_task_of_which_nobody_knows_who_asked_is_refused() -> None:
    server, gate = make(), Gate(calls=2)
    server.tool(gate.__call__, name="wait")
    async with Client(server) as client:
        with anyio.fail_after(20):
            blocking = [await begun(client, "return await callTool('wait', {})") for _ in range(2)]
            await gate.reached.wait()
            late = await call_tool_task(client, "codecall:execute", {"script": "return 1"}, raise_on_error=False)
            docket = server._docket
            assert docket is not None
            async with docket.redis() as redis:
                notes = await redis.keys(docket.key("codecall:submitter:*"))
                assert len(notes) == 3
                await redis.delete(*notes)
            gate.open.set()
            result = await late.result()
            for task in blocking:
                assert (await task.result()).structured_content["result"] == "passed"
        assert result.is_error
        assert "it is not known any more who asked" in result.content[0].text


async def test_a_server_that_stops_hands_its_tasks_on(redis_server: RedisServer) -> None:
    gate, plugin = Gate(), tasks(shutdown={"grace_s": 0})
    server = make(plugin, url=redis_server.url)
    server.tool(gate.__call__, name="wait")
    with anyio.fail_after(40):
        async with Client(server) as client:
            task = await begun(client, "return await callTool('wait', {})")
            await gate.reached.wait()
            await plugin.drain()
            await gate.left.wait()
        gate.open.set()
        async with Client(server) as client:  # started again, or another with the same Redis
            result = await ToolTask(client, "codecall:execute", task.create_result).result()
    assert result.structured_content["result"] == "passed"


@pytest.mark.parametrize("name", ["claude-code", "mcp"])
@pytest.mark.parametrize("called", ["codecall:execute", "codecall_execute"])
async def test_a_task_may_be_asked_for_under_either_spelling(name: str, called: str) -> None:
    async with Client(make(), client_info=Implementation(name=name, version="1")) as client:
        with anyio.fail_after(30):
            task = await call_tool_task(client, called, {"script": "return await callTool('add', {a: 1, b: 2})"})
            result = await task.result()
    assert result.structured_content is not None
    assert result.structured_content["result"] == 3
