"""`CodeCallClient` over real clients of real servers, as the author of an agent uses it."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fastmcp import Client, Context, FastMCP
from fastmcp.client.transports import StdioTransport
from fastmcp.exceptions import ToolError
from fastmcp.server.middleware import Middleware
from fastmcp.utilities.types import Audio, Image
from mcp import MCPError
from mcp_types import ElicitRequest, ElicitRequestFormParams, InputRequiredResult

from codecall.client import AZURE_DESCRIPTION_LIMIT, CodeCallClient
from codecall.errors import CodeCallError, OptionsError

pytestmark = [pytest.mark.anyio]


def crm() -> FastMCP[Any]:
    """Customers."""
    server = FastMCP("crm")

    @server.tool(annotations={"readOnlyHint": True})
    def customers() -> list[dict[str, Any]]:
        """List the customers."""
        return [{"id": 1, "name": "Ann"}, {"id": 2, "name": "Bo"}]

    @server.tool(annotations={"destructiveHint": True})
    def forget(id: int) -> str:  # noqa: A002
        """Delete a customer."""
        return f"forgot {id}"

    @server.resource("crm://rules")
    def rules() -> str:
        """The rules."""
        return "be kind"

    return server


def shop() -> FastMCP[Any]:
    """Orders."""
    server = FastMCP("shop")

    @server.tool
    def orders(customer: int) -> list[int]:
        """List the totals of a customer's orders."""
        if customer > 2:
            raise ToolError("no such customer")
        return [customer * 10, customer * 20]

    return server


@asynccontextmanager
async def both(**options: Any) -> AsyncGenerator[CodeCallClient]:
    async with CodeCallClient({"crm": Client(crm()), "shop": Client(shop())}, **options) as codecall:
        yield codecall


async def test_a_script_joins_the_data_of_two_clients():
    script = """
        const totals = {};
        for (const { id, name } of await crm.customers()) {
          totals[name] = (await shop.orders({ customer: id })).reduce((sum, total) => sum + total, 0);
        }
        return totals;
    """
    async with both() as codecall:
        answer = await codecall.execute(script)
        assert answer.ok
        assert answer.value == {"Ann": 30, "Bo": 60}
        assert answer["stats"]["toolCalls"] == 3


async def test_tools_are_found_described_and_called():
    async with both() as codecall:
        matches = await codecall.search(["orders of a customer", "delete a customer"], top_k=2)
        assert {"shop_orders", "crm_forget"} <= {tool["name"] for tool in matches["tools"]}
        only = await codecall.search("customer", apps=["shop"])
        assert {tool["name"] for tool in only["tools"]} == {"shop_orders"}
        described = await codecall.describe(["shop_orders"], style="typescript")
        assert "customer: number" in json.dumps(described)
        assert (await codecall.invoke("shop_orders", {"customer": 2})).value == [20, 40]
        assert (await codecall.invoke("crm_forget", {"id": 1})).value == "forgot 1"


async def test_one_client_keeps_the_names_of_its_tools():
    async with CodeCallClient(Client(shop())) as codecall:
        assert (await codecall.execute("return await callTool('orders', { customer: 1 });")).value == [10, 20]


async def test_resources_are_read():
    async with both() as codecall:
        (hit, *_) = (await codecall.search("rules", kinds=["resource"]))["tools"]
        assert (await codecall.execute(f"return await readResource({hit['name']!r});")).value == "be kind"


async def test_access_rules_hold():
    async with both(access={"read_only": True}) as codecall:
        refused = await codecall.invoke("shop_orders", {"customer": 1})
        assert refused["error"]["code"] == "TOOL_NOT_FOUND"
        assert (await codecall.execute("return (await crm.customers()).length;")).value == 2


async def test_what_failed_is_an_answer_and_its_value_an_error():
    async with both() as codecall:
        answer = await codecall.execute("await shop.orders({ customer: 1 });\nreturn shop.orders({ customer: 3 });")
        assert not answer.ok
        with pytest.raises(CodeCallError, match="no such customer") as caught:
            _ = answer.value
        assert caught.value.code == answer["error"]["code"]
        assert caught.value.location is not None
        assert caught.value.location.line == 2
        wrong = await codecall.call("codecall_search", {"query": 7})
        assert wrong["error"]["code"] == "INVALID_INPUT"
        assert "query" in wrong["error"]["message"]
        unknown = await codecall.call("codecall_delete", {})
        assert "codecall_search" in unknown["error"]["message"]


LARGE = "return { rows: Array.from({ length: 30_000 }, (_, id) => ({ id, name: `é ${id}` })), deep: [[[[1]]]] };"


async def test_long_errors_of_a_server_are_cut_before_they_are_logged(caplog: pytest.LogCaptureFixture):
    """FastMCP logs them with Rich by default, which takes time by the square of the length of a word."""

    class Refusing(Middleware):
        async def on_call_tool(self, context: Any, call_next: Any) -> Any:
            raise MCPError(-5, "x" * 50_000)

    server = shop()
    server.add_middleware(Refusing())
    async with CodeCallClient({"shop": Client(server)}) as codecall:
        answer = await codecall.execute("return await shop.orders({ customer: 1 })")
    assert len(answer["error"]["message"]) < 5_000
    cut = [record for record in caplog.records if record.exc_info and "truncated" in str(record.exc_info[1])]
    assert cut
    assert max(len(str(record.exc_info[1])) for record in cut if record.exc_info) < 5_000


async def test_a_server_that_lists_without_an_end_is_refused():
    """Every page names a next one. Its pages are counted, as those of a server behind the gateway."""
    program = Path(__file__).parent.parent / "gateway" / "servers" / "plain.py"
    endless = Client(StdioTransport(sys.executable, [str(program), "endless"]))
    with pytest.raises(CodeCallError, match="'endless' lists more than"):
        async with CodeCallClient({"endless": endless}):
            pass


def asking(rounds: int = 1, questions_of_round: int = 1) -> FastMCP[Any]:
    """Asks a person that many times before it answers."""
    server = FastMCP[Any]("asking")

    def questions(ctx: Context) -> InputRequiredResult | str:
        asked = int(ctx.request_state or 0)
        if asked == rounds:
            return f"owned by {ctx.input_responses['who'].content['name']}" if ctx.input_responses else "owned"
        schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
        form = ElicitRequestFormParams(message="Whose is it?", requested_schema=schema)
        names = ["who", *(f"who {number}" for number in range(1, questions_of_round))]
        requests = {name: ElicitRequest(params=form) for name in names} if asked % 2 == 0 else None
        return InputRequiredResult(input_requests=requests, request_state=str(asked + 1))

    @server.tool(output_schema=None)
    def owner(ctx: Context) -> Any:
        """Say whose it is."""
        return questions(ctx)

    @server.resource("asking://owner")
    def owners(ctx: Context) -> Any:
        """Say whose it is."""
        return questions(ctx)

    return server


@pytest.mark.parametrize("read", ["callTool('shop_owner', {})", "readResource('asking://shop/owner')"])
async def test_a_question_that_no_handler_answers_is_told_as_one(read: str):
    async with CodeCallClient({"shop": Client(asking())}) as codecall:
        error = (await codecall.execute(f"return await {read}"))["error"]
    assert error["code"] == "INPUT_REQUIRED"
    assert error["message"].startswith("The server of the client 'shop' asks a question that nobody here answers")
    assert error["details"]["requests"] == [{"name": "who", "kind": "elicitation/create", "message": "Whose is it?"}]
    assert "`elicitation_handler`" in error["hint"]
    assert "not through CodeCall" not in error["hint"]


@pytest.mark.parametrize(("rounds", "result"), [(1, "owned by Ann"), (2, "owned"), (99, None)])
async def test_the_handler_of_a_client_answers_questions_of_its_server(rounds: int, result: str | None):
    asked: list[str] = []

    async def answer(message: str, *_: object) -> dict[str, str]:
        asked.append(message)
        return {"name": "Ann"}

    async with CodeCallClient(Client(asking(rounds), elicitation_handler=answer)) as codecall:
        envelope = await codecall.invoke("owner")
    assert len(asked) == (1 if result else 5)  # every other round asks nothing
    assert set(asked) == {"Whose is it?"}
    if result:
        assert envelope.value == result
    else:
        assert envelope["error"]["message"] == "The server of the client has asked 10 times and does not answer"


async def test_a_server_asks_the_handler_of_a_client_so_often_in_one_call():
    asked: list[str] = []

    async def answer(message: str, *_: object) -> dict[str, str]:
        asked.append(message)
        return {"name": "Ann"}

    async with CodeCallClient(Client(asking(9, 8), elicitation_handler=answer)) as codecall:
        envelope = await codecall.invoke("owner")
    assert envelope["error"]["code"] == "INPUT_REQUIRED"
    assert "asks more than 20 questions in one call" in envelope["error"]["message"]
    assert len(asked) == 16


async def test_a_handler_that_fails_is_told():
    async def fail(*_: object) -> dict[str, str]:
        raise ValueError("nobody is there")

    async with CodeCallClient(Client(asking(), elicitation_handler=fail)) as codecall:
        error = (await codecall.invoke("owner"))["error"]
    assert error["code"] == "INPUT_REQUIRED"
    assert "nobody is there" in error["message"]


async def test_a_large_result_is_read_whole():
    async with both() as codecall:
        answer = await codecall.execute(LARGE)
        assert answer.ok
        assert answer.large is not None
        with pytest.raises(CodeCallError, match="too many for an answer") as large:
            _ = answer.value
        assert "await codecall.read_result(answer)" in (large.value.hint or "")
        value = await codecall.read_result(answer)
        assert value == {"rows": [{"id": number, "name": f"é {number}"} for number in range(30_000)], "deep": [[[[1]]]]}
        part = "return (await getResult(codecallContext.handle, { at: 'rows', from: 7, count: 1 }))[0].name"
        small = await codecall.execute(part, context={"handle": answer.large["handle"]})
        assert small.large is None
        assert await codecall.read_result(small) == small.value == "é 7"
        failed = await codecall.execute("null.x")
        with pytest.raises(CodeCallError, match="property 'x' of null"):
            await codecall.read_result(failed)
    with pytest.raises(OptionsError, match="not open"):
        await codecall.read_result(answer)
    async with both() as other:
        with pytest.raises(CodeCallError) as gone:
            await other.read_result(answer)
        assert gone.value.code == "RESULT_NOT_FOUND"


async def test_a_script_in_starlark_is_known_by_its_suffix_or_said(tmp_path: Path):
    file = tmp_path / "totals.star"
    file.write_text("return {c['name']: sum(shop_orders(customer=c['id'])) for c in crm_customers()[:n]}", "utf-8")
    async with both(starlark=True) as codecall:
        assert (await codecall.execute(file, context={"n": 1})).value == {"Ann": 30}
        assert (await codecall.execute("return [x, 2]", language="starlark", context={"x": 1})).value == [1, 2]
        failed = await codecall.execute("return shop_orders(customer=3)", language="starlark")
        assert (failed["error"]["code"], failed["error"]["location"]["line"]) == ("TOOL_EXECUTION_ERROR", 1)
        dry = await codecall.execute("nope()", language="starlark", dry_run=True)
        assert [finding["message"] for finding in dry.value["findings"]] == ["'nope' is not defined"]
        assert (await codecall.execute("return 1 + 1")).value == 2
        large = await codecall.execute("return list(range(30000))", language="starlark")
        assert await codecall.read_result(large) == list(range(30_000))
    async with both() as plain:
        refused = await plain.execute("return 1", language="starlark")
        assert "this server runs no Starlark" in refused["error"]["message"]


async def test_new_tools_are_seen_after_a_refresh():
    server = shop()
    async with CodeCallClient({"shop": Client(server)}) as codecall:
        server.tool(lambda: 7, name="seven")
        assert (await codecall.invoke("shop_seven"))["error"]["code"] == "TOOL_NOT_FOUND"
        await codecall.refresh()
        assert (await codecall.invoke("shop_seven")).value == 7


async def test_it_is_used_while_it_is_open():
    codecall = CodeCallClient(Client(shop()))
    with pytest.raises(OptionsError, match="not open"):
        await codecall.search("orders")
    async with codecall:
        with pytest.raises(OptionsError, match="open already"):
            await codecall.__aenter__()
    with pytest.raises(OptionsError, match="not open"):
        await codecall.search("orders")


async def test_a_client_that_cannot_connect_closes_the_others():
    good = Client(shop())
    bad = Client("http://127.0.0.1:1/mcp")
    with pytest.raises(RuntimeError):
        async with CodeCallClient({"good": good, "bad": bad}):
            raise AssertionError("it opened")
    assert not good.is_connected()


async def test_a_client_that_is_closed_under_way_is_named():
    client = Client(shop())
    async with CodeCallClient({"shop": client}) as codecall:
        await client.close()
        answer = await codecall.invoke("shop_orders", {"customer": 1})
        assert answer["error"]["code"] == "SERVER_UNAVAILABLE"
        assert "'shop'" in answer["error"]["message"]


@pytest.mark.parametrize("name", ["", "a b", "1st", "x" * 65])
def test_names_are_names(name: str):
    with pytest.raises(OptionsError, match="is no name"):
        CodeCallClient({name: Client(shop())})


@pytest.mark.parametrize("wrong", [5, "http://localhost/mcp", {"shop": 5}, None])
def test_only_clients_are_clients(wrong: Any):
    with pytest.raises(OptionsError, match=r"clients: a fastmcp\.Client is needed"):
        CodeCallClient(wrong)


CALLS = {
    "openai": {
        "id": "c1",
        "type": "function",
        "function": {"name": "codecall_invoke", "arguments": '{"tool": "orders", "input": {"customer": 1}}'},
    },
    "openai-responses": {
        "call_id": "c1",
        "type": "function_call",
        "name": "codecall_invoke",
        "arguments": '{"tool": "orders", "input": {"customer": 1}}',
    },
    "anthropic": {
        "id": "c1",
        "type": "tool_use",
        "name": "codecall_invoke",
        "input": {"tool": "orders", "input": {"customer": 1}},
    },
}


@pytest.mark.parametrize("style", CALLS)
@pytest.mark.parametrize("as_object", [False, True])
async def test_a_model_s_call_is_answered_in_its_own_style(style: Any, as_object: bool):
    call: Any = CALLS[style]
    if as_object:
        call = json.loads(json.dumps(call), object_hook=lambda item: SimpleNamespace(**item))
        if style == "anthropic":
            call.input = CALLS[style]["input"]
    async with CodeCallClient(Client(shop())) as codecall:
        message = await codecall.answer(style, call)
    text = message.get("content") or message.get("output")
    assert json.loads(text) == {"status": "ok", "result": [10, 20]}
    assert "c1" in (message.get("tool_call_id"), message.get("call_id"), message.get("tool_use_id"))


@pytest.mark.parametrize("style", CALLS)
async def test_pictures_reach_a_model_whose_provider_takes_them(style: Any):
    server, data = FastMCP[Any]("camera"), base64.b64encode(b"\x89PNG\x00").decode()

    @server.tool
    def orders(customer: int) -> list[Any]:
        """Take a picture and a sound."""
        return [Image(data=b"\x89PNG\x00", format="png"), Audio(data=b"RIFF", format="wav")]

    async with CodeCallClient(Client(server)) as codecall:
        answer = await codecall.execute("emit(await callTool('orders', { customer: 1 }))")
        message = await codecall.answer(style, CALLS[style])
    assert [(block.type, block.data) for block in answer.blocks] == [("image", data), ("audio", "UklGRg==")]
    first, *shown = {
        "openai": [message.get("content")],
        "openai-responses": message.get("output"),
        "anthropic": message.get("content"),
    }[style]
    text = first if style == "openai" else first["text"]
    envelope, note = text.split("\n")
    assert [each["type"] for each in json.loads(envelope)["result"]] == ["image", "audio"]
    if style == "openai":
        assert (note, shown) == ("[left out of this message: image (image/png), audio (audio/wav)]", [])
        return
    assert note == "[left out of this message: audio (audio/wav)]"
    source = {"type": "base64", "media_type": "image/png", "data": data}
    assert shown == [
        {"type": "image", "source": source}
        if style == "anthropic"
        else {"type": "input_image", "image_url": f"data:image/png;base64,{data}"}
    ]


async def test_arguments_that_are_no_json_are_told_to_the_model():
    call = {**CALLS["openai"], "function": {"name": "codecall_search", "arguments": "{query:"}}
    async with CodeCallClient(Client(shop())) as codecall:
        message = await codecall.answer("openai", call)
        assert json.loads(message["content"])["error"]["code"] == "INVALID_INPUT"
        with pytest.raises(OptionsError, match="no 'function'"):
            await codecall.answer("openai", CALLS["anthropic"])


def test_definitions_of_each_style():
    codecall = CodeCallClient(Client(shop()))
    names = ["codecall_search", "codecall_describe", "codecall_invoke", "codecall_execute"]
    chat = codecall.definitions("openai")
    assert [each["function"]["name"] for each in chat] == names
    responses = codecall.definitions("openai-responses")
    assert [each["name"] for each in responses] == names
    assert responses[3]["parameters"] == chat[3]["function"]["parameters"]
    assert [each["input_schema"]["type"] for each in codecall.definitions("anthropic")] == ["object"] * 4
    with pytest.raises(OptionsError, match="known: openai"):
        codecall.definitions("gemini")  # type: ignore[arg-type]


def test_no_description_is_longer_than_the_limit_and_nothing_of_it_is_lost():
    codecall = CodeCallClient(Client(shop()))
    short = {each["name"]: each["description"] for each in codecall.definitions("anthropic", description_limit=1_024)}
    whole = {each["name"]: each["description"] for each in codecall.definitions("anthropic")}
    rest = codecall.instructions(AZURE_DESCRIPTION_LIMIT)
    assert max(map(len, whole.values())) > AZURE_DESCRIPTION_LIMIT
    for name, description in short.items():
        assert len(description) <= AZURE_DESCRIPTION_LIMIT
        for line in whole[name].split("\n"):
            assert line in description or line in rest
    assert codecall.instructions(100_000) == ""


async def test_langchain_tools_call_by_themselves():
    async with CodeCallClient(Client(shop())) as codecall:
        tools = {tool.name: tool for tool in codecall.definitions("langchain")}
        answer = await tools["codecall_execute"].ainvoke({"script": "return callTool('orders', { customer: 2 });"})
        assert answer.value == [20, 40]
        matches = await tools["codecall_search"].ainvoke({"query": "orders"})
        assert matches["tools"][0]["name"] == "orders"
