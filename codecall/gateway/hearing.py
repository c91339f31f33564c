"""Hearing of changes from a server of 2026-07-28, which tells only those who have asked it to."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

import anyio
import mcp_types
from mcp import ClientSession, MCPError
from mcp.client.subscriptions import (
    PromptsListChanged,
    ResourcesListChanged,
    SubscriptionLost,
    ToolsListChanged,
    listen,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

_LONGEST_S: Final = 60.0
"""Seconds at most before a stream that was lost is opened again."""

_WHAT: Final[dict[type, str]] = {
    ToolsListChanged: "tools",
    ResourcesListChanged: "resources",
    PromptsListChanged: "prompts",
}


async def hear(session: ClientSession, changed: Callable[[str], None], logger: logging.Logger) -> None:
    """Tell `changed` what the server says has changed: "tools", "resources", "prompts". Ends when the server does not
    tell such things, or has told all it will; servers of older versions tell unasked."""
    if session.protocol_version not in MODERN_PROTOCOL_VERSIONS or not any(told := _told(session)):
        return
    wait_s = 1.0
    while True:
        try:
            async with listen(
                session, tools_list_changed=told[0], resources_list_changed=told[1], prompts_list_changed=told[2]
            ) as events:
                wait_s = 1.0
                async for event in events:
                    if (what := _WHAT.get(type(event))) is not None:
                        changed(what)
                return
        except MCPError as failure:
            if failure.error.code in (mcp_types.METHOD_NOT_FOUND, mcp_types.INVALID_PARAMS):
                return
            logger.debug("does not tell of changes (error %d)", failure.error.code)
        except SubscriptionLost:
            # What happened meanwhile is not told again.
            for what in _WHAT.values():
                changed(what)
        await anyio.sleep(wait_s)
        wait_s = min(_LONGEST_S, wait_s * 2)


def _told(session: ClientSession) -> tuple[bool, bool, bool]:
    """Whether the server says that it tells of changes of tools, resources and prompts."""
    able = session.server_capabilities or mcp_types.ServerCapabilities()
    return (
        able.tools is not None and bool(able.tools.list_changed),
        able.resources is not None and bool(able.resources.list_changed),
        able.prompts is not None and bool(able.prompts.list_changed),
    )
