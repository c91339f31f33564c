"""The answer of a dry run: what keeps a script from running well, and its manifest."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from itertools import groupby
from typing import Final, cast

from codecall.advice import advise
from codecall.errors import CodeCallError, Location, MessageValidationError
from codecall.sandbox import wire
from codecall.sandbox.agentscript.policy import MAX_LINE_LENGTH, MAX_SCRIPT_BYTES, is_meta_tool
from codecall.sandbox.broker import ToolBroker
from codecall.sandbox.host.excerpts import excerpt
from codecall.sandbox.host.foresight import Foresight, no_call
from codecall.sandbox.host.outcomes import error_of

JsonObject = dict[str, object]

MAX_LOOKED_UP: Final = 100
"""Different tools of one script that are looked up; the rest are listed without saying whether there are such."""

_LIMITS: Final = {
    "timeoutMs": "timeout_ms",
    "maxToolCalls": "max_tool_calls",
    "maxIterations": "max_iterations",
    "maxSteps": "max_steps",
    "maxResultBytes": "max_result_bytes",
    "memoryMb": "memory_mb",
}
"""Limits of the preset that a manifest repeats, as wire names."""


async def checked(text: str, start: wire.Start, foresight: Foresight, broker: ToolBroker) -> JsonObject:
    """`{valid, findings, manifest}` for the script of `start`.

    Args:
        text: the worker's `Report`.
        start: the script and its limits.
        foresight: what it has said of the script's calls.
        broker: knows the tools.

    Raises:
        MessageValidationError: the report is none, or is about something that is not in the script.
    """
    try:
        report = wire.read_report(text)
    except wire.InvalidMessage:
        raise MessageValidationError("The worker sent a report that is none") from None
    script = start.script
    if sum(len(call.name) for call in report.calls) > MAX_SCRIPT_BYTES:
        raise MessageValidationError("The worker reports longer names than a script can have")
    calls = [(call, foresight.place(call.start)) for call in report.calls]
    loops = [{"kind": loop.kind, "line": foresight.place(loop.start).line} for loop in report.loops]
    tools, unknown = await _tools(calls, broker)
    errors = [*(_refusal(found, script) for found in report.findings), *foresight.mistakes, *unknown]
    errors.sort(key=lambda error: error.location or Location(1, 1))
    findings = [_finding(error, script) for error in errors]
    manifest: JsonObject = {}
    if report.parsed:
        manifest = {
            "tools": tools,
            "resources": [{"uri": name, "calls": places} for name, places in _grouped(calls, "resource")],
            "prompts": [{"name": name, "calls": places} for name, places in _grouped(calls, "prompt")],
            "results": [{"handle": name, "calls": places} for name, places in _grouped(calls, "result")],
            "computedNames": report.computed,
            "loops": loops,
        }
    more = {"calls": report.more_calls, "loops": report.more_loops}
    if any(more.values()):
        manifest["more"] = more
    limits = {name: getattr(start.limits, field) for name, field in _LIMITS.items()}
    manifest |= {"size": _size(script), "limits": limits}
    return {"valid": not findings, "findings": findings, "manifest": manifest}


Calls = list[tuple[wire.Named, Location]]


def _grouped(calls: Calls, kind: str) -> Iterable[tuple[str, list[JsonObject]]]:
    """The names of one kind, and where each is called."""
    named = sorted(((call.name, place) for call, place in calls if call.kind == kind), key=lambda item: item[0])
    for name, group in groupby(named, key=lambda item: item[0]):
        yield name, [_shown(place) for _, place in group]


async def _tools(calls: Calls, broker: ToolBroker) -> tuple[list[JsonObject], list[CodeCallError]]:
    """The tools a script names, and an error for each of which there is none."""
    named: dict[tuple[str | None, str], list[Location]] = {}
    for call, place in calls:
        if call.kind == "tool":
            named.setdefault((call.space, call.name), []).append(place)
    tools: dict[str, JsonObject] = {}
    errors: list[CodeCallError] = []
    for number, ((space, member), places) in enumerate(named.items()):
        name, reached = f"{space}.{member}" if space else member, member
        known: bool | None = None
        if number < MAX_LOOKED_UP:
            if space is not None:
                found = await broker.member(space, member)
                reached = str(found.get("tool") or found.get("missing") or name)
                name = str(found.get("tool") or name)
            missing = await broker.unreachable(reached)
            known = missing is None
            # What the guard says of a meta-tool is enough.
            if missing is not None and not is_meta_tool(reached):
                errors.append(no_call(name, missing, min(places)))
            await asyncio.sleep(0)
        tool = tools.setdefault(name, {"name": name, "calls": []})
        cast("list[JsonObject]", tool["calls"]).extend(map(_shown, sorted(places)))
        if known is not None:
            tool["known"] = known
    return [tools[name] for name in sorted(tools)], errors


def _shown(place: Location) -> JsonObject:
    return {"line": place.line, "column": place.column}


def _refusal(found: wire.Found, script: str) -> CodeCallError:
    failure = wire.Failure(
        status="syntax_error" if found.code == "SYNTAX_ERROR" else "illegal_access",
        code=found.code,
        message=found.message,
        kind=found.kind,
        line=found.line,
        column=found.column,
        hint=found.hint,
    )
    return error_of(failure, {}, script)


def _finding(error: CodeCallError, script: str) -> JsonObject:
    if error.location is not None and error.excerpt is None:
        error.excerpt = excerpt(script, error.location)
    advise(error)
    said = error.as_dict()
    return {key: said[key] for key in ("code", "kind", "toolName", "message", "location", "hint") if key in said}


def _size(script: str) -> JsonObject:
    lines = script.splitlines() or [""]
    return {
        "bytes": len(script.encode()),
        "maxBytes": MAX_SCRIPT_BYTES,
        "lines": len(lines),
        "longestLine": max(map(len, lines)),
        "maxLineLength": MAX_LINE_LENGTH,
    }
