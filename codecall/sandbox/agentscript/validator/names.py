"""Names: what text a key amounts to, which names may be declared, and what an identifier means once all are known."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal, NamedTuple, Protocol, TypeAlias, cast

import msgspec

from codecall.sandbox.agentscript.checked import Violation
from codecall.sandbox.agentscript.parser.ast import Scope
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
from codecall.sandbox.agentscript.ruleset import RuleSet, name_hint, near_name, refusal_message, shorten_name

# ----------------------------------------------------------------------------------------------------
# Namespaces in a script: names that nobody declares, and behind which the server has tools.

AskTopic: TypeAlias = Literal["tool", "space", "member"]
"""What a question is about; as in `wire.Ask`."""


class AskHost(Protocol):
    """Asks whoever knows the tools; may block."""

    def __call__(self, name: str, about: AskTopic = "tool", member: str = "", /) -> str | None:
        """The answer as JSON text; None where there is no such tool."""
        ...


class NamespaceInfo(msgspec.Struct, frozen=True):
    """What there is behind a name."""

    members: dict[str, str] | None = None
    """Of a namespace: its first members, and the tools they stand for. None: there is no such namespace."""
    near: tuple[str, ...] = ()
    """Namespaces it may have been meant for."""
    tools: tuple[str, ...] = ()
    """Tools whose names begin with it, although it is no namespace."""
    listed: bool = True
    """Whether somebody knows all its tools. Otherwise any member does."""


FindNamespaces: TypeAlias = Callable[[Sequence[str]], Mapping[str, NamespaceInfo]]
"""What there is behind each of some names."""

MAX_LOOKUPS = 20
"""Most unknown names of one script that are looked for among the namespaces."""

_decode = msgspec.json.Decoder(NamespaceInfo).decode


def ask_nobody(name: str, about: AskTopic = "tool", member: str = "", /) -> None:
    """Knows no tools."""
    del name, about, member


def namespace_finder(ask: AskHost) -> FindNamespaces:
    """Finds namespaces by asking for one after the other."""

    def find(names: Sequence[str]) -> dict[str, NamespaceInfo]:
        return {name: NamespaceInfo() if (told := ask(name, "space")) is None else _decode(told) for name in names}

    return find


def no_namespaces(names: Sequence[str]) -> dict[str, NamespaceInfo]:
    """Finds none."""
    del names
    return {}


# ----------------------------------------------------------------------------------------------------
# Names: what text a key amounts to, which names may be declared, and what an identifier means once all are known.

_MAX_FOLDS: Final = 32
"""Parts of a concatenation of literals that are put together; longer ones are left to the realm."""

_MAX_GUESSES: Final = 10
"""Unknown names for which a near name is looked up; the look-up compares with every name in reach."""
_LISTS: Final = frozenset({"keys", "values", "entries", "getOwnPropertyNames"})
"""Functions of `Object` that tell the members of their argument."""
_MAX_CANDIDATES: Final = 400
_MAX_GUESSED: Final = 60
"""Characters of a name that is looked up: comparing takes time that grows with the square of the lengths."""


class NameUse(NamedTuple):
    """An identifier that stands for a value."""

    name: str
    offset: int
    scope: Scope
    assigned: bool
    """Whether it is assigned to rather than read."""


def literal_text(node: Node) -> str | None:
    """The text an expression amounts to when it is a string literal, a template or a `+` of such; else None."""
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


def forbidden_name(name: str, offset: int, what: str, path: str | None = None) -> Violation:
    """The finding about one of the `NEVER_NAMES`; `what` says what sort of name, `path` what leads to it."""
    row = NEVER_NAMES[name]
    return Violation(offset, row.kind, refusal_message(what, path or name), row.instead)


def reserved_row(name: str) -> Row | None:
    """The row that keeps `name` from being a variable or label of any script, if one does."""
    if name == "await":
        return VARIANTS["await as a name"]
    if not name.startswith("__"):
        return None
    return next((row for prefix, row in PREFIXES.items() if name.startswith(prefix)), None)


def declaration_violation(name: str, offset: int, words: RuleSet) -> Violation | None:
    """The finding about a declaration of `name`, if a script may not declare it."""
    row = reserved_row(name) or NEVER_NAMES.get(name)
    if row is not None:
        return Violation(offset, row.kind, refusal_message("Identifier", name), row.instead)
    if name in words.owned:
        row = GLOBALS[name]
        if row.verdict == "refused":
            return Violation(offset, row.kind, refusal_message("Identifier", name), row.instead)
        row = VARIANTS["declaration"]
        return Violation(offset, row.kind, f"Declaring '{name}' is not allowed in AgentScript", row.instead)
    return None


def assignment_violation(name: str, offset: int) -> Violation:
    """The finding about an assignment to the built-in `name`, or to a member of one, dotted."""
    row = VARIANTS["assignment"]
    return Violation(
        offset, row.kind, f"Assigning to '{shorten_name(name)}' is not allowed in AgentScript", row.instead
    )


class NameUsage(NamedTuple):
    """What the names of a script are."""

    runtime_names: frozenset[str]
    """The runtime names in use."""
    namespaces: dict[str, dict[str, str]]
    """The namespaces in use, with what is known of their members."""


class MemberOwners:
    """The names that stand before a member: those that nobody declares may be namespaces."""

    def __init__(self, shift: int) -> None:
        """`shift` is where the script begins in the parsed text."""
        self.names: set[str] = set()
        self.whole: set[str] = set()
        """Those that are asked for their members."""
        self._shift = shift
        self._meta: dict[int, str] = {}
        """Where `tools` or `codecall` stands before the name of a meta-tool: the name."""

    def add(self, owner: Node, member: str | None) -> None:
        """`member` of `owner` is named; None: a computed one."""
        inner = ""
        if owner.type == "MemberExpression":
            inner = literal_key(owner.property, computed=owner.computed) or ""
            owner = owner.object
        if owner.type != "Identifier":
            return
        name: str = owner.name
        if not inner:
            self.names.add(name)
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

    def asked(self, node: Node | None) -> None:
        """`node` is asked for its members: `name in users`."""
        if node is not None and node.type == "Identifier":
            self.whole.add(node.name)

    def called(self, callee: Node, arguments: list[Node | None]) -> None:
        """A member is called with `arguments`; some ask for the members of one: `Object.keys(users)`."""
        owner: Node = callee.object
        if arguments and owner.type == "Identifier" and owner.name == "Object" and plain_key(callee.property) in _LISTS:
            self.asked(arguments[0])

    def meta_tool(self, use: NameUse) -> Violation | None:
        """The finding about a use of `tools` or `codecall` that leads to a meta-tool."""
        tool = self._meta.get(use.offset)
        return None if tool is None else self_reference(tool, use.offset)


def plain_key(node: Node) -> str | None:
    """The text of a key that is not computed."""
    match node.type:
        case "Identifier":
            return node.name
        case "PrivateIdentifier":
            return node.name[1:]
        case _:
            return node.value if isinstance(node.value, str) else None


def literal_key(name: Node, *, computed: bool) -> str | None:
    """The text of a key or a member's name, where literals say it."""
    return literal_text(name) if computed else plain_key(name)


def self_reference(tool: str, offset: int) -> Violation:
    """The finding about a call of a meta-tool."""
    row = VARIANTS["self reference"]
    message = f"Cannot call CodeCall tools from within AgentScript: {bare(tool)}"
    return Violation(offset, row.kind, message, row.instead, "SELF_REFERENCE_BLOCKED")


def check_names(
    uses: list[NameUse], owners: MemberOwners, words: RuleSet, marks: list[Violation], find: FindNamespaces
) -> NameUsage:
    """Add a finding for each use of a name that is not allowed; `find` is asked once about those that nobody knows."""
    runtime: set[str] = set()
    unknown: list[NameUse] = []
    for use in uses:
        name, offset, scope, is_target = use
        if name in words.globals and not (name not in words.owned and scope.declaring_scope(name)):
            if is_target:
                marks.append(assignment_violation(name, offset))
            if name in RUNTIME_NAMES:
                runtime.add(name)
            if (mark := owners.meta_tool(use)) is not None:
                marks.append(mark)
        elif name in NEVER_NAMES:
            marks.append(forbidden_name(name, offset, "Identifier"))
        elif (home := scope.declaring_scope(name)) is not None or (name == "arguments" and scope.arguments):
            if home is not None and home.used_before_value(name, offset, scope):
                row = VARIANTS["own value"]
                marks.append(
                    Violation(offset, row.kind, f"'{shorten_name(name)}' is used in the value it is given", row.instead)
                )
        else:
            row = reserved_row(name) or GLOBALS.get(name)
            if row is not None:
                marks.append(
                    owners.meta_tool(use)
                    or Violation(offset, row.kind, refusal_message("Identifier", name), row.instead)
                )
            else:
                unknown.append(use)
    return NameUsage(frozenset(runtime), _spaces(unknown, owners, words, marks, find) if unknown else {})


def _spaces(
    unknown: list[NameUse], owners: MemberOwners, words: RuleSet, marks: list[Violation], find: FindNamespaces
) -> dict[str, dict[str, str]]:
    """The namespaces among names that nobody declares; the others are findings."""
    unknown.sort(key=lambda use: use.offset)
    candidates = owners.names | owners.whole
    named = dict.fromkeys(use.name for use in unknown if use.name in candidates and len(use.name) <= _MAX_GUESSED)
    asked = [name for name in named if name == well_formed(name)]
    told: Mapping[str, NamespaceInfo] = find(asked[:MAX_LOOKUPS]) if asked else {}
    spaces: dict[str, dict[str, str]] = {}
    guesses = 0
    for name, offset, scope, is_target in unknown:
        space = told.get(name, NamespaceInfo())
        # Where nobody knows the tools, only reading a member makes a namespace of an unknown name.
        meant = space.listed or (name in owners.names and not _slip(name, scope, words))
        if name in spaces or (space.members is not None and meant):
            spaces[name] = space.members or {}
            if is_target:
                marks.append(assignment_violation(name, offset))
            continue
        row = VARIANTS["unknown identifier"]
        guesses += 1
        guess = guesses <= _MAX_GUESSES and len(name) <= _MAX_GUESSED
        hint = name_hint(name, _in_reach(scope), words) if guess else row.instead
        if space.tools:
            hint = f"It is no namespace; call tools by their names: `await tools['{space.tools[0]}']({{…}})`."
        elif space.near and hint == row.instead:
            hint = f"Did you mean the namespace `{space.near[0]}`? {hint}"
        marks.append(Violation(offset, row.kind, refusal_message("Identifier", name), hint))
    return spaces


def _slip(name: str, scope: Scope, words: RuleSet) -> bool:
    """Whether a name, where any would do for a namespace, rather is another one misspelled: `user` is not `users`."""
    near = near_name(name, _in_reach(scope), words)
    return near is not None and near not in (f"{name}s", name.removesuffix("s"))


def _in_reach(scope: Scope) -> list[str]:
    """Names declared in `scope` and further out, the nearest first."""
    names: list[str] = []
    outer: Scope | None = scope
    while outer is not None and len(names) < _MAX_CANDIDATES:
        names.extend(name for name in outer.names if len(name) <= _MAX_GUESSED)
        outer = outer.parent
    return names[:_MAX_CANDIDATES]
