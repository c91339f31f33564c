"""`codecall:describe`: the whole truth about tools, by exact name."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Literal

import anyio.to_thread
from fastmcp.tools.base import ToolResult
from mcp_types import ToolAnnotations
from pydantic import AfterValidator, Field

from codecall.calls.names import MAX_NAME_CHARS
from codecall.catalog.entries import CatalogEntry
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
"""Most tools one call describes."""


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
        list[Annotated[str, Field(max_length=MAX_NAME_CHARS), SENDABLE]],
        Field(min_length=1, max_length=MAX_NAMES),
        AfterValidator(_unique),
    ]
    format: Literal["json"] | None = None


_INPUT: JsonObject = {
    "type": "object",
    "properties": {
        "toolNames": {
            "type": "array",
            "items": {"type": "string", "maxLength": MAX_NAME_CHARS},
            "minItems": 1,
            "maxItems": MAX_NAMES,
            "uniqueItems": True,
            "description": "Exact names of tools",
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
        """Describe the tools of those names that this caller and CodeCall may use; name the others."""
        given = read_arguments(DescribeArguments, self.name, arguments)
        _, view = self._view()
        found: list[CatalogEntry] = []
        missing: list[str] = []
        for name in given.tool_names:
            entry = None if is_meta_tool(name) else await view.find(name)
            if entry is None:
                missing.append(name)
            else:
                found.append(entry)
                await asyncio.sleep(0)  # showing a tool resolves its schemas: other tasks get their turn between two
        near = await view.near_many([name for name in missing if not is_meta_tool(name)])
        suggestions = {name: names for name, names in near.items() if names}
        # Making examples parses scripts and walks schemas: not on the event loop.
        tools = await anyio.to_thread.run_sync(_documents, found) if found else []
        body: JsonObject = {"tools": tools, "notFound": missing}
        if suggestions:
            body["suggestions"] = suggestions
        return answer_from_catalogue(body)


def _documents(entries: list[CatalogEntry]) -> list[JsonObject]:
    from codecall.catalog.examples import usage_examples  # makes and checks scripts: loaded when it is needed

    return [
        {
            "name": entry.name,
            "appId": entry.app_id,
            "description": entry.description,
            "inputSchema": entry.input_schema,
            "outputSchema": entry.output_schema,
            "annotations": entry.annotations,
            "usageExamples": [
                {"description": example.description, "code": example.code} for example in usage_examples(entry, limit=5)
            ],
        }
        for entry in entries
    ]
