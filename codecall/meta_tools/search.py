"""`codecall:search`: which tools there are for a task, or at all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, Literal, TypeVar, get_args

import anyio.to_thread
from fastmcp.server.context import Context
from fastmcp.tools.base import ToolResult
from mcp_types import ToolAnnotations
from pydantic import Discriminator, Field, Tag

from codecall.catalog.components import component_view
from codecall.catalog.entries import CatalogEntry, Kind
from codecall.catalog.search.index import search_threads
from codecall.catalog.typescript.comments import shorten
from codecall.catalog.typescript.declarations import declaration
from codecall.catalog.view import CatalogView
from codecall.concurrency import CHUNK
from codecall.meta_tools.base import (
    WELL_FORMED,
    Arguments,
    MetaTool,
    Runtime,
    observed_output_schema,
    parse_arguments,
    tool_result_from_catalog,
)
from codecall.meta_tools.descriptions import describe_search
from codecall.meta_tools.search_results import (
    DEAD_END,
    OVERVIEW,
    PLURALS,
    AppSize,
    Criteria,
    Match,
    OverviewSize,
    Selection,
    UnmatchedQuery,
    app_sizes,
    describe_apps,
    index_progress_warnings,
    interleave_apps,
    no_match_warnings,
    no_place_warning,
    nothing_left_warning,
    select,
    shorten_echo,
    suggest_searches,
    unknown_name_warnings,
)
from codecall.options import PluginOptions

JsonObject = dict[str, Any]

MAX_QUERY_CHARS = 1_000
"""Longest query, in characters. Source of this number and the next two: the contract, section 2."""
MAX_QUERIES = 10
"""Most queries of one call."""
MAX_TOP_K = 50
"""Most hits of one call."""

KINDS: tuple[Kind, ...] = get_args(Kind)
"""What can be searched for."""

_TEXT: JsonObject = {"type": "string"}
_COUNT: JsonObject = {"type": "integer", "minimum": 0}
_TEXTS: JsonObject = {"type": "array", "items": _TEXT}


def input_schema(options: PluginOptions) -> JsonObject:
    """The arguments; defaults are those of the plugin."""
    query: JsonObject = {"type": "string", "maxLength": MAX_QUERY_CHARS}
    return {
        "type": "object",
        "properties": {
            "query": {
                "anyOf": [query, {"type": "array", "items": query, "minItems": 1, "maxItems": MAX_QUERIES}],
                "description": "What the tool should do; several as an array; empty for an overview",
            },
            "topK": {
                "type": "integer",
                "minimum": 1,
                "maximum": MAX_TOP_K,
                "default": options.top_k,
                "description": "Most to return; when left out, at least one for each query",
            },
            "filter": {
                "type": "object",
                "properties": {
                    "appIds": {**_TEXTS, "description": "Only tools of these apps"},
                    "tags": {**_TEXTS, "description": "Only tools with one of these tags"},
                    "kinds": {
                        "type": "array",
                        "items": {"type": "string", "enum": list(KINDS)},
                        "minItems": 1,
                        "default": ["tool"],
                        "description": "What to look for",
                    },
                },
                "additionalProperties": False,
            },
            "excludeToolNames": {**_TEXTS, "description": "Names to leave out, such as those already known"},
            "minScore": {
                "type": "number",
                "minimum": 0,
                "maximum": 1,
                "default": options.embedding.similarity_threshold,
                "description": "Least score to return",
            },
            "detail": {
                "type": "string",
                "enum": ["name", "brief", "full", "typescript"],
                "default": "brief",
                "description": "full adds the schemas; typescript gives declarations, ready to write calls from",
            },
        },
        "required": ["query"],
        "additionalProperties": False,
    }


OUTPUT_SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "tools": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "name": _TEXT,
                    "kind": {"enum": list(KINDS)},
                    "appId": _TEXT,
                    "title": _TEXT,
                    "description": _TEXT,
                    "score": {"type": "number", "minimum": 0, "maximum": 1},
                    "matchedQueries": _TEXTS,
                    "inputSchema": {"type": "object"},
                    "outputSchema": {"type": ["object", "null"]},
                    "observedOutput": {"type": "object", "description": "Seen, not declared"},
                    "annotations": {"type": "object"},
                    "typescript": _TEXT,
                },
                "required": ["name", "appId", "score"],
            },
        },
        "totalIndexed": _COUNT,
        "suggestions": {**_TEXTS, "description": "Words and names to search for instead"},
        "apps": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "appId": _TEXT,
                    "tools": _COUNT,
                    "resources": _COUNT,
                    "templates": _COUNT,
                    "prompts": _COUNT,
                    "central": {**_TEXTS, "description": "Names of what is most typical of the app"},
                },
                "required": ["appId", "central"],
            },
        },
        "moreApps": {**_TEXTS, "description": "Ids of further apps"},
        "warnings": _TEXTS,
    },
    "required": ["tools", "totalIndexed"],
}
"""The answer. `apps` comes with an overview and wherever nothing was found, `suggestions` with queries nothing fits,
`matchedQueries` with several queries, `kind` with `filter.kinds`, the schemas with detail `full`, `typescript` with
detail `typescript`."""


Detail = Literal["name", "brief", "full", "typescript"]

BRIEF_CHARS = 200
"""Longest description at detail `brief`; a longer one ends in `…`."""

WEAK_SCORE = 0.4
"""Queries whose best hit scores less get suggestions too. Plain requests score above:
`tests/catalog/search/test_lexical.py`."""

Query = Annotated[str, Field(max_length=MAX_QUERY_CHARS), WELL_FORMED]
Observed = dict[str, Mapping[str, object]]
"""Schemas of what tools were seen to give, by name."""

T = TypeVar("T")


class SearchFilter(Arguments):
    """`filter`: an entry must be of one of the apps, carry one of the tags and be of one of the kinds, where given."""

    app_ids: list[str] | None = None
    tags: list[str] | None = None
    kinds: Annotated[list[Kind], Field(min_length=1)] | None = None


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


class SearchTool(MetaTool):
    """Finds tools, and whatever else the server offers."""

    @classmethod
    def create(cls, wiring: Runtime) -> SearchTool:
        """The tool under the advertised name."""
        return cls.build(
            wiring,
            verb="search",
            title="Search tools",
            description=describe_search(wiring.options),
            parameters=input_schema(wiring.options),
            output_schema=OUTPUT_SCHEMA,
            annotations=ToolAnnotations(
                read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
            ),
        )

    async def respond(self, arguments: dict[str, Any]) -> ToolResult:
        """What this caller may use and fits the queries best; without a query, what there is."""
        given = parse_arguments(SearchArguments, self.name, arguments)
        context, view = self._view()
        kinds = given.filter.kinds if given.filter else None
        inquiry = _Inquiry(given, await self._entries(context, view, kinds), self._wiring)
        found = await inquiry.answer()
        several = isinstance(given.query, list) and len(given.query) > 1 and bool(inquiry.queries)
        detail = given.detail or "brief"
        observed = await self._looked_up(found, context, view) if detail in {"full", "typescript"} else {}
        show = partial(_documents, found, observed, detail, several, kinds is not None)
        # Reads schemas, which may be large.
        shown = await anyio.to_thread.run_sync(show, limiter=search_threads()) if detail == "typescript" else show()
        return tool_result_from_catalog({"tools": shown, **inquiry.body})

    async def _looked_up(self, found: Sequence[Match], context: Context, view: CatalogView) -> Observed:
        """Puts whole entries in the place of those that search knows; gives what was observed of the tools' results."""
        observed: Observed = {}
        for item in found:
            if item.entry.kind == "tool":
                item.entry = await view.find(item.entry.name) or item.entry
                seen = await observed_output_schema(self._wiring, context, item.entry)
                if seen is not None:
                    observed[item.entry.name] = seen
            await asyncio.sleep(0)  # showing a tool resolves its schemas: other tasks get their turn between two
        return observed

    async def _entries(
        self, context: Context, view: CatalogView, kinds: Sequence[Kind] | None
    ) -> Sequence[CatalogEntry]:
        """What there is of these kinds for this caller."""
        tools = await view.entries() if kinds is None or "tool" in kinds else ()
        others: set[Kind] = {kind for kind in kinds or () if kind != "tool"}
        return (*tools, *await component_view(context, self._wiring.options).entries(others)) if others else tools


class _Inquiry:
    """One call over what its caller may use: from hits to an answer that leads on even where there are none."""

    def __init__(self, given: SearchArguments, entries: Sequence[CatalogEntry], wiring: Runtime) -> None:
        asked = [given.query] if isinstance(given.query, str) else given.query
        wanted = given.filter or SearchFilter()
        options = wiring.options
        self.queries = list(dict.fromkeys(query for query in asked if query.strip()))
        self.body: JsonObject = {"totalIndexed": len(entries)}
        self._entries = entries
        self._library = wiring.index
        self._names, self._apps, self._tags = given.exclude_tool_names or [], wanted.app_ids or [], wanted.tags or []
        self._things = " or ".join(dict.fromkeys(PLURALS[kind] for kind in wanted.kinds or ("tool",)))
        self._places = given.top_k or options.top_k
        self._usual = given.top_k is None
        self._criteria = Criteria(
            apps=None if wanted.app_ids is None else frozenset(wanted.app_ids),
            tags=None if wanted.tags is None else frozenset(wanted.tags),
            excluded=frozenset(self._names),
            min_score=options.embedding.similarity_threshold if given.min_score is None else given.min_score,
        )

    async def answer(self) -> list[Match]:
        """What is shown; `body` then has the rest of the answer."""
        warnings: list[str] = []
        if self._names or self._apps or self._tags:
            check = partial(unknown_name_warnings, self._entries, self._names, self._apps, self._tags)
            warnings += await self._aside(check, len(self._names))
        found: list[Match] = []
        if not self._entries:
            self.body["apps"] = []
            warnings.append(f"There are no {self._things} you can reach here.")
        elif not self.queries:
            found = await self._overview(warnings)
        else:
            found = await self._search(warnings)
        if warnings:
            self.body["warnings"] = warnings
        return found

    async def _search(self, warnings: list[str]) -> list[Match]:
        """The hits; where a query has none, what came near and what to try instead."""
        searched = await self._library.search(self._entries, self.queries)
        hits = list(zip(self.queries, searched.hits, strict=True))
        choose = partial(select, hits, self._criteria, self._places, self._usual)
        # One query is read no further than it is shown. Ten common words over thousands of tools, or a filter that
        # leaves few of them, have tens of thousands of hits: too many for the event loop.
        selection = choose() if len(hits) == 1 and not self._criteria.has_filter else await self._aside(choose)
        warnings += index_progress_warnings(searched.ready, searched.encoded, len(self._entries))
        if selection.without_place:
            warnings.append(no_place_warning(selection.without_place, self._places))
        await self._suggest(selection)
        if selection.matches:
            warnings += no_match_warnings(selection.unmatched, self._criteria.min_score, alone=False)
        else:
            left, apps = await self._aside(partial(self._remaining, selection.unmatched))
            if left and searched.ready:
                warnings += no_match_warnings(
                    selection.unmatched, self._criteria.min_score, alone=len(self.queries) == 1
                )
            await self._describe(left, apps, DEAD_END, warnings, selection.unmatched)
        return selection.matches

    async def _overview(self, warnings: list[str]) -> list[Match]:
        """The apps, and the most central of each in place of hits."""
        left, apps = await self._aside(self._remaining)
        central = await self._describe(left, apps, OVERVIEW, warnings)
        return [Match(entry) for entry in interleave_apps(apps, central, self._places)]

    async def _describe(
        self,
        left: Sequence[CatalogEntry],
        apps: Sequence[AppSize],
        room: OverviewSize,
        warnings: list[str],
        missed: Sequence[UnmatchedQuery] = (),
    ) -> dict[str, list[CatalogEntry]]:
        """Puts the apps into the answer: those of `left`, or all where nothing is. Gives what is central in `left`."""
        entries = left
        if not left:
            entries, apps = self._entries, await self._aside(partial(app_sizes, self._entries, missed))
            warnings.append(nothing_left_warning(missed, self._things, len(entries)))
        # An overview may show as many entries as there are places, each of another app.
        most = max(self._places, room.names_per_app(len(apps)))
        named = [app.app_id for app in apps[: max(self._places, room.apps)]]
        central = await self._library.representative_entries(entries, most, named)
        described, more = describe_apps(apps, central, room)
        self.body.update(described)
        warnings += more
        return central if left else {}

    async def _suggest(self, selection: Selection) -> None:
        """Puts what to search for instead into the answer, for queries without a hit or with weak ones only."""
        sure = {query for item in selection.matches if item.score >= WEAK_SCORE for query in item.queries}
        asked = [query for query in self.queries if query not in sure and query not in selection.without_place]
        # Reads descriptions: a few long ones are already too much for the event loop.
        if asked and (words := await self._aside(partial(suggest_searches, self._entries, asked), CHUNK)):
            self.body["suggestions"] = words

    def _remaining(self, missed: Sequence[UnmatchedQuery] = ()) -> tuple[Sequence[CatalogEntry], list[AppSize]]:
        """What the filter and the excluded names leave, and its apps."""
        left = self._entries
        if self._criteria.has_filter:
            left = [entry for entry in left if self._criteria.fits(entry)]
        return left, app_sizes(left, missed)

    async def _aside(self, work: Callable[[], T], more: int = 0) -> T:
        """What `work` gives; done in a thread where there are many entries (or `more` things to look at).

        Never in one of the threads in which tools run: a flood of searches would leave those none.
        """
        few = len(self._entries) + more <= CHUNK
        return work() if few else await anyio.to_thread.run_sync(work, limiter=search_threads())


def _documents(
    found: Sequence[Match], observed: Observed, detail: Detail, several: bool, kinds: bool
) -> list[JsonObject]:
    return [_document(item, observed.get(item.entry.name), detail, several, kinds) for item in found]


def _document(
    found: Match, observed: Mapping[str, object] | None, detail: Detail, several: bool, kinds: bool
) -> JsonObject:
    entry = found.entry
    body: JsonObject = {"name": entry.name}
    if kinds:
        body["kind"] = entry.kind
    body["appId"] = entry.app_id
    if detail in {"brief", "full"}:
        said = entry.description or entry.title or ""
        body["description"] = said if detail == "full" else brief_description(said)
        if entry.kind != "tool" and entry.description and entry.title:
            body["title"] = entry.title  # the name is a URI, which says little
    body["score"] = found.score
    if several:
        body["matchedQueries"] = [shorten_echo(query) for query in found.queries]
    if detail == "typescript":
        body["typescript"] = declaration(entry, observed=observed if entry.kind == "tool" else None, brief=True)
    if detail == "full":
        body["inputSchema"] = entry.input_schema
        body["outputSchema"] = entry.output_schema
        if observed is not None and entry.kind == "tool":
            body["observedOutput"] = observed
        body["annotations"] = entry.annotations
    return body


def brief_description(description: str) -> str:
    """The first paragraph of a description on one line, cut at a word with `…` where it is too long."""
    return shorten(description.strip().split("\n\n", 1)[0], BRIEF_CHARS)
