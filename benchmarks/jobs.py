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
    inside: Callable[[Context], Awaitable[object]]
    """The same calls, made by a FastMCP tool of the same server."""
    answer: object
    calls: int
    target: float | None = None
    """Least CodeMode / CodeCall, from the project's goals."""
    direct_target: float | None = None
    """Most CodeCall / one direct call of a tool, from the same."""
    inside_target: float | None = None
    """Most CodeCall / the same calls made inside a tool, from the same."""
    clients: int = 1
    repeat: int = 1
    """Timed runs per round, for jobs too short to measure once."""
    small: bool = False
    """Measured on the small server, too."""

    def numbered(self, number: int) -> tuple[str, str]:
        """Python and script of one run; a script in which `RUN` stands is a new one each time."""
        return self.python.replace("RUN", str(number)), self.script.replace("RUN", str(number))


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
PYTHON_NEW = """
# Report RUN: what three items cost, and what an order of several of each would.
report = []
for number in range(1, 4):
    item = await call_tool('items_get', {'id': number})
    lines = []
    for amount in [1, 5, 10, 25]:
        total = item['price'] * amount
        discount = 0
        if amount >= 25:
            discount = total // 10
        elif amount >= 10:
            discount = total // 20
        lines.append({'amount': amount, 'total': total - discount, 'discount': discount})
    report.append({'id': item['id'], 'name': item['name'], 'lines': lines})
return sum([line['total'] for entry in report for line in entry['lines']])
"""
SCRIPT_NEW = """
// Report RUN: what three items cost, and what an order of several of each would.
const AMOUNTS = [1, 5, 10, 25];
const discountOf = (total, amount) => {
  if (amount >= 25) return Math.floor(total / 10);
  if (amount >= 10) return Math.floor(total / 20);
  return 0;
};
const linesOf = (item) => AMOUNTS.map((amount) => {
  const total = item.price * amount;
  const discount = discountOf(total, amount);
  return { amount, total: total - discount, discount, label: `${item.name} x ${amount}` };
});
const report = [];
for (const id of [1, 2, 3]) {
  const item = await callTool('items_get', { id });
  const lines = linesOf(item);
  const cheapest = lines.reduce((best, line) => (line.total < best.total ? line : best), lines[0]);
  report.push({ id: item.id, name: item.name, lines, cheapest: cheapest.label });
}
const summary = {
  run: RUN,
  items: report.length,
  names: report.map((entry) => entry.name).join(', '),
  discounts: report.flatMap((entry) => entry.lines).reduce((sum, line) => sum + line.discount, 0),
  totals: report.map(({ id, lines }) => ({ id, total: lines.reduce((sum, line) => sum + line.total, 0) })),
};
const perItem = Object.fromEntries(summary.totals.map(({ id, total }) => [`item ${id}`, total]));
const sorted = Object.entries(perItem).sort(([, a], [, b]) => b - a);
const [mostExpensive = ['none', 0]] = sorted;
const checks = [
  { name: 'three items', ok: summary.items === 3 },
  { name: 'every item has lines', ok: report.every((entry) => entry.lines.length === AMOUNTS.length) },
  { name: 'no negative totals', ok: sorted.every(([, total]) => total >= 0) },
  { name: 'a most expensive item', ok: mostExpensive[0] !== 'none' },
];
const failed = checks.filter((check) => !check.ok).map((check) => check.name);
if (failed.length > 0) throw new Error(`Report ${summary.run} is wrong: ${failed.join(', ')}`);
return summary.totals.reduce((sum, entry) => sum + entry.total, 0);
"""
"""About 2 KB, as a model writes it for a report; the number makes each one new."""


def _report_total() -> int:
    total = 0
    for number in range(1, 4):
        for amount in (1, 5, 10, 25):
            whole = price_of(number) * amount
            total += whole - (whole // 10 if amount >= 25 else whole // 20 if amount >= 10 else 0)
    return total


async def _report(ctx: Context) -> object:
    for number in range(1, 4):
        await direct_call(ctx, "items_get", {"id": number})
    return _report_total()


OPEN_ORDERS = [order["id"] for order in ORDERS if order["status"] == "open" and order["amount"] > 900]


def jobs() -> list[Job]:
    """What is measured, with the goals of the project."""

    def in_turn(name: str, count: int, **more: Any) -> Job:
        return Job(name, python_in_turn(count), script_in_turn(count), _in_turn(count), price_sum(count), count, **more)

    def at_once(name: str, script: str, *, count: int, target: float, clients: int = 1, **more: Any) -> Job:
        python = PYTHON_AT_ONCE.replace("COUNT", str(count))
        body = script.replace("COUNT", str(count))
        return Job(name, python, body, _at_once(count), price_sum(count), count, target, clients=clients, **more)

    new = Job("a new script of 2 KB, 3 calls", PYTHON_NEW, SCRIPT_NEW, _report, _report_total(), 3, 2.0, repeat=3)
    pages = ROWS // PAGE
    return [
        Job("constant", "return 42", "return 42;", _constant, 42, 0, 3.0, 2.0, repeat=5, small=True),
        in_turn("1 call", 1, target=3.0, direct_target=2.8, repeat=5, small=True),
        in_turn("10 calls in turn", 10, target=2.8, inside_target=1.7, repeat=3, small=True),
        in_turn("100 calls in turn", 100, target=2.8, inside_target=1.35),
        at_once("100 at once, Promise.all", SCRIPT_PROMISE_ALL, count=100, target=3.2, inside_target=1.15),
        at_once("100 at once, __safe_parallel", SCRIPT_SAFE_PARALLEL, count=100, target=3.2, inside_target=1.15),
        Job(f"page {ROWS:,} rows and filter", PYTHON_FILTER, SCRIPT_FILTER, _filter, OPEN_ORDERS, pages, 2.3),
        in_turn("60 clients at once, 1 call each", 1, target=3.0, clients=60),
        new,
    ]
