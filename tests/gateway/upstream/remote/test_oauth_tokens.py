"""Signing in at a server whose authorization server is another one."""

from __future__ import annotations

import asyncio
import json
import shutil
import webbrowser
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import fastmcp
import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from codecall.errors import ServerUnavailableError
from codecall.gateway.config.options import HttpServer
from codecall.gateway.upstream.server import Backend
from tests.gateway.backends import call, serve_over_http


class Authority:
    """An authorization server, or what of one a server has at itself; `more` is in what it sends with tokens."""

    def __init__(self, path: str = "/tok", **more: object) -> None:
        self.path = path
        self.more = more
        self.has_metadata = True
        self.origin = ""
        self.grants: list[str] = []
        self.issued: list[str] = []

    @property
    def routes(self) -> list[Route]:
        return [
            Route("/.well-known/oauth-authorization-server", self.metadata),
            Route("/reg", self.register, methods=["POST"]),
            Route("/register", self.register, methods=["POST"]),
            Route("/authorize", self.authorize),
            Route(self.path, self.token, methods=["POST"]),
        ]

    async def metadata(self, _request: Request) -> Response:
        if not self.has_metadata:
            return Response(status_code=404)
        names = {"authorization_endpoint": "/authorize", "token_endpoint": self.path, "registration_endpoint": "/reg"}
        urls = {name: f"{self.origin}{path}" for name, path in names.items()}
        return JSONResponse({"issuer": f"{self.origin}/", "response_types_supported": ["code"], **urls})

    async def register(self, request: Request) -> Response:
        return JSONResponse({**await request.json(), "client_id": "client"}, 201)

    async def authorize(self, request: Request) -> Response:
        answer = urlencode({"code": "c0de", "state": request.query_params["state"]})
        return RedirectResponse(f"{request.query_params['redirect_uri']}?{answer}", 302)

    async def token(self, request: Request) -> Response:
        form = await request.form()
        self.grants.append(str(form["grant_type"]))
        self.issued.append(f"access-{self.origin}-{len(self.issued)}")
        tokens = {"access_token": self.issued[-1], "refresh_token": f"refresh-{self.origin}"}
        return JSONResponse({**tokens, "token_type": "Bearer", "expires_in": 3600, **self.more})


class Resource:
    """An MCP server that takes the tokens of one authority."""

    def __init__(self, authority: Authority) -> None:
        self.authority = authority
        self.embedded = Authority("/token")
        """What nobody is to use where the authority is another server."""
        self.takes_tokens = True
        self.names_authority = True

    @property
    def routes(self) -> list[Route]:
        return [
            Route("/.well-known/oauth-protected-resource/mcp", self.metadata),
            Route("/mcp", self.answer, methods=["POST"]),
            *self.embedded.routes,
        ]

    async def metadata(self, request: Request) -> Response:
        if not self.names_authority:
            return Response(status_code=404)
        resource = f"{str(request.base_url).rstrip('/')}/mcp"
        return JSONResponse({"resource": resource, "authorization_servers": [f"{self.authority.origin}/"]})

    async def answer(self, request: Request) -> Response:
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        if not self.takes_tokens or token not in self.authority.issued:
            return Response(status_code=401)
        asked = await request.json()
        result: object = {"content": [{"type": "text", "text": "hello"}]}
        if asked["method"] == "initialize":
            about = {"name": "x", "version": "1"}
            result = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": about}
        return JSONResponse({"jsonrpc": "2.0", "id": asked.get("id"), "result": result})


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """URLs that were opened in the browser of somebody who consents to all; the tokens are in `tmp_path`."""
    monkeypatch.setattr(fastmcp.settings, "home", tmp_path)
    urls: list[str] = []
    visits: set[asyncio.Task[None]] = set()

    async def visit(url: str) -> None:
        async with httpx2.AsyncClient() as client:
            back = (await client.get(url)).headers["location"]
            while True:
                try:
                    await client.get(back)
                except httpx2.ConnectError:  # nobody listens yet
                    await asyncio.sleep(0)
                else:
                    return

    def consent(url: str) -> bool:
        urls.append(url)
        visits.add(asyncio.get_running_loop().create_task(visit(url)))
        return True

    monkeypatch.setattr(webbrowser, "open", consent)
    return urls


@asynccontextmanager
async def served(resource: Resource, *others: Authority) -> AsyncGenerator[str]:
    """The URL of the server, while it and the authorities run."""
    async with AsyncExitStack() as stack:
        for authority in {resource.authority, *others} - {resource.embedded}:
            url = await stack.enter_async_context(serve_over_http(Starlette(routes=authority.routes)))
            authority.origin = url.removesuffix("/mcp")
        url = await stack.enter_async_context(serve_over_http(Starlette(routes=resource.routes)))
        resource.embedded.origin = url.removesuffix("/mcp")
        yield url


def change_kept(tmp_path: Path, collection: str, **values: object) -> None:
    """Change what is kept of the one server."""
    (file,) = (tmp_path / "oauth-tokens").glob(f"*{collection}-*/*.json")
    entry: Any = json.loads(file.read_text())
    entry["value"] |= values
    file.write_text(json.dumps(entry))


async def call_anew(url: str) -> str:
    """The answer to a call over a new connection, for which the tokens that are kept have expired."""
    if (Path(fastmcp.settings.home) / "oauth-tokens").exists():
        change_kept(Path(fastmcp.settings.home), "oauth_token_expiry", expires_at=1)
    async with Backend("far", HttpServer(url=url, auth="oauth")) as backend:
        return await call(backend, "x")


async def test_a_new_connection_refreshes_tokens_where_they_come_from(opened: list[str]) -> None:
    resource = Resource(Authority())
    async with served(resource) as url:
        assert [await call_anew(url), await call_anew(url)] == ["hello", "hello"]
    assert resource.authority.grants == ["authorization_code", "refresh_token"]
    assert (resource.embedded.grants, len(opened)) == ([], 1)


async def test_a_server_that_is_its_own_authority_without_metadata_is_asked_to_refresh(opened: list[str]) -> None:
    authority = Authority("/token")
    resource = Resource(authority)
    resource.embedded, authority.has_metadata, resource.names_authority = authority, False, False
    async with served(resource) as url:
        assert [await call_anew(url), await call_anew(url)] == ["hello", "hello"]
    assert (authority.grants, len(opened)) == (["authorization_code", "refresh_token"], 1)


@pytest.mark.parametrize("issuer_known", [True, False])
async def test_of_tokens_that_were_kept_alone_the_issuer_is_asked_before_they_are_refreshed(
    opened: list[str], tmp_path: Path, issuer_known: bool
) -> None:
    resource = Resource(Authority())
    async with served(resource) as url:
        assert await call_anew(url) == "hello"
        for sources in (tmp_path / "oauth-tokens").glob("*codecall_oauth_source-*/"):
            shutil.rmtree(sources)
            sources.mkdir()
        if not issuer_known:
            change_kept(tmp_path, "oauth_client_info", issuer=None)
        assert await call_anew(url) == "hello"
    again = "refresh_token" if issuer_known else "authorization_code"
    assert resource.authority.grants == ["authorization_code", again]
    assert (resource.embedded.grants, len(opened)) == ([], 1 if issuer_known else 2)


@pytest.mark.parametrize("issuer_known", [True, False])
async def test_another_authority_is_not_sent_the_refresh_token_of_the_first(
    opened: list[str], tmp_path: Path, issuer_known: bool
) -> None:
    first, second = Authority(), Authority()
    resource = Resource(first)
    async with served(resource, second) as url:
        assert await call_anew(url) == "hello"
        resource.authority = second
        if not issuer_known:
            change_kept(tmp_path, "oauth_client_info", issuer=None)
        assert [await call_anew(url), await call_anew(url)] == ["hello", "hello"]
    assert first.grants == ["authorization_code", "refresh_token"]
    assert second.grants == ["authorization_code", "refresh_token"]
    assert (resource.embedded.grants, len(opened)) == ([], 2)


async def test_who_has_just_signed_in_in_vain_is_not_asked_to_sign_in_again(opened: list[str]) -> None:
    resource = Resource(Authority())
    resource.takes_tokens = False
    async with served(resource) as url, Backend("far", HttpServer(url=url, auth="oauth")) as backend:
        with pytest.raises(ServerUnavailableError, match="answered HTTP 401"):
            await call(backend, "x")
    assert len(opened) == 1


class StepUp(Resource):
    """Refuses calls that lack a scope, whatever the token has."""

    def __init__(self, authority: Authority, *scopes: str) -> None:
        super().__init__(authority)
        self.scopes = scopes
        self.refused = 0
        self.wants_scopes = True

    async def answer(self, request: Request) -> Response:
        is_call = (await request.json())["method"] == "tools/call" and request.headers.get("authorization")
        if not (self.wants_scopes and is_call):
            return await super().answer(request)
        scope = self.scopes[self.refused % len(self.scopes)]
        self.refused += 1
        challenge = f'Bearer error="insufficient_scope", scope="{scope}"'
        return Response(status_code=403, headers={"www-authenticate": challenge})


@pytest.mark.parametrize("scopes", [["more"], ["a", "b", "c", "d", "e", "f"]])
async def test_who_has_consented_to_more_scopes_in_vain_is_not_asked_again(
    opened: list[str], scopes: list[str]
) -> None:
    async with (
        served(StepUp(Authority(), *scopes)) as url,
        Backend("far", HttpServer(url=url, auth="oauth")) as backend,
    ):
        for _ in range(3):
            with pytest.raises(ServerUnavailableError, match="answered HTTP 403"):
                await call(backend, "x")
    assert len(opened) == 2  # for the first request, and for the scope


async def test_who_has_consented_in_vain_may_sign_in_once_the_token_is_refused(opened: list[str]) -> None:
    resource = StepUp(Authority(), "more")
    async with served(resource) as url, Backend("far", HttpServer(url=url, auth="oauth")) as backend:
        with pytest.raises(ServerUnavailableError, match="answered HTTP 403"):
            await call(backend, "x")
        resource.wants_scopes = False
        resource.authority.issued.clear()
        assert await call(backend, "x") == "hello"
    assert len(opened) == 3


@pytest.mark.parametrize("expires_in", [0, -5])
@pytest.mark.parametrize("refreshes", [True, False])
async def test_a_token_that_has_expired_on_arrival_is_used_until_it_is_refused(
    opened: list[str], expires_in: int, refreshes: bool
) -> None:
    authority = Authority(expires_in=expires_in, **({} if refreshes else {"refresh_token": None}))
    async with served(Resource(authority)) as url:
        for _ in range(2):
            async with Backend("far", HttpServer(url=url, auth="oauth")) as backend:
                assert [await call(backend, "x"), await call(backend, "x")] == ["hello", "hello"]
    assert (authority.grants, len(opened)) == (["authorization_code"], 1)


async def test_a_token_for_longer_than_there_is_time_is_used(opened: list[str]) -> None:
    authority = Authority(expires_in=10**399)
    async with (
        served(Resource(authority)) as url,
        Backend("far", HttpServer(url=url, auth="oauth")) as backend,
    ):
        assert await call(backend, "x") == "hello"
    assert len(opened) == 1


@pytest.mark.parametrize("kind", ["DPoP", "mac", None])
async def test_what_is_wrong_with_tokens_is_said(opened: list[str], kind: str | None) -> None:
    async with (
        served(Resource(Authority(token_type=kind))) as url,
        Backend("far", HttpServer(url=url, auth="oauth")) as backend,
    ):
        with pytest.raises(ServerUnavailableError, match="the sign-in sent tokens that cannot be used: token_type: "):
            await call(backend, "x")
    assert len(opened) == 1
