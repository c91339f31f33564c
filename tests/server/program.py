"""A server with tools that wait until they are let go; the tests run it as a process of its own.

`python -m tests.server.program GRACE_S FD` serves HTTP on the listening socket FD, without FD over stdio.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections import defaultdict
from typing import Any

from fastmcp import FastMCP

from codecall import CodeCallPlugin


def create_server(grace_s: float) -> FastMCP[Any]:
    """The server."""
    plugin = CodeCallPlugin.init(vm={"preset": "secure"}, shutdown={"grace_s": grace_s, "on_sigterm": True})
    server: FastMCP[Any] = FastMCP("stopping", transforms=[plugin])
    gates: dict[str, asyncio.Event] = defaultdict(asyncio.Event)

    @server.tool
    async def hold(name: str) -> str:
        """Say so, and wait to be let go."""
        print(f"held {name}", file=sys.stderr, flush=True)
        await gates[name].wait()
        return name

    @server.tool
    async def free(name: str) -> None:
        """Let it go."""
        gates[name].set()

    @server.tool
    async def processes() -> list[int]:
        """This one, and the workers."""
        return [os.getpid(), *plugin.worker_pids]

    return server


if __name__ == "__main__":
    mcp = create_server(float(sys.argv[1]))
    if sys.argv[2:]:
        mcp.run("http", show_banner=False, sockets=[socket.socket(fileno=int(sys.argv[2]))])
    else:
        mcp.run("stdio", show_banner=False)
