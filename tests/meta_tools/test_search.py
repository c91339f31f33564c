"""`codecall:search` over a real server."""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

import anyio
import jsonschema
import pytest
from fastmcp import FastMCP

from codecall import tool_metadata
from codecall.catalog.search.index import SearchIndex
from codecall.meta_tools.search.results import BRIEF_CHARS, MAX_ECHO_CHARS, brief_description
from codecall.meta_tools.search.tool import OUTPUT_SCHEMA


def names(answer: dict[str, Any]) -> list[str]:
    jsonschema.validate(answer, OUTPUT_SCHEMA)
    return [tool["name"] for tool in answer["tools"]]


async def test_the_best_tool_comes_first_and_all_is_said(shop: Any) -> None:
    answer = await shop.ask("codecall:search", query="give the customer money back")
    assert names(answer)[0] == "orders:refund"
    best = answer["tools"][0]
    assert set(best) == {"name", "appId", "description", "score"}
    assert best["appId"] == "orders"
    assert best["description"] == "Give the money of an order back to the customer."
    assert 0.3 <= best["score"] <= 1
    assert answer["totalIndexed"] == 4
    scores = [tool["score"] for tool in answer["tools"]]
    assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize("spelling", ["codecall:search", "codecall_search"])
async def test_both_spellings_answer(shop: Any, spelling: str) -> None:
    assert names(await shop.ask(spelling, query="list users"))[0] == "users_list"


async def test_top_k_from_call_and_from_options(shop: Any, make_shop: Any) -> None:
    assert len(names(await shop.ask("codecall:search", query="user", topK=1))) == 1
    assert len(names(await make_shop(top_k=1).ask("codecall:search", query="user"))) == 1


async def test_filters_by_app_and_by_tag(shop: Any) -> None:
    by_app = await shop.ask("codecall:search", query="user order", minScore=0, filter={"appIds": ["users"]})
    assert set(names(by_app)) == {"users_list", "users_get"}
    by_tag = await shop.ask("codecall:search", query="user order money", minScore=0, filter={"tags": ["money"]})
    assert names(by_tag) == ["orders:refund"]
    assert by_tag["totalIndexed"] == 4


async def test_excluded_names_are_left_out_and_unknown_ones_warned_about(shop: Any) -> None:
    answer = await shop.ask("codecall:search", query="list users", excludeToolNames=["users_list", "nobody"])
    assert "users_list" not in names(answer)
    assert answer["warnings"] == ["excludeToolNames: no tool is called 'nobody'"]


async def test_unknown_apps_and_tags_are_warned_about(shop: Any) -> None:
    answer = await shop.ask("codecall:search", query="x", filter={"appIds": ["nowhere"], "tags": ["none"]})
    assert names(answer) == []
    assert answer["warnings"] == [
        "filter.appIds: no tool belongs to 'nowhere'",
        "filter.tags: no tool is tagged 'none'; there are: 'people', 'money'",
        "No tools are left after filter and excludeToolNames; 4 without them.",
    ]
    assert [app["appId"] for app in answer["apps"]] == ["users", "orders", "shop"]


async def test_near_names_for_unknown_ones(shop: Any) -> None:
    answer = await shop.ask(
        "codecall:search",
        query="list users",
        excludeToolNames=["users:list"],
        filter={"appIds": ["user", "users"], "tags": ["poeple", "people"]},
    )
    assert names(answer)
    assert answer["warnings"] == [
        "excludeToolNames: no tool is called 'users:list'; near: 'users_list', 'users_get'",
        "filter.appIds: no tool belongs to 'user'; near: 'users'",
        "filter.tags: no tool is tagged 'poeple'; near: 'people'",
    ]


async def test_what_a_filter_keeps_out_is_named(shop: Any) -> None:
    answer = await shop.ask("codecall:search", query="list users", filter={"appIds": ["orders"]})
    assert names(answer) == []
    assert "Outside the filter: 'users_list' of 'users' (" in answer["warnings"][-1]
    assert [app["appId"] for app in answer["apps"]] == ["orders"]


async def test_many_unknown_names_are_counted(shop: Any) -> None:
    answer = await shop.ask("codecall:search", query="list users", excludeToolNames=[f"x{n}" for n in range(25)])
    assert answer["warnings"][0].endswith("'x9' and 15 more")


async def test_min_score_and_the_threshold_of_the_options(shop: Any, make_shop: Any) -> None:
    high = await shop.ask("codecall:search", query="users refund", minScore=1)
    assert names(high) == []
    assert "Nearest: 'orders:refund' of 'orders' (" in high["warnings"][0]
    assert "lower minScore" in high["warnings"][0]
    assert high["apps"]
    strict = make_shop(embedding={"similarity_threshold": 1.0})
    assert names(await strict.ask("codecall:search", query="users refund")) == []
    assert names(await strict.ask("codecall:search", query="users refund", minScore=0))


@pytest.mark.parametrize(
    "query", ["zzzzzz qqqqqq", "\u9867\u5ba2\u306e\u4e00\u89a7", "!?", "\N{PARTY POPPER}", "x" * 1_000]
)
async def test_a_hopeless_query_says_what_there_is(shop: Any, query: str) -> None:
    answer = await shop.ask("codecall:search", query=query)
    assert names(answer) == []
    assert "describe the task in other words" in answer["warnings"][0]
    assert [(app["appId"], app["tools"], len(app["central"])) for app in answer["apps"]] == [
        ("users", 2, 2),
        ("orders", 1, 1),
        ("shop", 1, 1),
    ]


async def test_typing_errors_get_suggestions(shop: Any) -> None:
    answer = await shop.ask("codecall:search", query=["electrnoic leter", "custmoer"], minScore=1)
    assert answer["suggestions"] == ["electronic", "letter", "customer"]
    by_name = await shop.ask("codecall:search", query="ordersrefund", minScore=1)
    assert by_name["suggestions"] == ["orders:refund"]
    assert "suggestions" not in await shop.ask("codecall:search", query="list users")


@pytest.mark.parametrize("query", ["", "  \n", ["", " "]])
async def test_an_empty_query_gives_an_overview(shop: Any, query: Any) -> None:
    answer = await shop.ask("codecall:search", query=query, topK=3)
    apps = [(app["appId"], app["tools"], sorted(app["central"])) for app in answer["apps"]]
    assert apps == [
        ("users", 2, ["users_get", "users_list"]),
        ("orders", 1, ["orders:refund"]),
        ("shop", 1, ["send_mail"]),
    ]
    assert names(answer) == [answer["apps"][0]["central"][0], "orders:refund", "send_mail"]
    assert "warnings" not in answer


async def test_an_overview_of_nothing(make_shop: Any) -> None:
    answer = await make_shop(app_ids=["nowhere"]).ask("codecall:search", query="")
    assert (answer["tools"], answer["apps"], answer["totalIndexed"]) == ([], [], 0)
    assert answer["warnings"] == ["There are no tools you can reach here."]


async def test_several_queries_give_each_tool_once_with_its_queries(shop: Any) -> None:
    answer = await shop.ask("codecall:search", query=["list users", "give money back", "users list all"], topK=10)
    by_name = {tool["name"]: tool for tool in answer["tools"]}
    assert len(by_name) == len(answer["tools"])
    assert by_name["users_list"]["matchedQueries"] == ["list users", "users list all"]
    assert by_name["orders:refund"]["matchedQueries"] == ["give money back"]
    alone = await shop.ask("codecall:search", query="list users")
    assert by_name["users_list"]["score"] >= alone["tools"][0]["score"]
    assert "matchedQueries" not in alone["tools"][0]


async def test_long_queries_are_repeated_by_their_beginning(shop: Any) -> None:
    long = "list all users " * 60
    answer = await shop.ask("codecall:search", query=[long, "give money back"])
    (repeated,) = answer["tools"][0]["matchedQueries"]
    assert long.startswith(repeated.removesuffix("…"))
    assert len(repeated) == MAX_ECHO_CHARS


async def test_each_query_gets_a_place(shop: Any, make_shop: Any) -> None:
    queries = ["list all users", "give money back", "send a letter"]
    for server, arguments in ((shop, {"topK": 3}), (make_shop(top_k=1), {})):
        answer = await server.ask("codecall:search", query=queries, **arguments)
        assert {query for tool in answer["tools"] for query in tool["matchedQueries"]} == set(queries)
        assert len(answer["tools"]) == 3
    crowded = await shop.ask("codecall:search", query=queries, topK=1)
    assert len(crowded["tools"]) == 1
    assert crowded["warnings"] == ["topK is 1: no place was left for what fits 'give money back', 'send a letter'."]


async def test_queries_without_a_hit_are_named_beside_the_others(shop: Any) -> None:
    answer = await shop.ask("codecall:search", query=["list all users", "zzzzzz"])
    assert "users_list" in names(answer)
    assert answer["warnings"] == ["Nothing matched 'zzzzzz'; describe the task in other words."]
    assert "apps" not in answer


async def test_one_app_does_not_fill_the_answer_alone(shop: Any) -> None:
    for number in range(20):
        meta = tool_metadata(app_id="archive")
        shop.server.tool(lambda: 1, name=f"invoice_{number}", description="Download an invoice as a file", meta=meta)
    meta = tool_metadata(app_id="zenith")
    shop.server.tool(lambda: 1, name="get_bill", description="Download a bill as a PDF file", meta=meta)
    answer = await shop.ask("codecall:search", query="download an invoice")
    assert [tool["appId"] for tool in answer["tools"]] == ["archive"] * 4 + ["zenith"]


def add_more_kinds(server: FastMCP) -> None:
    @server.resource("shop://opening-hours", title="Opening hours", description="When the shop is open")
    def hours() -> str:
        return "9 to 5"

    @server.resource("shop://avatars/{user}", description="Picture of a user")
    def avatar(user: str) -> str:
        return user

    @server.prompt(description="A letter that says sorry to a customer")
    def apology(customer: str) -> str:
        return f"Say sorry to {customer}"


ALL_KINDS = {"kinds": ["tool", "resource", "template", "prompt"]}


async def test_other_kinds_are_searched_when_asked_for(shop: Any) -> None:
    add_more_kinds(shop.server)
    usual = await shop.ask("codecall:search", query="when is the shop open", minScore=0)
    assert usual["totalIndexed"] == 4
    assert not any("kind" in tool for tool in usual["tools"])
    answer = await shop.ask("codecall:search", query="when is the shop open", filter={"kinds": ["resource"]})
    (hours,) = answer["tools"]
    assert (hours["name"], hours["kind"], hours["title"]) == ("shop://opening-hours", "resource", "Opening hours")
    assert answer["totalIndexed"] == 1
    letter = await shop.ask("codecall:search", query="letter to a customer", filter=ALL_KINDS, minScore=0)
    assert {item["kind"] for item in letter["tools"]} >= {"tool", "prompt"}
    full = await shop.ask("codecall:search", query="say sorry", filter=ALL_KINDS, detail="full")
    assert full["tools"][0]["inputSchema"]["properties"].keys() == {"customer"}


async def test_an_overview_of_all_kinds_counts_each(shop: Any) -> None:
    add_more_kinds(shop.server)
    overview = await shop.ask("codecall:search", query="", filter=ALL_KINDS, topK=50)
    assert len(overview["tools"]) == overview["totalIndexed"] == 7
    (counts,) = ({key: app[key] for key in app if key != "central"} for app in overview["apps"] if "prompts" in app)
    assert counts == {"appId": "shop", "tools": 1, "resources": 1, "templates": 1, "prompts": 1}


async def test_an_overview_of_a_kind_there_is_none_of(shop: Any) -> None:
    answer = await shop.ask("codecall:search", query="letter", filter={"kinds": ["prompt", "resource"]})
    assert (answer["tools"], answer["apps"], answer["totalIndexed"]) == ([], [], 0)
    assert answer["warnings"] == ["There are no prompts or resources you can reach here."]


async def test_a_search_of_tools_says_what_there_is_of_other_kinds(shop: Any) -> None:
    add_more_kinds(shop.server)
    kinds = '["resource", "template", "prompt"]'
    note = f"Besides the tools: 1 resource, 1 template and 1 prompt; filter.kinds {kinds} finds them."
    assert (await shop.ask("codecall:search", query=""))["warnings"] == [note]
    answer = await shop.ask("codecall:search", query="apology")
    assert (answer["tools"], answer["totalIndexed"]) == ([], 4)
    assert answer["warnings"] == [
        "Nothing matched; describe the task in other words.",
        "Outside the filter: 1 prompt matches: 'apology'; filter.kinds [\"prompt\"] finds it.",
    ]
    several = await shop.ask("codecall:search", query=["list all users", "apology", "opening hours"])
    assert several["warnings"][1] == (
        "Outside the filter: 1 resource and 1 prompt match: 'shop://opening-hours', 'apology'; filter.kinds "
        '["resource", "prompt"] finds them.'
    )
    tools_alone = await shop.ask("codecall:search", query="apology", filter={"kinds": ["tool"]})
    assert tools_alone["warnings"] == ["Nothing matched; describe the task in other words."]
    for name, way in {"apology": "getPrompt('apology', {…})", "shop://opening-hours": "readResource('shop:"}.items():
        answer = await shop.ask("codecall:execute", script=f"return await callTool('{name}', {{}})")
        assert way in answer["error"]["hint"]


async def test_kinds_that_are_none_are_refused(shop: Any) -> None:
    empty = {"kinds": [], "appIds": [], "tags": []}
    assert await shop.ask("codecall:search", query="x", filter=empty) == await shop.ask("codecall:search", query="x")
    assert "filter.kinds.0" in await shop.refusal("codecall:search", query="x", filter={"kinds": ["tools"]})


async def test_hits_are_grouped_by_app_when_asked_for(shop: Any) -> None:
    plain = await shop.ask("codecall:search", query=["list users", "refund", "get a user"], topK=5)
    grouped = await shop.ask("codecall:search", query=["list users", "refund", "get a user"], topK=5, groupBy="app")
    assert "tools" not in grouped
    assert grouped["totalIndexed"] == plain["totalIndexed"]
    apps = [group["appId"] for group in grouped["groups"]]
    assert apps == list(dict.fromkeys(tool["appId"] for tool in plain["tools"]))
    assert "users" in apps
    for group in grouped["groups"]:
        here = [tool for tool in plain["tools"] if tool["appId"] == group["appId"]]
        assert [{**tool, "appId": group["appId"]} for tool in group["tools"]] == here
    overview = await shop.ask("codecall:search", query="", groupBy="app")
    assert {group["appId"] for group in overview["groups"]} == {app["appId"] for app in overview["apps"]}
    declared = await shop.ask("codecall:search", query="list users", groupBy="app", detail="typescript")
    assert "users_list" in declared["groups"][0]["tools"][0]["typescript"]
    nothing = await shop.ask("codecall:search", query="xylophone", groupBy="app")
    assert nothing["groups"] == []


async def test_details(shop: Any) -> None:
    async def first(detail: str) -> dict[str, Any]:
        return (await shop.ask("codecall:search", query="list users", detail=detail))["tools"][0]

    assert set(await first("name")) == {"name", "appId", "score"}
    assert await first("brief") == (await shop.ask("codecall:search", query="list users"))["tools"][0]
    full = await first("full")
    assert full["inputSchema"]["properties"]["limit"]["description"] == "how many users"
    assert full["outputSchema"]["type"] == "array"
    assert full["annotations"] == {"readOnlyHint": True}


def test_brief_descriptions_are_the_first_paragraph_on_one_line() -> None:
    assert brief_description("  One\n  two.\n\nThree.") == "One two."
    assert brief_description("") == ""


def test_brief_descriptions_end_at_a_word_with_a_mark() -> None:
    short = brief_description("word " * 100)
    assert len(short) <= BRIEF_CHARS
    assert short.endswith("word…")
    assert brief_description("x" * 500) == "x" * (BRIEF_CHARS - 1) + "…"


async def test_the_index_follows_tools_added_and_removed(shop: Any) -> None:
    assert "weather" not in names(await shop.ask("codecall:search", query="weather forecast", minScore=0))
    shop.server.tool(lambda: 1, name="weather", description="Weather forecast of a city")
    assert names(await shop.ask("codecall:search", query="weather forecast"))[0] == "weather"
    shop.server.local_provider.remove_tool("weather")
    assert "weather" not in names(await shop.ask("codecall:search", query="weather forecast", minScore=0))


async def test_while_the_index_is_being_built_the_answer_says_so(
    make_shop: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("codecall.catalog.search.index.SearchIndex", partial(SearchIndex, wait_s=0))
    shop = make_shop()
    for number in range(1_000):
        shop.server.tool(lambda: 1, name=f"sensor_{number}", description=f"Read the value of sensor {number}")
    first = await shop.ask("codecall:search", query="sensor 999")
    assert "The index is still being built: " in first["warnings"][0]
    assert " of 1,004 could be searched" in first["warnings"][0]
    assert first["tools"] or first["apps"]
    with anyio.fail_after(30):
        while "warnings" in (answer := await shop.ask("codecall:search", query="sensor 999")):
            pass
    assert names(answer)[0] == "sensor_999"


async def test_meta_tools_are_not_found(shop: Any) -> None:
    answer = await shop.ask("codecall:search", query="codecall execute search describe invoke", minScore=0, topK=50)
    assert not any("codecall" in name for name in names(answer))


async def test_what_grows_with_the_catalog_stays_off_the_event_loop(shop: Any) -> None:
    for n in range(300):
        shop.server.tool(lambda: 1, name=f"get_user_{n}")
    called: set[str] = set()

    files = (
        "meta_tools/search/tool.py",
        "meta_tools/search/request.py",
        "meta_tools/search/results.py",
        "catalog/search/fusion.py",
    )

    def record_call(frame: Any, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.endswith(files):
            called.add(frame.f_code.co_name)

    sys.setprofile(record_call)  # sees this thread only, which is the event loop's
    try:
        matched = await shop.ask("codecall:search", query=["get user", "user"], minScore=0, excludeToolNames=["zzz"])
        overview = await shop.ask("codecall:search", query="", filter={"tags": ["zzz"]})
        unmatched = await shop.ask("codecall:search", query=["qqqqqqq", "wwwwwww"])
    finally:
        sys.setprofile(None)
    assert len(matched["tools"]) == 5
    assert len(overview["warnings"]) == 2
    assert called & {"_document"}
    assert unmatched["apps"]
    heavy = {
        *("select", "fits", "diversify", "unknown_name_warnings"),
        *("_filtered", "app_sizes", "suggest_searches", "_fitting"),
    }
    assert called.isdisjoint(heavy)
