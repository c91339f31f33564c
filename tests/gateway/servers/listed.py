"""An MCP server of the standard library alone: it lists what a JSON file says, and answers each call with its input.

    python listed.py what.json

The file has `name`, `version`, `instructions`, `tools`, `resources`, `resourceTemplates`, `prompts`, `info` (what else
is in `serverInfo`) and `capabilities` (further ones); it is read again for each list. A line is added to
`what.json.log` for each request, and `start <pid>` when the program starts. `answers` are results as they are sent, by
the name, the URI or else the method of the request. A call of the tool `tell` sends `notifications/tools/list_changed`;
one of `leave` ends the program; one of `picture` gives a picture.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

WHAT = Path(sys.argv[1])
KEYS = {"tools/list": "tools", "resources/list": "resources", "prompts/list": "prompts"}
KEYS["resources/templates/list"] = "resourceTemplates"


def said() -> dict[str, Any]:
    return json.loads(WHAT.read_text(encoding="utf-8"))


def log(line: str) -> None:
    with Path(f"{WHAT}.log").open("a", encoding="utf-8") as file:
        file.write(f"{line}\n")


def send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def answer(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    what = said()
    asked = params.get("name") or params.get("uri") or method
    if asked in what.get("answers", {}):
        return what["answers"][asked]
    if method == "initialize":
        changes = {"listChanged": True}
        return {
            "protocolVersion": "2025-06-18",
            "capabilities": {
                **{"tools": changes, "resources": changes, "prompts": changes},
                **what.get("capabilities", {}),
            },
            "serverInfo": {
                **{"name": what.get("name", "listed"), "version": what.get("version", "1")},
                **what.get("info", {}),
            },
            **({"instructions": what["instructions"]} if "instructions" in what else {}),
        }
    if method in KEYS:
        return {KEYS[method]: what.get(KEYS[method], [])}
    if method == "tools/call":
        if params["name"] == "tell":
            send({"method": "notifications/tools/list_changed"})
        if params["name"] == "leave":
            os._exit(3)
        if params["name"] == "picture":
            return {"content": [{"type": "image", "data": "iVBORwA=", "mimeType": "image/png"}]}
        given = {"tool": params["name"], **params.get("arguments", {})}
        return {"content": [{"type": "text", "text": json.dumps(given)}], "structuredContent": given}
    if method == "resources/read":
        return {"contents": [{"uri": params["uri"], "text": f"read {params['uri']}"}]}
    if method == "prompts/get":
        return {"messages": [{"role": "user", "content": {"type": "text", "text": params["name"]}}]}
    return {} if method == "ping" else None


log(f"start {os.getpid()}")
for line in sys.stdin:
    request = json.loads(line)
    if "id" not in request:
        continue
    log(request["method"])
    result = answer(request["method"], request.get("params") or {})
    if result is None:
        send({"id": request["id"], "error": {"code": -32601, "message": "Method not found"}})
    else:
        send({"id": request["id"], "result": result})
