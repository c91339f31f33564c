"""Runs `remember_repository`, a workflow over `mcp-server-git` and `server-memory`, which calls a script of its folder.

    python -m examples.composite [REPOSITORY] [--npx]

Without REPOSITORY a small one is made to look at. The graph is the stand-in of `memory.py` unless `--npx` says
to start the published server with Node.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from fastmcp import Client

from codecall.gateway.config.load import read_config
from codecall.gateway.config.options import GatewayOptions
from codecall.gateway.gateway import Gateway
from examples.git_insights import make_repository

HERE = Path(__file__).parent


def options(*, npx: bool) -> GatewayOptions:
    """The configuration beside this file, with servers that need nothing to be installed."""
    configured = read_config(HERE / "codecall.toml").options
    servers: dict[str, Any] = {"git": {"command": sys.executable, "args": ["-m", "mcp_server_git"]}}
    if not npx:
        servers["memory"] = {"command": sys.executable, "args": [str(HERE / "memory.py")]}
    stand_ins = GatewayOptions.read({"servers": servers}, where="").servers
    return configured.model_copy(update={"servers": {**configured.servers, **stand_ins}, "cache_dir": False})


async def remember(repository: Path, *, npx: bool) -> dict[str, Any]:
    """What the workflow gives for a repository."""
    gateway = Gateway(options(npx=npx))
    async with gateway, Client(gateway.server) as client:
        arguments = {"name": repository.name, "repo_path": str(repository)}
        result = await client.call_tool("remember_repository", arguments)
    return result.structured_content or {}


def main() -> int:
    """Print what the workflow gives."""
    parser = argparse.ArgumentParser(prog="python -m examples.composite")
    parser.add_argument("repository", nargs="?", type=Path)
    parser.add_argument("--npx", action="store_true", help="start the published server-memory with Node")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        repository = arguments.repository or Path(folder) / "shop"
        if arguments.repository is None:
            repository.mkdir()
            make_repository(repository)
        print(json.dumps(asyncio.run(remember(repository.resolve(), npx=arguments.npx)), indent=2))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
