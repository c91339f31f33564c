"""Streams of `subscriptions/listen` over HTTP: how many one caller may have."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, suppress

import pytest
from fastmcp import Client, FastMCP
from fastmcp.server.auth.providers.jwt import StaticTokenVerifier
from mcp import MCPError
from mcp.client.subscriptions import listen

from codecall.server import list_changed
from codecall.server.list_changed import ListChangedNotifier
from tests.gateway.backends import serve_over_http


@pytest.mark.parametrize("signed_in", [True, False])
async def test_nobody_who_signs_in_takes_all_streams(monkeypatch: pytest.MonkeyPatch, signed_in: bool) -> None:
    monkeypatch.setattr(list_changed, "MAX_STREAMS", 8)
    tokens = {name: {"client_id": name, "scopes": []} for name in ("alice", "bob")}
    server = FastMCP("shared", auth=StaticTokenVerifier(tokens) if signed_in else None)
    ListChangedNotifier.of(server)
    async with serve_over_http(server) as url, AsyncExitStack() as stack:

        async def connect(name: str) -> Client:  # type: ignore[type-arg]
            return await stack.enter_async_context(Client(url, auth=name if signed_in else None))

        alice, bob = await connect("alice"), await connect("bob")
        streams = await stack.enter_async_context(AsyncExitStack())
        for _ in range(2 if signed_in else 8):
            await streams.enter_async_context(listen(alice.session, tools_list_changed=True))
        with pytest.raises(MCPError, match="Subscription limit reached"):
            async with listen(alice.session, tools_list_changed=True):
                pass
        if signed_in:
            async with listen(bob.session, tools_list_changed=True):
                pass
        await streams.aclose()
        async with asyncio.timeout(20):  # until the server has seen their ends
            while True:
                with suppress(MCPError):
                    async with listen(alice.session, tools_list_changed=True):
                        break
                await asyncio.sleep(0.02)
