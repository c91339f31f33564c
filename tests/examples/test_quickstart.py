"""The quickstart runs as it is printed, and stays short."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

QUICKSTART = Path(__file__).parents[2] / "examples" / "quickstart.py"


def test_prints_what_the_script_returns(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(QUICKSTART)], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (0, "[{'name': 'Desk', 'units': 0}, {'name': 'Shelf', 'units': 2}]\n"), (
        done
    )


def test_is_thirty_lines() -> None:
    lines = QUICKSTART.read_text(encoding="utf-8").splitlines()
    assert sum(bool(line.strip()) for line in lines) <= 30
