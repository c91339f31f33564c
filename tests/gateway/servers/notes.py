"""Notes of one session, without any state outside it: raw JSON-RPC of 2025-06-18, with the standard library alone.

    python notes.py what.json

The file, read at the start, has `version`, and `hints`, the annotations of `add_note`. Each note that `add_note` adds
is a resource, a tool, a prompt and a template of this session alone; the server then says that the lists named in
`changed` have changed. A line `<pid> <method>` is added to `what.json.log` for each request.
"""

import json
import os
import sys
from pathlib import Path

WHAT = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
notes: dict[str, str] = {}


def send(**message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def answer(method, params):
    if method == "initialize":
        kinds = {kind: {"listChanged": True} for kind in ("tools", "resources", "prompts")}
        information = {"name": "notes", "version": WHAT.get("version", "1")}
        return {"protocolVersion": "2025-06-18", "capabilities": kinds, "serverInfo": information}
    if method == "tools/list":
        add = {"name": "add_note", "annotations": WHAT.get("hints", {}), "inputSchema": {"type": "object"}}
        return {"tools": [add, *({"name": f"show_{note}", "inputSchema": {"type": "object"}} for note in notes)]}
    if method == "resources/list":
        return {
            "resources": [{"uri": f"note://all/{note}", "name": note, "description": notes[note]} for note in notes]
        }
    if method == "resources/templates/list":
        return {"resourceTemplates": [{"uriTemplate": f"note://{note}/{{part}}", "name": note} for note in notes]}
    if method == "prompts/list":
        return {"prompts": [{"name": f"about_{note}"} for note in notes]}
    if method == "resources/read":
        note = params["uri"].rpartition("/")[2]
        return {"contents": [{"uri": params["uri"], "text": notes[note]}]} if note in notes else None
    if method == "tools/call":
        arguments = params["arguments"]
        if "title" in arguments:
            notes[arguments["title"]] = arguments["text"]
        for kind in arguments.get("changed", []):
            send(method=f"notifications/{kind}/list_changed")
        return {"content": [{"type": "text", "text": str(os.getpid())}]}
    return {} if method == "ping" else None


for line in sys.stdin:
    request = json.loads(line)
    if "id" not in request:
        continue
    with Path(f"{sys.argv[1]}.log").open("a", encoding="utf-8") as log:
        log.write(f"{os.getpid()} {request['method']}\n")
    result = answer(request["method"], request.get("params") or {})
    if result is None:
        send(id=request["id"], error={"code": -32601, "message": "no such method, or note"})
    else:
        send(id=request["id"], result=result)
