"""Declarations in the answers of `codecall:describe` and `codecall:search`, and what was observed of results."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from mcp_types import ToolAnnotations

from codecall import tool_metadata
from codecall.catalog.typescript import declarations as typescript
from codecall.meta_tools.search.tool import OUTPUT_SCHEMA
from examples.crm.server import create_crm
from tests.typescript.compiler import complaints


async def declared(shop: Any, *names: str) -> list[dict[str, Any]]:
    answer = await shop.ask("codecall:describe", toolNames=[*names], format="typescript")
    described = next(tool for tool in shop.plugin.meta_tools if tool.name == "codecall:describe")
    jsonschema.validate(answer, described.output_schema)
    return answer["tools"]


async def test_a_declaration_stands_for_description_and_schemas(shop: Any) -> None:
    listed, mail = await declared(shop, "users_list", "send_mail")
    assert listed == {
        "name": "users_list",
        "appId": "users",
        "typescript": "/** List all users of the shop. */\n"
        'declare function callTool(name: "users_list", input?: '
        "{ /** how many users (integer, default 10) */ limit?: number }): Promise<{ id: number; name: string }[]>;",
        "annotations": {"readOnlyHint": True},
    }
    assert mail.keys() == {"name", "appId", "typescript"}
    assert mail["typescript"].endswith("input: { to: string; text: string }): Promise<null>;")
    assert complaints("\n".join((listed["typescript"], mail["typescript"]))) == []


async def test_only_the_authors_own_examples_are_given_with_a_declaration(shop: Any) -> None:
    own = [{"description": f"own {n}", "code": f"return {n}"} for n in range(7)]
    shop.server.tool(lambda: 1, name="with_examples", meta=tool_metadata(examples=own))
    (tool,) = await declared(shop, "with_examples")
    assert tool["usageExamples"] == own[:5]


async def test_what_is_no_tool_is_declared_too(shop: Any) -> None:
    shop.server.resource("shop://hours", name="hours", title="Opening hours")(lambda: "9 to 5")
    shop.server.resource("shop://avatars/{user}", name="avatars", description="A picture")(lambda user: user)

    @shop.server.prompt(description="A letter")
    def apology(customer: str) -> str:
        return customer

    hours, avatar, letter = await declared(shop, "shop://hours", "shop://avatars/{user}", "apology")
    assert (hours["kind"], hours["title"]) == ("resource", "Opening hours")
    assert 'readResource(uri: "shop://hours")' in hours["typescript"]
    assert "readResource(uri: `shop://avatars/${string}`)" in avatar["typescript"]
    assert 'getPrompt(name: "apology", args: { ' in letter["typescript"]


async def test_names_that_do_not_exist_are_listed_as_ever(shop: Any) -> None:
    answer = await shop.ask("codecall:describe", toolNames=["user_list", "codecall:execute"], format="typescript")
    assert (answer["tools"], answer["notFound"]) == ([], ["user_list", "codecall:execute"])
    assert answer["suggestions"]["user_list"][0] == "users_list"


async def test_a_search_gives_declarations_when_asked_to(shop: Any) -> None:
    shop.server.tool(
        lambda: 1,
        name="refund_report",
        description="Report on refunds. " * 100,
        annotations=ToolAnnotations(read_only_hint=True),
    )
    answer = await shop.ask("codecall:search", query="refund", detail="typescript", minScore=0)
    jsonschema.validate(answer, OUTPUT_SCHEMA)
    hits = {tool["name"]: tool for tool in answer["tools"]}
    assert hits["orders:refund"].keys() == {"name", "appId", "score", "typescript"}
    assert hits["orders:refund"]["typescript"] == (
        "/** Give the money of an order back to the customer. */\n"
        'declare function callTool(name: "orders:refund", input: { order: string; amount: number }): Promise<string>;'
    )
    assert len(hits["refund_report"]["typescript"]) < 350
    assert "…" in hits["refund_report"]["typescript"]


async def test_what_declarations_of_one_answer_share_is_said_once(tmp_path: Path, make_shop: Any) -> None:
    """The tools of the example and five others: 22,000 characters when nothing was shared."""
    shop = make_shop()
    shop.server.mount(create_crm(tmp_path / "crm.sqlite3"))
    for name in ("weather", "stocks"):
        shop.server.tool(lambda place, days=3: place, name=f"{name}_forecast", description=f"Forecast of {name}")
    queries = ["list the users", "orders of a company", "get a company", "deals in the pipeline", "log an activity"]
    answers = [
        await shop.ask("codecall:search", query=query, topK=50, minScore=0, detail="typescript")
        for query in ("", queries)
    ]
    for answer, most in zip(answers, (13_200, 13_600), strict=True):
        jsonschema.validate(answer, OUTPUT_SCHEMA)
        assert len(answer["tools"]) > 25
        assert len(json.dumps(answer, separators=(",", ":"), ensure_ascii=False)) <= most
        source = "\n".join((answer["types"], *(tool["typescript"] for tool in answer["tools"])))
        assert complaints(source) == []
        assert source.count('"pending" | "paid"') == 1
        order = "type Order = { id: number; company_id: number; status: Status; /** Whole euros */ total: number; "
        assert order in answer["types"]
        texts = {tool["name"]: tool["typescript"] for tool in answer["tools"]}
        assert texts["orders_get"].endswith("input: { id: Id }): Promise<Order>;")
        assert "Promise<{ items: Order[]; total: Total; " in texts["orders_list"]
    ranked = {tool["name"]: tool["matchedQueries"] for tool in answers[1]["tools"]}
    assert ranked["companies_get"] == ["get a company"]
    assert {query for matched in ranked.values() for query in matched} == set(queries)

    described = await shop.ask("codecall:describe", toolNames=["orders_get", "orders_list"], format="typescript")
    tools = "\n".join((described["types"], *(tool["typescript"] for tool in described["tools"])))
    assert complaints(tools) == []
    assert tools.count("placed_at: ") == 1
    alone = await shop.ask("codecall:search", query="get one order by id", topK=1, detail="typescript")
    assert "types" not in alone
    assert complaints(alone["tools"][0]["typescript"]) == []


async def test_hits_of_all_kinds_are_declared(shop: Any) -> None:
    shop.server.resource("shop://hours", name="hours", description="When the shop is open")(lambda: "9 to 5")
    kinds = {"kinds": ["tool", "resource"]}
    answer = await shop.ask("codecall:search", query="when is the shop open", detail="typescript", filter=kinds)
    assert next((hit["name"], hit["kind"]) for hit in answer["tools"]) == ("shop://hours", "resource")
    assert "declare function readResource" in answer["tools"][0]["typescript"]


async def test_what_was_seen_of_results_is_shown_where_nothing_is_declared(shop: Any) -> None:
    shop.server.tool(lambda: {"total": 3, "orders": [{"id": "a"}]}, name="order_report", output_schema=None)

    async def read_declarations() -> tuple[dict[str, Any], dict[str, Any], str, str]:
        (full,) = (await shop.ask("codecall:describe", toolNames=["order_report"]))["tools"]
        (typed,) = await declared(shop, "order_report")
        hit = (await shop.ask("codecall:search", query="order report", detail="full", topK=1))["tools"][0]
        match = (await shop.ask("codecall:search", query="order report", detail="typescript", topK=1))["tools"][0]
        assert hit["name"] == match["name"] == "order_report"
        return full, hit, typed["typescript"], match["typescript"]

    full, hit, *texts = await read_declarations()
    assert "observedOutput" not in full | hit
    assert all(text.endswith("Promise<unknown>;") for text in texts)
    for _ in range(3):
        assert (await shop.ask("codecall:invoke", tool="order_report", input={}))["status"] == "ok"
    full, hit, *texts = await read_declarations()
    assert full["outputSchema"] is hit["outputSchema"] is None
    assert full["observedOutput"] == hit["observedOutput"]
    assert full["observedOutput"]["properties"]["total"]["type"] == "integer"
    for text in texts:
        returned = text[text.index("Promise<") :]
        assert returned.startswith("Promise</* observed, not declared */ { ")
        assert "total: number" in returned
        assert "orders: { id: string" in returned
    assert complaints("\n".join(texts)) == []


async def test_a_declared_output_is_never_replaced_by_what_was_seen(shop: Any) -> None:
    for _ in range(3):
        await shop.ask("codecall:invoke", tool="users_get", input={"id": 1})
    (full,) = (await shop.ask("codecall:describe", toolNames=["users_get"]))["tools"]
    assert "observedOutput" not in full
    (typed,) = await declared(shop, "users_get")
    assert "observed" not in typed["typescript"]


async def test_declarations_are_made_off_the_event_loop(shop: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: set[int] = set()
    read_schema = typescript.SchemaReader.read

    def noted(reader: Any) -> Any:
        threads.add(threading.get_ident())
        return read_schema(reader)

    monkeypatch.setattr(typescript.SchemaReader, "read", noted)
    await shop.ask("codecall:search", query="users", detail="typescript")
    await declared(shop, "users_list")
    assert threads
    assert threading.get_ident() not in threads


async def test_many_at_once_and_one_that_goes_away(shop: Any) -> None:
    for n in range(60):
        shop.server.tool(lambda: 1, name=f"sensor_{n}", description=f"Read sensor {n}")
    names = [f"sensor_{n}" for n in range(50)]
    tools, *_ = await asyncio.gather(*(declared(shop, *names) for _ in range(5)))
    assert [tool["name"] for tool in tools] == names
    task = asyncio.ensure_future(declared(shop, *names))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(await declared(shop, *names)) == 50
