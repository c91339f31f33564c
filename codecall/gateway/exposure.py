"""Whether clients list the servers' tools themselves or CodeCall's meta-tools.

With `auto` the tools are listed while their definitions cost less than a share of the model's context. Above it the
meta-tools are listed instead; and the tools again only when they cost less than `RETURN_SHARE` of that, so that a
server whose
tools come and go does not have clients list everything anew each time. Either way all tools can be called, and with
`auto` the meta-tools too: a client that listed before a switch goes on with what it knows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, Literal, NamedTuple, TypeVar

from fastmcp.server.context import Context
from fastmcp.server.dependencies import get_context
from fastmcp.server.providers import Provider
from fastmcp.server.transforms import GetToolNext
from fastmcp.tools import Tool
from fastmcp.utilities.versions import VersionSpec

from codecall.approvals.service import ApprovalService
from codecall.catalog.view import CatalogView, ToolSources
from codecall.gateway.config.options import ExposeOptions
from codecall.gateway.upstream.session import request_method
from codecall.plugin import CodeCallPlugin
from codecall.sandbox.agentscript.policy import is_meta_tool

RETURN_SHARE: Final = 0.8
"""Share of the limit below which `auto` goes back from the meta-tools to the tools."""

Mode = Literal["tools", "meta_tools"]
ToolT = TypeVar("ToolT", bound=Tool)


class Exposure(NamedTuple):
    """What clients list, and why."""

    mode: Mode
    tokens: int
    """About how many tokens the definitions of all tools cost a model."""
    limit: int
    """Tokens up to which `auto` lists the tools themselves."""
    reason: str

    def describe(self, tools: int) -> str:
        """Say to an operator what clients list, of so many tools that there are, and why."""
        if self.mode == "meta_tools":
            return f"Clients list CodeCall's four tools in place of {_count(tools)}: {self.reason}"
        return f"Clients list the servers' {_count(tools)}, and not CodeCall's four: {self.reason}"


def _count(tools: int) -> str:
    return f"{tools:,} tool{'' if tools == 1 else 's'}"


class ExposurePolicy:
    """Decides what clients list, anew with each change of the tools."""

    def __init__(self, options: ExposeOptions) -> None:
        self._options = options
        self._limit = int(options.share * options.context_tokens)
        self._mode: Mode = "tools" if options.mode == "never" else "meta_tools"
        self._decided = False
        self.never = options.mode == "never"
        """Whether the four meta-tools are not even there."""
        self.current = self._exposure(0)

    def decide(self, tokens: int) -> bool:
        """Decide what clients list now that all definitions cost so many tokens; whether that has changed."""
        old = self._mode
        if self._options.mode == "auto":
            back = self._limit if not self._decided or old == "tools" else int(RETURN_SHARE * self._limit)
            self._mode = "tools" if tokens <= back else "meta_tools"
        changed = self._decided and self._mode != old
        self._decided = True
        self.current = self._exposure(tokens)
        return changed

    def _exposure(self, tokens: int) -> Exposure:
        mode, limit = self._options.mode, self._limit
        if mode != "auto":
            reason = f'expose.mode is "{mode}"'
        elif self._mode == "tools":
            reason = f"the tools' definitions take about {tokens:,} tokens, and {limit:,} are allowed to"
        elif tokens > limit:
            reason = f"the tools' definitions would take about {tokens:,} tokens, more than the {limit:,} allowed"
        else:
            reason = (
                f"the tools' definitions would take about {tokens:,} tokens; after having been more than the "
                f"{limit:,} allowed they are listed again at {int(RETURN_SHARE * limit):,}"
            )
        return Exposure(self._mode, tokens, limit, reason)


class GatewayPlugin(CodeCallPlugin):
    """The plugin of a gateway: it does not change lists while the tools themselves are listed."""

    warns_of_rules = False  # the gateway does, once all servers are listed
    exposure_policy: ExposurePolicy | None = None
    """Says what clients list; None: the meta-tools."""
    routes: Mapping[str, Provider] = MappingProxyType({})
    """By name of a server, the provider of its tools under the names that clients know."""
    exposed: Mapping[str, Mode] = MappingProxyType({})
    """By name of a server, what clients list of it, where its options say."""

    sources: ToolSources | None = None
    """Asked for tools that a caller misses."""

    def view(self, context: Context) -> CatalogView:
        """The tools of the caller of this request."""
        view = super().view(context)
        view.sources = self.sources
        return view

    @property
    def composite_tools(self) -> Mapping[str, Tool]:
        """The composite tools that are served, by their names."""
        return self._composites.tools if self._composites is not None else {}

    @property
    def may_list_own(self) -> bool:
        """Whether clients may come to list tools of CodeCall's own: meta-tools, or composite ones."""
        never = self.exposure_policy is not None and self.exposure_policy.never
        others = any(not is_meta_tool(tool.name) for tool in self.meta_tools)
        return not never or others or bool(self.options.composite_tools)

    @property
    def approval_service(self) -> ApprovalService | None:
        """What asks persons for calls; None where nothing does."""
        return self._now.runtime.approvals

    async def get_tool(self, name: str, call_next: GetToolNext, *, version: VersionSpec | None = None) -> Tool | None:
        """Get a tool from its own server alone. FastMCP asks all servers, each in a task of its own."""

        async def get_routed(name: str, *, version: VersionSpec | None = None) -> Tool | None:
            end = name.find("_")
            while end > 0:
                route = self.routes.get(name[:end])
                if route is not None and (tool := await route.get_tool(name, version)) is not None:
                    return tool
                end = name.find("_", end + 1)
            return await call_next(name, version=version)

        if self.exposure_policy is not None and self.exposure_policy.never and is_meta_tool(name):
            return await get_routed(name, version=version)
        return await super().get_tool(name, get_routed, version=version)

    async def transform_tools(self, tools: Sequence[Tool]) -> Sequence[Tool]:
        """Replace the tools that clients list as any plugin does, or leave them as they are."""
        if self.exposure_policy is None or not _is_in_request():
            return await super().transform_tools(tools)
        mode = self.exposure_policy.current.mode
        if not self.exposed and mode == "meta_tools":
            return await super().transform_tools(tools)
        themselves = [tool for tool in tools if self.exposed.get(self._server_of(tool.name), mode) == "tools"]
        if not self._offered(self.meta_tools):
            return themselves
        listed = {id(tool) for tool in themselves}
        return [*await super().transform_tools([tool for tool in tools if id(tool) not in listed]), *themselves]

    @property
    def lists_meta_tools(self) -> bool:
        """Whether clients list CodeCall's four."""
        policy = self.exposure_policy
        if policy is None:
            return True
        return not policy.never and "meta_tools" in (policy.current.mode, *self.exposed.values())

    def _offered(self, own: Sequence[ToolT]) -> Sequence[ToolT]:
        """Tools of other names, such as `execute_tool_script`, stand beside those of the servers as well."""
        return own if self.lists_meta_tools else [tool for tool in own if not is_meta_tool(tool.name)]

    def _server_of(self, name: str) -> str:
        """The server whose tool has that name; empty if it is of none. No name reads as one of two servers."""
        end = name.find("_")
        found = ""
        while end > 0:
            if name[:end] in self.routes:
                found = name[:end]
            end = name.find("_", end + 1)
        return found


def is_listing_tools(context: Context | None) -> bool:
    """Whether the request of this context is a client's `tools/list`."""
    return request_method(context) == "tools/list"


def current_context() -> Context | None:
    """The context of the request that is being answered; None outside of requests."""
    try:
        return get_context()
    except RuntimeError:
        return None


def _is_in_request() -> bool:
    return current_context() is not None
