"""Tools that do what is asked for come before those that do something else to the same things."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from codecall.catalog.entries import CatalogEntry
from codecall.catalog.search.index import SearchIndex
from codecall.catalog.search.intents import ALSO_ASKED, VERBS, Intent, query_intents, to_destroy, tool_intent
from tests.catalog.catalog import tool

CATALOG = (
    tool("files_read_file", "DEPRECATED: use read_text_file. Read the complete text of a text file", app="files"),
    tool("files_read_text_file", "Read a file as text", app="files"),
    tool("files_delete_file", "Delete a file", app="files"),
    tool("files_update_file", "Write new content to a file", app="files"),
    tool("compute_disk_delete", "Delete a disk from compute, every file and all data on the disk", app="compute"),
    tool("compute_disk_get", "Details of disks: size, state", app="compute"),
    tool("create_pull_request", "Create a new pull request in a repository", app="github"),
    tool("update_pull_request", "Update an open pull request: title, body, open or closed", app="github"),
    tool("list_pull_requests", "List pull requests, open or closed", app="github"),
    tool("get_current_time", "Get the current time in a time zone", app="time"),
    tool("convert_time", "Convert a time between time zones", app="time"),
    tool("companies_list", "All companies", app="crm"),
    tool("companies_update", "Change a company", app="crm"),
    tool("companies_delete", "Delete companies: takes a list, no update after that", app="crm"),
)


async def ranked(entries: Sequence[CatalogEntry], query: str) -> list[str]:
    results = await SearchIndex().search(tuple(entries), [query])
    return [hit.entry.name for hit in results.hits[0]]


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("read a text file", "files_read_text_file"),
        ("delete a file", "files_delete_file"),
        ("delete a file from disk", "files_delete_file"),
        ("get rid of a disk", "compute_disk_delete"),
        ("compute disk data", "compute_disk_get"),
        ("open a pull request", "create_pull_request"),
        ("what time is it in Tokyo", "get_current_time"),
        ("convert the time of Tokyo", "convert_time"),
        ("list and update companies", "companies_list"),
        ("delte company", "companies_delete"),
        ("delete companies", "companies_delete"),
    ],
)
async def test_the_tool_that_does_what_is_asked_for_comes_first(query: str, first: str) -> None:
    assert (await ranked(CATALOG, query))[0] == first


async def test_a_destructive_tool_comes_after_those_that_were_asked_for() -> None:
    found = await ranked(CATALOG, "list the companies and update each company")

    assert set(found[:2]) == {"companies_list", "companies_update"}


async def test_the_only_tool_that_fits_keeps_its_score() -> None:
    entries = (tool("remove_member", "Take a member out of a team"), tool("weather", "Forecast of rain"))
    plain = (tool("members", "Take a member out of a team"), tool("weather", "Forecast of rain"))

    for catalog in (entries, plain):
        hit = (await SearchIndex().search(catalog, ["take a member out of the team"])).hits[0][0]
        assert hit.score > 0.7


async def test_open_is_create_unless_a_tool_is_named_so() -> None:
    tabs = (tool("create_tab_group", "Create a group of tabs"), tool("open_tab", "Open a tab"))

    assert (await ranked((*CATALOG, *tabs), "open a tab"))[0] == "open_tab"


@pytest.mark.parametrize(
    ("name", "intent"),
    [
        ("list_deleted_users", Intent.READ),
        ("azure_compute_disk_delete", Intent.DESTROY),
        ("convertTime", Intent.CONVERT),
        ("status", Intent.NONE),
        ("deprecated_get_status", Intent.READ | Intent.DEPRECATED),
    ],
)
def test_the_first_verb_of_the_name_says_what_a_tool_does(name: str, intent: Intent) -> None:
    assert tool_intent(tool(name, "Deletes nothing that is not deprecated")) == intent


def test_a_tool_without_a_verb_reads_if_its_annotation_says_so() -> None:
    assert tool_intent(CatalogEntry("status", "a", "", {}, annotations={"readOnlyHint": True})) == Intent.READ


@pytest.mark.parametrize(
    ("query", "asked"),
    [
        ("thanks", Intent.NONE),
        ("how many issues are there", Intent.READ),
        ("Unsubscribe me", Intent.DESTROY),
        ("listing and updating users", Intent.READ | Intent.UPDATE),
        ("clean up the files and create another", Intent.DESTROY | Intent.CREATE),
    ],
)
def test_a_request_asks_for_all_its_verbs(query: str, asked: Intent) -> None:
    assert query_intents(query) == asked


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("delete a file from disk", ["file"]),
        ("list the files, then remove all old drafts", ["old", "drafts"]),
        ("show me the files on disk", []),
    ],
)
def test_what_is_to_be_destroyed_stands_after_the_verb(query: str, words: list[str]) -> None:
    assert to_destroy(query) == words


def test_no_verb_stands_for_two_intents() -> None:
    verbs = " ".join(VERBS.values()).split()

    assert len(verbs) == len(set(verbs))
    assert set(ALSO_ASKED) < set(VERBS)
