"""`python -I -m codecall.sandbox.worker`: one sandboxed worker, speaking frames over descriptor 0."""

from __future__ import annotations

from codecall.sandbox.worker.serve import run
from codecall.sandbox.worker.startup import load_and_jail


def main() -> None:
    """Load everything, then serve."""
    run(load_and_jail())


if __name__ == "__main__":
    main()
