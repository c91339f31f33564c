"""Names in a script: scopes, which names may be declared, and what an identifier means once all declarations are
known."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Final, Literal, NamedTuple, Protocol, TypeAlias, cast

import msgspec

from codecall.sandbox.agentscript.checked import Violation
from codecall.sandbox.agentscript.foreign_words import LOOKS_FOR_TOOLS
from codecall.sandbox.agentscript.parser.esprima import Node
from codecall.sandbox.agentscript.parser.unicode import well_formed
from codecall.sandbox.agentscript.policy import (
    GLOBALS,
    META_TOOLS,
    NEVER_NAMES,
    PREFIXES,
    RUNTIME_NAMES,
    VARIANTS,
    Row,
    bare,
    is_meta_tool,
)
from codecall.sandbox.agentscript.ruleset import (
    RuleSet,
    closest_known_name,
    name_hint,
    refused_name,
    shorten_name,
)

MAX_LOOKUPS: Final = 100
"""Most unknown names of one script that are looked up among the tools and namespaces."""

_MAX_FOLDS: Final = 32
"""Parts of a concatenation of literals that are joined; longer ones are left to the realm."""

_MAX_GUESSES: Final = 10
"""Unknown names for which a similar name is looked up; the look-up compares with every name in scope."""
_LISTS: Final = frozenset({"keys", "values", "entries", "getOwnPropertyNames"})
"""Functions of `Object` that return the members of their argument."""
_OF_LISTS: Final = frozenset(
    {"every", "filter", "flatMap", "forEach", "join", "length", "map", "push", "reduce", "slice"}
)
"""Members of lists that no tool is likely to be called as."""
_MAX_CANDIDATES: Final = 400
_MAX_GUESSED: Final = 60
"""Most characters of a name that is compared: it takes time that grows with the square of the lengths."""
_MAX_NAMED: Final = 400
"""Most characters of the names of tools in a hint."""
_MAX_LOOKED_UP: Final = 256
"""Most characters of a name that is looked up; no script may use longer names of tools."""


class Scope:
    """A lexical scope in strict mode: its names, and what `this`, `arguments` and `return` mean in it."""

    __slots__ = ("arguments", "classes", "constants", "depth", "names", "parent", "this", "top", "values", "variables")

    def __init__(self, parent: Scope | None = None) -> None:
        """A block in `parent`, or the top level."""
        self.parent = parent
        self.names: set[str] = set()
        self.classes: set[str] | None = None
        """The names that are classes of the script; None while there are none."""
        self.constants: set[str] | None = None
        """The names that may not be assigned to; None while there are none."""
        self.values: dict[str, tuple[int, int]] | None = None
        """Where the initial values of names stand, which have no value before; None while there are none."""
        self.depth: int = 0 if parent is None else parent.depth + 1
        if parent is None:
            self.variables = self
            self.top = True
            self.this = self.arguments = False
        else:
            self.variables = parent.variables
            """The scope in which `var` declares."""
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
        """The scope of the body of this function: its parameters do not see names declared there."""
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
        """The expression from `start` to `end` is the initial value of `name`, a variable of this scope."""
        if self.values is None:
            self.values = {}
        self.values[name] = (start, end)

    def used_before_value(self, name: str, offset: int, inner: Scope) -> bool:
        """Whether `name`, used at `offset` in the scope `inner`, is certain to be used before it has a value."""
        start, end = (self.values or {}).get(name, (0, 0))
        # A function inside uses it when it is called.
        return start <= offset < end and inner.variables is self.variables


class NameUse(NamedTuple):
    """An identifier that stands for a value."""

    name: str
    offset: int
    scope: Scope
    assigned: bool
    """Whether it is assigned to rather than read."""


class NameUsage(NamedTuple):
    """What the names in a script stand for."""

    runtime_names: frozenset[str]
    """The runtime names in use."""
    namespaces: dict[str, dict[str, str]]
    """The namespaces in use: known members, and the tools they stand for. The member without a name is the tool that
    has the namespace's own name, and is called as a function. The namespace without a name is `tools`, where the script
    uses it as a whole: its members are the names of the tools."""


def check_names(
    uses: list[NameUse],
    owners: MemberOwners,
    ruleset: RuleSet,
    violations: list[Violation],
    find_namespaces: FindNamespaces,
) -> NameUsage:
    """Add a violation for each use of a name that is not allowed; `find_namespaces` is called once for the unknown
    ones."""
    runtime: set[str] = set()
    unknown: list[NameUse] = []
    lists_tools = False
    for use in uses:
        name, offset, scope, is_assigned = use
        if name in ruleset.globals and not (name not in ruleset.owned and scope.declaring_scope(name)):
            if is_assigned:
                violations.append(assignment_violation(name, offset))
            if name in RUNTIME_NAMES:
                runtime.add(name)
                lists_tools = lists_tools or (name == "tools" and not owners.stands_before_member(offset))
            if (violation := owners.meta_tool(use)) is not None:
                violations.append(violation)
        elif name in NEVER_NAMES:
            violations.append(forbidden_name(name, offset, "Identifier"))
        elif (home := scope.declaring_scope(name)) is not None or (name == "arguments" and scope.arguments):
            if home is not None and (violation := _misuse(home, use)) is not None:
                violations.append(violation)
        else:
            row = reserved_row(name) or GLOBALS.get(name)
            if row is not None:
                violations.append(owners.meta_tool(use) or refused_name("Identifier", name, row, offset))
            else:
                unknown.append(use)
    namespaces = _check_unknown_names(unknown, owners, ruleset, violations, find_namespaces) if unknown else {}
    if lists_tools and not violations and (info := find_namespaces([""]).get("")) is not None:
        namespaces = {**namespaces, "": info.members or {}}
    return NameUsage(frozenset(runtime), namespaces)


def _misuse(home: Scope, use: NameUse) -> Violation | None:
    """The violation of using a variable of the script, which `home` declares, as it cannot be used."""
    name = shorten_name(use.name)
    if home.used_before_value(use.name, use.offset, use.scope):
        row = VARIANTS["own value"]
        return Violation(use.offset, row.kind, f"'{name}' is used in the value it is given", row.instead)
    if use.assigned and use.name in (home.constants or ()):
        row = VARIANTS["constant"]
        return Violation(use.offset, row.kind, f"'{name}' is a constant: it cannot be assigned to", row.instead)
    return None


def _check_unknown_names(
    unknown: list[NameUse],
    owners: MemberOwners,
    ruleset: RuleSet,
    violations: list[Violation],
    find_namespaces: FindNamespaces,
) -> dict[str, dict[str, str]]:
    """The namespaces and tools among undeclared names; adds a violation for each of the others."""
    unknown.sort(key=lambda use: use.offset)
    named = dict.fromkeys(use.name for use in unknown if len(use.name) <= _MAX_LOOKED_UP)
    lookups = [name for name in named if name == well_formed(name)]
    infos: Mapping[str, NamespaceInfo] = find_namespaces(lookups[:MAX_LOOKUPS]) if lookups else {}
    namespaces: dict[str, dict[str, str]] = {}
    guesses = 0
    assigned = {use.name for use in unknown if use.assigned}
    for name, offset, scope, is_assigned in unknown:
        info = infos.get(name, NamespaceInfo())
        members = info.members or {}
        if info.anything and name in owners.called:
            members = {**members, "": name}
        # Where the tools are not known, only reading a member makes a namespace of an unknown name.
        accepted = (
            info.anything
            or "" in members
            or (info.listed and name in owners.enumerated)
            or (name in owners.names and (info.listed or not _is_misspelling(name, scope, ruleset)))
        )
        if name in namespaces or (info.members is not None and accepted):
            namespaces[name] = members
            if is_assigned:
                violations.append(assignment_violation(name, offset))
            continue
        row = VARIANTS["unknown identifier"]
        guesses += 1
        guess = guesses <= _MAX_GUESSES and len(name) <= _MAX_GUESSED
        hint = name_hint(name, _names_in_scope(scope), ruleset) if guess else row.instead
        if info.callable and name in owners.called and hint == row.instead:
            namespaces[name] = {"": name}
            continue
        if info.refused and name in owners.called:
            hint = info.refused
        elif name in assigned and hint == row.instead:
            hint = f"Declare it: `const {shorten_name(name)} = …`, or `let` if it gets other values later."
        else:
            hint = _known_hint(name, owners, info, has_hint=hint != row.instead) or hint
        if name not in assigned and (name in owners.names or "_" in name):
            # Where its own server is missing, whatever else there is was not meant.
            own = [sentence for sentence in info.unlisted if is_about_server(sentence, name)]
            hint = " ".join(own or (*info.unlisted, hint))
        if (called := owners.keywords.get(offset)) is not None:
            key = shorten_name(name)
            hint = f"`{key}=…` is Python; an input is an object: `await {called}{{ {key}: … }})`."
        if hint.endswith(LOOKS_FOR_TOOLS):
            hint += _tool_names(find_namespaces([""]).get("", NamespaceInfo()))
        violations.append(Violation(offset, row.kind, f"Unknown name '{shorten_name(name)}'", hint))
    return namespaces


def _known_hint(name: str, owners: MemberOwners, info: NamespaceInfo, *, has_hint: bool) -> str | None:
    """What to write instead of an unknown name, where the request's context or a tool is meant. `has_hint`: there is a
    hint for the name, which counts more than a tool that is only like it."""
    if info.brought and name not in owners.called:
        return f"The request's context has it: write `codecallContext.{shorten_name(name)}`."
    is_owner = name in owners.names and name not in owners.lists
    if has_hint and not (name in owners.names and info.tools and info.tools[0].startswith(name)):
        return None
    return _tool_hint(info, is_owner) if is_owner or name in owners.called or _is_respelled(name, info.tools) else None


def _is_respelled(name: str, tools: Sequence[str]) -> bool:
    """Whether the nearest tool has this very name in another spelling: `getUser` is `get_user`."""
    return bool(tools) and name.replace("_", "").casefold() == tools[0].replace("_", "").casefold()


def _tool_hint(info: NamespaceInfo, is_owner: bool) -> str | None:
    """What to write instead of an unknown name by which a namespace or a tool may be meant. `is_owner`: it stands
    before a member."""
    if info.near and (is_owner or not info.tools):
        return f"Did you mean the namespace `{info.near[0]}`?"
    if not info.tools:
        return None
    first, *others = (json.dumps(name) if {"'", "\\"} & set(name) else f"'{name}'" for name in info.tools)
    more = f" There {'is' if len(others) == 1 else 'are'} also {' and '.join(others)}." if others else ""
    return f"No tool is called so. Did you mean {first}? Write `await tools[{first}]({{…}})`.{more}"


def is_about_server(sentence: str, name: str) -> bool:
    """Whether a sentence about a server is about the one that a name begins with."""
    return any(
        sentence.startswith(f"Server '{name[:end]}' ") for end in range(1, len(name) + 1) if name[end:][:1] in "_"
    )


def _tool_names(info: NamespaceInfo) -> str:
    """The names of the tools there are, as many as a hint has room for."""
    names, listed, chars = list(info.members or {}), list[str](), 0
    for name in names:
        chars += len(name) + 2
        if chars > _MAX_NAMED:
            break
        listed.append(name)
    if not listed:
        return ""
    return f" There are {', '.join(listed)}{' and others' if len(listed) < len(names) else ''}."


def _is_misspelling(name: str, scope: Scope, ruleset: RuleSet) -> bool:
    """Whether a name, where any would do as a namespace, is rather another one misspelled: `user` is not `users`."""
    closest = closest_known_name(name, _names_in_scope(scope), ruleset)
    return closest is not None and closest not in (f"{name}s", name.removesuffix("s"))


def _names_in_scope(scope: Scope) -> list[str]:
    """Names declared in `scope` and the scopes around it, the nearest first."""
    names: list[str] = []
    outer: Scope | None = scope
    while outer is not None and len(names) < _MAX_CANDIDATES:
        names.extend(name for name in outer.names if len(name) <= _MAX_GUESSED)
        outer = outer.parent
    return names[:_MAX_CANDIDATES]


class MemberOwners:
    """The names that stand before a member: the undeclared ones may be namespaces."""

    def __init__(self, shift: int) -> None:
        """`shift` is where the script begins in the parsed text."""
        self.names: set[str] = set()
        self.lists: set[str] = set()
        """The names of which a member of lists is named, as of a variable."""
        self.enumerated: set[str] = set()
        """The names whose members are listed or looked up: `name in users`."""
        self.called: set[str] = set()
        """The names that are called."""
        self.keywords: dict[int, str] = {}
        """By offset of a name that is assigned to as an argument, as in Python: the call up to its input."""
        self._shift = shift
        self._offsets: set[int] = set()
        """Where `tools` stands before a member."""
        self._meta: dict[int, str] = {}
        """By offset of `tools` or `codecall`: the name of the meta-tool it stands before."""

    def add(self, owner: Node, member: str | None) -> None:
        """Record that `member` of `owner` is named; None: a computed one."""
        inner = ""
        if owner.type == "MemberExpression":
            inner = literal_key(owner.property, computed=owner.computed) or ""
            owner = owner.object
        if owner.type != "Identifier":
            return
        name: str = owner.name
        if name == "tools":
            self._offsets.add(owner.range[0] - self._shift)
        if not inner:
            self.names.add(name)
            if member in _OF_LISTS:
                self.lists.add(name)
        if member is None or name not in {"tools", "codecall"}:
            return
        within = bare(inner if name == "tools" else name).casefold() == "codecall"
        tool = f"codecall:{member}" if within else member
        if name == "codecall":
            leads = not inner and tool.casefold() in META_TOOLS
        else:
            leads = (within or not inner) and is_meta_tool(tool)
        if leads:
            self._meta[owner.range[0] - self._shift] = tool

    def stands_before_member(self, offset: int) -> bool:
        """Whether the `tools` at `offset` stands before a member: one tool is meant, rather than all."""
        return offset in self._offsets

    def add_enumerated(self, node: Node | None) -> None:
        """Record that the members of `node` are looked up: `name in users`."""
        if node is not None and node.type == "Identifier":
            self.enumerated.add(node.name)

    def add_call(self, callee: Node, arguments: list[Node | None]) -> None:
        """Record a call of a member; some list the members of their argument: `Object.keys(users)`."""
        owner: Node = callee.object
        if arguments and owner.type == "Identifier" and owner.name == "Object" and plain_key(callee.property) in _LISTS:
            self.add_enumerated(arguments[0])

    def meta_tool(self, use: NameUse) -> Violation | None:
        """The violation of a use of `tools` or `codecall` that leads to a meta-tool."""
        tool = self._meta.get(use.offset)
        return None if tool is None else self_reference(tool, use.offset)


def forbidden_name(name: str, offset: int, what: str, path: str | None = None) -> Violation:
    """The violation of naming one of the `NEVER_NAMES`; `what` is the sort of name, `path` the dotted path to it."""
    row = NEVER_NAMES[name]
    return refused_name(what, path or name, row, offset)


def reserved_row(name: str) -> Row | None:
    """The row that forbids `name` as a variable or label in any script, if there is one."""
    if name == "await":
        return VARIANTS["await as a name"]
    if not name.startswith("__"):
        return None
    return next((row for prefix, row in PREFIXES.items() if name.startswith(prefix)), None)


def declaration_violation(name: str, offset: int, ruleset: RuleSet) -> Violation | None:
    """The violation of declaring `name`, if a script may not declare it."""
    row = reserved_row(name) or NEVER_NAMES.get(name)
    if row is not None:
        return refused_name("Identifier", name, row, offset)
    if name in ruleset.owned:
        row = GLOBALS[name]
        if row.verdict == "refused":
            return refused_name("Identifier", name, row, offset)
        row = VARIANTS["declaration"]
        return Violation(offset, row.kind, f"Declaring '{name}' is not allowed in AgentScript", row.instead)
    return None


def assignment_violation(name: str, offset: int) -> Violation:
    """The violation of assigning to the built-in `name`, or to a member of one, dotted."""
    row = VARIANTS["assignment"]
    return Violation(
        offset, row.kind, f"Assigning to '{shorten_name(name)}' is not allowed in AgentScript", row.instead
    )


def self_reference(tool: str, offset: int) -> Violation:
    """The violation of calling a meta-tool."""
    row = VARIANTS["self reference"]
    message = f"Cannot call CodeCall tools from within AgentScript: {bare(tool)}"
    return Violation(offset, row.kind, message, row.instead, "SELF_REFERENCE_BLOCKED")


def literal_key(name: Node, *, computed: bool) -> str | None:
    """The text of a key or a member's name, where literals spell it out."""
    return literal_text(name) if computed else plain_key(name)


def plain_key(node: Node) -> str | None:
    """The text of a key that is not computed."""
    match node.type:
        case "Identifier":
            return node.name
        case "PrivateIdentifier":
            return node.name[1:]
        case _:
            return node.value if isinstance(node.value, str) else None


def literal_text(node: Node) -> str | None:
    """The value of an expression that is a string literal, a template or a `+` of such; else None."""
    parts: list[str] = []
    pending: list[Node] = [node]
    for _ in range(_MAX_FOLDS):
        if not pending:
            return "".join(parts)
        part: Node = pending.pop()
        kind: str = part.type
        if kind == "Literal":
            if not isinstance(part.value, str):
                return None
            parts.append(part.value)
        elif kind == "TemplateLiteral":
            quasis: list[Node] = part.quasis
            expressions: list[Node] = part.expressions
            for index in range(len(quasis) - 1, 0, -1):
                pending += [quasis[index], expressions[index - 1]]
            pending.append(quasis[0])
        elif kind == "TemplateElement":
            parts.append(cast("str", part.value.cooked))
        elif kind == "BinaryExpression" and part.operator == "+":
            pending += [part.right, part.left]
        else:
            return None
    return None


AskTopic: TypeAlias = Literal["tool", "answers", "space", "member", "emit"]
"""What the host is asked about; as in `wire.Ask`."""


class AskHost(Protocol):
    """Asks the host, which knows the tools; may block."""

    def __call__(self, name: str, about: AskTopic = "tool", member: str = "", /) -> str | None:
        """The answer as JSON text; None where there is no such tool."""
        ...


class NamespaceInfo(msgspec.Struct, frozen=True):
    """What the host knows about a name that may be a namespace."""

    members: dict[str, str] | None = None
    """The first members of the namespace, and the tools they stand for; the member without a name is the tool of the
    namespace's own name. None: there is no such namespace and no such tool."""
    near: tuple[str, ...] = ()
    """Similar names that are namespaces."""
    tools: tuple[str, ...] = ()
    """Tools that may be meant, where it is not a namespace."""
    unlisted: tuple[str, ...] = ()
    """Why tools may be missing, where it is not a namespace: sentences about servers."""
    listed: bool = True
    """Whether all its tools are known. Otherwise any member is accepted."""
    callable: bool = False
    """Whether a name that is neither may be called as a tool: the call then says what is missing."""
    refused: str = ""
    """Why the tool of that name may not be called, where there is one."""
    anything: bool = False
    """Whether every name may be either, since nothing is known of the tools, nor is to be guessed."""
    brought: bool = False
    """Whether the request's context has a value of that name."""


FindNamespaces: TypeAlias = Callable[[Sequence[str]], Mapping[str, NamespaceInfo]]
"""Looks up what the host knows about each of some names."""


def no_host(name: str, about: AskTopic = "tool", member: str = "", /) -> None:
    """Knows no tools."""
    del name, about, member


_decode = msgspec.json.Decoder(NamespaceInfo).decode


def namespace_finder(ask: AskHost, context: str | None = None) -> FindNamespaces:
    """A function that looks up namespaces by asking the host for one after the other.

    Args:
        ask: Asks the host.
        context: The request's context as JSON text.
    """

    def find(names: Sequence[str]) -> dict[str, NamespaceInfo]:
        answers = {name: ask(name, "space") for name in names}
        found = {name: NamespaceInfo() if answer is None else _decode(answer) for name, answer in answers.items()}
        for name in _names_in_context(context) & found.keys():
            found[name] = msgspec.structs.replace(found[name], brought=True)
        return found

    return find


def _names_in_context(context: str | None) -> Set[str]:
    """The names of the values that a request's context has."""
    try:
        brought = cast("object", msgspec.json.decode(context or "{}"))
    except (msgspec.DecodeError, RecursionError):
        return frozenset()
    return cast("dict[str, object]", brought).keys() if isinstance(brought, dict) else frozenset()


def no_namespaces(names: Sequence[str]) -> dict[str, NamespaceInfo]:
    """Finds no namespaces."""
    del names
    return {}
