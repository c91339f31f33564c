"""Schemas of operations: many from few bytes, and what is left of them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fastmcp import Client, FastMCP
from fastmcp.server.providers.openapi import OpenAPITool

from codecall.errors import OptionsError
from codecall.gateway.config.options import OpenApiServer
from codecall.gateway.upstream.rest import schemas, work
from codecall.gateway.upstream.rest.openapi import _build_server, build_openapi_server
from codecall.gateway.upstream.rest.schemas import PublishedSchemas, trim_schemas
from tests.work import python_steps

TEXT = {"type": "string", "description": "d" * 300}
ALL = {"$ref": "#/components/schemas/All"}


def media(schema: object) -> dict[str, object]:
    """A body of JSON."""
    return {"content": {"application/json": {"schema": schema}}}


def document(operations: int, definitions: int = 50, **more: object) -> dict[str, Any]:
    """Operations that all take and give the same, which refers to many definitions."""
    defined: dict[str, object] = {f"D{n}": {"type": "object", "properties": {"p": TEXT}} for n in range(definitions)}
    refers = {f"x{n}": {"$ref": f"#/components/schemas/D{n}"} for n in range(definitions)}
    defined["All"] = {"type": "object", "properties": {"text": TEXT, **refers}, "required": ["text"]}
    post = {"requestBody": {"required": True, **media(ALL)}, "responses": {"200": {"description": "ok", **media(ALL)}}}
    paths = {f"/p{n}": {"post": {"operationId": f"p{n}", **post}} for n in range(operations)}
    about = {"openapi": "3.1.0", "info": {"title": "t", "version": "1"}}
    return {**about, "paths": paths, "components": {"schemas": defined}, **more}


async def listed(said: dict[str, Any], tmp_path: Any) -> list[Any]:
    """The tools of a document, as its server lists them."""
    path = tmp_path / "api.json"
    path.write_text(json.dumps(said))
    options = OpenApiServer(openapi=str(path), base_url="https://a.test")
    async with Client(await build_openapi_server("a", options)) as client:
        return await client.list_tools()


async def test_a_listing_has_references_and_what_they_refer_to_once(tmp_path: Any):
    (tool,) = await listed(document(1), tmp_path)
    assert tool.input_schema["properties"]["x0"] == {"$ref": "#/$defs/D0"}
    assert tool.input_schema["$defs"]["D0"]["properties"]["p"] == TEXT
    assert "All" not in tool.input_schema["$defs"]


async def test_a_schema_of_parameters_that_is_too_large_keeps_their_names(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(schemas, "MAX_INPUT_SCHEMA", 10_000)
    (tool,) = await listed(document(1), tmp_path)
    assert list(tool.input_schema["properties"]) == ["text", *(f"x{n}" for n in range(50))]
    assert tool.input_schema["properties"]["text"]["description"] == "d" * 200 + "…[truncated 100 characters]"
    assert (tool.input_schema["required"], tool.input_schema["additionalProperties"]) == (["text"], False)
    assert "$defs" not in tool.input_schema
    monkeypatch.setattr(schemas, "MAX_INPUT_SCHEMA", 1_000)
    (tool,) = await listed(document(1), tmp_path)
    assert len(json.dumps(tool.input_schema)) < 1_000


async def test_the_schemas_of_all_operations_are_bounded_together(tmp_path: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(schemas, "MAX_INPUT_SCHEMAS", 60_000)
    monkeypatch.setattr(schemas, "MAX_RESULT_SCHEMAS", 60_000)
    tools = await listed(document(20), tmp_path)
    assert len(tools) == 20
    assert sum("$defs" in tool.input_schema for tool in tools) == sum("$defs" in tool.output_schema for tool in tools)
    assert 1 <= sum("$defs" in tool.input_schema for tool in tools) <= 3
    assert sum(len(json.dumps([tool.input_schema, tool.output_schema])) for tool in tools) < 130_000


async def test_values_of_schemas_are_bounded_however_few_bytes_they_are(tmp_path: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(schemas, "MAX_INPUT_SCHEMAS", 20_000)
    monkeypatch.setattr(schemas, "MAX_RESULT_SCHEMAS", 20_000)
    said = document(20)
    said["components"]["schemas"] = {"All": {"type": "object", "properties": {"x": {"enum": [1] * 500}}}}
    tools = await listed(said, tmp_path)
    assert sum(len(tool.input_schema["properties"]["x"].get("enum", ())) for tool in tools) * 8 <= 20_000
    assert sum(str(tool.output_schema).count("1, ") for tool in tools) * 8 <= 20_000
    assert sum("enum" in str(tool.input_schema) for tool in tools) >= 3


def test_what_is_too_much_is_found_in_every_place_of_a_schema(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(schemas, "MAX_INPUT_SCHEMA", 5_000)
    monkeypatch.setattr(schemas, "MAX_RESULT_SCHEMA", 5_000)
    said = document(1)
    components = said["components"]
    components["parameters"] = {"P": {"name": "q", "in": "query", "schema": ALL}}
    components["requestBodies"] = {"B": media({"oneOf": [{"type": "null"}, ALL]})}
    components["responses"] = {"R": {"description": "ok", **media({"type": "array", "items": ALL})}}
    mapped = {"type": "object", "discriminator": {"propertyName": "k", "mapping": {"a": "All"}}}
    said["paths"] = {
        "/p": {
            "parameters": [{"$ref": "#/components/parameters/P"}],
            "post": {
                "parameters": [{"name": "r", "in": "query", **media(ALL)}],
                "requestBody": {"$ref": "#/components/requestBodies/B"},
                "responses": {"200": {"$ref": "#/components/responses/R"}},
            },
            "put": {"requestBody": media(mapped), "responses": {}},
        },
        "/q": {"get": {"responses": {"default": media({"allOf": [ALL]})}}},
    }
    trim_schemas(said)
    said["components"].pop("schemas")
    assert "All" not in json.dumps(said)
    assert said["components"]["responses"]["R"]["content"]["application/json"]["schema"] == {"type": "array"}
    assert said["paths"]["/p"]["put"]["requestBody"]["content"]["application/json"]["schema"] == {"type": "object"}


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"components": 1, "paths": [1]},
        {"components": {"schemas": [1]}, "paths": {"/a": 1, "/b": {"get": [1], "parameters": {"a": 1}}}},
        {"paths": {"/a": {"get": {"parameters": [1], "requestBody": {"content": {"a": 1}}, "responses": [1]}}}},
        {"components": {"schemas": {"A": {"$ref": "#/components/schemas/A"}}}, "paths": {"/a": {"get": media(ALL)}}},
    ],
)
def test_what_is_no_schema_is_left_alone(said: dict[str, Any]):
    before = json.dumps(said)
    trim_schemas(said)
    assert json.dumps(said) == before


def test_the_work_grows_with_the_document_and_not_with_what_it_refers_to(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(schemas, "MAX_INPUT_SCHEMA", 10_000)
    monkeypatch.setattr(schemas, "MAX_INPUT_SCHEMAS", 20_000)
    monkeypatch.setattr(schemas, "MAX_RESULT_SCHEMA", 10_000)
    few, many = (json.loads(json.dumps(document(count, count))) for count in (100, 200))
    assert python_steps(lambda: trim_schemas(many)) < 3 * python_steps(lambda: trim_schemas(few))


def test_fastmcp_copies_no_schema_that_is_too_much(monkeypatch: pytest.MonkeyPatch):
    options = OpenApiServer(openapi="x")

    def build() -> None:
        _build_server("a", json.loads(json.dumps(document(20))), "https://a.test", options, None)

    build()
    whole = python_steps(build)
    for name in ("MAX_INPUT_SCHEMA", "MAX_RESULT_SCHEMA"):
        monkeypatch.setattr(schemas, name, 1_000)
    assert python_steps(build) < whole / 4


async def test_many_small_parameters_are_counted_together(tmp_path: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(schemas, "MAX_INPUT_SCHEMA", 9_000)
    parameters = [{"name": f"q{n}", "in": "query", "schema": {"enum": ["e" * 80]}} for n in range(100)]
    get = {"operationId": "read", "parameters": parameters, "responses": {}}
    (tool,) = await listed({**document(0), "paths": {"/p": {"get": get}}}, tmp_path)
    assert list(tool.input_schema["properties"]) == [f"q{n}" for n in range(100)]
    assert len(json.dumps(tool.input_schema)) < 9_000


def test_parameters_that_are_together_too_large_are_left_out(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(schemas, "MAX_INPUT_SCHEMAS", 100)
    schema = {"type": "object", "properties": {"a" * 200: {}}, "additionalProperties": False}
    assert PublishedSchemas().parameters(schema) == {"type": "object", "additionalProperties": True}


def shared(count: int, where: str) -> dict[str, Any]:
    """Few bytes that many operations share."""
    content: dict[str, object] = {f"a/{n}": {"schema": {}} for n in range(count)}
    parameters = [{"name": f"p{n}", "in": "query", "schema": {}} for n in range(count)]
    components: dict[str, object] = {
        "responses": {"R": {"description": "ok", "content": content}},
        "requestBodies": {"B": {"content": content}},
        "parameters": {"P": {"name": "p", "in": "query", "content": content}},
    }
    operation = {
        "response": {"responses": {"200": {"$ref": "#/components/responses/R"}}},
        "body": {"requestBody": {"$ref": "#/components/requestBodies/B"}, "responses": {}},
        "parameter": {"parameters": [{"$ref": "#/components/parameters/P"}], "responses": {}},
    }
    paths: dict[str, object] = {f"/{n}": {"get": operation.get(where)} for n in range(count)}
    if where == "path":
        paths = {"/a": {"parameters": parameters, **{f"{n:x}": {} for n in range(count)}}}
    return json.loads(json.dumps({**document(0, 0), "paths": paths, "components": components}))


@pytest.mark.parametrize("where", ["path", "response", "body", "parameter"])
def test_what_operations_share_is_looked_at_once(where: str):
    few, many = shared(100, where), shared(200, where)
    assert python_steps(lambda: trim_schemas(many)) < 3 * python_steps(lambda: trim_schemas(few))


def build(said: dict[str, Any]) -> FastMCP[Any]:
    """The server of a document."""
    return _build_server("a", json.loads(json.dumps(said)), "https://a.test", OpenApiServer(openapi="x"), None)


CYCLE = {f"C{n}": {"allOf": [{"$ref": f"#/components/schemas/C{m}"} for m in range(8)]} for n in range(8)}
TEXTS = {f"p{n}": {"type": "string"} for n in range(1_000)}
MAPPED = {"type": "object", "discriminator": {"propertyName": "k", "mapping": {str(n): "All" for n in range(500)}}}


def posting(count: int, schema: object, **components: object) -> dict[str, Any]:
    """Operations whose bodies have this schema."""
    post = {"requestBody": media(schema), "responses": {}}
    return {**document(0), "paths": {f"/{n}": {"post": post} for n in range(count)}, "components": components}


@pytest.mark.parametrize(
    "said",
    [
        shared(400, "response"),
        shared(400, "body"),
        shared(400, "parameter"),
        posting(
            0,
            {},
            schemas={"T": {"properties": TEXTS}, **{f"A{n}": {"$ref": "#/components/schemas/T"} for n in range(99)}},
        ),
        posting(0, {}, schemas={f"A{n}": {"$ref": f"#/components/schemas/A{n + 1}"} for n in range(400)}),
        posting(9, {"allOf": [{"$ref": "#/components/schemas/C0"}]}, schemas=CYCLE),
        posting(9, MAPPED, schemas={"All": {"allOf": [{"type": "object"}] * 99}}),
    ],
    ids=["responses", "bodies", "parameters", "definitions", "chain", "cycle", "variants"],
)
def test_a_document_is_refused_before_fastmcp_reads_what_is_shared_too_often(
    said: dict[str, Any], monkeypatch: pytest.MonkeyPatch
):
    build(document(1))
    values = len(json.dumps(said)) // 2
    monkeypatch.setattr(work, "MAX_WORK", 50_000)

    def refuse() -> None:
        with pytest.raises(OptionsError, match="the document is too much: reading it takes more than"):
            build(said)

    assert python_steps(refuse) < 20 * values


@pytest.mark.parametrize(
    "operation",
    [
        {"responses": {"200": {"description": "ok", **media({"x-fastmcp-top-level-schema": "Big"})}}},
        {"parameters": [{"name": "q", "in": "query", "schema": {"$ref": "#/components/parameters/P/param_schema"}}]},
        {"parameters": [{"name": "q", "in": "query", "schema": {"$ref": "#/components/headers/H/x-schema"}}]},
        {
            "parameters": [
                {"$ref": "#/nowhere", "name": "q", "in": "query", "schema": {"$ref": "#/components/schemas/Big"}}
            ]
        },
        {"requestBody": {"$ref": "#/components/requestBodies/B"}},
        {"requestBody": {"$ref": "#/components/requestBodies/B0"}},
    ],
    ids=[
        "named by FastMCP",
        "a field of FastMCP's",
        "an extension",
        "beside a reference",
        "in a body",
        "by many steps",
    ],
)
async def test_no_schema_that_is_too_much_comes_another_way(operation: dict[str, Any]):
    big = {"type": "object", "properties": {f"p{n}": TEXT for n in range(300)}}
    said = {**document(0), "paths": {"/a": {"post": {"responses": {}, **operation}}}}
    bodies = {f"B{n}": {"$ref": f"#/components/requestBodies/B{n + 1}"} for n in range(20)}
    said["components"] = {
        "schemas": {"Big": big},
        "parameters": {"P": {"name": "P", "in": "query", "schema": big}},
        "headers": {"H": {"x-schema": big}},
        "requestBodies": {
            "B": {"$ref": "#/components/requestBodies/B20", **media({"$ref": "#/components/schemas/Big"})},
            **bodies,
            "B20": media({"$ref": "#/components/schemas/Big"}),
        },
    }
    (tool,) = await build(said).list_tools()
    assert isinstance(tool, OpenAPITool)
    assert (
        len(json.dumps([tool._route.request_schemas, tool._route.response_schemas, tool._route.flat_param_schema]))
        < 70_000
    )


def test_a_document_that_is_nested_too_deeply_is_refused():
    schema: dict[str, object] = {}
    for _ in range(100):
        schema = {"items": schema}
    with pytest.raises(OptionsError, match="too much: it is nested more than 100 deep"):
        build(posting(0, {}, schemas={"S": schema}))
