"""A server over standard input and output in 20 ms: raw JSON-RPC of 2025-06-18. What it does is told by its tools."""

import itertools
import json
import os
import signal
import sys
import threading
import time

TOOLS = [
    "echo",
    "add",
    "pid",
    "env",
    "die",
    "sleep",
    "garbage",
    "large",
    "steps",
    "logs",
    "flood",
    "mute",
    "ask",
    "children",
    "changed",
    "fail",
    "cancelled",
    "stderr",
    "meta",
]
OPTIONS = set(sys.argv[1:])
PAGE = 7
cancelled = []
waiting = {}
lock = threading.Lock()
numbers = itertools.count(1000)


def send(message):
    line = json.dumps({"jsonrpc": "2.0", **message}) + "\n"
    with lock:
        sys.stdout.write(line)
        sys.stdout.flush()


def text(value, **more):
    return {"content": [{"type": "text", "text": value if isinstance(value, str) else json.dumps(value)}], **more}


def notify(method, **params):
    send({"method": method, "params": params})


def ask(method, params):
    """Ask the client and wait for what it says."""
    number = next(numbers)
    event, box = threading.Event(), []
    waiting[number] = (event, box)
    send({"id": number, "method": method, "params": params})
    event.wait(10)
    return box[0] if box else {"error": "no answer"}


def call(request, name, arguments, meta):
    if name == "echo":
        return {
            "content": [{"type": "text", "text": arguments.get("text", "")}],
            "structuredContent": {"text": arguments.get("text", "")},
        }
    if name == "add":
        return text(arguments["a"] + arguments["b"])
    if name == "pid":
        return text(os.getpid())
    if name == "env":
        return text(dict(os.environ))
    if name == "meta":
        return text(meta)
    if name == "die":
        os._exit(arguments.get("code", 3))
    if name == "sleep":
        if "until" in arguments:
            os.close(os.open(arguments["until"], os.O_RDONLY))  # a pipe, which opens once somebody writes to it
        else:
            time.sleep(arguments["seconds"])
        return text("slept")
    if name == "garbage":
        with lock:
            sys.stdout.write('this is no message\n{"jsonrpc": 1}\n\x00\xff\n')
            sys.stdout.flush()
        return text("fine")
    if name == "large":
        return text("x" * arguments["bytes"])
    if name == "steps":
        for step in range(arguments["count"]):
            notify(
                "notifications/progress",
                progressToken=meta["progressToken"],
                progress=step + 1,
                total=arguments["count"],
                message=arguments.get("say", "") + str(step + 1),
            )
            time.sleep(arguments.get("pause", 0))
        return text("done")
    if name == "logs":
        for number in range(arguments["count"]):
            notify("notifications/message", level="info", logger="plain", data=f"line {number}")
        return text("logged")
    if name == "flood":
        for _ in range(arguments["count"]):
            notify("notifications/resources/list_changed")
        return text("flooded")
    if name == "changed":
        notify("notifications/tools/list_changed")
        return text("changed")
    if name == "mute":
        os.close(1)
        time.sleep(60)
    if name == "ask":
        return text(ask(arguments["method"], arguments.get("params", {})))
    if name == "children":
        import subprocess

        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        return text(child.pid)
    if name == "fail":
        return text("it went wrong", isError=True, structuredContent={"why": "because"}, _meta={"x/y": 1})
    if name == "cancelled":
        return text(cancelled)
    if name == "stderr":
        sys.stderr.write(arguments["text"] + "\n")
        sys.stderr.flush()
        return text("written")
    raise ValueError(name)


def answer(message):
    method, params = message["method"], message.get("params") or {}
    if method == "initialize":
        return {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {"listChanged": True}, "logging": {}, "resources": {}, "prompts": {}},
            "serverInfo": {"name": "plain", "version": "1.0"},
            "instructions": "Call what you like.",
        }
    if method == "tools/list":
        start = int(params.get("cursor") or 0)
        page = {
            "tools": [
                {
                    "name": name,
                    "description": f"Does {name}.",
                    "inputSchema": {"type": "object"},
                    "annotations": {"readOnlyHint": name == "echo"},
                    "_meta": {"a/b": name},
                }
                for name in TOOLS[start : start + PAGE]
            ]
        }
        if start + PAGE < len(TOOLS) or "endless" in OPTIONS:
            page["nextCursor"] = str(0 if "endless" in OPTIONS else start + PAGE)
        return page
    if method == "resources/list":
        return {"resources": [{"uri": "note://one", "name": "one", "mimeType": "text/plain"}]}
    if method == "resources/templates/list":
        return {"resourceTemplates": [{"uriTemplate": "note://{which}/text", "name": "note"}]}
    if method == "prompts/list":
        return {"prompts": [{"name": "greet", "arguments": [{"name": "who", "required": True}]}]}
    if method == "resources/read":
        return {
            "contents": [
                {"uri": params["uri"], "text": f"text of {params['uri']}"},
                {"uri": params["uri"], "blob": "AAEC", "mimeType": "image/png"},
            ]
        }
    if method == "prompts/get":
        return {
            "description": "a greeting",
            "messages": [{"role": "user", "content": {"type": "text", "text": f"Hello {params['arguments']['who']}"}}],
        }
    if method == "ping":
        return {}
    return None


def handle(message):
    if message["method"] == "tools/call":
        params = message["params"]
        try:
            result = call(message, params["name"], params.get("arguments") or {}, params.get("_meta") or {})
        except (ValueError, KeyError) as failure:
            send({"id": message["id"], "error": {"code": -32602, "message": f"bad call: {failure}"}})
            return
    elif message["method"] == "prompts/get" and message["params"]["arguments"]["who"].startswith("{"):
        send({"id": message["id"], "error": json.loads(message["params"]["arguments"]["who"])})
        return
    else:
        result = answer(message)
    if result is None:
        send({"id": message["id"], "error": {"code": -32601, "message": "no such method"}})
    else:
        send({"id": message["id"], "result": result})


def main():
    if "exits" in OPTIONS:
        print("cannot start: password=hunter2hunter2", file=sys.stderr)
        sys.exit(7)
    if "unless" in OPTIONS and not os.access(sys.argv[-1], os.F_OK):
        sys.exit(9)
    if "deaf" in OPTIONS:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if "hangs" in OPTIONS:
        time.sleep(60)
    if "noisy" in OPTIONS:
        print("Welcome to my server!", flush=True)
    for line in sys.stdin:
        message = json.loads(line)
        if "strict" in OPTIONS and message.get("method") == "server/discover":
            sys.exit(5)
        if "method" not in message:
            event, box = waiting.pop(message["id"])
            box.append({key: message[key] for key in ("result", "error") if key in message})
            event.set()
        elif "id" not in message:
            if message["method"] == "notifications/cancelled":
                cancelled.append(message["params"]["requestId"])
        else:
            threading.Thread(target=handle, args=(message,), daemon=True).start()
    if "deaf" in OPTIONS:
        time.sleep(60)


main()
