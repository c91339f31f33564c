"""What the attacks on the broker share: a way to ask a real server through a real client."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from fastmcp import Client, FastMCP

from codecall import CodeCallPlugin

Answer = dict[str, Any]


class Asked:
    """A server with CodeCall, and one client of it."""

    def __init__(self, client: Client[Any]) -> None:
        self.client = client

    async def tool(self, name: str, **arguments: Any) -> Answer:
        """The structured answer of a meta-tool; its text says the same."""
        result = await self.client.call_tool(name, arguments)
        assert result.structured_content is not None
        assert json.loads(result.content[0].text) == result.structured_content
        return result.structured_content

    async def run(self, script: str, **arguments: Any) -> Answer:
        """The envelope of a script."""
        return await self.tool("codecall:execute", script=script, **arguments)

    async def value(self, script: str, **arguments: Any) -> Any:
        """The value of a script that must end well."""
        envelope = await self.run(script, **arguments)
        assert envelope["status"] == "ok", envelope
        return envelope["result"]

    async def outcome(self, name: str, **arguments: Any) -> Answer:
        """`{success, data | error}` of one call of a script."""
        call = f"callTool({json.dumps(name)}, {json.dumps(arguments)}, {{ throwOnError: false }})"
        return await self.value(f"return await {call}")


def installed(server: FastMCP, **options: Any) -> FastMCP:
    """`server` with CodeCall; its workers start when a script needs one."""
    return CodeCallPlugin.init(
        **{"vm": {"preset": "secure"}, "pool": {"min_workers": 0, "max_workers": 4}} | options
    ).install(server)


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    """FastMCP draws every exception of a tool as a framed picture, which takes longer than all the rest."""
    caplog.set_level(logging.CRITICAL, "fastmcp")


@pytest.fixture
def asked() -> type[Asked]:
    return Asked


@pytest.fixture
def install() -> Any:
    return installed
