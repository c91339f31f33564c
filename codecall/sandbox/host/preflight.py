"""The answer of a dry run: what keeps a script from running well, and its manifest."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from itertools import groupby
from typing import Final, cast

from codecall.errors import (
    AccessDeniedError,
    CodeCallError,
    InvalidInputError,
    Location,
    MessageFloodError,
    MessageValidationError,
    ToolCallError,
    ToolNotFoundError,
    add_default_hint,
)
from codecall.jsonio.decode import JsonBounds, NotJson, TooManyContainers, decode_json, encode_json
from codecall.sandbox import wire
from codecall.sandbox.agentscript.policy import MAX_LINE_LENGTH, MAX_SCRIPT_BYTES, is_meta_tool
from codecall.sandbox.host.outcomes import LineIndex, error_from_failure, excerpt, unexpected_error
from codecall.sandbox.interfaces import ToolBroker
from codecall.schema.partial import MAX_NESTING, PartialInput, PartialInputError, PreflightError

# ----------------------------------------------------------------------------------------------------
# What can be said of a script before it runs: calls whose input the tool is sure to refuse, and, for a dry run, calls

MAX_OTHERS: Final = 3
"""Other calls with a wrong input that a hint names."""

_KINDS: Final[dict[str, type[ToolCallError]]] = {
    kind.code: kind for kind in (AccessDeniedError, InvalidInputError, ToolNotFoundError)
}

logger = logging.getLogger("codecall")


class Preflight:
    """Looks at the calls of one script.

    Args:
        broker: Knows the tools.
        start: The script, and its limits.
    """

    def __init__(self, broker: ToolBroker, start: wire.Start) -> None:
        self._broker = broker
        self._script = start.script
        self._limits = start.limits
        self._places = LineIndex(start.script)
        self.asked = False
        """Whether it has looked."""
        self.mistakes: list[ToolCallError] = []
        """The calls that cannot end well, in the script's order."""

    async def look(self, plan: wire.Plan) -> bool:
        """Whether the calls of `plan` may be made, as far as that can be known; `mistakes` has those that may not.

        Raises:
            MessageValidationError: the worker names what no script has.
        """
        self.asked = True
        if sum(len(site.input) for site in plan.sites) > wire.MAX_PLAN_CHARS:
            raise MessageValidationError("The worker knows more of its calls than a script can say")
        for number, site in enumerate(plan.sites):
            if number:
                await asyncio.sleep(0)
            known, place = await self._known(site), self.place(site.start)
            mistake = await self._foreseen(site.name, known.value)
            if mistake is not None:
                offset = known.offset_of(mistake.paths)
                self.mistakes.append(
                    preflight_failure(site.name, mistake, place if offset is None else self.place(offset))
                )
        return not self.mistakes

    def verdict(self) -> ToolCallError | None:
        """The error of a script that may not run; None while nothing is against it."""
        if not self.mistakes:
            return None
        first, *others = self.mistakes
        if first.location is not None:
            first.excerpt = excerpt(self._script, first.location)
        more = ""
        if others:
            named = [f"line {error.location.line} ('{error.tool_name}')" for error in others if error.location]
            rest = len(others) - MAX_OTHERS
            more = f" So are other calls: {', '.join(named[:MAX_OTHERS])}{f' and {rest} more' if rest > 0 else ''}."
        first.hint = (
            f"Nothing has run. The input is wrong whenever the call is made: correct the fields named here.{more}"
        )
        return first

    def place(self, offset: int) -> Location:
        """Where the character at `offset` stands.

        Raises:
            MessageValidationError: the script has none there.
        """
        place = self._places.location(offset)
        if place is None:
            raise MessageValidationError("The worker names a place that is not in the script")
        return place

    async def _known(self, site: wire.Site) -> PartialInput:
        # Each level of the input is an array and an object in the form that carries it, and a member another array.
        bounds = JsonBounds.from_limits(self._limits)._replace(depth=3 * MAX_NESTING)
        try:
            return PartialInput.from_json(await decode_json(site.input, bounds))
        except (NotJson, PartialInputError, TooManyContainers):
            raise MessageValidationError("The worker says of an input what nobody can know") from None

    async def _foreseen(self, name: str, known: dict[str, object]) -> PreflightError | None:
        try:
            return await self._broker.preflight(name, known)
        except Exception as failure:
            # What fails here fails again at the call, if it is made.
            logger.debug("looking at a call of %r beforehand failed with %s", name, type(failure).__name__)
            return None


def preflight_failure(name: str, mistake: PreflightError, place: Location) -> ToolCallError:
    """The error of a call of the tool `name` that is not to be made, at its place."""
    kind = _KINDS.get(mistake.code, ToolCallError)
    details = list(mistake.problems) or None
    error = kind(mistake.message, tool_name=name, code=mistake.code, details=details, hint=mistake.hint)
    error.location = place
    return error


# ----------------------------------------------------------------------------------------------------
# What a worker may ask the server while its script has the turn, and the answers.

MAX_QUESTIONS = 10_000
"""Most questions of one script; the runtime asks once per name."""

MAX_NAMESPACES = 200
"""Most namespaces that one script asks for."""

_ASK_LESS: Final = (
    "Each name counts that is given to `getTool`, or read from or looked for in a namespace or `tools`: ask for those "
    "that are meant to be called."
)


class QuestionHandler:
    """Answers the questions of one script.

    Args:
        broker: Knows what the script may call.
    """

    def __init__(self, broker: ToolBroker) -> None:
        self._broker = broker
        self.preflight: Preflight | None = None
        """What looks at the script before it runs; None as soon as it may be running."""
        self._asked = 0
        self._spaces = 0

    async def answer(self, question: wire.Ask | wire.Plan) -> wire.ServerMessage:
        """The answer to `question`.

        Raises:
            CodeCallError: the worker asked too much or for what cannot be, or the server could not be asked.
        """
        self._asked += 1
        if self._asked > MAX_QUESTIONS:
            raise MessageFloodError(f"The worker asked more than {MAX_QUESTIONS} questions", hint=_ASK_LESS)
        if isinstance(question, wire.Plan):
            foresight = self.preflight
            if foresight is None or foresight.asked:
                raise MessageValidationError("The worker planned a script that it may be running")
            return wire.Planned(go=await foresight.look(question))
        if max(len(question.name), len(question.member)) > wire.MAX_NAME_LENGTH:
            raise MessageValidationError("The worker asked for a tool name longer than scripts may use")
        try:
            described = await self._asked_about(question)
        except CodeCallError:
            raise
        except Exception as failure:
            raise unexpected_error(question.name, failure) from failure
        return wire.Described(None if described is None else encode_json(described))

    async def _asked_about(self, question: wire.Ask) -> dict[str, object] | None:
        match question.about:
            case "tool":
                return await self._broker.describe(question.name)
            case "member":
                return await self._broker.member(question.name, question.member)
            case "space":
                self._spaces += 1
                if self._spaces > MAX_NAMESPACES:
                    raise MessageFloodError(f"The script uses more than {MAX_NAMESPACES} namespaces", hint=_ASK_LESS)
                return await self._broker.namespace(question.name)


# ----------------------------------------------------------------------------------------------------
# The answer of a dry run: what keeps a script from running well, and its manifest.

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


async def dry_run_report(text: str, start: wire.Start, foresight: Preflight, broker: ToolBroker) -> JsonObject:
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


Calls = list[tuple[wire.NamedCall, Location]]


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
            missing = await broker.check_reachable(reached)
            known = missing is None
            # What the guard says of a meta-tool is enough.
            if missing is not None and not is_meta_tool(reached):
                errors.append(preflight_failure(name, missing, min(places)))
            await asyncio.sleep(0)
        tool = tools.setdefault(name, {"name": name, "calls": []})
        cast("list[JsonObject]", tool["calls"]).extend(map(_shown, sorted(places)))
        if known is not None:
            tool["known"] = known
    return [tools[name] for name in sorted(tools)], errors


def _shown(place: Location) -> JsonObject:
    return {"line": place.line, "column": place.column}


def _refusal(found: wire.WireFinding, script: str) -> CodeCallError:
    failure = wire.Failure(
        status="syntax_error" if found.code == "SYNTAX_ERROR" else "illegal_access",
        code=found.code,
        message=found.message,
        kind=found.kind,
        line=found.line,
        column=found.column,
        hint=found.hint,
    )
    return error_from_failure(failure, {}, script)


def _finding(error: CodeCallError, script: str) -> JsonObject:
    if error.location is not None and error.excerpt is None:
        error.excerpt = excerpt(script, error.location)
    add_default_hint(error)
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
