"""The calls a script makes: which tool, resource, prompt or earlier result, with what input, and whether an invalid
input is certain to fail the script.

A call is `certain` when every run reaches it and, with an invalid input, fails by it: see `reachability.py`. It is not
where the call has options as third argument, which may handle the failure, nor in a script that uses `getTool`, which
may decide by the schema. What is not certain is reported by a dry run and otherwise left to the run.

The input of a call is read as far as literals spell it out; `schema/partial.py` describes the form. It follows what the
prelude makes of an input: undefined and functions are left out of objects and null in arrays, a number that is not
finite is null. Whatever is not certain to be what it looks like is a gap.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

from codecall.sandbox.agentscript.analysis.reachability import certain_calls
from codecall.sandbox.agentscript.checked import CallKind, CallSite, Finding, ScriptOutline
from codecall.sandbox.agentscript.parser.esprima import Node
from codecall.sandbox.agentscript.parser.parse import PREFIX_LENGTH
from codecall.sandbox.agentscript.parser.unicode import SURROGATE, well_formed
from codecall.sandbox.agentscript.validator.names import literal_key, literal_text
from codecall.sandbox.agentscript.validator.walk import Walk
from codecall.sandbox.wire import (
    MAX_LISTED,
    MAX_NAME_LENGTH,
    MAX_PLAN_CHARS,
    MAX_SAFE_INTEGER,
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
from codecall.schema.partial import MAX_VALUES

CALL_FUNCTIONS: Final[dict[str, CallKind]] = {
    "callTool": "tool",
    "readResource": "resource",
    "getPrompt": "prompt",
    "getResult": "result",
}
"""The runtime's functions that call something, and the kind of what they call."""

_MAX_PATH: Final = 8
"""Most members of a name such as `github.issues.create`."""

KnownNamespaces: TypeAlias = Mapping[str, Mapping[str, str]]
"""Namespaces by name: see `NameUsage.namespaces`."""

_LOOPS: Final[dict[str, Literal["for", "for…of", "for…in", "for await…of", "while", "do…while"]]] = {
    "ForStatement": "for",
    "ForOfStatement": "for…of",
    "ForInStatement": "for…in",
    "ForAwaitStatement": "for await…of",
    "WhileStatement": "while",
    "DoWhileStatement": "do…while",
}

MAX_TEXT: Final = 10_000
"""Longest text that is passed on; what a preset allows is no less."""

PERHAPS: Final[list[object]] = []
PRESENT: Final[list[object]] = [0]

_ABSENT: Final = object()
_OBJECT, _PARTIAL, _ARRAY, _SOME = 1, 2, 3, 4

_FUNCTIONS: Final = frozenset({"ArrowFunctionExpression", "FunctionExpression", "ClassExpression"})
_ALWAYS_PRESENT: Final = frozenset({"BinaryExpression", "NewExpression", "TemplateLiteral", "UpdateExpression"})


def outline_script(statements: list[Node], walk: Walk, namespaces: KnownNamespaces) -> ScriptOutline:
    """The loops and calls of a script.

    Args:
        statements: the script's statements.
        walk: the finished walk over them.
        namespaces: the namespaces it uses.
    """
    free = {
        use.offset + PREFIX_LENGTH
        for use in walk.uses
        if _leads_to_calls(use.name, namespaces) and use.scope.declaring_scope(use.name) is None
    }
    calls: dict[int, Node] = {}
    targets: dict[int, _Target] = {}
    for call in walk.calls if free else ():
        if (target := _target(call, free, namespaces)) is not None:
            calls[call.range[0]], targets[call.range[0]] = call, target
    # Each use leads to one call, or to a computed name.
    return ScriptOutline(walk.loops, _sites(statements, walk, calls, targets), len(free) > len(targets))


def build_plan(outline: ScriptOutline, *, dry_run: bool = False, foresee: bool = False) -> Plan | None:
    """The calls that can be checked before any of them is made, the first ones in the script; None without any.

    Args:
        outline: of the script.
        dry_run: include calls whose failure the script may recover from. A report lists their names.
        foresee: include all calls of tools.
    """
    sites: list[Site] = []
    room = MAX_PLAN_CHARS
    for call in outline.calls:
        if (
            call.kind != "tool"
            or not (call.certain or foresee or (dry_run and call.partial_input is not None))
            or max(len(call.name), len(call.namespace or "")) > MAX_NAME_LENGTH
        ):
            continue
        known_input = call.partial_input or ""
        room -= len(known_input)
        if room < 0 or len(sites) == MAX_SITES:
            break
        space = None if call.namespace is None else well_formed(call.namespace)
        sites.append(Site(well_formed(call.name), known_input, call.start, space, call.certain))
    return Plan(sites) if sites else None


def build_report(outline: ScriptOutline | None, findings: Sequence[Finding] = ()) -> str:
    """The JSON text of the `Report` about a script that has not run.

    Args:
        outline: its loops and calls; None if it cannot be parsed.
        findings: why it must not run.
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


class _Target(NamedTuple):
    """What one call calls."""

    kind: CallKind
    name: str
    namespace: str | None
    """The namespace it is a member of."""
    arguments: list[Node]
    """Its input and its options."""


def _sites(
    statements: list[Node], walk: Walk, calls: Mapping[int, Node], targets: Mapping[int, _Target]
) -> list[CallSite]:
    if not targets:
        return []
    by_schema = any(use.name == "getTool" for use in walk.uses)
    certain = set[int]() if by_schema else certain_calls(statements, walk, calls)
    sites: list[CallSite] = []
    for start, (kind, name, namespace, arguments) in sorted(targets.items()):
        plain = len(arguments) <= 1 and all(item.type != "SpreadElement" for item in arguments)
        spread = any(item.type == "SpreadElement" for item in arguments[:1])
        known_input = _partial_input(arguments[0] if arguments else None) if kind == "tool" and not spread else None
        sites.append(
            CallSite(kind, name, namespace, start - PREFIX_LENGTH, known_input, certain=plain and start in certain)
        )
    return sites


def _leads_to_calls(name: str, namespaces: KnownNamespaces) -> bool:
    """Whether an undeclared name leads to calls."""
    return name in CALL_FUNCTIONS or name == "tools" or name in namespaces


def _target(call: Node, free: Collection[int], namespaces: KnownNamespaces) -> _Target | None:
    """What a call calls, if literals name it."""
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
        tool = namespaces.get(node.name, {}).get("")
        return None if tool is None else _Target("tool", tool, None, arguments)
    member, *above = path
    if node.name != "tools":
        above.append(node.name)
        tool = namespaces[node.name].get(member) if len(above) == 1 else None
        if tool is not None:
            return _Target("tool", tool, None, arguments)
    return _Target("tool", member, ".".join(reversed(above)), arguments)


def _partial_input(node: Node | None) -> str | None:
    """The part of a call's input that literals spell out, as JSON text; None where it is not a literal.

    Args:
        node: the expression in the place of the input, None where there is none.
    """
    if node is None or _is_undefined(node) or _is_null(node):
        return f"[{_OBJECT},{{}}]"
    if node.type != "ObjectExpression":
        return None
    try:
        return json.dumps(_InputReader().object(node), ensure_ascii=False, separators=(",", ":"))
    except _InputTooLargeError:
        return None


class _InputTooLargeError(Exception):
    """The input has more than `MAX_VALUES`."""


class _InputReader:
    """Reads the input of one call."""

    def __init__(self) -> None:
        self._values_left = MAX_VALUES

    def object(self, node: Node) -> list[object]:
        """An object literal."""
        members: dict[str, list[object]] = {}
        mark = _OBJECT
        for item in node.properties:
            self._count()
            key = _key(item)
            if key is None or not _is_unicode(key):
                # It may stand for any of those before it, and for none: `{ limit: 5, ...{ limit: undefined } }`.
                mark = _PARTIAL
                members = {name: [offset, PERHAPS] for name, (offset, _) in members.items()}
                continue
            value = PERHAPS if item.kind != "init" else self._value(item.value)
            members.pop(key, None)
            if value is not _ABSENT:
                members[key] = [item.range[0] - PREFIX_LENGTH, value]
        return [mark, members]

    def _count(self) -> None:
        self._values_left -= 1
        if self._values_left < 0:
            raise _InputTooLargeError

    def _value(self, node: Node) -> object:
        kind: str = node.type
        match kind:
            case "Literal":
                value = _scalar(node)
            case "ObjectExpression":
                value = self.object(node)
            case "ArrayExpression":
                value = self._array(node)
            case "UnaryExpression":
                value = _unary(node)
            case _ if kind in _FUNCTIONS or _is_undefined(node):
                value = _ABSENT
            case _ if (text := literal_text(node)) is not None:
                value = _text(text)
            case _:
                value = PRESENT if kind in _ALWAYS_PRESENT else PERHAPS
        return value

    def _array(self, node: Node) -> list[object]:
        mark, items = _ARRAY, list[object]()
        for item in node.elements:
            self._count()
            if item is not None and item.type == "SpreadElement":
                mark = _SOME
                continue
            value = None if item is None else self._value(item)
            items.append(None if value is _ABSENT else PRESENT if value is PERHAPS else value)
        return [mark, items]


def _key(item: Node) -> str | None:
    """The name of a member; None for a spread and for what is not known."""
    if item.type != "Property":
        return None
    return literal_key(item.key, computed=item.computed)


def _scalar(node: Node) -> object:
    if "regex" in vars(node) or node.raw.endswith("n"):
        return PRESENT
    value: object = node.value
    if isinstance(value, str):
        return _text(value)
    return _number(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def _number(value: float) -> object:
    if not math.isfinite(value):
        return None
    if abs(value) > MAX_SAFE_INTEGER:
        return PRESENT
    return int(value) if value == int(value) else value


def _unary(node: Node) -> object:
    argument: Node = node.argument
    if node.operator == "void":
        return _ABSENT
    if node.operator in {"-", "+"} and argument.type == "Literal":
        value: object = argument.value
        if isinstance(value, int | float) and not isinstance(value, bool) and not argument.raw.endswith("n"):
            return _number(-value if node.operator == "-" else value)
    return PRESENT


def _text(text: str) -> object:
    return text if len(text) <= MAX_TEXT and _is_unicode(text) else PRESENT


def _is_unicode(text: str) -> bool:
    """Whether it is Unicode text, which half a surrogate pair is not."""
    return text.isascii() or SURROGATE.search(text) is None


def _is_undefined(node: Node) -> bool:
    return node.type == "Identifier" and node.name == "undefined"


def _is_null(node: Node) -> bool:
    return node.type == "Literal" and node.raw == "null"
