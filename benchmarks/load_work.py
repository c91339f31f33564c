"""What `load.py` has servers do: two servers with the same tools, and the same scripts for each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
from fastmcp import FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.experimental.transforms.code_mode import CodeMode
from fastmcp.server.auth.providers.jwt import StaticTokenVerifier

from benchmarks.jobs import PYTHON_AT_ONCE, SCRIPT_PROMISE_ALL, price_sum, python_in_turn, script_in_turn
from benchmarks.load_client import Session
from benchmarks.shop import ORDERS, build, price_of
from codecall import CodeCallPlugin

REFUSAL = "order 7 is closed"
LISTED = 500
"""Rows of the list that a script filters."""

PYTHON_FILTER = f"""
page = await call_tool('orders_list', {{'offset': 0, 'limit': {LISTED}}})
return [row['id'] for row in page['rows'] if row['status'] == 'open' and row['amount'] > 900]
"""
SCRIPT_FILTER = f"""
const page = await callTool('orders_list', {{ offset: 0, limit: {LISTED} }});
return page.rows.filter((row) => row.status === 'open' && row.amount > 900).map((row) => row.id);
"""
LOOKED_UP = 20
"""Rows of a page for each of which a script makes a call."""

PYTHON_LOOKUPS = f"""
page = await call_tool('orders_list', {{'offset': 0, 'limit': {LOOKED_UP}}})
total = 0
for row in page['rows']:
    item = await call_tool('items_get', {{'id': row['item']}})
    total = total + item['price']
return total
"""
SCRIPT_LOOKUPS = f"""
const page = await callTool('orders_list', {{ offset: 0, limit: {LOOKED_UP} }});
let total = 0;
for (const row of page.rows) {{
  const item = await callTool('items_get', {{ id: row.item }});
  total += item.price;
}}
return total;
"""
OPEN_ORDERS = [order["id"] for order in ORDERS[:LISTED] if order["status"] == "open" and order["amount"] > 900]


@dataclass(frozen=True)
class Kind:
    """Scripts of one kind: the same work for each side."""

    name: str
    python: str
    script: str
    answer: object
    looks: bool = False
    """The client first searches for the tool and has it described, which are two more requests."""
    fails: bool = False
    """Its answer is an error that says `answer`."""


KINDS = (
    Kind("constant", "return 42", "return 42;", 42),
    Kind("1 call", python_in_turn(1), script_in_turn(1), price_sum(1)),
    Kind("5 calls in turn", python_in_turn(5), script_in_turn(5), price_sum(5)),
    Kind(
        "10 calls at once",
        PYTHON_AT_ONCE.replace("COUNT", "10"),
        SCRIPT_PROMISE_ALL.replace("COUNT", "10"),
        price_sum(10),
    ),
    Kind(f"filter {LISTED} rows", PYTHON_FILTER, SCRIPT_FILTER, OPEN_ORDERS),
    # What models mostly write of a list: a call for each of its rows, one after the other.
    Kind(
        f"a list, {LOOKED_UP} calls in turn",
        PYTHON_LOOKUPS,
        SCRIPT_LOOKUPS,
        sum(price_of(order["item"]) for order in ORDERS[:LOOKED_UP]),
    ),
    Kind("search, describe, execute", python_in_turn(1), script_in_turn(1), price_sum(1), looks=True),
    Kind(
        "a call that fails",
        "return await call_tool('orders_refund', {'id': 7})",
        "return await callTool('orders_refund', { id: 7 });",
        REFUSAL,
        fails=True,
    ),
)

PLAIN = Kind("one plain tool", "", "", {"id": 7, "name": "Item 7", "price": price_of(7), "stock": 7})
"""The floor: what a call of a tool costs over HTTP when no script is run."""


def token(owner: int) -> str:
    """The access token of an owner."""
    return f"owner-{owner}"


def codecall(server: FastMCP[Any]) -> None:
    """CodeCall with its defaults."""
    CodeCallPlugin.init().install(server)


def codemode(server: FastMCP[Any]) -> None:
    """CodeMode with its defaults."""
    server.add_transform(CodeMode())


def create_server(side: str, tools: int, owners: int) -> FastMCP[Any]:
    """The server of a side; with several owners, clients need their tokens."""
    server = build(side, tools - 1)

    @server.tool
    def orders_refund(id: int) -> str:  # noqa: A002 - the name a model would expect
        """Refund an order."""
        raise ToolError(f"order {id} is closed")

    if owners > 1:
        server.auth = StaticTokenVerifier(
            {token(owner): {"client_id": token(owner), "scopes": list[str]()} for owner in range(owners)}
        )
    SIDES[side].install(server)
    return server


async def _codecall(session: Session, kind: Kind) -> object:
    if kind.looks:
        found = (await session.call("codecall:search", {"query": "get one item"}))["structuredContent"]["tools"]
        if "items_get" not in [tool["name"] for tool in found]:
            return found
        described = (await session.call("codecall:describe", {"toolNames": ["items_get"]}))["structuredContent"]
        if [tool["name"] for tool in described["tools"]] != ["items_get"]:
            return described
    answer = await session.call("codecall:execute", {"script": kind.script})
    envelope = answer.get("structuredContent", answer)
    if kind.fails and envelope.get("status") == "tool_error" and REFUSAL in envelope["error"]["message"]:
        return REFUSAL
    return envelope["result"] if envelope.get("status") == "ok" else envelope


async def _codemode(session: Session, kind: Kind) -> object:
    if kind.looks:
        found = _text(await session.call("search", {"query": "get one item", "limit": 5}))
        if "items_get" not in found:
            return found
        described = _text(await session.call("get_schema", {"tools": ["items_get"]}))
        if "items_get" not in described:
            return described
    answer = await session.call("execute", {"code": kind.python})
    if answer.get("isError"):
        return REFUSAL if kind.fails and REFUSAL in _text(answer) else answer
    content = answer.get("structuredContent")
    if content is not None and set(content) == {"result"}:
        return content["result"]
    return msgspec.json.decode(_text(answer))


def _text(answer: dict[str, Any]) -> str:
    return "".join(part.get("text", "") for part in answer["content"])


@dataclass(frozen=True)
class Side:
    """One of the two that are compared."""

    title: str
    install: Callable[[FastMCP[Any]], None]
    ask: Callable[[Session, Kind], Any]


SIDES = {"codecall": Side("CodeCall", codecall, _codecall), "codemode": Side("CodeMode", codemode, _codemode)}


async def perform(side: str, session: Session, kind: Kind) -> str | None:
    """Have a server do some work; what is wrong with its answer, or None."""
    try:
        if kind is PLAIN:
            answer = (await session.call("items_get", {"id": 7})).get("structuredContent")
        else:
            answer = await SIDES[side].ask(session, kind)
    except Exception as failure:
        return f"{type(failure).__name__}: {failure}"
    return None if answer == kind.answer else f"answered {str(answer)[:300]}"
