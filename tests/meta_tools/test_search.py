"""`codecall:search` over a real server."""

from __future__ import annotations

import sys
from typing import Any

import jsonschema
import pytest

from codecall.meta_tools.search import BRIEF_CHARACTERS, brief
from codecall.meta_tools.search_schema import OUTPUT


def names(answer: dict[str, Any]) -> list[str]:
    jsonschema.validate(answer, OUTPUT)
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
        "filter.tags: no tool is tagged 'none'",
        "No tool is left after filter and excludeToolNames; 4 tools without them.",
    ]


async def test_many_unknown_names_are_counted(shop: Any) -> None:
    answer = await shop.ask("codecall:search", query="list users", excludeToolNames=[f"x{n}" for n in range(25)])
    assert answer["warnings"][0].endswith("'x9' and 15 more")


async def test_min_score_and_the_threshold_of_the_options(shop: Any, make_shop: Any) -> None:
    high = await shop.ask("codecall:search", query="users refund", minScore=1)
    assert names(high) == []
    assert "lower minScore" in high["warnings"][0]
    strict = make_shop(embedding={"similarity_threshold": 1.0})
    assert names(await strict.ask("codecall:search", query="users refund")) == []
    assert names(await strict.ask("codecall:search", query="users refund", minScore=0))


async def test_nothing_matched_says_what_there_is(shop: Any) -> None:
    answer = await shop.ask("codecall:search", query="zzzzzz qqqqqq")
    assert names(answer) == []
    assert answer["warnings"] == [
        "Nothing matched. There are tools of these apps: users (2), orders (1), shop (1). "
        "An empty query gives an overview."
    ]


@pytest.mark.parametrize("query", ["", "  \n", ["", " "]])
async def test_an_empty_query_gives_an_overview(shop: Any, query: Any) -> None:
    answer = await shop.ask("codecall:search", query=query, topK=3)
    assert answer["apps"] == [
        {"appId": "users", "tools": 2},
        {"appId": "orders", "tools": 1},
        {"appId": "shop", "tools": 1},
    ]
    assert names(answer) == ["users_list", "orders:refund", "send_mail"]
    assert "warnings" not in answer


async def test_an_overview_of_nothing(make_shop: Any) -> None:
    answer = await make_shop(app_ids=["nowhere"]).ask("codecall:search", query="")
    assert (answer["tools"], answer["apps"], answer["totalIndexed"]) == ([], [], 0)
    assert answer["warnings"] == ["There are no tools you can reach here."]


async def test_several_queries_give_each_tool_once_with_its_queries(shop: Any) -> None:
    answer = await shop.ask("codecall:search", query=["list users", "give money back", "users list all"], topK=10)
    found = {tool["name"]: tool for tool in answer["tools"]}
    assert len(found) == len(answer["tools"])
    assert found["users_list"]["matchedQueries"] == ["list users", "users list all"]
    assert found["orders:refund"]["matchedQueries"] == ["give money back"]
    alone = await shop.ask("codecall:search", query="list users")
    assert found["users_list"]["score"] >= alone["tools"][0]["score"]
    assert "matchedQueries" not in alone["tools"][0]


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
    assert brief("  One\n  two.\n\nThree.") == "One two."
    assert brief("") == ""


def test_brief_descriptions_end_at_a_word_with_a_mark() -> None:
    short = brief("word " * 100)
    assert len(short) <= BRIEF_CHARACTERS
    assert short.endswith("word…")
    assert brief("x" * 500) == "x" * (BRIEF_CHARACTERS - 1) + "…"


async def test_the_index_follows_tools_added_and_removed(shop: Any) -> None:
    assert "weather" not in names(await shop.ask("codecall:search", query="weather forecast", minScore=0))
    shop.server.tool(lambda city: city, name="weather", description="Weather forecast of a city")
    assert names(await shop.ask("codecall:search", query="weather forecast"))[0] == "weather"
    shop.server.local_provider.remove_tool("weather")
    assert "weather" not in names(await shop.ask("codecall:search", query="weather forecast", minScore=0))


async def test_meta_tools_are_not_found(shop: Any) -> None:
    answer = await shop.ask("codecall:search", query="codecall execute search describe invoke", minScore=0, topK=50)
    assert not any("codecall" in name for name in names(answer))


async def test_what_grows_with_the_catalogue_stays_off_the_event_loop(shop: Any) -> None:
    for n in range(300):
        shop.server.tool(lambda: 1, name=f"get_user_{n}")
    ran: set[str] = set()

    def note(frame: Any, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.endswith("codecall/meta_tools/search.py"):
            ran.add(frame.f_code.co_name)

    sys.setprofile(note)  # sees this thread only, which is the event loop's
    try:
        found = await shop.ask("codecall:search", query=["get user", "user"], minScore=0, excludeToolNames=["zzz"])
        overview = await shop.ask("codecall:search", query="", filter={"tags": ["zzz"]})
    finally:
        sys.setprofile(None)
    assert len(found["tools"]) == 5
    assert len(overview["warnings"]) == 2
    assert ran & {"_document"}
    assert ran.isdisjoint({"_select", "_filtered", "_unknown", "_ranked", "_spread", "_apps", "_nothing"})
