"""The calls of a run as a list, and its script with the calls at their lines."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

from codecall.traces.chart import row_bar
from codecall.traces.showing import MAX_NAME, MAX_VALUE, Room, cut, duration, shown
from codecall.traces.trace import Problem, Trace, TracedCall

MAX_CALLS: Final = 2_000
"""Calls in the list: those that failed or were given up first, then the earliest."""

MAX_SCRIPT: Final = 200_000
"""Characters of a script on a page: three times the longest that is taken."""

MAX_AT_LINE: Final = 12
"""Calls that one line of the script names."""

_OUTCOMES: Final = {"ok": "ok", "error": "failed", "unfinished": "given up", "not_started": "never started"}


def listed_of(calls: Sequence[TracedCall]) -> list[TracedCall]:
    """The calls that are listed, by number."""
    if len(calls) <= MAX_CALLS:
        return list(calls)
    ranked = sorted(calls, key=lambda call: (call.outcome not in ("error", "unfinished"), call.number))
    return sorted(ranked[:MAX_CALLS], key=lambda call: call.number)


def call_list(trace: Trace, listed: Sequence[TracedCall], lines: int, whole: float, room: Room) -> Iterator[str]:
    """The list of calls as HTML.

    Args:
        trace: the run.
        listed: those of its calls that are listed.
        lines: of the script, as far as it is known.
        whole: milliseconds that the axis is long.
        room: what is left for values.
    """
    if not trace.calls:
        yield '<p class="quiet">The script made no calls.</p>'
        return
    if len(listed) < len(trace.calls):
        left_out = len(trace.calls) - len(listed)
        rest = f"of {len(trace.calls):,}, those are here that failed, and the earliest of the others"
        yield f'<p class="cut">{left_out:,} calls are not listed: {rest}.</p>'
    yield '<ol class="calls">'
    for call in listed:
        yield from _call(call, lines, whole, room)
    yield "</ol>"


def _call(call: TracedCall, lines: int, whole: float, room: Room) -> Iterator[str]:
    outcome = _OUTCOMES.get(call.outcome, call.outcome)
    took = None if call.start_ms is None or call.end_ms is None else call.end_ms - call.start_ms
    yield f'<li id="call-{call.number}" class="call"><details><summary>'
    yield f'<span class="number">{call.number}</span><bdi class="called">{shown(cut(call.name, MAX_NAME))}</bdi>'
    yield row_bar(call, whole)
    yield f'<span class="took">{duration(took)}</span>'
    mood = "good" if call.outcome == "ok" else "bad"
    told = "reused" if call.reused else shown(cut(outcome, MAX_NAME))
    yield f'<span class="outcome {mood}">{told}</span></summary><div class="body"><dl class="facts">'
    if call.called != "tool":
        yield f"<div><dt>Kind</dt><dd>{shown(call.called)}</dd></div>"
    if call.start_ms is not None:
        yield f"<div><dt>From</dt><dd>{duration(call.start_ms)}</dd></div>"
        yield f"<div><dt>To</dt><dd>{duration(call.end_ms)}</dd></div>"
    if call.line is not None:
        place = f"line {call.line}" + ("" if call.column is None else f", column {call.column}")
        link = f'<a href="#L{call.line}">{place}</a>' if 1 <= call.line <= lines else place
        yield f"<div><dt>Made at</dt><dd>{link}</dd></div>"
    if call.code is not None:
        yield f"<div><dt>Error</dt><dd><code>{shown(cut(call.code, MAX_NAME))}</code></dd></div>"
    yield "</dl>"
    yield f"<h3>Input</h3>{room.value(call.input)}"
    if call.outcome == "ok":
        yield f"<h3>Result</h3>{room.value(call.result)}"
    yield "</div></details></li>"


def lines_of(trace: Trace) -> list[str]:
    """The lines of the script, as places in it count them; as many as fit. An empty last one if something is there."""
    if trace.script is None:
        return []
    lines = trace.script[:MAX_SCRIPT].split("\n")
    if lines[-1] == "" and (trace.error is None or trace.error.line != len(lines)):
        del lines[-1]
    return lines


def script_list(trace: Trace, lines: Sequence[str], listed: Sequence[TracedCall]) -> Iterator[str]:
    """The script as HTML, with the calls and the failure at their lines."""
    if trace.script is None:
        size = "" if trace.script_chars is None else f"{trace.script_chars:,} characters, "
        digest = "" if trace.script_sha256 is None else f"SHA-256 <code>{shown(cut(trace.script_sha256, 64))}</code>, "
        yield f'<p class="quiet">{size}{digest}not on record</p>'
        return
    made: dict[int, list[TracedCall]] = defaultdict(list)
    for call in trace.calls:
        if call.line is not None:
            made[call.line].append(call)
    numbers = {call.number for call in listed}
    error = trace.error
    yield '<ol class="script" tabindex="0" aria-label="Script">'
    for number, line in enumerate(lines, start=1):
        fails = error is not None and error.line == number
        calls = made.get(number, [])
        mark = ' class="failing"' if fails else ' class="calling"' if calls else ""
        yield f'<li id="L{number}"{mark}><code>{shown(line)}</code>'
        if calls:
            yield from _made_here(calls, numbers)
        if fails and error is not None:
            yield from _failure(error)
        yield "</li>"
    yield "</ol>"
    if len(trace.script) > MAX_SCRIPT:
        yield f'<p class="cut">{len(trace.script) - MAX_SCRIPT:,} more characters are not on this page.</p>'


def _made_here(calls: Sequence[TracedCall], listed: set[int]) -> Iterator[str]:
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


def _failure(error: Problem) -> Iterator[str]:
    at = "" if error.column is None else f" at column {error.column}"
    message = f": {shown(cut(error.message, MAX_VALUE))}" if error.message else ""
    yield f'<div class="failure" role="note"><p><strong>{shown(cut(error.code, MAX_NAME))}</strong>{at}{message}</p>'
    if error.hint:
        yield f'<p class="hint">{shown(cut(error.hint, MAX_VALUE))}</p>'
    yield "</div>"
