"""Inputs that a tool behind the gateway refuses: by the schema it publishes, or by what it answers."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client

from codecall.gateway.config.options import GatewayOptions
from codecall.gateway.gateway import Gateway

SHOP = """
import sys
from typing import Annotated
from fastmcp import FastMCP
from pydantic import BaseModel, Field

class Book(BaseModel):
    pages: int

mcp = FastMCP("shop")

@mcp.tool
def get(isbn: Annotated[str, Field(pattern="^978-")], days: Annotated[int, Field(le=30)] = 1, now: bool = False) -> int:
    with open(sys.argv[1], "a") as log:
        log.write(f"{isbn} {days}\\n")
    if days == 3:
        raise ValueError("no such book")
    return days if days == 5 else Book.model_validate({"pages": "many"}).pages

mcp.run(show_banner=False)
"""

SAYING = """
import asyncio, json, sys
import mcp_types
from mcp import MCPError
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

with open(sys.argv[1]) as file:
    said = json.load(file)
schema = {"type": "object", "properties": {"isbn": {"type": "string"}, "days": {"type": "integer"}}}

async def list_tools(context, params):
    return mcp_types.ListToolsResult(tools=[mcp_types.Tool(name="say", input_schema=schema)])

async def call_tool(context, params):
    if said["raised"]:
        raise MCPError(code=-32602, message=said["text"])
    text = mcp_types.TextContent(type="text", text=said["text"])
    return mcp_types.CallToolResult(content=[text], is_error=said.get("fails", True))

async def main():
    server = Server("saying", on_list_tools=list_tools, on_call_tool=call_tool)
    async with stdio_server() as streams:
        await server.run(*streams, server.create_initialization_options())

asyncio.run(main())
"""

Call = Callable[..., Any]


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[tuple[Client[Any], Path]]:
    """A client of a gateway in front of a shop, and the file to which the shop writes what it is asked."""
    program, log = tmp_path / "shop.py", tmp_path / "asked"
    program.write_text(SHOP, encoding="utf-8")
    servers = {"shop": {"command": sys.executable, "args": [str(program), str(log)]}}
    options = {"servers": servers, "cache_dir": False, "expose": {"mode": "always"}}
    async with Gateway(GatewayOptions.read(options, where="")) as gate, Client(gate.server) as client:
        await gate.refresh()
        yield client, log


async def answer(client: Client[Any], meta_tool: str, /, **arguments: object) -> dict[str, Any]:
    return (await client.call_tool(meta_tool, arguments, raise_on_error=False)).structured_content or {}


def told(error: dict[str, Any]) -> list[tuple[str, str]]:
    return [(each["field"], each["message"]) for each in error["details"]]


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ("{ isbn: '1' }", "isbn"),
        ("{ isbn: 1 }", "isbn"),
        ("{ isbn: '978-1', days: 99 }", "days"),
        ("{ isbn: '978-1', days: 1.5 }", "days"),
        ("{ isbn: '978-1', day: 1 }", "day"),
    ],
)
async def test_a_literal_that_the_published_schema_refuses_is_found_before_the_run(
    shop: tuple[Client[Any], Path], given: str, field: str
) -> None:
    client, log = shop
    script = f"await shop.get({{ isbn: '978-1', days: 5 }});\nreturn await shop.get({given});"
    error = (await answer(client, "codecall_execute", script=script))["error"]
    assert (error["code"], error["location"]["line"]) == ("INVALID_INPUT", 2)
    assert [each["field"] for each in error["details"]] == [field]
    assert "Valid parameters (* = required): isbn* (string), days (integer)" in error["message"]
    assert error["hint"].startswith("No call was made.")
    dry = (await answer(client, "codecall_execute", script=script, dryRun=True))["result"]
    assert [finding["code"] for finding in dry["findings"]] == ["INVALID_INPUT"]
    assert not log.exists()


async def test_a_computed_input_that_the_published_schema_refuses_does_not_reach_the_server(
    shop: tuple[Client[Any], Path],
) -> None:
    client, log = shop
    script = "return await shop.get({ isbn: codecallContext.isbn, days: codecallContext.days })"
    refused = await answer(client, "codecall_execute", script=script, context={"isbn": "1", "days": 99})
    assert refused["error"]["code"] == "INVALID_INPUT"
    assert told(refused["error"]) == [("isbn", "Must match the pattern ^978-"), ("days", "Must be at most 30")]
    invoked = await answer(client, "codecall_invoke", tool="shop_get", input={"isbn": 5})
    assert invoked["error"]["code"] == "INVALID_INPUT"
    assert not log.exists()
    # What FastMCP converts is left to the server.
    lax = await answer(client, "codecall_execute", script=script, context={"isbn": "978-1", "days": "5"})
    assert lax["result"] == 5
    assert log.read_text() == "978-1 5\n"


async def test_null_for_what_may_be_left_out_is_said_to_be_left_out(shop: tuple[Client[Any], Path]) -> None:
    client, log = shop
    error = (await answer(client, "codecall_invoke", tool="shop_get", input={"isbn": "978-1", "days": None}))["error"]
    ((field, message),) = told(error)
    assert (field, message.endswith("; leave it out rather than give null")) == ("days", True)
    assert not log.exists()


async def test_an_input_that_a_server_refuses_is_told_by_its_fields(shop: tuple[Client[Any], Path]) -> None:
    client, log = shop
    inputs = [
        {"isbn": "978-1", "days": "99", "now": "banana"},
        {"isbn": "978-1", "days": 2},
        {"isbn": "978-1", "days": 3},
    ]
    errors = [(await answer(client, "codecall_invoke", tool="shop_get", input=given))["error"] for given in inputs]
    assert [error["code"] for error in errors] == ["INVALID_INPUT", "TOOL_EXECUTION_ERROR", "TOOL_EXECUTION_ERROR"]
    assert told(errors[0]) == [
        ("days", "Input should be less than or equal to 30"),
        ("now", "Input should be a valid boolean, unable to interpret input"),
    ]
    assert errors[1]["message"].startswith("1 validation error for Book\npages\n")
    assert errors[2]["message"] == "no such book"
    assert "pydantic.dev" not in str(errors)
    assert log.read_text().count("\n") == 2


ZOD = json.dumps(
    [
        {"code": "invalid_type", "expected": "string", "path": ["isbn"], "message": "Expected string, received number"},
        {"code": "too_big", "maximum": 30, "path": ["days"], "message": "Number must be at most 30"},
        {"code": "unrecognized_keys", "keys": ["day"], "path": [], "message": "Unrecognized key(s) in object: 'day'"},
    ],
    indent=2,
)
ZOD_TOLD = [
    ("isbn", "Expected string, received number"),
    ("days", "Number must be at most 30"),
    ("day", "Unknown parameter; did you mean 'days'?"),
]


@pytest.mark.parametrize("raised", [False, True], ids=["result", "error"])
@pytest.mark.parametrize(
    ("text", "fields"),
    [
        (f"MCP error -32602: Input validation error: Invalid arguments for tool say: {ZOD}", ZOD_TOLD),
        (f"MCP error -32602: Invalid arguments for tool say: {ZOD}", ZOD_TOLD),
        (f"Input validation error: Invalid arguments for tool say:\n{ZOD}", ZOD_TOLD),
        ("Input validation error: 'a' is not of type 'integer'", [("input", "'a' is not of type 'integer'")]),
        (
            'invalid params: validating "arguments": validating root: required: missing properties: ["isbn"]',
            [("input", 'validating root: required: missing properties: ["isbn"]')],
        ),
        (
            "2 validation errors for sayArguments\n"
            "isbn\n  Input should be a valid string [type=string_type, input_value=1, input_type=int]\n"
            "    For further information visit https://errors.pydantic.dev/2.12/v/string_type\n"
            "days\n  Field required [type=missing, input_value={}, input_type=dict]\n"
            "    For further information visit https://errors.pydantic.dev/2.12/v/missing",
            [("isbn", "Input should be a valid string"), ("days", "Field required")],
        ),
        (ZOD.replace("isbn", "account"), None),
        ("MCP error -32602: Tool say not found", None),
        ('[{"code": "E", "path": "days", "message": "not zod"}]', None),
    ],
)
async def test_what_sdks_write_of_a_wrong_input_is_read(
    tmp_path: Path, text: str, fields: list[tuple[str, str]] | None, *, raised: bool
) -> None:
    program, said = tmp_path / "saying.py", tmp_path / "said.json"
    program.write_text(SAYING, encoding="utf-8")
    said.write_text(json.dumps({"text": text, "raised": raised}), encoding="utf-8")
    servers = {"saying": {"command": sys.executable, "args": [str(program), str(said)]}}
    options = {"servers": servers, "cache_dir": False, "expose": {"mode": "always"}}
    async with Gateway(GatewayOptions.read(options, where="")) as gate, Client(gate.server) as client:
        await gate.refresh()
        error = (await answer(client, "codecall_invoke", tool="saying_say", input={"isbn": "1"}))["error"]
    if fields is None:
        assert (error["code"], "details" in error) == ("TOOL_EXECUTION_ERROR", False)
        assert error["message"] == text
        return
    assert error["code"] == "INVALID_INPUT", error
    assert told(error) == fields
    assert "Valid parameters (* = required): isbn (string), days (integer)." in error["message"]


async def test_an_argument_that_an_open_schema_does_not_name_is_warned_of_once(tmp_path: Path) -> None:
    program, said = tmp_path / "saying.py", tmp_path / "said.json"
    program.write_text(SAYING, encoding="utf-8")
    said.write_text(json.dumps({"text": "said", "raised": False, "fails": False}), encoding="utf-8")
    servers = {"saying": {"command": sys.executable, "args": [str(program), str(said)]}}
    options = {"servers": servers, "cache_dir": False, "expose": {"mode": "always"}}
    warning = "saying_say has no parameter limit or day; it has isbn, days. Most tools ignore what they do not have."
    async with Gateway(GatewayOptions.read(options, where="")) as gate, Client(gate.server) as client:
        await gate.refresh()
        script = "await saying.say({ limit: 1, isbn: '1' }); return await saying.say({ ...codecallContext })"
        ran = await answer(client, "codecall_execute", script=script, context={"limit": 2, "day": 3})
        assert (ran["result"], ran["warnings"]) == ("said", [warning])
        dry = await answer(client, "codecall_execute", script="if (false) await saying.say({ limit: 1 })", dryRun=True)
        assert dry["result"]["valid"]
        assert dry["warnings"] == [warning.replace(" or day", "")]
        good = await answer(client, "codecall_execute", script="return await saying.say({ isbn: undefined, days: 1 })")
        assert "warnings" not in good
