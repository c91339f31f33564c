"""The `codecall` command; `main` runs it."""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path


def main() -> None:
    """Run the command line of this process, and end it with the exit code."""
    # FastMCP reads it when it is imported: settings of whatever folder a command is used in, such as where tokens are.
    os.environ.setdefault("FASTMCP_ENV_FILE", os.devnull)
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the parent process
            setattr(sys, name, Path(os.devnull).open("r" if name == "stdin" else "w", encoding="utf-8"))  # noqa: SIM115 - open to the end
    try:
        if sys.argv[1:2] == ["serve"]:
            # What is imported from here on stays: looking through it for garbage takes a sixth of the time that
            # importing does. Once it is loaded, serving turns the collector on again.
            gc.disable()
        from codecall.cli.app import run

        code = run()
    except KeyboardInterrupt:  # while modules are being loaded
        sys.stderr.write("error: INTERRUPTED: Interrupted\n")
        code = 130
    # All that was open is closed. What is still being loaded, for a search that is not made, is not waited for.
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)
