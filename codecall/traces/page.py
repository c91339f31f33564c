"""One run as one HTML page: needs no other file, asks for nothing over the network, and opens without JavaScript.

Its Content-Security-Policy allows the one style and the one script below, by their hashes, and nothing else.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from typing import Final

from codecall.traces.chart import axis_length_ms, call_list, chart, listed_calls, script_lines, script_list
from codecall.traces.escape import (
    MAX_NAME,
    MAX_VALUE,
    ValueBudget,
    escape_attribute,
    escape_html,
    format_amount,
    format_duration,
    percent,
    truncate,
)
from codecall.traces.graph import step_graph
from codecall.traces.model import LimitUsage, Trace

MAX_TEXTS: Final = 500_000
"""Most characters of the console on a page."""

MAX_LINES: Final = 5_000
"""Most console lines on a page."""

MAX_WARNINGS: Final = 100
MAX_WARNING: Final = 2_000
"""Most characters of one warning."""

_GOOD: Final = ("ok",)


def render(trace: Trace) -> str:
    """Render the page of a run. Takes some milliseconds, a second or two if there is very much on it."""
    return "".join(_page(trace))


def _page(trace: Trace) -> Iterator[str]:
    style, script = _asset("page.css"), _asset("page.js")
    policy = (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; base-uri 'none'; "
        "form-action 'none'"
    )
    yield '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
    yield f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
    yield '<meta name="referrer" content="no-referrer"><meta name="color-scheme" content="light dark">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    title, status = (escape_attribute(truncate(text, MAX_NAME)) for text in (trace.name or trace.run_id, trace.status))
    yield f"<title>{title}: {status}</title>"
    yield f"<style>{style}</style></head><body>"
    yield from _head(trace)
    yield "<main>"
    yield from _error(trace)
    yield from _notes(trace)
    axis_ms = axis_length_ms(trace)
    listed = listed_calls(trace.calls)
    lines = script_lines(trace)
    budget = ValueBudget()
    if trace.calls or trace.queue_ms or trace.duration_ms:
        yield from _section("timeline", "Timeline", chart(trace, {call.number for call in listed}))
    graph = list(step_graph(trace))
    if graph:
        yield from _section("steps", "Steps", iter(graph))
    yield from _section("script", "Script", script_list(trace, lines, listed))
    # Before the calls: when the budget is short, they are what can be many.
    outcome = list(_result(trace, budget))
    buttons = '<button type="button" data-fold="open" hidden>Open all</button>'
    buttons += '<button type="button" data-fold="" hidden>Close all</button>'
    calls = call_list(trace, listed, len(lines), axis_ms, budget)
    yield from _section("calls", "Calls", calls, buttons if listed else "")
    yield from _section("console", "Console", _console(trace))
    if outcome:
        yield from _section("result", "Result", iter(outcome))
    if trace.limits:
        yield from _section("limits", "Limits", _limits(trace.limits))
    if budget.truncated:
        yield f'<p class="cut">{budget.truncated:,} values are cut or left out on this page; each says so.</p>'
    yield "</main><footer><p>Written by CodeCall. This page asks for nothing over the network.</p></footer>"
    yield f"<script>{script}</script></body></html>\n"


def _section(name: str, title: str, content: Iterator[str], more: str = "") -> Iterator[str]:
    yield f'<section aria-labelledby="{name}"><div class="title"><h2 id="{name}">{title}</h2>{more}</div>'
    yield from content
    yield "</section>"


def _head(trace: Trace) -> Iterator[str]:
    mood = "good" if trace.status in _GOOD else "bad"
    yield '<header><div class="title"><div><p class="kind">CodeCall run</p>'
    yield f"<h1><bdi>{escape_html(truncate(trace.name or trace.run_id, MAX_NAME))}</bdi></h1></div>"
    yield f'<span class="status {mood}">{escape_html(truncate(trace.status.replace("_", " "), MAX_NAME))}</span>'
    yield '<button type="button" id="theme" aria-pressed="false" hidden>Dark theme</button></div><dl class="facts">'
    when = None if trace.when is None else datetime.fromtimestamp(trace.when, UTC)
    facts = {
        "Run": f"<code>{escape_html(truncate(trace.run_id, MAX_NAME))}</code>" if trace.name else "",
        "Began": "" if when is None else f"{when:%Y-%m-%d %H:%M:%S} UTC",
        "Took": "" if trace.duration_ms is None else format_duration(trace.duration_ms),
        "Calls": f"{len(trace.calls):,}",
        "Tool": "" if trace.tool in (None, "codecall:execute") else escape_html(truncate(trace.tool, MAX_NAME)),
        "Preset": escape_html(truncate(trace.preset or "", MAX_NAME)),
        "Caller": f'<code title="{escape_attribute(truncate(trace.caller, MAX_NAME))}">'
        f"{escape_html(trace.caller[:12])}…</code>"
        if trace.caller
        else "",
        "Takes up": escape_html(truncate(trace.resumed_from or "", MAX_NAME)),
        "Kind": "dry run: no calls were made" if trace.dry_run else "",
    }
    for name, value in facts.items():
        if value:
            yield f"<div><dt>{name}</dt><dd>{value}</dd></div>"
    yield "</dl></header>"


def _error(trace: Trace) -> Iterator[str]:
    error = trace.error
    if error is None:
        return
    code = escape_html(truncate(error.code, MAX_NAME))
    name = f" <bdi>{escape_html(truncate(error.name, MAX_NAME))}</bdi>" if error.name else ""
    yield f'<section class="error" aria-labelledby="failed"><h2 id="failed">{code}{name}</h2>'
    if error.message:
        yield f'<p class="message">{escape_html(truncate(error.message, MAX_VALUE))}</p>'
    if error.hint:
        yield f'<p class="hint">{escape_html(truncate(error.hint, MAX_VALUE))}</p>'
    if error.line is not None:
        place = f"line {error.line}" + ("" if error.column is None else f", column {error.column}")
        inside = error.line <= len(script_lines(trace))
        yield f'<p><a href="#L{error.line}">{place}</a></p>' if inside else f"<p>{place}</p>"
    yield "</section>"


def _notes(trace: Trace) -> Iterator[str]:
    for title, texts in (("Warnings", trace.warnings), ("Not on record", trace.notes)):
        if texts:
            items = "".join(f"<li>{escape_html(truncate(text, MAX_WARNING))}</li>" for text in texts[:MAX_WARNINGS])
            more = "" if len(texts) <= MAX_WARNINGS else f"<li>and {len(texts) - MAX_WARNINGS:,} more</li>"
            yield f'<section class="notes"><h2>{title}</h2><ul>{items}{more}</ul></section>'


def _console(trace: Trace) -> Iterator[str]:
    if not trace.console:
        yield '<p class="quiet">Nothing.</p>'
        return
    remaining, lines = MAX_TEXTS, 0
    yield '<ol class="console">'
    for line in trace.console[:MAX_LINES]:
        if len(line.text) > remaining:
            break
        remaining -= len(line.text)
        lines += 1
        at = "" if line.at_ms is None else format_duration(line.at_ms)
        yield f'<li><span class="at">{at}</span><span class="said">{escape_html(line.text)}</span></li>'
    yield "</ol>"
    if lines < len(trace.console):
        yield f'<p class="cut">{len(trace.console) - lines:,} more lines are not on this page.</p>'


def _result(trace: Trace, budget: ValueBudget) -> Iterator[str]:
    if trace.error is not None or trace.status != "ok":
        return
    if trace.has_stored_result:
        yield '<p class="quiet">Too large for the answer; it was kept for later.</p>'
    yield budget.render(trace.result)


def _limits(limits: tuple[LimitUsage, ...]) -> Iterator[str]:
    yield '<table class="limits"><thead><tr><th scope="col">Limit</th>'
    yield '<th scope="col"><span class="unseen">Share</span></th>'
    yield '<th scope="col">Used</th><th scope="col">Allowed</th></tr></thead><tbody>'
    for limit in limits:
        used = "not measured" if limit.used is None else format_amount(limit.used, limit.unit)
        allowed = "—" if limit.allowed is None else format_amount(limit.allowed, limit.unit)
        yield f'<tr><th scope="row">{limit.name}</th><td class="share">'
        if limit.used is not None and limit.allowed:
            share = limit.used / limit.allowed
            mood = "full" if share >= 1 else "high" if share >= 0.8 else "low"
            yield '<svg class="track" width="100%" height="10" aria-hidden="true" focusable="false">'
            width = percent(limit.used, limit.allowed)
            yield f'<rect class="gauge {mood}" x="0" y="1" width="{width}" height="8" rx="2"/></svg>'
        yield f"</td><td>{used}</td><td>{allowed}</td></tr>"
    yield "</tbody></table>"


@cache
def _asset(name: str) -> str:
    return files("codecall.traces").joinpath(name).read_text(encoding="utf-8").strip()


@cache
def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
