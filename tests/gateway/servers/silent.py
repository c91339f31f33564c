"""A server with one tool, calls of which it reads and never answers."""

from __future__ import annotations

import json
import sys

for line in sys.stdin:
    message = json.loads(line)
    match message["method"]:
        case "initialize":
            info = {"name": "silent", "version": "1"}
            version = message["params"]["protocolVersion"]
            result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
        case "tools/list":
            result = {"tools": [{"name": "wait", "inputSchema": {"type": "object"}}]}
        case "tools/call":
            continue
        case _:
            result = {}
    if "id" in message:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
