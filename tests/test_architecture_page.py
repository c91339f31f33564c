"""`docs/internals/architecture.md` names the modules that one execute passes: compared with what a profiler sees."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import threading
from pathlib import Path
from types import FrameType

from fastmcp import Client, FastMCP

from codecall import CodeCallPlugin, load_preset
from codecall.sandbox import wire
from codecall.sandbox.enclave import LimitsCache

REPOSITORY = Path(__file__).parent.parent
PACKAGE = str(REPOSITORY / "codecall") + "/"
PAGE = REPOSITORY / "docs" / "internals" / "architecture.md"

SCRIPT = "return (await callTool('sum', { a: 1, b: 2 })).result;"
MAX_SERVER = 50
MAX_WORKER = 23

RUNS = 5
"""Runs that are watched: what all pass is on the page, and the page names nothing that none passes."""

WORKER = """
import os, socket, sys
from codecall.sandbox.worker import serve, startup

shared = startup.load_and_jail()
passed, host = set(), socket.socket(fileno=0)

def watch(frame, event, argument):
    if event == "call":
        file = frame.f_code.co_filename
        if frame.f_code.co_name == "_run" and file.endswith("worker/serve.py"):
            passed.clear()
        passed.add(file)

def leave(code, leave=os._exit):
    sys.setprofile(None)
    host.sendall("\\n".join(passed).encode())
    leave(code)

os._exit = leave
sys.setprofile(watch)
serve.run(shared)
"""
"""A worker in its jail that says at its end, over the one descriptor it has, what its last script passed."""


def modules(files: set[str]) -> set[str]:
    """Paths in the package of those files that belong to it."""
    return {file.removeprefix(PACKAGE) for file in files if file.startswith(PACKAGE)}


async def passed_in_server() -> list[set[str]]:
    """What one execute with one call passes in the server's process, for each of some runs."""
    server = FastMCP("path")
    server.tool(lambda a, b: {"result": a + b}, name="sum")
    CodeCallPlugin.init().install(server)
    files: set[str] = set()

    def watch(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call":
            files.add(frame.f_code.co_filename)

    runs: list[set[str]] = []
    async with Client(server) as client:
        for number in range(RUNS + 1):
            files.clear()
            threading.setprofile(watch)
            sys.setprofile(watch)
            try:
                answer = await client.call_tool("codecall:execute", {"script": SCRIPT})
            finally:
                sys.setprofile(None)
                threading.setprofile(None)
            assert answer.structured_content is not None
            assert answer.structured_content["result"] == 3
            if number:  # the first loads what others find loaded
                runs.append(modules(files))
    return runs


def passed_in_worker() -> set[str]:
    """What one script with one call passes in a worker, from its start to its end."""
    host, worker = socket.socketpair()
    limits = LimitsCache(0).limits(load_preset("secure"))
    with host, subprocess.Popen([sys.executable, "-c", WORKER], stdin=worker, cwd=REPOSITORY) as process:
        worker.close()
        host.sendall(wire.pack(wire.Prepare(limits, runs=2, cpu_seconds=60, require_jail=False)))
        assert isinstance(receive(host), wire.Ready)
        for script in (SCRIPT, f"{SCRIPT}\n"):  # one that comes again is not read again
            host.sendall(wire.pack(wire.Start(script, limits)))
            while not isinstance(message := receive(host), wire.Done):
                match message:
                    case wire.Calls(calls):
                        answers = [wire.Answer(call.call, ok=True, payload='{"result": 3}') for call in calls]
                        host.sendall(wire.pack(wire.Answers(answers)))
                    case _:
                        raise AssertionError(message)
            assert message.value == "3", message
        text = b"".join(iter(lambda: host.recv(65_536), b"")).decode()
        code = process.wait()
    assert code == 0, f"the worker ended with {code}"
    return modules(set(text.split("\n")))


def receive(host: socket.socket) -> wire.WorkerMessage:
    """The next message of the worker."""
    (length,) = wire.HEADER.unpack(host.recv(wire.HEADER.size, socket.MSG_WAITALL))
    return wire.decode_worker_message(host.recv(length, socket.MSG_WAITALL))


def named_on_the_page(part: str) -> set[str]:
    """The modules in the block below the line of the page that begins with `part`."""
    text = PAGE.read_text(encoding="utf-8")
    block = text.partition(f"\n{part}")[2].partition("```text\n")[2].partition("```")[0]
    return set(re.findall(r"[\w/]+\.py", block))


async def test_the_page_names_the_modules_that_one_execute_passes_in_the_server():
    runs = await passed_in_server()
    print(f"modules passed in the server: {sorted(map(len, runs))}")
    named = named_on_the_page("In the server")
    assert set.intersection(*runs) <= named
    assert named <= set.union(*runs)
    assert max(map(len, runs)) <= MAX_SERVER


def test_the_page_names_the_modules_that_one_execute_passes_in_the_worker():
    passed = passed_in_worker()
    print(f"modules passed in the worker: {len(passed)}")
    assert named_on_the_page("In the worker") == passed
    assert len(passed) <= MAX_WORKER
