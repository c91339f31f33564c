"""What of a document operations use: the rest of it costs nothing, and takes no tool anything."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest
from fastmcp.server.providers.openapi import OpenAPIProvider, OpenAPITool

from codecall.errors import OptionsError
from codecall.gateway.upstream.rest import schemas, validity
from codecall.gateway.upstream.rest.components import drop_unreached
from codecall.gateway.upstream.rest.schemas import PublishedSchemas
from codecall.gateway.upstream.rest.validity import as_models
from tests.gateway.upstream.rest.test_schemas import build, media

SCHEMA = "#/components/schemas/"


def document(operation: object, **more: Any) -> dict[str, Any]:
    """A document with one operation."""
    about = {"openapi": "3.1.0", "info": {"title": "t", "version": "1"}}
    return {**about, "paths": {"/a": {"post": operation}}, **more}


def many(count: int) -> dict[str, object]:
    """A schema of so many objects."""
    return {"type": "object", "properties": {f"p{n}": {} for n in range(count)}}


@pytest.mark.parametrize(
    ("operation", "kept"),
    [
        ({"responses": {}}, ""),
        ({"requestBody": media({"$ref": SCHEMA + "A"})}, "schemas A, schemas B"),
        ({"requestBody": media({"$ref": "#/$defs/B"})}, "schemas B"),
        ({"requestBody": media({"$ref": SCHEMA + "B/properties/x"})}, "schemas B"),
        ({"requestBody": media({"discriminator": {"propertyName": "k", "mapping": {"b": "B"}}})}, "schemas B"),
        ({"requestBody": media({"discriminator": {"mapping": {"a": SCHEMA + "A"}}})}, "schemas A, schemas B"),
        ({"requestBody": {"$ref": "#/components/requestBodies/Q"}}, "schemas C, requestBodies Q"),
        ({"parameters": [{"$ref": "#/components/parameters/P/param_schema"}]}, "schemas B, parameters P"),
        ({"responses": {"200": {"$ref": "#/components/responses/R"}}}, "schemas B, responses R, headers H"),
        ({"responses": {"200": {"$ref": "#/webhooks/w/post/responses/x"}}}, "webhooks w, schemas C"),
        ({"parameters": [{"$ref": "#/x-more/p"}]}, "x-more, schemas C"),
        ({"callbacks": {"c": {"u": {"$ref": "#/components/pathItems/I"}}}}, "schemas B, pathItems I"),
    ],
)
def test_what_operations_lead_to_is_kept(operation: object, kept: str):
    components: dict[str, Any] = {
        "schemas": {"A": {"allOf": [{"$ref": SCHEMA + "B"}]}, "B": {}, "C": {"items": {"$ref": SCHEMA + "C"}}},
        "requestBodies": {"Q": media({"$ref": SCHEMA + "C"})},
        "parameters": {"P": {"schema": {"$ref": SCHEMA + "B"}}},
        "responses": {"R": {"headers": {"h": {"$ref": "#/components/headers/H"}}}},
        "headers": {"H": {"schema": {"$ref": SCHEMA + "B"}}},
        "pathItems": {"I": {"post": {"requestBody": media({"$ref": SCHEMA + "B"})}}},
        "securitySchemes": {"S": {}},
        "x-own": {"O": {}},
    }
    said = document(operation, webhooks={"w": {"$ref": SCHEMA + "C"}}, components=components)
    said["x-more"] = {"p": {"$ref": SCHEMA + "C"}}
    drop_unreached(said)
    found = [f"{kind} {name}" for kind, section in said["components"].items() for name in section]
    found += [f"webhooks {name}" for name in said["webhooks"]] + [name for name in said if name.startswith("x-")]
    assert sorted(found) == sorted(filter(None, kept.split(", ")))


@pytest.mark.parametrize("said", [{}, {"components": 1, "webhooks": [1]}, {"components": {"schemas": [1]}, "tags": 1}])
def test_what_has_no_parts_is_left_alone(said: dict[str, Any]):
    before = json.dumps(said)
    drop_unreached(said)
    assert json.dumps(said) == before


BIG = {
    "schemas": [{"requestBody": media({"$ref": SCHEMA + "Big"})}, {"Big": many(600)}],
    "responses": [
        {"responses": {"404": {"$ref": "#/components/responses/Big"}}},
        {"Big": {"description": "", "headers": {f"h{n}": {} for n in range(600)}}},
    ],
    "headers": [
        {"responses": {"200": {"description": "", "headers": {"h": {"$ref": "#/components/headers/Big"}}}}},
        {"Big": {"schema": many(600)}},
    ],
    "examples": [
        {"requestBody": {"content": {"a/b": {"examples": {"e": {"$ref": "#/components/examples/Big"}}}}}},
        {"Big": {"value": [{}] * 600}},
    ],
    "links": [
        {"responses": {"200": {"description": "", "links": {"l": {"$ref": "#/components/links/Big"}}}}},
        {"Big": {"parameters": {f"p{n}": {} for n in range(600)}}},
    ],
    "callbacks": [
        {"callbacks": {"c": {"$ref": "#/components/callbacks/Big"}}},
        {"Big": {f"{n}": {} for n in range(600)}},
    ],
    "pathItems": [
        {"callbacks": {"c": {"u": {"$ref": "#/components/pathItems/Big"}}}},
        {"Big": {"servers": [{"url": "/"}] * 600}},
    ],
}


@pytest.mark.parametrize("kind", BIG)
def test_a_document_has_only_so_many_objects_that_operations_use(kind: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(validity, "MAX_OBJECTS", 500)
    operation, components = BIG[kind]
    build(document({"responses": {}}, components={kind: components}))
    build(document({"responses": {}}, webhooks={"w": {"post": operation}}, components={kind: components}))
    with pytest.raises(OptionsError, match="too much: it has more than 500 objects"):
        build(document({"responses": {}, **operation}, components={kind: components}))


def test_a_document_has_no_more_operations_than_a_server_may_list(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(schemas, "MAX_ITEMS", 10)
    paths = {f"/{n}": {"get": {"responses": {}}, "put": {"responses": {}}} for n in range(5)}
    build({**document({}), "paths": paths})
    with pytest.raises(OptionsError, match="too much: it has more than 10 operations"):
        build({**document({}), "paths": {**paths, "/5": paths["/0"]}})


@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
async def test_fastmcp_makes_the_same_tools_of_it(version: str):
    cat = {"type": "object", "properties": {"k": {"type": "string"}, "claws": {"$ref": SCHEMA + "Count"}}}
    dog = {"allOf": [{"$ref": SCHEMA + "Pet"}, {"type": "object", "properties": {"barks": {"type": "boolean"}}}]}
    pet = {
        "type": "object",
        "properties": {"k": {"type": "string"}, "tags": {"type": "array", "items": {"$ref": SCHEMA + "Tag"}}},
        "discriminator": {"propertyName": "k", "mapping": {"cat": "Cat", "dog": SCHEMA + "Dog"}},
    }
    operation = {
        "operationId": "save",
        "parameters": [{"$ref": "#/components/parameters/Limit"}, {"name": "q", "in": "query", "schema": {}}],
        "requestBody": {"$ref": "#/components/requestBodies/Pet"},
        "responses": {"200": {"$ref": "#/components/responses/Pets"}, "204": {"description": "nothing"}},
        "callbacks": {"done": {"{$request.body#/url}": {"post": {"responses": {}}}}},
        "security": [{"key": []}],
        "x-own": {"a": 1},
    }
    said = document(
        operation,
        openapi=version,
        servers=[{"url": "https://a.test"}],
        components={
            "schemas": {
                "Pet": pet,
                "Cat": cat,
                "Dog": dog,
                "Count": {"type": "integer"},
                "Tag": {"$ref": SCHEMA + "Id"},
            }
            | {"Id": {"type": "string", "x-own": {"a": 1}}, "Other": {"type": "object"}},
            "parameters": {"Limit": {"name": "limit", "in": "query", "schema": {"type": "integer", "default": 3}}},
            "requestBodies": {"Pet": {"required": True, **media({"$ref": SCHEMA + "Pet"})}},
            "responses": {
                "Pets": {
                    "description": "ok",
                    "headers": {"X-Total": {"$ref": "#/components/headers/Total"}},
                    "links": {"next": {"operationId": "save"}},
                    **media({"type": "array", "items": {"$ref": SCHEMA + "Pet"}}),
                }
            },
            "headers": {"Total": {"schema": {"$ref": SCHEMA + "Count"}}},
            "securitySchemes": {"key": {"type": "apiKey", "name": "k", "in": "header"}},
        },
    )
    whole = OpenAPIProvider(json.loads(json.dumps(said)), httpx2.AsyncClient())
    (tool,) = await build(said).list_tools()
    (expected,) = await whole._list_tools()
    assert isinstance(tool, OpenAPITool)
    assert isinstance(expected, OpenAPITool)
    other = {"parameter_map", "responses", "response_schemas"}
    assert tool._route.model_dump(exclude=other) == expected._route.model_dump(exclude=other)
    assert tool.output_schema == PublishedSchemas().result(expected.output_schema)
    assert {"claws", "barks", "limit", "q"} <= tool.parameters["properties"].keys()


@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
def test_fastmcp_takes_the_parts_of_a_document_as_they_were_found_valid(version: str):
    components = {
        "schemas": {"S": {"type": "object"}, "T": {"$ref": SCHEMA + "S"}},
        "responses": {"R": {"$ref": "#/a"}},
    }
    said = document({"responses": {}}, openapi=version, components=components, tags=[{"name": "t"}])
    models = as_models(said)
    found: Any = validity._model(said).model_validate(models)
    assert found.paths["/a"] is models["paths"]["/a"]
    assert found.tags[0] is models["tags"][0]
    for kind, section in components.items():
        for name in section:
            assert getattr(found.components, kind)[name] is models["components"][kind][name]
