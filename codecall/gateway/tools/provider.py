"""One server as a FastMCP provider: it lists what is known of the server, and does not start the server for that."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from fastmcp.prompts import Prompt
from fastmcp.resources import Resource, ResourceTemplate
from fastmcp.server.dependencies import get_context
from fastmcp.server.providers import Provider
from fastmcp.tools import Tool
from fastmcp.utilities.components import FastMCPComponent
from fastmcp.utilities.versions import VersionSpec
from mcp import MCPError

from codecall.catalog.uris import match_steps
from codecall.errors import CodeCallError
from codecall.gateway.config.options import AccessOptions
from codecall.gateway.tools.access import AccessRules, UnmatchedPattern
from codecall.gateway.tools.components import CallGuard, GatewayResource
from codecall.gateway.tools.disk_cache import ListingCacheFile
from codecall.gateway.tools.filter import HiddenComponent, ReservedNames, screen_components
from codecall.gateway.tools.refresher import ListingRefresher, OnChanged
from codecall.gateway.upstream.bounds.initialize_result import MAX_TEXT_CHARS
from codecall.gateway.upstream.interface import Upstream
from codecall.gateway.upstream.listing import Listing, read_resources
from codecall.redaction.clean import well_formed

logger = logging.getLogger("codecall")

MAX_MATCH_STEPS: Final = 200_000
"""Steps of about 10 ns that comparing one URI with all templates of a server may take."""

ComponentT = TypeVar("ComponentT", bound=FastMCPComponent)


class ServerProvider(Provider):
    """The tools, resources, templates and prompts of one server.

    Args:
        upstream: the server.
        access: which of its tools may be used; None: those that do not say that they destroy something.
        cache_file: where its listing is kept; None: in memory only.
        names: which names its tools may not have.
        description: what the configuration says of the server.
        on_change: called with the kinds of lists that have changed.
        wait_for_first: asked whether this request has to wait for a server of which nothing is known yet.
        asking: has a person allow calls of tools that are asked for; None: there is no way to ask.
        guard: holds calls of the others against rules; None: no rule is about any.
        per_client: whether the server has a session of its own for each client, and may list resources to it alone.
    """

    def __init__(
        self,
        upstream: Upstream,
        *,
        access: AccessRules | None = None,
        cache_file: ListingCacheFile | None = None,
        names: ReservedNames | None = None,
        description: str | None = None,
        on_change: OnChanged | None = None,
        wait_for_first: Callable[[], bool] = lambda: True,
        asking: CallGuard | None = None,
        guard: CallGuard | None = None,
        per_client: bool = False,
    ) -> None:
        super().__init__()
        self.upstream: Final = upstream
        self._description = description
        self._refresher = ListingRefresher(
            upstream,
            access=access or AccessRules(AccessOptions()),
            cache_file=cache_file,
            names=names or ReservedNames(),
            on_change=on_change,
            asking=asking,
            guard=guard,
        )
        self._asking = asking
        self._per_client = per_client
        self._wait_for_first = wait_for_first

    @property
    def codecall_tools(self) -> tuple[Tool, ...] | None:
        """The tools before any transform, for the client of this request: the same tuple until something changes; None
        while they are not known. `codecall.catalog.cache.fingerprint` knows this attribute."""
        return self._tools() if self._refresher.visible.listing is not None else None

    @property
    def codecall_about(self) -> str:
        """What the configuration says of the server, and the server of itself: the beginnings. `codecall.catalog.apps`
        knows this attribute."""
        info = self.listing.server_info
        texts = (self._description, info and info.title, info and info.description, self.listing.instructions)
        return well_formed(" ".join(text[:MAX_TEXT_CHARS] for text in texts if text))

    @property
    def cache_file(self) -> ListingCacheFile | None:
        """Where its listing is kept."""
        return self._refresher.cache_file

    @property
    def is_listed(self) -> bool:
        """Whether it is known what the server lists."""
        return self._refresher.is_listed

    @property
    def is_missing(self) -> bool:
        """Whether the server was asked, and what it lists is not known."""
        return self._refresher.is_missing

    @property
    def listing(self) -> Listing:
        """What the server listed last; empty while that is not known."""
        return self._refresher.visible.listing or Listing()

    @property
    def error(self) -> CodeCallError | None:
        """Why the server could not be listed when it was asked last; None if it could."""
        return self._refresher.error

    @property
    def failure(self) -> str | None:
        """The message of `error`."""
        return self.error.message if self.error is not None else None

    @property
    def hidden(self) -> tuple[HiddenComponent, ...]:
        """What of the server's lists is hidden, and why."""
        return self._refresher.visible.hidden

    @property
    def foreign(self) -> tuple[str, ...]:
        """The tools that read as ones of another server, which scripts call by their full names only."""
        return self._refresher.visible.foreign

    @property
    def unmatched(self) -> tuple[UnmatchedPattern, ...]:
        """What its access rules name, and none of its tools is."""
        return self._refresher.visible.unmatched

    @property
    def tokens(self) -> int:
        """About how many tokens the definitions of its tools cost."""
        return self._refresher.visible.tokens

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools that any client may use, under the names that their server gives them."""
        return self._refresher.visible.tools

    @property
    def tools_with_approvals(self) -> tuple[Tool, ...]:
        """These tools, and those whose calls a person is asked for."""
        return self._refresher.visible.tools_with_approvals

    @property
    def asked_tools(self) -> tuple[Tool, ...]:
        """The tools whose calls a person is asked for."""
        return tuple(self._refresher.visible.approval_tool_by_name.values())

    def load(self) -> None:
        """Use what is kept on disk. Reads the file: not on the event loop."""
        self._refresher.load()

    def open(self) -> None:
        """Allow the server to be asked from now on, and ask it at once where nothing is known of it."""
        self._refresher.open()

    async def close(self) -> None:
        """Stop asking the server."""
        await self._refresher.close()

    async def give_up(self, error: CodeCallError) -> None:
        """Stop asking the server, and have what it lists count as not to be known, for this reason."""
        await self._refresher.give_up(error)

    async def refresh(self) -> Listing:
        """Ask the server now, and use what it lists.

        Raises:
            CodeCallError: it cannot be listed; what was known stays.
        """
        return await self._refresher.refresh()

    async def has_after_listing(self, name: str) -> bool:
        """Whether the client of this request has a tool of that name, which it missed; the server is listed anew where
        it was not just before."""
        if self._tool(name) is None:
            await self._refresher.list_again()
        return self._tool(name) is not None

    async def wait_until_listed(self) -> None:
        """Wait until it is known what the server lists, or that it could not be asked."""
        await self._refresher.wait_until_listed()

    async def _list_tools(self) -> Sequence[Tool]:
        await self._refresher.wait_for_first_listing(self._wait_for_first)
        return self._tools()

    async def _get_tool(self, name: str, version: VersionSpec | None = None) -> Tool | None:
        await self._refresher.wait_for_first_listing(self._wait_for_first)
        return _if_version(self._tool(name), version)

    def _tool(self, name: str) -> Tool | None:
        """The tool of that name for the client of this request."""
        visible = self._refresher.visible
        tool = visible.tool_by_name.get(name)
        if tool is None and name in visible.approval_tool_by_name and self._can_ask():
            tool = visible.approval_tool_by_name[name]
        return tool

    def _tools(self) -> tuple[Tool, ...]:
        """The tools for the client of this request."""
        visible = self._refresher.visible
        return visible.tools_with_approvals if visible.approval_tool_by_name and self._can_ask() else visible.tools

    def _can_ask(self) -> bool:
        return self._asking is not None and self._asking.can_ask()

    async def _list_resources(self) -> Sequence[Resource]:
        await self._refresher.wait_for_first_listing(self._wait_for_first)
        return self._refresher.visible.resources

    async def _get_resource(self, uri: str, version: VersionSpec | None = None) -> Resource | None:
        await self._refresher.wait_for_first_listing(self._wait_for_first)
        resource = self._refresher.visible.resource_by_uri.get(uri)
        if resource is None and self._per_client and await self._get_resource_template(uri) is None:
            resource = await self._own_resource(uri)
        return _if_version(resource, version)

    async def _own_resource(self, uri: str) -> Resource | None:
        """The resource of that URI that the server lists in the session of this client."""
        try:
            async with self.upstream.use(get_context()) as call:
                listed = await read_resources(call.session, self.upstream.name)
        except (CodeCallError, MCPError):
            return None
        return screen_components(
            tuple(resource for resource in listed if str(resource.uri) == uri),
            large=True,
            reason_to_hide=lambda _: None,
            make=lambda resource: GatewayResource.from_mcp(self.upstream, resource),
            hide=lambda _name, _reason: None,
        ).get(uri)

    async def _list_resource_templates(self) -> Sequence[ResourceTemplate]:
        await self._refresher.wait_for_first_listing(self._wait_for_first)
        return self._refresher.visible.templates

    async def _get_resource_template(self, uri: str, version: VersionSpec | None = None) -> ResourceTemplate | None:
        await self._refresher.wait_for_first_listing(self._wait_for_first)
        steps_left = MAX_MATCH_STEPS
        for template in self._refresher.visible.templates:
            steps_left -= match_steps(uri, template.uri_template, steps_left)
            if steps_left < 0:
                logger.warning("Server %s: a URI is not compared with its templates, it takes too long", self)
                return None
            if template.matches(uri) is not None and _if_version(template, version) is not None:
                return template
        return None

    async def _list_prompts(self) -> Sequence[Prompt]:
        await self._refresher.wait_for_first_listing(self._wait_for_first)
        return self._refresher.visible.prompts

    async def _get_prompt(self, name: str, version: VersionSpec | None = None) -> Prompt | None:
        await self._refresher.wait_for_first_listing(self._wait_for_first)
        return _if_version(self._refresher.visible.prompt_by_name.get(name), version)

    async def get_tasks(self) -> Sequence[FastMCPComponent]:
        """None: what a server of its own runs is no background task of this one."""
        return ()

    def __repr__(self) -> str:
        return f"ServerProvider({self.upstream.name!r})"


def _if_version(component: ComponentT | None, version: VersionSpec | None) -> ComponentT | None:
    return component if component is None or version is None or version.matches(component.version) else None
