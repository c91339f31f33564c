"""What of a call becomes a request to an API, and how much work that may be: a real API over HTTP."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client
from fastmcp.exceptions import ToolError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from codecall.errors import OptionsError
from codecall.gateway.config.options import GatewayOptions, OpenApiServer
from codecall.gateway.gateway import Gateway
from codecall.gateway.upstream.rest.openapi import build_openapi_server
from tests.gateway.backends import serve_over_http
from tests.loop_turns import assert_turns_below

TEXT = {"type": "string"}
TEXTS = {"type": "array", "items": TEXT}
LAYERED = "%" + "25" * 30 + "61"
"""A text that is decoded 31 times until it stays as it is."""


def parameter(place: str, schema: object = TEXT, **more: object) -> dict[str, object]:
    """A parameter `a` in the path, the query, the headers or the cookies."""
    return {"name": "a", "in": place, "required": place == "path", "schema": schema, **more}


def document(path: str, *parameters: object, body: dict[str, object] | None = None) -> dict[str, object]:
    """An API with one operation, `send`."""
    send = {"operationId": "send", "parameters": parameters, "responses": {"200": {"description": "ok"}}}
    if body is not None:
        content = {kind: {"schema": schema} for kind, schema in body.items()}
        send["requestBody"] = {"required": True, "content": content}
    return {"openapi": "3.1.0", "info": {"title": "t", "version": "1"}, "paths": {path: {"post": send}}}


@asynccontextmanager
async def calling(said: dict[str, object], folder: Path) -> AsyncGenerator[tuple[Client[Any], list[tuple[str, bytes]]]]:
    """A client of the operation, and what the API gets: the target of each request, and its body."""
    seen: list[tuple[str, bytes]] = []

    async def answer(request: Request) -> JSONResponse:
        target = request.scope["raw_path"].decode() + ("?" + request.url.query if request.url.query else "")
        seen.append((target, await request.body()))
        return JSONResponse({})

    file = folder / "api.json"
    file.write_text(json.dumps(said))
    app = Starlette(routes=[Route("/{rest:path}", answer, methods=["POST"])])
    async with serve_over_http(app) as url:
        options = OpenApiServer(openapi=str(file), base_url=url.removesuffix("/mcp"))
        async with Client(await build_openapi_server("api", options)) as client:
            yield client, seen


@pytest.mark.parametrize(
    ("said", "value"),
    [
        (document("/" + "{a}" * 600, parameter("path")), "x" * 200),
        (document("/{a}", parameter("path")), "/" * 70_000 + LAYERED),
        (document("/", parameter("query", TEXTS)), ["a"] * 30_000),
        (document("/", parameter("query", TEXTS, name="a" * 1_000)), ["a"] * 100),
        (document("/", parameter("query", {"type": "object"}, style="deepObject")), {str(n): n for n in range(20_000)}),
        (document("/", parameter("header")), "x" * 70_000),
        (document("/", parameter("cookie")), "x" * 70_000),
    ],
    ids=["path-repeated", "path-layers", "query-list", "long-name", "query-object", "header", "cookie"],
)
async def test_parameters_that_no_request_has_are_refused(said: dict[str, object], value: object, tmp_path: Path):
    async with calling(said, tmp_path) as (client, seen):
        (tool,) = await client.list_tools()
        (name,) = tool.input_schema["properties"]
        with pytest.raises(ToolError, match=r"may have 65,536 characters of parameters: 'a+' is too long"):
            await client.call_tool("send", {name: value})
    assert seen == []


async def test_the_most_that_a_path_may_have_is_quick_to_write(tmp_path: Path):
    async with calling(document("/{a}", parameter("path")), tmp_path) as (client, seen):
        most = {"a": "/" * (65_500 - len(LAYERED)) + LAYERED}
        await assert_turns_below(100, lambda: client.call_tool("send", most, raise_on_error=False))
        await client.call_tool("send", {"a": "/" * 20_000})
    assert [target for target, _ in seen] == ["/" + "%2F" * 20_000]


async def test_a_path_that_is_too_long_is_refused_with_its_document(tmp_path: Path):
    path = tmp_path / "api.json"
    path.write_text(json.dumps(document("/" + "{a}" * 700, parameter("path"))))
    with pytest.raises(OptionsError, match="too much: it has a path of more than 2,048 characters"):
        await build_openapi_server("api", OpenApiServer(openapi=str(path), base_url="https://a.test"))


async def test_a_number_of_very_many_digits_is_refused(tmp_path: Path):
    async with calling(document("/", parameter("query", {"type": "integer"})), tmp_path) as (client, seen):
        with pytest.raises(ToolError, match="'a' has a number of more digits than can be written"):
            await client.call_tool("send", {"a": 10**5_000})
    assert seen == []


@pytest.mark.parametrize("kind", ["multipart/form-data", "application/x-www-form-urlencoded"])
@pytest.mark.parametrize("flat", [True, False])
async def test_a_form_has_so_many_values_and_characters(kind: str, flat: bool, tmp_path: Path):
    properties = {"tags": TEXTS, "n" * 1_000: TEXTS}
    schema = {"type": "object", **({"properties": properties} if flat else {"additionalProperties": True})}
    async with calling(document("/", body={kind: schema}), tmp_path) as (client, seen):

        async def send(**fields: object) -> None:
            await client.call_tool("send", fields if flat else {"body": fields})

        with pytest.raises(ToolError, match="A form may have 10,000 values: this one has 10,001"):
            await send(tags=["a"] * 10_001)
        with pytest.raises(ToolError, match="A form may have 4,194,304 characters: this one has more"):
            await send(**{"n" * 1_000: ["a"] * 5_000})
        assert seen == []
        await send(tags=["a"] * 10_000)
        assert seen[0][1].count(b"tags") == 10_000


async def test_a_text_is_written_in_encodings_that_are_quick(tmp_path: Path):
    for charset, written in (("iso-8859-1", b"\xe9"), ("UTF-8", b"\xc3\xa9"), ('"windows-1252"', b"\xe9")):
        body: dict[str, object] = {f"text/plain; charset={charset}": TEXT}
        async with calling(document("/", body=body), tmp_path) as (client, seen):
            await client.call_tool("send", {"body": "é"})
        assert seen == [("/", written)]
    for kind, reason in (
        ("text/plain; charset=punycode", "the document says that it is in punycode, not in UTF-8"),
        ("text/plain" + ";" * 300, "the document gives it a type of more than 200 characters"),
    ):
        async with calling(document("/", body={kind: TEXT}), tmp_path) as (client, seen):
            with pytest.raises(ToolError, match=f"The body of this operation cannot be written: {reason}"):
                await client.call_tool("send", {"body": "é"})
        assert seen == []


OTHERS = {"x-method": "DELETE", "api_key": "k"}


@pytest.mark.parametrize("schema", [TEXT, {"anyOf": [TEXT, {"type": "null"}], "example": "a"}, {}, TEXTS])
async def test_an_object_is_no_parameters_of_its_own_unless_the_operation_has_one(schema: object, tmp_path: Path):
    async with calling(document("/", parameter("query", schema)), tmp_path) as (client, seen):
        with pytest.raises(ToolError, match=r"'a' is declared as .*: it must not be an object"):
            await client.call_tool("send", {"a": OTHERS})
    assert seen == []


async def test_a_client_of_the_gateway_is_refused_an_object_for_a_text(tmp_path: Path):
    file = tmp_path / "api.json"
    file.write_text(json.dumps(document("/", parameter("query"))))
    server = {"openapi": str(file), "base_url": "http://127.0.0.1:9"}
    options = GatewayOptions.read({"servers": {"s": server}, "cache_dir": False}, where="")
    async with Gateway(options) as gate, Client(gate.server) as client:
        with pytest.raises(ToolError, match="'a' is declared as string: it must not be an object"):
            await client.call_tool("s_send", {"a": OTHERS})


@pytest.mark.parametrize(
    ("declared", "value", "target"),
    [
        (parameter("query", {"type": "object"}), {"x": 1}, "/?x=1"),
        (parameter("query", {"properties": {"x": {}}}), {"x": 1}, "/?x=1"),
        (parameter("query", {}, style="deepObject", explode=True), {"x": 1}, "/?a%5Bx%5D=1"),
        (parameter("query", {"anyOf": [TEXT, {"type": "object"}]}), {"x": 1}, "/?x=1"),
        (parameter("query", TEXTS), ["x", "y"], "/?a=x&a=y"),
        (parameter("query", TEXTS), "x", "/?a=x"),
        (parameter("query", {}), ["x"], "/?a=x"),
        (parameter("query", {"type": "integer"}), "7", "/?a=7"),
    ],
)
async def test_what_the_operation_has_is_sent(declared: dict[str, object], value: object, target: str, tmp_path: Path):
    async with calling(document("/", declared), tmp_path) as (client, seen):
        await client.call_tool("send", {"a": value})
    assert [each.replace("[", "%5B").replace("]", "%5D") for each, _ in seen] == [target]


async def test_a_list_for_a_text_is_refused(tmp_path: Path):
    async with calling(document("/", parameter("query")), tmp_path) as (client, seen):
        with pytest.raises(ToolError, match="'a' is declared as string: it must not be an array"):
            await client.call_tool("send", {"a": ["x", "y"]})
    assert seen == []


@pytest.mark.parametrize("place", ["path", "header", "cookie"])
@pytest.mark.parametrize(
    ("schema", "value", "text"),
    [
        ({"type": "boolean"}, True, "true"),
        ({"type": "boolean"}, False, "false"),
        ({"type": "integer"}, 5, "5"),
        ({"type": "number"}, 1.5, "1.5"),
        ({"type": "array", "items": {"type": "boolean"}}, [True], "true"),
        (TEXTS, ["a", "b"], "a,b"),
    ],
)
async def test_a_parameter_is_written_as_other_languages_read_it(
    place: str, schema: object, value: object, text: str, tmp_path: Path
):
    seen: list[str] = []

    async def answer(request: Request) -> JSONResponse:
        values = {"path": request.path_params["rest"], "header": request.headers.get("a"), **request.cookies}
        seen.append(values["a" if place == "cookie" else place])
        return JSONResponse({})

    file = tmp_path / "api.json"
    file.write_text(json.dumps(document("/{a}" if place == "path" else "/", parameter(place, schema))))
    async with serve_over_http(Starlette(routes=[Route("/{rest:path}", answer, methods=["POST"])])) as url:
        options = OpenApiServer(openapi=str(file), base_url=url.removesuffix("/mcp"))
        async with Client(await build_openapi_server("api", options)) as client:
            if place == "cookie" and "," in text:
                with pytest.raises(ToolError, match="'a' is a cookie: it must have no semicolon, comma"):
                    await client.call_tool("send", {"a": value})
                return
            await client.call_tool("send", {"a": value})
    assert seen == [text]


@pytest.mark.parametrize("place", ["path", "header", "cookie"])
@pytest.mark.parametrize(
    ("schema", "value", "problem"),
    [
        (TEXTS, ["a,b", "c"], "is a list that no {} can hold: its items must be texts without a comma"),
        ({"type": "array", "items": {}}, [["a"]], "is a list that no {} can hold"),
        ({"type": "array", "items": {}}, [None], "is a list that no {} can hold"),
        ({"type": "object", "properties": {"x": {}}}, {"x": 1}, "is an object, which no {} can hold"),
    ],
)
async def test_a_parameter_that_would_be_read_as_another_is_refused(
    place: str, schema: object, value: object, problem: str, tmp_path: Path
):
    declared = document("/{a}" if place == "path" else "/", parameter(place, schema))
    async with calling(declared, tmp_path) as (client, seen):
        with pytest.raises(ToolError, match=f"'a' {problem.format(place)}"):
            await client.call_tool("send", {"a": value})
    assert seen == []


@pytest.mark.parametrize("value", ["", [], [""]])
async def test_no_part_of_a_path_is_empty(value: object, tmp_path: Path):
    async with calling(document("/{a}", parameter("path", TEXTS)), tmp_path) as (client, seen):
        with pytest.raises(ToolError, match="'a' is a part of the path of this operation: it must not be empty"):
            await client.call_tool("send", {"a": value})
    assert seen == []
