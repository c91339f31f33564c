"""`codecall:describe`: returns all that is known of tools, resources, templates and prompts, by exact name.

`toolNames` takes every name that search returns: a URI, a URI template and a prompt's name as well as a tool's. Each
component that is not a tool has its `kind` in the answer; where several have the same name, all of them are in the
answer, each with its `kind`.

With format `typescript` a declaration stands for description and schemas, annotations are there if there are any, and
of the usage examples only the author's own: the declaration says already how to call a tool, which is what the
generated ones show.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal, NamedTuple

import anyio.to_thread
from fastmcp.tools.base import ToolResult
from mcp_types import ToolAnnotations
from pydantic import AfterValidator, Field

from codecall.catalog.components import COMPONENT_KINDS, ComponentView, component_view
from codecall.catalog.entries import CatalogEntry, Example
from codecall.catalog.uris import HiddenComponent
from codecall.catalog.view import CatalogView
from codecall.fastmcp_errors import log_unexpected
from codecall.globs import MAX_URI_CHARS
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
from codecall.meta_tools.descriptions import describe_describe
from codecall.meta_tools.starlark.terms import add_call_forms
from codecall.sandbox.agentscript.policy import is_meta_tool

Format = Literal["json", "typescript"]

MAX_NAMES = 50
"""Most names one call describes."""

MAX_EXAMPLES = 5
"""Most usage examples of one tool."""

MAX_SUGGESTIONS = 3
"""Most near names for one that does not exist."""


_URI_MARK: Final = re.compile("[:{]")
"""Every URI and URI template has one of these: a scheme ends in `:`, a variable begins with `{`."""


def _unique(names: list[str]) -> list[str]:
    if len(set(names)) < len(names):
        raise ValueError("each name may be given once")
    return names


class DescribeArguments(Arguments):
    """Arguments of `codecall:describe`."""

    OTHER_NAMES = {"detail": "format"}  # noqa: RUF012 - a ClassVar of the base

    tool_names: Annotated[
        list[Annotated[str, Field(max_length=MAX_URI_CHARS), WELL_FORMED]],
        Field(min_length=1, max_length=MAX_NAMES),
        AfterValidator(_unique),
    ]
    format: Format | None = None


_INPUT: JsonObject = {
    "type": "object",
    "properties": {
        "toolNames": {
            "type": "array",
            "items": {"type": "string", "maxLength": MAX_URI_CHARS},
            "minItems": 1,
            "maxItems": MAX_NAMES,
            "uniqueItems": True,
            "description": "Exact names, URIs or URI templates",
        },
        "format": {
            "type": "string",
            "enum": ["json", "typescript"],
            "default": "json",
            "description": "typescript: short declarations in place of schemas",
        },
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
        "types": {**_TEXT, "description": "What the declarations of several tools share"},
        "tools": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "name": _TEXT,
                    "kind": {
                        "enum": ["tool", *COMPONENT_KINDS],
                        "description": "Left out for a tool whose name is its alone",
                    },
                    "title": _TEXT,
                    "appId": _TEXT,
                    "description": _TEXT,
                    "inputSchema": {"type": "object"},
                    "outputSchema": {"type": ["object", "null"]},
                    "observedOutput": {"type": "object", "description": "Seen, not declared"},
                    "typescript": _TEXT,
                    "starlark": {**_TEXT, "description": "How a Starlark script calls it"},
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
                "required": ["name", "appId"],
            },
        },
        "notFound": _NAMES,
        "suggestions": {"type": "object", "additionalProperties": _NAMES},
        "warnings": _NAMES,
    },
    "required": ["tools", "notFound"],
}


class DescribeTool(MetaTool):
    """Describes tools, resources, templates and prompts by name."""

    @classmethod
    def create(cls, runtime: Runtime) -> DescribeTool:
        """Create the tool under the advertised name."""
        return cls.build(
            runtime,
            verb="describe",
            title="Read tool schemas",
            description=describe_describe(runtime.options),
            parameters=_INPUT,
            output_schema=_OUTPUT,
            annotations=ToolAnnotations(
                read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
            ),
        )

    async def respond(self, arguments: dict[str, Any]) -> ToolResult:
        """Describe those of the names that this caller may use; list the others as not found."""
        parsed = parse_arguments(DescribeArguments, self.name, arguments)
        context, view = self._view()
        components = component_view(context, self._runtime.options)
        described: list[_DescribedEntry] = []
        missing: list[str] = []
        for name in parsed.tool_names:
            entries = [] if is_meta_tool(name) else await _find_all(name, view, components)
            for entry in entries:
                observed = await observed_output_schema(self._runtime, context, entry)
                described.append(_DescribedEntry(entry, len(entries) == 1, observed))
                await asyncio.sleep(0)  # showing a tool resolves its schemas: other tasks get their turn between two
            if not entries:
                missing.append(name)
        suggestions = await _suggestions([name for name in missing if not is_meta_tool(name)], view, components)
        # Generating examples parses scripts and walks schemas: not on the event loop.
        found = await anyio.to_thread.run_sync(_documents, described, parsed.format or "json") if described else None
        body: JsonObject = {**(found or {"tools": []}), "notFound": missing}
        if self._runtime.options.runs_starlark:
            await add_call_forms(body["tools"], view)
        if suggestions:
            body["suggestions"] = suggestions
        return tool_result_from_catalog(body)


async def _find_all(name: str, view: CatalogView, components: ComponentView) -> list[CatalogEntry]:
    """Find every entry of that name: the tool first, then in the order of `COMPONENT_KINDS`."""
    tool = await view.find(name)
    tools = [] if tool is None else [tool]
    try:
        others = [
            await components.find(kind, name) for kind in COMPONENT_KINDS if kind == "prompt" or _URI_MARK.search(name)
        ]
    except Exception as failure:
        if tool is None:
            raise
        # The tool has been found: what else there may be of its name is not worth failing for.
        log_unexpected(f"looking for more than the tool {name!r}", failure)
        return tools
    return tools + [entry for entry in others if entry is not None and not isinstance(entry, HiddenComponent)]


async def _suggestions(names: list[str], view: CatalogView, components: ComponentView) -> dict[str, list[str]]:
    near = await view.suggest_many(names)
    suggestions: dict[str, list[str]] = {}
    for name in names:
        # A URI is compared with URIs first.
        tools, others = near[name], await components.suggest(name)
        ordered = [*others, *tools] if "://" in name else [*tools, *others]
        if ordered:
            suggestions[name] = list(dict.fromkeys(ordered))[:MAX_SUGGESTIONS]
    return suggestions


class _DescribedEntry(NamedTuple):
    """An entry that has one of the names."""

    entry: CatalogEntry
    alone: bool
    """Whether nothing else has that name."""
    observed: Mapping[str, object] | None
    """Output schema learned from its results."""


def _documents(described: list[_DescribedEntry], form: Format) -> JsonObject:
    """`tools` of an answer, `types` where their declarations share some, and `warnings` where there is not room for
    all."""
    if form == "json":
        from codecall.meta_tools.definitions import limit_definitions  # loaded when it is asked for

        documents = [_schemas(item) for item in described]
        warnings = limit_definitions(documents)
        return {"tools": documents, "warnings": warnings} if warnings else {"tools": documents}
    # Writes code: loaded when it is asked for.
    from codecall.catalog.typescript.declarations import declarations

    types, texts = declarations([(item.entry, item.observed) for item in described])
    documents = [_declared(item, text) for item, text in zip(described, texts, strict=True)]
    return {"types": types, "tools": documents} if types else {"tools": documents}


def _heading(described: _DescribedEntry) -> JsonObject:
    entry = described.entry
    is_tool = entry.kind == "tool"
    document: JsonObject = {"name": entry.name}
    if not (is_tool and described.alone):
        document["kind"] = entry.kind
    if entry.title is not None and not is_tool:
        document["title"] = entry.title
    document["appId"] = entry.app_id
    return document


def _declared(described: _DescribedEntry, text: str) -> JsonObject:
    entry = described.entry
    document = {**_heading(described), "typescript": text}
    if entry.annotations:
        document["annotations"] = entry.annotations
    if entry.examples:
        document["usageExamples"] = _example_documents(entry.examples[:MAX_EXAMPLES])
    return document


def _schemas(described: _DescribedEntry) -> JsonObject:
    # Writes code: loaded when it is asked for.
    from codecall.catalog.examples.generate import component_examples, usage_examples

    entry = described.entry
    document = _heading(described) | {
        "description": entry.description,
        "inputSchema": entry.input_schema,
        "outputSchema": entry.output_schema,
    }
    if described.observed is not None:
        document["observedOutput"] = described.observed
    examples = (
        usage_examples(entry, described.observed, limit=MAX_EXAMPLES)
        if entry.kind == "tool"
        else component_examples(entry, limit=MAX_EXAMPLES)
    )
    return document | {"annotations": entry.annotations, "usageExamples": _example_documents(examples)}


def _example_documents(examples: Sequence[Example]) -> list[JsonObject]:
    return [{"description": example.description, "code": example.code} for example in examples]
