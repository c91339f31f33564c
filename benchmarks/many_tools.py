"""An MCP server with any number of tools, in the standard library alone: it starts in 20 ms and answers in 20 µs.

python benchmarks/many_tools.py NAME COUNT
"""

from __future__ import annotations

import json
import sys
from typing import Any

THINGS = ("invoice", "customer", "order", "report", "shipment", "ticket", "user", "project", "file", "branch")
VERBS = ("list", "get", "create", "update")


def tool(server: str, number: int) -> dict[str, Any]:
    """The tool with that number."""
    verb, thing = VERBS[number % len(VERBS)], THINGS[number // len(VERBS) % len(THINGS)]
    return {
        "name": f"{verb}_{thing}_{number}",
        "description": f"{verb.title()} {thing}s of {server}: filtered by words, a page at a time, newest first.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "id": {"type": "string", "description": "Identifier of the thing, as lists give it"},
                "limit": {"type": "integer", "minimum": 1, "maximum": 100, "description": "How many at most"},
                "query": {"type": "string", "description": "Words that must occur"},
            },
            "required": ["id"],
        },
        "annotations": {"readOnlyHint": True},
    }


def answer(server: str, count: int, message: dict[str, Any]) -> dict[str, Any]:
    """The result of one request, or its error."""
    match message["method"]:
        case "initialize":
            version = message["params"]["protocolVersion"]
            info = {"name": server, "version": "1"}
            return {"result": {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}}
        case "tools/list":
            return {"result": {"tools": [tool(server, number) for number in range(count)]}}
        case "tools/call":
            said = {"tool": message["params"]["name"], "id": message["params"]["arguments"]["id"]}
            content = [{"type": "text", "text": json.dumps(said)}]
            return {"result": {"content": content, "structuredContent": said}}
        case "ping":
            return {"result": {}}
        case _:
            return {"error": {"code": -32601, "message": "Method not found"}}


def main() -> None:
    """Serve until standard input ends."""
    server, count = sys.argv[1], int(sys.argv[2])
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message:
            told = {"jsonrpc": "2.0", "id": message["id"], **answer(server, count, message)}
            print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
