"""Tools that may destroy something: shown to clients whose person can be asked, and asked for before each call.

Scripts and `codecall_invoke` ask by the rules of the option `approvals`, to which `with_destructive_rule` adds the last
one. A call that a client makes without CodeCall is held against the same rules here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any

from fastmcp.exceptions import ToolError
from fastmcp.server.dependencies import get_context
from fastmcp.tools.base import ToolResult

from codecall.approvals.gate import is_admitted
from codecall.approvals.options import read_approvals
from codecall.approvals.service import ApprovalService
from codecall.catalog.entries import CatalogEntry
from codecall.gateway.exposure import GatewayPlugin, current_context

if TYPE_CHECKING:
    from collections.abc import Mapping


def with_destructive_rule(approvals: object, servers: Iterable[str]) -> Mapping[str, object]:
    """The option `approvals` with one more rule behind its own: ask for the destructive tools of these servers.

    Raises:
        OptionsError: the option is wrong.
    """
    group: Any = read_approvals(approvals if approvals is not None else [])
    rule = {"action": "ask", "destructive": True, "servers": sorted(servers)}
    return {**group, "rules": [*group.get("rules", ()), rule]}


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
