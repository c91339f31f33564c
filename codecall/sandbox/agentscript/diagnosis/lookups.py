"""Warnings about lookups in tables of the script that found nothing, where `undefined` stands in the result for it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from codecall.sandbox.agentscript.diagnosis.calls import CallHistory, shorten
from codecall.sandbox.agentscript.diagnosis.report import MissedLookup
from codecall.sandbox.agentscript.instrument import InstrumentedScript
from codecall.sandbox.agentscript.parser.unicode import DECEIVES_IN_CODE

_MAX_WARNED: Final = 3
"""Lookups that are warned of in one run."""
_WRITTEN: Final = re.compile(r"""(?<![!=]=)(?<![!=]= )['"`]undefined['"`]""")
"""The word as a text of the script's own, which `typeof` is not compared with."""


def missed_lookups(
    program: InstrumentedScript, misses: Sequence[MissedLookup], value: str, calls: CallHistory
) -> list[str]:
    """The warnings about lookups that found nothing, where what that leaves stands in the result.

    Args:
        program: What ran.
        misses: Its lookups that found nothing.
        value: The result as JSON text.
        calls: Its calls: what stands in an answer, too, is no sign of a lookup.
    """
    if not misses or _WRITTEN.search(program.script) is not None:
        return []
    sites = program.ending.lookups
    answers = [entry.payload or "" for entry in calls.last_answers.values()]
    traces = {trace for miss in misses for trace in sites[miss.site].traces if trace in value}
    traces = {trace for trace in traces if not any(trace in answer for answer in answers)}
    shown = [miss for miss in misses if not traces.isdisjoint(sites[miss.site].traces)]
    return [_warning(program, miss) for miss in shown[:_MAX_WARNED]]


def _warning(program: InstrumentedScript, miss: MissedLookup) -> str:
    site = program.ending.lookups[miss.site]
    lookup, key = (_code(program, *span) for span in ((site.start, site.end), (site.key_start, site.key_end)))
    table = shorten(site.table)
    times = "once" if miss.count == 1 else f"{miss.count} times"
    first = f"{'' if miss.count == 1 else 'first '}for {_shown(miss.key)}"
    if miss.is_map and not site.is_get:
        advice = f"`{table}` is a Map: write `{table}.get({key})`."
    elif miss.key == "undefined":
        advice = f"So `{key}` is undefined: look at what it is read from."
    elif miss.alike:
        kinds = ("a text", "a number") if miss.alike == "String" else ("a number", "a text")
        advice = f"`{table}` has that key as {kinds[0]}, and this is {kinds[1]}: make it one with `{miss.alike}(…)`."
    else:
        advice = f"{_keys(table, miss)} Look for one of its keys, or write `?? …` behind it."
    line = program.lines.line(site.start)
    return f"The result holds `undefined`: `{lookup}` on line {line} found nothing {times}, {first}. {advice}"


def _keys(table: str, miss: MissedLookup) -> str:
    if not miss.size:
        return f"`{table}` was empty."
    keys = ", ".join(map(_shown, miss.keys))
    return f"`{table}` has {f'{miss.size} keys, such as' if miss.size > len(miss.keys) else 'the keys'} {keys}."


def _shown(key: str) -> str:
    return "…" if DECEIVES_IN_CODE.search(key) else key


def _code(program: InstrumentedScript, start: int, end: int) -> str:
    return shorten(" ".join(program.script[start:end].split()))
