"""`codecall:search`: finds the tools for a task, or gives an overview of what the server offers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio.to_thread
from fastmcp.server.context import Context
from fastmcp.tools.base import ToolResult
from mcp_types import ToolAnnotations

from codecall.catalog.components import COMPONENT_KINDS, component_view
from codecall.catalog.entries import CatalogEntry, Kind
from codecall.catalog.search.threads import search_threads
from codecall.catalog.view import CatalogView
from codecall.meta_tools.base import (
    JsonObject,
    MetaTool,
    Runtime,
    observed_output_schema,
    parse_arguments,
    tool_result_from_catalog,
)
from codecall.meta_tools.descriptions import describe_search
from codecall.meta_tools.search.arguments import KINDS, SearchArguments, input_schema
from codecall.meta_tools.starlark.script import SCRIPT_ENTRY
from codecall.meta_tools.starlark.terms import add_call_forms

if TYPE_CHECKING:
    from codecall.extraction.ranking import ModelRanking
    from codecall.meta_tools.search.results import ObservedSchemas
    from codecall.meta_tools.search.selection import Match

_TEXT: JsonObject = {"type": "string"}
_COUNT: JsonObject = {"type": "integer", "minimum": 0}
_TEXTS: JsonObject = {"type": "array", "items": _TEXT}


def _hit(**more: JsonObject) -> JsonObject:
    """The schema of a hit, with required keys besides those that every hit has."""
    return {
        "type": "object",
        "properties": {
            "name": _TEXT,
            "kind": {"enum": list(KINDS)},
            **more,
            "title": _TEXT,
            "description": _TEXT,
            "score": {"type": "number", "minimum": 0, "maximum": 1},
            "matchedQueries": _TEXTS,
            "inputSchema": {"type": "object"},
            "outputSchema": {"type": ["object", "null"]},
            "observedOutput": {"type": "object", "description": "Seen, not declared"},
            "annotations": {"type": "object"},
            "typescript": _TEXT,
            "starlark": _TEXT,
        },
        "required": ["name", *more, "score"],
    }


OUTPUT_SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "types": {**_TEXT, "description": "What the declarations of several tools share"},
        "tools": {"type": "array", "items": _hit(appId=_TEXT)},
        "groups": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "appId": _TEXT,
                    "tools": {"type": "array", "items": _hit()},
                },
                "required": ["appId", "tools"],
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
    "required": ["totalIndexed"],
    "anyOf": [{"required": ["tools"]}, {"required": ["groups"]}],
}
"""The answer: `groups` comes in place of `tools` with `groupBy`, without the `appId` of each hit; `apps` comes with an
overview and wherever nothing matches, `suggestions` with queries nothing fits, `matchedQueries`, those that an entry
fits best, with several queries, `kind` with `filter.kinds`, the schemas with detail `full`, `typescript` and `types`
with detail `typescript`, `starlark`, how a script calls it, in `find_tool`."""


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
        index = await self._runtime.index.get()
        from codecall.meta_tools.search.request import SearchRequest  # loaded with the index
        from codecall.meta_tools.search.results import group_by_app, match_documents

        entries = await self._entries(context, view, kinds)
        if self._own_name is not None and (kinds is None or "tool" in kinds):  # `find_tool`: it finds scripts as well
            entries = (*entries, SCRIPT_ENTRY)
        request = SearchRequest(
            parsed,
            entries,
            index,
            self._runtime.options,
            self._ranking(context),
            unlisted=view.unlisted(),
            list_others=partial(self._entries, context, view, COMPONENT_KINDS) if kinds is None else None,
        )
        matches = await request.run()
        several = isinstance(parsed.query, list) and len(parsed.query) > 1 and bool(request.queries)
        detail = parsed.detail or "brief"
        observed = await self._load_entries(matches, context, view) if detail in {"full", "typescript"} else {}
        render = partial(match_documents, matches, observed, detail, several, kinds is not None)
        # Reads schemas, which may be large.
        in_thread = detail in {"full", "typescript"}
        found = await anyio.to_thread.run_sync(render, limiter=search_threads()) if in_thread else render()
        if self._own_name is not None:
            await add_call_forms(found["tools"], view)
        if parsed.group_by == "app":
            found = group_by_app(found)
        warnings = [*found.pop("warnings", ()), *request.body.pop("warnings", ())]
        return tool_result_from_catalog({**found, **request.body, **({"warnings": warnings} if warnings else {})})

    @property
    def asks_client(self) -> bool:
        """See `MetaTool.asks_client`."""
        return self._runtime.options.embedding.strategy == "model"

    def _ranking(self, context: Context) -> ModelRanking | None:
        """What has the client's model choose; None where words, or a model of this server, do."""
        if not self.asks_client:
            return None
        from codecall.extraction.ranking import ModelRanking

        approvals = self._runtime.approvals
        return ModelRanking(approvals.model(context) if approvals is not None else None)

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
