"""Documents that a server sends or a file holds: what is too much is refused before it costs much."""

from __future__ import annotations

import gzip
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from codecall.errors import OptionsError
from codecall.gateway.config.options import OpenApiServer
from codecall.gateway.upstream.rest import documents
from codecall.gateway.upstream.rest.documents import read_document
from codecall.gateway.upstream.rest.openapi import build_openapi_server
from tests.gateway.backends import serve_over_http
from tests.loop_turns import assert_turns_below, longest_gap

ANSWER = {"200": {"description": "ok"}}
DOCUMENT: dict[str, object] = {
    "openapi": "3.1.0",
    "info": {"title": "t", "version": "1"},
    "paths": {"/read": {"get": {"operationId": "read", "responses": ANSWER}}},
}


@asynccontextmanager
async def served(answer: Response) -> AsyncGenerator[tuple[OpenApiServer, list[Request]]]:
    """An API whose document is this answer, and the requests for it."""
    seen: list[Request] = []

    async def document(request: Request) -> Response:
        seen.append(request)
        return answer

    async with serve_over_http(Starlette(routes=[Route("/mcp", document)])) as url:
        yield OpenApiServer(openapi=url, base_url="http://127.0.0.1:9"), seen


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd", "x", "gzip, gzip, gzip, gzip", "identity, GZip"])
async def test_a_compressed_document_is_not_read(encoding: str):
    body = gzip.compress(json.dumps(DOCUMENT).encode())
    async with served(Response(body, headers={"content-encoding": encoding})) as (options, seen):
        with pytest.raises(OptionsError, match="could not be fetched: it is compressed"):
            await build_openapi_server("a", options)
    assert [request.headers["accept-encoding"] for request in seen] == ["identity"]


async def test_a_document_that_says_that_it_is_not_compressed_is_read():
    answer = Response(json.dumps(DOCUMENT), headers={"content-encoding": "Identity"})
    async with served(answer) as (options, _):
        assert await read_document("a", options) == (DOCUMENT, options.openapi)


JSON_HEAD = '{"openapi":"3.1.0","info":{"title":"t","version":"1"},"paths":{},"x-a":'
YAML_HEAD = "openapi: 3.1.0\ninfo:\n  title: t\npaths: {}\nx-a:\n"


@pytest.mark.parametrize(
    ("text", "values", "kind"),
    [
        (JSON_HEAD + "[1,1,1]}", 16, "values and names"),
        (JSON_HEAD + '{"a":1,"b":{}}}', 18, "values and names"),
        (JSON_HEAD + '["[,:{","\\",[",""]}', 16, "values and names"),
        (YAML_HEAD + "  - 1\n" * 10, 31, "lines, values and names"),
        (YAML_HEAD + "  - - - [1, 2]\n", 17, "lines, values and names"),
        (YAML_HEAD + "  ? a\u2028  ? b\r", 15, "lines, values and names"),
    ],
)
async def test_values_are_counted_before_a_document_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, values: int, kind: str
):
    path = tmp_path / "api.json"
    path.write_text(text)
    options = OpenApiServer(openapi=str(path))
    monkeypatch.setattr(documents, "MAX_VALUES", values)
    read, _ = await read_document("a", options)
    assert list(read["x-a"])
    monkeypatch.setattr(documents, "MAX_VALUES", values - 1)
    monkeypatch.setattr(documents, "read_in_thread" if text.startswith("{") else "is_harmless_yaml", None)
    with pytest.raises(OptionsError, match=f"the document is too much: it has more than {values - 1} {kind}"):
        await read_document("a", options)


async def test_a_document_with_a_long_number_is_too_much(tmp_path: Path):
    path = tmp_path / "api.json"
    for value in (f'"{"9" * 401}"', "9" * 400):
        path.write_text(f"{JSON_HEAD}{value}}}")
        assert (await read_document("a", OpenApiServer(openapi=str(path))))[0]["x-a"]
    path.write_text(JSON_HEAD + "9" * 401 + "}")
    with pytest.raises(OptionsError, match="the document is too much: it has more than 400 digits in a number"):
        await read_document("a", OpenApiServer(openapi=str(path)))


async def test_a_document_is_decoded_beside_the_event_loop(tmp_path: Path):
    path = tmp_path / "api.json"
    path.write_text(JSON_HEAD + "{" + ",".join(f'"{number:x}":1' for number in range(400_000)) + "}}")

    async def read() -> None:
        await read_document("a", OpenApiServer(openapi=str(path)))

    await assert_turns_below(20, read, longest_gap)  # 3; decoded at once, 45


async def test_what_yaml_names_a_version_is_a_text(tmp_path: Path):
    path = tmp_path / "api.yaml"
    path.write_text(yaml.safe_dump({**DOCUMENT, "info": {"title": "t", "version": 1.0}}))
    read, _ = await read_document("a", OpenApiServer(openapi=str(path)))
    assert read == {**DOCUMENT, "info": {"title": "t", "version": "1.0"}}
