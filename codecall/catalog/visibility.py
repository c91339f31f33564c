"""The policy that decides which tools CodeCall shows and which it may use.

It applies the mode, `app_ids`, `include_tools` and the reserved names. Authorization is not decided here: the policy
gets what FastMCP lists for the caller, and never adds anything to it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Final, Protocol, TypeVar

from codecall.catalog.entries import META_KEY, ToolMetadata, read_metadata
from codecall.options import Mode, PluginOptions
from codecall.sandbox.agentscript.policy import is_meta_tool

logger = logging.getLogger("codecall")

MAX_SEEN_APPS: Final = 100
"""Apps that the warning about `app_ids` names at most."""

_RESERVED = ("system:", "internal:", "__")

_DEFAULTS: dict[Mode, tuple[bool, bool]] = {
    "codecall_only": (True, False),
    "codecall_opt_in": (False, True),
    "metadata_driven": (False, True),
    "additive": (True, True),
}
"""For each mode: whether a tool is enabled, and whether it is listed, where its own metadata does not say."""


class _Described(Protocol):
    """The attributes of a FastMCP tool that the policy reads."""

    @property
    def name(self) -> str: ...
    @property
    def meta(self) -> Mapping[str, object] | None: ...


DescribedT = TypeVar("DescribedT", bound=_Described)


def is_reserved(name: str) -> bool:
    """Whether no script may use a tool of this name: `system:*`, `internal:*` and `__*`, in any letter case."""
    return name.strip().casefold().startswith(_RESERVED)


class VisibilityPolicy:
    """Applies the plugin's rules to one tool, resource or prompt at a time.

    Args:
        options: of the plugin.
        warns_of_apps: whether it logs those of `app_ids` that no tool belongs to.
    """

    def __init__(self, options: PluginOptions, *, warns_of_apps: bool = True) -> None:
        self.warns_of_apps: Final = warns_of_apps
        self._enabled, self._listed = _DEFAULTS[options.mode]
        self._app_ids = None if options.app_ids is None else frozenset(options.app_ids)
        self._include = options.include_tools
        self._warned: set[str] = set()
        self._unseen_apps: set[str] = set((warns_of_apps and self._app_ids) or ())
        self._seen_apps: set[str] = set()

    @property
    def depends_on_app(self) -> bool:
        """Whether the listing of a tool depends on its app."""
        return self._app_ids is not None

    @property
    def has_filter(self) -> bool:
        """Whether the option `include_tools` is set."""
        return self._include is not None

    def metadata(self, name: str, meta: Mapping[str, object] | None) -> ToolMetadata:
        """Reads the settings that the tool's author gives; never raises."""
        return read_metadata(name, meta, self._warned)

    def manages(self, app_id: str) -> bool:
        """Whether CodeCall manages the tools of an app."""
        return self._app_ids is None or app_id in self._app_ids

    def is_listed(self, metadata: ToolMetadata, app_id: str) -> bool:
        """Whether clients see a tool in `tools/list`; tools of apps that CodeCall does not manage are not hidden."""
        if not self.manages(app_id):
            return True
        return self._listed if metadata.visible_in_list_tools is None else metadata.visible_in_list_tools

    def is_visible_to_clients(self, tool: DescribedT, app_of: Callable[[DescribedT], str] | None) -> bool:
        """Whether clients see this tool in `tools/list`; `app_of` returns its app, where apps matter.

        FastMCP lists all tools in every request of 2026-07-28, so tools without settings take a short cut.
        """
        if self._app_ids is None and (not tool.meta or META_KEY not in tool.meta):
            return self._listed
        metadata = self.metadata(tool.name, tool.meta)
        return self.is_listed(metadata, metadata.app_id or (app_of(tool) if app_of is not None else ""))

    def allows(self, name: str, metadata: ToolMetadata, app_id: str) -> bool:
        """Whether search, describe, invoke and scripts may use a tool, provided that `include_tools` admits it."""
        enabled = self._enabled if metadata.enabled_in_codecall is None else metadata.enabled_in_codecall
        if not enabled or metadata.meta_tool or is_reserved(name) or not self.manages(app_id):
            return False
        if is_meta_tool(name):
            self._warn_once(name, "Tool %r is kept out of CodeCall: such names are those of its own tools", name)
            return False
        return True

    def add_app(self, app_id: str) -> None:
        """Remember that there are tools of this app."""
        if self._app_ids is not None and len(self._seen_apps) < MAX_SEEN_APPS:
            self._seen_apps.add(app_id)
            self._unseen_apps.discard(app_id)

    def warn_of_unseen_apps(self) -> None:
        """Log each of `app_ids` that no tool so far belongs to; called when all tools of a server are known."""
        if self._seen_apps:
            for app_id in sorted(self._unseen_apps):
                message = "app_ids: no tool belongs to the app %r so far; there are: %s"
                self._warn_once(f"app_ids {app_id}", message, app_id, ", ".join(sorted(self._seen_apps)))
            self._unseen_apps.clear()

    def _warn_once(self, key: str, message: str, *arguments: object) -> None:
        if key not in self._warned and len(self._warned) < 10_000:
            self._warned.add(key)
            logger.warning(message, *arguments)

    def includes(self, tool: object, name: str) -> bool:
        """Whether `include_tools` admits a tool that `allows` admits.

        The callback may decide by anything, the time of day included. So a view calls it anew in every request, once
        for each tool that matters there, and no answer is cached. A callback that fails excludes the tool.
        """
        if self._include is None:
            return True
        try:
            return bool(self._include(tool))
        except Exception:
            key = f"include_tools {name}"
            if key not in self._warned and len(self._warned) < 10_000:
                self._warned.add(key)
                logger.warning("include_tools failed on tool %r, which stays out of CodeCall", name, exc_info=True)
            return False
