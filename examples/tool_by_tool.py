"""What the demo's scripts do, done tool by tool: each call is a request of its own, each answer goes to the client.

It gives the demo something to compare with, and proves that the scripts' answers are right.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fastmcp import Client
from mcp_types import ContentBlock, TextContent

from examples.demo_scripts import SINCE
from examples.git_insights import COMMITS

Server = Client[Any]
Json = dict[str, Any]


def exchanged(arguments: Mapping[str, object], content: Sequence[ContentBlock]) -> int:
    """Bytes of one call's arguments and of the text that answers it: what passes through a model."""
    texts = [json.dumps(dict(arguments)), *(block.text for block in content if isinstance(block, TextContent))]
    return sum(len(text.encode()) for text in texts)


async def best_customers(plain: Server) -> tuple[Json, int, int]:
    """The work of `demo_scripts.BEST_CUSTOMERS`: the answer, the calls, the bytes exchanged."""
    calls = size = 0

    async def call(tool: str, **arguments: object) -> Json:
        nonlocal calls, size
        answer = await plain.call_tool_mcp(tool, arguments)
        calls += 1
        size += exchanged(arguments, answer.content)
        return answer.structured_content or {}

    orders: list[Json] = []
    offset: int | None = 0
    while offset is not None:
        page = await call("orders_list", status="paid", placed_since=SINCE, limit=200, offset=offset)
        orders += page["items"]
        offset = page["next_offset"]
    revenue: dict[int, int] = {}
    for order in orders:
        revenue[order["company_id"]] = revenue.get(order["company_id"], 0) + order["total"]
    best: list[Json] = []
    for number, euros in sorted(revenue.items(), key=lambda item: -item[1])[:5]:
        company = await call("companies_get", id=number)
        deals = await call("deals_list", company_id=number, limit=200)
        owner = await call("users_get", id=company["owner_id"])
        pipeline = sum(deal["amount"] for deal in deals["items"] if deal["closed_at"] is None)
        best.append({"company": company["name"], "owner": owner["name"], "euros": euros, "pipeline": pipeline})
    return {"orders": len(orders), "best": best}, calls, size


async def git_insights(plain: Server, folder: Path) -> tuple[int, int]:
    """The calls of `git_insights.SCRIPT`: how many, and the bytes exchanged."""
    calls = size = 0

    async def call(tool: str, **arguments: object) -> str:
        nonlocal calls, size
        given = {"repo_path": str(folder), **arguments}
        answer = await plain.call_tool_mcp(tool, given)
        calls += 1
        size += exchanged(given, answer.content)
        return "".join(block.text for block in answer.content if isinstance(block, TextContent))

    history = await call("git_log", max_count=COMMITS)
    await call("git_status")
    await call("git_diff_staged", context_lines=0)
    await call("git_diff_unstaged", context_lines=0)
    for line in history.splitlines():
        if line.startswith("Commit: "):
            await call("git_show", revision=line.removeprefix("Commit: "))
    return calls, size
