"""Wrong input in a script's literals ends it before any call is made; what may be right runs. Over real servers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from enum import Enum
from typing import Any, Literal

import pytest
from fastmcp import Client, Context, FastMCP
from fastmcp.server import create_proxy
from fastmcp.server.middleware import Middleware
from pydantic import BaseModel

from codecall import CodeCallPlugin, Enclave


class Stage(Enum):
    OPEN = "open"
    WON = "won"


class Filter(BaseModel):
    minimum: int
    stages: list[Stage] = []


class Shop:
    """A server whose tools note that they have run."""

    def __init__(self) -> None:
        self.performed: list[str] = []
        self.server = FastMCP[Any]("shop")
        self.users = child = FastMCP[Any]("users")
        remote = FastMCP[Any]("remote")

        @self.server.tool
        def write(text: str) -> str:
            self.performed.append("write")
            return text

        @self.server.tool(name="deals:list")
        def deals(stage: Stage, limit: int = 10, only: Filter | None = None) -> list[str]:
            self.performed.append("deals")
            return [stage.value] * limit

        @child.tool
        def get(id: int, verbose: bool = False) -> dict[str, int]:  # noqa: A002
            self.performed.append("get")
            return {"id": id}

        @remote.tool
        def far(id: int, mode: Literal["a", "b"] = "a") -> int:  # noqa: A002
            self.performed.append("far")
            return id

        @self.server.tool(auth=lambda context: False)
        def secret(key: int) -> int:
            return key

        self.server.mount(child, "users")
        self.server.mount(create_proxy(remote), "remote")


@pytest.fixture
def shop() -> Shop:
    return Shop()


@pytest.fixture
async def client(shop: Shop) -> AsyncIterator[Client[Any]]:
    CodeCallPlugin.init(vm={"preset": "secure"}).install(shop.server)
    async with Client(shop.server) as client:
        yield client


async def run(client: Client[Any], script: str, **arguments: Any) -> dict[str, Any]:
    """The envelope of a script."""
    result = await client.call_tool("codecall:execute", {"script": script, **arguments})
    return result.structured_content or {}


WRITE = "await callTool('write', { text: 'x' });\n"

WRONG = [
    ("return await callTool('deals:list', {})", "stage", (2, 14)),
    ("return await callTool('deals:list')", "stage", (2, 14)),
    ("return await callTool('deals:list', { stage: 'open', limt: 5 })", "limt", (2, 54)),
    ("return await callTool('deals:list', { stage: 'lost' })", "stage", (2, 39)),
    ("return await callTool('deals:list', { stage: 'won', limit: 'many' })", "limit", (2, 53)),
    ("return await callTool('deals:list', { stage: 'won', only: { minimum: 1, stages: ['x'] } })", "only", (2, 73)),
    ("return await callTool('deals:list', { ...codecallContext, limit: {} })", "limit", (2, 59)),
    ("const ids = [1, 2];\nreturn await Promise.all([1, callTool('users_get', { ids, id: [] })])", "id", (3, 59)),
    ("async function main() {\nreturn await users.get({ id: [] });\n}\nreturn await main()", "id", (3, 26)),
    ("return await users.get({ id: {} })", "id", (2, 26)),
    ("return await tools['users_get']({})", "id", (2, 14)),
    ("return await callTool('remote_far', {})", "id", (2, 14)),
    ("interface Deal { stage: string }\nreturn await callTool<Deal[]>('deals:list', { stage: 'x' as string })", "stage",
     (3, 47)),
]  # fmt: skip


@pytest.mark.parametrize(("rest", "field", "place"), WRONG, ids=[rest for rest, _, _ in WRONG])
async def test_a_certain_mistake_ends_the_script_before_its_first_call(
    shop: Shop, client: Client[Any], rest: str, field: str, place: tuple[int, int]
) -> None:
    script = WRITE + rest
    envelope = await run(client, script)
    error = envelope["error"]
    assert (envelope["status"], error["code"]) == ("tool_error", "INVALID_INPUT"), envelope
    assert shop.performed == []
    assert field in error["message"]
    assert "Valid parameters" in error["message"]
    assert error["details"]
    assert error["hint"].startswith("No call was made.")
    assert (error["location"]["line"], error["location"]["column"]) == place
    assert error["location"]["text"] == script.split("\n")[place[0] - 1]
    assert envelope["stats"]["toolCalls"] == 0


RIGHT = [
    "return await callTool('deals:list', { stage: 'open', limit: '1' })",
    "return await callTool('deals:list', { stage: 'won', limit: true, only: null })",
    "const stage = 'open'; return await callTool('deals:list', { stage, limit: 1 })",
    "const more = { stage: 'won' }; return await callTool('deals:list', { ...more, limit: 1.0 })",
    "return await callTool('deals:list', { ['sta' + 'ge']: 'won', unknown: undefined, limit: 1 })",
    "const input = {}; input.stage = 'won'; return await callTool('deals:list', input)",
    "return await callTool('users_get', { id: '7', verbose: 'yes' })",
    "return await callTool('remote_far', { id: '7' })",
]


@pytest.mark.parametrize("script", RIGHT)
async def test_what_the_tool_takes_runs(client: Client[Any], script: str) -> None:
    envelope = await run(client, script)
    assert envelope["status"] == "ok", envelope


HANDLED = [
    "try { await callTool('users_get', {}) } catch (error) { return error.code }",
    "const { error } = await callTool('users_get', {}, { throwOnError: false }); return error.code",
    "return await callTool('users_get', {}).catch((error) => error.code)",
    "const [one] = await Promise.allSettled([callTool('users_get', {})]); return one.reason.code",
    "const get = async () => callTool('users_get', {});\ntry { return await get() } catch (e) { return e.code }",
]


@pytest.mark.parametrize("script", HANDLED)
async def test_a_failure_that_the_script_handles_is_its_own(shop: Shop, client: Client[Any], script: str) -> None:
    envelope = await run(client, WRITE + script)
    assert (envelope["status"], envelope.get("result")) == ("ok", "INVALID_INPUT"), envelope
    assert shop.performed == ["write"]


NOT_REACHED = [
    "if (codecallContext.beta) { await callTool('users_get', {}) }\nreturn 1",
    "const more = codecallContext.beta ? await callTool('users_get', {}) : 1;\nreturn more",
    "const has = getTool('users_get').inputSchema.properties;\nif (has.id) return 1;\nreturn callTool('users_get', {})",
    "const has = getTool('users_get').inputSchema.properties;\nif (!has.all) return 1;\nreturn users.get({ all: 1 })",
    "async function later() { return await callTool('users_get', {}) }\nreturn 1",
    "const some = [];\nif (some.length === 0) return 1;\nreturn await callTool('users_get', { idd: some[0].id })",
    "for (const id of []) { await callTool('users_get', { idd: id }) }\nreturn 1",
    "await Promise.all([].map((id) => callTool('users_get', { idd: id })));\nreturn 1",
    "const mend = async () => callTool('users_get', {});\nif (codecallContext.beta) await mend();\nreturn 1",
    "class A { async m() { return callTool('users_get', {}) } async n() { return 1 } }\nreturn await new A().n()",
]


@pytest.mark.parametrize("script", NOT_REACHED)
async def test_a_call_that_the_script_decides_about_is_its_own(client: Client[Any], script: str) -> None:
    assert (await run(client, script)).get("result") == 1


async def test_all_wrong_calls_are_named(shop: Shop, client: Client[Any]) -> None:
    script = "\n".join(f"await callTool('users_get', {{ id: [{n}] }});" for n in range(6))
    error = (await run(client, script))["error"]
    assert error["location"]["line"] == 1
    assert "line 2 (`users_get`), line 3 (`users_get`), line 4 (`users_get`) and 2 more" in error["hint"]
    assert shop.performed == []


async def test_what_the_caller_cannot_see_is_nobodys_business(shop: Shop, client: Client[Any]) -> None:
    for name in ("secret", "absent"):
        script = f"{WRITE}return await callTool('{name}', {{ kei: [] }})"
        shop.performed.clear()
        error = (await run(client, script))["error"]
        assert error["code"] == "TOOL_NOT_FOUND"
        assert error["hint"].startswith("No call was made. ")
        assert shop.performed == []


async def test_what_is_not_allowed_is_told_as_that(shop: Shop, client: Client[Any]) -> None:
    script = f"{WRITE}return await callTool('users_get', {{}})"
    error = (await run(client, script, allowedTools=["write"]))["error"]
    assert error["code"] == "ACCESS_DENIED"
    assert error["hint"] == "No call was made. Allowed here: write."
    assert shop.performed == []


@pytest.mark.parametrize("call", ["users_gett", "tools.users_gett", "tools['users:get']", "deals.lst"])
async def test_a_name_that_no_tool_has_stops_the_script_before_any_call(
    shop: Shop, client: Client[Any], call: str
) -> None:
    called = f"{call}(input)" if call != "users_gett" else "callTool('users_gett', input)"
    script = f"const input = {{}};\n{WRITE}return await {called}"
    error = (await run(client, script))["error"]
    assert (error["code"], error["location"]["line"]) == ("TOOL_NOT_FOUND", 1 + script.count("\n"))
    assert "No call was made. Did you mean " in error["hint"]
    assert shop.performed == []
    for own in (f"try {{ await {called} }} catch {{}} return 1", f"if (input.x) await {called}; return 1"):
        assert (await run(client, f"const input = {{}};\n{WRITE}{own}"))["status"] == "ok"
        assert shop.performed == ["write"]
        shop.performed.clear()


@pytest.mark.parametrize("mounted", [False, True])
async def test_middleware_that_fills_in_what_is_missing(shop: Shop, mounted: bool) -> None:
    class Tenant(Middleware):
        async def on_call_tool(self, context: Any, call_next: Any) -> Any:
            arguments = {"id": 7, **(context.message.arguments or {})}
            if context.message.name in ("users_get", "get"):
                context = context.copy(message=context.message.model_copy(update={"arguments": arguments}))
            return await call_next(context)

    (shop.users if mounted else shop.server).add_middleware(Tenant())
    CodeCallPlugin.init().install(shop.server)
    async with Client(shop.server) as client:
        assert (await run(client, "return (await callTool('users_get', {})).id"))["result"] == 7


async def test_a_listing_that_takes_for_ever_ends_with_the_script(shop: Shop) -> None:
    started = asyncio.Event()

    class Slow(Middleware):
        async def on_list_tools(self, context: Any, call_next: Any) -> Any:
            if started.is_set():
                await asyncio.Event().wait()
            return await call_next(context)

    shop.server.add_middleware(Slow())
    CodeCallPlugin.init(vm={"preset": "secure", "max_duration_ms": 400, "timeout_ms": 300}).install(shop.server)
    async with Client(shop.server) as client:
        await client.list_tools()
        started.set()
        result = await client.call_tool_mcp("codecall:execute", {"script": "return await callTool('users_get', {})"})
    assert (result.structured_content or {})["error"]["code"] == "TIMEOUT"


async def test_a_context_of_a_tool_is_no_parameter(client: Client[Any], shop: Shop) -> None:
    @shop.server.tool
    async def whoami(ctx: Context, loud: bool = False) -> str:
        return "me"

    assert (await run(client, "return await callTool('whoami', { loud: true })"))["result"] == "me"
    error = (await run(client, "return await callTool('whoami', { ctx: 1 })"))["error"]
    assert error["code"] == "INVALID_INPUT"
    assert error["hint"].startswith("No call was made.")


TOOLS = [
    {"name": "write"},
    {
        "name": "users:get",
        "inputSchema": {
            "type": "object",
            "properties": {"id": {"type": "integer"}, "mode": {"enum": ["a", "b"]}},
            "required": ["id"],
            "additionalProperties": False,
        },
    },
]


@pytest.fixture(scope="module")
async def enclave() -> AsyncIterator[Enclave]:
    async with Enclave("secure") as enclave:
        yield enclave


@pytest.mark.parametrize("bad", ["{}", "{ id: 1, extra: 2 }", "{ id: {} }", "{ id: 1, mode: 'c' }"])
async def test_an_enclave_goes_by_the_schemas_it_is_given(enclave: Enclave, bad: str) -> None:
    performed: list[str] = []

    def handler(name: str, arguments: dict[str, Any]) -> object:
        performed.append(name)
        return arguments

    script = f"await callTool('write', {{}});\nreturn await callTool('users:get', {bad})"
    result = await enclave.execute(script, tool_handler=handler, tools=TOOLS)
    assert result.error is not None
    assert (result.error.code, performed) == ("INVALID_INPUT", [])
    assert result.error.location is not None
    assert result.error.location.line == 2
    result = await enclave.execute(script, tool_handler=handler)
    assert (result.success, performed) == (True, ["write", "users:get"])


async def test_the_worker_is_kept(enclave: Enclave) -> None:
    for _ in range(3):
        await enclave.execute("return await callTool('users:get', {})", tool_handler=lambda *_: 1, tools=TOOLS)
    before = enclave.pool.pids()
    await enclave.execute("return await callTool('users:get', {})", tool_handler=lambda *_: 1, tools=TOOLS)
    assert set(enclave.pool.pids()) & set(before)
