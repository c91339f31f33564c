"""What a script does with the values of its calls besides reading the property in question: whether it has another way
to their data, or is prepared for the property to be missing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeAlias

from codecall.sandbox.agentscript.diagnosis.flow.dataflow import CallOrigin, DataFlow
from codecall.sandbox.agentscript.diagnosis.flow.paths import ValuePath, kind_of_place
from codecall.sandbox.agentscript.diagnosis.remedies import may_have
from codecall.sandbox.agentscript.foreign_words import LIST_MEMBERS
from codecall.sandbox.agentscript.parser.esprima import Node
from codecall.sandbox.agentscript.parser.parse import FUNCTIONS, children, key_name, member_name

MAX_LOOKED_AT: Final = 400
"""Expressions of one script that are followed to the call they come from."""

_MAX_SPOTS: Final = 100
"""Places of one variable that are looked at."""

_VALUES: Final = frozenset({"Identifier", "MemberExpression"})
_TRANSPARENT: Final = frozenset({"ChainExpression", "AwaitExpression"})
_NO_USE: Final = frozenset(
    {"ExpressionStatement", "ArrayPattern", "ObjectPattern", "RestElement", "VariableDeclarator"}
    | {"LabeledStatement", "BreakStatement", "ContinueStatement"}
)
"""What a name stands in without its value being used, or where it becomes the value of a variable, which is looked at
in its place, as that of a parameter is."""
_OUTPUTS: Final = frozenset({"console", "JSON", "String"})
"""Callees, or what stands before their dot, that show a value, and take nothing out of it."""

Place: TypeAlias = tuple[int, ValuePath]
"""A value in the answers of a call: the call's identity, and the path, with `Step.EACH` for every step to an item."""


class AnswerUses:
    """The uses of answers in one script.

    Args:
        dataflow: The script.
    """

    def __init__(self, dataflow: DataFlow) -> None:
        self._dataflow = dataflow
        self._parents = {id(child): node for node in dataflow.nodes for child in children(node)}
        self._budget = MAX_LOOKED_AT
        self._of_nodes: dict[int, frozenset[Place]] = {}
        self._of_variables: dict[object, frozenset[Place]] = {}
        self._taken_apart: dict[tuple[frozenset[Place], str], bool] = {}
        self._tested: dict[tuple[frozenset[Place], str], bool] = {}
        self._members: dict[object, list[Node]] = {}
        """Member expressions by the name that they read; those of computed ones by None."""
        self._identifiers: dict[str, list[Node]] = {}
        """Variables by their names, which stand behind no dot and before no colon."""
        names = set[int]()
        for node in dataflow.nodes:
            if node.type == "MemberExpression":
                self._members.setdefault(member_name(node), []).append(node)
                names |= set() if node.computed else {id(node.property)}
            elif node.type == "Property" and not node.computed and node.key is not node.value:
                names.add(id(node.key))
            elif node.type == "Identifier" and id(node) not in names:
                self._identifiers.setdefault(node.name, []).append(node)

    def parent(self, node: Node) -> Node | None:
        """The node that an expression is part of, without `?.` and `await`."""
        return self._context(node)[1]

    def _context(self, node: Node) -> tuple[Node, Node | None]:
        """The outermost expression with the value of this one, and the node that it is part of."""
        while (parent := self._parents.get(id(node))) is not None and parent.type in _TRANSPARENT:
            node = parent
        return node, parent

    def whole_of(self, read: Node) -> Node:
        """The whole expression whose value this one may be: `a.items ?? a.data ?? []` of `a.items` and of `a.data`; the
        pattern that it is a part of where it is destructured."""
        node, parent = self._whole(read)
        owner = None if parent is None else self._parents.get(id(parent))
        return owner if owner is not None and owner.type == "ObjectPattern" else node

    def _whole(self, node: Node) -> tuple[Node, Node | None]:
        """The outermost expression whose value this one may be, and the node that it is part of."""
        node, parent = self._context(node)
        while parent is not None and _may_be_value(node, parent):
            node, parent = self._context(parent)
        return node, parent

    def alternatives(self, node: Node) -> Iterator[Node]:
        """The other operands of `??` or `||` that this expression is one of."""
        whole, parent = self._context(node)
        while parent is not None and parent.type == "LogicalExpression" and parent.operator != "&&":
            whole, parent = self._context(parent)
        pending = [whole]
        while pending:
            item = pending.pop()
            if item.type == "ChainExpression":
                pending.append(item.expression)
            elif item.type == "LogicalExpression" and item.operator != "&&":
                pending += [item.left, item.right]
            elif item is not node:
                yield item

    # The values of answers

    def owners_of(self, read: Node) -> frozenset[Place]:
        """What the property that `read` reads is taken from."""
        return frozenset((call, path[:-1]) for call, path in self._places(read) if path)

    def _places(self, node: Node) -> frozenset[Place]:
        """The values of answers that an expression may be; none once enough of them were looked at."""
        if id(node) not in self._of_nodes:
            self._budget -= 1
            if self._budget < 0:
                return frozenset()
            variable = self._dataflow.variable(node) if node.type == "Identifier" else id(node)
            if variable not in self._of_variables:
                self._of_variables[variable] = frozenset(_places_of(self._dataflow.origins(node)))
            self._of_nodes[id(node)] = self._of_variables[variable]
        return self._of_nodes[id(node)]

    # Other ways to them

    def may_read(self, owners: frozenset[Place], key: str) -> bool:
        """Whether the script reads a property of that name of one of these values, or gives one of them to what may:
        to a function, to `??`, to `...`. True, too, where there is too much to look at."""
        known = owners, key
        if known not in self._taken_apart:
            found = any(owners & self._places(owner) for owner in self._owners_of_reads(key))
            found = found or any(owners & self.owners_of(read) for read in self._destructured(key))
            self._taken_apart[known] = found or self._budget < 0
        return self._taken_apart[known]

    def may_read_deeper(self, owners: frozenset[Place], holder: str, key: str) -> bool:
        """The same for the property of that name of the value of another one."""
        inner = frozenset((call, (*path, holder)) for call, path in owners)
        return self.may_read(inner, key) or any(owners & self._places(node) for node in self._nodes_taken_apart())

    def _owners_of_reads(self, key: str) -> Iterator[Node]:
        for name in (key, None):
            yield from (node.object for node in self._members.get(name, ()))
        yield from self._nodes_taken_apart()

    def _nodes_taken_apart(self) -> Iterator[Node]:
        return (node for node in self._dataflow.nodes if node.type in _VALUES and self._is_taken_apart(node))

    def _destructured(self, key: str) -> Iterator[Node]:
        for pattern in self._dataflow.nodes:
            if pattern.type == "ObjectPattern":
                plain = [item for item in pattern.properties if item.type == "Property" and not item.computed]
                yield from (item.value for item in plain if key_name(item.key) == key)

    def _is_taken_apart(self, node: Node) -> bool:
        """Whether an expression is given to what may find any of its properties, or stands where another is missing."""
        node, parent = self._context(node)
        if parent is None:
            return False
        match str(parent.type):
            case "CallExpression" | "NewExpression":
                takes = _root_name(parent.callee) not in _OUTPUTS and not self._is_list_test(parent)
                is_known = self._dataflow.is_followed(node) or self._dataflow.is_item(node)
                return parent.callee is not node and takes and not is_known
            case "LogicalExpression" | "AssignmentPattern" | "ForInStatement":
                return parent.right is node
            case "ConditionalExpression":
                return parent.test is not node and not self._is_asked_for_list(node, parent)
            case "VariableDeclarator":
                return parent.init is node and _has_rest(parent.id)
            case kind:
                # In a list, or as arguments, only a list is spread.
                return kind == "SpreadElement" and self._parents[id(parent)].type == "ObjectExpression"

    def _is_asked_for_list(self, node: Node, condition: Node) -> bool:
        """Whether a value stands where it is a list, `Array.isArray(value) ? value : …`: none that has properties."""
        test: Node = condition.test
        if condition.consequent is not node or test.type != "CallExpression" or not self._is_list_test(test):
            return False
        return [self._dataflow.text(argument) for argument in test.arguments] == [self._dataflow.text(node)]

    def _is_list_test(self, call: Node) -> bool:
        return self._dataflow.text(call.callee) == "Array.isArray"

    def may_use(self, owners: frozenset[Place], value: object) -> bool:
        """Whether the script uses one of these values itself, each such as `value`: other than to test it, or to read
        what it does not have. True, too, where there is too much to look at."""
        for node in self._dataflow.nodes:
            if node.type in _VALUES and self._is_used(node, value) and owners & self._places(node):
                return True
        return self._budget < 0

    def _is_used(self, node: Node, value: object) -> bool:
        node, parent = self._context(node)
        if parent is None:
            return False
        kind = str(parent.type)
        used = kind not in _NO_USE and getattr(parent, "test", None) is not node
        match kind:
            case "AssignmentPattern":
                used = parent.right is node
            case "AssignmentExpression":
                used = parent.right is node and parent.left.type == "MemberExpression"
            case "MemberExpression":
                name = member_name(parent)
                has_length = name == "length" and not isinstance(value, int | float)
                built_in = not isinstance(name, str) or has_length or may_have(value, name)
                used = built_in and parent.object is node
            case "Property":
                # A key, or a new name: then the variable is looked at in its place.
                used = parent.value is node and self._parents[id(parent)].type == "ObjectExpression"
            case "CallExpression" | "NewExpression":
                is_printed = _root_name(parent.callee) == "console"
                used = parent.callee is not node and not is_printed and not self._dataflow.is_followed(node)
            case "LogicalExpression":
                used = parent.right is node or parent.operator != "&&"
            case "UnaryExpression":
                used = str(parent.operator) not in {"!", "typeof"}
            case "BinaryExpression":
                used = not any(map(is_nothing, (parent.left, parent.right)))
            case _ if kind in FUNCTIONS:
                used = parent.body is node
            case _:
                pass
        return used

    # What the value of a property is taken for

    def is_tested(self, read: Node, name: str) -> bool:
        """Whether the script asks anywhere whether the property that `read` reads is there: `if (user.phone) …`.
        True, too, where there is too much to look at."""
        owners = self.owners_of(read)
        if (owners, name) not in self._tested:
            tests = filter(self.asks, self._members.get(name, ()))
            found = any(owners & self._places(node.object) for node in tests)
            self._tested[owners, name] = found or self._budget < 0
        return self._tested[owners, name]

    def are_tested(self, values: frozenset[Place]) -> bool:
        """Whether the script asks anywhere whether one of these values is there: `if (!answer) …`. True, too, where
        there is too much to look at."""
        nodes = (node for node in self._dataflow.nodes if node.type in _VALUES and self.asks(node))
        return any(values & self._places(node) for node in nodes) or self._budget < 0

    def asks(self, node: Node) -> bool:
        """Whether an expression stands where the script asks whether it has a value."""
        node, parent = self._context(node)
        if parent is None:
            return False
        if parent.type == "LogicalExpression":
            return parent.left is node and parent.operator == "&&"
        if parent.type == "BinaryExpression":
            return any(map(is_nothing, (parent.left, parent.right)))
        is_not = parent.type == "UnaryExpression" and str(parent.operator) in {"!", "typeof"}
        return is_not or getattr(parent, "test", None) is node

    def is_guarded(self, spot: Node) -> bool:
        """Whether something stands in place of a missing value, or the script asks whether it is there."""
        node, parent = self._context(spot)
        if parent is not None and parent.type in {"LogicalExpression", "AssignmentExpression"}:
            return parent.left is node
        if parent is not None and parent.type == "MemberExpression" and parent.optional:
            return parent.object is node
        return self.asks(spot)

    def is_key(self, read: Node) -> bool:
        """Whether the value of a property becomes the name of one: `by[item.kind] = item`."""
        return any(map(self._stands_for_key, self.spots(read)))

    def _stands_for_key(self, node: Node) -> bool:
        node, parent = self._context(node)
        if parent is None:
            return False
        owner = self._parents.get(id(parent))
        match str(parent.type):
            case "MemberExpression":
                is_target = owner is not None and owner.type == "AssignmentExpression" and owner.left is parent
                return parent.computed and parent.property is node and is_target
            case "Property":
                return parent.computed and parent.key is node and owner is not None and owner.type == "ObjectExpression"
            case "ArrayExpression":
                # The first of a pair: `Object.fromEntries(items.map((item) => [item.kind, item]))`
                is_first = len(parent.elements) == 2 and parent.elements[0] is node
                mapped = None if owner is None or owner.type not in FUNCTIONS else self._parents.get(id(owner))
                call = None if mapped is None else self.parent(mapped)
                return is_first and call is not None and self._calls(call, "Object.fromEntries")
            case kind:
                # `Object.groupBy(items, (item) => item.kind)`
                return kind in FUNCTIONS and owner is not None and self._calls(owner, "Object.groupBy")

    def _calls(self, node: Node, name: str) -> bool:
        return node.type == "CallExpression" and self._dataflow.text(node.callee) == name

    def means_list(self, read: Node) -> bool:
        """Whether the script takes the value of a property for a list."""
        return not self._has_text(read) and any(map(self._stands_for_list, self.spots(read)))

    def _has_text(self, read: Node) -> bool:
        """Whether a text stands in the place of a value that is missing: `answer.content ?? answer.text ?? ''`."""
        node, parent = self._context(read)
        while parent is not None and _may_be_value(node, parent):
            other = _other_value(node, parent)
            if other.type == "TemplateLiteral" or isinstance(getattr(other, "value", None), str):
                return True
            node, parent = self._context(parent)
        return False

    def spots(self, read: Node) -> Iterator[Node]:
        """Where the value of a property stands in the script: where it is read, and where the variable that it is given
        to is."""
        yield read
        _, parent = self._whole(read)
        name: Node = read.left if read.type == "AssignmentPattern" else read
        if parent is not None and parent.type == "VariableDeclarator":
            name = parent.id
        if name.type != "Identifier":
            return
        variable = self._dataflow.variable(name)
        for node in self._identifiers.get(name.name, [])[:_MAX_SPOTS]:
            if node is not name and self._dataflow.variable(node) == variable:
                yield node

    def _stands_for_list(self, node: Node) -> bool:
        node, parent = (node, node) if node.type == "AssignmentPattern" else self._context(node)
        if parent is None:
            return False
        while _may_be_value(node, parent):
            # In `a.items ?? a.data ?? []` each may be the list.
            if _other_value(node, parent).type == "ArrayExpression":
                return True
            node, parent = self._context(parent)
            if parent is None:
                return False
        kind = str(parent.type)
        stands = kind == "SpreadElement"
        match kind:
            case "AssignmentPattern":
                stands = str(parent.right.type) == "ArrayExpression"
            case "MemberExpression":
                stands = parent.object is node and str(member_name(parent)) in LIST_MEMBERS
            case "CallExpression":
                stands = self._is_list_test(parent)
            case "ForOfStatement":
                stands = parent.right is node
            case _:
                pass
        return stands


def is_nothing(node: Node) -> bool:
    """Whether an expression is `null` or `undefined`."""
    return (node.type == "Literal" and node.value is None and node.raw == "null") or (
        node.type == "Identifier" and node.name == "undefined"
    )


def _may_be_value(node: Node, parent: Node) -> bool:
    """Whether the value of an expression may be that of the one it is an operand of: of `??`, `||` or `? :`."""
    if parent.type == "ConditionalExpression":
        return parent.test is not node
    return parent.type == "LogicalExpression" and (parent.operator != "&&" or parent.right is node)


def _other_value(node: Node, parent: Node) -> Node:
    """The operand of `??`, `||` or `? :` whose value is had instead."""
    if parent.type == "ConditionalExpression":
        return parent.alternate if parent.consequent is node else parent.consequent
    return parent.right if parent.left is node else parent.left


def _places_of(origins: Iterator[CallOrigin]) -> Iterator[Place]:
    for origin in origins:
        if (path := kind_of_place(origin.path)) is not None:
            yield id(origin.call), path


def _has_rest(pattern: Node) -> bool:
    return pattern.type == "ObjectPattern" and any(item.type != "Property" for item in pattern.properties)


def _root_name(callee: Node) -> str | None:
    while callee.type == "MemberExpression":
        callee = callee.object
    return getattr(callee, "name", None)
