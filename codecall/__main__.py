"""`python -m codecall` is the `codecall` command."""

from __future__ import annotations

from codecall.cli import main

if __name__ == "__main__":
    main()
