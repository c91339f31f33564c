"""Where a script calls what: which tool, resource, prompt or earlier result, with what input, and whether a failure of
it is the script's failure.

A call is `sure` when every run gets to it and, with an input that is wrong, fails by it: `reaching.py` has where that
is so. It is not where the call has options as third argument, which may deal with the failure, nor in a script that
uses `getTool`, which may decide by the schema. What is not sure is reported by a dry run and otherwise left to the run.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

from codecall.sandbox.agentscript.analysis.literals import partial_input
from codecall.sandbox.agentscript.analysis.reachability import certain_calls
from codecall.sandbox.agentscript.checked import CallKind, CallSite, Finding, ScriptOutline
from codecall.sandbox.agentscript.parser.esprima import Node
from codecall.sandbox.agentscript.parser.unicode import well_formed
from codecall.sandbox.agentscript.validator.names import literal_key, literal_text
from codecall.sandbox.agentscript.validator.walk import PREFIX_LENGTH, Walk
from codecall.sandbox.wire import (
    MAX_LISTED,
    MAX_NAME_LENGTH,
    MAX_PLAN_CHARS,
    MAX_SITES,
    MAX_URI_LENGTH,
    Loop,
    NamedCall,
    Plan,
    Report,
    Site,
    WireFinding,
    report_json,
)

# ----------------------------------------------------------------------------------------------------
# Where a script calls what: which tool, resource, prompt or earlier result, with what input, and whether a failure of

CALL_FUNCTIONS: Final[dict[str, CallKind]] = {
    "callTool": "tool",
    "readResource": "resource",
    "getPrompt": "prompt",
    "getResult": "result",
}
"""The runtime's functions that call something, and what."""

_MAX_PATH: Final = 8
"""Most members of a name such as `github.issues.create`."""

KnownNamespaces: TypeAlias = Mapping[str, Mapping[str, str]]
"""Namespaces by name: their first members, and the tools these stand for."""


class _Target(NamedTuple):
    """What a call calls."""

    kind: CallKind
    name: str
    space: str | None
    """The namespace it is looked for in."""
    arguments: list[Node]
    """Its input and its options."""


def outline_script(statements: list[Node], walk: Walk, spaces: KnownNamespaces) -> ScriptOutline:
    """What a script is made of.

    Args:
        statements: the script's.
        walk: over them.
        spaces: the namespaces it uses, with what is known of their members.
    """
    free = {
        use.offset + PREFIX_LENGTH
        for use in walk.uses
        if _leads(use.name, spaces) and use.scope.declaring_scope(use.name) is None
    }
    calls: dict[int, Node] = {}
    targets: dict[int, _Target] = {}
    for call in walk.calls if free else ():
        if (target := _target(call, free, spaces)) is not None:
            calls[call.range[0]], targets[call.range[0]] = call, target
    # Each use leads to one call, or to who knows what.
    return ScriptOutline(walk.loops, _sites(statements, walk, calls, targets), len(free) > len(targets))


def _sites(
    statements: list[Node], walk: Walk, calls: Mapping[int, Node], targets: Mapping[int, _Target]
) -> list[CallSite]:
    if not targets:
        return []
    by_schema = any(use.name == "getTool" for use in walk.uses)
    certain = set[int]() if by_schema else certain_calls(statements, walk, calls)
    sites: list[CallSite] = []
    for start, (kind, name, space, arguments) in sorted(targets.items()):
        plain = len(arguments) <= 1 and all(item.type != "SpreadElement" for item in arguments)
        spread = any(item.type == "SpreadElement" for item in arguments[:1])
        known = partial_input(arguments[0] if arguments else None) if kind == "tool" and not spread else None
        sites.append(CallSite(kind, name, space, start - PREFIX_LENGTH, known, certain=plain and start in certain))
    return sites


def _leads(name: str, spaces: KnownNamespaces) -> bool:
    """Whether a name that nobody declares leads to calls."""
    return name in CALL_FUNCTIONS or name == "tools" or name in spaces


def _target(call: Node, free: Collection[int], spaces: KnownNamespaces) -> _Target | None:
    """What a call calls, if that is said by literals."""
    path: list[str] = []
    node: Node = call.callee
    while node.type == "MemberExpression" and len(path) <= _MAX_PATH:
        name = literal_key(node.property, computed=node.computed)
        if name is None:
            return None
        path.append(name)
        node = node.object
    if node.type != "Identifier" or node.range[0] not in free:
        return None
    arguments: list[Node] = call.arguments
    if node.name in CALL_FUNCTIONS:
        name = literal_text(arguments[0]) if arguments and not path else None
        return None if name is None else _Target(CALL_FUNCTIONS[node.name], name, None, arguments[1:])
    if not path:
        return None
    member, *above = path
    if node.name != "tools":
        above.append(node.name)
        known = spaces[node.name].get(member) if len(above) == 1 else None
        if known is not None:
            return _Target("tool", known, None, arguments)
    return _Target("tool", member, ".".join(reversed(above)), arguments)


# ----------------------------------------------------------------------------------------------------
# What a worker tells of a script that has not run: the calls to look at beforehand, and the report of a dry run.

_LOOPS: Final[dict[str, Literal["for", "for…of", "for…in", "for await…of", "while", "do…while"]]] = {
    "ForStatement": "for",
    "ForOfStatement": "for…of",
    "ForInStatement": "for…in",
    "ForAwaitStatement": "for await…of",
    "WhileStatement": "while",
    "DoWhileStatement": "do…while",
}


def build_plan(outline: ScriptOutline, *, dry_run: bool = False) -> Plan | None:
    """The calls whose input can be looked at before the script runs, the first ones in the script; None without any.

    Args:
        outline: the script's.
        dry_run: take those too that the script may recover from.
    """
    sites: list[Site] = []
    room = MAX_PLAN_CHARS
    for call in outline.calls:
        # A member that is not known yet is looked up when it is first read; `tools` has tools under their own names.
        if (
            call.partial_input is None
            or call.namespace
            or not (call.certain or dry_run)
            or len(call.name) > MAX_NAME_LENGTH
        ):
            continue
        room -= len(call.partial_input)
        if room < 0 or len(sites) == MAX_SITES:
            break
        sites.append(Site(well_formed(call.name), call.partial_input, call.start))
    return Plan(sites) if sites else None


def build_report(outline: ScriptOutline | None, findings: Sequence[Finding] = ()) -> str:
    """The JSON text of the `Report` about a script.

    Args:
        outline: what it is made of; None if it cannot be parsed.
        findings: what keeps it from running.
    """
    calls = (
        []
        if outline is None
        else [call for call in outline.calls if max(len(call.name), len(call.namespace or "")) <= MAX_URI_LENGTH]
    )
    loops = [] if outline is None else sorted(outline.loops, key=lambda loop: loop.start)
    report = Report(
        findings=[
            WireFinding(item.code, item.kind, item.message, item.line, item.column, item.hint) for item in findings
        ],
        calls=[
            NamedCall(call.kind, well_formed(call.name), call.start, call.namespace and well_formed(call.namespace))
            for call in calls[:MAX_LISTED]
        ],
        loops=[Loop(_LOOPS[loop.kind], loop.start) for loop in loops[:MAX_LISTED]],
        computed=outline is not None and outline.has_computed_names,
        parsed=outline is not None,
        more_calls=max(0, len(calls) - MAX_LISTED),
        more_loops=max(0, len(loops) - MAX_LISTED),
    )
    return report_json(report)
