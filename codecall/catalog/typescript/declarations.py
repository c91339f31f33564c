"""TypeScript declarations of what a catalog lists: compact, and never narrower than the schemas they are made from.

    /** List users. */
    declare function callTool(name: "users:list", input: { limit?: number }): Promise<{ id: string }[]>;

A declaration is an overload of the function that a script calls: `callTool`, `readResource` or `getPrompt`. Schemas
that are recursive or used more than once become `type` aliases before it, whose names no other entry of the catalog
has, so that the declarations of many tools make one file that compiles.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from typing import Final, NamedTuple

from codecall.catalog.entries import CatalogEntry
from codecall.catalog.javascript import string_literal
from codecall.catalog.typescript.comments import block_comment, doc_comment, shorten
from codecall.catalog.typescript.from_schema import DetailLevel, SchemaReader
from codecall.catalog.typescript.types import ObjectType, PrintedType, print_type
from codecall.schema.model import definition_title, is_uninformative

JsonObject = Mapping[str, object]

MAX_CHARACTERS = 12_000
"""Longest declaration; what would be longer is shown in less detail, and says so."""
BRIEF_CHARACTERS = 200
"""Longest description of a tool in a brief declaration."""
DESCRIPTION_CHARACTERS = 2_000
"""Longest description of a tool in any other."""

_FULL: Final = DetailLevel()
_BRIEF: Final = DetailLevel(description=80, choices=400)

_PROMPT: Final = (
    "{ description: string | null; messages: { role: string; "
    "content: string | { type: string; [key: string]: unknown } }[] }"
)
"""What `getPrompt` gives: `codecall/calls/conversion.py`."""
_VARIABLE: Final = re.compile(r"\{[^{}]*\}")

_LESS: Final[tuple[dict[str, int], ...]] = (
    {"description": 60, "choices": 300},
    {"description": 0, "choices": 200},
    {"description": 0, "choices": 100, "depth": 8},
    {"description": 0, "choices": 60, "depth": 4},
    {"description": 0, "choices": 40, "depth": 2},
)
"""In which steps a declaration that is too long is made shorter."""

MAX_NAME = 60
"""Characters of an entry's name that stand in an alias; a longer one is shortened to a digest."""
MAX_TITLE = 40
"""Characters of a definition's name that stand in an alias."""

_SPELLED: Final = {":": "$0", "-": "$1", ".": "$2", "/": "$3", " ": "$4", "$": "$5"}
"""How characters are written that no identifier can hold, so that different names stay different."""
_KINDS: Final = {"tool": "", "prompt": "$p", "resource": "$r", "template": "$t"}


def declaration(entry: CatalogEntry, *, observed: JsonObject | None = None, brief: bool = False) -> str:
    """The declaration of an entry, `MAX_CHARACTERS` long at most; some 0.3 ms: do many in a thread.

    Args:
        entry: the tool, resource, template or prompt.
        observed: schema of what the tool was seen to give, where it does not say; marked as observed.
        brief: shorten the entry's own description and those of its parameters further.
    """
    said = entry.description or entry.title or ""
    head = shorten(said, BRIEF_CHARACTERS if brief else DESCRIPTION_CHARACTERS)
    if entry.kind in {"resource", "template"}:
        return _resource(entry, head)
    full = _BRIEF if brief else _FULL
    for detail in (full, *(replace(full, **less) for less in _LESS)):
        made = _function(entry, head, observed, detail)
        if len(made) <= MAX_CHARACTERS:
            return made
    return _assembled(entry, head, ["input?: Record<string, unknown>"], "unknown", [], left_out=True)


class AliasNames:
    """Names for the definitions of one entry: `User_users$0list` for the `User` of `users:list`.

    Up to the first underscore stands the definition, behind it the entry, both in letters, digits and `$` alone where
    the other could be mistaken for it; so the names of two entries differ wherever the entries' names do.
    """

    def __init__(self, entry: CatalogEntry) -> None:
        self._suffix = f"_{_KINDS[entry.kind]}{_spelled(entry.name)}"
        self._taken: set[str] = set()

    def new_name(self, place: str) -> str:
        """A new name for the definition at a place in a schema."""
        words = re.findall(r"[A-Za-z0-9]+", definition_title(place))
        title = "".join(word[:1].upper() + word[1:] for word in words)[:MAX_TITLE] or "Type"
        title = title if title[0].isalpha() else f"T{title}"
        name, number = title, 2
        while name in self._taken:
            name, number = f"{title}{number}", number + 1
        self._taken.add(name)
        return f"{name}{self._suffix}"


class _Part(NamedTuple):
    """The input or the output."""

    printed: PrintedType
    left_out: bool
    needed: bool
    """Whether an input has to be given."""


def _function(entry: CatalogEntry, head: str, observed: JsonObject | None, detail: DetailLevel) -> str:
    """The declaration of a tool or a prompt in so much detail."""
    names = AliasNames(entry)
    given = _part(entry.input_schema, detail, names, asked=True)
    parameter = "args" if entry.kind == "prompt" else "input"
    parameters = [f"{parameter}{'' if given.needed else '?'}: {given.printed.text}"]
    if entry.kind == "prompt":
        return _assembled(entry, head, parameters, _PROMPT, [*given.printed.aliases], left_out=given.left_out)
    unsaid = observed is not None and is_uninformative(entry.output_schema)
    schema, remark = (observed, "observed") if unsaid else (entry.output_schema, "")
    if schema is None:
        return _assembled(entry, head, parameters, "unknown", [*given.printed.aliases], left_out=given.left_out)
    gives = _part(schema, detail, names, asked=False)
    result = f"{block_comment('observed, not declared')} {gives.printed.text}" if remark else gives.printed.text
    aliases = [*given.printed.aliases, *gives.printed.aliases]
    return _assembled(entry, head, parameters, result, aliases, left_out=given.left_out or gives.left_out)


def _part(schema: JsonObject, detail: DetailLevel, names: AliasNames, *, asked: bool) -> _Part:
    # What a tool is given is an object, whether or not its schema says so.
    document = {"type": "object", **schema} if asked else schema
    reader = SchemaReader(document, detail, asked=asked)
    found = reader.read()
    needed = not (isinstance(found, ObjectType) and all(field.optional for field in found.properties))
    text = print_type(found, reader.definitions, reader.notes, names.new_name)
    less = reader.left_out > 0 or detail.description < _BRIEF.description
    return _Part(text, less, needed)


def _assembled(
    entry: CatalogEntry, head: str, parameters: list[str], result: str, aliases: list[str], *, left_out: bool
) -> str:
    function = "getPrompt" if entry.kind == "prompt" else "callTool"
    arguments = ", ".join((f"name: {string_literal(entry.name)}", *parameters))
    said = f"{head} [shortened: the JSON schema says more]".strip() if left_out else head
    lines = [
        *aliases,
        *([doc_comment(said)] if said else []),
        f"declare function {function}({arguments}): Promise<{result}>;",
    ]
    return "\n".join(lines)


def _resource(entry: CatalogEntry, head: str) -> str:
    uri = string_literal(entry.name)
    if entry.kind == "template":
        parts = _VARIABLE.split(entry.name)
        uri = f"`{'${string}'.join(_in_template(part) for part in parts)}`"
        head = f"{head} {entry.name}".strip()  # the variables have names
    made = f"declare function readResource(uri: {uri}): Promise<unknown>;"
    return f"{doc_comment(head)}\n{made}" if head else made


def _in_template(text: str) -> str:
    """`text` in a template literal: as in a string, but for the marks that mean something else there."""
    return string_literal(text)[1:-1].replace('\\"', '"').replace("`", "\\`").replace("${", "\\${")


def _spelled(name: str) -> str:
    """`name` in characters of identifiers."""
    spelled = re.sub(r"[^A-Za-z0-9_]", lambda found: _SPELLED.get(found[0], f"$x{ord(found[0]):x}_"), name)
    if len(spelled) <= MAX_NAME:
        return spelled
    digest = sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return f"{spelled[:20]}$z{digest}"
