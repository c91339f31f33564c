"""The answer to a search without hits stays short, whatever the size of the server."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

import pytest
from anyio import fail_after, to_thread

from codecall.catalog.entries import CatalogEntry
from codecall.meta_tools.search.results import (
    DEAD_END,
    MAX_ECHO_CHARS,
    MAX_NAMED,
    OVERVIEW,
    OverviewSize,
    app_sizes,
    describe_apps,
    index_progress_warnings,
    interleave_apps,
    unknown_name_warnings,
)


def catalog(*per_app: int) -> list[CatalogEntry]:
    return [
        CatalogEntry(
            f"server-number-{app}_some_tool_{n}", f"server-number-{app}", "", {}, tags=frozenset({f"tag{app}"})
        )
        for app, count in enumerate(per_app)
        for n in range(count)
    ]


def central(entries: Sequence[CatalogEntry]) -> dict[str, list[CatalogEntry]]:
    by_app: dict[str, list[CatalogEntry]] = {}
    for entry in entries:
        by_app.setdefault(entry.app_id, []).append(entry)
    return by_app


def test_apps_are_ordered_by_size_then_id() -> None:
    assert [(app.app_id[-1], app.total) for app in app_sizes(catalog(1, 3, 1, 2))] == [
        ("1", 3),
        ("3", 2),
        ("0", 1),
        ("2", 1),
    ]


def test_other_kinds_are_counted_beside_the_tools() -> None:
    entries = [*catalog(1), CatalogEntry("shop://x", "server-number-0", "", {}, kind="resource")]
    body, _ = describe_apps(app_sizes(entries), central(entries), OVERVIEW)
    assert body["apps"][0] == {
        "appId": "server-number-0",
        "tools": 1,
        "resources": 1,
        "central": ["server-number-0_some_tool_0", "shop://x"],
    }


@pytest.mark.parametrize(("size", "most"), [(OVERVIEW, 5_000), (DEAD_END, 2_000)])
@pytest.mark.parametrize("apps", [1, 10, 500])
def test_the_apps_of_an_answer_stay_short(size: OverviewSize, most: int, apps: int) -> None:
    entries = catalog(*[20] * apps)
    body, warnings = describe_apps(app_sizes(entries), central(entries), size)
    assert len(json.dumps(body)) + len(json.dumps(warnings)) <= most
    if apps > size.apps:
        assert warnings[0].startswith(f"{size.apps} of {apps} apps are described")
        assert len(body.get("moreApps", [])) == min(size.more_apps, apps - size.apps)
    else:
        assert not warnings


def test_places_are_spread_over_the_apps() -> None:
    entries = catalog(3, 1, 2)
    names = [entry.name[14:] for entry in interleave_apps(app_sizes(entries), central(entries), 5)]
    assert names == ["0_some_tool_0", "2_some_tool_0", "1_some_tool_0", "0_some_tool_1", "2_some_tool_1"]
    assert len(interleave_apps(app_sizes(entries), central(entries), 50)) == 6


def test_tags_are_listed_when_none_is_near() -> None:
    entries = catalog(*range(15, 0, -1))
    (warning,) = unknown_name_warnings(entries, [], [], ["zzz"])
    assert warning.startswith("filter.tags: no tool is tagged 'zzz'; there are: 'tag0', 'tag1', 'tag2'")
    assert warning.count("'") == 2 * (MAX_NAMED + 1)
    assert warning.endswith(", …")


def test_long_words_are_cut() -> None:
    (warning,) = unknown_name_warnings(catalog(1), ["x" * 5_000], [], [])
    assert len(warning) < 50 + MAX_ECHO_CHARS


def test_an_index_that_is_not_ready_says_so() -> None:
    assert index_progress_warnings(100, 100, 100) == []
    (building,) = index_progress_warnings(1_200, 1_200, 10_000)
    assert "1,200 of 10,000 could be searched" in building
    (words,) = index_progress_warnings(100, 40, 100)
    assert "60 of 100" in words
    assert len(index_progress_warnings(50, 40, 100)) == 2


@pytest.mark.parametrize("query", ["", "get user", "zzqvxk wqqzzk"])
async def test_searches_need_none_of_the_threads_in_which_tools_run(make_shop: Callable[..., Any], query: str) -> None:
    shop = make_shop()
    for n in range(300):
        shop.server.tool(lambda: 1, name=f"get_user_{n}")
    await shop.ask("codecall:search", query="get user")  # what is read only once may be read anywhere
    threads = to_thread.current_default_thread_limiter()
    tools = [object() for _ in range(int(threads.total_tokens))]
    for each in tools:
        threads.acquire_on_behalf_of_nowait(each)
    try:
        with fail_after(20):
            assert (await shop.ask("codecall:search", query=query))["totalIndexed"] == 304
    finally:
        for each in tools:
            threads.release_on_behalf_of(each)


async def test_descriptions_are_read_off_the_event_loop_however_few(make_shop: Callable[..., Any]) -> None:
    called: set[str] = set()

    def record_call(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.endswith("catalog/search/spelling.py"):
            called.add(frame.f_code.co_name)

    sys.setprofile(record_call)  # sees this thread only, which is the event loop's
    try:
        answer = await make_shop().ask("codecall:search", query=["electrnoic leter", "custmoer"], minScore=1)
    finally:
        sys.setprofile(None)
    assert answer["suggestions"] == ["electronic", "letter", "customer"]
    assert not called
