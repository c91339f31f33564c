"""Resources, templates and prompts through the meta-tools of a real server."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from fastmcp import Client
from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext

from codecall import tool_metadata
from codecall.globs import MAX_URI_CHARS


@pytest.fixture
def shop(make_shop: Any) -> Any:
    """The shop of the other tests, with more than tools."""
    return stocked(make_shop())


def stocked(shop: Any) -> Any:
    server = shop.server
    server.resource("data://hours", title="Opening hours", mime_type="application/json")(lambda: {"monday": "9-17"})
    server.resource("data://logo", mime_type="image/png")(lambda: b"\x89PNG")
    server.resource("data://secret", meta=tool_metadata(enabled_in_codecall=False))(lambda: "SECRET")

    @server.resource("orders://{order}/note", meta=tool_metadata(app_id="orders"))
    def note(order: str) -> str:
        """The note of an order."""
        return f"note of {order}"

    @server.prompt
    def letter(customer: str, tone: str = "kind") -> str:
        """Write a letter to a customer."""
        return f"Write to {customer}, {tone}"

    @server.prompt(name="send_mail")
    def same_name() -> str:
        """Write a mail."""
        return "Write a mail"

    return shop


# ---------------------------------------------------------------------------------------------------------- describe


async def test_all_that_search_may_return_is_described(shop: Any) -> None:
    names = ["data://hours", "orders://{order}/note", "letter", "users_list"]
    answer = await shop.ask("codecall:describe", toolNames=names)
    assert answer["notFound"] == []
    resource, template, prompt, tool = answer["tools"]
    assert (resource["kind"], resource["title"], resource["appId"]) == ("resource", "Opening hours", "shop")
    assert resource["annotations"] == {"mimeType": "application/json"}
    assert resource["outputSchema"] is None
    assert (template["kind"], template["appId"], template["description"]) == (
        "template",
        "orders",
        "The note of an order.",
    )
    assert template["inputSchema"]["required"] == ["order"]
    assert (prompt["kind"], prompt["inputSchema"]["required"]) == ("prompt", ["customer"])
    assert "kind" not in tool
    for described in (resource, template, prompt):
        code = described["usageExamples"][0]["code"]
        envelope = await shop.ask("codecall:execute", script=code)
        assert envelope["status"] == "ok", envelope


async def test_answers_fit_the_schema(shop: Any) -> None:
    answer = await shop.ask("codecall:describe", toolNames=["data://hours", "letter", "send_mail", "data://horus"])
    async with Client(shop.server) as client:
        tools = {tool.name: tool for tool in await client.list_tools()}
    jsonschema.validate(answer, tools["codecall:describe"].output_schema)
    error = await shop.ask("codecall:execute", script="return await readResource('data://horus')")
    jsonschema.validate(error, tools["codecall:execute"].output_schema)


async def test_one_name_of_several_things(shop: Any) -> None:
    answer = await shop.ask("codecall:describe", toolNames=["send_mail"])
    assert [(tool["kind"], tool["description"]) for tool in answer["tools"]] == [
        ("tool", "Send an electronic letter to somebody."),
        ("prompt", "Write a mail."),
    ]


async def test_what_is_hidden_is_not_described(shop: Any) -> None:
    answer = await shop.ask("codecall:describe", toolNames=["data://secret", "codecall://x", "data://horus", "leter"])
    assert answer["tools"] == []
    assert answer["notFound"] == ["data://secret", "codecall://x", "data://horus", "leter"]
    assert answer["suggestions"]["data://horus"][0] == "data://hours"
    assert answer["suggestions"]["leter"][0] == "letter"
    assert "data://secret" not in json.dumps(list(answer["suggestions"].values()))


async def test_uris_may_be_long_and_not_endless(shop: Any) -> None:
    uri = "data://" + "x" * (MAX_URI_CHARS - len("data://"))
    assert (await shop.ask("codecall:describe", toolNames=[uri]))["notFound"] == [uri]
    assert "toolNames" in await shop.refusal("codecall:describe", toolNames=[uri + "x"])


async def test_a_broken_listing_of_prompts_leaves_tools_described(shop: Any) -> None:
    class Broken(Middleware):
        async def on_list_prompts(self, context: MiddlewareContext[Any], call_next: CallNext[Any, Any]) -> Any:
            raise RuntimeError("password=hunter2")

    shop.server.add_middleware(Broken())
    assert len((await shop.ask("codecall:describe", toolNames=["users_list"]))["tools"]) == 1
    refused = await shop.refusal("codecall:describe", toolNames=["letter"])
    assert refused == "codecall:describe: the server failed (RuntimeError)"


async def test_only_what_a_name_can_be_is_listed(shop: Any) -> None:
    listed: list[str | None] = []

    class Listing(Middleware):
        async def on_message(self, context: MiddlewareContext[Any], call_next: CallNext[Any, Any]) -> Any:
            if context.method in ("resources/list", "resources/templates/list", "prompts/list"):
                listed.append(context.method)
            return await call_next(context)

    shop.server.add_middleware(Listing())
    shop.server.resource("orders:{order}", name="one")(lambda order: order)
    shop.server.resource("orders:all", name="all")(lambda: "all")
    every = ["resources/list", "resources/templates/list", "prompts/list"]
    names = {
        ("users_list", "send_mail", "letter"): ["prompts/list"],
        ("data://hours",): every,
        ("orders:all",): every,
        ("orders:{order}",): every,
        ("orders:refund", "letter"): every,
    }
    for requested, expected in names.items():
        listed.clear()
        answer = await shop.ask("codecall:describe", toolNames=list(requested))
        assert answer["notFound"] == []
        assert sorted(listed) == sorted(expected)


# ----------------------------------------------------------------------------------------------------------- execute


async def test_a_script_reads_and_prompts(shop: Any) -> None:
    envelope = await shop.ask(
        "codecall:execute",
        script="""
        const [hours, note, logo, prompt, users] = await Promise.all([
          readResource('data://hours'), readResource(`orders://${codecallContext.order}/note`),
          readResource('data://logo'), getPrompt('letter', { customer: 'Ada' }), callTool('users_list', { limit: 1 }),
        ]);
        const image = [logo.mimeType, logo.bytes];
        return { hours, note, image, text: prompt.messages[0].content, description: prompt.description, users };
        """,
        context={"order": "o 1"},
    )
    assert envelope["status"] == "ok", envelope
    assert envelope["result"] == {
        "hours": {"monday": "9-17"},
        "note": "note of o 1",
        "image": ["image/png", 4],
        "text": "Write to Ada, kind",
        "description": "Write a letter to a customer.",
        "users": [{"id": 0, "name": "user 0"}],
    }
    assert envelope["stats"]["toolCalls"] == 5


async def test_failures_as_a_script_sees_them(shop: Any) -> None:
    envelope = await shop.ask(
        "codecall:execute",
        script="""
        const quiet = { throwOnError: false };
        const seen = [await readResource('data://secret', quiet), await readResource('data://horus', {}, quiet),
          await getPrompt('letter', {}, quiet)];
        try { await getPrompt('leter', {}) } catch (error) {
          seen.push({ name: error.name, code: error.code, prompt: error.prompt, toolName: error.toolName });
        }
        return seen.map((one) => one.error ? { ...one.error, message: undefined, details: undefined } : one);
        """,
    )
    assert envelope["result"] == [
        {"code": "ACCESS_DENIED", "toolName": "data://secret", "resource": "data://secret"},
        {"code": "RESOURCE_NOT_FOUND", "toolName": "data://horus", "resource": "data://horus"},
        {"code": "INVALID_INPUT", "toolName": "letter", "prompt": "letter"},
        {"name": "ToolError", "code": "PROMPT_NOT_FOUND", "prompt": "leter", "toolName": "leter"},
    ]


async def test_a_prompt_without_its_arguments_says_where_they_are(shop: Any) -> None:
    envelope = await shop.ask("codecall:execute", script="return await getPrompt('letter', {})")
    assert envelope["error"]["code"] == "INVALID_INPUT"
    assert "getTool" not in envelope["error"]["hint"]
    assert envelope["error"]["hint"].startswith("Correct the arguments of the prompt that are named here;")


async def test_modes_hold_for_everything(make_shop: Any) -> None:
    shop = stocked(make_shop(mode="codecall_opt_in"))
    shop.server.resource("data://opted", meta=tool_metadata(enabled_in_codecall=True))(lambda: "in")
    script = """
    return [await readResource('data://opted', { throwOnError: false }),
      (await readResource('data://hours', { throwOnError: false })).error.code,
      (await getPrompt('letter', {}, { throwOnError: false })).error.code];
    """
    envelope = await shop.ask("codecall:execute", script=script)
    assert envelope["result"] == [{"success": True, "data": "in"}, "ACCESS_DENIED", "ACCESS_DENIED"]


async def test_allowed_tools_hold_for_everything(shop: Any) -> None:
    script = "return (await readResource('data://hours', { throwOnError: false })).success"
    for allowed, reads in ((["users_*"], False), (["users_*", "data://*"], True), ([], False)):
        envelope = await shop.ask("codecall:execute", script=script, allowedTools=allowed)
        assert envelope["result"] is reads


async def test_a_script_without_any_lists_none(shop: Any) -> None:
    listed: list[str] = []

    class Listening(Middleware):
        async def on_message(self, context: MiddlewareContext[Any], call_next: CallNext[Any, Any]) -> Any:
            listed.append(context.method or "")
            return await call_next(context)

    shop.server.add_middleware(Listening())
    await shop.ask("codecall:execute", script="return await callTool('users_list', {})")
    assert not [method for method in listed if method.startswith(("resources", "prompts"))]
    await shop.ask("codecall:execute", script="return await getPrompt('letter', { customer: 'Ada' })")
    assert "prompts/list" in listed
    assert "resources/list" not in listed


async def test_what_fastmcp_shows_nobody_is_read_by_nobody(shop: Any) -> None:
    shop.server.disable(tags={"off"})
    shop.server.resource("data://off", tags={"off"})(lambda: "SECRET")
    shop.server.prompt(name="closed", auth=lambda _: False)(lambda: "SECRET")
    script = """
    const quiet = { throwOnError: false };
    return [await readResource('data://off', quiet), await getPrompt('closed', {}, quiet)].map((one) => one.error.code);
    """
    envelope = await shop.ask("codecall:execute", script=script)
    assert envelope["result"] == ["RESOURCE_NOT_FOUND", "PROMPT_NOT_FOUND"]
