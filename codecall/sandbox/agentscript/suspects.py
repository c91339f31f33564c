"""What in a script's own text may have led to its failure."""

from __future__ import annotations

from typing import Final

from codecall.sandbox.agentscript.case import Case, Fields, Said, as_said
from codecall.sandbox.agentscript.evidence import asks_outside
from codecall.sandbox.agentscript.nodes import span
from codecall.sandbox.agentscript.tracing import SHIFT, Reading, taken_apart

_NO_ERRORS: Final = frozenset({"Literal", "TemplateLiteral", "ObjectExpression", "ArrayExpression", "BinaryExpression"})


def own_declaration(case: Case, said: Said) -> Fields | None:
    """A variable is read in the expression that gives it its first value: `const users = await users.list()`."""
    for declarator in case.around("VariableDeclarator"):
        if any(getattr(part, "name", None) == said["name"] for part, _ in taken_apart(declarator.id)):
            return as_said(case, said)
    return None


def constant(case: Case, said: Said) -> Fields | None:
    """A constant is assigned to."""
    for node in case.around("AssignmentExpression", "UpdateExpression"):
        target = node.left if node.type == "AssignmentExpression" else node.argument
        if any(getattr(part, "name", None) == said["name"] for part, _ in taken_apart(target)):
            return as_said(case, said)
    return None


def thrown(case: Case, said: Said) -> Fields | None:
    """The script threw it."""
    del said
    return {} if case.around("ThrowStatement") else None


def values_thrown(reading: Reading) -> list[int]:
    """Where the script throws, or rejects with, what is plainly no error: `throw 'text'`, `Promise.reject()`."""
    found: list[int] = []
    for node in reading.nodes:
        if node.type == "ThrowStatement" and node.argument.type in _NO_ERRORS:
            found.append(span(node)[0] - SHIFT)
        elif node.type == "CallExpression" and reading.text(node.callee) == "Promise.reject":
            reasons = [argument for argument in node.arguments if argument.type not in _NO_ERRORS]
            found += [] if reasons else [span(node)[0] - SHIFT]
    return found


def never_settled(reading: Reading) -> list[int]:
    """Where the script makes a promise that only the script itself can settle, or none can."""
    made = ("Promise.withResolvers", "Promise.race")
    return [
        span(node)[0] - SHIFT
        for node in reading.nodes
        if (node.type == "NewExpression" and reading.text(node.callee) == "Promise")
        or (node.type == "CallExpression" and reading.text(node.callee) in made)
    ]


def statement_calls(reading: Reading) -> list[tuple[int, int]]:
    """Start and end of each call of a tool that is a statement of its own: nobody has its promise."""
    found: list[tuple[int, int]] = []
    for node in reading.nodes:
        if node.type == "ExpressionStatement" and node.expression.type == "CallExpression":
            start, end = span(node.expression)
            if asks_outside(reading, node.expression.callee):
                found.append((start - SHIFT, end - SHIFT))
    return found


def patterns(reading: Reading) -> list[int]:
    """Where the script has regular expressions."""
    return [span(node)[0] - SHIFT for node in reading.nodes if node.type == "Literal" and hasattr(node, "regex")]


def parallel_calls(reading: Reading) -> list[int]:
    """Where the script runs functions in parallel."""
    calls = [node for node in reading.nodes if node.type == "CallExpression"]
    return [span(node)[0] - SHIFT for node in calls if reading.text(node.callee) == "__safe_parallel"]


def pattern_made(case: Case, said: Said) -> Fields | None:
    """A regular expression is made of a text."""
    del said
    made = [node for node in case.around("CallExpression", "NewExpression") if case.named(node.callee) == "RegExp"]
    return {} if made else None
