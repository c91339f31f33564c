"""Which tools may be used: globs, hints, and what names a tool cannot have."""

from __future__ import annotations

import mcp_types
import pytest

from codecall.gateway.config.options import AccessOptions
from codecall.gateway.tools.access import AccessRules
from codecall.gateway.tools.filter import (
    MAX_NAME_CHARS,
    ReservedNames,
    screen_components,
    strip_reserved_meta,
)


def tool(name: str = "read", **hints: bool) -> mcp_types.Tool:
    """A tool with these hints; without annotations where there are none."""
    annotations = mcp_types.ToolAnnotations.model_validate(hints) if hints else None
    return mcp_types.Tool(name=name, input_schema={"type": "object"}, annotations=annotations)


def refused(options: dict[str, object], *tools: mcp_types.Tool) -> dict[str, str]:
    """Code of each tool that these options hide."""
    access = AccessRules(AccessOptions.read(options, where="access"))
    return {item.name: refusal.code for item in tools if (refusal := access.reason_to_hide(item)) is not None}


def test_everything_may_be_used_that_does_not_say_it_destroys():
    harmless = tool("a"), tool("b", read_only_hint=True), tool("c", destructive_hint=False), tool("d")
    assert refused({}, *harmless, tool("e", destructive_hint=True)) == {"e": "asked"}
    assert refused({"destructive": False}, *harmless, tool("e", destructive_hint=True)) == {"e": "destructive"}


def test_globs_allow_and_deny_and_denying_wins():
    names = [tool(name) for name in ("read_file", "read_secret", "write_file", "READ_file")]
    found = refused({"allow": ["read_*"], "deny": ["*secret*"]}, *names)
    assert found == {"read_secret": "denied", "write_file": "not_allowed", "READ_file": "not_allowed"}


def test_an_empty_list_of_allowed_names_allows_nothing():
    assert refused({"allow": []}, tool("a")) == {"a": "not_allowed"}


def test_read_only_wants_to_be_told_so():
    said = tool("a", read_only_hint=True), tool("b", read_only_hint=False), tool("c"), tool("d", idempotent_hint=True)
    assert refused({"read_only": True}, *said) == dict.fromkeys("bcd", "not_read_only")


def test_a_tool_that_contradicts_itself_is_taken_for_destructive():
    both = tool("a", read_only_hint=True, destructive_hint=True)
    assert refused({"read_only": True}, both) == {"a": "asked"}
    assert refused({"read_only": True, "destructive": True}, both) == {}


@pytest.mark.parametrize("allowed", [True, ["drop_*"], ["drop_table"]])
def test_destructive_tools_are_allowed_all_or_by_name(allowed: object):
    drop = tool("drop_table", destructive_hint=True)
    assert refused({"destructive": allowed}, drop) == {}
    assert refused({"destructive": ["drop_index"]}, drop) == {"drop_table": "destructive"}


def of_server(options: dict[str, object], *tools: mcp_types.Tool) -> tuple[dict[str, str], list[tuple[str, ...]]]:
    """Code of each tool that these options hide of the server `notes`, and what they name that is none."""
    written = AccessRules(AccessOptions.read(options, where="access"))
    access, unmatched = written.for_tools("notes", [item.name for item in tools])
    hidden = {item.name: refusal.code for item in tools if (refusal := access.reason_to_hide(item)) is not None}
    return hidden, [(each.rule, each.pattern, each.near or "") for each in unmatched]


@pytest.mark.parametrize("pattern", ["write_note", "notes_write_note", "notes_write_*", "*te_note"])
def test_names_may_be_written_as_clients_see_them(pattern: str):
    tools = tool("read_note"), tool("write_note", destructive_hint=True)
    assert of_server({"deny": [pattern]}, *tools) == ({"write_note": "denied"}, [])
    assert of_server({"allow": [pattern], "destructive": True}, *tools) == ({"read_note": "not_allowed"}, [])
    assert of_server({"destructive": [pattern]}, *tools) == ({}, [])


def test_a_name_in_two_readings_denies_both_and_allows_only_the_servers_own():
    own, other = tool("notes_wipe", destructive_hint=True), tool("wipe", destructive_hint=True)
    assert of_server({"deny": ["notes_wipe"]}, own, other)[0] == dict.fromkeys(["notes_wipe", "wipe"], "denied")
    for glob in ("notes_wipe", "notes_*"):
        assert of_server({"allow": [glob], "destructive": True}, own, other)[0] == {"wipe": "not_allowed"}
        assert of_server({"destructive": [glob]}, own, other)[0] == {"wipe": "destructive"}


def test_what_matches_no_tool_is_reported_with_the_name_that_is_near():
    options = {"allow": ["read_note", "x*"], "deny": ["notes_write_notes"], "destructive": ["rite_note", "zzz"]}
    assert of_server(options, tool("read_note"), tool("write_note"))[1] == [
        ("allow", "x*", ""),
        ("deny", "notes_write_notes", "write_note"),
        ("destructive", "rite_note", "write_note"),
        ("destructive", "zzz", ""),
    ]
    assert of_server({"deny": ["a"]})[1] == [("deny", "a", "")]


def test_globs_are_matched_in_linear_time():
    hostile = tool("a" * 128)
    assert refused({"deny": ["*a" * 100 + "b"] * 50}, hostile) == {}


def test_no_tool_takes_the_name_of_a_meta_tool_or_of_another_servers_tool():
    names = ReservedNames(["git", "git_hub", "codecall"], ["codecall_search", "codecall:search"])
    assert names.reason_to_hide("git", "status") is None
    shadow = names.reason_to_hide("git", "hub_delete")
    assert shadow is not None
    assert (shadow.code, "git_hub" in shadow.reason) == ("shadows", True)
    assert names.reason_to_hide("git_hub", "delete") is None
    meta = names.reason_to_hide("codecall", "search")
    assert meta is not None
    assert meta.code == "shadows"
    assert names.reason_to_hide("codecall", "other") is None


def test_names_that_cannot_be_shown_are_hidden_and_the_first_of_two_stays():
    first = tool("same", read_only_hint=True)
    bad = ["", "x" * (MAX_NAME_CHARS + 1), "line\nend", "bell\x07", "\u202ereversed"]
    hidden: list[tuple[str, str]] = []
    kept = screen_components(
        (first, tool("same"), *map(tool, bad)),
        large=False,
        reason_to_hide=lambda _: None,
        make=lambda item: item,
        hide=lambda name, refusal: hidden.append((name, refusal.code)),
    )
    assert kept == {"same": first}
    assert [code for _, code in hidden] == ["name"] * 6
    assert all(name.isprintable() and len(name) < 200 for name, _ in hidden)


def test_a_server_does_not_decide_what_codecall_makes_of_its_tools():
    said = {"codecall": {"appId": "git", "visibleInListTools": True, "metaTool": True, "tags": ["x"]}, "other": 1}
    meta = strip_reserved_meta(tool().model_copy(update={"meta": said})).meta
    assert meta == {"codecall": {"tags": ["x"]}, "other": 1}
    assert strip_reserved_meta(tool().model_copy(update={"meta": {"codecall": 5}})).meta is None
    untouched = tool()
    assert strip_reserved_meta(untouched) is untouched
