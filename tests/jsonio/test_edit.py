"""One member of a JSON text set in place."""

from __future__ import annotations

import json
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codecall.jsonio.documents import strip_comments
from codecall.jsonio.edit import set_member


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", '{\n  "s": {\n    "new": 1\n  }\n}\n'),
        ('{"s": {}} // mine', '{"s": {\n  "new": 1\n}} // mine'),
        ('{"s": {"a": 2}}', '{"s": {"a": 2,\n  "new": 1}}'),
        ('{\n\t"s": {\n\t\t"a": 2\n\t}\n}', '{\n\t"s": {\n\t\t"a": 2,\n\t\t"new": 1\n\t}\n}'),
        ('{\r\n  "a": 2\r\n}\r\n', '{\r\n  "a": 2,\r\n  "s": {\r\n    "new": 1\r\n  }\r\n}\r\n'),
        # Comments stay where they are, also on the line of the last member, and so does a trailing comma.
        ('{\n  "s": {\n    // none\n  }\n}', '{\n  "s": {\n    // none\n    "new": 1\n  }\n}'),
        ('{\n  "s": {\n    "a": 2 // two\n  }\n}', '{\n  "s": {\n    "a": 2, // two\n    "new": 1\n  }\n}'),
        (
            '{\n  "s": {\n    "a": 2, // two\n    // "b": 3\n  },\n}',
            '{\n  "s": {\n    "a": 2, // two\n    "new": 1,\n    // "b": 3\n  },\n}',
        ),
        ('{"s": {"a": "} // ,", /* {\n */ }}', '{"s": {"a": "} // ,",\n "new": 1, /* {\n */ }}'),
        # What is there is replaced, and nothing beside it.
        ('{"s": {"new": [ 0, ], "b": 1e5}} // "new"', '{"s": {"new": 1, "b": 1e5}} // "new"'),
    ],
)
def test_a_member_is_set_and_all_else_stays(before: str, after: str):
    assert set_member(before, ["s", "new"], 1) == after


@pytest.mark.parametrize("text", ["[]", '{"s": 3}', '{"s": [], }', "{,}", "x"])
def test_what_has_no_place_for_it_is_refused(text: str):
    with pytest.raises(ValueError):  # noqa: PT011 - json's own, too
        set_member(text, ["s", "new"], 1)


KEYS = st.sampled_from(["a", "s", "new", '"', "//", "ä"])
VALUES = st.recursive(
    st.integers() | st.sampled_from(["", "/*", "},", '\\"']),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=2),
    max_leaves=6,
)
COMMENTS = st.sampled_from(["", " ", "\n", "\t", "// } ,\n", "/* { */", "/*\n*/", "\r\n  "])


@given(st.dictionaries(KEYS, st.dictionaries(KEYS, VALUES, max_size=3), max_size=3), st.booleans(), VALUES, st.data())
def test_whatever_the_text_holds_it_holds_the_member_then(
    document: dict[str, dict[str, object]], trailing: bool, value: object, data: st.DataObject
):
    def gap() -> str:
        return data.draw(COMMENTS)

    def written(each: object) -> str:
        if not isinstance(each, dict):
            return json.dumps(each)
        pairs = cast("dict[str, object]", each).items()
        members = [f"{gap()}{json.dumps(key)}{gap()}:{gap()}{written(inner)}{gap()}" for key, inner in pairs]
        return f"{{{','.join(members)}{',' if members and trailing else ''}{gap()}}}"

    changed = set_member(gap() + written(document) + gap(), ["s", "new"], value)
    assert json.loads(strip_comments(changed)) == {**document, "s": {**document.get("s", {}), "new": value}}
