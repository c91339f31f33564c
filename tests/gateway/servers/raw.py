"""A server over standard input and output that writes whatever it is told to, and tells what it was answered.

Called with `modern`, it speaks 2026-07-28; with a number after that, each of its three pages of tools has so many with
an invalid `x-mcp-header`.
"""

import json
import sys

answers = []


def send(number, result):
    print(json.dumps({"jsonrpc": "2.0", "id": number, "result": result}), flush=True)


for line in sys.stdin:
    message = json.loads(line)
    method, number = message.get("method"), message.get("id")
    if method is None:
        answers.append(message)
    elif method == "initialize":
        about = {"name": "raw", "version": "1"}
        send(number, {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": about})
    elif method == "server/discover" and "modern" in sys.argv:
        about = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", "capabilities": {"tools": {}}}
        send(number, {**about, "supportedVersions": ["2026-07-28"], "serverInfo": {"name": "raw", "version": "1"}})
    elif method == "tools/list" and "modern" in sys.argv:
        about = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
        page = int(message["params"].get("cursor", "0"))
        tools = [{"name": "write", "inputSchema": {"type": "object"}}] if page == 0 else []
        if count := int(sys.argv[2]) if len(sys.argv) > 2 else 0:
            bad = {"type": "object", "properties": {"a": {"x-mcp-header": 1}}}
            tools += [{"name": f"bad{page}-{each}", "inputSchema": bad} for each in range(count)]
            about |= {"nextCursor": str(page + 1)} if page < 2 else {}
        send(number, {**about, "tools": tools})
    elif method == "tools/list":
        send(number, {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in ("write", "answers")]})
    elif method == "tools/call" and message["params"]["name"] == "answers":
        send(number, {"content": [{"type": "text", "text": json.dumps(answers)}]})
    elif method == "tools/call":
        for text, times in message["params"]["arguments"]["lines"]:
            sys.stdout.write((text.replace("%ID%", json.dumps(number)) + "\n") * times)
        sys.stdout.flush()
    elif number is not None:
        print(json.dumps({"jsonrpc": "2.0", "id": number, "error": {"code": -32601, "message": "no"}}), flush=True)
