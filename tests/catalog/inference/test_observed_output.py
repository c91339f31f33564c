"""Output shapes learned from results, through a server: what a model is shown of tools that declare none."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client, FastMCP
from fastmcp.server.auth.providers.jwt import StaticTokenVerifier
from fastmcp.server.dependencies import get_access_token
from fastmcp.utilities.tests import asgi_client
from key_value.aio.stores.filetree import FileTreeStore
from key_value.aio.stores.memory import MemoryStore
from pydantic import BaseModel

from codecall import CodeCallPlugin
from codecall.catalog.inference import (
    shapes as beginnings,
)
from codecall.catalog.inference import (
    shapes as fieldnames,
)
from codecall.catalog.inference import (
    shapes as outlines,
)
from codecall.catalog.inference import (
    store as observed_store,
)
from codecall.catalog.inference.store import COLLECTION
from codecall.errors import OptionsError

Answer = dict[str, Any]


class Filter(BaseModel):
    """What is looked for."""

    active: bool = True


SECRETS = ("Ann Perkins", "ann@example.org", "4711")


def shop(**tools: Any) -> FastMCP:
    """A server whose tools declare no output."""
    server = FastMCP("shop")

    def list_users(limit: int = 2) -> Any:
        """List the users of the shop."""
        return [{"id": 4711, "name": "Ann Perkins", "mails": {"ann@example.org": True}}][:limit]

    def read_file(path: str) -> Any:
        """Read a file."""
        return {"path": path, "content": "x" * 100_000}

    for tool in (list_users, read_file, *tools.values()):
        server.tool(tool, output_schema=None)
    return server


def installed(server: FastMCP, **options: Any) -> FastMCP:
    return CodeCallPlugin.init(**{"vm": {"preset": "secure"}, "pool": {"min_workers": 0}} | options).install(server)


async def ask(client: Client[Any], verb: str, **arguments: Any) -> Answer:
    result = await client.call_tool(f"codecall:{verb}", arguments)
    assert result.structured_content is not None
    return result.structured_content


async def run(client: Client[Any], script: str) -> Any:
    envelope = await ask(client, "execute", script=script)
    assert envelope["status"] == "ok", envelope
    return envelope["result"]


async def described(client: Client[Any], name: str = "list_users") -> Answer:
    (document,) = (await ask(client, "describe", toolNames=[name]))["tools"]
    return document


USERS = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {
            "id": {"type": "integer"},
            "name": {"type": "string"},
            "mails": {"type": "object", "additionalProperties": {"type": "boolean"}},
        },
        "required": ["id", "name", "mails"],
    },
    "x-observed": {"results": 1},
}


async def test_a_script_teaches_what_describe_and_search_then_show():
    async with Client(installed(shop())) as client:
        before = await described(client)
        assert before["outputSchema"] is None
        assert "observedOutput" not in before
        assert await run(client, "return (await callTool('list_users', {})).length") == 1
        after = await described(client)
        assert after["outputSchema"] is None
        assert after["observedOutput"] == USERS
        assert "return result.map((item) => ({ id: item.id, name: item.name }))" in json.dumps(after["usageExamples"])
        found = await ask(client, "search", query="list users", detail="full")
        assert [hit.get("observedOutput") for hit in found["tools"] if hit["name"] == "list_users"] == [USERS]
        assert not [secret for secret in SECRETS if secret in json.dumps([after, found])]


async def test_nothing_is_an_empty_list_of_a_tool_that_has_returned_lists():
    """FastMCP sends no content for an empty list, and for None."""

    def find(limit: int = 0) -> Any:
        """Find orders."""
        return [{"id": 7}][:limit]

    def remove() -> Any:
        """Remove an order."""

    async with Client(installed(shop(find=find, remove=remove))) as client:
        assert await run(client, "return [await find(), await remove()]") == [None, None]
        assert await run(client, "return [await find({ limit: 1 }), await find()]") == [[{"id": 7}], []]
        assert (await ask(client, "invoke", tool="find", input={}))["result"] == []
        assert (await ask(client, "invoke", tool="remove", input={}))["result"] is None
    async with Client(installed(shop(find=find), observed_output=False)) as client:
        assert await run(client, "return [await find({ limit: 1 }), await find()]") == [[{"id": 7}], None]


async def test_a_property_that_an_earlier_answer_had_is_no_misspelling():
    def loans(status: str = "late") -> Any:
        """List loans."""
        return {"items": [{"id": 2} if status == "open" else {"id": 1, "fine": {"amount": 2}}]}

    script = "return (await callTool('loans', { status: 'open' })).items.filter((l) => l.fine === 2).length"
    async with Client(installed(shop(loans=loans))) as client:
        assert "`l.fine` on line 1 is undefined" in str(await ask(client, "execute", script=script))
        assert await run(client, "return (await callTool('loans', {})).items.length") == 1
        assert "warnings" not in await ask(client, "execute", script=script)
        # A script has what the tool declares: what was seen may be more in the next run.
        assert "observedOutput" not in await run(client, "return Object.keys(getTool('loans'))")


async def test_typescript_says_that_it_was_observed():
    async with Client(installed(shop())) as client:
        await run(client, "await callTool('list_users', {}); return 1")
        (document,) = (await ask(client, "describe", toolNames=["list_users"], format="typescript"))["tools"]
        assert "observed" in document["typescript"]
        assert "mails" in document["typescript"]


async def test_direct_calls_teach_too():
    async with Client(installed(shop())) as client:
        await ask(client, "invoke", tool="list_users", input={"limit": 1})
        assert (await described(client))["observedOutput"] == USERS


async def test_calls_that_fail_teach_nothing():
    def broken() -> Any:
        """Fail."""
        raise ValueError("never")

    async with Client(installed(shop(broken=broken))) as client:
        await run(client, "return await callTool('broken', {}, { throwOnError: false })")
        assert "observedOutput" not in await described(client, "broken")


async def test_a_large_result_is_read_in_part():
    async with Client(installed(shop())) as client:
        assert await run(client, "return (await callTool('read_file', { path: 'a' })).content.length") == 100_000
        assert (await described(client, "read_file"))["observedOutput"] == {
            "type": "object",
            "properties": {"path": {"type": "string"}, "content": {"type": "string"}},
            "required": ["path", "content"],
            "additionalProperties": True,
            "x-observed": {"results": 1, "partial": True},
        }


async def test_tools_that_declare_their_output_show_that_alone():
    server = shop()

    @server.tool
    def count() -> int:
        """Count the users."""
        return 1

    async with Client(installed(server)) as client:
        await run(client, "return await callTool('count', {})")
        document = await described(client, "count")
        assert document["outputSchema"] == {"type": "integer"}
        assert "observedOutput" not in document


@pytest.mark.parametrize("off", [False, {"enabled": False}])
async def test_opting_out(off: Any):
    async with Client(installed(shop(), observed_output=off)) as client:
        await run(client, "return await callTool('list_users', {})")
        assert "observedOutput" not in await described(client)


async def test_a_tool_that_changes_starts_anew():
    server = installed(shop())
    async with Client(server) as client:
        await run(client, "return await callTool('list_users', {})")
        server.local_provider.remove_tool("list_users")

        def list_users(limit: int = 2, active: bool = True) -> Any:
            """List the users of the shop."""
            return {"users": [], "limit": limit, "active": active}

        server.tool(list_users, output_schema=None)
        assert "observedOutput" not in await described(client)
        await run(client, "return await callTool('list_users', {})")
        assert list((await described(client))["observedOutput"]["properties"]) == ["users", "limit", "active"]


async def test_tools_of_mounted_servers_and_schemas_with_references():
    def find(filter: Filter, other: Filter | None = None) -> Any:  # noqa: A002
        """Find users."""
        return [{"id": 1}]

    root = FastMCP("root")
    root.mount(shop(find=find), namespace="inner")
    async with Client(installed(root)) as client:
        await run(client, "return await callTool('inner_find', { filter: {} })")
        await run(client, "return await callTool('inner_find', { filter: {} })")
        observed = (await described(client, "inner_find"))["observedOutput"]
        assert observed["x-observed"] == {"results": 2}
        found = await ask(client, "search", query="find users", detail="full")
        assert observed in [hit.get("observedOutput") for hit in found["tools"]]


# ------------------------------------------------------------------------------------------------------------- callers

CUSTOMERS = {"north": "acme", "south": "globex", "east": "initech"}


@asynccontextmanager
async def tenants(**options: Any) -> AsyncGenerator[dict[str, Client[Any]]]:
    """Clients of three tenants. Each has a customer of their own, whose name is a key of their results."""
    tokens = {name: {"client_id": name, "sub": name, "scopes": []} for name in CUSTOMERS}
    server = FastMCP("shared", auth=StaticTokenVerifier(tokens=tokens))

    @server.tool(output_schema=None)
    def revenue() -> Any:
        """Revenue by customer."""
        token = get_access_token()
        assert token is not None
        return {"currency": "EUR", "revenue": {CUSTOMERS[token.client_id]: 17}}

    installed(server, **options)
    async with (
        asgi_client(server, auth="north") as north,
        asgi_client(server, auth="south") as south,
        asgi_client(server, auth="east") as east,
    ):
        yield {"north": north, "south": south, "east": east}


SCRIPT = "return await callTool('revenue', {})"


async def test_what_one_tenants_names_tell_another():
    async with tenants() as clients:
        await run(clients["north"], SCRIPT)
        assert "acme" in json.dumps(await described(clients["north"], "revenue"))
        document = await described(clients["south"], "revenue")
        assert document["observedOutput"] == {
            "type": "object",
            "additionalProperties": {
                "type": ["object", "string"],
                "additionalProperties": {"type": "integer"},
            },
            "x-observed": {"results": 1},
        }
        await run(clients["south"], SCRIPT)
        # Two have seen the fields; nobody but their own tenant has seen the customers.
        seen = (await described(clients["east"], "revenue"))["observedOutput"]
        assert list(seen["properties"]) == ["currency", "revenue"]
        for name in CUSTOMERS:
            said = json.dumps(await described(clients[name], "revenue"))
            assert not [customer for other, customer in CUSTOMERS.items() if other != name and customer in said]


async def test_each_caller_apart():
    async with tenants(observed_output={"perCaller": True}) as clients:
        await run(clients["north"], SCRIPT)
        await run(clients["south"], SCRIPT)
        assert "acme" in json.dumps(await described(clients["north"], "revenue"))
        assert "observedOutput" not in await described(clients["east"], "revenue")


async def test_clients_of_one_process_are_one_caller():
    server = installed(shop())
    async with Client(server) as client:
        await run(client, "return await callTool('list_users', {})")
    async with Client(server) as another:
        assert (await described(another))["observedOutput"] == USERS
        assert (await described(another))["observedOutput"]["items"]["required"] == ["id", "name", "mails"]


# --------------------------------------------------------------------------------------------------------------- store


def everything_in(folder: Path) -> str:
    return "".join(file.read_text() for file in folder.rglob("*") if file.is_file())


async def test_it_survives_a_restart(tmp_path: Path):
    async with Client(installed(shop(), observed_output={"store": FileTreeStore(data_directory=tmp_path)})) as client:
        await run(client, "return await callTool('list_users', {})")
    written = everything_in(tmp_path)
    assert "mails" in written
    assert not [secret for secret in SECRETS if secret in written]
    async with Client(installed(shop(), observed_output={"store": FileTreeStore(data_directory=tmp_path)})) as client:
        assert (await described(client))["observedOutput"] == USERS
        found = await ask(client, "search", query="list users", detail="full")
        assert USERS in [hit.get("observedOutput") for hit in found["tools"]]
    async with Client(installed(shop())) as client:
        assert "observedOutput" not in await described(client)


def test_it_survives_a_restart_without_lifespan():
    store = MemoryStore()

    async def teach() -> None:
        server = installed(shop(), observed_output={"store": store})
        await server.call_tool("codecall:invoke", {"tool": "list_users", "input": {}})

    async def learnt() -> Any:
        server = installed(shop(), observed_output={"store": store})
        result = await server.call_tool("codecall:describe", {"toolNames": ["list_users"]})
        assert result.structured_content is not None
        return result.structured_content["tools"][0].get("observedOutput")

    asyncio.run(teach())
    assert asyncio.run(learnt()) == USERS


class Broken:
    """A store that fails."""

    async def get(self, key: str, *, collection: str | None = None) -> Answer | None:
        raise ConnectionError(f"{collection} of redis://user:secret@host")

    async def put(self, key: str, value: Any, *, collection: str | None = None, ttl: Any = None) -> None:
        raise ConnectionError(f"{collection} of redis://user:secret@host")


async def test_a_store_that_fails_fails_no_call(caplog: pytest.LogCaptureFixture):
    async with Client(installed(shop(), observed_output={"store": Broken()})) as client:
        await run(client, "return await callTool('list_users', {})")
        assert (await described(client))["observedOutput"] == USERS
    assert "secret" not in caplog.text
    assert COLLECTION not in caplog.text
    assert "The store of learned output shapes failed (ConnectionError)" in caplog.text


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("yes", "observed_output: "),
        ({"store": "redis://host"}, "observed_output.store: "),
        ({"store": {}}, "observed_output.store: "),
        ({"max_tools": 0}, "observed_output.max"),
        ({"per_caller": 1}, "observed_output.per"),
        ({"keep": True}, "observed_output.keep: unknown option; known here: enabled, per_caller, store, max_tools"),
    ],
)
def test_options_that_are_wrong(given: Any, message: str):
    with pytest.raises(OptionsError) as refused:
        CodeCallPlugin.init(observed_output=given)
    assert refused.value.message.startswith(message)
    assert "secret" not in refused.value.message


def test_the_page_on_security_says_the_bounds():
    page = (Path(__file__).parents[3] / "docs" / "operations" / "retention.md").read_text(encoding="utf-8")
    section = " ".join(page.partition("## Observed outputs")[2].partition("\n## ")[0].split())
    for said in (
        f"first {beginnings.MAX_CHARS // 1024} KiB",
        f"longer than {fieldnames.MAX_NAME_CHARS} characters",
        f"more than {outlines.MAX_FIELDS}",
        f"kept there for {observed_store.TTL_DAYS} days",
    ):
        assert said in section
