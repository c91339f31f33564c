"""Maps, Sets and iterators that a script makes, and takes for lists or objects."""

from __future__ import annotations

from typing import Final

from codecall.sandbox.agentscript.diagnosis.flow.dataflow import DataFlow
from codecall.sandbox.agentscript.diagnosis.places import callee_name
from codecall.sandbox.agentscript.parser.esprima import Node
from codecall.sandbox.agentscript.parser.parse import member_name

_GIVES_ITERATOR: Final = frozenset({"keys", "values", "entries", "matchAll"})


def collection_remedy(dataflow: DataFlow, read: Node) -> str:
    """What to write where a property is read of a Map or a Set that the script has made, and is none of theirs; empty
    for all else."""
    if read.type != "MemberExpression" or (kind := collection_kind(dataflow, read.object)) not in {"a Map", "a Set"}:
        return ""
    owner, name = dataflow.text(read.object), member_name(read)
    if name == "length":
        return f" `{owner}` is {kind}: write `{owner}.size`."
    key = dataflow.text(read.property) if read.computed else f"'{name}'"
    return f" `{owner}` is a Map: write `{owner}.get({key})`." if kind == "a Map" else ""


def collection_kind(dataflow: DataFlow, owner: Node) -> str | None:
    """What an expression is that the script has made: a Map, a Set or an iterator; None for all else."""
    values = dataflow.values_of(owner) if owner.type == "Identifier" else [owner]
    kinds = {_made_collection(dataflow, value) for value in values}
    return kinds.pop() if len(kinds) == 1 else None


def _made_collection(dataflow: DataFlow, value: Node) -> str | None:
    if value.type == "NewExpression":
        return {"Map": "a Map", "Set": "a Set"}.get(dataflow.text(value.callee))
    if value.type != "CallExpression":
        return None
    callee: Node = value.callee
    functions = dataflow.values_of(callee) if callee.type == "Identifier" else []
    makes = functions and all(getattr(function, "generator", False) for function in functions)
    gives = callee_name(value) in _GIVES_ITERATOR and dataflow.text(callee.object) != "Object"
    return "a Map" if dataflow.text(callee) == "Map.groupBy" else "an iterator" if makes or gives else None
