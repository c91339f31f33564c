"""Names: what text a key amounts to, which names may be declared, and what an identifier means once all are known."""

from __future__ import annotations

from typing import Final, NamedTuple, cast

from codecall.sandbox.agentscript.findings import Mark
from codecall.sandbox.agentscript.grammar import Node
from codecall.sandbox.agentscript.policy import GLOBALS, NEVER_NAMES, PREFIXES, RUNTIME_NAMES, VARIANTS, Row
from codecall.sandbox.agentscript.scopes import Scope
from codecall.sandbox.agentscript.vocabulary import Vocabulary, name_hint, refused, shown

_MAX_FOLDS: Final = 32
"""Parts of a concatenation of literals that are put together; longer ones are left to the realm."""

_MAX_GUESSES: Final = 10
"""Unknown names for which a near name is looked up; the look-up compares with every name in reach."""
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


def judge(uses: list[NameUse], words: Vocabulary, marks: list[Mark]) -> frozenset[str]:
    """Add a finding for each use of a name that is not allowed; gives the runtime names in use."""
    runtime: set[str] = set()
    guesses = 0
    for name, offset, scope, is_target in uses:
        if name in words.globals:
            if is_target:
                marks.append(assigned(name, offset))
            if name in RUNTIME_NAMES:
                runtime.add(name)
        elif name in NEVER_NAMES:
            marks.append(never_name(name, offset, "Identifier"))
        elif scope.home(name) is not None or (name == "arguments" and scope.arguments):
            continue
        else:
            row = reserved(name) or GLOBALS.get(name)
            if row is not None:
                marks.append(Mark(offset, row.kind, refused("Identifier", name), row.instead))
                continue
            row = VARIANTS["unknown identifier"]
            guesses += 1
            guess = guesses <= _MAX_GUESSES and len(name) <= _MAX_GUESSED
            hint = name_hint(name, _in_reach(scope), words) if guess else row.instead
            marks.append(Mark(offset, row.kind, refused("Identifier", name), hint))
    return frozenset(runtime)


def _in_reach(scope: Scope) -> list[str]:
    """Names declared in `scope` and further out, the nearest first."""
    names: list[str] = []
    outer: Scope | None = scope
    while outer is not None and len(names) < _MAX_CANDIDATES:
        names.extend(name for name in outer.names if len(name) <= _MAX_GUESSED)
        outer = outer.parent
    return names[:_MAX_CANDIDATES]
