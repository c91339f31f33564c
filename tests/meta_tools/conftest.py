"""A small server of three apps, and one way to call its meta-tools."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

import pytest
from fastmcp import Client, FastMCP
from mcp_types import CallToolResult, TextContent, ToolAnnotations
from pydantic import BaseModel

from codecall import CodeCallPlugin, tool_metadata

Answer = dict[str, Any]
Ask = Callable[..., Awaitable[Answer]]


class User(BaseModel):
    """What the users tools give."""

    id: int
    name: str


class Shop:
    """Users, orders and mail on one server, with CodeCall installed."""

    def __init__(self, **options: Any) -> None:
        self.server = FastMCP("shop")
        # Workers start when a test runs a script; the preset is fixed, whatever CODECALL_VM_PRESET says.
        self.plugin = CodeCallPlugin.init(**{"vm": {"preset": "secure"}, "pool": {"min_workers": 0}} | options)
        self.calls: list[str] = []
        users = FastMCP("user service")
        users.tool(self.list_users, name="list", annotations=ToolAnnotations(read_only_hint=True), tags={"people"})
        users.tool(self.get_user, name="get", tags={"people"})
        self.server.mount(users, namespace="users")
        self.server.tool(self.refund, name="orders:refund", meta=tool_metadata(app_id="orders", tags=["money"]))
        self.server.tool(self.send, name="send_mail")
        self.plugin.install(self.server)

    def list_users(self, limit: Annotated[int, "how many users"] = 10) -> list[User]:
        """List all users of the shop."""
        self.calls.append("list")
        return [User(id=number, name=f"user {number}") for number in range(limit)]

    def get_user(self, id: int) -> User:  # noqa: A002
        """Get one user by id."""
        if id > 99:
            raise ValueError(f"no user {id}")
        return User(id=id, name=f"user {id}")

    def refund(self, order: str, amount: float) -> str:
        """Give the money of an order back to the customer."""
        self.calls.append(f"refund {order}")
        return f"refunded {amount:g} of {order}"

    def send(self, to: str, text: str) -> None:
        """Send an electronic letter to somebody."""

    async def result(self, name: str, **arguments: Any) -> CallToolResult:
        """What a client gets, errors included."""
        async with Client(self.server) as client:
            return await client.call_tool_mcp(name, arguments)

    async def ask(self, name: str, **arguments: Any) -> Answer:
        """The structured answer of a call that must not be an error; its text must say the same."""
        result = await self.result(name, **arguments)
        assert not result.is_error, result.content
        return same(result)

    async def refusal(self, name: str, **arguments: Any) -> str:
        """The message of a call that must be an error."""
        result = await self.result(name, **arguments)
        assert result.is_error, result.structured_content
        (block,) = result.content
        assert isinstance(block, TextContent)
        return block.text


def same(result: CallToolResult) -> Answer:
    """The structured content, once it is seen to be the one text block's JSON."""
    import json

    (block,) = result.content
    assert isinstance(block, TextContent)
    assert result.structured_content is not None
    assert json.loads(block.text) == result.structured_content
    return result.structured_content


@pytest.fixture
def shop() -> Shop:
    """The server under default options."""
    return Shop()


@pytest.fixture
def make_shop() -> Callable[..., Shop]:
    """The server under options of the test's choice."""
    return Shop
