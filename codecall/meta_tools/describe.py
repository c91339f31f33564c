"""`codecall:describe`: the whole truth about tools, by exact name; about resources, templates and prompts likewise.

`toolNames` takes every name that search gives: a URI, a URI template and a prompt's name as well as a tool's. What is
no tool says its `kind`; where several things have the same name all of them are given, each with its `kind`.
"""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Literal

import anyio.to_thread
from fastmcp.tools.base import ToolResult
from mcp_types import ToolAnnotations
from pydantic import AfterValidator, Field

from codecall.calls.names import MAX_URI_CHARS
from codecall.calls.unexpected import log_unexpected
from codecall.catalog.entries import CatalogEntry
from codecall.catalog.offers import KINDS, Offers, offers_of
from codecall.catalog.uris import Hidden
from codecall.catalog.view import CatalogView
from codecall.meta_tools.base import (
    SENDABLE,
    Arguments,
    JsonObject,
    MetaTool,
    Wiring,
    answer_from_catalogue,
    read_arguments,
)
from codecall.meta_tools.wording import describe_describe
from codecall.sandbox.agentscript.policy import is_meta_tool

MAX_NAMES = 50
"""Most names one call describes."""

MAX_SUGGESTIONS = 3
"""Most near names for one that does not exist."""


def _unique(names: list[str]) -> list[str]:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ValueError(f"each name may be given once; {name[:200]!r} is given twice")
        seen.add(name)
    return names


class DescribeArguments(Arguments):
    """Arguments of `codecall:describe`."""

    tool_names: Annotated[
        list[Annotated[str, Field(max_length=MAX_URI_CHARS), SENDABLE]],
        Field(min_length=1, max_length=MAX_NAMES),
        AfterValidator(_unique),
    ]
    format: Literal["json"] | None = None


_INPUT: JsonObject = {
    "type": "object",
    "properties": {
        "toolNames": {
            "type": "array",
            "items": {"type": "string", "maxLength": MAX_URI_CHARS},
            "minItems": 1,
            "maxItems": MAX_NAMES,
            "uniqueItems": True,
            "description": "Exact names of tools; URIs, URI templates and names of prompts",
        },
        "format": {"type": "string", "enum": ["json"], "default": "json"},
    },
    "required": ["toolNames"],
    "additionalProperties": False,
}
_TEXT: JsonObject = {"type": "string"}
_NAMES: JsonObject = {"type": "array", "items": _TEXT}
_HINT: JsonObject = {"type": "boolean"}
_OUTPUT: JsonObject = {
    "type": "object",
    "properties": {
        "tools": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "name": _TEXT,
                    "kind": {"enum": ["tool", *KINDS], "description": "Left out for a tool whose name is its alone"},
                    "title": _TEXT,
                    "appId": _TEXT,
                    "description": _TEXT,
                    "inputSchema": {"type": "object"},
                    "outputSchema": {"type": ["object", "null"]},
                    "annotations": {
                        "type": "object",
                        "properties": {
                            "readOnlyHint": _HINT,
                            "destructiveHint": _HINT,
                            "idempotentHint": _HINT,
                            "openWorldHint": _HINT,
                        },
                    },
                    "usageExamples": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "properties": {"description": _TEXT, "code": _TEXT},
                            "required": ["description", "code"],
                        },
                    },
                },
                "required": [
                    "name",
                    "appId",
                    "description",
                    "inputSchema",
                    "outputSchema",
                    "annotations",
                    "usageExamples",
                ],
            },
        },
        "notFound": _NAMES,
        "suggestions": {"type": "object", "additionalProperties": _NAMES},
    },
    "required": ["tools", "notFound"],
}


class DescribeTool(MetaTool):
    """Describes tools."""

    @classmethod
    def create(cls, wiring: Wiring) -> DescribeTool:
        """The tool under the advertised name."""
        return cls.build(
            wiring,
            verb="describe",
            title="Read tool schemas",
            description=describe_describe(wiring.options),
            parameters=_INPUT,
            output_schema=_OUTPUT,
            annotations=ToolAnnotations(
                read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
            ),
        )

    async def respond(self, arguments: dict[str, Any]) -> ToolResult:
        """Describe what of those names this caller and CodeCall may use; name the others."""
        given = read_arguments(DescribeArguments, self.name, arguments)
        context, view = self._view()
        offers = offers_of(context, self._wiring.options)
        found: list[list[CatalogEntry]] = []
        missing: list[str] = []
        for name in given.tool_names:
            entries = [] if is_meta_tool(name) else await _all_named(name, view, offers)
            if entries:
                found.append(entries)
                await asyncio.sleep(0)  # showing a tool resolves its schemas: other tasks get their turn between two
            else:
                missing.append(name)
        suggestions = await _suggestions([name for name in missing if not is_meta_tool(name)], view, offers)
        # Making examples parses scripts and walks schemas: not on the event loop.
        tools = await anyio.to_thread.run_sync(_documents, found) if found else []
        body: JsonObject = {"tools": tools, "notFound": missing}
        if suggestions:
            body["suggestions"] = suggestions
        return answer_from_catalogue(body)


async def _all_named(name: str, view: CatalogView, offers: Offers) -> list[CatalogEntry]:
    """Everything of that name: the tool first, then as in `KINDS`."""
    tool = await view.find(name)
    found = [] if tool is None else [tool]
    try:
        others = [await offers.find(kind, name) for kind in KINDS]
    except Exception as failure:
        if tool is None:
            raise
        # The tool has been found: what else there may be of its name is not worth failing for.
        log_unexpected(f"looking for more than the tool {name!r}", failure)
        return found
    return found + [entry for entry in others if entry is not None and not isinstance(entry, Hidden)]


async def _suggestions(names: list[str], view: CatalogView, offers: Offers) -> dict[str, list[str]]:
    near = await view.near_many(names)
    suggestions: dict[str, list[str]] = {}
    for name in names:
        # A URI is compared with URIs first.
        tools, others = near[name], await offers.near(name)
        both = [*others, *tools] if "://" in name else [*tools, *others]
        if both:
            suggestions[name] = list(dict.fromkeys(both))[:MAX_SUGGESTIONS]
    return suggestions


def _documents(found: list[list[CatalogEntry]]) -> list[JsonObject]:
    return [_document(entry, alone=len(entries) == 1) for entries in found for entry in entries]


def _document(entry: CatalogEntry, *, alone: bool) -> JsonObject:
    # They make and check scripts: loaded when they are needed.
    from codecall.catalog.examples import usage_examples
    from codecall.catalog.offer_examples import offer_examples

    is_tool = entry.kind == "tool"
    document: JsonObject = {"name": entry.name}
    if not (is_tool and alone):
        document["kind"] = entry.kind
    if entry.title is not None and not is_tool:
        document["title"] = entry.title
    examples = (usage_examples if is_tool else offer_examples)(entry, limit=5)
    return document | {
        "appId": entry.app_id,
        "description": entry.description,
        "inputSchema": entry.input_schema,
        "outputSchema": entry.output_schema,
        "annotations": entry.annotations,
        "usageExamples": [{"description": example.description, "code": example.code} for example in examples],
    }
