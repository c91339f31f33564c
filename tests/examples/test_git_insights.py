"""CodeCall in front of the published mcp-server-git, on a repository made for the test."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any, Protocol

import pytest

from examples.git_insights import make_repository
from tests.loaded_python import LoadedPython

EXAMPLE = Path(__file__).parents[2] / "examples" / "git_insights.py"

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="mcp-server-git needs the program git")


class Run(Protocol):
    """Runs the example as a command."""

    def __call__(self, *arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]: ...


@pytest.fixture
def run(loaded_python: LoadedPython) -> Run:
    """In an environment that says nothing about who commits."""

    def run(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
        clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        return loaded_python.run(
            EXAMPLE, *arguments, cwd=cwd, env=clean | {"GIT_CONFIG_GLOBAL": os.devnull} | environment
        )

    return run


@needs_git
def test_joins_log_diffs_and_status_of_a_repository_of_its_own(tmp_path: Path, run: Run) -> None:
    done = run(cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    assert (report["branch"], report["commits"]) == ("main", 20)
    assert (report["since"], report["until"]) == ("2026-01-05", "2026-01-24")
    assert [(row["author"], row["commits"]) for row in report["authors"]] == [
        ("Ada Adler", 10),
        ("Bea Costa", 7),
        ("Chen Lind", 3),
    ]
    assert sum(row["added"] for row in report["authors"]) == 50
    assert sum(row["removed"] for row in report["authors"]) == 14
    assert sum(row["commits"] for row in report["busiest"]) == 20
    assert report["pending"] == {
        "staged": ["src/app.py"],
        "unstaged": ["README.md"],
        "untracked": ["notes.txt"],
        "linesAdded": 2,
    }


@needs_git
def test_looks_at_the_repository_it_is_given(tmp_path: Path, run: Run) -> None:
    make_repository(tmp_path)
    (tmp_path / "notes.txt").unlink()
    done = run(str(tmp_path), cwd=tmp_path.parent)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["pending"]["untracked"] == []


@needs_git
def test_says_when_the_folder_is_no_repository(tmp_path: Path, run: Run) -> None:
    done = run(str(tmp_path), cwd=tmp_path)
    assert done.returncode == 2
    assert "is not the top folder of a git repository" in done.stderr


def test_says_when_git_is_missing(tmp_path: Path, run: Run) -> None:
    done = run(cwd=tmp_path, PATH=str(tmp_path))
    assert done.returncode == 2
    assert "needs the program `git`" in done.stderr
