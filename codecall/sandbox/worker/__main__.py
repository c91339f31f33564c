"""`python -I -m codecall.sandbox.worker`: one sandboxed worker, speaking frames over descriptor 0."""

from __future__ import annotations

import sys

from codecall.sandbox.worker.serve import run
from codecall.sandbox.worker.startup import load_and_jail


def main() -> None:
    """Load everything, then serve; the argument `starlark` makes it load that, too."""
    run(load_and_jail(starlark="starlark" in sys.argv[1:]))


if __name__ == "__main__":
    main()
