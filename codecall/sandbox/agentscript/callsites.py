"""Where a script calls what: which tool, resource, prompt or earlier result, with what input, and whether a failure of
it is the script's failure.

A call is `sure` when every run gets to it and, with an input that is wrong, fails by it: `reaching.py` has where that
is so. It is not where the call has options as third argument, which may deal with the failure, nor in a script that
uses `getTool`, which may decide by the schema. What is not sure is reported by a dry run and otherwise left to the run.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple, TypeAlias

from codecall.sandbox.agentscript.grammar import Node
from codecall.sandbox.agentscript.literals import input_text
from codecall.sandbox.agentscript.names import spelled, text_of
from codecall.sandbox.agentscript.reaching import certain_calls
from codecall.sandbox.agentscript.sites import CallKind, CallSite, Outline
from codecall.sandbox.agentscript.walk import SHIFT, Walk

CALLS: Final[dict[str, CallKind]] = {
    "callTool": "tool",
    "readResource": "resource",
    "getPrompt": "prompt",
    "getResult": "result",
}
"""The runtime's functions that call something, and what."""

_MAX_PATH: Final = 8
"""Most members of a name such as `github.issues.create`."""

Spaces: TypeAlias = Mapping[str, Mapping[str, str]]
"""Namespaces by name: their first members, and the tools these stand for."""


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
    by_schema = any(use.name == "getTool" for use in walk.uses)
    certain = set[int]() if by_schema else certain_calls(statements, walk, calls)
    sites: list[CallSite] = []
    for start, (kind, name, space, arguments) in sorted(targets.items()):
        plain = len(arguments) <= 1 and all(item.type != "SpreadElement" for item in arguments)
        spread = any(item.type == "SpreadElement" for item in arguments[:1])
        known = input_text(arguments[0] if arguments else None) if kind == "tool" and not spread else None
        sites.append(CallSite(kind, name, space, start - SHIFT, known, sure=plain and start in certain))
    return sites


def _leads(name: str, spaces: Spaces) -> bool:
    """Whether a name that nobody declares leads to calls."""
    return name in CALLS or name == "tools" or name in spaces


def _target(call: Node, free: Collection[int], spaces: Spaces) -> _Target | None:
    """What a call calls, if that is said by literals."""
    path: list[str] = []
    node: Node = call.callee
    while node.type == "MemberExpression" and len(path) <= _MAX_PATH:
        name = spelled(node.property, computed=node.computed)
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
