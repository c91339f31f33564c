"""Names of properties that a script writes itself: what it reads under them need not be what an answer has."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

from codecall.sandbox.agentscript.diagnosis.context import FailureContext
from codecall.sandbox.agentscript.diagnosis.flow.dataflow import DataFlow
from codecall.sandbox.agentscript.parser.esprima import Node
from codecall.sandbox.agentscript.parser.parse import key_name, member_name

_MAX_WRITES: Final = 200
"""Assignments that are looked at; with more, any name may be written."""
_TARGETS: Final = frozenset({"AssignmentExpression", "UpdateExpression"})


def written_names(dataflow: DataFlow, context: FailureContext) -> frozenset[str] | None:
    """The names of properties that the script writes; None where it may write any of an answer's: `row[key] = value`.

    Args:
        dataflow: The script.
        context: Its answers.
    """
    names = set[str]()
    writes = list(islice(_writes(dataflow), _MAX_WRITES))
    for owner, name in writes:
        if name is not None:
            names.add(name)
        elif next(iter(context.observations(owner)), None) is not None:
            return None
    return None if len(writes) == _MAX_WRITES else frozenset(names)


def _writes(dataflow: DataFlow) -> Iterator[tuple[Node, str | None]]:
    """What the script writes properties of, each with the name of one; None: it is computed."""
    for node in dataflow.nodes:
        if node.type in _TARGETS:
            yield from _targets(node.argument if node.type == "UpdateExpression" else node.left)
        elif node.type == "CallExpression" and dataflow.text(node.callee) == "Object.assign" and node.arguments:
            owner, *given = node.arguments
            for source in given:
                items: list[Node] = source.properties if source.type == "ObjectExpression" else []
                yield from ((owner, key_name(item.key) if item.type == "Property" else None) for item in items)
                if source.type != "ObjectExpression":
                    yield owner, None


def _targets(pattern: Node) -> Iterator[tuple[Node, str | None]]:
    """The properties that an assignment to a pattern gives a value."""
    pending = [pattern]
    while pending:
        target = pending.pop()
        match str(target.type):
            case "MemberExpression":
                name = member_name(target)
                yield target.object, name if isinstance(name, str) else None
            case "ArrayPattern":
                pending += [item for item in target.elements if item is not None]
            case "ObjectPattern":
                pending += [item.value if item.type == "Property" else item.argument for item in target.properties]
            case "AssignmentPattern":
                pending.append(target.left)
            case "RestElement":
                pending.append(target.argument)
            case _:
                pass
