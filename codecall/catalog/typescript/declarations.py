"""Writes TypeScript declarations of catalog entries: compact, and never narrower than the schemas they are made from.

    /** List users. */
    declare function callTool(name: "users:list", input: { limit?: number }): Promise<{ id: string }[]>;

A declaration is an overload of the function that a script calls: `callTool`, `readResource` or `getPrompt`. Types
that are recursive or used more than once become `type` aliases before it. The names of those of one entry are its
alone, so that the declarations of many tools make one file that compiles; entries that are declared together share
theirs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Final, NamedTuple

from codecall.catalog.entries import CatalogEntry
from codecall.catalog.javascript import string_literal
from codecall.catalog.typescript.comments import block_comment, doc_comment, shorten
from codecall.catalog.typescript.from_schema import MAX_CHARACTERS, DetailLevel, SchemaReader
from codecall.catalog.typescript.sharing import TypeNames, TypePool
from codecall.catalog.typescript.types import ObjectType, Type, print_types
from codecall.schema.model import is_uninformative

JsonObject = Mapping[str, object]

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

_SPELLINGS: Final = {":": "$0", "-": "$1", ".": "$2", "/": "$3", " ": "$4", "$": "$5"}
"""The spelling of characters that no identifier can contain, so that different names stay different."""
_KINDS: Final = {"tool": "", "prompt": "$p", "resource": "$r", "template": "$t"}


class Declarations(NamedTuple):
    """Declarations that are read together."""

    types: str
    """The `type` declarations that they need; may be empty."""
    texts: list[str]
    """One of each entry."""


def declaration(entry: CatalogEntry, *, observed: JsonObject | None = None, brief: bool = False) -> str:
    """Writes the declaration of an entry, of `MAX_CHARACTERS` at most. Takes some 0.3 ms: do many in a thread.

    Args:
        entry: the tool, resource, template or prompt.
        observed: the schema inferred from results, where the tool declares none; marked as observed.
        brief: whether to shorten the descriptions of the entry and of its parameters further.
    """
    return _fitting(entry, observed, brief)[1]


def declarations(entries: Sequence[tuple[CatalogEntry, JsonObject | None]], *, brief: bool = False) -> Declarations:
    """Writes the declarations of several entries, each with its observed schema as `declaration` takes it. What some
    of them have in common stands in `types`, once."""
    if len(entries) == 1:
        return Declarations("", [declaration(entries[0][0], observed=entries[0][1], brief=brief)])
    declared = [_fitting(entry, observed, brief)[0] for entry, observed in entries]
    pool = TypePool()
    types, texts = _print(declared, pool, TypeNames(pool))
    return Declarations("\n".join(types), texts)


class _Part(NamedTuple):
    """The type of the input or of the output."""

    type: Type
    definitions: Mapping[str, Type]
    notes: Mapping[str, str]
    left_out: bool


class _Shown(NamedTuple):
    """What a declaration shows of an entry."""

    entry: CatalogEntry
    head: str
    """Its description."""
    given: _Part | None = None
    """Its input; None for a resource, and where nothing of it is shown."""
    gives: _Part | None = None
    """Its output; None where that is not known."""
    is_observed: bool = False
    """Whether the output was seen, not declared."""


def _fitting(entry: CatalogEntry, observed: JsonObject | None, brief: bool) -> tuple[_Shown, str]:
    """What the declaration of an entry shows, in as much detail as there is room for, and that declaration."""
    description = entry.description or entry.title or ""
    head = shorten(description, BRIEF_CHARACTERS if brief else DESCRIPTION_CHARACTERS)
    nothing = _Shown(entry, head)
    if entry.kind in {"resource", "template"}:
        return nothing, _resource(entry, head)
    full = _BRIEF if brief else _FULL
    if (whole := _fit(nothing, observed, full)) is not None:
        return whole
    # From least to most: nothing more is tried where not even the least fits.
    fitting = None
    for less in reversed(_REDUCED_DETAILS):
        if (fit := _fit(nothing, observed, replace(full, **less))) is None:
            break
        fitting = fit
    return fitting or (nothing, _assemble(nothing, "input?: Record<string, unknown>", "unknown"))


def _fit(nothing: _Shown, observed: JsonObject | None, detail: DetailLevel) -> tuple[_Shown, str] | None:
    """What the declaration of an entry shows at a level of detail, and that declaration; None: it is too long."""
    shown = _read(nothing, observed, detail)
    pool = TypePool()
    types, (text,) = _print([shown], pool, TypeNames(pool, _suffix(shown.entry)))
    text = "\n".join((*types, text))
    return (shown, text) if len(text) <= MAX_CHARACTERS else None


def _suffix(entry: CatalogEntry) -> str:
    """The end of the names of an entry's types: `_users$0list` for `users:list`.

    Up to the first underscore of a name stands the type's title, behind it the entry, both in letters, digits and `$`
    alone where the other could be mistaken for it; so the names of two entries differ wherever the entries' names do.
    """
    return f"_{_KINDS[entry.kind]}{_identifier(entry.name)}"


def _read(shown: _Shown, observed: JsonObject | None, detail: DetailLevel) -> _Shown:
    """What the declaration of a tool or a prompt shows at a level of detail."""
    entry = shown.entry
    # The input of a tool is an object, whether or not its schema says so.
    given = _part({"type": "object", **entry.input_schema}, detail, is_input=True)
    if entry.kind == "prompt":
        return shown._replace(given=given)
    is_observed = observed is not None and is_uninformative(entry.output_schema)
    schema = observed if is_observed else entry.output_schema
    gives = None if schema is None else _part(schema, detail, is_input=False)
    return shown._replace(given=given, gives=gives, is_observed=is_observed)


def _part(schema: JsonObject, detail: DetailLevel, *, is_input: bool) -> _Part:
    reader = SchemaReader(schema, detail, is_input=is_input)
    left_out = detail.description < _BRIEF.description
    return _Part(reader.read(), reader.definitions, reader.notes, reader.left_out > 0 or left_out)


def _print(shown: Sequence[_Shown], pool: TypePool, names: TypeNames) -> tuple[list[str], list[str]]:
    """The `type` declarations that these need, and the declaration of each."""
    pooled = [
        pool.add(part.type, part.definitions, part.notes, each.entry.name, title)
        for each in shown
        for part, title in ((each.given, "Input"), (each.gives, "Result"))
        if part is not None
    ]
    printed, types = print_types(pooled, pool.definitions, pool.notes, names.new_name)
    remaining = iter(printed)
    return types, [_function(each, remaining) for each in shown]


def _function(shown: _Shown, types: Iterator[str]) -> str:
    """The declaration of one entry; takes its types from `types`."""
    if shown.entry.kind in {"resource", "template"}:
        return _resource(shown.entry, shown.head)
    if shown.given is None:
        return _assemble(shown, "input?: Record<string, unknown>", "unknown")
    root = shown.given.type
    optional = isinstance(root, ObjectType) and all(field.optional for field in root.properties)
    name = "args" if shown.entry.kind == "prompt" else "input"
    parameter = f"{name}{'?' if optional else ''}: {next(types)}"
    if shown.entry.kind == "prompt":
        return _assemble(shown, parameter, _PROMPT)
    result = "unknown" if shown.gives is None else next(types)
    return _assemble(
        shown, parameter, f"{block_comment('observed, not declared')} {result}" if shown.is_observed else result
    )


def _assemble(shown: _Shown, parameter: str, result: str) -> str:
    function = "getPrompt" if shown.entry.kind == "prompt" else "callTool"
    parts = [part for part in (shown.given, shown.gives) if part is not None]
    left_out = shown.given is None or any(part.left_out for part in parts)
    head = f"{shown.head} [shortened: the JSON schema says more]".strip() if left_out else shown.head
    text = f"declare function {function}(name: {string_literal(shown.entry.name)}, {parameter}): Promise<{result}>;"
    return f"{doc_comment(head)}\n{text}" if head else text


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
