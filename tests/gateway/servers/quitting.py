"""A server over standard input and output that goes away during its first call, as its word says.

python quitting.py rubbish|deaf|survived
"""

import json
import os
import subprocess
import sys
import time

INFO = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "q", "version": "1"}}
rest = b""
while chunk := os.read(0, 4096):
    rest += chunk
    if b'"tools/call"' in rest:
        match sys.argv[1]:
            case "rubbish":  # much of what is no message, and the end
                os.write(1, b"{\n" * 20_000)
                os._exit(3)
            case "deaf":  # in the middle of a message
                os.close(0)
                time.sleep(60)
            case "survived":  # by one who has its input, and reads nothing
                sleep = [sys.executable, "-S", "-c", "import time; time.sleep(20)"]
                subprocess.Popen(sleep, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                time.sleep(0.3)
                os._exit(3)
    *lines, rest = rest.split(b"\n")
    for message in map(json.loads, lines):
        if message["method"] == "initialize":
            answer = {"result": INFO}
        elif "id" in message:
            answer = {"error": {"code": -32601, "message": "no"}}
        else:
            continue
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}), flush=True)
