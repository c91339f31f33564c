"""The work `vs_codemode.py` measures, three times over: Python for CodeMode, AgentScript for CodeCall, direct calls."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from fastmcp import Context

from benchmarks.shop import ORDERS, PAGE, ROWS, direct_call, price_of


@dataclass(frozen=True)
class Job:
    """The same work, written for each side."""

    name: str
    python: str
    script: str
    direct: Callable[[Context], Awaitable[object]]
    answer: object
    calls: int
    target: float | None = None
    """Least CodeMode / CodeCall, from the project's goals."""
    direct_target: float | None = None
    """Most CodeCall / direct, from the same."""
    clients: int = 1
    repeat: int = 1
    """Timed runs per round, for jobs too short to measure once."""


async def _constant(ctx: Context) -> object:
    return 42


def _in_turn(count: int) -> Callable[[Context], Awaitable[object]]:
    async def run(ctx: Context) -> object:
        total = 0
        for number in range(1, count + 1):
            total += (await direct_call(ctx, "items_get", {"id": number}))["price"]  # type: ignore[operator]
        return total

    return run


def _at_once(count: int) -> Callable[[Context], Awaitable[object]]:
    async def run(ctx: Context) -> object:
        calls = [direct_call(ctx, "items_get", {"id": number}) for number in range(1, count + 1)]
        return sum(item["price"] for item in await asyncio.gather(*calls))  # type: ignore[misc]

    return run


async def _filter(ctx: Context) -> object:
    found = []
    for offset in range(0, ROWS, PAGE):
        page = await direct_call(ctx, "orders_list", {"offset": offset, "limit": PAGE})
        found += [row["id"] for row in page["rows"] if row["status"] == "open" and row["amount"] > 900]  # type: ignore
    return found


def price_sum(count: int) -> int:
    """What the first `count` items cost together."""
    return sum(price_of(number) for number in range(1, count + 1))


def python_in_turn(count: int) -> str:
    """Add up the prices of that many items, one call after the other, for CodeMode."""
    return f"""
total = 0
for number in range(1, {count} + 1):
    item = await call_tool('items_get', {{'id': number}})
    total = total + item['price']
return total
"""


def script_in_turn(count: int) -> str:
    """The same for CodeCall."""
    return f"""
let total = 0;
for (let id = 1; id <= {count}; id++) {{
  const item = await callTool('items_get', {{ id }});
  total += item.price;
}}
return total;
"""


PYTHON_AT_ONCE = """
import asyncio
items = await asyncio.gather(*[call_tool('items_get', {'id': number}) for number in range(1, COUNT + 1)])
return sum([item['price'] for item in items])
"""
SCRIPT_PROMISE_ALL = """
const ids = Array.from({ length: COUNT }, (_, i) => i + 1);
const items = await Promise.all(ids.map((id) => callTool('items_get', { id })));
return items.reduce((sum, item) => sum + item.price, 0);
"""
SCRIPT_SAFE_PARALLEL = """
const ids = Array.from({ length: COUNT }, (_, i) => i + 1);
const items = await __safe_parallel(ids.map((id) => () => callTool('items_get', { id })), { maxConcurrency: 20 });
return items.reduce((sum, item) => sum + item.price, 0);
"""
PYTHON_FILTER = f"""
found = []
for number in range({ROWS // PAGE}):
    page = await call_tool('orders_list', {{'offset': number * {PAGE}, 'limit': {PAGE}}})
    for row in page['rows']:
        if row['status'] == 'open' and row['amount'] > 900:
            found.append(row['id'])
return found
"""
SCRIPT_FILTER = f"""
const found = [];
for (let offset = 0; offset < {ROWS}; offset += {PAGE}) {{
  const page = await callTool('orders_list', {{ offset, limit: {PAGE} }});
  found.push(...page.rows.filter((row) => row.status === 'open' && row.amount > 900).map((row) => row.id));
}}
return found;
"""
OPEN_ORDERS = [order["id"] for order in ORDERS if order["status"] == "open" and order["amount"] > 900]


def jobs() -> list[Job]:
    """What is measured, with the goals of the project."""

    def in_turn(name: str, count: int, **more: Any) -> Job:
        return Job(name, python_in_turn(count), script_in_turn(count), _in_turn(count), price_sum(count), count, **more)

    def at_once(name: str, script: str, *, count: int = 100, target: float = 2.5, clients: int = 1) -> Job:
        python = PYTHON_AT_ONCE.replace("COUNT", str(count))
        body = script.replace("COUNT", str(count))
        return Job(name, python, body, _at_once(count), price_sum(count), count, target=target, clients=clients)

    return [
        Job("return a constant", "return 42", "return 42;", _constant, 42, 0, target=3.0, repeat=5),
        in_turn("1 call", 1, target=2.5, repeat=5),
        in_turn("10 calls in turn", 10, target=2.0, repeat=3),
        in_turn("100 calls in turn", 100, target=2.0, direct_target=1.6),
        at_once("100 at once, Promise.all", SCRIPT_PROMISE_ALL),
        at_once("100 at once, __safe_parallel", SCRIPT_SAFE_PARALLEL),
        Job(f"page {ROWS:,} rows and filter", PYTHON_FILTER, SCRIPT_FILTER, _filter, OPEN_ORDERS, ROWS // PAGE),
        at_once("60 clients at once, 10 calls each", SCRIPT_PROMISE_ALL, count=10, target=3.5, clients=60),
    ]
