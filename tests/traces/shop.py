"""A server with tools that take their time, and runs of it that pages are made of."""

from __future__ import annotations

import asyncio
from typing import Any

from fastmcp import Client, FastMCP

from codecall import CodeCallPlugin
from codecall.traces import Trace, TraceRecorder

SECRET = "hunter22-4eC39HqLyjWD"

REPORT = """\
// Which regions are late, and what do their open orders come to?
const { token } = await callTool('auth_login', { user: 'ann', password: 'hunter22-4eC39HqLyjWD' });
const { regions } = await callTool('regions_list', { token });
console.log(`${regions.length} regions`);

const orders = await Promise.all(
  regions.map((region) => callTool('orders_search', { region, status: 'open', limit: 50 })),
);

const late = [];
for (const [index, region] of regions.entries()) {
  const open = orders[index].orders.filter((order) => order.days > 14);
  if (!open.length) continue;
  const rate = await callTool('rates_convert', { region, to: 'EUR' });
  late.push({ region, orders: open.length, euros: open.reduce((sum, order) => sum + order.total, 0) * rate.factor });
}
console.warn(`${late.length} of them are late`);
return late.toSorted((a, b) => b.euros - a.euros);
"""

FAILING = """\
const { token } = await callTool('auth_login', { user: 'ann', password: 'hunter22-4eC39HqLyjWD' });
const { regions } = await callTool('regions_list', { token });
const orders = await Promise.all(
  regions.map((region) => callTool('orders_search', { region, status: 'open', limit: 50 })),
);
console.log(`${orders.length} answers`);
for (const region of regions) {
  await callTool('rates_convert', { region: region.toUpperCase(), to: 'EUR' });
}
"""
REGIONS = ["north", "south", "east", "west", "coast", "inland", "islands"]


def shop(**plugin: Any) -> FastMCP[Any]:
    """The server."""
    server: FastMCP[Any] = FastMCP("shop")

    @server.tool(name="auth_login")
    async def login(user: str, password: str) -> dict[str, str]:
        await asyncio.sleep(0.03)
        return {"user": user, "token": SECRET}

    @server.tool(name="regions_list")
    async def regions(token: str) -> dict[str, list[str]]:
        await asyncio.sleep(0.02)
        return {"regions": REGIONS}

    @server.tool(name="orders_search")
    async def search(region: str, status: str, limit: int) -> dict[str, Any]:
        place = REGIONS.index(region)
        await asyncio.sleep(0.03 + 0.015 * (place * 5 % 7))
        rows = [{"id": 1000 * place + n, "days": n * place % 23, "total": 10.5 * n + place} for n in range(12)]
        return {"orders": rows, "limit": limit, "status": status}

    @server.tool(name="rates_convert")
    async def convert(region: str, to: str) -> dict[str, Any]:
        await asyncio.sleep(0.012)
        if region not in REGIONS:
            raise ValueError(f"There is no region {region}: regions are written in small letters")
        return {"to": to, "factor": 1.0 if region < "n" else 0.93}

    CodeCallPlugin.init(pool={"min_workers": 1, "max_workers": 1}, **plugin).install(server)
    return server


async def traced(*scripts: str) -> list[Trace]:
    """The traces of scripts that were run on that server, one after the other."""
    recorder = TraceRecorder()
    traces: list[Trace] = []
    async with Client(shop(audit={"sinks": [], "watchers": [recorder]})) as client:
        for script in scripts:
            await client.call_tool("codecall:execute", {"script": script})
            trace = await asyncio.to_thread(recorder.trace)
            assert trace is not None
            traces.append(trace)
    return traces
