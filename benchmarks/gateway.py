"""What the gateway costs: from its start until tools are listed, and for one call. FastMCP's own proxy beside it.

    python benchmarks/gateway.py [--servers 5] [--tools 40] [--starts 7] [--calls 400]
        [--write docs/operations/performance.md]

A client that does nothing but read and write lines starts each program, greets it (`initialize`), lists its tools, and
calls one tool again and again; the servers behind are `many_tools.py`. Starts and calls of all sides take turns, so
that whatever else the machine does disturbs all of them alike. The gateway is started a second time by a client of the
era without a handshake; FastMCP's proxy lists no tools of several servers to such a client.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
BEGIN, END = "<!-- measured by benchmarks/gateway.py -->", "<!-- end of measured -->"

PROXY = """
import json, sys
from fastmcp.server import create_proxy
create_proxy(json.load(open(sys.argv[1]))).run(show_banner=False, log_level="ERROR")
"""
MODERN = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "benchmark", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
CALLED = "list_invoice_0"


class Program:
    """One server over stdio, and the time since it was started."""

    def __init__(self, command: Sequence[str], *, modern: bool = False) -> None:
        self._modern = modern
        self._number = 0
        self._started = time.perf_counter()
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=HERE.parent
        )

    @property
    def pid(self) -> int:
        """Process id of the server."""
        return self._process.pid

    def ask(self, method: str, **params: object) -> dict[str, Any]:
        """The result of one request."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._number += 1
        said = {**params, **({"_meta": MODERN} if self._modern else {})}
        message = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": said}
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()
        while line := self._process.stdout.readline():
            answer: dict[str, Any] = json.loads(line)
            if answer.get("id") == self._number:
                return answer["result"]
        raise RuntimeError(f"the server has left; exit code {self._process.wait()}")

    def listed(self) -> tuple[float, list[str]]:
        """Milliseconds from the start to the list of tools, and their names."""
        if self._modern:
            self.ask("server/discover")
        else:
            info = {"name": "benchmark", "version": "1"}
            self.ask("initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo=info)
        tools = self.ask("tools/list")["tools"]
        return (time.perf_counter() - self._started) * 1000, [tool["name"] for tool in tools]

    def age_ms(self) -> float:
        """Milliseconds since the start."""
        return (time.perf_counter() - self._started) * 1000

    def close(self) -> None:
        """Leave, and wait for its end."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(30)
        self._process.stdout.close()


class Side(NamedTuple):
    """One of those that are compared."""

    name: str
    command: Sequence[str]
    tool: str
    arguments: Mapping[str, object]


class Measured(NamedTuple):
    """What came out."""

    tools: int
    starts: dict[str, list[float]]
    """Milliseconds until tools were listed."""
    first_calls: dict[str, list[float]]
    """Milliseconds until the first call was answered."""
    calls: dict[str, list[float]]
    """Milliseconds of one call."""


def sides(folder: Path, servers: int, tools: int) -> tuple[Side, Side, Side, Side]:
    """The server itself, the gateway asked in two ways, and FastMCP's proxy."""
    commands = {
        f"server{number}": [sys.executable, "-I", str(HERE / "many_tools.py"), f"server{number}", str(tools)]
        for number in range(servers)
    }
    config = folder / "mcp.json"
    config.write_text(
        json.dumps({"mcpServers": {name: {"command": words[0], "args": words[1:]} for name, words in commands.items()}})
    )
    gateway = [sys.executable, "-m", "codecall.cli", "serve", "--config", str(config), "--cache-dir", str(folder / "c")]
    plain, invoke = {"id": "7"}, {"tool": f"server0_{CALLED}", "input": {"id": "7"}}
    return (
        Side("the server itself", commands["server0"], CALLED, plain),
        Side("`codecall serve`, `codecall_invoke`", [*gateway, "--expose", "always"], "codecall_invoke", invoke),
        Side("`codecall serve`, the tool", [*gateway, "--expose", "never"], f"server0_{CALLED}", plain),
        Side("FastMCP's `create_proxy`", [sys.executable, "-c", PROXY, str(config)], f"server0_{CALLED}", plain),
    )


def timed(work: Callable[[], object]) -> float:
    """Milliseconds of it."""
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1000


def measure(servers: int, tools: int, starts: int, calls: int, settle_s: float) -> Measured:
    """Measure everything, in turns; calls so long after the first."""
    started: dict[str, list[float]] = {}
    first: dict[str, list[float]] = {}
    called: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        direct, gateway, plain, proxy = sides(folder, servers, tools)
        expected = {side.name: tools if side is direct else servers * tools for side in (direct, plain, proxy)}
        expected[gateway.name] = 4

        def start(side: Side, row: str, *, modern: bool = False) -> None:
            program = Program(side.command, modern=modern)
            took, names = program.listed()
            assert len(names) == expected[side.name], f"{side.name} lists {len(names)} tools"
            started.setdefault(row, []).append(took)
            program.ask("tools/call", name=side.tool, arguments=side.arguments)
            first.setdefault(row, []).append(program.age_ms())
            program.close()

        for _ in range(starts):
            shutil.rmtree(folder / "c", ignore_errors=True)
            start(gateway, "`codecall serve`, nothing known")
            start(gateway, "`codecall serve`, catalogs known")
            start(gateway, "`codecall serve`, catalogs known, without a handshake", modern=True)
            start(proxy, proxy.name)
        running = [(side, Program(side.command)) for side in (direct, gateway, plain, proxy)]
        for side, program in running:
            program.listed()
            for _ in range(20 if side is not proxy else 1):
                said = program.ask("tools/call", name=side.tool, arguments=side.arguments)
                assert "7" in json.dumps(said["structuredContent"]), said
        time.sleep(settle_s)
        for _ in range(max(1, calls // 20)):
            for side, program in running:
                times = called.setdefault(side.name, [])
                for _ in range(20 if side is not proxy else 1):  # it asks every server for its tools each time
                    times.append(
                        timed(lambda s=side, p=program: p.ask("tools/call", name=s.tool, arguments=s.arguments))
                    )
        for _, program in running:
            program.close()
    return Measured(servers * tools, started, first, called)


def report(measured: Measured) -> str:
    """Both tables as Markdown."""
    import fastmcp

    lines = [
        f"{measured.tools} tools, Python {platform.python_version()}, FastMCP {fastmcp.__version__}, "
        f"{os.cpu_count()} cores ({platform.machine()}); medians.",
        "",
        "| from the start of the process until | tools are listed | the first call is answered |",
        "| --- | ---: | ---: |",
    ]
    for row, times in measured.starts.items():
        first = statistics.median(measured.first_calls[row])
        lines.append(f"| {row} | {statistics.median(times):,.0f} ms | {first:,.0f} ms |")
    lines += ["", "| one call | takes | adds |", "| --- | ---: | ---: |"]
    base = statistics.median(next(iter(measured.calls.values())))
    for row, times in measured.calls.items():
        took = statistics.median(times)
        lines.append(f"| {row} | {took:.2f} ms | {f'{took - base:.2f} ms' if took != base else ''} |")
    return "\n".join(lines)


def write(file: Path, text: str) -> None:
    """Put the tables between the marks in a document."""
    before, rest = file.read_text(encoding="utf-8").split(BEGIN)
    file.write_text(f"{before}{BEGIN}\n{text}\n{END}{rest.split(END)[1]}", encoding="utf-8")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--servers", type=int, default=5)
    parser.add_argument("--tools", type=int, default=40, help="of each server")
    parser.add_argument("--starts", type=int, default=7)
    parser.add_argument("--calls", type=int, default=400)
    parser.add_argument("--settle", type=float, default=5, help="seconds for what is loaded behind the first calls")
    parser.add_argument("--json", action="store_true", help="all times instead of tables")
    parser.add_argument("--write", type=Path, help="a document to put the tables into")
    asked = parser.parse_args()
    measured = measure(asked.servers, asked.tools, asked.starts, asked.calls, asked.settle)
    print(json.dumps(measured._asdict()) if asked.json else report(measured))
    if asked.write is not None:
        write(asked.write, report(measured))


if __name__ == "__main__":
    main()
