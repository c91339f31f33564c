"""`execute_tool_script` on a real server: what a caller may not have reads as what is not there, whatever is tried, and
names of tools that clash take nothing from a script."""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import product
from typing import Any

import pytest
from fastmcp import Client, FastMCP

from codecall import CodeCallPlugin, tool_metadata


@pytest.fixture(scope="module")
async def client() -> AsyncIterator[Client[Any]]:
    server = FastMCP("attacked")

    @server.tool(name="len")
    def length() -> str:
        return "the tool len"

    @server.tool(name="parallel")
    def side_by_side() -> str:
        return "the tool parallel"

    @server.tool(name="9-lives")
    def lives() -> int:
        return 9

    @server.tool
    def broken() -> str:
        raise RuntimeError("/srv/secret/place.py: it is broken")

    @server.tool(meta=tool_metadata(enabled_in_codecall=False))
    def hidden() -> str:
        return "never"

    CodeCallPlugin.init(starlark=True).install(server)
    async with Client(server) as connected:
        yield connected


async def run(client: Client[Any], script: str, **data: object) -> tuple[bool, str]:
    answer = await client.call_tool("execute_tool_script", {"script": script, "data": data}, raise_on_error=False)
    return bool(answer.is_error), "\n".join(block.text for block in answer.content)


@pytest.mark.parametrize(
    "script",
    [
        'return try_call("NAME")',
        'return try_call("NAME", x = 1)',
        'n = "NAME"\nreturn try_call(n)',
        'n = "NAME"\nparallel([lambda: call_tool(n)])',
        'n = "NAME"\nreturn sorted([n], key = call_tool)',
        "return NAME",
        "return parallel([NAME])",
        "NAME(1)",
        "NAME = 1\nreturn NAME",
        'return call_tool("NAMEs")',
        "return NAMEs()",
    ],
)
async def test_a_hidden_tool_reads_as_none(client: Client[Any], script: str):
    answers = {(await run(client, script.replace("NAME", name)))[1].replace(name, "NAME") for name in HIDDEN}
    assert len(answers) == 1, answers


HIDDEN = ("hidden", "hadden", "execute_tool_script")


def create_hiding_server(*, there: bool) -> FastMCP:
    """CodeCall may not use `users-list`, `users_get` and what is of `mail`.

    Args:
        there: Whether they exist; their caller sees them then all the same.
    """
    server, mail = FastMCP("hiding"), FastMCP("mail")
    for name in ("users.list", "users_list_all"):
        server.tool(lambda: "", name=name)
    for name in ("users-list", "users_get") if there else ():
        server.tool(lambda: "never", name=name, meta=tool_metadata(enabled_in_codecall=False))
    for name in ("send", "list") if there else ():
        mail.tool(lambda: "never", name=name)
    server.mount(mail, namespace="mail")
    CodeCallPlugin.init(starlark=True, include_tools=lambda tool: not tool.name.startswith("mail_")).install(server)
    return server


MISSING = ("users-list", "users_get", "mail", "mail_send", "mail_list", "mail.send")
USES = [
    "return NAME",
    "return NAME()",
    "NAME(1)",
    "return NAMEs()",
    "return NAME.send()",
    "return users_list()",
    'return call_tool("NAME")',
    'return call_tool("NAMEs")',
    'return call_tool("NAME.send")',
    'return [try_call("NAME"), try_call("NAMEs")]',
    'n = "NAME"\nreturn try_call(n)',
    'n = "NAME"\nreturn parallel([lambda: call_tool(n)])',
    'return sorted(["NAME"], key = call_tool)',
]


async def test_a_hidden_tool_reads_as_one_that_is_not_there():
    async with (
        Client(create_hiding_server(there=True)) as hiding,
        Client(create_hiding_server(there=False)) as lacking,
    ):
        for script in USES:
            for name in MISSING:
                answers = [await run(each, script.replace("NAME", name)) for each in (hiding, lacking)]
                assert answers[0] == answers[1], (script, name)
        described = [
            next(tool.description for tool in await each.list_tools() if tool.name == "execute_tool_script")
            for each in (hiding, lacking)
        ]
        assert described[0] == described[1]


async def test_a_tool_that_a_rule_denies_is_no_suggestion_for_its_own_name():
    server = FastMCP("denying")
    server.tool(lambda: "sent", name="send_mail", description="Send a mail")
    CodeCallPlugin.init(starlark=True, approvals=[{"tools": ["send_mail"], "action": "deny"}]).install(server)
    async with Client(server) as client:
        answers = [await run(client, f'n = "{name}"\nreturn call_tool(n)') for name in ("send_mail", "paint_it")]
    assert answers[0] == (True, answers[1][1].replace("paint_it", "send_mail"))


async def test_a_hidden_tool_takes_no_name_of_a_variable(client: Client[Any]):
    assert {await run(client, f"return {name}", **{name: 1}) for name in HIDDEN} == {(False, "1")}


async def test_a_builtin_name_stays_what_it_is_and_the_tool_is_called_by_its_name(client: Client[Any]):
    script = 'return [len([1]), call_tool("len"), parallel([lambda: 1]), call_tool("parallel"), _9_lives()]'
    assert await run(client, script) == (False, '[1,"the tool len",[1],"the tool parallel",9]')


@pytest.mark.parametrize(
    "script", ["broken()", "parallel([broken])", 'return try_call("broken")', "return str(broken())"]
)
async def test_no_path_of_the_host_is_in_what_a_broken_tool_says(client: Client[Any], script: str):
    _, text = await run(client, script)
    assert "is broken" in text
    assert "/srv" not in text
    assert "Traceback" not in text


async def test_a_worker_that_is_lost_is_an_error_of_that_script_alone(client: Client[Any]):
    error, text = await run(client, 'return ("a" * 100000).replace("", "b" * 1000000)')
    assert error
    assert text.startswith("script execution failed: ")
    assert await run(client, "return 1") == (False, "1")


async def test_no_tool_takes_the_name_that_another_has_to_the_letter():
    server = FastMCP("taking")
    for name in ("mail-send", "mail_send", "mail.send"):
        server.tool(lambda name=name: name, name=name)
    CodeCallPlugin.init(starlark=True).install(server)
    async with Client(server) as client:
        script = 'return [mail_send(), call_tool("mail-send"), call_tool(mail_send), call_tool("mail.send")]'
        assert await run(client, script) == (False, '["mail_send","mail-send","mail_send","mail.send"]')


async def test_thousands_of_names_that_are_taken_are_one_line_of_the_log(caplog: pytest.LogCaptureFixture):
    server = FastMCP("clashing")
    for marks in product("-.", repeat=11):
        server.tool(lambda: "", name=f"clash{''.join(marks)}ing")
    CodeCallPlugin.init(starlark=True).install(server)
    async with Client(server) as client:
        for name in ("clash-", "clash."):
            await client.list_tools()
            server.tool(lambda: "", name=f"{name}late")
        await client.list_tools()
    lines = [record.getMessage() for record in caplog.records if "no function" in record.getMessage()]
    assert len(lines) == 1
    assert lines[0].startswith("2047 tools have no function in Starlark scripts")
    assert lines[0].endswith(" and 1997 more; no others are logged")
    assert len(lines[0]) < 5_000
