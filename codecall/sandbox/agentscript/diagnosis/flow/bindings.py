"""The bindings of a script: by which expressions each of its variables gets its values, and the path between the two.

It knows declarations and assignments, destructuring, loops over lists, what is put into a list (`push`), and
parameters: of the usual callbacks, and of functions of the script that are only called.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from codecall.sandbox.agentscript.diagnosis.flow.paths import Step, ValuePath
from codecall.sandbox.agentscript.parser.esprima import Node
from codecall.sandbox.agentscript.parser.parse import FUNCTIONS, children, declared_names, key_name, member_name, span

_MAX_CALLS: Final = 8
"""Calls of one function whose arguments are followed; of one with more, those of none are."""

_SCOPES: Final = FUNCTIONS | {"BlockStatement", "ForStatement", "ForOfStatement", "CatchClause", "SwitchStatement"}

_FIRST_PARAMETER: Final = frozenset(
    {"map", "forEach", "filter", "find", "findLast", "findIndex", "findLastIndex", "some", "every", "flatMap", "sort"}
    | {"toSorted"}
)
"""Methods of a list that pass an item as the first argument of their callback."""
_SECOND_PARAMETER: Final = frozenset({"reduce", "reduceRight"})
_FILLING: Final = frozenset({"push", "unshift"})
"""Methods of a list that put items into it."""

PATTERNS: Final = frozenset({"ArrayPattern", "ObjectPattern"})

Span: TypeAlias = tuple[int, int]
"""Start and end in the parsed text."""


@dataclass(frozen=True, slots=True)
class Binding:
    """One way by which a name gets its value."""

    scope: Span
    value: Node
    """The expression whose value is bound or destructured."""
    path: ValuePath
    """From that value to the name's."""
    call: Node | None = None
    """The call of the script's own function that the value is an argument of."""


class Bindings:
    """The variables of a script.

    Args:
        statements: Its statements at top level.
        top: Where they begin and end.
    """

    def __init__(self, statements: Sequence[Node], top: Span) -> None:
        self.nodes: list[Node] = []
        """All nodes, from the first to the last."""
        self._by_name: dict[str, list[Binding]] = {}
        self._by_pattern: dict[int, list[Binding]] = {}
        """By the identity of a pattern, or of a part of one that has a default: what its value is taken from."""
        self._arguments: set[int] = set()
        """The identities of arguments that are followed to a parameter."""
        self._items: set[int] = set()
        """The identities of arguments that become items of a list of the script's own."""
        self._declared: dict[str, list[Span]] = {}
        """The scopes in which a name is declared."""
        pending: list[tuple[Node, Span]] = [(statement, top) for statement in reversed(statements)]
        while pending:
            node, scope = pending.pop()
            self.nodes.append(node)
            self._bind(node, scope)
            inner = span(node) if node.type in _SCOPES else scope
            pending.extend((child, inner) for child in reversed(list(children(node))))
        self._bind_arguments()
        self._by_variable: dict[tuple[str, Span | None], list[Binding]] = {}

    def declares(self, name: str) -> bool:
        """Whether the script has a variable or function of that name anywhere."""
        return name in self._declared

    def is_followed(self, argument: Node) -> bool:
        """Whether an argument of a call becomes the value of a parameter that is looked at in its place."""
        return id(argument) in self._arguments

    def is_item(self, argument: Node) -> bool:
        """Whether an argument of a call becomes an item of a list that is followed."""
        return id(argument) in self._items

    def of(self, target: Node) -> Sequence[Binding]:
        """How a name, a pattern, or a part of one that has a default gets its values."""
        if target.type != "Identifier":
            return self._by_pattern.get(id(target), ())
        variable = target.name, self.declaring_scope(target)
        if variable not in self._by_variable:
            bindings = self._by_name.get(target.name, ())
            self._by_variable[variable] = [binding for binding in bindings if binding.scope == variable[1]]
        return self._by_variable[variable]

    def declaring_scope(self, name: Node) -> Span | None:
        """The scope of the variable that `name` stands for."""
        place = span(name)[0]
        return max((scope for scope in self._declared.get(name.name, ()) if scope[0] <= place < scope[1]), default=None)

    def _bind(self, node: Node, scope: Span) -> None:
        if node.type in FUNCTIONS:
            for param in node.params:
                self._declare(param, span(node))
        match node.type:
            case "VariableDeclarator":
                self._declare(node.id, scope)
                if node.init is not None:
                    self._bind_pattern(node.id, node.init, (), scope)
            case "FunctionDeclaration" | "ClassDeclaration":
                self._declare(node.id, scope)
                self._bind_pattern(node.id, node, (), scope)
            case "AssignmentExpression" if node.operator == "=":
                self._bind_pattern(node.left, node.right, (), None)
                self._bind_property(node)
            case "ForOfStatement" if node.left.type == "VariableDeclaration":
                self._declare(node.left.declarations[0].id, span(node))
                self._bind_pattern(node.left.declarations[0].id, node.right, (Step.EACH,), span(node))
            case "CallExpression" if node.callee.type == "MemberExpression" and node.arguments:
                if member_name(node.callee) in _FILLING:
                    self._bind_items(node)
                else:
                    self._bind_parameters(node)
            case _:
                return

    def _bind_property(self, assignment: Node) -> None:
        """`byId[item.id] = item`: the object has this value."""
        target: Node = assignment.left
        if target.type == "MemberExpression" and target.object.type == "Identifier":
            owner, name = target.object, member_name(target)
            if (scope := self.declaring_scope(owner)) is not None:
                path = (Step.GATHERED, Step.EACH if name is None else name)
                self._by_name.setdefault(owner.name, []).append(Binding(scope, assignment.right, path))

    def _bind_items(self, call: Node) -> None:
        """`all.push(item)`, `all.push(...items)`: the list has these items."""
        name: Node = call.callee.object
        if name.type != "Identifier" or (scope := self.declaring_scope(name)) is None:
            return
        for argument in call.arguments:
            self._items.add(id(argument))
            value, path = item_of(argument)
            self._by_name.setdefault(name.name, []).append(Binding(scope, value, path))

    def _bind_parameters(self, call: Node) -> None:
        """`items.map((item) => …)`: the parameter is one of the items; `then((value) => …)`: it is the value."""
        method, function, items = member_name(call.callee), call.arguments[0], call.callee.object
        if method == "groupBy" and len(call.arguments) == 2:
            items, function = call.arguments
        if function.type not in FUNCTIONS:
            return
        params: list[Node] = function.params
        if method == "then":
            bound, path = params[:1], ()
        elif method in _FIRST_PARAMETER or method == "groupBy":
            bound, path = params[: 2 if method in {"sort", "toSorted"} else 1], (Step.EACH,)
        elif method in _SECOND_PARAMETER:
            bound, path = params[1:2], (Step.EACH,)
            if params and len(call.arguments) > 1:
                self._bind_pattern(params[0], call.arguments[1], (), span(function))
        else:
            return
        for param in bound:
            self._bind_pattern(param, items, path, span(function))

    def _bind_arguments(self) -> None:
        """The parameters of functions that have a name of their own, and are only called by it, a few times."""
        calls: dict[str, list[Node]] = {}
        mentions: dict[str, int] = {}
        for node in self.nodes:
            if node.type == "Identifier":
                mentions[node.name] = mentions.get(node.name, 0) + 1
            elif node.type == "CallExpression" and node.callee.type == "Identifier":
                calls.setdefault(node.callee.name, []).append(node)
            elif node.type in {"MemberExpression", "Property"} and not node.computed:
                name: Node = node.property if node.type == "MemberExpression" else node.key
                if name.type == "Identifier":
                    mentions[name.name] = mentions.get(name.name, 0) - 1
        for name, places in calls.items():
            # It is mentioned where it is declared, too.
            if len(self._declared.get(name, ())) == mentions[name] - len(places) == 1 and len(places) <= _MAX_CALLS:
                functions = [binding.value for binding in self._by_name.get(name, ()) if not binding.path]
                for call in places if len(functions) == 1 and functions[0].type in FUNCTIONS else ():
                    self._bind_call(call, functions[0])

    def _bind_call(self, call: Node, function: Node) -> None:
        for param, argument in zip(function.params, call.arguments, strict=False):
            if param.type == "RestElement" or argument.type == "SpreadElement":
                return
            self._arguments.add(id(argument))
            target = param.left if param.type == "AssignmentPattern" else param
            self._bind_pattern(target, argument, (), span(function), call)

    def _declare(self, pattern: Node, scope: Span) -> None:
        for target in declared_names(pattern):
            self._declared.setdefault(target.name, []).append(scope)

    def _bind_pattern(
        self, pattern: Node, value: Node, path: ValuePath, scope: Span | None, call: Node | None = None
    ) -> None:
        """Bind the names in a pattern to their values in `scope`; None: in the scope where each is declared."""
        for target, steps in pattern_parts(pattern, path):
            if target.type in PATTERNS or (target.type == "AssignmentPattern" and steps):
                binding = Binding(scope or span(target), value, steps, call)
                self._by_pattern.setdefault(id(target), []).append(binding)
            elif target.type == "Identifier" and (home := scope or self.declaring_scope(target)) is not None:
                self._by_name.setdefault(target.name, []).append(Binding(home, value, steps, call))


def pattern_parts(pattern: Node, path: ValuePath = ()) -> Iterator[tuple[Node, ValuePath]]:
    """Every part of a pattern, itself first, with the path to its value; without defaults and the rest element."""
    pending: list[tuple[Node, ValuePath]] = [(pattern, path)]
    while pending:
        node, steps = pending.pop()
        yield node, steps
        if node.type == "ObjectPattern":
            plain = [item for item in node.properties if item.type == "Property" and not item.computed]
            pending.extend((item.value, (*steps, key_name(item.key))) for item in plain)
        elif node.type == "ArrayPattern":
            pending.extend((item, (*steps, index)) for index, item in enumerate(node.elements) if item is not None)


def item_of(element: Node) -> tuple[Node, ValuePath]:
    """The expression that an element of a list, or an argument, is made from, and the path from its value to the list
    of such elements."""
    if element.type == "SpreadElement":
        return element.argument, (Step.EACH, Step.LISTED)
    return element, (Step.LISTED,)
