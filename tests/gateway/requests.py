"""Messages of a client as lines of JSON-RPC."""

from __future__ import annotations

import json
from collections.abc import Mapping


def request(number: int | str, method: str, params: Mapping[str, object] | None = None) -> bytes:
    """One request of the handshake era as a line."""
    message = {"jsonrpc": "2.0", "id": number, "method": method, **({"params": params} if params else {})}
    return json.dumps(message).encode() + b"\n"


def initialize(number: int = 1, name: str = "somebody") -> bytes:
    """The handshake's first message."""
    client = {"name": name, "version": "1"}
    return request(number, "initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client})


INITIALIZED = b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n'
