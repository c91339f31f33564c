"""Catalog entries, as CodeCall shows them, and the metadata that authors of tools give for them.

Metadata stands in a tool's `meta={"codecall": {…}}`, written with `tool_metadata(…)`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from types import MappingProxyType
from typing import Annotated, Final, Literal, cast

from pydantic import ConfigDict, Field

from codecall.errors import CallKind, OptionsError
from codecall.option_base import Options
from codecall.wording import nearest

JsonObject = dict[str, object]

Kind = Literal["tool", "resource", "template", "prompt"]

META_KEY = "codecall"
"""The key of a tool's `meta` that holds its settings for CodeCall."""

COMPOSITE_APP: Final = "composite"
"""The app of composite tools."""

logger = logging.getLogger("codecall")

ShortText = Annotated[str, Field(min_length=1, max_length=200)]


OTHER_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "execute_tool_script": "codecall:execute",
        "find_tool": "codecall:search",
        "call_tool": "codecall:invoke",
        "listToolFiles": "codecall:search",
        "readToolFile": "codecall:describe",
        "getToolDocs": "codecall:describe",
        "executeToolCode": "codecall:execute",
    }
)
"""The meta-tools of other names, and which of the four each is: rules for that one hold for it as well."""


@dataclass(frozen=True, slots=True)
class Example:
    """A usage example of a tool."""

    description: str
    """A one-line description of what the script does."""
    code: str
    """An AgentScript program."""


@dataclass(frozen=True, slots=True, weakref_slot=True)
class CatalogEntry:
    """A tool as CodeCall's meta-tools show it; or a resource, a resource template or a prompt."""

    name: str
    app_id: str
    description: str
    input_schema: JsonObject
    output_schema: JsonObject | None = None
    """The schema of the value a script gets: without FastMCP's `{"result": x}` wrapper, which the value loses too."""
    annotations: JsonObject = field(default_factory=dict[str, object])
    tags: frozenset[str] = frozenset()
    examples: tuple[Example, ...] = ()
    """The author's own examples, from the tool's metadata."""
    title: str | None = None
    version: str | None = None
    kind: Kind = "tool"
    """The kind of component. The `name` of a resource is its URI, that of a template its URI template; the
    `input_schema` of a template or a prompt describes its arguments."""
    owner: str | None = None
    """The server that the component is of, whatever its metadata says; see `ComponentOrigin.owner`. None: its app."""
    about: str = ""
    """The description of its server; for search alone, see `ComponentOrigin.about`."""

    @property
    def server(self) -> str:
        """The server that rules about servers mean: nothing that a server says of itself decides it. Empty for a remote
        one that has no name here; only where nothing is known of servers it is the app."""
        return self.app_id if self.owner is None else self.owner


class AuthorExample(Options):
    """A usage example that the author of a tool gives."""

    model_config = ConfigDict(strict=True)

    description: Annotated[str, Field(min_length=1, max_length=1_000)]
    """A one-line description of what the script does."""
    code: Annotated[str, Field(min_length=1, max_length=65_536)]
    """An AgentScript program."""


class ToolMetadata(Options):
    """The settings of one tool; None stands for what the tool leaves to the default of the mode."""

    model_config = ConfigDict(strict=True)

    enabled_in_codecall: bool | None = Field(default=None, alias="enabledInCodeCall")
    """Whether scripts and `codecall:invoke` may use the tool."""
    visible_in_list_tools: bool | None = None
    """Whether clients see the tool in `tools/list`."""
    app_id: ShortText | None = None
    """The app the tool belongs to, instead of the namespace or server it comes from."""
    tags: list[ShortText] = Field(default_factory=list[str], max_length=100)
    """Words for `filter.tags` and for search, besides the tool's own tags."""
    examples: list[AuthorExample] = Field(default_factory=list[AuthorExample], max_length=20)
    """Usage examples that `codecall:describe` gives first."""
    meta_tool: bool = False
    """Set by CodeCall on its own tools, so that one CodeCall server mounted on another stays out of its scripts."""


NO_METADATA = ToolMetadata()
"""The settings of a tool without metadata."""

INVALID_METADATA = ToolMetadata(enabledInCodeCall=False)
"""The settings of a tool whose metadata is not valid: CodeCall does not use it."""


def tool_metadata(
    *,
    enabled_in_codecall: bool | None = None,
    visible_in_list_tools: bool | None = None,
    app_id: str | None = None,
    tags: Iterable[str] = (),
    examples: Iterable[Mapping[str, str]] = (),
    **wire_spelling: object,
) -> dict[str, object]:
    """Builds the `meta` of a tool: `@mcp.tool(meta=tool_metadata(app_id="crm"))`.

    Args:
        enabled_in_codecall: whether scripts and `codecall:invoke` may use the tool; None leaves it to the mode.
        visible_in_list_tools: whether clients see the tool in `tools/list`; None leaves it to the mode.
        app_id: the app it belongs to; None takes the namespace of its server, else the server's name.
        tags: up to 100 words for search, besides the tool's own tags.
        examples: up to 20 of `{"description": …, "code": …}`, the code being AgentScript.
        **wire_spelling: the same in their wire spelling (`enabledInCodeCall`); anything else is refused.

    Raises:
        OptionsError: a value of the wrong type or size; the message names the field.
    """
    if isinstance(tags, str):
        raise OptionsError(f"tool_metadata.tags: a list of words is needed, got {tags!r}")
    fields: dict[str, object] = {
        "enabled_in_codecall": enabled_in_codecall,
        "visible_in_list_tools": visible_in_list_tools,
        "app_id": app_id,
        "tags": list(tags),
        "examples": [dict(example) for example in examples],
    }
    # What is not given must not stand beside the same in its wire spelling.
    criteria = {name: value for name, value in fields.items() if value is not None and value != []}
    settings = ToolMetadata.read({**criteria, **wire_spelling}, where="tool_metadata")
    return {META_KEY: settings.model_dump(by_alias=True, exclude_defaults=True)}


def read_metadata(tool_name: str, meta: Mapping[str, object] | None, warned: set[str]) -> ToolMetadata:
    """Reads the settings from a tool's `meta`; returns `INVALID_METADATA` and logs a warning where they are not valid.

    Args:
        tool_name: the tool.
        meta: its `meta`.
        warned: names that have been warned about, each once; the set stays below 10,000.
    """
    raw = meta.get(META_KEY) if meta else None
    if raw is None:
        if meta and tool_name not in warned and len(warned) < 10_000:
            for key in islice(meta, 20):
                if 6 <= len(key) <= 11 and nearest(META_KEY, [key.casefold()], min_similarity=0.8):
                    warned.add(tool_name)
                    logger.warning("Tool %r: meta key %r is not read; did you mean %r?", tool_name, key, META_KEY)
        return NO_METADATA
    try:
        if not isinstance(raw, Mapping):
            raise OptionsError(f"meta.{META_KEY}: an object is needed, got {type(raw).__name__}")  # noqa: TRY301
        return ToolMetadata.read(cast("Mapping[str, object]", raw), where=f"meta.{META_KEY}")
    except OptionsError as problem:
        if tool_name not in warned and len(warned) < 10_000:
            warned.add(tool_name)
            logger.warning("Tool %r is kept out of CodeCall, its metadata is not valid: %s", tool_name, problem.message)
        return INVALID_METADATA


def call_kind(entry: CatalogEntry) -> CallKind:
    """What a script asks for with this entry: what comes of a template is a resource to it."""
    return "resource" if entry.kind == "template" else entry.kind


def entry_label(entry: CatalogEntry) -> str:
    """How a message names it: `Tool 'users:list'`."""
    return f"{call_kind(entry).capitalize()} '{entry.name}'"
