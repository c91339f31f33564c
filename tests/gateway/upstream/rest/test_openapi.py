"""A REST API behind the gateway: a real HTTP server, and its document as JSON and YAML, by path and by URL."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
import yaml
from fastmcp import Client, FastMCP
from fastmcp.exceptions import ToolError

from codecall.errors import OptionsError
from codecall.gateway.config.options import GatewayOptions, OpenApiServer
from codecall.gateway.gateway import Gateway
from codecall.gateway.upstream.rest import documents, schemas
from codecall.gateway.upstream.rest.openapi import build_openapi_server

ANSWER = {"200": {"description": "ok", "content": {"application/json": {"schema": {"type": "object"}}}}}
NUMBER = {"name": "number", "in": "path", "required": True, "schema": {"type": "integer"}}


def document(**more: object) -> dict[str, object]:
    """An API with three operations."""
    pages = {"get": {"operationId": "list_pages", "summary": "Lists pages", "responses": ANSWER}}
    page = {
        "parameters": [NUMBER],
        "get": {"operationId": "read_page", "responses": ANSWER},
        "delete": {"operationId": "drop_page", "responses": ANSWER},
        "put": {"operationId": "write_page", "responses": ANSWER},
    }
    paths = {"/pages": pages, "/pages/{number}": page}
    return {"openapi": "3.1.0", "info": {"title": "Pages", "version": "1.2"}, "paths": paths, **more}


class Api:
    """An HTTP server that serves a document, and answers every other request with what it was sent."""

    def __init__(self) -> None:
        self.document: bytes = b""
        self.status = 200
        self.seen: list[tuple[str, str, str | None]] = []
        self.bodies: list[bytes] = []
        self.answer: object = None
        self.cookies: list[str | None] = []
        api = self

        class Handler(BaseHTTPRequestHandler):
            def _answer(self) -> None:
                api.seen.append((self.command, self.path, self.headers.get("X-Key")))
                api.bodies.append(self.rfile.read(int(self.headers.get("Content-Length") or 0)))
                api.cookies.append(self.headers.get("Cookie"))
                is_document = self.path == "/docs/api.json"
                body = api.document if is_document else json.dumps(api.answer or {"path": self.path}).encode()
                self.send_response(api.status if is_document else 200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Location", "/elsewhere")
                self.send_header("Set-Cookie", "set=by-the-api")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_PUT = do_POST = do_DELETE = _answer  # noqa: N815 - as the base class calls them

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                """Nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def api() -> Iterator[Api]:
    """A server that runs."""
    served = Api()
    thread = threading.Thread(target=lambda: served.server.serve_forever(poll_interval=0.02))
    thread.start()
    try:
        yield served
    finally:
        served.server.shutdown()
        thread.join()
        served.server.server_close()


async def tools_of(server: FastMCP) -> list[str]:  # type: ignore[type-arg]
    """The names of its tools."""
    return sorted(tool.name for tool in await server.list_tools())


async def test_an_api_is_a_server_like_any_other(api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("API_KEY", "s3cr3t")
    api.document = json.dumps(document()).encode()
    server = {"openapi": f"{api.url}/docs/api.json", "headers": {"X-Key": "${API_KEY}"}}
    options = {"servers": {"pages": server}, "cache_dir": str(tmp_path), "expose": {"mode": "never"}}
    async with Gateway(GatewayOptions.read(options, where="")) as gate, Client(gate.server) as client:
        listed = {tool.name: tool.annotations for tool in await client.list_tools()}
        assert sorted(listed) == ["pages_list_pages", "pages_read_page", "pages_write_page"]
        reading, writing = listed["pages_read_page"], listed["pages_write_page"]
        assert reading is not None
        assert writing is not None
        assert (reading.read_only_hint, writing.read_only_hint, writing.idempotent_hint) == (True, False, True)
        assert [hidden.name for hidden in gate.hidden()] == ["drop_page"]
        answer = await client.call_tool("pages_read_page", {"number": 7})
        assert answer.structured_content == {"path": "/pages/7"}
        assert ("GET", "/pages/7", "s3cr3t") in api.seen
        assert gate.providers["pages"].listing.server_info is not None
        assert gate.providers["pages"].listing.server_info.version == "1.2"
    file = gate.providers["pages"].cache_file
    assert file is not None
    assert b"s3cr3t" not in file.path.read_bytes()
    api.seen.clear()
    async with Gateway(GatewayOptions.read(options, where="")) as gate, Client(gate.server) as client:
        assert len(await client.list_tools()) == 3
        assert api.seen == []  # known from the cache


@pytest.mark.parametrize("write", [json.dumps, yaml.safe_dump], ids=["json", "yaml"])
async def test_a_document_may_be_a_file(write: Callable[[object], str], tmp_path: Path):
    path = tmp_path / "api.txt"
    path.write_text(write(document(servers=[{"url": "https://{zone}.test", "variables": {"zone": {"default": "eu"}}}])))
    server = await build_openapi_server("pages", OpenApiServer(openapi=str(path)))
    assert await tools_of(server) == ["drop_page", "list_pages", "read_page", "write_page"]


async def test_headers_go_to_the_api_alone(api: Api):
    api.document = json.dumps(document()).encode()
    url = f"{api.url}/docs/api.json"
    await build_openapi_server("a", OpenApiServer(openapi=url, base_url="https://other.test", headers={"X-Key": "key"}))
    await build_openapi_server("a", OpenApiServer(openapi=url, base_url=f"{api.url}/v1", headers={"X-Key": "key"}))
    assert [key for _, _, key in api.seen] == [None, "key"]


@pytest.mark.parametrize("said", ["https://evil.test/v1", "//evil.test", "{origin}:1/", "https{rest}"])
async def test_a_document_does_not_decide_who_gets_the_headers(api: Api, tmp_path: Path, said: str):
    said = said.format(origin=api.url.rpartition(":")[0], rest=api.url.removeprefix("http"))
    api.document = json.dumps(document(servers=[{"url": said}])).encode()
    url = f"{api.url}/docs/api.json"
    path = tmp_path / "api.json"
    path.write_bytes(api.document)
    for where in (url, str(path)):
        with pytest.raises(OptionsError, match=r"servers\.a\.base_url") as refused:
            await build_openapi_server("a", OpenApiServer(openapi=where, headers={"X-Key": "key"}))
        assert "base_url" in str(refused.value.hint)
    await build_openapi_server("a", OpenApiServer(openapi=url))
    await build_openapi_server("a", OpenApiServer(openapi=url, base_url="https://evil.test", headers={"X-Key": "key"}))


async def test_a_call_reaches_its_own_operation_as_the_operator(api: Api, tmp_path: Path):
    parts = [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in ("book", "page")]
    headers = [{"name": name, "in": "header", "required": True, "schema": {}} for name in ("x-key", "X-Other")]
    read = {"operationId": "read", "parameters": [*parts, *headers], "responses": ANSWER}
    path = tmp_path / "api.json"
    path.write_text(json.dumps(document(paths={"/books/{book}/{page}": {"get": read}})))
    options = OpenApiServer(openapi=str(path), base_url=api.url, headers={"X-Key": "operator"})
    async with Client(await build_openapi_server("web", options)) as client:
        (tool,) = await client.list_tools()
        assert sorted(tool.input_schema["required"]) == ["X-Other", "book", "page"]
        assert "x-key" not in tool.input_schema["properties"]
        for refused, message in [
            ({"book": "1", "page": ""}, "'page' is a part of the path"),
            ({"book": [], "page": "2"}, "'book' is declared as string: it must not be an array"),
            ({"book": "1", "page": "2", "x-key": "another"}, "'x-key' is a header that the gateway sets"),
        ]:
            with pytest.raises(ToolError, match=message):
                await client.call_tool("read", {"X-Other": "o", **refused})
        assert api.seen == []
        await client.call_tool("read", {"book": "1", "page": "2", "X-Other": "o"})
    assert api.seen == [("GET", "/books/1/2", "operator")]


async def test_defaults_of_variables_have_no_variables(api: Api, tmp_path: Path):
    path = tmp_path / "api.json"
    twice = {f"v{n}": {"default": f"{{v{n + 1}}}{{v{n + 1}}}"} for n in range(40)}
    path.write_text(json.dumps(document(servers=[{"url": f"{api.url}/{{v0}}/{{no}}", "variables": twice}])))
    async with Client(await build_openapi_server("web", OpenApiServer(openapi=str(path)))) as client:
        await client.call_tool("list_pages", {})
    assert [unquote(path) for _, path, _ in api.seen] == ["/{v1}{v1}/{no}/pages"]


@pytest.mark.parametrize(
    ("server", "message"),
    [
        ({"url": "https://{a}.test", "variables": [1]}, "`variables` of its server without a `default`"),
        ({"url": "https://{a}.test", "variables": {"a": 1}}, "`variables` of its server without a `default`"),
        ({"url": "https://{a}.test", "variables": {"a": {"default": {}}}}, "`variables` of its server without a"),
        ({"url": "https://" + "a" * 3_000}, "a URL of more than 2,048 characters"),
        ({"url": "https://" + "{a}" * 600, "variables": {"a": {"default": "a" * 9_000}}}, "a URL of more than 2,048"),
        ({"url": "https://[a/"}, "does not say where the API is"),
        ({"url": "https://:80/"}, "does not say where the API is"),
    ],
)
async def test_a_url_that_a_document_does_not_say_properly_is_told(
    server: dict[str, object], message: str, tmp_path: Path
):
    path = tmp_path / "api.json"
    path.write_text(json.dumps(document(servers=[server])))
    with pytest.raises(OptionsError, match=rf"servers\.a\.base_url: the document .*{message}"):
        await build_openapi_server("a", OpenApiServer(openapi=str(path)))


NOTE = {"type": "object", "properties": {"text": {"type": "string"}, "stars": {"type": "integer"}}}
RESULT = {"type": "array", "items": {"$ref": "#/components/schemas/Note"}}
NOTES = {
    "/notes": {
        "get": {
            "operationId": "list_notes",
            "parameters": [{"name": "status", "in": "query", "schema": {"type": "string"}}],
            "responses": {"200": {"description": "ok", "content": {"application/json": {"schema": RESULT}}}},
        },
        "post": {
            "operationId": "write_note",
            "requestBody": {"content": {"application/json": {"schema": NOTE}}},
            "responses": {
                "200": {
                    "description": "ok",
                    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Note"}}},
                }
            },
        },
        "put": {
            "operationId": "tag_note",
            "requestBody": {
                "content": {"application/json": {"schema": {**NOTE, "additionalProperties": {"type": "string"}}}}
            },
            "responses": ANSWER,
        },
    }
}


@asynccontextmanager
async def notes(api: Api, mode: str) -> AsyncIterator[Client]:  # type: ignore[type-arg]
    """A client of a gateway before an API of notes."""
    api.document = json.dumps(document(paths=NOTES, components={"schemas": {"Note": NOTE, "Other": NOTE}})).encode()
    server = {"openapi": f"{api.url}/docs/api.json"}
    options = {"servers": {"api": server}, "cache_dir": False, "expose": {"mode": mode}}
    async with Gateway(GatewayOptions.read(options, where="")) as gate, Client(gate.server) as client:
        await gate.refresh()
        yield client


async def run(client: Client, script: str) -> dict[str, Any]:  # type: ignore[type-arg]
    """What execute answers."""
    answer = (await client.call_tool("codecall:execute", {"script": script})).structured_content
    assert answer is not None
    return answer


async def test_an_argument_that_an_operation_does_not_have_is_refused(api: Api):
    async with notes(api, "always") as client:
        before = len(api.seen)
        for call in ("api.list_notes({state: 'open'})", "callTool('api_write_note', {note: {text: 'a'}})"):
            for script in (f"return await {call}", f"const call = () => {call}; return await call()"):
                answer = await run(client, script)
                assert answer["error"]["code"] == "INVALID_INPUT"
        assert "note: Unknown parameter" in answer["error"]["message"]
        assert "stars" in answer["error"]["message"]
        assert len(api.seen) == before
        assert (await run(client, "return await api.tag_note({text: 'a', colour: 'red'})"))["status"] == "ok"
        assert json.loads(api.bodies[-1]) == {"text": "a", "colour": "red"}


async def test_a_client_is_refused_such_an_argument_too(api: Api):
    async with notes(api, "never") as client:
        before = len(api.seen)
        with pytest.raises(ToolError, match=r"Unknown parameter 'state'\. The parameters of this operation: status\."):
            await client.call_tool("api_list_notes", {"state": "open"})
        assert len(api.seen) == before
        assert (await client.call_tool("api_tag_note", {"text": "a", "colour": "red"})).is_error is False


async def test_results_are_described_as_the_document_says_and_not_held_against_it(api: Api):
    async with notes(api, "always") as client:
        described = (await client.call_tool("codecall:describe", {"toolNames": ["api_list_notes"]})).structured_content
        assert described is not None
        tool = described["tools"][0]
        assert tool["outputSchema"] == {"type": "array", "items": NOTE}
        for said in ([{"text": 1, "stars": "many"}], "none", {"error": None}):
            api.answer = said
            assert (await run(client, "return await api.list_notes()"))["result"] == said
    async with notes(api, "never") as client:
        assert all("stars" not in json.dumps(tool.output_schema) for tool in await client.list_tools())
        api.answer = [{"text": 1, "stars": "many"}]
        assert (await client.call_tool("api_list_notes", {})).data == api.answer
        api.answer = {"text": 1}
        assert (await client.call_tool("api_write_note", {"text": "a"})).structured_content == api.answer


async def test_schemas_of_results_are_published_while_they_are_few_bytes(
    api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = tmp_path / "api.json"
    components = {"schemas": {"Note": NOTE}}
    path.write_text(json.dumps(document(servers=[{"url": api.url}], paths=NOTES, components=components)))
    cases = (("MAX_RESULT_SCHEMA", 100, 0), ("MAX_RESULT_SCHEMAS", 300, 1), ("MAX_BYTES", 9_999, 2))
    for name, value, published in cases:
        with monkeypatch.context() as patch:
            patch.setattr(schemas if "SCHEMA" in name else documents, name, value)
            server = await build_openapi_server("api", OpenApiServer(openapi=str(path)))
        assert sum("stars" in json.dumps(tool.output_schema) for tool in await server.list_tools()) == published


async def test_a_caller_sets_no_cookie_of_the_operators_and_no_header_of_the_transport(api: Api, tmp_path: Path):
    # Many servers read an underscore as a hyphen.
    hidden = ("Host", "Transfer-Encoding", "X-HTTP-Method-Override", "Accept-Encoding", "X_HTTP_Method_Override")
    places = [("c", "cookie"), ("n", "cookie"), *((name, "header") for name in hidden), ("q", "query")]
    parameters = [{"name": name, "in": place, "required": True, "schema": {}} for name, place in places]
    read = {"operationId": "read", "parameters": parameters, "responses": ANSWER}
    path = tmp_path / "api.json"
    path.write_text(json.dumps(document(paths={"/books": {"get": read}})))
    for headers in ({"Cookie": "session=operator"}, {"X-Key": "operator"}):
        options = OpenApiServer(openapi=str(path), base_url=api.url, headers=headers)
        api.cookies.clear()
        async with Client(await build_openapi_server("web", options)) as client:
            (tool,) = await client.list_tools()
            given: dict[str, object] = {"q": 1} if "Cookie" in headers else {"q": 1, "c": "mine", "n": 7}
            assert sorted(tool.input_schema["required"]) == sorted(tool.input_schema["properties"]) == sorted(given)
            for name, value in [
                ("c", "evil; session=another"),
                ("c", "evil,session=another"),
                ("c", "evil\r\nX-Key: another"),
                ("c", ["evil; session=another"]),
                ("Host", "elsewhere"),
                ("Transfer-Encoding", "chunked"),
                ("X-HTTP-Method-Override", "DELETE"),
                ("Accept-Encoding", "gzip"),
                ("X_HTTP_Method_Override", "DELETE"),
            ]:
                with pytest.raises(ToolError, match=f"'{name}' is a (cookie|header)"):
                    await client.call_tool("read", {**given, name: value})
            assert api.cookies == []
            await client.call_tool("read", given)
        assert api.cookies == (["session=operator"] if "Cookie" in headers else ["c=mine; n=7"])


@pytest.mark.parametrize(("configured", "said"), [("X-Api-Key", "X_Api_Key"), ("x_api_key", "X-API-KEY")])
async def test_a_configured_header_is_no_callers_however_it_is_spelled(
    api: Api, tmp_path: Path, configured: str, said: str
):
    read = {"operationId": "read", "parameters": [{"name": said, "in": "header", "schema": {}}], "responses": ANSWER}
    path = tmp_path / "api.json"
    path.write_text(json.dumps(document(paths={"/books": {"get": read}})))
    options = OpenApiServer(openapi=str(path), base_url=api.url, headers={configured: "operator"})
    async with Client(await build_openapi_server("web", options)) as client:
        with pytest.raises(ToolError, match=f"'{said}' is a header that the gateway sets"):
            await client.call_tool("read", {said: "mine"})


@pytest.mark.parametrize("per_client", [False, True])
async def test_what_an_api_sets_for_one_caller_is_not_sent_for_another(api: Api, tmp_path: Path, per_client: bool):
    path = tmp_path / "api.json"
    path.write_text(json.dumps(document()))
    options = OpenApiServer(openapi=str(path), base_url=api.url, per_client=per_client)
    async with Client(await build_openapi_server("web", options)) as client:
        await client.call_tool("list_pages", {})
        await client.call_tool("list_pages", {})
    assert api.cookies == [None, "set=by-the-api" if per_client else None]


async def test_yaml_dates_are_texts_and_nothing_is_executed(tmp_path: Path):
    path = tmp_path / "api.yaml"
    path.write_text(yaml.safe_dump(document(servers=[{"url": "https://a.test"}])) + "x-date: 2020-01-01\n")
    assert await tools_of(await build_openapi_server("a", OpenApiServer(openapi=str(path))))
    path.write_text("paths: !!python/object/apply:os.getcwd []\n")
    with pytest.raises(OptionsError, match="no OpenAPI document"):
        await build_openapi_server("a", OpenApiServer(openapi=str(path)))


YAML = """
openapi: 3.0.3
info: {title: Pages, version: 1.0}
servers: [{url: 'https://a.test'}]
paths:
  /pages:
    get:
      operationId: list
      parameters:
        - {name: country, in: query, schema: {type: string, enum: [no, se, on, 1:30]}}
        - {name: level, in: query, schema: {type: integer, default: 0777}}
      responses:
        200: {description: on, content: {application/json: {schema: {$ref: '#/components/schemas/Page'}}}}
components:
  schemas:
    Page: {type: object, properties: {on: {type: boolean}, yes: {type: string}, 12: {type: string}}}
"""


async def test_yaml_is_read_as_version_1_2_has_it(api: Api, tmp_path: Path):
    api.document = YAML.encode()
    server = await build_openapi_server("a", OpenApiServer(openapi=f"{api.url}/docs/api.json"))
    (tool,) = await server.list_tools()
    assert server.version == "1.0"
    parameters = tool.parameters["properties"]
    assert (parameters["country"]["enum"], parameters["level"]["default"]) == (["no", "se", "on", "1:30"], 777)
    assert tool.output_schema is not None
    assert list(tool.output_schema["properties"]) == ["on", "yes", "12"]


async def test_a_long_number_in_yaml_is_a_text(tmp_path: Path):
    path = tmp_path / "api.yaml"
    server = "servers: [{url: 'https://{a}.test', variables: {a: {default: %s}}}]\n"
    for number in ("0x" + "f" * 100_000, "1:" + "59:" * 100_000 + "1", "1" * 100_000):
        path.write_text(yaml.safe_dump(document()) + server % number)
        with pytest.raises(OptionsError, match="a URL of more than 2,048 characters"):
            await build_openapi_server("a", OpenApiServer(openapi=str(path)))


LAUGHS = "a: &a [x]\nb: &b [" + "*a," * 600 + "]\nc: [" + "*b," * 600 + "]\npaths: {}\n"


TAGS = "".join(f"%TAG !a{number}! tag:a\n" for number in range(101)) + "---\npaths: {}\n"


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", "paths: 5", "{", "\x00", "a: [", "[" * 100_000, LAUGHS, TAGS, "paths: !!map [1]"]
)
async def test_what_is_no_document_is_refused(text: str, tmp_path: Path):
    path = tmp_path / "api.json"
    path.write_text(text)
    with pytest.raises(OptionsError, match=r"servers\.a\.openapi: this is no OpenAPI document"):
        await build_openapi_server("a", OpenApiServer(openapi=str(path)))


async def test_a_document_of_swagger_is_refused_by_its_name(tmp_path: Path):
    path = tmp_path / "api.json"
    path.write_text(json.dumps({"swagger": "2.0", "info": {"title": "A", "version": "1"}, "paths": {}}))
    with pytest.raises(OptionsError, match=r"servers\.a\.openapi: this document is of Swagger") as failure:
        await build_openapi_server("a", OpenApiServer(openapi=str(path)))
    assert "OpenAPI 3" in str(failure.value.hint)


async def test_a_document_with_very_many_lists_is_refused_before_it_is_decoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = tmp_path / "api.json"
    monkeypatch.setattr(documents, "MAX_VALUES", 1_000)
    for more, message in (("[[]," * 600, "too much: it has more than 1,000 values"), ("[[[", "no OpenAPI document")):
        path.write_text(f'{{"paths": {{}}, "x-more": {more}')
        with pytest.raises(OptionsError, match=message):
            await build_openapi_server("a", OpenApiServer(openapi=str(path)))


async def test_a_document_that_cannot_be_had_is_said_without_secrets(
    api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    missing = OpenApiServer(openapi=str(tmp_path / "missing.json"))
    refused = OpenApiServer(openapi="http://127.0.0.1:9/?key=s3cr3t")
    with pytest.raises(OptionsError, match=re.escape(f"the file {missing.openapi} cannot be read (No such file")):
        await build_openapi_server("a", missing)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OptionsError, match=re.escape(f"the file {tmp_path}/docs/missing.json cannot be read")):
        await build_openapi_server("a", OpenApiServer(openapi="docs/missing.json"))
    with pytest.raises(OptionsError, match="could not be fetched: ConnectError") as away:
        await build_openapi_server("a", refused)
    assert "s3cr3t" not in str(away.value) + str(away.value.hint)
    here = OpenApiServer(openapi=f"{api.url}/docs/api.json")
    api.status = 302  # a redirect would take headers along
    with pytest.raises(OptionsError, match="answered 302"):
        await build_openapi_server("a", here)
    api.status, api.document = 200, b"x" * 2_000
    monkeypatch.setattr(documents, "MAX_BYTES", 1_000)
    with pytest.raises(OptionsError, match="larger than 1000 bytes"):
        await build_openapi_server("a", here)


async def test_where_the_api_is_must_be_known(tmp_path: Path):
    path = tmp_path / "api.json"
    wrong: list[object] = [[], [{"url": "/v1"}], [{}], ["x"], "x", [{"url": "file:///etc"}]]
    for servers in wrong:
        path.write_text(json.dumps(document(servers=servers)))
        with pytest.raises(OptionsError, match=r"servers\.a\.base_url"):
            await build_openapi_server("a", OpenApiServer(openapi=str(path)))
    path.write_text(json.dumps(document()))
    assert await tools_of(await build_openapi_server("a", OpenApiServer(openapi=str(path), base_url="https://a.test")))


@pytest.mark.parametrize(
    "base", ["http://127.0.0.2:9/", "http://[::1]:9/", "http://169.254.169.254/latest", "http://10.1.1.1/"]
)
async def test_a_document_from_the_web_does_not_lead_into_this_network(api: Api, base: str):
    api.document = json.dumps(document(servers=[{"url": base}])).encode()
    where = f"{api.url}/docs/api.json"
    with pytest.raises(OptionsError, match="which is no public address"):
        await build_openapi_server("a", OpenApiServer(openapi=where))
    assert await tools_of(await build_openapi_server("a", OpenApiServer(openapi=where, base_url=base)))


async def test_a_document_that_fastmcp_does_not_understand_is_refused(tmp_path: Path):
    path = tmp_path / "api.json"
    path.write_text(json.dumps({"openapi": "3.1.0", "paths": {"/a": {"get": {"parameters": 5}}}}))
    with pytest.raises(OptionsError, match="cannot make tools"):
        await build_openapi_server("a", OpenApiServer(openapi=str(path), base_url="https://a.test"))


async def test_a_document_is_read_in_no_thread_that_others_need(tmp_path: Path):
    path = tmp_path / "api.json"
    path.write_text(json.dumps(document()))
    works: list[object] = []

    class Executor(ThreadPoolExecutor):
        """The threads of the event loop."""

        def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
            works.append(fn)
            return super().submit(fn, *args, **kwargs)

    asyncio.get_running_loop().set_default_executor(Executor(1))
    server = await build_openapi_server("a", OpenApiServer(openapi=str(path), base_url="https://a.test"))
    assert (await tools_of(server), works) == (["drop_page", "list_pages", "read_page", "write_page"], [])


async def test_a_document_that_takes_too_long_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "api.json"
    path.write_text(json.dumps(document()))
    loop, reads = asyncio.get_running_loop(), asyncio.Event()
    threads: list[threading.Thread] = []

    class Endless(dict[str, object]):
        """Documents of which FastMCP never has enough."""

        def __iter__(self) -> Iterator[str]:
            threads.append(threading.current_thread())
            loop.call_soon_threadsafe(reads.set)
            while True:
                pass

        keys = items = values = __iter__  # type: ignore[assignment]

    options = OpenApiServer(openapi=str(path), base_url="https://a.test")
    with monkeypatch.context() as patch:
        patch.setattr(documents, "read_in_thread", lambda *_: Endless(json.loads(path.read_text())))
        build = asyncio.create_task(build_openapi_server("a", options))
        await reads.wait()
        build.cancel()
        with pytest.raises(asyncio.CancelledError):
            await build
    assert await tools_of(await build_openapi_server("a", options))
    (thread,) = threads
    thread.join(30)
    assert not thread.is_alive()
