"""The walk over a script's syntax tree: checks every node, name and member against the policy, and collects the sites
that are instrumented.

The walk is iterative, with one stack entry for each node, so that the depth of a tree does not matter. What is special
about a type of node is in its handler (`nodes.py`). Names are checked at the end, when all declarations are known
(`names.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias, cast

from codecall.sandbox.agentscript.checked import (
    AsyncCallback,
    CatchSite,
    DataSite,
    DataUse,
    DestructuringSite,
    FunctionSite,
    LoopSite,
    MistakenCallback,
    Violation,
)
from codecall.sandbox.agentscript.parser.esprima import Node
from codecall.sandbox.agentscript.parser.parse import PREFIX_LENGTH
from codecall.sandbox.agentscript.policy import (
    ERROR_KINDS,
    MAX_REGEXES,
    MAX_SCOPES,
    MEMBERS,
    NAMES_A_CALL,
    NEVER_NAMES,
    OPERATORS,
    PROPERTY_KINDS,
    SOURCE,
    VARIANTS,
    Row,
)
from codecall.sandbox.agentscript.ruleset import RuleSet, member_hint, refusal_message, refused_name
from codecall.sandbox.agentscript.validator.names import (
    FindNamespaces,
    MemberOwners,
    NameUsage,
    NameUse,
    Scope,
    assignment_violation,
    check_names,
    declaration_violation,
    forbidden_name,
    literal_key,
    reserved_row,
)

_MAX_PATH: Final = 4
"""Most names of a member's path that a message shows."""

_MESSAGE_SUBJECTS: Final = {"DisallowedLoop": "Loop", "DisallowedMember": "Member"}


class Walk:
    """One walk over one script. `violations` and the sites are its result."""

    def __init__(self, script: str, ruleset: RuleSet) -> None:
        self.script = script
        self.ruleset = ruleset
        self.violations: list[Violation] = []
        self.loops: list[LoopSite] = []
        self.functions: list[FunctionSite] = []
        self.catches: list[CatchSite] = []
        self.data_sites: list[DataSite] = []
        self.destructuring_sites: list[DestructuringSite] = []
        self.mistaken_callbacks: list[MistakenCallback] = []
        self.async_callbacks: list[AsyncCallback] = []
        self.reads: dict[str, None] = {}
        """Names of properties that are read."""
        self.writes: set[str] = set()
        """Names of properties of object literals, and of members that are assigned to."""
        self.integers: list[Node] = []
        """Literals of integers beyond 2^53."""
        self.returns = False
        """Whether there is a `return` at top level."""
        self.regexes: list[int] = []
        """Where regular expressions begin."""
        self.calls: list[Node] = []
        self.superclasses: list[tuple[Node, Scope]] = []
        self.label_starts: dict[int, int] = {}
        """Start of the outermost label of a statement, by the identity of the statement."""
        self.uses: list[NameUse] = []
        self.owners = MemberOwners(PREFIX_LENGTH)
        self.stack: list[tuple[Node, Scope]] = []

    def run(
        self,
        statements: list[Node],
        handlers: Mapping[str, NodeHandler],
        children: Mapping[str, tuple[str, ...]],
        find_namespaces: FindNamespaces,
    ) -> NameUsage:
        """Walk the script's statements; returns the runtime names and the namespaces it uses."""
        top = Scope()
        stack = self.stack
        stack.extend((statement, top) for statement in statements)
        refused_nodes = self.ruleset.refused_nodes
        while stack:
            node, scope = stack.pop()
            kind: str = node.type
            if scope.depth > MAX_SCOPES:
                row = SOURCE["scope nesting"]
                self.violations.append(
                    Violation(node.range[0] - PREFIX_LENGTH, row.kind, "Script is nested too deeply", row.instead)
                )
                return NameUsage(frozenset(), {})
            if kind in refused_nodes:
                self.refuse_node(node, refused_nodes[kind])
            handler = handlers.get(kind)
            if handler is not None:
                handler(self, node, scope)
                continue
            fields = children.get(kind)
            if fields is None:
                if kind not in refused_nodes:
                    self.refuse(Row(kind, "refused"), node)
                continue
            for field in fields:
                child: Node = getattr(node, field)
                if isinstance(child, list):
                    self.push_all(cast("list[Node | None]", child), scope)
                elif child is not None:
                    stack.append((child, scope))
        self._check_superclasses()
        self._count_regexes()
        return check_names(self.uses, self.owners, self.ruleset, self.violations, find_namespaces)

    def push(self, node: Node | None, scope: Scope) -> None:
        """Walk `node` in `scope`, later; None is no node."""
        if node is not None:
            self.stack.append((node, scope))

    def push_all(self, nodes: list[Node | None], scope: Scope) -> None:
        """Walk `nodes` in `scope`, later; holes are no nodes."""
        for node in nodes:
            if node is not None:
                self.stack.append((node, scope))

    def add_data_site(self, node: Node, use: DataUse) -> None:
        """Record that the value of `node` is used as data here. A promise that is tested may be one that is kept for
        later; that of `callTool` and its kin is a new one."""
        callee = node.callee.name if node.type == "CallExpression" and node.callee.type == "Identifier" else None
        if use != "tested" or callee in NAMES_A_CALL:
            self.data_sites.append(DataSite(node.range[0] - PREFIX_LENGTH, node.range[1] - PREFIX_LENGTH, use))

    def add_use(self, node: Node, scope: Scope, *, assigned: bool = False) -> None:
        """Record that an identifier stands for a value here."""
        self.uses.append(NameUse(node.name, node.range[0] - PREFIX_LENGTH, scope, assigned))

    def refuse(self, row: Row, node: Node, name: str | None = None) -> None:
        """Add the violation that `row` describes, at the start of `node`."""
        message = refusal_message(_MESSAGE_SUBJECTS.get(row.kind, "Syntax"), name or row.name)
        self.violations.append(Violation(node.range[0] - PREFIX_LENGTH, row.kind, message, row.instead))

    def refuse_node(self, node: Node, row: Row) -> None:
        """Add the violation for a node of a type that is refused."""
        if node.type == "MetaProperty" and node.meta.name == "import":
            row = VARIANTS["import.meta"]
        self.refuse(row, node)

    def check_operator(self, node: Node) -> None:
        """Check the operator of `node`."""
        if node.operator not in OPERATORS:
            self.refuse(VARIANTS["operator"], node, node.operator)

    def visit_key(self, node: Node, *, computed: bool, scope: Scope) -> None:
        """Check the key of a property, method, field or pattern."""
        if computed:
            self.stack.append((node, scope))
        text = literal_key(node, computed=computed)
        if text is not None and text in NEVER_NAMES:
            self.violations.append(forbidden_name(text, node.range[0] - PREFIX_LENGTH, "Member"))

    def check_member(self, owner: str, text: str | None, node: Node) -> None:
        """Check member `text` of the built-in `owner`; None: computed. Violations are reported at `node`."""
        allowed = self.ruleset.members.get(owner)
        if allowed is None:
            # A refused owner is reported itself; a function's own `arguments` is none
            row = MEMBERS.get(f"arguments.{text}") if owner == "arguments" else None
            if row is not None:
                self.refuse(row, node)
        elif text is None:
            self.refuse(VARIANTS["computed member"], node, f"{owner}[…]")
        elif text not in allowed:
            offset = node.range[0] - PREFIX_LENGTH
            message = refusal_message("Member", f"{owner}.{text}")
            self.violations.append(
                Violation(offset, "DisallowedMember", message, member_hint(owner, text, self.ruleset))
            )

    def visit_destructuring(self, pattern: Node, value: Node | None) -> None:
        """Check a pattern that destructures a built-in: `const { floor } = Math`."""
        if value is None or pattern.type != "ObjectPattern":
            return
        if any(item.type == "RestElement" for item in pattern.properties):
            self.add_data_site(value, "taken apart")
        if value.type != "Identifier":
            return
        for item in pattern.properties:
            if item.type == "Property":
                text = literal_key(item.key, computed=item.computed)
                self.check_member(value.name, text, item)
                self.owners.add(value, text)

    def check_label(self, node: Node) -> None:
        """Check the name of a label."""
        row = reserved_row(node.name) or NEVER_NAMES.get(node.name)
        if row is not None:
            self.violations.append(refused_name("Identifier", node.name, row, node.range[0] - PREFIX_LENGTH))

    def declare(self, pattern: Node, target: Scope, scope: Scope, *, constant: bool = False) -> None:
        """Declare the names of a pattern in `target`; its defaults and computed keys are walked in `scope`."""
        pending: list[Node] = [pattern]
        while pending:
            node = pending.pop()
            if node.type == "Identifier":
                name: str = node.name
                target.names.add(name)
                if constant:
                    target.constants = (target.constants or set()) | {name}
                violation = declaration_violation(name, node.range[0] - PREFIX_LENGTH, self.ruleset)
                if violation is not None:
                    self.violations.append(violation)
            elif not self._expand_pattern(node, pending, scope):
                self.stack.append((node, scope))

    def assign(self, pattern: Node, scope: Scope) -> None:
        """Assign to a variable, a member or a pattern of them."""
        pending: list[Node] = [pattern]
        while pending:
            node = pending.pop()
            if node.type == "Identifier":
                self.add_use(node, scope, assigned=True)
            elif not self._expand_pattern(node, pending, scope):
                owner: Node = node.object if node.type == "MemberExpression" else None
                if owner is not None and not node.computed:
                    self.writes.add(node.property.name)
                if owner is not None and owner.type == "Identifier" and owner.name in self.ruleset.members:
                    self.violations.append(
                        assignment_violation(dotted_path(node) or f"{owner.name}[…]", node.range[0] - PREFIX_LENGTH)
                    )
                self.stack.append((node, scope))

    def _expand_pattern(self, node: Node, pending: list[Node], scope: Scope) -> bool:
        """Add the targets inside a pattern to `pending`; False when `node` is not a pattern."""
        match node.type:
            case "ObjectPattern":
                for item in node.properties:
                    if item.type == "Property":
                        self.visit_key(item.key, computed=item.computed, scope=scope)
                        if not item.computed and item.key.type == "Identifier":
                            self.reads[item.key.name] = None
                        if item.kind not in PROPERTY_KINDS:
                            self.refuse(VARIANTS["property kind"], item)
                        pending.append(item.value)
                    else:
                        pending.append(item)
            case "ArrayPattern":
                pending.extend(item for item in node.elements if item is not None)
            case "AssignmentPattern":
                self.visit_destructuring(node.left, node.right)
                pending.append(node.left)
                self.stack.append((node.right, scope))
            case "RestElement":
                pending.append(node.argument)
            case _:
                return False
        return True

    def _check_superclasses(self) -> None:
        """A class may extend a class of the script whose name nothing else is assigned to, or an error."""
        if not self.superclasses:
            return
        assigned = {(use.name, use.scope.declaring_scope(use.name)) for use in self.uses if use.assigned}
        for node, scope in self.superclasses:
            name = node.name if node.type == "Identifier" else None
            if name is None or not (name in ERROR_KINDS or self._is_class(name, scope.declaring_scope(name), assigned)):
                self.refuse(VARIANTS["extends"], node, f"extends {name}" if name else "extends")

    @staticmethod
    def _is_class(name: str, home: Scope | None, assigned: set[tuple[str, Scope | None]]) -> bool:
        return home is not None and name in (home.classes or ()) and (name, home) not in assigned

    def _count_regexes(self) -> None:
        if len(self.regexes) > MAX_REGEXES:
            row = SOURCE["number of regular expressions"]
            message = f"Script has more than {MAX_REGEXES} regular expressions"
            self.violations.append(Violation(sorted(self.regexes)[MAX_REGEXES], row.kind, message, row.instead))


NodeHandler: TypeAlias = Callable[[Walk, Node, Scope], None]
"""Checks one type of node, and pushes the children that are to be walked."""


def dotted_path(node: Node) -> str | None:
    """A member's dotted path from a variable or `this`, for messages; None when it is more complex."""
    names: list[str] = []
    while node.type == "MemberExpression" and len(names) < _MAX_PATH:
        text = literal_key(node.property, computed=node.computed)
        if text is None:
            return None
        names.append(text)
        node = node.object
    if node.type == "ThisExpression":
        names.append("this")
    elif node.type == "Identifier":
        names.append(node.name)
    else:
        return None
    return ".".join(reversed(names))
