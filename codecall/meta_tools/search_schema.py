"""The JSON Schemas of `codecall:search`."""

from __future__ import annotations

from typing import Any, get_args

from codecall.catalog.entries import Kind
from codecall.options import PluginOptions

JsonObject = dict[str, Any]

MAX_QUERY = 1_000
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
    query: JsonObject = {"type": "string", "maxLength": MAX_QUERY}
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


OUTPUT: JsonObject = {
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
