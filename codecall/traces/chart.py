"""The chart of a run: its calls on a time axis, each in the first lane that is free."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from codecall.traces.showing import cut, duration, percent, plain, shown
from codecall.traces.trace import Trace, TracedCall

MAX_BARS: Final = 10_000
"""Calls in the chart."""

MAX_LANES: Final = 120
"""Lanes of the chart; calls that would need more of them share the last one."""

HEIGHT: Final = 480
"""Pixels that all lanes have at most, unless that would be less than 4 for each."""

TICKS: Final = 8
"""Marks of the axis at most, beside its beginning."""

MAX_LABEL: Final = 60
NAMED: Final = 6.0
"""Share of the axis, in percent, from which a bar has its name in it."""


class Placed(NamedTuple):
    """A call in the chart."""

    call: TracedCall
    start_ms: float
    end_ms: float
    lane: int


def whole_of(trace: Trace) -> float:
    """Milliseconds that the axis is long."""
    ends = [call.end_ms or call.start_ms or 0.0 for call in trace.calls]
    before = (trace.queue_ms or 0.0) + (trace.validation_ms or 0.0)
    return max(0.001, trace.duration_ms or 0.0, before, *ends)


def ticks(whole: float) -> list[float]:
    """Round times along an axis of so many milliseconds."""
    step = 10.0 ** math.floor(math.log10(whole / TICKS))
    step = next(step * factor for factor in (1, 2, 5, 10) if step * factor * TICKS >= whole)
    return [round(step * number, 9) for number in range(math.floor(whole / step) + 1)]


def placed(calls: Sequence[TracedCall], whole: float) -> list[Placed]:
    """The calls that began, by their beginning, each in the first lane that is free then."""
    began = sorted((call.start_ms, call.number, call) for call in calls if call.start_ms is not None)
    busy: list[tuple[float, int]] = []
    free: list[int] = []
    lanes = 0
    told: list[Placed] = []
    for start_ms, _, call in began:
        while busy and busy[0][0] <= start_ms:
            heapq.heappush(free, heapq.heappop(busy)[1])
        if free:
            lane = heapq.heappop(free)
        else:
            lane, lanes = lanes, lanes + 1
        end_ms = whole if call.end_ms is None else call.end_ms
        heapq.heappush(busy, (end_ms, lane))
        told.append(Placed(call, start_ms, end_ms, lane))
    return told


def sentence(call: TracedCall, start_ms: float | None, end_ms: float | None) -> str:
    """One call in a line of text."""
    told = [f"{call.number}. {cut(call.name, MAX_LABEL)}"]
    if start_ms is not None:
        told.append(f"from {duration(start_ms)} to {duration(end_ms)}")
        if end_ms is not None:
            told.append(f"took {duration(end_ms - start_ms)}")
    told.append(call.code or call.outcome)
    if call.line is not None:
        told.append(f"line {call.line}")
    return ", ".join(told)


def kind_of(call: TracedCall) -> str:
    """The class of a call's bar."""
    if call.reused:
        return "reused"
    return {"error": "error", "unfinished": "unfinished"}.get(call.outcome, "ok")


def chart(trace: Trace, listed: set[int]) -> Iterator[str]:
    """The chart as HTML. `listed`: numbers of the calls that the page lists."""
    whole = whole_of(trace)
    bars = placed(trace.calls, whole)
    shown_bars = bars[:MAX_BARS]
    lanes = min(MAX_LANES, max((bar.lane for bar in shown_bars), default=-1) + 1)
    step = max(4, min(22, HEIGHT // max(1, lanes)))
    gap = 4 if step > 12 else 1
    top = 26
    height = top + lanes * step + 4
    at_once = max((bar.lane for bar in bars), default=-1) + 1
    label = f"{len(bars):,} calls in {duration(whole)}, up to {at_once:,} at the same time"
    yield f'<p class="quiet">{label}</p>'
    yield f'<div class="chart" id="chart" role="group" aria-label="Chart of {label}; they are listed below">'
    yield f'<svg class="axis" width="100%" height="{height + 20}" aria-hidden="true" focusable="false">'
    for at_ms in ticks(whole):
        x = percent(at_ms, whole)
        anchor = "start" if at_ms == 0 else "end" if at_ms > 0.96 * whole else "middle"
        yield f'<line class="tick" x1="{x}" x2="{x}" y1="0" y2="{height}"/>'
        text = "0" if at_ms == 0 else f"{at_ms:g} ms" if at_ms < 1_000 else f"{at_ms / 1000:g} s"
        yield f'<text class="ticks" x="{x}" y="{height + 14}" text-anchor="{anchor}">{text}</text>'
    yield from _phases(trace, whole)
    for bar in shown_bars:
        x, width = percent(bar.start_ms, whole), percent(bar.end_ms - bar.start_ms, whole)
        y = top + min(bar.lane, MAX_LANES - 1) * step
        number = bar.call.number
        text = plain(sentence(bar.call, bar.start_ms, bar.call.end_ms))
        href = f' href="#call-{number}"' if number in listed else ""
        yield f'<a{href} tabindex="-1" data-call="{number}"><title>{text}</title>'
        yield f'<rect class="bar {kind_of(bar.call)}" x="{x}" y="{y}" width="{width}" height="{step - gap}" rx="2"/>'
        if step > 16 and float(width[:-1]) >= NAMED:
            name = shown(cut(bar.call.name, MAX_LABEL))
            yield f'<svg x="{x}" y="{y}" width="{width}" height="{step - gap}">'
            yield f'<text class="name {kind_of(bar.call)}" x="6" y="13">{_within_svg(name)}</text></svg>'
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


def row_bar(call: TracedCall, whole: float) -> str:
    """The bar of one call in the list."""
    if call.start_ms is None:
        return '<span class="track"></span>'
    end_ms = whole if call.end_ms is None else call.end_ms
    x, width = percent(call.start_ms, whole), percent(end_ms - call.start_ms, whole)
    return (
        '<svg class="track" width="100%" height="10" aria-hidden="true" focusable="false">'
        f'<rect class="bar {kind_of(call)}" x="{x}" y="1" width="{width}" height="8" rx="2"/></svg>'
    )


def _phases(trace: Trace, whole: float) -> Iterator[str]:
    """What came before the script began: the wait for a worker, and validation."""
    queue_ms, validation_ms = trace.queue_ms or 0.0, trace.validation_ms or 0.0
    for name, what, start, took in (
        ("queue", "Wait for a worker", 0.0, queue_ms),
        ("validation", "Validation", queue_ms, validation_ms),
    ):
        if took > 0:
            x, width = percent(start, whole), percent(took, whole)
            yield f"<g><title>{what}: {duration(took)}</title>"
            yield f'<rect class="bar {name}" x="{x}" y="4" width="{width}" height="14" rx="2"/></g>'


def _legend(trace: Trace) -> Iterator[str]:
    kinds = {kind_of(call) for call in trace.calls if call.start_ms is not None}
    names = {
        "queue": f"wait for a worker, {duration(trace.queue_ms)}" if trace.queue_ms else "",
        "validation": f"validation, {duration(trace.validation_ms)}" if trace.validation_ms else "",
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
    """HTML of a name for the inside of an SVG, which knows other elements."""
    return text.replace('<span class="odd">', '<tspan class="odd">').replace("</span>", "</tspan>")
