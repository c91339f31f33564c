"""A server that is killed in the middle of a run: another one completes it without repeating a step."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from fastmcp import Client
from fastmcp.client.transports import PythonStdioTransport
from fastmcp.exceptions import ToolError
from mcp import MCPError

from tests.loaded_python import LoadedPython

SERVER = """
import os, signal
from pathlib import Path
from fastmcp import FastMCP
from key_value.aio.stores.filetree import FileTreeStore
from codecall import CodeCallPlugin

folder = Path(__file__).parent
mcp = FastMCP("killed")

@mcp.tool
def work(step: str) -> str:
    with (folder / "calls").open("a") as file:
        file.write(step + " ")
    if step == "b" and not (folder / "killed").exists():
        (folder / "killed").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return step

steps = [
    {"id": "a", "tool": "work", "arguments": {"step": "a"}},
    {"id": "b", "tool": "work", "arguments": {"step": "b"}, "dependsOn": ["a"]},
    {"id": "c", "tool": "work", "arguments": {"step": "{{.steps.b.output.text}}c"}, "dependsOn": ["b"]},
]
CodeCallPlugin.init(
    composite_tools=[{"name": "flow", "description": "Three steps", "steps": steps}],
    resume={"store": FileTreeStore(data_directory=folder / "runs")},
    pool={"min_workers": 0},
).install(mcp)
mcp.run(show_banner=False)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the run counts as running until its time is up")
async def test_a_run_goes_on_on_another_server(loaded_python: LoadedPython, tmp_path: Path):
    script = tmp_path / "server.py"
    script.write_text(SERVER, encoding="utf-8")
    (tmp_path / "runs").mkdir()
    transport = PythonStdioTransport(script, python_cmd=loaded_python.executable, keep_alive=False)
    with pytest.raises((MCPError, ToolError, RuntimeError)):
        async with Client(transport) as client:
            await client.call_tool("flow", {})
    # The record of a call is written before the next step begins.
    records = "".join(file.read_text(encoding="utf-8") for file in (tmp_path / "runs").rglob("*") if file.is_file())
    run_id = re.findall(r"run_[0-9a-f]{32}", records)[0]
    async with Client(PythonStdioTransport(script, python_cmd=loaded_python.executable, keep_alive=False)) as client:
        result = await client.call_tool("flow", {"resumeFrom": run_id})
    assert result.data == "bc"
    assert (tmp_path / "calls").read_text(encoding="utf-8").split() == ["a", "b", "b", "bc"]
