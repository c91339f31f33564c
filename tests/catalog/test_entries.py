"""What a tool's author can say, and what happens when it makes no sense."""

from __future__ import annotations

import logging

import pytest

from codecall.catalog.entries import INVALID_METADATA, NO_METADATA, read_metadata, tool_metadata
from codecall.errors import OptionsError


def test_helper_writes_only_what_is_said_in_wire_spelling() -> None:
    assert tool_metadata() == {"codecall": {}}
    assert tool_metadata(
        enabled_in_codecall=False,
        visible_in_list_tools=True,
        app_id="crm",
        tags=("a", "b"),
        examples=[{"description": "all", "code": "return 1"}],
    ) == {
        "codecall": {
            "enabledInCodeCall": False,
            "visibleInListTools": True,
            "appId": "crm",
            "tags": ["a", "b"],
            "examples": [{"description": "all", "code": "return 1"}],
        }
    }


def test_helper_takes_either_spelling() -> None:
    wire = tool_metadata(enabledInCodeCall=False, visibleInListTools=True, appId="crm", tags=["a"])
    assert wire == tool_metadata(enabled_in_codecall=False, visible_in_list_tools=True, app_id="crm", tags=["a"])
    with pytest.raises(OptionsError, match="enabled_in_codecall: given twice, as enabled_in_codecall and as enabledIn"):
        tool_metadata(enabled_in_codecall=False, enabledInCodeCall=True)
    with pytest.raises(OptionsError, match=r"tool_metadata.hidden: unknown option"):
        tool_metadata(hidden=True)


def test_what_the_helper_writes_is_read_back() -> None:
    meta = tool_metadata(enabled_in_codecall=True, app_id="crm", examples=[{"description": "d", "code": "c"}])
    found = read_metadata("t", meta, set())
    assert (found.enabled_in_codecall, found.visible_in_list_tools, found.app_id) == (True, None, "crm")
    assert [example.code for example in found.examples] == ["c"]


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"enabled_in_codecall": "yes"}, "tool_metadata.enabled_in_codecall"),
        ({"enabledInCodeCall": "yes"}, "tool_metadata.enabledInCodeCall"),
        ({"app_id": ""}, "tool_metadata.app_id"),
        ({"app_id": 5}, "tool_metadata.app_id"),
        ({"tags": "crm"}, "tool_metadata.tags"),
        ({"tags": [1]}, "tool_metadata.tags.0"),
        ({"examples": [{"description": "no code"}]}, "tool_metadata.examples.0.code"),
        ({"examples": [{"description": "d", "code": "c", "input": {}}]}, "tool_metadata.examples.0.input"),
    ],
)
def test_helper_refuses_what_makes_no_sense_by_field(arguments: dict[str, object], field: str) -> None:
    with pytest.raises(OptionsError, match=field.replace(".", r"\.")):
        tool_metadata(**arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize("meta", [None, {}, {"other": 1}, {"codecall": None}])
def test_a_tool_that_says_nothing(meta: dict[str, object] | None) -> None:
    assert read_metadata("t", meta, set()) == NO_METADATA


@pytest.mark.parametrize(
    "raw", ["on", [], 7, {"enabledInCodeCall": "true"}, {"enabledInCodecal": True}, {"tags": "x"}, {1: 2}]
)
def test_unreadable_metadata_keeps_the_tool_out_and_is_logged_once(
    raw: object, caplog: pytest.LogCaptureFixture
) -> None:
    reported: set[str] = set()
    with caplog.at_level(logging.WARNING, logger="codecall"):
        assert read_metadata("t", {"codecall": raw}, reported) == INVALID_METADATA
        assert read_metadata("t", {"codecall": raw}, reported) == INVALID_METADATA
    assert INVALID_METADATA.enabled_in_codecall is False
    assert len(caplog.records) == 1
    assert "'t'" in caplog.text
    assert "meta.codecall" in caplog.text
