"""`python -I -m codecall.sandbox.worker`: one sandboxed worker, speaking frames over descriptor 0."""

from __future__ import annotations

from codecall.sandbox.worker.serve import run, settle_in


def main() -> None:
    """Load everything, then serve."""
    run(settle_in())


if __name__ == "__main__":
    main()
