"""The example of a project that tests its scripts: they pass without its server, and its recordings are current."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.loaded_python import LoadedPython

PROJECT = Path(__file__).parent.parent.parent / "examples" / "script_tests"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of the project, as a checkout of it would be."""
    ignored = shutil.ignore_patterns("__pycache__", ".coverage", ".pytest_cache", "htmlcov")
    return Path(shutil.copytree(PROJECT, tmp_path / "project", ignore=ignored))


def run(python: LoadedPython, project: Path, *arguments: str, **environment: str) -> str:
    """What pytest says in the project when all its tests pass."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("CI", "COV", "PYTEST"))}
    command = [python.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:hypothesispytest"]
    command += ["-p", "no:langsmith_plugin", *arguments]
    result = subprocess.run(
        command, cwd=project, env={**inherited, **environment}, capture_output=True, text=True, check=False, timeout=120
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "10 passed" in result.stdout
    return result.stdout


def test_in_ci_its_tests_pass_and_run_every_line_of_its_scripts(project: Path, loaded_python: LoadedPython) -> None:
    workflow = (PROJECT / ".github/workflows/scripts.yml").read_text()
    (command,) = [line.partition("run: pytest ")[2] for line in workflow.splitlines() if "run: pytest" in line]
    message = run(loaded_python, project, *command.split(), CI="true")
    for script in PROJECT.glob("scripts/*.js"):
        assert any(
            line.split()[0] == f"scripts/{script.name}" and "100%" in line for line in message.splitlines() if line
        )
    assert (project / "coverage.xml").exists()


def test_its_recordings_are_what_its_server_says(project: Path, loaded_python: LoadedPython) -> None:
    recorded = {file.name: file.read_text() for file in PROJECT.glob("tests/recordings/*.json")}
    assert len(recorded) == 2
    shutil.rmtree(project / "tests/recordings")
    message = run(loaded_python, project, "--codecall-record", REPORTS_PASSWORD="a-password-of-12")
    assert message.count("new: review it") == 2
    again = {file.name: file.read_text() for file in project.glob("tests/recordings/*.json")}
    assert again == recorded
    assert not any("a-password-of-12" in text for text in again.values())
