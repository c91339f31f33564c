"""`codecall:search`: which tools there are for a task, or at all."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import zip_longest
from typing import Annotated, Any, Literal

import anyio.to_thread
from fastmcp.tools.base import ToolResult
from mcp_types import ToolAnnotations
from pydantic import Discriminator, Field, Tag

from codecall.catalog.entries import CatalogEntry
from codecall.catalog.index import Hit
from codecall.catalog.view import CHUNK
from codecall.meta_tools.base import (
    SENDABLE,
    Arguments,
    JsonObject,
    MetaTool,
    Wiring,
    answer_from_catalogue,
    read_arguments,
)
from codecall.meta_tools.search_schema import MAX_QUERIES, MAX_QUERY, MAX_TOP_K, OUTPUT, input_schema
from codecall.meta_tools.wording import describe_search

Detail = Literal["name", "brief", "full"]

BRIEF_CHARACTERS = 200
"""Longest description at detail `brief`; a longer one ends in `…`."""

_MAX_WARNED = 10

Query = Annotated[str, Field(max_length=MAX_QUERY), SENDABLE]


class SearchFilter(Arguments):
    """`filter`: a tool must be of one of the apps and carry one of the tags, where given."""

    app_ids: list[str] | None = None
    tags: list[str] | None = None


class SearchArguments(Arguments):
    """Arguments of `codecall:search`."""

    query: Annotated[
        Annotated[Query, Tag("text")]
        | Annotated[list[Query], Field(min_length=1, max_length=MAX_QUERIES), Tag("list")],
        Discriminator(
            lambda value: "text" if isinstance(value, str) else "list" if isinstance(value, list) else None,
            custom_error_type="query_type",
            custom_error_message="Input should be a string or an array of strings",
        ),
    ]
    top_k: Annotated[int, Field(ge=1, le=MAX_TOP_K)] | None = None
    filter: SearchFilter | None = None
    exclude_tool_names: list[str] | None = None
    min_score: Annotated[float, Field(ge=0, le=1)] | None = None
    detail: Detail | None = None


@dataclass(slots=True)
class Found:
    """A tool, how well it fits, and which of several queries it fits."""

    entry: CatalogEntry
    score: float = 0.0
    queries: list[str] = field(default_factory=list[str])


class SearchTool(MetaTool):
    """Finds tools."""

    @classmethod
    def create(cls, wiring: Wiring) -> SearchTool:
        """The tool under the advertised name."""
        return cls.build(
            wiring,
            verb="search",
            title="Search tools",
            description=describe_search(wiring.options),
            parameters=input_schema(wiring.options),
            output_schema=OUTPUT,
            annotations=ToolAnnotations(
                read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
            ),
        )

    async def respond(self, arguments: dict[str, Any]) -> ToolResult:
        """The tools of this caller that fit the queries best; without a query, what there is."""
        given = read_arguments(SearchArguments, self.name, arguments)
        options = self._wiring.options
        _, view = self._view()
        entries = await view.entries()
        asked = [given.query] if isinstance(given.query, str) else given.query
        queries = list(dict.fromkeys(query for query in asked if query.strip()))
        hits = await self._wiring.index.search(entries, queries) if queries else []
        least = options.embedding.similarity_threshold if given.min_score is None else given.min_score
        select = partial(_select, entries, given, list(zip(queries, hits, strict=True)), least)
        # Ten queries over thousands of tools have tens of thousands of hits: too many for the event loop.
        small = len(entries) + len(given.exclude_tool_names or ()) <= CHUNK
        found, body = select() if small else await anyio.to_thread.run_sync(select)
        shown = found[: given.top_k or options.top_k]
        if given.detail == "full":
            for item in shown:
                item.entry = await view.find(item.entry.name) or item.entry
                await asyncio.sleep(0)  # showing a tool resolves its schemas: other tasks get their turn between two
        several = len(asked) > 1 and bool(queries)
        body["tools"] = [_document(item, given.detail or "brief", several) for item in shown]
        return answer_from_catalogue(body)


def _select(
    entries: Sequence[CatalogEntry], given: SearchArguments, hits: Sequence[tuple[str, Sequence[Hit]]], least: float
) -> tuple[list[Found], JsonObject]:
    """The tools that fit, best first, or all where there is no query; and the answer but for its tools."""
    candidates = _filtered(entries, given)
    warnings = _unknown(entries, given)
    body: JsonObject = {"tools": [], "totalIndexed": len(entries)}
    below: Found | None = None
    if hits:
        found, below = _ranked(candidates, hits, least)
    else:
        found = [Found(entry) for entry in _spread(candidates)]
        body["apps"] = _apps(candidates)
    if not found:
        warnings.append(_nothing(below, least, candidates, entries))
    if warnings:
        body["warnings"] = warnings
    return found, body


def _ranked(
    candidates: Sequence[CatalogEntry], hits: Sequence[tuple[str, Sequence[Hit]]], least: float
) -> tuple[list[Found], Found | None]:
    """The candidates scored at least `least`, best first; and the best of those that stay below."""
    by_name = {entry.name: entry for entry in candidates}
    found: dict[str, Found] = {}
    below: Found | None = None
    for query, of_query in hits:
        for hit in of_query:
            entry = by_name.get(hit.name)
            if entry is None:
                continue
            if hit.score >= least:
                item = found.setdefault(hit.name, Found(entry))
                item.score = max(item.score, hit.score)
                item.queries.append(query)
            elif below is None or hit.score > below.score:
                below = Found(entry, hit.score)
    return sorted(found.values(), key=lambda item: (-item.score, item.entry.name)), below


def _filtered(entries: Iterable[CatalogEntry], given: SearchArguments) -> list[CatalogEntry]:
    apps = given.filter.app_ids if given.filter else None
    tags = given.filter.tags if given.filter else None
    excluded = frozenset(given.exclude_tool_names or ())
    return [
        entry
        for entry in entries
        if entry.name not in excluded
        and (apps is None or entry.app_id in apps)
        and (tags is None or not entry.tags.isdisjoint(tags))
    ]


def _unknown(entries: Sequence[CatalogEntry], given: SearchArguments) -> list[str]:
    """A warning for every name, app or tag of the call that no tool of this caller has."""
    warnings: list[str] = []
    asked = given.filter or SearchFilter()
    checks: list[tuple[str, list[str] | None, Callable[[CatalogEntry], Iterable[str]]]] = [
        ("excludeToolNames: no tool is called", given.exclude_tool_names, lambda entry: (entry.name,)),
        ("filter.appIds: no tool belongs to", asked.app_ids, lambda entry: (entry.app_id,)),
        ("filter.tags: no tool is tagged", asked.tags, lambda entry: entry.tags),
    ]
    for label, words, of in checks:
        if not words:
            continue
        known = {word for entry in entries for word in of(entry)}
        missing = [word for word in dict.fromkeys(words) if word not in known]
        if missing:
            shown = ", ".join(repr(word[:200]) for word in missing[:_MAX_WARNED])
            more = f" and {len(missing) - _MAX_WARNED} more" if len(missing) > _MAX_WARNED else ""
            warnings.append(f"{label} {shown}{more}")
    return warnings


def _nothing(
    best: Found | None, least: float, candidates: Sequence[CatalogEntry], entries: Sequence[CatalogEntry]
) -> str:
    """Why there is no hit, and what to do about it."""
    if not entries:
        return "There are no tools you can reach here."
    if not candidates:
        return f"No tool is left after filter and excludeToolNames; {len(entries)} tools without them."
    if best is not None:
        return (
            f"Nothing matched with a score of at least {least:g}. The nearest is {best.entry.name!r} "
            f"with {best.score:g}; lower minScore to get it, or describe the task in other words."
        )
    apps = ", ".join(f"{app['appId']} ({app['tools']})" for app in _apps(candidates)[:_MAX_WARNED])
    return f"Nothing matched. There are tools of these apps: {apps}. An empty query gives an overview."


def _apps(entries: Iterable[CatalogEntry]) -> list[JsonObject]:
    """The apps, the one with most tools first."""
    counts = Counter(entry.app_id for entry in entries)
    return [{"appId": app, "tools": n} for app, n in sorted(counts.items(), key=lambda item: (-item[1], item[0]))]


def _spread(entries: Iterable[CatalogEntry]) -> list[CatalogEntry]:
    """The tools in such an order that the first few come from as many apps as possible."""
    by_app: dict[str, list[CatalogEntry]] = defaultdict(list)
    for entry in entries:
        by_app[entry.app_id].append(entry)
    rows = zip_longest(*(by_app[app["appId"]] for app in _apps(e for tools in by_app.values() for e in tools)))
    return [entry for row in rows for entry in row if entry is not None]


def _document(found: Found, detail: Detail, several: bool) -> JsonObject:
    entry = found.entry
    body: JsonObject = {"name": entry.name, "appId": entry.app_id}
    if detail != "name":
        body["description"] = entry.description if detail == "full" else brief(entry.description)
    body["score"] = found.score
    if several:
        body["matchedQueries"] = found.queries
    if detail == "full":
        body["inputSchema"] = entry.input_schema
        body["outputSchema"] = entry.output_schema
        body["annotations"] = entry.annotations
    return body


def brief(description: str) -> str:
    """The first paragraph of a description on one line, cut at a word with `…` where it is too long."""
    paragraph = " ".join(description.strip().split("\n\n", 1)[0].split())
    if len(paragraph) <= BRIEF_CHARACTERS:
        return paragraph
    head = paragraph[: BRIEF_CHARACTERS - 1]
    return (head.rsplit(" ", 1)[0] if " " in head else head).rstrip(" ,;:") + "…"
