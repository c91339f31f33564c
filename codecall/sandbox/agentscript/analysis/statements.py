"""Executable statements of a script, for line coverage."""

from __future__ import annotations

from itertools import chain
from typing import Final, Literal

from codecall.sandbox.agentscript.checked import CheckedScript, LineTable, StatementSite
from codecall.sandbox.agentscript.parser.ast import LOOP_TYPES, children
from codecall.sandbox.agentscript.parser.esprima import Node
from codecall.sandbox.agentscript.parser.parse import PREFIX_LENGTH

_NOT_EXECUTED: Final = frozenset({"BlockStatement", "EmptyStatement", "FunctionDeclaration"})

_STATEMENT_LISTS: Final = {"BlockStatement": "body", "SwitchCase": "consequent"}
"""By type of node: its field with a list of statements. The bodies of functions and static blocks are blocks."""


def statement_sites(statements: list[Node]) -> list[StatementSite]:
    """Every statement whose execution shows that its line ran, in no order."""
    sites = [_statement_site(statement, "list") for statement in statements if statement.type not in _NOT_EXECUTED]
    pending = list(statements)
    while pending:
        node = pending.pop()
        kind: str = node.type
        if kind in _STATEMENT_LISTS:
            inside: list[Node] = getattr(node, _STATEMENT_LISTS[kind])
            sites.extend(
                _statement_site(statement, "list") for statement in inside if statement.type not in _NOT_EXECUTED
            )
        elif kind == "IfStatement":
            branches = [node.consequent] if node.alternate is None else [node.consequent, node.alternate]
            sites.extend(
                _branch_site(branch, is_else=branch is node.alternate)
                for branch in branches
                if branch.type not in _NOT_EXECUTED
            )
        elif kind in LOOP_TYPES and node.body.type not in _NOT_EXECUTED:
            sites.append(_statement_site(node.body, "loop"))
        pending.extend(children(node))
    return sites


def runnable_lines(script: str, checked: CheckedScript) -> frozenset[int]:
    """The lines of a script that can run; `checked` is the result of a validation that collected statements."""
    lines = LineTable(script)
    bodies = (site.body_start for site in checked.functions if site.is_expression)
    return frozenset(map(lines.line, chain((site.start for site in checked.statements or ()), bodies)))


def _branch_site(branch: Node, *, is_else: bool) -> StatementSite:
    """A branch of an `if` without braces. A chain of `else if` must not nest: some are thousands long."""
    if is_else and branch.type == "IfStatement":
        return StatementSite(
            branch.range[0] - PREFIX_LENGTH,
            branch.range[1] - PREFIX_LENGTH,
            "test",
            branch.test.range[0] - PREFIX_LENGTH,
        )
    return _statement_site(branch, "branch")


def _statement_site(statement: Node, place: Literal["list", "branch", "loop"]) -> StatementSite:
    start, end = statement.range
    return StatementSite(start - PREFIX_LENGTH, end - PREFIX_LENGTH, place)
