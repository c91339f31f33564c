"""The Prometheus example runs as it is: a server over HTTP, a client, and a scrape."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from fastmcp import Client
from prometheus_client.parser import text_string_to_metric_families

from tests.loaded_python import LoadedPython

REPOSITORY = Path(__file__).parents[2]
SERVER = REPOSITORY / "examples" / "prometheus" / "server.py"
SCRIPT = """
const products = await callTool('list_products', {});
return await Promise.all(products.map(product => callTool('get_stock', { product })));
"""


@pytest.fixture
def ports() -> tuple[int, int]:
    """Two that are free."""
    with socket.socket() as one, socket.socket() as two:
        for each in (one, two):
            each.bind(("127.0.0.1", 0))
        return one.getsockname()[1], two.getsockname()[1]


@pytest.fixture
def server(ports: tuple[int, int], loaded_python: LoadedPython) -> Iterator[subprocess.Popen[str]]:
    command = [loaded_python.executable, str(SERVER), "--port", str(ports[0]), "--metrics-port", str(ports[1])]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "Uvicorn running" in line:
                break
        else:
            raise AssertionError("the server ended")
        yield process
        process.terminate()
        process.stderr.read()


async def test_a_scrape_has_what_happened(server: subprocess.Popen[str], ports: tuple[int, int]) -> None:
    async with Client(f"http://127.0.0.1:{ports[0]}/mcp") as client:
        await client.list_tools()
        done = await client.call_tool("codecall:execute", {"script": SCRIPT})
        assert done.structured_content is not None
        assert done.structured_content["result"] == [12, 0, 7]
        async with httpx.AsyncClient() as web:
            page = (await web.get(f"http://127.0.0.1:{ports[1]}/metrics")).text
    samples = {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        if sample.name.startswith("codecall_")
    }
    assert samples["codecall_executions_total", "false", "ok"] == 1
    assert samples["codecall_tool_calls_total", "execute", "get_stock", "ok", "tool"] == 3
    assert samples["codecall_tool_calls_total", "execute", "list_products", "ok", "tool"] == 1
    assert samples["codecall_tool_duration_seconds_count", "ok", "tool"] == 4
    assert samples["codecall_request_duration_seconds_count", "execute", "ok"] == 1
    assert samples["codecall_script_duration_seconds_count", "ok"] == 1
    assert samples["codecall_queue_duration_seconds_count",] == 1
    assert samples["codecall_queue_depth",] == 0
    assert samples["codecall_worker_limit",] == 8
    assert samples["codecall_worker_count", "busy"] == 0
    assert samples["codecall_worker_count", "idle"] >= 1
    assert samples["codecall_io_bytes_total", "scripts"] == len(SCRIPT)
