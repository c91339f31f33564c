"""The quickstart runs as it is printed, and stays short."""

from __future__ import annotations

from pathlib import Path

from tests.loaded_python import LoadedPython

QUICKSTART = Path(__file__).parents[2] / "examples" / "quickstart.py"


def test_prints_what_the_script_returns(tmp_path: Path, loaded_python: LoadedPython) -> None:
    done = loaded_python.run(QUICKSTART, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "[{'name': 'Desk', 'units': 0}, {'name': 'Shelf', 'units': 2}]\n"), (
        done
    )


def test_is_thirty_lines() -> None:
    lines = QUICKSTART.read_text(encoding="utf-8").splitlines()
    assert sum(bool(line.strip()) for line in lines) <= 30
