"""Where a script calls what: which tool, resource or prompt, with what input, and whether a failure of it is the
script's failure.

A call is `sure` when no run can do better than fail, should it be made with an input that is wrong. It is not where the
script itself says what becomes of it:

    it deals with the failure     `try` with `catch` or `finally` around it, or anywhere when the call's promise is not
                                  awaited right there at top level; options as third argument; `.catch`, a second
                                  argument of `.then`, `Promise.allSettled`, `Promise.any` or `Promise.race` anywhere
    it does not wait for it       a statement that is nothing but the call, `void`, a function for `forEach`, a variable
                                  that nothing reads
    it decides about the call     `if`, `?:`, `&&`, `||`, `??`, `?.`, `switch`, a default; code behind a `return`; a
                                  function that nothing names; `getTool` anywhere, which may decide by the schema

What is not sure is reported by a dry run and otherwise left to the run.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping
from typing import Final, NamedTuple, TypeAlias, cast

from codecall.sandbox.agentscript.grammar import Node
from codecall.sandbox.agentscript.literals import input_text
from codecall.sandbox.agentscript.names import text_of
from codecall.sandbox.agentscript.sites import CallKind, CallSite, Outline
from codecall.sandbox.agentscript.walk import SHIFT, Walk, plain_key

CALLS: Final[dict[str, CallKind]] = {"callTool": "tool", "readResource": "resource", "getPrompt": "prompt"}
"""The runtime's functions that call something, and what."""

_SETTLING: Final = frozenset({"catch", "allSettled", "any", "race"})
"""Methods by which a script deals with failures of promises."""

_FUNCTIONS: Final = frozenset({"ArrowFunctionExpression", "FunctionDeclaration", "FunctionExpression"})
_LEAVING: Final = frozenset({"ReturnStatement", "ThrowStatement", "BreakStatement", "ContinueStatement"})
_DECIDING: Final = {
    "IfStatement": ("consequent", "alternate"),
    "ConditionalExpression": ("consequent", "alternate"),
    "LogicalExpression": ("right",),
    "AssignmentPattern": ("right",),
    "SwitchCase": ("test", "consequent"),
    "CatchClause": ("body",),
    "ChainExpression": ("expression",),
    # One with neither `catch` nor `finally` there is not
    "TryStatement": ("block", "handler"),
}
"""By type of node: its parts that may or may not run, or whose failure is dealt with."""

_MAX_PATH: Final = 8
"""Most members of a name such as `github.issues.create`."""

Spaces: TypeAlias = Mapping[str, Mapping[str, str]]
"""Namespaces by name: their first members, and the tools these stand for."""


class _Place(NamedTuple):
    """How a run comes to a node."""

    nested: bool = False
    """In a function."""
    settled: bool = False
    """Something around it deals with failures, or decides whether it runs at all."""
    awaited: bool = False
    """Its value, if it is a promise, is awaited right there."""
    last: bool = False
    """It is the script's last statement, whose value may be the script's."""


class _Target(NamedTuple):
    """What a call calls."""

    kind: CallKind
    name: str
    space: str | None
    """The namespace it is looked for in."""
    arguments: list[Node]
    """Its input and its options."""


def outline_of(statements: list[Node], walk: Walk, spaces: Spaces) -> Outline:
    """What a script is made of.

    Args:
        statements: the script's.
        walk: over them.
        spaces: the namespaces it uses, with what is known of their members.
    """
    free = {use.offset + SHIFT for use in walk.uses if _leads(use.name, spaces) and use.scope.home(use.name) is None}
    calls: dict[int, Node] = {}
    targets: dict[int, _Target] = {}
    for call in walk.calls if free else ():
        if (target := _target(call, free, spaces)) is not None:
            calls[call.range[0]], targets[call.range[0]] = call, target
    # Each use leads to one call, or to who knows what.
    return Outline(walk.loops, _sites(statements, walk, calls, targets), len(free) > len(targets))


def _sites(
    statements: list[Node], walk: Walk, calls: Mapping[int, Node], targets: Mapping[int, _Target]
) -> list[CallSite]:
    if not targets:
        return []
    used = {use.name for use in walk.uses}
    settles = bool(walk.catches) or any(map(_settles, walk.calls))
    by_schema = "getTool" in used
    sites: list[CallSite] = []
    for start, place in sorted(_places(statements, calls, used)):
        kind, name, space, arguments = targets[start]
        plain = len(arguments) <= 1 and all(item.type != "SpreadElement" for item in arguments)
        spread = any(item.type == "SpreadElement" for item in arguments[:1])
        known = input_text(arguments[0] if arguments else None) if kind == "tool" and not spread else None
        dealt_with = by_schema or place.settled or (settles and (place.nested or not place.awaited))
        sites.append(CallSite(kind, name, space, start - SHIFT, known, sure=plain and not dealt_with))
    return sites


def _leads(name: str, spaces: Spaces) -> bool:
    """Whether a name that nobody declares leads to calls."""
    return name in CALLS or name == "tools" or name in spaces


def _target(call: Node, free: Collection[int], spaces: Spaces) -> _Target | None:
    """What a call calls, if that is said by literals."""
    path: list[str] = []
    node: Node = call.callee
    while node.type == "MemberExpression" and len(path) <= _MAX_PATH:
        name = text_of(node.property) if node.computed else plain_key(node.property)
        if name is None:
            return None
        path.append(name)
        node = node.object
    if node.type != "Identifier" or node.range[0] not in free:
        return None
    arguments: list[Node] = call.arguments
    if node.name in CALLS:
        name = text_of(arguments[0]) if arguments and not path else None
        return None if name is None else _Target(CALLS[node.name], name, None, arguments[1:])
    if not path:
        return None
    member, *above = path
    if node.name != "tools":
        above.append(node.name)
        known = spaces[node.name].get(member) if len(above) == 1 else None
        if known is not None:
            return _Target("tool", known, None, arguments)
    return _Target("tool", member, ".".join(reversed(above)), arguments)


def _settles(call: Node) -> bool:
    """Whether a call may be there to deal with failures of promises."""
    callee: Node = call.callee
    if callee.type != "MemberExpression":
        return False
    name = text_of(callee.property) if callee.computed else plain_key(callee.property)
    return name is None or name in _SETTLING or (name == "then" and len(call.arguments) > 1)


def _places(statements: list[Node], calls: Mapping[int, Node], used: Collection[str]) -> Iterator[tuple[int, _Place]]:
    """How a run comes to `calls`, which are given by where they begin; only what leads to one is looked at."""
    starts = sorted(calls)
    pending: list[tuple[Node, _Place]] = _listed(statements, _Place())
    pending[-1] = (pending[-1][0], pending[-1][1]._replace(last=True))
    while pending:
        node, place = pending.pop()
        first, end = node.range
        at = bisect_left(starts, first)
        if at == len(starts) or starts[at] >= end:
            continue
        if calls.get(first) is node:
            yield first, place
        deciding = _DECIDING.get(node.type, ())
        inside = _inside(node, place, used)
        for field, part in _parts(node):
            below = inside._replace(settled=True) if field in deciding else inside
            pending.extend(_listed(part, below))


def _parts(node: Node) -> Iterator[tuple[str, list[Node]]]:
    """The nodes in a node, by the fields that have them."""
    fields = cast("Mapping[str, object]", vars(node))
    for field, value in fields.items():
        items = cast("list[object]", value) if isinstance(value, list) else [value]
        yield field, [item for item in items if hasattr(item, "range")]


def _inside(node: Node, place: _Place, used: Collection[str]) -> _Place:
    """How a run comes to the parts of a node, once it has come to the node."""
    kind: str = node.type
    inside = place._replace(awaited=False, last=False)
    if _drops(node, place):
        return inside._replace(settled=True)
    if kind == "AwaitExpression" or (kind == "ReturnStatement" and not place.nested):
        return inside._replace(awaited=True)
    if place.awaited and (kind == "ArrayExpression" or (kind == "CallExpression" and _is_all(node))):
        return place
    if kind in _FUNCTIONS:
        idle = kind == "FunctionDeclaration" and node.id.name not in used
        return inside._replace(nested=True, settled=place.settled or idle)
    if kind == "VariableDeclarator":
        # A function that nothing calls, or a promise that nobody waits for
        idle = node.id.type == "Identifier" and node.id.name not in used
        waits = node.init is not None and node.init.type == "AwaitExpression"
        return inside._replace(settled=place.settled or (idle and not waits))
    decides = kind == "AssignmentExpression" and node.operator in {"&&=", "||=", "??="}
    return inside._replace(settled=place.settled or decides)


def _drops(node: Node, place: _Place) -> bool:
    """Whether nobody waits for the promises that the parts of `node` may be."""
    if node.type == "ExpressionStatement":
        return not place.last and node.expression.type == "CallExpression"
    if node.type == "UnaryExpression":
        return node.operator == "void"
    return node.type == "CallExpression" and _member(node.callee) == "forEach"


def _is_all(call: Node) -> bool:
    owner: Node = call.callee.object if call.callee.type == "MemberExpression" else None
    return (
        owner is not None and owner.type == "Identifier" and owner.name == "Promise" and _member(call.callee) == "all"
    )


def _member(callee: Node) -> str | None:
    """The name of the member that is called; None where it is none, or computed."""
    return plain_key(callee.property) if callee.type == "MemberExpression" and not callee.computed else None


def _listed(nodes: list[Node], place: _Place) -> list[tuple[Node, _Place]]:
    """Nodes of one list. Of statements, those are settled to which nothing comes; functions are there all the same."""
    listed: list[tuple[Node, _Place]] = []
    behind = place._replace(settled=True)
    left = False
    for node in nodes:
        listed.append((node, behind if left and node.type != "FunctionDeclaration" else place))
        left = left or node.type in _LEAVING
    return listed
