"""The `codecall` command. `main` is the way in; for `serve` it opens the front door before anything is loaded."""

from __future__ import annotations

import gc
import os
import sys


def main() -> None:
    """Run the command line of this process, and end it with the exit code."""
    try:
        if sys.argv[1:2] == ["serve"]:
            _serve()
        from codecall.cli.app import run

        code = run()
    except KeyboardInterrupt:  # while modules are being loaded
        sys.stderr.write("error: INTERRUPTED: Interrupted\n")
        code = 130
    _end(code)


def _end(code: int) -> None:
    # All that was open is closed. What is still being loaded, for a search that nobody will make, is not waited for.
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)


def _serve() -> None:
    from codecall.gateway.warm_start.door import open_door, possible
    from codecall.gateway.warm_start.record import place, recall

    # What is imported from here on stays: looking through it for garbage takes a sixth of the time that importing does.
    gc.disable()
    record = recall(place(sys.argv[2:])) if possible() else None
    door = open_door(record) if record else None

    from codecall.cli.app import run

    try:
        code = run()
    finally:
        if door is not None:
            door.fail("The gateway could not start; its standard error says why")
    _end(code)
