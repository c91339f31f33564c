"""A client that speaks JSON-RPC line by line over two pipes or sockets, before a front door."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping
from typing import Any

from codecall.gateway.warm_start.door import Door, write_all

MODERN = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "somebody", "version": "1"},
}


def request(number: int | str, method: str, params: Mapping[str, object] | None = None) -> bytes:
    """One request of the handshake era as a line."""
    message = {"jsonrpc": "2.0", "id": number, "method": method, **({"params": params} if params else {})}
    return json.dumps(message).encode() + b"\n"


def modern(number: int | str, method: str, **params: object) -> bytes:
    """One request of the era without a handshake."""
    return request(number, method, {**params, "_meta": MODERN})


def initialize(number: int = 1, name: str = "somebody") -> bytes:
    """The handshake's first message."""
    client = {"name": name, "version": "1"}
    return request(number, "initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client})


INITIALIZED = b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n'


class Line:
    """The client's ends of both pipes, or of two sockets, as Node has them, and a door at the others."""

    def __init__(self, record: Mapping[str, str] | None = None, *, sockets: bool = False) -> None:
        self._theirs_in, self._out = _sockets() if sockets else os.pipe()
        self._in, self._theirs_out = _sockets() if sockets else os.pipe()
        self._rest = b""
        self._deaf = False
        self.door = Door(record or {}, self._theirs_in, self._theirs_out)

    def say(self, *messages: bytes) -> None:
        """Send messages."""
        write_all(self._out, b"".join(messages))

    def leave(self) -> None:
        """Close the end that the client writes to."""
        os.close(self._out)
        self._out = -1

    def hear(self) -> dict[str, Any]:
        """The next message; waits for it."""
        while b"\n" not in self._rest:
            chunk = os.read(self._in, 65_536)
            assert chunk, "the other end is closed"
            self._rest += chunk
        line, _, self._rest = self._rest.partition(b"\n")
        return json.loads(line)

    def deafen(self) -> None:
        """Close the end that the client reads from."""
        os.close(self._in)
        self._deaf = True

    def close(self) -> None:
        """Close all that is open."""
        ours = [*([] if self._deaf else [self._in]), *([self._out] if self._out >= 0 else [])]
        for descriptor in (self._theirs_in, self._theirs_out, *ours):
            os.close(descriptor)


def _sockets() -> tuple[int, int]:
    one, other = socket.socketpair()
    return one.detach(), other.detach()
