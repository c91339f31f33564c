"""Servers whose lists a test writes: the program of `servers/listed.py`, and what it was asked."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path

from codecall.gateway.config.options import GatewayOptions
from codecall.gateway.gateway import Gateway

PROGRAM = Path(__file__).parent / "servers" / "listed.py"


def tool(name: str, description: str = "", **annotations: bool) -> dict[str, object]:
    """A tool as a server lists it."""
    hints = {"annotations": annotations} if annotations else {}
    return {"name": name, "description": description, "inputSchema": {"type": "object"}, **hints}


class Listed:
    """A server that lists what `say` was given last.

    Args:
        folder: where its file is.
        name: of the server.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self.name = name
        self.file = folder / f"{name}.json"
        self.say()

    def say(self, *tools: dict[str, object], **more: object) -> None:
        """Have it list these tools; `more` is as the program has it."""
        self.file.write_text(json.dumps({"name": self.name, "tools": tools, **more}), encoding="utf-8")

    @property
    def options(self) -> dict[str, object]:
        """Of a server of a gateway."""
        return {"command": sys.executable, "args": [str(PROGRAM), str(self.file)]}

    @property
    def asked(self) -> list[str]:
        """What it was asked, in order; `start` for each time it was started."""
        log = Path(f"{self.file}.log")
        return [line.split()[0] for line in log.read_text().splitlines()] if log.exists() else []


def gateway(folder: Path, *servers: Listed, each: Mapping[str, object] | None = None, **options: object) -> Gateway:
    """A gateway in front of these, which keeps what they list below `folder`.

    Args:
        folder: for its cache.
        servers: behind it.
        each: options of each of them.
        **options: of the gateway.
    """
    behind = {server.name: {**server.options, **(each or {})} for server in servers}
    return Gateway(GatewayOptions.read({"servers": behind, "cache_dir": str(folder / "cache"), **options}, where=""))
