"""Which names a script declares where: the scopes of JavaScript in strict mode."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, cast

from codecall.sandbox.agentscript.parser.esprima import Node

# ----------------------------------------------------------------------------------------------------
# Small questions to the nodes of a script's tree.

FUNCTIONS: Final = frozenset({"ArrowFunctionExpression", "FunctionExpression", "FunctionDeclaration"})
"""Types of nodes that are functions."""


def lone_function(statements: Sequence[Node]) -> Node | None:
    """The function that is all of a script, but for directives; the realm calls it. Generators are none."""
    *before, last = [statement for statement in statements if statement.type != "EmptyStatement"] or [None]
    if last is None or not all(getattr(statement, "directive", None) is not None for statement in before):
        return None
    node: Node = last.expression if last.type == "ExpressionStatement" else last
    return node if node.type in FUNCTIONS and not node.generator else None


def span(node: Node) -> tuple[int, int]:
    """Start and end of a node in the parsed text."""
    start, end = node.range
    return start, end


def children(node: Node) -> Iterator[Node]:
    """The nodes right below a node."""
    for value in cast("dict[str, object]", vars(node)).values():
        for item in cast("list[Node]", value) if isinstance(value, list) else (cast("Node", value),):
            if getattr(item, "range", None) is not None and hasattr(item, "type"):
                yield item


def member_name(node: Node) -> str | int | None:
    """What a member expression names; None when that is computed."""
    if not node.computed:
        return key_name(node.property)
    value = node.property.value if node.property.type == "Literal" else None
    return value if isinstance(value, str | int) and not isinstance(value, bool) else None


def key_name(node: Node) -> str:
    """The name that a key which is not computed stands for."""
    return node.name if node.type in {"Identifier", "PrivateIdentifier"} else str(node.value)


def declared_names(pattern: Node) -> Iterator[Node]:
    """Every name that a pattern declares."""
    pending = [pattern]
    while pending:
        node = pending.pop()
        if node.type == "Identifier":
            yield node
        elif node.type == "Property":
            pending.append(node.value)
        elif node.type == "AssignmentPattern":
            pending.append(node.left)
        else:
            pending.extend(children(node))


# ----------------------------------------------------------------------------------------------------
# Which names a script declares where: the scopes of JavaScript in strict mode.


class Scope:
    """One scope: its names, and what `this`, `arguments` and `return` mean in it."""

    __slots__ = ("arguments", "classes", "depth", "names", "parent", "this", "top", "values", "variables")

    def __init__(self, parent: Scope | None = None) -> None:
        """A block in `parent`, or the top level."""
        self.parent = parent
        self.names: set[str] = set()
        self.classes: set[str] | None = None
        """Those names that are classes of the script; None while there are none."""
        self.values: dict[str, tuple[int, int]] | None = None
        """Where the values of those names stand that have none before; None while there are none."""
        self.depth: int = 0 if parent is None else parent.depth + 1
        if parent is None:
            self.variables = self
            self.top = True
            self.this = self.arguments = False
        else:
            self.variables = parent.variables
            """Where `var` declares."""
            self.top = parent.top
            """Whether `return` here ends the script."""
            self.this = parent.this
            """Whether there is a `this` of the script's own."""
            self.arguments = parent.arguments
            """Whether `arguments` belongs to a function of the script."""

    def function(self, *, arrow: bool) -> Scope:
        """The scope of a function in this one: its parameters and its body."""
        inner = Scope(self)
        inner.variables = inner
        inner.top = False
        if not arrow:
            inner.this = inner.arguments = True
        return inner

    def class_part(self) -> Scope:
        """The scope of a static block or of the value of a field in this one."""
        inner = Scope(self)
        inner.variables = inner
        inner.top = inner.arguments = False
        inner.this = True
        return inner

    def body(self) -> Scope:
        """The scope of the body of this function: its parameters do not see what is declared there."""
        inner = Scope(self)
        inner.variables = inner
        return inner

    def declaring_scope(self, name: str) -> Scope | None:
        """The scope that declares what `name` means here; None when none does."""
        scope: Scope | None = self
        while scope is not None and name not in scope.names:
            scope = scope.parent
        return scope

    def set_value_span(self, name: str, start: int, end: int) -> None:
        """What stands from `start` to `end` is the value of `name`, a variable of this scope that has none before."""
        if self.values is None:
            self.values = {}
        self.values[name] = (start, end)

    def used_before_value(self, name: str, offset: int, inner: Scope) -> bool:
        """Whether `name`, used at `offset` in the scope `inner`, is sure to be used before it has a value."""
        start, end = (self.values or {}).get(name, (0, 0))
        # What a function inside uses, it uses when it is called.
        return start <= offset < end and inner.variables is self.variables
