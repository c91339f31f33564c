"""How long a comparison may take, counted without making it: held against one that counts while it tries."""

from __future__ import annotations

import re

import pytest
from fastmcp.resources.template import build_regex
from hypothesis import example, given, settings
from hypothesis import strategies as st

from codecall.catalog.uris import MAX_MATCH_STEPS, match_steps
from tests.work import python_steps

MAX_PYTHON_STEPS = 40_000
"""Lines of Python for the worst of the pairs here, twice over."""

ENDLESS = 10**30

VARIABLES = st.sampled_from(["{}", "{*}"])
TEXTS = st.sampled_from(["", "-", "/", "a", "--", "-/", "ab", "%2d", "%2D-"])


@st.composite
def templates(draw: st.DrawFn) -> str:
    """A few variables, with anything between them or nothing."""
    parts = draw(st.lists(st.tuples(VARIABLES, TEXTS), max_size=4))
    head = draw(st.sampled_from(["", "a", "-"]))
    return head + "".join(
        variable.replace("{", f"{{v{place}") + text for place, (variable, text) in enumerate(parts)
    )  # fmt: skip


def tried(uri: str, template: str) -> tuple[int, bool]:
    """What a machine like that of `re` tries until it knows, and what it finds."""
    head, *rest = re.split(r"(\{[^}]+\})", template)
    parts = list(zip(rest[::2], rest[1::2], strict=True))
    count = 0

    def behind(text: str, start: int) -> int | None:
        end = start + len(text)
        found = re.fullmatch(re.sub("%[0-9A-Fa-f]{2}", r"(?i:\g<0>)", text), uri[start:end])
        return end if found else None

    def ways(place: int, start: int) -> bool:
        nonlocal count
        if place == len(parts):
            return start == len(uri)
        variable, text = parts[place]
        end = len(uri) if "*" in variable else start + len(uri[start:].partition("/")[0])
        for at in range(end, start, -1):
            count += 1
            after = behind(text, at)
            if after is not None and ways(place + 1, after):
                return True
        return False

    start = behind(head, 0)
    return count, start is not None and ways(0, start)


@settings(max_examples=300, deadline=None)
@given(templates(), st.lists(st.sampled_from(["a", "a", "-", "-", "/", "%2D", "%2d"]), max_size=9).map("".join))
@example("{v0}-{v1}/{v2}-{v3}/x", "---/---/")
@example("{v0*}{v1*}{v2*}/", "aaaaaaaa")
@example("{v0}{v1*}-{v2}/a", "aa/a-/--a")
def test_never_fewer_than_are_tried(template: str, uri: str) -> None:
    count, fits = tried(uri, template)
    compiled = build_regex(template)
    assert compiled is not None
    assert (compiled.match(uri) is not None) == fits
    assert match_steps(uri, template, ENDLESS) >= count


@pytest.mark.parametrize(
    ("template", "uri"),
    [
        ("flight://{a}-{b}/{c}-{d}/{e}-{f}/seats", "flight://" + "/".join(["-" * 330] * 3) + "/x"),
        ("data://{a*}/{b*}/{c*}/end", "data://" + "a/" * 508),
        ("data://{a}{b}{c}{d}/end", "data://" + "a" * 1000),
        ("data://{a} {b} {c} {d}/end", "data://" + "%20" * 300),
        ("data://{a}é{b}É{c}é{d}/end", "data://" + "%c3%A9%C3%89" * 80),
        ("data://{a}%2d{b}%2D{c}%2d{d}/end", "data://" + "%2D%2d" * 160),
        ("data://{a}%{b}%{c}%{d}/end", "data://" + "%25" * 330),
        ("{a*}:{b*}:{c*}:{d*}/end", ":" * 1000),
        ("data://{a}#{b}#{c}#{d}/end", "data://" + "#" * 1000),
        ("data://{a}-{b}-{c}-{d}/end{?q}", "data://" + "-" * 900 + "?q=1#x"),
    ],
)
def test_what_would_hold_the_loop_is_counted_in_a_moment(template: str, uri: str) -> None:
    assert match_steps(uri, template, ENDLESS) > 50 * MAX_MATCH_STEPS
    assert match_steps(uri, template, MAX_MATCH_STEPS) > MAX_MATCH_STEPS
    assert python_steps(lambda: match_steps(uri, template, MAX_MATCH_STEPS)) < MAX_PYTHON_STEPS


@pytest.mark.parametrize(
    ("template", "uri", "most"),
    [
        ("data://{name}", "other://" + "-" * 1000, 0),
        ("data://open", "data://" + "-" * 1000, 0),
        ("repo://{owner}/{repo}/contents/{path*}", "repo://acme/" + "r" * 100 + "/contents/" + "dir-1/" * 30, 1000),
        ("weather://{city}/{day}", "weather://" + "Saint-Denis-de-la-R%C3%A9union/2025-11-21", 100),
        ("log://{year}-{month}-{day}/{id}", "log://2025-11-21/0193e4a2-1111-7222-8333-444455556666", 200),
        ("x://{a}-{b}/{c}-{d}/{e}-{f}", "x://" + "/".join(["0193e4a2-1111-7222-8333-444455556666"] * 3), 10_000),
        ("x://{bucket}/{key*}.{ext}", "x://b/" + "some.dir/" * 20 + "a.tar.gz", 10_000),
        ("x://{from*}/to/{path*}", "x://" + "a/to/b/" * 28, 20_000),
    ],
)
def test_ordinary_uris_cost_next_to_nothing(template: str, uri: str, most: int) -> None:
    assert match_steps(uri, template, ENDLESS) <= most
