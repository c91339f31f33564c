"""Which tools CodeCall shows, and which it may use: the mode, `app_ids`, `include_tools` and the reserved names.

Authorization is not decided here: what arrives is what FastMCP lists for the caller, and nothing is ever added to it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Protocol, TypeVar

from codecall.catalog.entries import META_KEY, ToolMetadata, read_metadata
from codecall.options import Mode, PluginOptions

logger = logging.getLogger("codecall")

_RESERVED = ("system:", "internal:", "__")

_DEFAULTS: dict[Mode, tuple[bool, bool]] = {
    "codecall_only": (True, False),
    "codecall_opt_in": (False, True),
    "metadata_driven": (False, True),
}
"""For each mode: is a tool enabled, is it listed, when its own metadata does not say."""


class _Described(Protocol):
    """A tool of FastMCP's, as far as it is looked at here."""

    @property
    def name(self) -> str: ...
    @property
    def meta(self) -> Mapping[str, object] | None: ...


DescribedT = TypeVar("DescribedT", bound=_Described)


def is_reserved(name: str) -> bool:
    """Whether tools of this name stay out of every script: `system:*`, `internal:*`, `__*`, in any letter case."""
    return name.strip().casefold().startswith(_RESERVED)


class VisibilityPolicy:
    """The plugin's rules about tools, applied to one tool at a time."""

    def __init__(self, options: PluginOptions) -> None:
        self._enabled, self._listed = _DEFAULTS[options.mode]
        self._app_ids = None if options.app_ids is None else frozenset(options.app_ids)
        self._include = options.include_tools
        self._reported: set[str] = set()

    @property
    def depends_on_app(self) -> bool:
        """Whether the app of a tool matters for its listing."""
        return self._app_ids is not None

    @property
    def has_filter(self) -> bool:
        """Whether there is an `include_tools` to ask."""
        return self._include is not None

    def metadata(self, name: str, meta: Mapping[str, object] | None) -> ToolMetadata:
        """What the tool's author says; never raises."""
        return read_metadata(name, meta, self._reported)

    def manages(self, app_id: str) -> bool:
        """Whether CodeCall manages the tools of this app."""
        return self._app_ids is None or app_id in self._app_ids

    def is_listed(self, metadata: ToolMetadata, app_id: str) -> bool:
        """Whether clients see the tool in `tools/list`; tools of apps CodeCall does not manage stay as they are."""
        if not self.manages(app_id):
            return True
        return self._listed if metadata.visible_in_list_tools is None else metadata.visible_in_list_tools

    def is_shown(self, tool: DescribedT, app_of: Callable[[DescribedT], str] | None) -> bool:
        """Whether clients see this tool in `tools/list`; `app_of` gives its app, where that is known.

        FastMCP asks it of all tools in every request of 2026-07-28, so what most tools come to is not worked out.
        """
        if self._app_ids is None and (not tool.meta or META_KEY not in tool.meta):
            return self._listed
        metadata = self.metadata(tool.name, tool.meta)
        return self.is_listed(metadata, metadata.app_id or (app_of(tool) if app_of is not None else ""))

    def allows(self, name: str, metadata: ToolMetadata, app_id: str) -> bool:
        """Whether search, describe, invoke and scripts may use the tool, as long as `include_tools` lets it in."""
        enabled = self._enabled if metadata.enabled_in_codecall is None else metadata.enabled_in_codecall
        return enabled and not metadata.meta_tool and not is_reserved(name) and self.manages(app_id)

    def includes(self, tool: object, name: str) -> bool:
        """Whether `include_tools` lets in a tool that `allows` passes.

        It may decide by anything, the time of day included. So a view asks it anew in every request, once for each
        tool that matters there, and no answer is kept.
        """
        if self._include is None:
            return True
        try:
            return bool(self._include(tool))
        except Exception:
            key = f"include_tools {name}"
            if key not in self._reported and len(self._reported) < 10_000:
                self._reported.add(key)
                logger.warning("include_tools failed on tool %r, which stays out of CodeCall", name, exc_info=True)
            return False
