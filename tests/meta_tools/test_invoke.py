"""`codecall:invoke` over a real server."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fastmcp import Client

from tests.gateway.backends import serve_over_http


async def test_a_call_without_a_script(shop: Any) -> None:
    answer = await shop.ask("codecall:invoke", tool="users_list", input={"limit": 2})
    assert answer == {"status": "ok", "result": [{"id": 0, "name": "user 0"}, {"id": 1, "name": "user 1"}]}


async def test_a_tool_that_returns_nothing(shop: Any) -> None:
    answer = await shop.ask("codecall:invoke", tool="send_mail", input={"to": "a", "text": "b"})
    assert answer == {"status": "ok", "result": None}


@pytest.mark.parametrize(
    ("tool", "arguments", "code"),
    [
        ("users_get", {"id": 100}, "TOOL_EXECUTION_ERROR"),
        ("users_get", {"id": "x"}, "INVALID_INPUT"),
        ("users_gett", {}, "TOOL_NOT_FOUND"),
        ("system:reboot", {}, "ACCESS_DENIED"),
        ("codecall:execute", {"script": "return 1"}, "SELF_REFERENCE_BLOCKED"),
        ("CODECALL_invoke ", {}, "SELF_REFERENCE_BLOCKED"),
    ],
)
async def test_what_is_no_success_has_a_code(shop: Any, tool: str, arguments: dict[str, Any], code: str) -> None:
    answer = await shop.ask("codecall:invoke", tool=tool, input=arguments)
    assert answer["status"] == "error"
    assert answer["error"]["code"] == code
    assert answer["error"]["message"]


async def test_a_meta_tool_is_refused_without_a_word_about_scripts(shop: Any) -> None:
    error = (await shop.ask("codecall:invoke", tool="codecall:search", input={}))["error"]
    assert error["message"] == "No tool of CodeCall is called through another: codecall:search"
    assert error["hint"] == "Call it itself, or give the name of a tool that codecall:search finds."


async def test_mark_errors_sets_is_error_on_the_same_envelope(make_shop: Any) -> None:
    shop = make_shop(mark_errors=True)
    failed = await shop.result("codecall:invoke", tool="users_get", input={"id": 100})
    assert failed.is_error
    assert failed.structured_content["status"] == "error"
    worked = await shop.result("codecall:invoke", tool="users_get", input={"id": 1})
    assert not worked.is_error


async def test_direct_calls_may_be_limited_to_a_list(make_shop: Any) -> None:
    shop = make_shop(direct_calls=["users_*"])
    assert (await shop.ask("codecall:invoke", tool="users_get", input={"id": 1}))["status"] == "ok"
    answer = await shop.ask("codecall:invoke", tool="orders:refund", input={"order": "1", "amount": 1})
    assert answer["error"]["message"] == "Tool 'orders:refund' may not be called directly"
    assert answer["error"]["hint"] == "Call it in a script, with codecall:execute."
    assert answer["error"]["code"] == "ACCESS_DENIED"
    assert shop.calls == []


@pytest.mark.parametrize(
    "tool", ["usersGet", "order_refund", "nonsense", "orders:", "system:reboot", "hidden_tool", "x" * 300]
)
async def test_what_is_no_tool_is_told_so_whatever_may_be_called_directly(make_shop: Any, tool: str) -> None:
    """A tool that the caller cannot see is answered as one that is not there, with the names that are like it."""
    shop, every = make_shop(direct_calls=["users_*"]), make_shop()
    for each in (shop, every):
        each.server.tool(lambda: 1, name="hidden_tool")
        each.server.disable(names={"hidden_tool"})
    error = (await shop.ask("codecall:invoke", tool=tool, input={}))["error"]
    assert error == (await every.ask("codecall:invoke", tool=tool, input={}))["error"]
    assert error["code"] == ("ACCESS_DENIED" if tool == "system:reboot" else "TOOL_NOT_FOUND")
    if tool == "usersGet":
        assert "'users_get'" in error["hint"]
    if tool == "hidden_tool":
        missing = (await shop.ask("codecall:invoke", tool="hidden_took", input={}))["error"]
        assert repr(missing) == repr(error).replace("hidden_tool", "hidden_took")


async def test_switched_off_it_is_neither_listed_nor_callable(make_shop: Any) -> None:
    shop = make_shop(direct_calls=False)
    for spelling in ("codecall:invoke", "codecall_invoke"):
        assert "Unknown tool" in await shop.refusal(spelling, tool="users_list", input={})


@pytest.mark.parametrize("depth", [100, 101, 199, 225, 253, 256, 400, 2_000])
async def test_every_depth_of_a_value_is_answered(shop: Any, depth: int) -> None:
    shop.server.tool(lambda: "[" * depth + "]" * depth, name="deep", output_schema=None)
    # Over HTTP, as an answer that a client cannot read never reaches one in this process.
    async with serve_over_http(shop.server) as url, Client(url, timeout=10) as client:
        called = await client.call_tool("codecall_invoke", {"tool": "deep", "input": {}})
    answer = called.structured_content
    if depth == 2_000:  # no JSON that anybody reads: a text
        assert answer["result"] == "[" * depth + "]" * depth
    elif depth <= 100:
        assert json.dumps(answer["result"]) == "[" * depth + "]" * depth
    else:
        assert (answer["status"], answer["error"]["code"]) == ("error", "TOOL_EXECUTION_ERROR")
        assert any("deep" in text for text in (answer["error"]["message"], answer["error"]["hint"]))


def with_echo(shop: Any) -> Any:
    """A shop with a tool that returns its text."""
    shop.server.tool(lambda text: text, name="echo", output_schema=None)
    return shop


async def test_a_large_value_is_kept_and_read_by_a_script(make_shop: Any) -> None:
    """A handle as large results of scripts have; the model gets as little of it as of those."""
    shop = with_echo(make_shop())
    answer = await shop.ask("codecall:invoke", tool="echo", input={"text": "é😀" * 350_000})
    stored = answer["largeResult"]
    assert (sorted(answer), stored["bytes"], stored["shape"]) == (
        ["largeResult", "status"],
        2_100_002,
        {"type": "string"},
    )
    assert len(json.dumps(answer)) < 16_384
    script = """
        let text = '';
        const { handle, pages } = codecallContext;
        for (let page = 1; page <= pages; page++) text += await getResult(handle, { page });
        return JSON.parse(text).length;
    """
    read = await shop.ask("codecall:execute", script=script, context={k: stored[k] for k in ("handle", "pages")})
    assert read["result"] == 3 * 350_000


async def test_a_large_value_that_is_not_kept(make_shop: Any) -> None:
    """It is in the answer as far as the preset allows, whatever is the reason; nothing of it is cut."""
    text = "x" * 100_000
    whole = {"status": "ok", "result": text}
    shop = with_echo(make_shop(results=False))
    assert await shop.ask("codecall:invoke", tool="echo", input={"text": text}) == whole
    failed = await shop.ask("codecall:invoke", tool="echo", input={"text": text * 20})
    assert failed["error"]["code"] == "OUTPUT_LIMIT"
    shop = with_echo(make_shop(results={"max_caller_bytes": 50_000}))
    answer = await shop.ask("codecall:invoke", tool="echo", input={"text": text})
    (warning,) = answer.pop("warnings")
    assert answer == whole
    assert "take 0 of 50000 bytes; so this answer holds all 100002 bytes of it" in warning
    shop = with_echo(make_shop(results={"max_bytes": 50_000}))
    (warning,) = (await shop.ask("codecall:invoke", tool="echo", input={"text": text}))["warnings"]
    assert "it has 100002 bytes, and at most 50000 are kept of one (results.max_bytes)" in warning


async def test_half_a_surrogate_pair_does_not_break_the_answer(shop: Any) -> None:
    shop.server.tool(lambda: '{"text": "\\ud800 and \\ud83d\\ude00"}', name="odd", output_schema=None)
    answer = await shop.ask("codecall:invoke", tool="odd", input={})
    assert answer == {"status": "ok", "result": {"text": "\ufffd and \N{GRINNING FACE}"}}


@pytest.mark.parametrize(
    ("value", "code", "said"),
    [
        ("[1e999]", "TOOL_EXECUTION_ERROR", "out of range"),
        ("[" * 101 + "]" * 101, "TOOL_EXECUTION_ERROR", "nested more than 100 deep"),
        ("[" + "[]," * 100_000 + "[]]", "OUTPUT_LIMIT", "100002 objects and arrays"),
    ],
    ids=["number", "nesting", "objects and arrays"],
)
async def test_what_clients_cannot_read_is_an_error(make_shop: Any, value: str, code: str, said: str) -> None:
    shop = make_shop(results=False)
    shop.server.tool(lambda: value, name="odd", output_schema=None)
    error = (await shop.ask("codecall:invoke", tool="odd", input={}))["error"]
    assert error["code"] == code
    assert said in error["message"]
