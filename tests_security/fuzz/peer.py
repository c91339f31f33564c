"""A worker that was taken over: it writes what the script tells it, chunk by chunk, whatever it is answered.

Started in a worker's place (`codecall.sandbox.host.process.WORKER_COMMAND`), with nothing but the standard library.
The script that it is given holds the plan: `PLAN:<hex>,<hex>,…:END`.
"""

from __future__ import annotations

import os
import re
import socket
import struct
import sys


def main() -> None:
    """Be ready, then follow the plans."""
    connection = socket.socket(fileno=os.dup(0))
    ready = bytes.fromhex(sys.argv[1])
    _receive(connection)
    connection.sendall(struct.pack(">I", len(ready)) + ready)
    while True:
        plan = re.search(rb"PLAN:([0-9a-f,]*):END", _receive(connection))
        if plan is None:
            return
        chunks = plan[1].split(b",")
        for number, chunk in enumerate(chunks):
            connection.sendall(bytes.fromhex(chunk.decode()))
            if number + 1 < len(chunks):
                _receive(connection)


def _receive(connection: socket.socket) -> bytes:
    header = connection.recv(4, socket.MSG_WAITALL)
    if len(header) < 4:
        raise SystemExit(0)
    return connection.recv(struct.unpack(">I", header)[0], socket.MSG_WAITALL)


if __name__ == "__main__":
    main()
