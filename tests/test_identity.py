"""Whom a rule counts for: real clients over HTTP with tokens, and over memory."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from fastmcp import Client, Context, FastMCP
from fastmcp.server.auth import AccessToken, MultiAuth
from fastmcp.server.auth.providers.jwt import JWTVerifier, RSAKeyPair, StaticTokenVerifier
from fastmcp.server.dependencies import get_access_token, get_context
from fastmcp.utilities.tests import asgi_server
from mcp.server.auth.middleware.auth_context import auth_context_var
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser

from codecall import OptionsError, RateLimitPlugin
from codecall.identity import client_key, share_key

TOKENS: dict[str, dict[str, Any]] = {
    "ann": {"client_id": "app-1", "scopes": [], "sub": "ann", "iss": "https://id.example", "org": "acme"},
    "ann-2": {"client_id": "app-2", "scopes": [], "sub": "ann", "iss": "https://id.example", "org": "acme"},
    "bob": {"client_id": "app-1", "scopes": [], "sub": "bob", "iss": "https://id.example", "org": "acme"},
    "cid": {"client_id": "app-1", "scopes": [], "sub": "cid", "iss": "https://id.example", "org": 7},
    "dan": {"client_id": "app-2", "scopes": [], "sub": "dan", "iss": "https://id.example", "org": ["acme"]},
}


def server(per: str, *, tokens: bool = True, **options: Any) -> FastMCP[Any]:
    """One tool, of which one call an hour is allowed."""
    mcp = FastMCP[Any]("crm", auth=StaticTokenVerifier(TOKENS) if tokens else None)
    mcp.tool(lambda: 1, name="list")
    RateLimitPlugin.init(rules=[{"tool": "list", "rate": "1/hour", "per": per}], **options).install(mcp)
    return mcp


async def may(client: Client[Any]) -> bool:
    """Whether a call passes."""
    return not (await client.call_tool("list", {}, raise_on_error=False)).is_error


@pytest.mark.parametrize(
    ("per", "passing"),
    [
        ("caller", ["ann", "bob", "cid", "dan"]),
        ("subject", ["ann", "bob", "cid", "dan"]),
        ("client", ["ann", "ann-2"]),
        ("tenant", ["ann", "cid", "dan"]),  # dan's tenant is no name: he counts for himself
        ("global", ["ann"]),
    ],
)
async def test_tokens(per: str, passing: list[str]) -> None:
    passed: list[str] = []
    async with asgi_server(server(per, tenant="org")) as running:
        for name in TOKENS:
            async with running.client(auth=name) as client:
                if await may(client):
                    passed.append(name)
                assert not await may(client)
    assert passed == passing


async def test_tokens_that_name_nobody_have_nothing_in_common_but_a_rate() -> None:
    keys = RSAKeyPair.generate()

    def token(**claims: str) -> str:
        return keys.create_token(subject=claims.pop("sub", ""), additional_claims=claims)

    mcp = FastMCP[Any]("crm", auth=JWTVerifier(public_key=keys.public_key))

    @mcp.tool
    def owner() -> str:
        return client_key(get_context())

    mcp.tool(lambda: 1, name="list")
    RateLimitPlugin.init(rules=[{"tool": "list", "rate": "1/hour"}]).install(mcp)
    one, two, user, app, other = (
        token(jti="1"),
        token(jti="2"),
        token(sub="ann"),
        token(client_id="app"),
        token(client_id="app", iss="https://other.example"),
    )
    owners: dict[str, str] = {}
    passed: list[bool] = []
    async with asgi_server(mcp) as running:
        for name in (one, one, two, user, app, other):
            async with running.client(auth=name) as client:
                key = (await client.call_tool("owner", {})).data
                assert owners.setdefault(name, key) == key
                passed.append(await may(client))
    assert len({*owners.values()}) == len(owners) == 5
    assert passed == [True, False, False, True, True, True]


async def test_a_subject_of_two_sources_is_two_people() -> None:
    def source(*tokens: str, **claims: str) -> StaticTokenVerifier:
        return StaticTokenVerifier(
            {token: {"client_id": f"app of {token}", "scopes": [], **claims} for token in tokens}
        )

    numbered = {"sub": "4711"}
    inner = MultiAuth(verifiers={"github": source("inner", "inner-2", **numbered)})
    sources = {
        "github": source("github", "github-2", **numbered),
        "discord": source("discord", **numbered),
        "inner": inner,
        '["github"]': source("quoted", **numbered),
    }
    mcp = FastMCP[Any]("crm", auth=MultiAuth(verifiers=sources))

    @mcp.tool
    def owner() -> str:
        return client_key(get_context())

    owners: dict[str, str] = {}
    async with asgi_server(mcp) as running:
        for token in ("github", "github-2", "discord", "inner", "inner-2", "quoted"):
            async with running.client(auth=token) as client:
                owners[token] = (await client.call_tool("owner", {})).data
    assert owners["github"] == owners["github-2"]
    assert owners["inner"] == owners["inner-2"]
    assert len({*owners.values()}) == 4


async def test_tokens_of_a_source_that_name_nobody_are_callers_of_their_own_with_one_share() -> None:
    keys = RSAKeyPair.generate()
    mcp = FastMCP[Any]("crm", auth=MultiAuth(verifiers={"keys": JWTVerifier(public_key=keys.public_key)}))

    @mcp.tool
    def keys_of_caller() -> list[str]:
        return [client_key(get_context()), share_key(get_context())]

    told: list[list[str]] = []
    async with asgi_server(mcp) as running:
        for number in ("1", "2"):
            async with running.client(auth=keys.create_token(subject="", additional_claims={"jti": number})) as client:
                told.append((await client.call_tool("keys_of_caller", {})).data)
    owners, shares = zip(*told, strict=True)
    assert (len({*owners}), len({*shares})) == (2, 1)


@pytest.mark.parametrize("written", ["github/4711", "7", "[1]", '["a", ["b"]]', "{}", ""])
def test_a_source_that_is_written_otherwise_separates_its_callers(written: str) -> None:
    def key(client_id: str) -> str:
        token = AccessToken(token="t", client_id=client_id, scopes=[], subject="4711", original_client_id="app")
        reset = auth_context_var.set(AuthenticatedUser(token))
        try:
            return client_key(None)
        finally:
            auth_context_var.reset(reset)

    assert len({key(written), key("other"), key("app")}) == 3


def test_subjects_that_no_text_can_hold_stay_apart() -> None:
    def key(subject: str) -> str:
        reset = auth_context_var.set(
            AuthenticatedUser(AccessToken(token="t", client_id="a", scopes=[], subject=subject))
        )
        try:
            return client_key(None)
        finally:
            auth_context_var.reset(reset)

    assert key("a\ud800") != key("a?")


@pytest.mark.parametrize("separator", ["\0", ":", "1:", ""])
def test_no_character_moves_from_one_claim_to_another(separator: str) -> None:
    def key(issuer: str, subject: str) -> str:
        claims = {"iss": issuer, "sub": subject}
        token = AccessToken(token="t", client_id="a", scopes=[], subject=subject, claims=claims)
        reset = auth_context_var.set(AuthenticatedUser(token))
        try:
            return client_key(None)
        finally:
            auth_context_var.reset(reset)

    assert key("a", f"b{separator}c") != key(f"a{separator}b", "c")


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_sessions(mode: Any) -> None:
    async with asgi_server(server("session")) as running:
        passed: list[bool] = []
        for name in ("ann", "ann", "bob"):
            async with running.client(auth=name, mode=mode) as client:
                passed += [await may(client), await may(client)]
    # 2026-07-28 connections have no session; there the rule counts for the caller.
    assert passed == ([True, False] * 3 if mode == "legacy" else [True, False, False, False, True, False])


@pytest.mark.parametrize("per", ["subject", "client", "tenant", "session"])
async def test_what_a_call_does_not_have_is_no_way_around_a_rule(per: str) -> None:
    async with asgi_server(server(per, tokens=False, tenant="org")) as running:
        passed: list[bool] = []
        for _ in range(2):
            async with running.client() as client:
                passed.append(await may(client))
    assert passed == [True, False]


def plain(_context: Context | None) -> str | None:
    """The tenant by a function."""
    token = get_access_token()
    return None if token is None else str(token.claims["org"])


async def slow(context: Context | None) -> str | None:
    """The tenant by an asynchronous function."""
    assert context is not None
    return plain(context)


@pytest.mark.parametrize("tenant", [plain, slow])
async def test_a_function_names_tenants(tenant: Callable[[Context | None], str | Awaitable[str] | None]) -> None:
    passed: list[str] = []
    async with asgi_server(server("tenant", tenant=tenant)) as running:
        for name in TOKENS:
            async with running.client(auth=name) as client:
                if await may(client):
                    passed.append(name)
    assert passed == ["ann", "cid", "dan"]


async def test_a_function_that_fails_is_logged_and_the_call_counts_for_its_caller(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken(_context: Context | None) -> str:
        raise KeyError("sec" + "ret")

    async with asgi_server(server("tenant", tenant=broken)) as running:
        for name in ("ann", "bob"):
            async with running.client(auth=name) as client:
                assert [await may(client), await may(client)] == [True, False]
    assert "asking for the tenant of a call failed with KeyError" in caplog.text
    assert "secret" not in caplog.text


async def test_the_keys_of_different_kinds_never_meet() -> None:
    """A tenant that calls itself like a user shares nothing with him."""
    mcp = FastMCP[Any]("crm", auth=StaticTokenVerifier(TOKENS))
    mcp.tool(lambda: 1, name="list")
    rules = [{"tool": "list", "rate": "1/hour", "per": "tenant", "name": "x"}, {"tool": "list", "rate": "2/hour"}]
    RateLimitPlugin.init(rules=rules, tenant=lambda _: "ann").install(mcp)
    async with asgi_server(mcp) as running, running.client(auth="ann") as client:
        assert await may(client)
        refused = await client.call_tool("list", {}, raise_on_error=False)
    assert '"rule":"x"' in str(refused.content)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rules": [{"tool": "x", "rate": "1/hour", "per": "tenant"}]}, "rules.0.per: nothing names tenants"),
        ({"rules": [{"tool": "x", "rate": "1/hour", "per": "user"}]}, "rules.0.per:"),
        ({"rules": [{"tool": "x", "rate": "1/hour"}], "tenant": 5}, "tenant:"),
        ({"rules": [{"tool": "x", "rate": "1/hour"}], "tenant": ""}, "tenant:"),
    ],
)
def test_bad_options_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionsError) as raised:
        RateLimitPlugin.init(**options)
    assert raised.value.message.startswith(message)
