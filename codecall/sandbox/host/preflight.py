"""Checks of a script before its first call: calls that are sure to fail, the worker's questions, and the report of a
dry run."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
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
)
from codecall.errors.hints import add_default_hint
from codecall.jsonio.decode import JsonBounds, NotJsonError, TooManyContainersError, decode_json, encode_json
from codecall.sandbox import wire
from codecall.sandbox.agentscript.policy import MAX_LINE_LENGTH, MAX_SCRIPT_BYTES, OBSERVED, is_meta_tool
from codecall.sandbox.host.outcomes import error_from_failure, excerpt_at, unexpected_error
from codecall.sandbox.interfaces import PlannedCall, ToolBroker
from codecall.sandbox.lines import LineTable
from codecall.sandbox.starlark import policy as starlark
from codecall.schema.partial import MAX_NESTING, PartialInput, PartialInputError, PreflightError, has_unknowns
from codecall.wording import join_names

MAX_OTHERS: Final = 3
"""Other calls with a wrong input that a hint names."""

MAX_QUESTIONS: Final = 10_000
"""Most questions of one script; the runtime asks once per name."""

MAX_NAMESPACES: Final = 200
"""Most namespaces that one script asks for."""

MAX_LOOKED_UP: Final = 100
"""Different tools of one script that are looked up; the rest are listed without saying whether there are such."""

_ASK_LESS: Final = (
    "Each name counts that is given to `getTool`, or read from or looked for in a namespace or `tools`, and each block "
    "given to `emit`: ask for those that are meant to be called or shown."
)

_ERROR_CLASSES: Final[dict[str, type[ToolCallError]]] = {
    kind.code: kind for kind in (AccessDeniedError, InvalidInputError, ToolNotFoundError)
}

LIMITS: Final = {
    "timeoutMs": "timeout_ms",
    "maxToolCalls": "max_tool_calls",
    "maxIterations": "max_iterations",
    "maxSteps": "max_steps",
    "maxResultBytes": "max_result_bytes",
    "memoryMb": "memory_mb",
}
"""Limits of the preset that a manifest repeats, as wire names."""
JsonObject = dict[str, object]

logger = logging.getLogger("codecall")


class Preflight:
    """Checks the calls of one script before any is made: those whose input the tool is sure to refuse, and, for a dry
    run, those that reach no tool.

    Args:
        broker: Knows the tools.
        start: The script, and its limits.
    """

    def __init__(self, broker: ToolBroker, start: wire.Start) -> None:
        self._broker = broker
        self._limits = start.limits
        self._script = start.script
        self.errors: list[ToolCallError] = []
        """The calls that cannot succeed, in the script's order."""

    @cached_property
    def lines(self) -> LineTable:
        """The lines of the script; most scripts end without an error, and never need them."""
        return LineTable(self._script)

    async def check(self, plan: wire.Plan, *, names: bool = True) -> None:
        """Add those of the calls of `plan` that cannot succeed, as far as that can be known, to `errors`.

        Args:
            plan: The calls.
            names: Whether a name that no tool has, or that may not be called, is one of the errors; calls that are not
                certain are none of them then.

        Raises:
            MessageValidationError: the worker names what no script has.
        """
        if sum(len(site.input) for site in plan.sites) > wire.MAX_PLAN_CHARS:
            raise MessageValidationError("The worker knows more of its calls than a script can say")
        for number, site in enumerate(plan.sites):
            if number:
                await asyncio.sleep(0)
            if names and not site.certain:
                continue
            arguments = await self._arguments(site)
            self._check_offset(site.start)
            name, error = await self._check_call(site, None if arguments is None else arguments.value)
            if error is not None and (names or error.code == InvalidInputError.code):
                offset = None if arguments is None else arguments.offset_of(error.paths)
                place = self.location(site.start if offset is None else offset)
                self.errors.append(_tool_call_error(name, error, place))

    async def error(self, plan: wire.Plan) -> ToolCallError | None:
        """The error of a script with this plan that may not go on; None if it may.

        Raises:
            MessageValidationError: the worker names what no script has.
        """
        await self.check(plan)
        if not self.errors:
            return None
        first, *others = self.errors
        if first.location is not None:
            first.excerpt = excerpt_at(first.location, self.lines)
        more = ""
        if others:
            names = [f"line {error.location.line} (`{error.tool_name}`)" for error in others if error.location]
            more = f" Other calls are wrong, too: {join_names(names, MAX_OTHERS)}."
        if isinstance(first, InvalidInputError):
            advice = "The input is wrong whenever the call is made: correct the fields named here."
        else:
            add_default_hint(first)
            advice = first.hint or ""
        first.hint = f"No call was made. {advice}{more}"
        first.quotes_script = bool(more)
        return first

    async def foresee(self, plan: wire.Plan | None) -> list[PlannedCall]:
        """The calls of `plan` under the names of their tools, and the arguments that are known of them.

        Raises:
            MessageValidationError: the worker names what no script has.
        """
        calls: list[PlannedCall] = []
        for site in plan.sites if plan is not None else ():
            arguments = await self._arguments(site)
            known = arguments.value if arguments is not None else {}
            name = site.name if site.space is None else (await _resolve_member(self._broker, site.space, site.name))[0]
            fixed = {key: value for key, value in known.items() if not has_unknowns(value)}
            calls.append(PlannedCall(name, self.location(site.start).line, fixed, site.certain))
        return calls

    def location(self, offset: int) -> Location:
        """Line and column of the character at `offset`.

        Raises:
            MessageValidationError: the script has none there.
        """
        self._check_offset(offset)
        return Location(*self.lines.position(offset))

    def _check_offset(self, offset: int) -> None:
        if not 0 <= offset <= len(self._script):
            raise MessageValidationError("The worker names a place that is not in the script")

    async def _arguments(self, site: wire.Site) -> PartialInput | None:
        """What is known of a call's input; None where that is nothing."""
        if not site.input:
            return None
        # Each level of the input is an array and an object in the form that carries it, and a member another array.
        bounds = JsonBounds.from_limits(self._limits)._replace(depth=3 * MAX_NESTING)
        try:
            return PartialInput.from_json(await decode_json(site.input, bounds))
        except (NotJsonError, PartialInputError, TooManyContainersError):
            raise MessageValidationError("The worker says of an input what nobody can know") from None

    async def _check_call(
        self, site: wire.Site, arguments: dict[str, object] | None
    ) -> tuple[str, PreflightError | None]:
        """The name of the tool that is called, and the error that the call is certain to get."""
        name, called_name = site.name, site.name
        try:
            if site.space is not None:
                name, called_name = await _resolve_member(self._broker, site.space, site.name)
            # The validator and the runtime refuse meta-tools by themselves.
            error = None if is_meta_tool(called_name) else await self._broker.preflight(called_name, arguments)
        except Exception as failure:
            # What fails here fails again at the call, if it is made.
            logger.debug("looking at a call of %r beforehand failed with %s", name, type(failure).__name__)
            return name, None
        return name, error


async def _resolve_member(broker: ToolBroker, namespace: str, member: str) -> tuple[str, str]:
    """The tool that a member of a namespace names: its name, and the name under which it is called. Without such a tool
    the first is what the script says."""
    found = await broker.member(namespace, member)
    written = f"{namespace}.{member}" if namespace else member
    return str(found.get("tool") or written), str(found.get("tool") or found.get("missing") or written)


class QuestionHandler:
    """Answers the questions that the worker of one script asks within a turn.

    Args:
        broker: Knows what the script may call.
        emit: Shows the content block with a reference in the answer; whether there is one.
    """

    def __init__(self, broker: ToolBroker, emit: Callable[[str], bool]) -> None:
        self._broker = broker
        self._emit = emit
        self._questions = 0
        self._namespaces = 0

    async def answer(self, question: wire.Ask) -> wire.Described:
        """The answer to `question`.

        Raises:
            CodeCallError: the worker asked too much or for what cannot be, or the server could not be asked.
        """
        self._questions += 1
        if self._questions > MAX_QUESTIONS:
            raise MessageFloodError(f"The worker asked more than {MAX_QUESTIONS} questions", hint=_ASK_LESS)
        if max(len(question.name), len(question.member)) > wire.MAX_NAME_LENGTH:
            raise MessageValidationError("The worker asked for a tool name longer than scripts may use")
        try:
            description = await self._look_up(question)
        except CodeCallError:
            raise
        except Exception as failure:
            raise unexpected_error(question.name, failure) from failure
        return wire.Described(None if description is None else encode_json(description))

    async def _look_up(self, question: wire.Ask) -> dict[str, object] | None:
        match question.about:
            case "answers":
                return await self._broker.describe(question.name)
            case "tool":
                # What was seen is not the same in the next run: a script has what the tool declares.
                tool = await self._broker.describe(question.name)
                return tool and {key: value for key, value in tool.items() if key != OBSERVED}
            case "member":
                return await self._broker.member(question.name, question.member)
            case "emit":
                return {} if self._emit(question.name) else None
            case "space":
                self._namespaces += 1
                if self._namespaces > MAX_NAMESPACES:
                    raise MessageFloodError(f"The script uses more than {MAX_NAMESPACES} namespaces", hint=_ASK_LESS)
                return await self._broker.namespace(question.name)


Calls = list[tuple[wire.NamedCall, Location]]


async def dry_run_report(text: str, start: wire.Start, preflight: Preflight, broker: ToolBroker) -> JsonObject:
    """`{valid, findings, manifest}` for the script of `start`.

    Args:
        text: The worker's `Report`.
        start: The script and its limits.
        preflight: The check of the script's calls.
        broker: Knows the tools.

    Raises:
        MessageValidationError: the report is none, or is about something that is not in the script.
    """
    try:
        report = wire.read_report(text)
    except wire.InvalidMessage:
        raise MessageValidationError("The worker sent a report that is none") from None
    if sum(len(call.name) for call in report.calls) > MAX_SCRIPT_BYTES:
        raise MessageValidationError("The worker reports longer names than a script can have")
    calls = [(call, preflight.location(call.start)) for call in report.calls]
    loops = [{"kind": loop.kind, "line": preflight.location(loop.start).line} for loop in report.loops]
    tools, unreachable = await _tools(calls, broker)
    refusals = [_refusal(finding, preflight.lines) for finding in report.findings]
    errors = [*refusals, *preflight.errors, *unreachable]
    errors.sort(key=lambda error: error.location or Location(1, 1))
    hints = {} if start.starlark is None else starlark.DEFAULT_HINTS
    findings = [_finding(error, preflight.lines, hints) for error in errors]
    manifest: JsonObject = {}
    if report.parsed:
        manifest = {
            "tools": tools,
            "resources": [{"uri": name, "calls": places} for name, places in _calls_by_name(calls, "resource")],
            "prompts": [{"name": name, "calls": places} for name, places in _calls_by_name(calls, "prompt")],
            "results": [{"handle": name, "calls": places} for name, places in _calls_by_name(calls, "result")],
            "computedNames": report.computed,
            "loops": loops,
        }
    more = {"calls": report.more_calls, "loops": report.more_loops}
    if any(more.values()):
        manifest["more"] = more
    limits = {name: getattr(start.limits, field) for name, field in LIMITS.items()}
    manifest |= {"size": _size(preflight.lines), "limits": limits}
    return {"valid": not findings, "findings": findings, "manifest": manifest}


def _calls_by_name(calls: Calls, kind: str) -> Iterable[tuple[str, list[JsonObject]]]:
    """The names of one kind, and where each is called."""
    named = sorted(((call.name, location) for call, location in calls if call.kind == kind), key=lambda item: item[0])
    for name, group in groupby(named, key=lambda item: item[0]):
        yield name, [_place(location) for _, location in group]


async def _tools(calls: Calls, broker: ToolBroker) -> tuple[list[JsonObject], list[CodeCallError]]:
    """The tools a script names, and an error for each name that no tool has."""
    locations: dict[tuple[str | None, str], list[Location]] = {}
    for call, location in calls:
        if call.kind == "tool":
            locations.setdefault((call.space, call.name), []).append(location)
    tools: dict[str, JsonObject] = {}
    errors: list[CodeCallError] = []
    for number, ((namespace, member), places) in enumerate(locations.items()):
        name = called_name = member
        known: bool | None = None
        if namespace:
            name = f"{namespace}.{member}"
        if number < MAX_LOOKED_UP:
            if namespace is not None:
                name, called_name = await _resolve_member(broker, namespace, member)
            error = await broker.check_reachable(called_name)
            known = error is None
            # What the guard says of a meta-tool is enough.
            if error is not None and not is_meta_tool(called_name):
                errors.append(_tool_call_error(name, error, min(places)))
            await asyncio.sleep(0)
        tool = tools.setdefault(name, {"name": name, "calls": []})
        cast("list[JsonObject]", tool["calls"]).extend(map(_place, sorted(places)))
        if known is not None:
            tool["known"] = known
    return [tools[name] for name in sorted(tools)], errors


def _place(location: Location) -> JsonObject:
    return {"line": location.line, "column": location.column}


def _refusal(finding: wire.WireFinding, lines: LineTable) -> CodeCallError:
    failure = wire.Failure(
        status="syntax_error" if finding.code == "SYNTAX_ERROR" else "illegal_access",
        code=finding.code,
        message=finding.message,
        kind=finding.kind,
        line=finding.line,
        column=finding.column,
        hint=finding.hint,
    )
    return error_from_failure(failure, {}, lines)


def _finding(error: CodeCallError, lines: LineTable, hints: Mapping[str, str]) -> JsonObject:
    if error.location is not None and error.excerpt is None:
        error.excerpt = excerpt_at(error.location, lines)
    add_default_hint(error, hints=hints)
    body = error.as_dict()
    return {key: body[key] for key in ("code", "kind", "toolName", "message", "location", "hint") if key in body}


def _size(lines: LineTable) -> JsonObject:
    lengths = [*map(len, lines.texts())]
    return {
        "bytes": len(lines.source.encode()),
        "maxBytes": MAX_SCRIPT_BYTES,
        "lines": len(lengths) - (len(lengths) > 1 and not lengths[-1]),  # nothing after a last line end is no line
        "longestLine": max(lengths),
        "maxLineLength": MAX_LINE_LENGTH,
    }


def _tool_call_error(name: str, error: PreflightError, location: Location) -> ToolCallError:
    """The error of a call of the tool `name` that is not to be made, at its place in the script."""
    kind = _ERROR_CLASSES.get(error.code, ToolCallError)
    details = list(error.problems) or None
    failure = kind(error.message, tool_name=name, code=error.code, details=details, hint=error.hint)
    failure.location = location
    return failure
