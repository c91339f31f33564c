"""`codecall:search`: finds the tools for a task, or gives an overview of what the server offers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Any, TypeVar, get_args

import anyio.to_thread
from fastmcp.server.context import Context
from fastmcp.tools.base import ToolResult
from mcp_types import ToolAnnotations
from pydantic import Discriminator, Field, Tag

from codecall.catalog.components import component_view
from codecall.catalog.entries import CatalogEntry, Kind
from codecall.catalog.search.index import search_threads
from codecall.catalog.view import CatalogView
from codecall.concurrency import CHUNK
from codecall.meta_tools.base import (
    WELL_FORMED,
    Arguments,
    JsonObject,
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
    Detail,
    Match,
    ObservedSchemas,
    OverviewSize,
    Selection,
    UnmatchedQuery,
    app_sizes,
    describe_apps,
    index_progress_warnings,
    interleave_apps,
    match_documents,
    no_match_warnings,
    no_place_warning,
    nothing_left_warning,
    select,
    suggest_searches,
    unknown_name_warnings,
)
from codecall.options import PluginOptions

MAX_QUERY_CHARS = 1_000
"""Longest query, in characters. Source of this number and the next two: the contract, section 2."""
MAX_QUERIES = 10
"""Most queries of one call."""
MAX_TOP_K = 50
"""Most hits of one call."""

KINDS: tuple[Kind, ...] = get_args(Kind)
"""The kinds a search can look for."""

_TEXT: JsonObject = {"type": "string"}
_COUNT: JsonObject = {"type": "integer", "minimum": 0}
_TEXTS: JsonObject = {"type": "array", "items": _TEXT}


def input_schema(options: PluginOptions) -> JsonObject:
    """The schema of the arguments; defaults are those of the plugin's options."""
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
"""The answer: `apps` comes with an overview and wherever nothing matches, `suggestions` with queries nothing fits,
`matchedQueries` with several queries, `kind` with `filter.kinds`, the schemas with detail `full`, `typescript` with
detail `typescript`."""


WEAK_SCORE = 0.4
"""Queries whose best hit scores less get suggestions too. Plain requests score above:
`tests/catalog/search/test_lexical.py`."""

Query = Annotated[str, Field(max_length=MAX_QUERY_CHARS), WELL_FORMED]

T = TypeVar("T")


class SearchFilter(Arguments):
    """`filter`: an entry must be of one of the apps, carry one of the tags and be of one of the kinds, each if set."""

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
    def create(cls, runtime: Runtime) -> SearchTool:
        """Create the tool under the advertised name."""
        return cls.build(
            runtime,
            verb="search",
            title="Search tools",
            description=describe_search(runtime.options),
            parameters=input_schema(runtime.options),
            output_schema=OUTPUT_SCHEMA,
            annotations=ToolAnnotations(
                read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
            ),
        )

    async def respond(self, arguments: dict[str, Any]) -> ToolResult:
        """Find what this caller may use and fits the queries best; without a query, give an overview."""
        parsed = parse_arguments(SearchArguments, self.name, arguments)
        context, view = self._view()
        kinds = parsed.filter.kinds if parsed.filter else None
        request = _SearchRequest(parsed, await self._entries(context, view, kinds), self._runtime)
        matches = await request.run()
        several = isinstance(parsed.query, list) and len(parsed.query) > 1 and bool(request.queries)
        detail = parsed.detail or "brief"
        observed = await self._load_entries(matches, context, view) if detail in {"full", "typescript"} else {}
        render = partial(match_documents, matches, observed, detail, several, kinds is not None)
        # Reads schemas, which may be large.
        tools = await anyio.to_thread.run_sync(render, limiter=search_threads()) if detail == "typescript" else render()
        return tool_result_from_catalog({"tools": tools, **request.body})

    async def _entries(
        self, context: Context, view: CatalogView, kinds: Sequence[Kind] | None
    ) -> Sequence[CatalogEntry]:
        """Everything of these kinds that this caller may use."""
        tools = await view.entries() if kinds is None or "tool" in kinds else ()
        others: set[Kind] = {kind for kind in kinds or () if kind != "tool"}
        return (*tools, *await component_view(context, self._runtime.options).entries(others)) if others else tools

    async def _load_entries(self, matches: Sequence[Match], context: Context, view: CatalogView) -> ObservedSchemas:
        """Replace the index's entries by complete ones; returns the observed output schemas of the tools."""
        observed: ObservedSchemas = {}
        for match in matches:
            if match.entry.kind == "tool":
                match.entry = await view.find(match.entry.name) or match.entry
                schema = await observed_output_schema(self._runtime, context, match.entry)
                if schema is not None:
                    observed[match.entry.name] = schema
            await asyncio.sleep(0)  # showing a tool resolves its schemas: other tasks get their turn between two
        return observed


class _SearchRequest:
    """One call of the tool: it finds the matches, and writes the rest of the answer into `body`.

    Where there are no matches, the answer says what there is and what to try instead.
    """

    def __init__(self, arguments: SearchArguments, entries: Sequence[CatalogEntry], runtime: Runtime) -> None:
        queries = [arguments.query] if isinstance(arguments.query, str) else arguments.query
        filters = arguments.filter or SearchFilter()
        options = runtime.options
        self.queries = list(dict.fromkeys(query for query in queries if query.strip()))
        self.body: JsonObject = {"totalIndexed": len(entries)}
        self._entries = entries
        self._index = runtime.index
        self._excluded = arguments.exclude_tool_names or []
        self._apps, self._tags = filters.app_ids or [], filters.tags or []
        self._kinds = " or ".join(dict.fromkeys(PLURALS[kind] for kind in filters.kinds or ("tool",)))
        self._places = arguments.top_k or options.top_k
        self._default_places = arguments.top_k is None
        self._criteria = Criteria(
            apps=None if filters.app_ids is None else frozenset(filters.app_ids),
            tags=None if filters.tags is None else frozenset(filters.tags),
            excluded=frozenset(self._excluded),
            min_score=options.embedding.similarity_threshold if arguments.min_score is None else arguments.min_score,
        )

    async def run(self) -> list[Match]:
        """Return what the answer shows; `body` then has the rest of the answer."""
        warnings: list[str] = []
        if self._excluded or self._apps or self._tags:
            check = partial(unknown_name_warnings, self._entries, self._excluded, self._apps, self._tags)
            warnings += await self._run_in_thread(check, len(self._excluded))
        matches: list[Match] = []
        if not self._entries:
            self.body["apps"] = []
            warnings.append(f"There are no {self._kinds} you can reach here.")
        elif not self.queries:
            matches = await self._overview(warnings)
        else:
            matches = await self._search(warnings)
        if warnings:
            self.body["warnings"] = warnings
        return matches

    async def _overview(self, warnings: list[str]) -> list[Match]:
        """Put the apps into the answer; the most central entries of each stand in place of hits."""
        entries, apps = await self._run_in_thread(self._filtered)
        central = await self._describe_apps(entries, apps, OVERVIEW, warnings)
        return [Match(entry) for entry in interleave_apps(apps, central, self._places)]

    async def _search(self, warnings: list[str]) -> list[Match]:
        """Return the hits; where a query has none, the answer says what is nearest and what to try instead."""
        results = await self._index.search(self._entries, self.queries)
        hits = list(zip(self.queries, results.hits, strict=True))
        choose = partial(select, hits, self._criteria, self._places, self._default_places)
        # One query is read no further than it is shown. Ten common words over thousands of tools, or a filter that
        # leaves few of them, have tens of thousands of hits: too many for the event loop.
        in_loop = len(hits) == 1 and not self._criteria.has_filter
        selection = choose() if in_loop else await self._run_in_thread(choose)
        warnings += index_progress_warnings(results.ready, results.encoded, len(self._entries))
        if selection.without_place:
            warnings.append(no_place_warning(selection.without_place, self._places))
        await self._suggest(selection)
        unmatched, min_score = selection.unmatched, self._criteria.min_score
        if selection.matches:
            warnings += no_match_warnings(unmatched, min_score, alone=False)
        else:
            entries, apps = await self._run_in_thread(partial(self._filtered, unmatched))
            if entries and results.ready:
                warnings += no_match_warnings(unmatched, min_score, alone=len(self.queries) == 1)
            await self._describe_apps(entries, apps, DEAD_END, warnings, unmatched)
        return selection.matches

    async def _describe_apps(
        self,
        filtered: Sequence[CatalogEntry],
        apps: Sequence[AppSize],
        size: OverviewSize,
        warnings: list[str],
        unmatched: Sequence[UnmatchedQuery] = (),
    ) -> dict[str, list[CatalogEntry]]:
        """Put the apps of `filtered` into the answer, or all apps where the filter leaves nothing.

        Returns the central entries of each app, of those in `filtered`.
        """
        entries = filtered
        if not filtered:
            entries, apps = self._entries, await self._run_in_thread(partial(app_sizes, self._entries, unmatched))
            warnings.append(nothing_left_warning(unmatched, self._kinds, len(entries)))
        # An overview may show as many entries as there are places, each of another app.
        per_app = max(self._places, size.names_per_app(len(apps)))
        app_ids = [app.app_id for app in apps[: max(self._places, size.apps)]]
        central = await self._index.representative_entries(entries, per_app, app_ids)
        described, size_warnings = describe_apps(apps, central, size)
        self.body.update(described)
        warnings += size_warnings
        return central if filtered else {}

    async def _suggest(self, selection: Selection) -> None:
        """Put other words to search for into the answer, for queries without a hit or with weak ones only."""
        confident = {query for match in selection.matches if match.score >= WEAK_SCORE for query in match.queries}
        weak = [query for query in self.queries if query not in confident and query not in selection.without_place]
        # Reads descriptions: a few long ones are already too much for the event loop.
        if weak and (words := await self._run_in_thread(partial(suggest_searches, self._entries, weak), CHUNK)):
            self.body["suggestions"] = words

    def _filtered(self, unmatched: Sequence[UnmatchedQuery] = ()) -> tuple[Sequence[CatalogEntry], list[AppSize]]:
        """The entries that the filter and the excluded names leave, and their apps."""
        entries = self._entries
        if self._criteria.has_filter:
            entries = [entry for entry in entries if self._criteria.fits(entry)]
        return entries, app_sizes(entries, unmatched)

    async def _run_in_thread(self, function: Callable[[], T], more: int = 0) -> T:
        """Call `function`; in a thread where there are many entries (or `more` things to look at).

        Never in one of the threads in which tools run: a flood of searches would leave those none.
        """
        few = len(self._entries) + more <= CHUNK
        return function() if few else await anyio.to_thread.run_sync(function, limiter=search_threads())
