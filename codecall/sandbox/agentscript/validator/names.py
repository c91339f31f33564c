"""Names: what text a key amounts to, which names may be declared, and what an identifier means once all are known."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal, NamedTuple, Protocol, TypeAlias, cast

import msgspec

from codecall.sandbox.agentscript.checked import Mark
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
from codecall.sandbox.agentscript.ruleset import Vocabulary, name_hint, near_name, refused, shown

# ----------------------------------------------------------------------------------------------------
# Namespaces in a script: names that nobody declares, and behind which the server has tools.

About: TypeAlias = Literal["tool", "space", "member"]
"""What a question is about; as in `wire.Ask`."""


class Ask(Protocol):
    """Asks whoever knows the tools; may block."""

    def __call__(self, name: str, about: About = "tool", member: str = "", /) -> str | None:
        """The answer as JSON text; None where there is no such tool."""
        ...


class Space(msgspec.Struct, frozen=True):
    """What there is behind a name."""

    members: dict[str, str] | None = None
    """Of a namespace: its first members, and the tools they stand for. None: there is no such namespace."""
    near: tuple[str, ...] = ()
    """Namespaces it may have been meant for."""
    tools: tuple[str, ...] = ()
    """Tools whose names begin with it, although it is no namespace."""
    listed: bool = True
    """Whether somebody knows all its tools. Otherwise any member does."""


FindSpaces: TypeAlias = Callable[[Sequence[str]], Mapping[str, Space]]
"""What there is behind each of some names."""

MAX_ASKED = 20
"""Most unknown names of one script that are looked for among the namespaces."""

_decode = msgspec.json.Decoder(Space).decode


def nobody(name: str, about: About = "tool", member: str = "", /) -> None:
    """Knows no tools."""
    del name, about, member


def spaces_of(ask: Ask) -> FindSpaces:
    """Finds namespaces by asking for one after the other."""

    def find(names: Sequence[str]) -> dict[str, Space]:
        return {name: Space() if (told := ask(name, "space")) is None else _decode(told) for name in names}

    return find


def no_spaces(names: Sequence[str]) -> dict[str, Space]:
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


def text_of(node: Node) -> str | None:
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


def never_name(name: str, offset: int, what: str, path: str | None = None) -> Mark:
    """The finding about one of the `NEVER_NAMES`; `what` says what sort of name, `path` what leads to it."""
    row = NEVER_NAMES[name]
    return Mark(offset, row.kind, refused(what, path or name), row.instead)


def reserved(name: str) -> Row | None:
    """The row that keeps `name` from being a variable or label of any script, if one does."""
    if name == "await":
        return VARIANTS["await as a name"]
    if not name.startswith("__"):
        return None
    return next((row for prefix, row in PREFIXES.items() if name.startswith(prefix)), None)


def declared(name: str, offset: int, words: Vocabulary) -> Mark | None:
    """The finding about a declaration of `name`, if a script may not declare it."""
    row = reserved(name) or NEVER_NAMES.get(name)
    if row is not None:
        return Mark(offset, row.kind, refused("Identifier", name), row.instead)
    if name in words.owned:
        row = GLOBALS[name]
        if row.verdict == "refused":
            return Mark(offset, row.kind, refused("Identifier", name), row.instead)
        row = VARIANTS["declaration"]
        return Mark(offset, row.kind, f"Declaring '{name}' is not allowed in AgentScript", row.instead)
    return None


def assigned(name: str, offset: int) -> Mark:
    """The finding about an assignment to the built-in `name`, or to a member of one, dotted."""
    row = VARIANTS["assignment"]
    return Mark(offset, row.kind, f"Assigning to '{shown(name)}' is not allowed in AgentScript", row.instead)


class Judged(NamedTuple):
    """What the names of a script are."""

    runtime: frozenset[str]
    """The runtime names in use."""
    spaces: dict[str, dict[str, str]]
    """The namespaces in use, with what is known of their members."""


class Owners:
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
            inner = spelled(owner.property, computed=owner.computed) or ""
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

    def meta_tool(self, use: NameUse) -> Mark | None:
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


def spelled(name: Node, *, computed: bool) -> str | None:
    """The text of a key or a member's name, where literals say it."""
    return text_of(name) if computed else plain_key(name)


def self_reference(tool: str, offset: int) -> Mark:
    """The finding about a call of a meta-tool."""
    row = VARIANTS["self reference"]
    message = f"Cannot call CodeCall tools from within AgentScript: {bare(tool)}"
    return Mark(offset, row.kind, message, row.instead, "SELF_REFERENCE_BLOCKED")


def judge(uses: list[NameUse], owners: Owners, words: Vocabulary, marks: list[Mark], find: FindSpaces) -> Judged:
    """Add a finding for each use of a name that is not allowed; `find` is asked once about those that nobody knows."""
    runtime: set[str] = set()
    unknown: list[NameUse] = []
    for use in uses:
        name, offset, scope, is_target = use
        if name in words.globals and not (name not in words.owned and scope.home(name)):
            if is_target:
                marks.append(assigned(name, offset))
            if name in RUNTIME_NAMES:
                runtime.add(name)
            if (mark := owners.meta_tool(use)) is not None:
                marks.append(mark)
        elif name in NEVER_NAMES:
            marks.append(never_name(name, offset, "Identifier"))
        elif (home := scope.home(name)) is not None or (name == "arguments" and scope.arguments):
            if home is not None and home.unready(name, offset, scope):
                row = VARIANTS["own value"]
                marks.append(Mark(offset, row.kind, f"'{shown(name)}' is used in the value it is given", row.instead))
        else:
            row = reserved(name) or GLOBALS.get(name)
            if row is not None:
                marks.append(owners.meta_tool(use) or Mark(offset, row.kind, refused("Identifier", name), row.instead))
            else:
                unknown.append(use)
    return Judged(frozenset(runtime), _spaces(unknown, owners, words, marks, find) if unknown else {})


def _spaces(
    unknown: list[NameUse], owners: Owners, words: Vocabulary, marks: list[Mark], find: FindSpaces
) -> dict[str, dict[str, str]]:
    """The namespaces among names that nobody declares; the others are findings."""
    unknown.sort(key=lambda use: use.offset)
    candidates = owners.names | owners.whole
    named = dict.fromkeys(use.name for use in unknown if use.name in candidates and len(use.name) <= _MAX_GUESSED)
    asked = [name for name in named if name == well_formed(name)]
    told: Mapping[str, Space] = find(asked[:MAX_ASKED]) if asked else {}
    spaces: dict[str, dict[str, str]] = {}
    guesses = 0
    for name, offset, scope, is_target in unknown:
        space = told.get(name, Space())
        # Where nobody knows the tools, only reading a member makes a namespace of an unknown name.
        meant = space.listed or (name in owners.names and not _slip(name, scope, words))
        if name in spaces or (space.members is not None and meant):
            spaces[name] = space.members or {}
            if is_target:
                marks.append(assigned(name, offset))
            continue
        row = VARIANTS["unknown identifier"]
        guesses += 1
        guess = guesses <= _MAX_GUESSES and len(name) <= _MAX_GUESSED
        hint = name_hint(name, _in_reach(scope), words) if guess else row.instead
        if space.tools:
            hint = f"It is no namespace; call tools by their names: `await tools['{space.tools[0]}']({{…}})`."
        elif space.near and hint == row.instead:
            hint = f"Did you mean the namespace `{space.near[0]}`? {hint}"
        marks.append(Mark(offset, row.kind, refused("Identifier", name), hint))
    return spaces


def _slip(name: str, scope: Scope, words: Vocabulary) -> bool:
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
