"""What a worker tells of a script that has not run: the calls to look at beforehand, and the report of a dry run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from codecall.sandbox.agentscript.characters import well_formed
from codecall.sandbox.agentscript.findings import Finding
from codecall.sandbox.agentscript.sites import Outline
from codecall.sandbox.wire import (
    MAX_LISTED,
    MAX_NAME_LENGTH,
    MAX_PLAN_CHARS,
    MAX_SITES,
    MAX_URI_LENGTH,
    Found,
    Loop,
    Named,
    Plan,
    Report,
    Site,
    report_json,
)

_LOOPS: Final[dict[str, Literal["for", "for…of", "for…in", "for await…of", "while", "do…while"]]] = {
    "ForStatement": "for",
    "ForOfStatement": "for…of",
    "ForInStatement": "for…in",
    "ForAwaitStatement": "for await…of",
    "WhileStatement": "while",
    "DoWhileStatement": "do…while",
}


def plan_of(outline: Outline, *, dry_run: bool = False) -> Plan | None:
    """The calls whose input can be looked at before the script runs, the first ones in the script; None without any.

    Args:
        outline: the script's.
        dry_run: take those too that the script may recover from.
    """
    sites: list[Site] = []
    room = MAX_PLAN_CHARS
    for call in outline.calls:
        # A member that is not known yet is looked up when it is first read; `tools` has tools under their own names.
        if call.known is None or call.space or not (call.sure or dry_run) or len(call.name) > MAX_NAME_LENGTH:
            continue
        room -= len(call.known)
        if room < 0 or len(sites) == MAX_SITES:
            break
        sites.append(Site(well_formed(call.name), call.known, call.start))
    return Plan(sites) if sites else None


def report_of(outline: Outline | None, findings: Sequence[Finding] = ()) -> str:
    """The JSON text of the `Report` about a script.

    Args:
        outline: what it is made of; None if it cannot be parsed.
        findings: what keeps it from running.
    """
    calls = (
        []
        if outline is None
        else [call for call in outline.calls if max(len(call.name), len(call.space or "")) <= MAX_URI_LENGTH]
    )
    loops = [] if outline is None else sorted(outline.loops, key=lambda loop: loop.start)
    report = Report(
        findings=[Found(item.code, item.kind, item.message, item.line, item.column, item.hint) for item in findings],
        calls=[
            Named(call.kind, well_formed(call.name), call.start, call.space and well_formed(call.space))
            for call in calls[:MAX_LISTED]
        ],
        loops=[Loop(_LOOPS[loop.kind], loop.start) for loop in loops[:MAX_LISTED]],
        computed=outline is not None and outline.computed,
        parsed=outline is not None,
        more_calls=max(0, len(calls) - MAX_LISTED),
        more_loops=max(0, len(loops) - MAX_LISTED),
    )
    return report_json(report)
