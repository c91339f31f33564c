"""Writes TypeScript declarations of catalog entries: compact, and never narrower than the schemas they are made from.

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
"""Characters of the longest declaration; a longer one is shown in less detail, and says so."""
BRIEF_CHARACTERS = 200
"""Characters of a tool's description in a brief declaration."""
DESCRIPTION_CHARACTERS = 2_000
"""Characters of a tool's description in any other declaration."""

_FULL: Final = DetailLevel()
_BRIEF: Final = DetailLevel(description=80, choices=400)

_PROMPT: Final = (
    "{ description: string | null; messages: { role: string; "
    "content: string | { type: string; [key: string]: unknown } }[] }"
)
"""The type that `getPrompt` returns: see `codecall/calls/conversion.py`."""
_VARIABLE: Final = re.compile(r"\{[^{}]*\}")

_REDUCED_DETAILS: Final[tuple[dict[str, int], ...]] = (
    {"description": 60, "choices": 300},
    {"description": 0, "choices": 200},
    {"description": 0, "choices": 100, "depth": 8},
    {"description": 0, "choices": 60, "depth": 4},
    {"description": 0, "choices": 40, "depth": 2},
)
"""The steps in which a declaration that is too long is shortened."""

MAX_NAME = 60
"""Characters of an entry's name in an alias; a longer name is shortened to a digest."""
MAX_TITLE = 40
"""Characters of a definition's name in an alias."""

_SPELLINGS: Final = {":": "$0", "-": "$1", ".": "$2", "/": "$3", " ": "$4", "$": "$5"}
"""The spelling of characters that no identifier can contain, so that different names stay different."""
_KINDS: Final = {"tool": "", "prompt": "$p", "resource": "$r", "template": "$t"}


def declaration(entry: CatalogEntry, *, observed: JsonObject | None = None, brief: bool = False) -> str:
    """Writes the declaration of an entry, of `MAX_CHARACTERS` at most. Takes some 0.3 ms: do many in a thread.

    Args:
        entry: the tool, resource, template or prompt.
        observed: the schema inferred from results, where the tool declares none; marked as observed.
        brief: whether to shorten the descriptions of the entry and of its parameters further.
    """
    description = entry.description or entry.title or ""
    head = shorten(description, BRIEF_CHARACTERS if brief else DESCRIPTION_CHARACTERS)
    if entry.kind in {"resource", "template"}:
        return _resource(entry, head)
    full = _BRIEF if brief else _FULL
    for detail in (full, *(replace(full, **less) for less in _REDUCED_DETAILS)):
        text = _function(entry, head, observed, detail)
        if len(text) <= MAX_CHARACTERS:
            return text
    return _assemble(entry, head, ["input?: Record<string, unknown>"], "unknown", [], left_out=True)


class AliasNames:
    """Names for the definitions of one entry: `User_users$0list` for the `User` of `users:list`.

    Up to the first underscore stands the definition, behind it the entry, both in letters, digits and `$` alone where
    the other could be mistaken for it; so the names of two entries differ wherever the entries' names do.
    """

    def __init__(self, entry: CatalogEntry) -> None:
        self._suffix = f"_{_KINDS[entry.kind]}{_identifier(entry.name)}"
        self._names_in_use: set[str] = set()

    def new_name(self, place: str) -> str:
        """Returns a new name for the definition at a JSON pointer of a schema."""
        words = re.findall(r"[A-Za-z0-9]+", definition_title(place))
        title = "".join(word[:1].upper() + word[1:] for word in words)[:MAX_TITLE] or "Type"
        title = title if title[0].isalpha() else f"T{title}"
        name, number = title, 2
        while name in self._names_in_use:
            name, number = f"{title}{number}", number + 1
        self._names_in_use.add(name)
        return f"{name}{self._suffix}"


class _TypePart(NamedTuple):
    """The type of the input or of the output."""

    printed: PrintedType
    left_out: bool
    needed: bool
    """Whether an input is required."""


def _function(entry: CatalogEntry, head: str, observed: JsonObject | None, detail: DetailLevel) -> str:
    """The declaration of a tool or a prompt at a level of detail."""
    names = AliasNames(entry)
    input_part = _part(entry.input_schema, detail, names, is_input=True)
    parameter = "args" if entry.kind == "prompt" else "input"
    parameters = [f"{parameter}{'' if input_part.needed else '?'}: {input_part.printed.text}"]
    if entry.kind == "prompt":
        return _assemble(entry, head, parameters, _PROMPT, [*input_part.printed.aliases], left_out=input_part.left_out)
    undeclared = observed is not None and is_uninformative(entry.output_schema)
    schema, remark = (observed, "observed") if undeclared else (entry.output_schema, "")
    if schema is None:
        return _assemble(
            entry, head, parameters, "unknown", [*input_part.printed.aliases], left_out=input_part.left_out
        )
    output_part = _part(schema, detail, names, is_input=False)
    result = (
        f"{block_comment('observed, not declared')} {output_part.printed.text}" if remark else output_part.printed.text
    )
    aliases = [*input_part.printed.aliases, *output_part.printed.aliases]
    return _assemble(entry, head, parameters, result, aliases, left_out=input_part.left_out or output_part.left_out)


def _part(schema: JsonObject, detail: DetailLevel, names: AliasNames, *, is_input: bool) -> _TypePart:
    # The input of a tool is an object, whether or not its schema says so.
    document = {"type": "object", **schema} if is_input else schema
    reader = SchemaReader(document, detail, is_input=is_input)
    root_type = reader.read()
    required = not (isinstance(root_type, ObjectType) and all(field.optional for field in root_type.properties))
    text = print_type(root_type, reader.definitions, reader.notes, names.new_name)
    left_out = reader.left_out > 0 or detail.description < _BRIEF.description
    return _TypePart(text, left_out, required)


def _assemble(
    entry: CatalogEntry, head: str, parameters: list[str], result: str, aliases: list[str], *, left_out: bool
) -> str:
    function = "getPrompt" if entry.kind == "prompt" else "callTool"
    arguments = ", ".join((f"name: {string_literal(entry.name)}", *parameters))
    description = f"{head} [shortened: the JSON schema says more]".strip() if left_out else head
    lines = [
        *aliases,
        *([doc_comment(description)] if description else []),
        f"declare function {function}({arguments}): Promise<{result}>;",
    ]
    return "\n".join(lines)


def _resource(entry: CatalogEntry, head: str) -> str:
    uri = string_literal(entry.name)
    if entry.kind == "template":
        parts = _VARIABLE.split(entry.name)
        uri = f"`{'${string}'.join(_escaped_for_template(part) for part in parts)}`"
        head = f"{head} {entry.name}".strip()  # the variables have names
    text = f"declare function readResource(uri: {uri}): Promise<unknown>;"
    return f"{doc_comment(head)}\n{text}" if head else text


def _escaped_for_template(text: str) -> str:
    """Escapes `text` for a template literal, where other characters are special than in a string."""
    return string_literal(text)[1:-1].replace('\\"', '"').replace("`", "\\`").replace("${", "\\${")


def _identifier(name: str) -> str:
    """`name` in characters of identifiers."""
    spelled = re.sub(r"[^A-Za-z0-9_]", lambda match: _SPELLINGS.get(match[0], f"$x{ord(match[0]):x}_"), name)
    if len(spelled) <= MAX_NAME:
        return spelled
    digest = sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return f"{spelled[:20]}$z{digest}"
