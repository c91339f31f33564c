"""A real FastMCP server whose tool `go` makes one call through a Broker, and a client that asks it to."""

from __future__ import annotations

import difflib
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from fastmcp import Client, Context, FastMCP

from codecall.calls.broker import Broker
from codecall.catalog.entries import CatalogEntry, JsonObject
from codecall.errors import CodeCallError
from codecall.options import SanitizationOptions


class ListedView:
    """The smallest real view: FastMCP's own listing for the caller, minus what is marked `hidden`."""

    def __init__(self, context: Context) -> None:
        self._server = context.fastmcp
        self.asked = 0

    async def _tools(self) -> dict[str, Any]:
        self.asked += 1
        return {tool.name: tool for tool in await self._server.list_tools()}

    async def find(self, name: str) -> CatalogEntry | None:
        tool = (await self._tools()).get(name)
        if tool is None or "hidden" in tool.tags:
            return None
        return CatalogEntry(tool.name, self._server.name, tool.description or "", tool.parameters, tool.output_schema)

    async def server_tool(self, name: str) -> None:
        return None

    async def exists(self, name: str) -> bool:
        return name in await self._tools()

    async def retry_lookup(self, name: str) -> bool:
        return False

    def unlisted(self, name: str | None = None) -> list[str]:
        return []

    async def suggest(self, name: str) -> list[str]:
        return difflib.get_close_matches(name, list(await self._tools()), 3)

    async def describe(self, name: str) -> JsonObject | None:
        entry = await self.find(name)
        return None if entry is None else {"name": entry.name, "inputSchema": entry.input_schema}


@dataclass
class Settings:
    """What the next Broker is made with."""

    allowed_tools: Sequence[str] | None = None
    tool_call_timeout_ms: int = 10_000
    max_value_bytes: int = 4 * 1024 * 1024
    sanitization: SanitizationOptions = field(default_factory=SanitizationOptions)


Run = Callable[[Broker], Awaitable[object]]


class Caller:
    """Runs a coroutine function with a Broker inside a tool of the server, as the execute meta-tool would."""

    def __init__(self, mcp: FastMCP[Any]) -> None:
        self.mcp = mcp
        self.settings = Settings()
        self.view: ListedView | None = None
        self._run: Run | None = None
        self._outcome: object = None

        @mcp.tool
        async def go(ctx: Context) -> str:
            settings = self.settings
            self.view = ListedView(ctx)
            broker = Broker(
                ctx,
                self.view,
                allowed_tools=settings.allowed_tools,
                tool_call_timeout_ms=settings.tool_call_timeout_ms,
                max_value_bytes=settings.max_value_bytes,
                sanitization=settings.sanitization,
            )
            assert self._run is not None
            try:
                self._outcome = await self._run(broker)
            except CodeCallError as failure:
                self._outcome = failure
            return "done"

    async def run(self, run: Run, client: Client[Any] | None = None) -> object:
        """What `run(broker)` gave, or the CodeCallError it raised."""
        self._run, self._outcome = run, None
        if client is not None:
            await client.call_tool("go", {})
        else:
            async with Client(self.mcp) as own:
                await own.call_tool("go", {})
        return self._outcome

    async def call(
        self, name: str, arguments: dict[str, object] | None = None, client: Client[Any] | None = None
    ) -> Any:
        """The value of one call as a script would parse it, or the error."""
        outcome = await self.run(lambda broker: broker.call(name, arguments or {}), client)
        return json.loads(outcome) if isinstance(outcome, str) else outcome


@pytest.fixture
def mcp() -> FastMCP[Any]:
    """The server under the broker."""
    return FastMCP("crm")


@pytest.fixture
def caller(mcp: FastMCP[Any]) -> Caller:
    """Calls tools of `mcp` through a Broker."""
    return Caller(mcp)


@pytest.fixture
def caller_of() -> type[Caller]:
    """For tests that need a server of their own."""
    return Caller
