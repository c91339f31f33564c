"""Calls that a client makes by itself: held against the rules of the option `approvals`, as those of scripts are.

To these rules `with_server_rules` adds those of servers, and a last one, for tools that may destroy something: such
tools are shown to clients whose person can be asked.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from fastmcp.server.dependencies import get_context
from fastmcp.tools.base import Tool, ToolResult

from codecall.approvals.gate.gate import is_admitted
from codecall.approvals.options import ApprovalRule, read_approvals
from codecall.approvals.rules import RuleSet
from codecall.approvals.service import ApprovalService
from codecall.catalog.apps import ComponentOrigin
from codecall.catalog.cache.cache import entry_from_tool
from codecall.catalog.entries import NO_METADATA, CatalogEntry
from codecall.gateway.config.variables import resolve_values
from codecall.gateway.exposure import GatewayPlugin, current_context

if TYPE_CHECKING:
    from collections.abc import Mapping


def with_server_rules(
    approvals: object, own: Mapping[str, Sequence[ApprovalRule]], asked: Collection[str], folder: Path | None = None
) -> Mapping[str, object]:
    """The option `approvals` with the rules of servers before its own, and one more behind.

    Args:
        approvals: The option.
        own: The rules in the tables of servers, by their names.
        asked: The servers whose destructive tools are asked for where no rule says anything.
        folder: Where the operator decides if the option does not say.

    Raises:
        OptionsError: the option is wrong.
    """
    group: Any = read_approvals(approvals if approvals is not None else [])
    first = [_of_server(name, rule) for name, rules in own.items() for rule in rules]
    last = [{"action": "ask", "destructive": True, "servers": sorted(asked)}] if asked else []
    return {"folder": folder, **group, "rules": [*first, *group.get("rules", ()), *last]}


def read_rules(rules: Sequence[ApprovalRule]) -> list[ApprovalRule]:
    """The rules in the table of a server with references replaced.

    Raises:
        OptionsError: a variable is not set, or a condition is no JSON Schema.
    """
    plain_rules = [rule.model_dump(exclude_none=True) for rule in rules]
    read = resolve_values({"approvals": plain_rules}, where="")["approvals"]
    resolved = [ApprovalRule.read(rule, where="approvals") for rule in cast("list[dict[str, object]]", read)]
    RuleSet(resolved)
    return resolved


def _of_server(name: str, rule: ApprovalRule) -> ApprovalRule:
    """A rule in the table of a server as the plugin takes it: about that server, with names as clients see them."""
    tools: tuple[str, ...] | None = None
    if rule.tools is not None:
        seen = [each for each in rule.tools if each.startswith(f"{name}_")]
        tools = (*(f"{name}_{each}" for each in rule.tools), *seen)
    return rule.model_copy(update={"servers": (name,), "tools": tools})


class DirectCallGate:
    """Holds calls that a client makes by itself against the rules; a `CallGuard`.

    Args:
        plugin: The plugin, which knows the tools.
        service: Its approvals.
    """

    def __init__(self, plugin: GatewayPlugin, service: ApprovalService) -> None:
        self._plugin = plugin
        self._service = service

    def can_ask(self) -> bool:
        """See `CallGuard.can_ask`."""
        context = current_context()
        return context is not None and self._service.can_ask(context)

    async def call(
        self, tool: Tool, server: str, arguments: dict[str, Any], make: Callable[[], Awaitable[ToolResult]]
    ) -> ToolResult:
        """See `CallGuard.call`."""
        if is_admitted(tool.name):
            return await make()
        # Not from the catalog, which lacks what scripts may not use.
        own = entry_from_tool(tool, NO_METADATA, server, ComponentOrigin(server, tool.name, server))
        if (await self._service.rules.ruling(own, arguments)).action == "allow":
            return await make()
        context = get_context()

        async def find() -> CatalogEntry:
            return await self._plugin.view(context).find(tool.name) or own

        return await self._service.call(context, tool.name, arguments, find=find, make=make)
