"""The table: consistent, each row refused by its probe. Complete: tests_security/language/test_tables.py."""

from __future__ import annotations

import itertools

import pytest

from codecall.sandbox.agentscript.checked import InvalidScriptError
from codecall.sandbox.agentscript.policy import (
    ERROR_KINDS,
    GLOBALS,
    MEMBERS,
    META_TOOLS,
    NEVER_NAMES,
    RUNTIME_NAMES,
    SOURCE,
    VARIANTS,
    Row,
    Rules,
    allowed_members,
    is_meta_tool,
    language_summary,
)
from codecall.sandbox.agentscript.validate import validate_script
from tests.policy_rows import all_rows

EVERYTHING = Rules(allow_loops=True, allow_regex=True, allow_console=True, allow_clock=True)
ALL_RULES = [Rules(*switches) for switches in itertools.product([False, True], repeat=4)]

UNREACHABLE = {"ArrowParameterPlaceHolder", "BlockComment", "LineComment"}
"""Node types that never stand in a finished tree."""
UNKNOWN_FORMS = {"variable kind", "property kind", "operator"}
"""What the parser cannot produce today."""


PROBED = [row for row in all_rows() if row.probe is not None]


@pytest.mark.parametrize("row", PROBED, ids=[f"{row.kind}-{row.name}" for row in PROBED])
def test_a_probe_is_refused_by_its_row(row: Row):
    rules = EVERYTHING if row.verdict == "refused" else Rules()
    with pytest.raises(InvalidScriptError) as error:
        validate_script(row.probe or "", rules)
    first = error.value.first
    assert first.kind == row.kind
    if row is VARIANTS["unknown member"]:
        return  # its hint lists what there is
    assert row.instead in {finding.hint for finding in error.value.findings}


@pytest.mark.parametrize("row", [row for row in PROBED if row.verdict != "refused"], ids=lambda row: row.name)
def test_a_switch_allows_its_rows_and_no_other_does(row: Row):
    for rules in ALL_RULES:
        try:
            validate_script(row.probe or "", rules)
            allowed = True
        except InvalidScriptError:
            allowed = False
        assert allowed == rules.permit(row.verdict), rules


def test_every_refusal_explains_itself():
    for row in all_rows():
        assert (row.verdict == "allowed") == (row.probe is None) or row.name in UNREACHABLE | UNKNOWN_FORMS, row
        if row.probe is not None:
            assert row.reason, row
            assert row.instead, row


def test_members_belong_to_listed_globals():
    for name in MEMBERS:
        owner, _, member = name.partition(".")
        listed = GLOBALS[owner].members
        assert listed is not None
        assert member not in listed


def test_names_do_not_contradict_each_other():
    assert set(GLOBALS) >= RUNTIME_NAMES | ERROR_KINDS
    assert not set(GLOBALS) & set(NEVER_NAMES)
    for row in GLOBALS.values():
        assert row.verdict == "refused" or not row.declarable or row.name in ("tools", "emit", "extract")
        assert not (row.members or frozenset()) & set(NEVER_NAMES)


def test_the_zero_value_is_the_smallest_language():
    assert not any(getattr(Rules(), name) for name in Rules.__dataclass_fields__)
    for rules in ALL_RULES:
        for name in GLOBALS:
            fewest, most = allowed_members(name, Rules()), allowed_members(name, rules)
            assert fewest == most or (fewest is not None and most is not None and fewest <= most)


def test_allowed_members():
    assert "random" not in (allowed_members("Math", Rules()) or ())
    assert "random" in (allowed_members("Math", Rules(allow_clock=True)) or ())
    assert "setPrototypeOf" not in (allowed_members("Object", EVERYTHING) or ())
    assert allowed_members("codecallContext", Rules()) is None
    with pytest.raises(KeyError):
        allowed_members("nope", Rules())


@pytest.mark.parametrize("name", META_TOOLS)
def test_meta_tools_in_every_spelling(name: str):
    flat = name.replace(":", "_")
    for spelling in (
        name,
        flat,
        name.upper(),
        flat.title(),
        f"  {name}\n",
        f"\ufeff{flat}\u200b",
        f"\u00a0{name}\x00 ",
    ):
        assert is_meta_tool(spelling), spelling


def test_other_names_are_not_meta_tools():
    assert is_meta_tool("codecall:anything")
    for name in ("codecall_report", "codecall", "my:codecall:search", "users:list", "", "codecall search"):
        assert not is_meta_tool(name), name


@pytest.mark.parametrize("rules", ALL_RULES, ids=str)
def test_the_summary_says_what_is_so(rules: Rules):
    text = language_summary(rules)
    assert len(text) / 3.5 <= 150, "about 150 tokens"
    available, _, missing = text.partition("Not available:")
    assert missing
    assert ("console" in available) == rules.allow_console == ("console" not in missing)
    assert ("RegExp" in available) == rules.allow_regex == ("regular expressions" not in missing)
    assert ("while" in missing) != rules.allow_loops
    assert ("Date.now" in missing) != rules.allow_clock
    for name in ("Math", "JSON", "Map", "Promise", "TypeScript"):
        assert name in available


def test_source_limits_are_the_contracts():
    assert set(SOURCE) >= {"script length", "bracket nesting", "line length", "hashbang"}
