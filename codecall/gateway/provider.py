"""One server as a FastMCP provider: it lists what is known of the server, and does not start it for that."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from fastmcp.prompts import Prompt
from fastmcp.resources import Resource, ResourceTemplate
from fastmcp.server.providers import Provider
from fastmcp.tools import Tool
from fastmcp.utilities.components import FastMCPComponent
from fastmcp.utilities.versions import VersionSpec

from codecall.catalog.matching import steps
from codecall.gateway.access import Access, Hidden
from codecall.gateway.behind import Behind
from codecall.gateway.keeping import KeptFile
from codecall.gateway.knowing import Known, Told
from codecall.gateway.listing import Listing
from codecall.gateway.options import AccessOptions
from codecall.gateway.screening import Names

logger = logging.getLogger("codecall")

MAX_STEPS: Final = 200_000
"""Steps that one URI may take to be compared with all templates of a server, of about 10 ns each."""

ComponentT = TypeVar("ComponentT", bound=FastMCPComponent)


class ServerProvider(Provider):
    """The tools, resources, templates and prompts of one server.

    Args:
        behind: the server.
        access: which of its tools may be used.
        kept: where its listing is kept; None: in memory only.
        names: which names its tools may not have.
        told: called with each change.
        waits: asked whether this request has to wait for a server of which nothing is known yet.
    """

    def __init__(
        self,
        behind: Behind,
        *,
        access: Access | None = None,
        kept: KeptFile | None = None,
        names: Names | None = None,
        told: Told | None = None,
        waits: Callable[[], bool] = lambda: True,
    ) -> None:
        super().__init__()
        self.behind: Final = behind
        self._known = Known(
            behind, access=access or Access(AccessOptions()), kept=kept, names=names or Names(), told=told
        )
        self._waits = waits

    @property
    def codecall_tools(self) -> tuple[Tool, ...] | None:
        """What is listed before any transform: the same tuple until something changes; None while that is not known.
        `codecall.catalog.stating` knows this attribute."""
        shown = self._known.shown
        return shown.tools if shown.listing is not None else None

    @property
    def kept(self) -> KeptFile | None:
        """Where its listing is kept."""
        return self._known.kept

    @property
    def listed(self) -> bool:
        """Whether it is known what the server has."""
        return self._known.listed

    @property
    def listing(self) -> Listing:
        """What the server said last; nothing while that is not known."""
        return self._known.shown.listing or Listing()

    @property
    def failure(self) -> str | None:
        """Why it could not be listed when it was asked last; None if it could."""
        return self._known.error.message if self._known.error is not None else None

    @property
    def hidden(self) -> tuple[Hidden, ...]:
        """What of it nobody sees, and why."""
        return self._known.shown.hidden

    @property
    def tokens(self) -> int:
        """What the definitions of its tools cost, about."""
        return self._known.shown.tokens

    @property
    def tools(self) -> tuple[Tool, ...]:
        """Those that may be used, under the names that their server gives them."""
        return self._known.shown.tools

    def load(self) -> None:
        """Take what is kept on disk. Reads the file: not on the event loop."""
        self._known.load()

    def open(self) -> None:
        """Let the server be asked from now on; at once, where nothing is known of it."""
        self._known.open()

    async def close(self) -> None:
        """Ask it no more."""
        await self._known.close()

    async def refresh(self) -> Listing:
        """Ask the server now, and take what it says.

        Raises:
            CodeCallError: it cannot be had; what was known stays.
        """
        return await self._known.refresh()

    async def _list_tools(self) -> Sequence[Tool]:
        await self._known.ready(self._waits)
        return self._known.shown.tools

    async def _get_tool(self, name: str, version: VersionSpec | None = None) -> Tool | None:
        await self._known.ready(self._waits)
        return _of_version(self._known.shown.tool_by_name.get(name), version)

    async def _list_resources(self) -> Sequence[Resource]:
        await self._known.ready(self._waits)
        return self._known.shown.resources

    async def _get_resource(self, uri: str, version: VersionSpec | None = None) -> Resource | None:
        await self._known.ready(self._waits)
        return _of_version(self._known.shown.resource_by_uri.get(uri), version)

    async def _list_resource_templates(self) -> Sequence[ResourceTemplate]:
        await self._known.ready(self._waits)
        return self._known.shown.templates

    async def _get_resource_template(self, uri: str, version: VersionSpec | None = None) -> ResourceTemplate | None:
        await self._known.ready(self._waits)
        left = MAX_STEPS
        for template in self._known.shown.templates:
            left -= steps(uri, template.uri_template, left)
            if left < 0:
                logger.warning("Server %s: a URI is not compared with its templates, it takes too long", self)
                return None
            if template.matches(uri) is not None and _of_version(template, version) is not None:
                return template
        return None

    async def _list_prompts(self) -> Sequence[Prompt]:
        await self._known.ready(self._waits)
        return self._known.shown.prompts

    async def _get_prompt(self, name: str, version: VersionSpec | None = None) -> Prompt | None:
        await self._known.ready(self._waits)
        return _of_version(self._known.shown.prompt_by_name.get(name), version)

    async def get_tasks(self) -> Sequence[FastMCPComponent]:
        """None: what a server of its own runs is no background task of this one."""
        return ()

    def __repr__(self) -> str:
        return f"ServerProvider({self.behind.name!r})"


def _of_version(component: ComponentT | None, version: VersionSpec | None) -> ComponentT | None:
    return component if component is None or version is None or version.matches(component.version) else None
