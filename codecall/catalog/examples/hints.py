"""Hints for usage examples, from a tool's name and schemas: its intent, its paging, its ids, the list in its answer."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, cast

from codecall.catalog.entries import CatalogEntry
from codecall.catalog.examples.samples import text_fits
from codecall.catalog.javascript import literal, member_access
from codecall.catalog.search.analysis import name_parts, stem
from codecall.schema.model import JsonObject, SchemaNode, is_uninformative

Intent = Literal["create", "list", "get", "update", "delete", "search", "other"]

_VERBS: dict[Intent, str] = {
    "create": "create add new insert register open make post submit upload draft start publish send generate",
    "list": "list enumerate index browse all",
    "get": "get fetch read show describe retrieve view load lookup download inspect whoami status info details",
    "update": "update edit modify change set patch rename move replace put assign upsert enable disable close",
    "delete": "delete remove destroy drop purge erase clear cancel revoke unregister unassign",
    "search": "search find query filter match locate discover",
}
"""The words that indicate an intent. They are stemmed, so that `creates` and `listing` count too."""

_INTENT_OF: dict[str, Intent] = {stem(verb): intent for intent, verbs in _VERBS.items() for verb in verbs.split()}
_WRITE_INTENTS: frozenset[Intent] = frozenset({"create", "update", "delete"})

FULL_PAGE = 100
"""Items per page that a paging example requests, where the schema allows and names no default without a maximum."""

_SIZES = ("limit", "pagesize", "perpage", "maxresults", "numresults", "size", "top", "first", "count")
_OFFSETS = ("offset", "skip")
_PAGES = ("page", "pagenumber", "pagenum", "pageindex")
_CURSORS = ("cursor", "pagetoken", "nexttoken", "nextpagetoken", "nextcursor", "continuationtoken", "startingafter")
_QUERIES = ("query", "q", "search", "searchquery", "searchterm", "keyword", "keywords", "term", "text", "pattern")
_LISTS = ("items", "results", "data", "records", "rows", "entries", "values")
_SUMMARY_FIELDS = ("id", "name", "title", "status", "email", "type", "date", "url", "total", "amount", "count")
_SCALARS = frozenset({"string", "integer", "number", "boolean"})


def intent_of(entry: CatalogEntry) -> Intent:
    """Returns the intent of a tool, from the first verb of the last part of its name, else of its name or description.

    `get` over a plural without a required parameter is `list`. A tool that says it only reads never creates, updates or
    deletes.
    """
    last = re.split(r"[:./]", entry.name)[-1]
    sentence = " ".join(entry.description.split()[:6])
    intent = _first_intent(last) or _first_intent(entry.name) or _first_intent(sentence) or "other"
    if entry.annotations.get("readOnlyHint") is True and intent in _WRITE_INTENTS:
        return "other"
    if intent == "get" and not SchemaNode(entry.input_schema).required and _plural(name_parts(last)):
        return "list"
    return intent


@dataclass(frozen=True, slots=True)
class Paging:
    """How a tool pages."""

    parameter: str
    style: str
    """`offset`, `page` or `cursor`."""
    first: int
    """The number of the first page or item."""
    next_cursor: str
    """The expression over `result` that reads the next cursor, when the style is `cursor`."""


@dataclass(frozen=True, slots=True)
class ListExpression:
    """The list in a tool's answer."""

    expression: str
    """The expression that reads the list from `result`."""
    item: SchemaNode | None
    """The schema of an item; None when the output is unknown."""


def input_schema(entry: CatalogEntry) -> SchemaNode:
    """Returns the tool's input schema."""
    return SchemaNode(entry.input_schema)


def output_schema(entry: CatalogEntry, observed: JsonObject | None = None) -> SchemaNode | None:
    """Returns the schema of the value that `callTool` returns; None when unknown.

    FastMCP wraps a value that is no object as `{"result": …}`; the broker unwraps it. `observed`, the schema inferred
    from such values, stands in for one that says nothing, unless the tool was seen to return null or several types.
    """
    if observed is not None and is_uninformative(entry.output_schema):
        is_known = isinstance(kind := observed.get("type"), str) and kind != "null"
        return SchemaNode(observed) if is_known else None
    if not entry.output_schema:
        return None
    output = SchemaNode(entry.output_schema)
    if entry.output_schema.get("x-fastmcp-wrap-result") is True:
        return output.properties.get("result")
    return output


def page_size_parameter(schema: SchemaNode) -> str | None:
    """Returns the parameter that sets the number of items per page."""
    return _named(schema, _SIZES, {"integer", "number"})


def page_size(schema: SchemaNode, parameter: str) -> int:
    """Returns the number of items per page to ask for: the most that the tool states, else its default."""
    limits = schema.properties[parameter]
    most, least, default = limits.number("maximum"), limits.number("minimum"), limits.body.get("default")
    size = FULL_PAGE if most is None else min(FULL_PAGE, int(most))
    if most is None and isinstance(default, int) and not isinstance(default, bool):
        size = default
    return max(1, size if least is None else max(size, int(least)))


def find_paging(schema: SchemaNode, output: SchemaNode | None) -> Paging | None:
    """Returns how the tool pages; None when it does not, or when its output does not tell where the next cursor is."""
    offset = _named(schema, _OFFSETS, {"integer", "number"})
    if offset is not None:
        return Paging(offset, "offset", 0, "")
    page = _named(schema, _PAGES, {"integer", "number"})
    if page is not None:
        default = schema.properties[page].body.get("default")
        least = schema.properties[page].number("minimum")
        stated = isinstance(default, int) and not isinstance(default, bool) and 0 <= default <= 1
        return Paging(page, "page", int(cast(int, default)) if stated else 0 if least == 0 else 1, "")
    cursor = _named(schema, _CURSORS, {"string", ""})
    if cursor is None or output is None:
        return None
    for name in output.properties:
        plain = _plain(name)
        if plain == _plain(cursor) or (plain.startswith("next") and plain.endswith(("cursor", "token"))):
            return Paging(cursor, "cursor", 0, member_access("result", name))
    return None


def query_parameter(schema: SchemaNode) -> str | None:
    """Returns the parameter that takes the words to search for."""
    return _named(schema, _QUERIES, {"string"})


def varying_parameter(schema: SchemaNode, arguments: Mapping[str, object]) -> tuple[str, list[str]] | None:
    """Returns the required parameter that identifies a thing, with two or three values (as literals) to try.

    Returns None when there is no such parameter, or when only one value for it is known.
    """
    candidates = [name for name in schema.required if name in arguments and name in schema.properties]
    candidates.sort(key=lambda name: not _plain(name).endswith(("id", "key", "name", "number", "slug")))
    for name in candidates:
        values = _values(schema.properties[name], arguments[name])
        if len(values) > 1:
            return name, [literal(value) for value in values]
    return None


def find_list(output: SchemaNode | None) -> ListExpression | None:
    """Returns the expression of the list in the answer; None when the output is known and has no list."""
    if output is None or (not output.kind and not output.properties):
        first_array = "Object.values(result ?? {}).find((value) => Array.isArray(value)) ?? []"
        return ListExpression(f"Array.isArray(result) ? result : ({first_array})", None)
    if output.kind == "array":
        return ListExpression("result", output.items)
    lists = [name for name, schema in output.properties.items() if schema.kind == "array"]
    if not lists:
        return None
    name = min(lists, key=lambda name: (not output.properties[name].items.properties, _rank(name, _LISTS)))
    expression = member_access("result", name)
    return ListExpression(
        expression if name in output.required else f"({expression} ?? [])", output.properties[name].items
    )


def summary_fields(schema: SchemaNode | None, most: int = 3) -> list[str]:
    """Returns the fields of an object that summarize it best: scalars, the well-known ones first."""
    if schema is None:
        return []
    names = [name for name, field in schema.properties.items() if field.kind in _SCALARS]
    return sorted(names, key=lambda name: _rank(name, _SUMMARY_FIELDS))[:most]


def filter_expression(item: SchemaNode) -> str | None:
    """Returns an expression over `item` that filters items: by a field with enumerated values, or by a boolean
    field."""
    for name, field in item.properties.items():
        if field.choices and isinstance(field.choices[0], (str, int)):
            value = field.choices[0]
            return f"{member_access('item', name)} === {literal(value[:100] if isinstance(value, str) else value)}"
    return next(
        (member_access("item", name) for name, field in item.properties.items() if field.kind == "boolean"), None
    )


def _first_intent(text: str) -> Intent | None:
    for word in name_parts(text):
        intent = _INTENT_OF.get(stem(word)) if word.isascii() else None
        if intent is not None:
            return intent
    return None


def _plural(words: list[str]) -> bool:
    return any(
        word.endswith("s") and not word.endswith(("ss", "us", "is")) and stem(word) not in _INTENT_OF for word in words
    )


def _values(schema: SchemaNode, first: object) -> list[object]:
    if "const" in schema.body:
        return []
    if schema.choices:
        return list[object](choice for choice in schema.choices if isinstance(choice, (str, int)))[:3]
    if isinstance(first, bool):
        return []
    if isinstance(first, int):
        step = max(1, int(min(schema.number("multipleOf") or 1, 1e9)))
        most = schema.number("maximum")
        return [n for n in (first, first + step, first + 2 * step) if most is None or n <= most]
    if isinstance(first, str) and (
        re.fullmatch(r".+[-_][1-7]", first, re.DOTALL) or ("pattern" in schema.body and re.search(r"[1-7]\Z", first))
    ):
        varied = [first[:-1] + str(int(first[-1]) + more) for more in range(3)]
        return [text for text in varied if text_fits(text, schema)]
    return []


def _named(schema: SchemaNode, names: Iterable[str], kinds: set[str]) -> str | None:
    """The parameter with the first of these plain names that is of one of these types."""
    by_plain_name = {_plain(name): name for name, inner in schema.properties.items() if inner.kind in kinds}
    return next((by_plain_name[name] for name in names if name in by_plain_name), None)


def _rank(name: str, order: tuple[str, ...]) -> int:
    plain = _plain(name)
    return order.index(plain) if plain in order else len(order)


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
