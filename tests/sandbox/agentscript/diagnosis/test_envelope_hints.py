"""What a client of a real server is told about scripts that fail: place, line, hint."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any, Literal

import anyio
import jsonschema
import pytest
from fastmcp import Client, FastMCP
from fastmcp.server import create_proxy

from codecall import CodeCallPlugin
from codecall.envelopes import EXECUTE_SCHEMA, INVOKE_SCHEMA
from codecall.errors.hints import MAX_HINT


def crm() -> FastMCP:
    """A server with a few tools."""
    server = FastMCP("crm")

    @server.tool(name="users:list")
    def users(stage: Literal["open", "won"] | None = None, limit: int = 10) -> dict[str, Any]:
        """List the people who work here."""
        return {"users": [{"id": 1, "name": "Ann"}][:limit], "next": None}

    @server.tool(name="invoices:remove")
    def remove(invoice_id: int) -> str:
        """Delete an invoice for good."""
        return f"removed {invoice_id}"

    @server.tool(name="slow")
    async def slow() -> None:
        """Never answers."""
        await anyio.sleep_forever()

    return server


@pytest.fixture(scope="module", params=["own", "proxied"])
async def client(request: pytest.FixtureRequest) -> AsyncIterator[Client[Any]]:
    server = crm()
    if request.param == "proxied":
        server = create_proxy(server, name="proxy")
    CodeCallPlugin.init(vm={"preset": "secure", "tool_call_timeout_ms": 300}).install(server)
    async with Client(server) as client:
        yield client


async def error_of(client: Client[Any], script: str) -> dict[str, Any]:
    body = (await client.call_tool("codecall:execute", {"script": script})).structured_content
    assert body is not None
    jsonschema.validate(json.loads(json.dumps(body)), EXECUTE_SCHEMA)
    error = body["error"]
    assert 0 < len(error["hint"]) <= MAX_HINT
    line: int = error["location"]["line"]
    assert error["location"]["text"] == script.splitlines()[line - 1].strip()
    return error


@pytest.mark.parametrize(
    ("name", "meant"),
    [("user_list", "users:list"), ("getUsers", "users:list"), ("deleteInvoice", "invoices:remove")],
)
async def test_an_unknown_tool_is_found_by_its_letters_or_by_what_it_says(
    name: str, meant: str, client: Client[Any]
) -> None:
    error = await error_of(client, f"const a = 1;\n  return await callTool('{name}', {{}})")
    assert (error["code"], error["message"]) == ("TOOL_NOT_FOUND", f"Tool '{name}' was not found")
    assert f"'{meant}'" in error["hint"]
    assert error["location"]["line"] == 2


async def test_a_name_that_is_like_nothing_leads_to_search(client: Client[Any]) -> None:
    error = await error_of(client, "return await callTool('xyzzy', {})")
    assert error["hint"] == "No call was made. codecall:search finds tools by what they do."


async def test_a_wrong_input_names_field_type_choices_and_parameters(client: Client[Any]) -> None:
    script = "const size = ['many'][0]; await callTool('users:list', { stage: ['lost'].join(), limt: size })"
    error = await error_of(client, script)
    assert error["code"] == "INVALID_INPUT"
    text = error["message"]
    assert "did you mean 'limit'?" in text
    assert "'open', 'won', null" in text
    assert "Valid parameters (* = required): stage ('open' | 'won' | null), limit (integer)." in text
    assert {problem["field"] for problem in error["details"]} == {"stage", "limt"}


RETURNED = "users:list returned {users: [{id: number, name: string}], next: null}."


@pytest.mark.parametrize(
    ("script", "hint"),
    [
        (
            "const r = await callTool('users:list'); "
            "for (const u of r.users) await callTool('invoices:remove', { invoice_id: u.ids })",
            f"`invoice_id` is missing since `u.ids` is undefined: {RETURNED} Did you mean `u.id`?",
        ),
        (
            "const r = await callTool('users:list'); "
            "return await Promise.all(r.users.map((u) => callTool('invoices:remove', { invoice_id: u.userId })))",
            f"`invoice_id` is missing since `u.userId` is undefined: {RETURNED} Did you mean `u.id`?",
        ),
        (
            "const r = await callTool('users:list'); const id = r.users[0].key; "
            "return await invoices.remove({ invoice_id: id })",
            f"`invoice_id` is missing since `id` is undefined: {RETURNED}",
        ),
        (
            "const { users: [first] } = await callTool('users:list'); const input = { invoice_id: first.user_id }; "
            "return await callTool('invoices:remove', input)",
            f"`invoice_id` is missing since `first.user_id` is undefined: {RETURNED} Did you mean `first.id`?",
        ),
        (
            "return await callTool('invoices:remove', { invoice_id: codecallContext.user })",
            "`invoice_id` is missing since `codecallContext.user` is undefined: the request brought no context.",
        ),
        # What is not given in vain has the usual hint.
        (
            "const [id] = []; return await callTool('invoices:remove', { invoice_id: id })",
            "Correct the fields named here",
        ),
        ("const input = {}; return await callTool('invoices:remove', { ...input })", "Correct the fields named here"),
    ],
)
async def test_a_field_of_an_input_that_no_answer_has(script: str, hint: str, client: Client[Any]) -> None:
    error = await error_of(client, script)
    assert error["code"] == "INVALID_INPUT"
    assert error["hint"].startswith(hint)


async def test_a_misread_answer(client: Client[Any]) -> None:
    error = await error_of(client, "const r = await callTool('users:list');\nreturn r.items.map((user) => user.id)")
    assert error["hint"] == (
        "`r.items` is undefined: users:list returned {users: [{id: number, name: string}], next: null}. "
        "The list is `r.users`. 1 tool call had completed and is not undone: users:list."
    )
    assert error["location"] == {"line": 2, "column": 8, "text": "return r.items.map((user) => user.id)"}


async def test_a_tool_that_is_too_slow(client: Client[Any]) -> None:
    error = await error_of(client, "await callTool('users:list'); await callTool('slow')")
    assert error["code"] == "TOOL_TIMEOUT"
    assert error["hint"].startswith("It may still have taken effect.")
    assert error["hint"].endswith("1 tool call had completed and is not undone: users:list.")
    assert error["location"]["column"] == 37


async def test_a_direct_call_has_a_hint_and_no_place(client: Client[Any]) -> None:
    body = (await client.call_tool("codecall:invoke", {"tool": "getUsers", "input": {}})).structured_content
    assert body is not None
    jsonschema.validate(json.loads(json.dumps(body)), INVOKE_SCHEMA)
    assert "'users:list'" in body["error"]["hint"]
    assert "location" not in body["error"]
    arguments = {"tool": "users:list", "input": {"limit": "many"}}
    body = (await client.call_tool("codecall:invoke", arguments)).structured_content
    assert body is not None
    # There is no script that could read a schema.
    assert body["error"]["hint"] == "Correct the fields named here; codecall:describe gives the whole schema."


SIZES = "const sizes = (await callTool('users:list', {})).users.map((user) => user.name); "
REMOVE = "callTool('invoices:remove', { invoice: size })"


@pytest.mark.parametrize(
    ("script", "says"),
    [
        (
            SIZES + f"let n = 0; for (const size of [...sizes, 2]) {{ try {{ await {REMOVE}; n += 1; }} catch {{}} }} "
            "return n",
            "All 2 calls of invoices:remove were refused, and the script went on: ",
        ),
        (
            SIZES + f"const all = await Promise.allSettled(sizes.map((size) => {REMOVE})); "
            "return all.filter((each) => each.status === 'fulfilled').length",
            "The call of invoices:remove was refused, and the script went on: ",
        ),
        (
            "const r = await callTool('invoices:remove', { invoice: [1][0] }, { throwOnError: false }); "
            "return r.success ? 'removed' : 'not there'",
            "The call of invoices:remove was refused, and the script went on: ",
        ),
    ],
)
async def test_calls_that_were_all_refused_are_warned_of(client: Client[Any], script: str, says: str) -> None:
    body = (await client.call_tool("codecall:execute", {"script": script})).structured_content
    assert body is not None
    assert body["status"] == "ok"
    [warning] = body["warnings"]
    assert warning.startswith(says)
    assert "invoice_id*" in warning
    assert warning.endswith(" (INVALID_INPUT).")


@pytest.mark.parametrize(
    "end",
    [
        "try { await callTool('invoices:remove', input); } catch (error) { return error.code; }",
        "try { await callTool('invoices:remove', input); } catch (error) { return { error: error.message }; }",
        "try { await callTool('invoices:remove', input); } "
        "catch { return await callTool('invoices:remove', { invoice_id: 1 }); }",
    ],
)
async def test_a_refusal_that_the_script_reports_or_mends_has_no_warning(client: Client[Any], end: str) -> None:
    body = (
        await client.call_tool("codecall:execute", {"script": f"const input = {{ invoice: [1][0] }}; {end}"})
    ).structured_content
    assert body is not None
    assert (body["status"], body.get("warnings", [])) == ("ok", [])
