"""`python -I -m codecall.sandbox.worker`: one sandboxed worker, speaking frames over descriptor 0."""

from __future__ import annotations

import os
import signal
import socket
import sys

NICENESS = 5
"""How far below the server's a worker's priority is, in the units of nice(1)."""


def main() -> None:
    """Load everything, then serve."""
    from codecall.sandbox.worker.serve import serve

    # An interrupt at the terminal is the server's business: it decides when its workers end.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.chdir("/")
    # A script never competes with the server for the processor as an equal.
    os.nice(NICENESS)
    connection = socket.socket(fileno=0)
    try:
        serve(connection)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        sys.exit(0)


if __name__ == "__main__":
    main()
