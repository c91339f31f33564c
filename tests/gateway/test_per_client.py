"""Servers with `per_client`: what one client's session lists is no other client's, and is kept nowhere."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from fastmcp import Client
from fastmcp.client.auth import BearerAuth
from fastmcp.server.auth.providers.jwt import StaticTokenVerifier
from mcp import MCPError

from codecall.gateway.config.options import GatewayOptions, StdioServer
from codecall.gateway.gateway import Gateway
from codecall.gateway.upstream import server as backends
from codecall.gateway.upstream.server import Backend
from tests.gateway.backends import SERVERS, call, result_text, serve_components, serve_over_http, wait_until

KINDS = ["tools", "resources", "prompts"]
LAYOFFS = {"title": "layoffs", "text": "Bob goes on Friday", "changed": KINDS}


class Notes:
    """The program `servers/notes.py`, and what it was asked."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "notes.json"
        self.say()
        self.args = ("-S", "-E", str(SERVERS / "notes.py"), str(self.file))

    def say(self, **what: object) -> None:
        """What a program has that is started from now on."""
        self.file.write_text(json.dumps(what), encoding="utf-8")

    def gateway(self, **options: object) -> Gateway:
        """A gateway in front of it, with a session for each client."""
        server = {"command": sys.executable, "args": list(self.args), "per_client": True}
        cache = str(self.folder / "cache")
        return Gateway(GatewayOptions.read({"servers": {"notes": server}, "cache_dir": cache, **options}, where=""))

    def listed_by(self) -> set[int]:
        """The processes that were asked for a list of tools."""
        lines = Path(f"{self.file}.log").read_text().splitlines()
        return {int(line.split()[0]) for line in lines if line.endswith(" tools/list")}


@asynccontextmanager
async def signed_in(gate: Gateway, mode: str) -> AsyncGenerator[list[Client]]:  # type: ignore[type-arg]
    """Alice and Bob, over HTTP."""
    people = ("alice", "bob")
    gate.server.auth = StaticTokenVerifier({name: {"client_id": name, "scopes": []} for name in people})
    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(serve_over_http(gate.server))
        clients = [Client(url, auth=BearerAuth(name), mode=mode) for name in people]
        yield [await stack.enter_async_context(client) for client in clients]


async def listed(client: Client) -> str:  # type: ignore[type-arg]
    """All that a client lists."""
    lists = [client.list_tools, client.list_resources, client.list_resource_templates, client.list_prompts]
    return " ".join([str(await each()) for each in lists])


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_what_one_clients_session_lists_is_no_other_clients(tmp_path: Path, mode: str):
    notes = Notes(tmp_path)
    async with notes.gateway() as gate:
        await gate.refresh()  # a listing is kept, as after any start but the first
    async with notes.gateway() as gate, signed_in(gate, mode) as (alice, bob):
        first = await listed(bob)
        own = int(result_text(await alice.call_tool("notes_add_note", LAYOFFS)))
        await gate.refresh()
        assert await listed(bob) == first == await listed(alice)
        assert "layoffs" not in first
        assert own not in notes.listed_by()

        # What the client knows of its own it reads, as it could.
        (read,) = await alice.read_resource("note://notes/all/layoffs")
        assert read.text == "Bob goes on Friday"  # type: ignore[union-attr]
        with pytest.raises(MCPError, match="not found"):
            await bob.read_resource("note://notes/all/layoffs")
        with pytest.raises(MCPError, match="not found"):
            await alice.read_resource("note://notes/all/other")
    kept = [file.read_text() for file in (tmp_path / "cache" / "listings").iterdir()]
    assert "add_note" in kept[0]
    assert "layoffs" not in "".join(kept)


async def test_changes_of_a_clients_own_session_start_no_listing(tmp_path: Path):
    backend = Backend("notes", StdioServer(command=sys.executable, args=Notes(tmp_path).args, per_client=True))
    heard: list[str] = []
    async with serve_components(backend) as server, Client(server) as alice:
        backend.on_changed(heard.append)
        await alice.call_tool("add_note", {"changed": ["resources", "prompts"]})
        await call(backend, "add_note", changed=["tools"])  # over the gateway's own connection
        await wait_until(lambda: "tools" in heard)
    assert heard == ["started", "tools"]


async def test_changes_are_heard_of_a_client_where_nobody_else_is_there_to_say_so(tmp_path: Path):
    backend = Backend("notes", StdioServer(command=sys.executable, args=Notes(tmp_path).args, per_client=True))
    heard: list[str] = []
    async with serve_components(backend) as server, Client(server) as alice:
        for connection in backend._running_for_all():
            await connection.close()
        backend.on_changed(heard.append)
        await alice.call_tool("add_note", {"changed": ["tools"]})
        await wait_until(lambda: heard == ["started", "tools"])


async def test_clients_leave_a_place_for_the_gateways_own_listing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(backends, "MAX_CLIENTS", 1)
    async with Notes(tmp_path).gateway() as gate, Client(gate.server) as alice:
        await alice.call_tool("notes_add_note", {})
        for connection in gate.backends["notes"]._running_for_all():
            await connection.close()
        assert await gate.refresh() == {}


async def test_access_rests_on_the_program_that_clients_use(tmp_path: Path):
    notes = Notes(tmp_path)
    notes.say(version="1", hints={"readOnlyHint": True})
    async with notes.gateway(access={"read_only": True}) as gate, signed_in(gate, "legacy") as (alice, bob):
        assert not (await alice.call_tool("notes_add_note", {})).is_error
        notes.say(version="2", hints={"destructiveHint": True})
        refused = await bob.call_tool("notes_add_note", {}, raise_on_error=False)
        assert refused.is_error
        assert "access rules hide it" in str(refused.content)
        assert gate.providers["notes"].tools == ()
