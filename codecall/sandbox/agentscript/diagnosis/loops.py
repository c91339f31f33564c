"""Why a loop did not end: for the hint of a limit that is reached in it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from codecall.sandbox.agentscript.diagnosis.causes import missing_fields
from codecall.sandbox.agentscript.diagnosis.context import FailureContext
from codecall.sandbox.agentscript.diagnosis.flow.dataflow import DataFlow
from codecall.sandbox.agentscript.parser.esprima import Node
from codecall.sandbox.agentscript.parser.parse import LOOP_TYPES, PREFIX_LENGTH, children, span

_MAX_NODES: Final = 200
"""Nodes that are looked at inside of one."""
_ENDS: Final = frozenset({"BreakStatement", "ReturnStatement"})


def endless_loop(dataflow: DataFlow, offset: int) -> int | None:
    """Where the innermost loop at a place begins, if it has no condition: `for (;;)`, `while (true)`."""
    for node in dataflow.enclosing(offset, *LOOP_TYPES)[:1]:
        test = getattr(node, "test", None)
        if node.type not in {"ForOfStatement", "ForInStatement"} and (
            test is None or getattr(test, "value", 0) is True
        ):
            return span(node)[0] - PREFIX_LENGTH
    return None


def undefined_at_break(context: FailureContext) -> str | None:
    """What is undefined of that which a `break` of the innermost loop tests."""
    for loop in context.enclosing(*LOOP_TYPES)[:1]:
        for node in _descendants(loop.body):
            if node.type == "IfStatement" and any(each.type in _ENDS for each in _descendants(node.consequent)):
                for read in _descendants(node.test):
                    fields = missing_fields(context, read, "") if read.type == "MemberExpression" else None
                    if fields is not None and (fields["nothing"], fields["some"]) == ("undefined", ""):
                        what = f"`{fields['what']}` is undefined, which a `break` of the loop tests"
                        return f"{what}: {fields['tool']} returned {fields['shape']}.{fields['use']}"
    return None


def _descendants(node: Node) -> Iterator[Node]:
    """A node and those inside it; some of them where there are very many."""
    pending = [node]
    for _ in range(_MAX_NODES):
        if not pending:
            return
        node = pending.pop()
        yield node
        pending.extend(children(node))
