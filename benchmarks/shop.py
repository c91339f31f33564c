"""The server both benchmarks measure: a shop with real work in two tools, and as many further tools as wanted."""

from __future__ import annotations

from collections.abc import Iterator

from fastmcp import Context, FastMCP
from fastmcp.server.providers import LocalProvider
from fastmcp.tools import Tool
from typing_extensions import TypedDict

ROWS = 2_000
"""Orders in the shop."""
PAGE = 100
"""Orders in a page."""
TOGETHER = 500
"""Tools of a provider at most: it compares each it is given with all it has."""


class Item(TypedDict):
    """What `items_get` answers with."""

    id: int
    name: str
    price: int
    stock: int


class Order(TypedDict):
    """One row of `orders_list`."""

    id: int
    item: int
    amount: int
    status: str
    customer: str


class OrderPage(TypedDict):
    """What `orders_list` answers with."""

    rows: list[Order]
    total: int


def price_of(number: int) -> int:
    """Price of the item with that id, in cents."""
    return 100 + number * 37 % 900


def _order(number: int) -> Order:
    return Order(
        id=number,
        item=number % 250,
        amount=number * 7919 % 1_000,
        status=("open", "paid", "shipped", "returned")[number % 4],
        customer=f"customer-{number % 311}@shop.test",
    )


ORDERS = [_order(number) for number in range(ROWS)]


def items_get(id: int) -> Item:  # noqa: A002 - the name a model would expect
    """Get one item of the shop by its id."""
    return Item(id=id, name=f"Item {id}", price=price_of(id), stock=id % 17)


def orders_list(offset: int = 0, limit: int = PAGE) -> OrderPage:
    """List orders, a page at a time."""
    return OrderPage(rows=ORDERS[offset : offset + limit], total=ROWS)


def _pattern(
    reference: str,
    note: str | None = None,
    priority: int = 3,
    labels: list[str] | None = None,
    dry_run: bool = False,
) -> dict[str, str]:
    return {"reference": reference, "state": "done"}


def _fillers(count: int) -> Iterator[Tool]:
    """Further tools, with schemas of the size real servers have; copies of one, because making one takes 3 ms."""
    nouns = ("invoice", "shipment", "customer", "ticket", "campaign", "warehouse", "supplier", "refund")
    verbs = ("create", "update", "archive", "search", "export")
    pattern = Tool.from_function(_pattern, name="pattern")
    for number in range(count):
        noun, verb = nouns[number % 8], verbs[number // 8 % 5]
        yield pattern.model_copy(
            update={
                "name": f"{noun}s_{verb}_{number}",
                "description": f"{verb.capitalize()} a {noun} by its reference, with a note, a priority and labels.",
            }
        )


def build(name: str, tools: int) -> FastMCP:
    """A server with `tools` tools, two of which the jobs call."""
    server: FastMCP = FastMCP(name)
    server.tool(items_get)
    server.tool(orders_list)
    holder = server.local_provider
    for number, tool in enumerate(_fillers(tools - 2), 1):
        if number % TOGETHER == 0:
            server.add_provider(holder := LocalProvider())
        holder.add_tool(tool)
    return server


async def direct_call(ctx: Context, name: str, arguments: dict[str, object]) -> dict[str, object]:
    """One call as a FastMCP tool makes it with no code mode at all."""
    content = (await ctx.fastmcp.call_tool(name, arguments)).structured_content
    if content is None:
        raise TypeError(f"{name} gave no structured content")
    return content
