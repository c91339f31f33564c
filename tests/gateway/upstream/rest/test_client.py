"""What an API gets of a call, and what of its answers: a real API behind a real gateway, over HTTP at both ends."""

from __future__ import annotations

import gzip
import json
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client
from fastmcp.client.transports import StreamableHttpTransport
from fastmcp.exceptions import ToolError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from codecall.gateway.config.options import GatewayOptions, OpenApiServer
from codecall.gateway.gateway import Gateway
from codecall.gateway.upstream.rest import client as rest_client
from codecall.gateway.upstream.rest.openapi import build_openapi_server
from tests.gateway.backends import serve_over_http

ANSWER = {"200": {"description": "ok", "content": {"application/json": {"schema": {}}}}}
HEADERS = [{"name": name, "in": "header", "schema": {"type": "string"}} for name in ("X-Given", "X-Omitted")]
READ = {"get": {"operationId": "read", "parameters": HEADERS, "responses": ANSWER}}
DOCUMENT = {"openapi": "3.1.0", "info": {"title": "t", "version": "1"}, "paths": {"/read": READ}}

SENT = {"host", "accept", "accept-encoding", "connection", "user-agent", "x-key"}
"""What a request of the gateway has of its own."""


def api(answer: Response | None = None) -> tuple[Starlette, list[dict[str, str]]]:
    """An API that gives one answer, and the headers that it gets."""
    seen: list[dict[str, str]] = []

    async def read(request: Request) -> Response:
        seen.append(dict(request.headers))
        return answer or JSONResponse({"read": True}, headers={"set-cookie": "session=1"})

    async def document(_request: Request) -> Response:
        return JSONResponse(DOCUMENT)

    return Starlette(routes=[Route("/read", read), Route("/api.json", document)]), seen


@pytest.mark.parametrize("per_client", [False, True])
@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_an_api_gets_the_headers_of_the_configuration_and_of_the_call_alone(mode: str, per_client: bool):
    app, seen = api()
    mine = {"X-HTTP-Method-Override": "DELETE", "X-Api-Key": "mine", "X-Forwarded-For": "1.2.3.4", "X-Omitted": "mine"}
    async with serve_over_http(app) as url:
        base = url.removesuffix("/mcp")
        server = {"openapi": f"{base}/api.json", "base_url": base, "headers": {"X-Key": "operator"}}
        options = {"servers": {"s": {**server, "per_client": per_client}}, "cache_dir": False}
        async with (
            Gateway(GatewayOptions.read(options, where="")) as gate,
            serve_over_http(gate.server) as outer,
            Client(StreamableHttpTransport(outer, headers={**mine, "X-Given": "mine"}), mode=mode) as client,
        ):
            await client.call_tool("s_read", {"X-Given": "argument"})
            await client.call_tool("s_read", {})
            script = "return await Promise.all([s.read({'X-Given': 'a'}), s.read({}), s.read({'X-Omitted': null})])"
            answer = await client.call_tool("codecall:execute", {"script": script}, raise_on_error=False)
            assert answer.structured_content is not None
    assert len(seen) >= 4
    cookie = {"cookie"} if per_client else set()
    for headers in seen:
        assert headers.keys() - {"x-given"} <= SENT | cookie
        assert headers["x-key"] == "operator"
        assert headers["accept-encoding"] == "identity"
        assert headers.get("x-given") in (None, "argument", "a")
    assert [headers.get("x-given") for headers in seen[:2]] == ["argument", None]


@asynccontextmanager
async def client_of(answer: Response, tmp_path: Path) -> AsyncGenerator[Client[Any]]:
    """A client of the server of an API that gives this answer."""
    path = tmp_path / "api.json"
    path.write_text(json.dumps(DOCUMENT))
    app, _ = api(answer)
    async with serve_over_http(app) as url:
        options = OpenApiServer(openapi=str(path), base_url=url.removesuffix("/mcp"))
        async with Client(await build_openapi_server("a", options)) as client:
            yield client


MANY = b"[" + b"[]," * 200_000 + b"1]"
LONG = b"1" * 401


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (MANY, "more than 200,000 values"),
        (b"\xef\xbb\xbf \n" + MANY, "more than 200,000 values"),
        (MANY.decode().encode("utf-16"), "no text in UTF-8"),
        (MANY.decode().encode("utf-32-be"), "no text in UTF-8"),
        (b'{"a":[-' + LONG + b"]}", "more than 400 digits in a number"),
        (b"\x89PNG\r\n\x1a\n", "no text in UTF-8"),
        (LONG, "more than 400 digits in a number"),
        (b'["' + b"x" * 5_000_000 + b'"]', "more than 4 MiB"),
    ],
)
@pytest.mark.parametrize("media_type", ["application/json", "text/plain"])
async def test_an_answer_that_would_cost_much_to_read_is_not_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, media_type: str, body: bytes, why: str
):
    monkeypatch.setattr(rest_client, "MAX_ANSWER_BYTES", 4 * 2**20)
    async with client_of(Response(body, media_type=media_type), tmp_path) as client:
        with pytest.raises(ToolError, match=f"The server's answer was not read: it (is|has) {why}"):
            await client.call_tool("read", {})


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd", "x"])
async def test_a_compressed_answer_is_not_read(tmp_path: Path, encoding: str):
    body = gzip.compress(b"{}")
    for status in (200, 500):
        answer = Response(body, status, headers={"content-encoding": encoding}, media_type="application/json")
        async with client_of(answer, tmp_path) as client:
            with pytest.raises(ToolError, match="not read: it is compressed") as failure:
                await client.call_tool("read", {})
            assert ("HTTP error 500" in str(failure.value)) is (status == 500)


@pytest.mark.parametrize(
    ("body", "content_type", "read"),
    [
        (b'["' + LONG + b'\\"' + LONG + b'"]', "application/json", [f'{LONG.decode()}"{LONG.decode()}']),
        (b'["' + b"[]," * 200_000 + b'"]', "application/json; charset=punycode", ["[]," * 200_000]),
        (b'["\\ud83d"]', "application/json", ["\ufffd"]),
        (b"1;" + b"a,b\n" * 150_000, "text/csv", "1;" + "a,b\n" * 150_000),
        (b"a-a9a9", "text/plain; charset=punycode", "a-a9a9"),
        (b"a\\nb", "text/plain; x=y; charset='unicode_escape'", "a\\nb"),
        (b"caf\xe9", 'text/plain; charset="ISO-8859-1"', "café"),
        ("café".encode(), "text/plain", "café"),
        (b"\x93a\x94", "text/plain;charset=Windows-1252", "“a”"),
    ],
)
async def test_answers_that_cost_little_are_read(tmp_path: Path, body: bytes, content_type: str, read: object):
    async with client_of(Response(body, headers={"content-type": content_type}), tmp_path) as client:
        answer = await client.call_tool("read", {})
    if isinstance(read, str):
        assert answer.content[0].text == read  # type: ignore[union-attr]
    else:
        assert answer.structured_content == {"result": read}


async def test_the_text_of_an_error_is_cut(tmp_path: Path):
    async with client_of(Response(b"x" * 1_000_000, 500, media_type="text/plain"), tmp_path) as client:
        with pytest.raises(ToolError, match="HTTP error 500: Internal Server Error - xxx") as failure:
            await client.call_tool("read", {})
    assert str(failure.value).count("x") == 65_536
    assert str(failure.value).endswith("x…[truncated]")
    async with client_of(JSONResponse({"why": "busy"}, 503), tmp_path) as client:
        with pytest.raises(ToolError, match=r"HTTP error 503: Service Unavailable - \{'why': 'busy'\}"):
            await client.call_tool("read", {})


@pytest.mark.parametrize("configured", [False, True])
async def test_an_api_that_a_document_names_cannot_move_into_this_network(
    monkeypatch: pytest.MonkeyPatch, configured: bool
):
    asked: list[str] = []
    find = socket.getaddrinfo

    def moving(host: Any, *more: Any, **options: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else host
        if name != "moving.test":
            return find(host, *more, **options)
        asked.append(name)
        public = len(asked) == 1 and not configured
        return find("93.184.216.34" if public else "127.0.0.1", *more, **options)

    monkeypatch.setattr(socket, "getaddrinfo", moving)
    app, seen = api()
    async with serve_over_http(app) as url:
        base = url.removesuffix("/mcp").replace("127.0.0.1", "moving.test")

        async def document(_request: Request) -> Response:
            return JSONResponse({**DOCUMENT, "servers": [{"url": base}]})

        async with serve_over_http(Starlette(routes=[Route("/mcp", document)])) as where:
            options = OpenApiServer(openapi=where, base_url=base if configured else None)
            async with Client(await build_openapi_server("a", options)) as client:
                if configured:
                    await client.call_tool("read", {})
                else:
                    with pytest.raises(ToolError, match=r"the API is at moving\.test, which is no public address"):
                        await client.call_tool("read", {})
    assert len(seen) == configured
