"""The chart of a run, with its calls on a time axis; the list of calls; the script with the calls at their lines."""

from __future__ import annotations

import heapq
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from codecall.traces.escape import (
    MAX_NAME,
    MAX_VALUE,
    ValueBudget,
    escape_attribute,
    escape_html,
    format_duration,
    percent,
    truncate,
)
from codecall.traces.highlight import highlight_lines
from codecall.traces.model import Trace, TraceCall, TraceError

MAX_BARS: Final = 10_000
"""Most calls in the chart."""

MAX_LANES: Final = 120
"""Most lanes of the chart; calls that would need more share the last one."""

HEIGHT: Final = 480
"""Most pixels that all lanes have together, unless that would be less than 4 for each."""

TICKS: Final = 8
"""Most marks of the axis besides its start."""

MAX_LABEL: Final = 60

NAME_FROM_PERCENT: Final = 6.0
"""Share of the axis, in percent, from which the name of the call stands in its bar."""

MAX_CALLS: Final = 2_000
"""Most calls in the list: those that failed or were given up first, then the earliest."""

MAX_SCRIPT: Final = 200_000
"""Most characters of a script on a page: three times the longest that is accepted."""

MAX_AT_LINE: Final = 12
"""Most calls that are named at one line of the script."""

_OUTCOMES: Final = {"ok": "ok", "error": "failed", "unfinished": "given up", "not_started": "never started"}


class ChartBar(NamedTuple):
    """The bar of a call in the chart."""

    call: TraceCall
    start_ms: float
    end_ms: float
    lane: int


def chart(trace: Trace, listed: set[int]) -> Iterator[str]:
    """Render the chart as HTML. `listed` has the numbers of the calls that the page lists."""
    axis_ms = axis_length_ms(trace)
    bars = place_calls(trace.calls, axis_ms)
    drawn_bars = bars[:MAX_BARS]
    lanes = min(MAX_LANES, max((bar.lane for bar in drawn_bars), default=-1) + 1)
    step = max(4, min(22, HEIGHT // max(1, lanes)))
    gap = 4 if step > 12 else 1
    top = 26
    height = top + lanes * step + 4
    at_once = max((bar.lane for bar in bars), default=-1) + 1
    label = f"{len(bars):,} calls in {format_duration(axis_ms)}, up to {at_once:,} at the same time"
    yield f'<p class="quiet">{label}</p>'
    yield f'<div class="chart" id="chart" role="group" aria-label="Chart of {label}; they are listed below">'
    yield f'<svg class="axis" width="100%" height="{height + 20}" aria-hidden="true" focusable="false">'
    for at_ms in axis_ticks(axis_ms):
        x = percent(at_ms, axis_ms)
        anchor = "start" if at_ms == 0 else "end" if at_ms > 0.96 * axis_ms else "middle"
        yield f'<line class="tick" x1="{x}" x2="{x}" y1="0" y2="{height}"/>'
        text = "0" if at_ms == 0 else f"{at_ms:g} ms" if at_ms < 1_000 else f"{at_ms / 1000:g} s"
        yield f'<text class="ticks" x="{x}" y="{height + 14}" text-anchor="{anchor}">{text}</text>'
    yield from _phases(trace, axis_ms)
    for bar in drawn_bars:
        x, width = percent(bar.start_ms, axis_ms), percent(bar.end_ms - bar.start_ms, axis_ms)
        y = top + min(bar.lane, MAX_LANES - 1) * step
        number = bar.call.number
        text = escape_attribute(describe_call(bar.call, bar.start_ms, bar.call.end_ms))
        href = f' href="#call-{number}"' if number in listed else ""
        yield f'<a{href} tabindex="-1" data-call="{number}"><title>{text}</title>'
        yield f'<rect class="bar {bar_class(bar.call)}" x="{x}" y="{y}" width="{width}" height="{step - gap}" rx="2"/>'
        if step > 16 and float(width[:-1]) >= NAME_FROM_PERCENT:
            name = escape_html(truncate(bar.call.name, MAX_LABEL))
            yield f'<svg x="{x}" y="{y}" width="{width}" height="{step - gap}">'
            yield f'<text class="name {bar_class(bar.call)}" x="6" y="13">{_within_svg(name)}</text></svg>'
        yield "</a>"
    yield "</svg></div>"
    yield '<p id="about" class="about" aria-live="polite"></p>'
    yield from _legend(trace)
    if len(bars) > MAX_BARS:
        yield f'<p class="cut">{len(bars) - MAX_BARS:,} later calls are not in the chart.</p>'
    if at_once > MAX_LANES:
        yield f'<p class="cut">More than {MAX_LANES} calls at once: what is beyond shares the last lane.</p>'
    if len(bars) < len(trace.calls):
        missing = len(trace.calls) - len(bars)
        yield f'<p class="cut">{missing:,} calls are not in the chart: it is not known when they began.</p>'


def call_list(
    trace: Trace, listed: Sequence[TraceCall], lines: int, axis_ms: float, budget: ValueBudget
) -> Iterator[str]:
    """Render the list of calls as HTML.

    Args:
        trace: the run.
        listed: the calls that are listed.
        lines: number of lines of the script; 0 if it is not known.
        axis_ms: the length of the time axis in milliseconds.
        budget: limits the characters of values.
    """
    if not trace.calls:
        yield '<p class="quiet">The script made no calls.</p>'
        return
    if len(listed) < len(trace.calls):
        omitted = len(trace.calls) - len(listed)
        rest = f"of {len(trace.calls):,}, those are here that failed, and the earliest of the others"
        yield f'<p class="cut">{omitted:,} calls are not listed: {rest}.</p>'
    yield '<ol class="calls">'
    for call in listed:
        yield from _call(call, lines, axis_ms, budget)
    yield "</ol>"


def script_list(trace: Trace, lines: Sequence[str], listed: Sequence[TraceCall]) -> Iterator[str]:
    """Render the script as HTML, with the calls and the error at their lines."""
    if trace.script is None:
        size = "" if trace.script_chars is None else f"{trace.script_chars:,} characters, "
        digest = (
            ""
            if trace.script_sha256 is None
            else f"SHA-256 <code>{escape_html(truncate(trace.script_sha256, 64))}</code>, "
        )
        yield f'<p class="quiet">{size}{digest}not on record</p>'
        return
    calls_by_line: dict[int, list[TraceCall]] = defaultdict(list)
    for call in trace.calls:
        if call.line is not None:
            calls_by_line[call.line].append(call)
    numbers = {call.number for call in listed}
    error = trace.error
    yield '<ol class="script" tabindex="0" aria-label="Script">'
    for number, line in enumerate(highlight_lines(lines, trace.language), start=1):
        fails = error is not None and error.line == number
        calls = calls_by_line.get(number, [])
        mark = ' class="failing"' if fails else ' class="calling"' if calls else ""
        yield f'<li id="L{number}"{mark}><code>{line}</code>'
        if calls:
            yield from _calls_at_line(calls, numbers)
        if fails and error is not None:
            yield from _failure(error)
        yield "</li>"
    yield "</ol>"
    if len(trace.script) > MAX_SCRIPT:
        yield f'<p class="cut">{len(trace.script) - MAX_SCRIPT:,} more characters are not on this page.</p>'


def axis_length_ms(trace: Trace) -> float:
    """The length of the time axis in milliseconds."""
    ends = [call.end_ms or call.start_ms or 0.0 for call in trace.calls]
    before = (trace.queue_ms or 0.0) + (trace.validation_ms or 0.0)
    return max(0.001, trace.duration_ms or 0.0, before, *ends)


def listed_calls(calls: Sequence[TraceCall]) -> list[TraceCall]:
    """The calls that the page lists, by number."""
    if len(calls) <= MAX_CALLS:
        return list(calls)
    ranked = sorted(calls, key=lambda call: (call.outcome not in ("error", "unfinished"), call.number))
    return sorted(ranked[:MAX_CALLS], key=lambda call: call.number)


def script_lines(trace: Trace) -> list[str]:
    """The lines of the script that the page shows. An empty last line is left out unless the error is there."""
    if trace.script is None:
        return []
    lines = trace.script[:MAX_SCRIPT].split("\n")
    if lines[-1] == "" and (trace.error is None or trace.error.line != len(lines)):
        del lines[-1]
    return lines


def axis_ticks(axis_ms: float) -> list[float]:
    """Round times along an axis of `axis_ms` milliseconds."""
    step = 10.0 ** math.floor(math.log10(axis_ms / TICKS))
    step = next(step * factor for factor in (1, 2, 5, 10) if step * factor * TICKS >= axis_ms)
    return [round(step * number, 9) for number in range(math.floor(axis_ms / step) + 1)]


def place_calls(calls: Sequence[TraceCall], axis_ms: float) -> list[ChartBar]:
    """Place the calls that started, in the order of their start, each in the first lane that is free then."""
    started = [(call.start_ms, call) for call in calls if call.start_ms is not None]
    started.sort(key=lambda each: (each[0], each[1].number))
    busy: list[tuple[float, int]] = []
    free: list[int] = []
    lanes = 0
    bars: list[ChartBar] = []
    for start_ms, call in started:
        while busy and busy[0][0] <= start_ms:
            heapq.heappush(free, heapq.heappop(busy)[1])
        if free:
            lane = heapq.heappop(free)
        else:
            lane, lanes = lanes, lanes + 1
        end_ms = axis_ms if call.end_ms is None else call.end_ms
        heapq.heappush(busy, (end_ms, lane))
        bars.append(ChartBar(call, start_ms, end_ms, lane))
    return bars


def describe_call(call: TraceCall, start_ms: float | None, end_ms: float | None) -> str:
    """One call in a line of text."""
    parts = [f"{call.number}. {truncate(call.name, MAX_LABEL)}"]
    if start_ms is not None:
        parts.append(f"from {format_duration(start_ms)} to {format_duration(end_ms)}")
        if end_ms is not None:
            parts.append(f"took {format_duration(end_ms - start_ms)}")
    parts.append(call.code or call.outcome)
    if call.line is not None:
        parts.append(f"line {call.line}")
    return ", ".join(parts)


def bar_class(call: TraceCall) -> str:
    """The CSS class of a call's bar."""
    if call.reused:
        return "reused"
    return {"error": "error", "unfinished": "unfinished"}.get(call.outcome, "ok")


def row_bar(call: TraceCall, axis_ms: float) -> str:
    """Render the bar of one call in the list."""
    if call.start_ms is None:
        return '<span class="track"></span>'
    end_ms = axis_ms if call.end_ms is None else call.end_ms
    x, width = percent(call.start_ms, axis_ms), percent(end_ms - call.start_ms, axis_ms)
    return (
        '<svg class="track" width="100%" height="10" aria-hidden="true" focusable="false">'
        f'<rect class="bar {bar_class(call)}" x="{x}" y="1" width="{width}" height="8" rx="2"/></svg>'
    )


def _phases(trace: Trace, axis_ms: float) -> Iterator[str]:
    """Bars for what came before the script started: the wait for a worker, and validation."""
    queue_ms, validation_ms = trace.queue_ms or 0.0, trace.validation_ms or 0.0
    for name, title, start_ms, duration_ms in (
        ("queue", "Wait for a worker", 0.0, queue_ms),
        ("validation", "Validation", queue_ms, validation_ms),
    ):
        if duration_ms > 0:
            x, width = percent(start_ms, axis_ms), percent(duration_ms, axis_ms)
            yield f"<g><title>{title}: {format_duration(duration_ms)}</title>"
            yield f'<rect class="bar {name}" x="{x}" y="4" width="{width}" height="14" rx="2"/></g>'


def _legend(trace: Trace) -> Iterator[str]:
    kinds = {bar_class(call) for call in trace.calls if call.start_ms is not None}
    names = {
        "queue": f"wait for a worker, {format_duration(trace.queue_ms)}" if trace.queue_ms else "",
        "validation": f"validation, {format_duration(trace.validation_ms)}" if trace.validation_ms else "",
        "ok": "call" if "ok" in kinds else "",
        "error": "call that failed" if "error" in kinds else "",
        "unfinished": "given up" if "unfinished" in kinds else "",
        "reused": "answered from an earlier run" if "reused" in kinds else "",
    }
    yield '<ul class="legend">'
    for kind, text in names.items():
        if text:
            yield '<li><svg width="14" height="10" aria-hidden="true" focusable="false">'
            yield f'<rect class="bar {kind}" x="1" y="1" width="12" height="8"/></svg>{text}</li>'
    yield "</ul>"


def _within_svg(text: str) -> str:
    """Turn HTML of a name into what SVG takes, which has other elements."""
    return text.replace('<span class="odd">', '<tspan class="odd">').replace("</span>", "</tspan>")


def _call(call: TraceCall, lines: int, axis_ms: float, budget: ValueBudget) -> Iterator[str]:
    outcome = _OUTCOMES.get(call.outcome, call.outcome)
    duration_ms = None if call.start_ms is None or call.end_ms is None else call.end_ms - call.start_ms
    yield f'<li id="call-{call.number}" class="call"><details><summary>'
    name = escape_html(truncate(call.name, MAX_NAME))
    yield f'<span class="number">{call.number}</span><bdi class="called">{name}</bdi>'
    yield row_bar(call, axis_ms)
    yield f'<span class="took">{format_duration(duration_ms)}</span>'
    mood = "good" if call.outcome == "ok" else "bad"
    outcome_html = "reused" if call.reused else escape_html(truncate(outcome, MAX_NAME))
    yield f'<span class="outcome {mood}">{outcome_html}</span></summary><div class="body"><dl class="facts">'
    if call.called != "tool":
        yield f"<div><dt>Kind</dt><dd>{escape_html(call.called)}</dd></div>"
    if call.start_ms is not None:
        yield f"<div><dt>From</dt><dd>{format_duration(call.start_ms)}</dd></div>"
        yield f"<div><dt>To</dt><dd>{format_duration(call.end_ms)}</dd></div>"
    if call.line is not None:
        place = f"line {call.line}" + ("" if call.column is None else f", column {call.column}")
        link = f'<a href="#L{call.line}">{place}</a>' if 1 <= call.line <= lines else place
        yield f"<div><dt>Made at</dt><dd>{link}</dd></div>"
    if call.code is not None:
        yield f"<div><dt>Error</dt><dd><code>{escape_html(truncate(call.code, MAX_NAME))}</code></dd></div>"
    yield "</dl>"
    yield f"<h3>Input</h3>{budget.render(call.input)}"
    if call.outcome == "ok":
        yield f"<h3>Result</h3>{budget.render(call.result)}"
    yield "</div></details></li>"


def _calls_at_line(calls: Sequence[TraceCall], listed: set[int]) -> Iterator[str]:
    yield '<span class="made">'
    for call in calls[:MAX_AT_LINE]:
        text = f"{call.number}"
        mood = ' class="bad"' if call.outcome != "ok" else ""
        if call.number in listed:
            yield f'<a href="#call-{call.number}"{mood} aria-label="Call {call.number}">{text}</a>'
        else:
            yield f"<span{mood}>{text}</span>"
    if len(calls) > MAX_AT_LINE:
        yield f'<span class="more">and {len(calls) - MAX_AT_LINE:,} more</span>'
    yield "</span>"


def _failure(error: TraceError) -> Iterator[str]:
    at = "" if error.column is None else f" at column {error.column}"
    message = f": {escape_html(truncate(error.message, MAX_VALUE))}" if error.message else ""
    code = escape_html(truncate(error.code, MAX_NAME))
    yield f'<div class="failure" role="note"><p><strong>{code}</strong>{at}{message}</p>'
    if error.hint:
        yield f'<p class="hint">{escape_html(truncate(error.hint, MAX_VALUE))}</p>'
    yield "</div>"
