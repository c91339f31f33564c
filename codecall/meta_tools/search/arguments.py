"""The arguments of `codecall:search`: their models, and the schema that clients see."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from pydantic import BeforeValidator, Discriminator, Field, Tag

from codecall.catalog.entries import Kind
from codecall.meta_tools.base import WELL_FORMED, Arguments, JsonObject
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
_TEXTS: JsonObject = {"type": "array", "items": _TEXT}


def input_schema(options: PluginOptions) -> JsonObject:
    """The schema of the arguments; defaults are those of the plugin's options."""
    query: JsonObject = {"type": "string", "maxLength": MAX_QUERY_CHARS}
    return {
        "type": "object",
        "properties": {
            "query": {
                "anyOf": [query, {"type": "array", "items": query, "minItems": 1, "maxItems": MAX_QUERIES}],
                "description": "What tools should do",
            },
            "topK": {
                "type": "integer",
                "minimum": 1,
                "maximum": MAX_TOP_K,
                "default": options.top_k,
            },
            "filter": {
                "type": "object",
                "properties": {
                    "appIds": _TEXTS,
                    "tags": _TEXTS,
                    "kinds": {
                        "type": "array",
                        "items": {"type": "string", "enum": list(KINDS)},
                        "default": ["tool"],
                    },
                },
                "additionalProperties": False,
            },
            "groupBy": {"enum": ["app"]},
            "excludeToolNames": _TEXTS,
            "minScore": {
                "type": "number",
                "minimum": 0,
                "maximum": 1,
                "default": options.embedding.similarity_threshold,
            },
            "detail": {
                "type": "string",
                "enum": ["name", "brief", "full", "typescript"],
                "default": "brief",
                "description": "full adds the schemas",
            },
        },
        "required": ["query"],
        "additionalProperties": False,
    }


Detail = Literal["name", "brief", "full", "typescript"]
Query = Annotated[str, Field(max_length=MAX_QUERY_CHARS), WELL_FORMED]


_EMPTY_IS_NONE = BeforeValidator(lambda value: None if value == [] else value)
"""For lists that models fill with nothing where they mean that nothing is asked for."""


class SearchFilter(Arguments):
    """`filter`: an entry must be of one of the apps, carry one of the tags and be of one of the kinds, each if set. An
    empty list sets nothing."""

    app_ids: Annotated[list[str] | None, _EMPTY_IS_NONE] = None
    tags: Annotated[list[str] | None, _EMPTY_IS_NONE] = None
    kinds: Annotated[list[Kind] | None, _EMPTY_IS_NONE] = None


class SearchArguments(Arguments):
    """Arguments of `codecall:search`."""

    OTHER_NAMES = {"format": "detail"}  # noqa: RUF012 - a ClassVar of the base

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
    group_by: Literal["app"] | None = None
    exclude_tool_names: list[str] | None = None
    min_score: Annotated[float, Field(ge=0, le=1)] | None = None
    detail: Detail | None = None
