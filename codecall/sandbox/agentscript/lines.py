"""Which lines of a script can run: where its statements begin, for runs that say which lines ran.

A line counts when a statement begins on it, or the body of an arrow function without braces, or the value of a class's
field. Function declarations do not: nothing runs where one stands. Nor do blocks, labels and empty statements.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from itertools import chain
from typing import Final, Literal, cast

from codecall.sandbox.agentscript.grammar import Node
from codecall.sandbox.agentscript.sites import Checked, StatementSite
from codecall.sandbox.agentscript.statements import LOOPS

_SILENT: Final = frozenset({"BlockStatement", "EmptyStatement", "FunctionDeclaration"})

_LISTS: Final = {"BlockStatement": "body", "SwitchCase": "consequent"}
"""By type of node: where it holds a list of statements. The bodies of functions and static blocks are blocks."""


def statement_sites(statements: list[Node], shift: int) -> list[StatementSite]:
    """Every statement at which a line can be seen to run, in no order; nodes' ranges begin `shift` characters early."""
    sites = [_site(statement, "list", shift) for statement in statements if statement.type not in _SILENT]
    pending = list(statements)
    while pending:
        node = pending.pop()
        kind: str = node.type
        if kind in _LISTS:
            inside: list[Node] = getattr(node, _LISTS[kind])
            sites.extend(_site(statement, "list", shift) for statement in inside if statement.type not in _SILENT)
        elif kind == "IfStatement":
            branches = [node.consequent] if node.alternate is None else [node.consequent, node.alternate]
            sites.extend(
                _branch(branch, shift, is_else=branch is node.alternate)
                for branch in branches
                if branch.type not in _SILENT
            )
        elif kind in LOOPS and node.body.type not in _SILENT:
            sites.append(_site(node.body, "loop", shift))
        pending.extend(children(node))
    return sites


def _site(statement: Node, place: Literal["list", "branch", "loop"], shift: int) -> StatementSite:
    start, end = statement.range
    return StatementSite(start - shift, end - shift, place)


def _branch(branch: Node, shift: int, *, is_else: bool) -> StatementSite:
    """A branch of an `if` without braces. A chain of `else if` must not nest: some are thousands long."""
    if is_else and branch.type == "IfStatement":
        return StatementSite(branch.range[0] - shift, branch.range[1] - shift, "test", branch.test.range[0] - shift)
    return _site(branch, "branch", shift)


def children(node: Node) -> Iterator[Node]:
    """The nodes inside `node`, one level down."""
    for value in cast("dict[str, Node]", vars(node)).values():
        if isinstance(value, list):
            yield from (item for item in cast("list[Node]", value) if hasattr(item, "range"))
        elif hasattr(value, "range"):
            yield value


class Lines:
    """From offsets in a script to its lines, which end as the parser and the engine agree: with a line feed."""

    def __init__(self, script: str) -> None:
        self._starts = [0]
        at = script.find("\n")
        while at >= 0:
            self._starts.append(at + 1)
            at = script.find("\n", at + 1)

    def at(self, offset: int) -> int:
        """The line, from 1, of the character at `offset`."""
        return bisect_right(self._starts, offset)


def runnable_lines(script: str, checked: Checked) -> frozenset[int]:
    """The lines of a script that can run; `checked` is of a check that looked for statements."""
    lines = Lines(script)
    bodies = (site.body_start for site in checked.functions if site.is_expression)
    return frozenset(map(lines.at, chain((site.start for site in checked.statements or ()), bodies)))
