"""The page of a run as text: hostile texts stay in their places, nothing is left out without a word."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codecall.traces import Trace, render
from codecall.traces.chart import MAX_AT_LINE, MAX_BARS, MAX_CALLS, MAX_LANES, MAX_SCRIPT, axis_ticks, place_calls
from codecall.traces.escape import MAX_VALUE, MAX_VALUES, escape_html, format_amount, format_duration
from codecall.traces.graph import place_steps
from codecall.traces.highlight import CLASSES, highlight_lines
from codecall.traces.model import ConsoleLine, LimitUsage, TraceCall, TraceValue
from tests.traces.examples import ATTACKS, many, written

VOID = {"meta", "rect", "line"}


class Outline(HTMLParser):
    """The elements of a page, without those that spell out a character."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, tuple[tuple[str, str | None], ...]]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        if ("class", "odd") not in attrs and not (tag == "span" and attrs in ([("class", name)] for name in CLASSES)):
            known = {"class", "id", "href", "src", "style", "for", "role", "data-call"}
            self.elements.append((tag, tuple((name, value if name in known else "") for name, value in attrs)))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] not in (["style"], ["script"]):
            self.text += data


def outline(page: str) -> Outline:
    return Outline(page.removeprefix("<!doctype html>"))


NEUTRAL = outline(render(written("x")))


# What ends a line of a script changes how many there are, and so it should.
hostile = st.lists(
    st.one_of(st.sampled_from(ATTACKS), st.text(st.characters(exclude_characters="\n"))), min_size=1
).map(lambda parts: f"x{''.join(parts)}")


@settings(max_examples=60, deadline=None)
@given(hostile)
def test_no_text_leaves_its_place(text: str):
    page = render(written(text))
    page.encode()  # no half of a surrogate pair is left
    assert outline(page).elements == NEUTRAL.elements


@settings(deadline=None)
@given(st.text())
def test_texts_read_as_they_were_written(text: str):
    document = re.sub(
        r'<span class="odd">U\+([0-9A-F]+)</span>', lambda matches: f"\0{int(matches[1], 16)}\0", escape_html(text)
    )
    assert "<" not in document
    assert re.sub("\0(\\d+)\0", lambda matches: chr(int(matches[1])), html.unescape(document)) == text


def test_a_page_needs_nothing_else_and_allows_nothing_else():
    page = render(written("x"))
    matches = outline(page)
    assert not any(name in ("src", "style", "srcset") for _, attrs in matches.elements for name, _ in attrs)
    hrefs = [value for _, attrs in matches.elements for name, value in attrs if name == "href"]
    assert hrefs
    assert all((value or "").startswith("#") for value in hrefs)
    assert "http:" not in page
    assert "https:" not in page
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    assert policy is not None
    rules = dict(rule.strip().split(" ", 1) for rule in policy[1].split(";"))
    assert rules.keys() == {"default-src", "style-src", "script-src", "base-uri", "form-action"}
    for kind in ("style", "script"):
        (inside,) = re.findall(f"<{kind}>(.*?)</{kind}>", page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
        assert rules[f"{kind}-src"] == f"'sha256-{digest}'"
    assert {rules[name] for name in ("default-src", "base-uri", "form-action")} == {"'none'"}


def test_every_link_leads_somewhere():
    for trace in (written("x"), many(60, 6_000)):
        matches = outline(render(trace))
        ids = [value for _, attrs in matches.elements for name, value in attrs if name == "id"]
        assert len(ids) == len(set(ids))
        links = {value for _, attrs in matches.elements for name, value in attrs if name == "href"}
        assert {link[1:] for link in links if link} <= set(ids)


def test_an_unknown_run_has_a_page():
    page = outline(render(Trace("run_1")))
    assert "run_1" in page.text
    assert "unfinished" in page.text
    assert "The script made no calls" in page.text


def test_the_failing_line_says_what_failed():
    page = render(written("x"))
    line = re.search(r'<li id="L2" class="failing">(.*?)</li>', page, re.DOTALL)
    assert line is not None
    document = outline(line[1]).text
    assert "x at column 4: x" in document
    assert re.findall(r'href="#call-(\d+)"', line[1]) == ["2", "5"]


# ------------------------------------------------------------------------------------------------------- bounds


def test_many_calls_and_long_results_are_cut_and_it_is_said():
    trace = many(12_000, 8_000_000)
    document = page = render(trace)
    assert len(page) < 14_000_000
    failed = sum(call.outcome == "error" for call in trace.calls)
    assert f"{12_000 - MAX_CALLS:,} calls are not listed: of 12,000" in document
    assert f"{12_000 - MAX_BARS:,} later calls are not in the chart" in document
    assert page.count('<span class="outcome bad">') == failed
    assert f"and {12_000 // 30 - MAX_AT_LINE:,} more" in document
    assert page.count('<li id="call-') == MAX_CALLS


def test_long_values_are_cut_and_it_is_said():
    calls = tuple(TraceCall(n, "tool", "t", input=TraceValue("v" * 30_000, True, 30_002)) for n in range(1, 200))
    page = render(Trace("run_1", script="a" * (MAX_SCRIPT + 5), calls=calls))
    document = outline(page).text
    assert f"{30_000 - MAX_VALUE:,} more characters are not on this page." in document
    assert "since all values of this page together are too much" in document
    assert "199 values are cut or left out on this page" in document
    assert document.count("v") - document.count("value") - document.count("v ") < MAX_VALUES + 1_000
    assert "5 more characters are not on this page" in document


def test_a_long_console_is_cut_and_it_is_said():
    page = render(Trace("run_1", console=tuple(ConsoleLine("y" * 200) for _ in range(6_000))))
    assert page.count("y" * 200) == 2_500
    assert "3,500 more lines are not on this page" in page


def test_more_calls_at_once_than_lanes():
    calls = tuple(TraceCall(n, "tool", "t", 1.0, 9.0) for n in range(1, MAX_LANES + 30))
    assert f"More than {MAX_LANES} calls at once" in render(Trace("run_1", calls=calls))


# -------------------------------------------------------------------------------------------------------- chart

times = st.floats(0, 1_000, allow_nan=False)


@given(st.lists(st.tuples(times, st.none() | times), max_size=40))
def test_calls_that_overlap_are_in_different_lanes(spans: list[tuple[float, float | None]]):
    calls = [TraceCall(n, "tool", "t", at, None if took is None else at + took) for n, (at, took) in enumerate(spans)]
    bars = place_calls(calls, 2_000)
    assert len(bars) == len(calls)
    for place, bar in enumerate(bars):
        for other in bars[:place]:
            if other.end_ms > bar.start_ms:
                assert other.lane != bar.lane
    # No lane more than calls that run at the same time.
    most = max(
        (sum(b.start_ms <= bar.start_ms < b.end_ms or b is bar for b in bars) for bar in bars),
        default=0,
    )
    assert max((bar.lane + 1 for bar in bars), default=0) <= max(most, 0)


def test_calls_of_one_number_that_begin_together_are_placed():
    """A record that somebody else wrote may have such."""
    calls = [TraceCall(1, "tool", "t", 5.0, 6.0, code="b"), TraceCall(1, "tool", "t", 5.0, 6.0, code="a")]
    assert [bar.lane for bar in place_calls(calls, 10)] == [0, 1]


@given(st.floats(0.001, 1e9))
def test_marks_of_the_axis_are_few_and_within(whole: float):
    marks = axis_ticks(whole)
    assert 1 <= len(marks) <= 10
    assert marks[0] == 0
    assert marks[-1] <= whole * 1.000001


@pytest.mark.parametrize(
    ("value", "unit", "document"),
    [
        (12.34, "ms", "12.3 ms"),
        (999, "ms", "999 ms"),
        (1_250, "ms", "1.25 s"),
        (3_600_000, "ms", "3,600 s"),
        (1_000_000, "", "1,000,000"),
        (64 * 1024 * 1024, "bytes", "64 MiB"),
        (1536, "bytes", "1.5 KiB"),
        (7, "bytes", "7 bytes"),
    ],
)
def test_numbers_are_written_for_people(value: float, unit: str, document: str):
    assert format_amount(value, unit) == document
    assert format_duration(None) == "—"


def test_limits_say_what_was_used_of_what():
    limits = (
        LimitUsage("Steps", "", 950, 1_000),
        LimitUsage("Tool calls", "", 3, 3),
        LimitUsage("Memory", "bytes", None, 1024),
    )
    page = render(replace(Trace("run_1"), limits=limits))
    assert re.findall(r'<rect class="gauge (\w+)" x="0" y="1" width="([\d.]+)%"', page) == [
        ("high", "95.000"),
        ("full", "100.000"),
    ]
    assert "not measured" in page


def test_the_name_of_the_file_stands_in_the_title() -> None:
    page = render(replace(written("return 1"), name="report<b>.js"))
    assert "<title>report&lt;b&gt;.js: " in page
    assert "<h1><bdi>report&lt;b&gt;.js</bdi></h1>" in page
    assert written("return 1").run_id in page


def test_scripts_are_coloured_line_by_line() -> None:
    lines = ["const a = `one", "two`; /* three", "four */ return a1 + 12; // end", 'x = { if: "a\\"b" }']
    assert highlight_lines(lines) == [
        '<span class="keyword">const</span> a = <span class="text">`one</span>',
        '<span class="text">two`</span>; <span class="comment">/* three</span>',
        '<span class="comment">four */</span> <span class="keyword">return</span> a1 + <span class="number">12</span>; '
        '<span class="comment">// end</span>',
        'x = { if: <span class="text">&quot;a\\&quot;b&quot;</span> }',
    ]


def test_starlark_is_coloured_as_what_it_is() -> None:
    lines = ["# one // two", 'return """a', '# b""" // \'c\'']
    assert highlight_lines(lines, "starlark") == [
        '<span class="comment"># one // two</span>',
        '<span class="keyword">return</span> <span class="text">&quot;&quot;&quot;a</span>',
        '<span class="text"># b&quot;&quot;&quot;</span> // <span class="text">&#x27;c&#x27;</span>',
    ]


@pytest.mark.parametrize("language", ["javascript", "starlark"])
@given(st.text(alphabet="ab/*`'\"\\\n1<& #const", max_size=60))
def test_colours_change_no_character(language: str, script: str) -> None:
    lines = highlight_lines(script.split("\n"), language)
    plain = [html.unescape(re.sub(r"<[^>]*>", "", line)) for line in lines]
    assert plain == script.split("\n")


def test_the_steps_of_a_composite_tool_are_a_graph():
    steps = [
        {"id": "a", "tool": "read"},
        {"id": "b", "type": "forEach", "step": {"tool": "scan"}, "dependsOn": ["a"]},
        {"id": "c", "tool": "<script>\u202e", "dependsOn": ["a", "nowhere"]},
        {"id": "d", "tool": "write", "dependsOn": ["b", "c"]},
    ]
    placed = place_steps(steps)
    assert [(step.column, step.row) for step in placed.values()] == [(0, 0), (1, 0), (1, 1), (2, 0)]
    trace = Trace(
        "run_1",
        script=json.dumps({"name": "flow", "steps": steps}),
        language="workflow",
        steps={"a": "completed", "b": "failed"},
    )
    page = outline(render(trace))
    drawn = [dict(attributes)["class"] for name, attributes in page.elements if name == "g"]
    assert [mood for mood in drawn if mood and mood.startswith("step")] == [
        "step good",
        "step bad",
        "step quiet",
        "step quiet",
    ]
    assert sum(name == "line" and ("class", "edge") in attributes for name, attributes in page.elements) == 4
    for text in ("for each: scan · failed", "<script>[U+202E] · not recorded"):
        assert text in page.text
    assert "Steps" not in outline(render(replace(trace, language="javascript"))).text


@pytest.mark.parametrize("script", [None, "{", "[]", '{"steps": 5}', '{"steps": [{"id": "a", "dependsOn": ["a"]}, 7]}'])
def test_a_definition_that_is_none_does_no_harm(script: str | None):
    assert "Script" in outline(render(Trace("run_1", script=script, language="workflow"))).text
