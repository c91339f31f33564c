"""A server that says what happens to it in a pipe, takes a second for a call, and stays when its input has ended.

python stubborn.py PIPE
"""

from __future__ import annotations

import json
import os
import sys
import time

said = os.open(sys.argv[1], os.O_WRONLY)
for line in sys.stdin:
    message = json.loads(line)
    match message["method"]:
        case "initialize":
            info = {"name": "stubborn", "version": "1"}
            version = message["params"]["protocolVersion"]
            result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
        case "tools/list":
            result = {"tools": [{"name": "work", "inputSchema": {"type": "object"}}]}
        case "tools/call":
            os.write(said, b"called ")
            time.sleep(1)
            result = {"content": [{"type": "text", "text": "done"}]}
        case _:
            result = {}
    if "id" in message:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
os.write(said, b"left ")
time.sleep(4)
os.write(said, b"survived ")
