"""What is wrong in a document: where, and what, and at no cost."""

from __future__ import annotations

import gc
import json
import logging
import tracemalloc
from typing import Any

import pytest

from codecall.errors import OptionsError
from codecall.gateway.upstream.rest import validity
from tests.gateway.upstream.rest.test_components import SCHEMA, document
from tests.gateway.upstream.rest.test_schemas import build

SECRET = "sk-live-4f9a8b7c6d5e"


def using(**schemas: object) -> dict[str, Any]:
    """A document that uses these schemas, where none is trimmed."""
    headers = {name: {"schema": {"$ref": SCHEMA + name}} for name in schemas}
    return document({"responses": {"200": {"description": "", "headers": headers}}}, components={"schemas": schemas})


@pytest.mark.parametrize(
    ("said", "mistake"),
    [
        (document({"parameters": SECRET}), "paths./a.post.parameters: Input should be a valid list"),
        (document({"parameters": [{"name": "x"}]}), "paths./a.post.parameters.0.in: Field required"),
        (document({"requestBody": {}}), "paths./a.post.requestBody.content: Field required"),
        (
            document({"requestBody": SECRET}),
            "paths./a.post.requestBody: Input should be a valid dictionary or instance",
        ),
        (document({"parameters": [{"$ref": 5}]}), "paths./a.post.parameters.0"),
        (using(S={"type": SECRET}), "components.schemas.S.type: Input should be 'null', 'string', "),
        (using(S={"properties": {"Schema": {"not": {"maximum": SECRET}}}}), ".S.properties.Schema.not.maximum: Input"),
        (document({}, info={"title": "t", "version": 1.0}), "info.version: Input should be a valid string"),
        (document({}, info={"version": "1"}), "info.title: Field required"),
        (document({}, openapi="3.2.0"), "openapi: Input should be '3.1.2', '3.1.1' or '3.1.0'"),
        ({"openapi": "3.1.0", "paths": {}}, "info: Field required"),
        (document({}, components=[SECRET]), "components: Input should be a valid dictionary or instance of Components"),
        (document({}, components={"schemas": SECRET}), "components.schemas: Input should be a valid dictionary"),
        (document({}, tags=[{"name": "t"}, {"name": [SECRET]}]), "tags.1.name: Input should be a valid string"),
        (
            {**document({}), "paths": {"/\x1b[31m\n" + "a" * 99: SECRET}},
            "paths./\\u{1B}[31m\\u{A}" + "a" * 53 + "…[trunc",
        ),
        (using(S={"allOf": [SECRET] * 600}), "components.schemas.S: more than 1,000 mistakes"),
    ],
)
def test_the_first_mistake_is_named(said: dict[str, Any], mistake: str, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.DEBUG)
    with pytest.raises(OptionsError) as failure:
        build(said)
    message = failure.value.message
    assert message.startswith("servers.a.openapi: FastMCP cannot make tools of this document: ")
    assert mistake in message
    assert len(message) < 800
    assert message.isprintable()
    assert SECRET not in message + caplog.text


def test_what_is_wrong_is_not_written_down_with_all_around_it(caplog: pytest.LogCaptureFixture):
    schema: dict[str, object] = {"type": 5, "x-text": "t" * 10_000}
    for _ in range(40):
        schema = {"properties": {"a": schema}}
    tracemalloc.start()
    try:
        with pytest.raises(OptionsError, match="cannot make tools"):
            build(using(S=schema))
        assert tracemalloc.get_traced_memory()[1] < 20 * len(json.dumps(schema))
    finally:
        tracemalloc.stop()
    assert "ttt" not in caplog.text


def test_a_part_with_too_many_mistakes_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(validity, "MAX_NESTED", 5_000)
    build(using(**{f"S{n}": {"allOf": [{}] * 100} for n in range(50)}))
    with pytest.raises(OptionsError, match="too much: a path or a component of it is too large"):
        build(using(S={"allOf": [1] * 5_000}))


def test_a_document_is_not_kept_once_there_are_tools():
    text = "x" * 1_000_000
    said = document({"requestBody": {"content": {"text/plain": {"schema": {}, "example": text}}}, "responses": {}})
    build(said)
    tracemalloc.start()
    try:
        server = build(said)
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] < len(text) / 2
    finally:
        tracemalloc.stop()
    assert server.providers
