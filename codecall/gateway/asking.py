"""Tools that may destroy something: shown to clients whose person can be asked, and asked for before each call.

Scripts and `codecall_invoke` ask by the rules of the option `approvals`, to which `with_server_rules` adds those of
servers, and the last one. A call that a client makes without CodeCall is held against the same rules here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from fastmcp.exceptions import ToolError
from fastmcp.server.dependencies import get_context
from fastmcp.tools.base import ToolResult

from codecall.approvals.gate.gate import is_admitted
from codecall.approvals.options import ApprovalRule, read_approvals
from codecall.approvals.rules import RuleSet
from codecall.approvals.service import ApprovalService
from codecall.catalog.entries import CatalogEntry
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
    given = [rule.model_dump(exclude_none=True) for rule in rules]
    read = resolve_values({"approvals": given}, where="")["approvals"]
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


class DestructiveAsking:
    """Has a person allow calls of destructive tools; an `Asking`.

    Args:
        plugin: The plugin, which knows the tools.
        service: Its approvals.
    """

    def __init__(self, plugin: GatewayPlugin, service: ApprovalService) -> None:
        self._plugin = plugin
        self._service = service

    def can_ask(self) -> bool:
        """See `Asking.can_ask`."""
        context = current_context()
        return context is not None and self._service.can_ask(context)

    async def call(self, name: str, arguments: dict[str, Any], make: Callable[[], Awaitable[ToolResult]]) -> ToolResult:
        """See `Asking.call`."""
        if is_admitted(name):
            return await make()
        context = get_context()

        async def find() -> CatalogEntry:
            entry = await self._plugin.view(context).find(name)
            if entry is None:
                raise ToolError(f"Nobody can allow calls of {name}: CodeCall does not know it")
            return entry

        return await self._service.call(context, name, arguments, find=find, make=make)
