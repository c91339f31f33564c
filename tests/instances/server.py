"""`examples/production/server.py`, with tools that tests steer through Redis; run by uvicorn."""

from __future__ import annotations

import os
from typing import Any

from fastmcp import FastMCP
from fastmcp.server.auth import require_scopes
from redis.asyncio import Redis

from codecall import RateLimitPlugin

os.environ["FASTMCP_DOCKET_REDELIVERY_TIMEOUT"] = "PT1S"  # before it is read

from examples.production.server import REDIS, create_server

mcp: FastMCP[Any] = create_server()


@mcp.tool
async def whoami() -> int:
    """Tell the process."""
    return os.getpid()


@mcp.tool(name="append_log")
async def append(text: str) -> int:
    """Do something that must not be done twice."""
    async with Redis.from_url(REDIS) as redis:
        return await redis.rpush("log", f"{os.getpid()} {text}")


@mcp.tool(name="pass_gate")
async def wait() -> str:
    """Say that it is here, and wait until it is let through."""
    async with Redis.from_url(REDIS) as redis:
        await redis.rpush("at the gate", os.getpid())
        await redis.blpop(["open"])
    return "passed"


@mcp.tool(name="fail_once")
async def fail_once() -> str:
    """Fail the first time, on whatever instance."""
    async with Redis.from_url(REDIS) as redis:
        if await redis.incr("tried") == 1:
            raise ValueError("not yet")
    return "worked"


@mcp.tool(name="see_secrets", auth=require_scopes("admin"))
async def secrets() -> str:
    """What only some may see."""
    return "secret"


RateLimitPlugin.init(rules=[{"tool": "whoami", "rate": "4/hour"}], storage=REDIS).install(mcp)
app = mcp.http_app(stateless_http=True)
