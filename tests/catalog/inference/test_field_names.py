"""Names of fields are known from data as far as one word tells."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from codecall.catalog.inference.shapes import MAX_NAME_CHARS as MAX_CHARS
from codecall.catalog.inference.shapes import is_field_name
from codecall.sandbox.agentscript.policy import NEVER_NAMES


@pytest.mark.parametrize(
    "name",
    [
        *("id", "_id", "$ref", "createdAt", "html_url", "content-type", "X-Request-Id", "sha256", "ipv4", "line_2"),
        *("größe", "名前", "price_change_percentage_24h", "only_allow_merge_if_pipeline_succeeds", "A", "isMD5"),
        *("ConferenceRecordingStatusCallbackMethod", "facade", "decade", "DEFAULT_MAXIMUM_LENGTH"),
    ],
)
def test_names_of_fields(name: str):
    assert is_field_name(name)


@pytest.mark.parametrize(
    "key",
    [
        *("", " ", "17", "3d", "2026-01-31", "2026", "ann@example.org", "example.org", "/etc/passwd", "a/b", "C:\\x"),
        *("John Smith", "user-1234", "q4_2026", "usr_8fK2mQ9x", "550e8400-e29b-41d4-a716-446655440000", "deadbeef12"),
        *(
            "f00dcafe",
            "id_abcdef12",
            "sk_live_51H8x2eZ",
            "+4989123456",
            "192.168.0.1",
            "fe80::1",
            "a b",
            "a\nb",
            "\ud800",
        ),
        *("AKIAIOSFODNNEXAMPLE", "x" * (MAX_CHARS + 1), "a" * 30, "zero\u200bwidth", "\u202eevil", "-a", "@alice"),
        *NEVER_NAMES,
    ],
)
def test_data(key: str):
    assert not is_field_name(key)


@given(st.text(max_size=60))
@settings(max_examples=200)
def test_what_is_taken_for_a_name_can_be_printed_and_named(key: str):
    if is_field_name(key):
        assert key.replace("-", "_").replace("$", "_").isidentifier()
        assert len(key.encode()) <= 4 * MAX_CHARS


@given(st.uuids())
@settings(max_examples=50)
def test_ids_are_data(identity: object):
    assert not is_field_name(str(identity))
    assert not is_field_name(f"user_{identity}".replace("-", ""))
