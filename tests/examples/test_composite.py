"""The example of composite tools: a workflow over the published mcp-server-git and a graph, which calls a script."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from codecall.composite.reading import read_definitions
from tests.loaded_python import LoadedPython

REPOSITORY = Path(__file__).parents[2]
WORKFLOWS = REPOSITORY / "examples" / "composite" / "workflows"


def test_its_definitions_are_right():
    read = read_definitions([WORKFLOWS])
    assert read.findings == ()
    assert [tool.name for tool in read.tools] == ["commit_authors", "remember_repository"]


@pytest.mark.skipif(shutil.which("git") is None, reason="mcp-server-git needs the program git")
def test_it_keeps_a_repository_and_its_people(loaded_python: LoadedPython):
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    program = REPOSITORY / "examples" / "composite" / "__main__.py"
    ran = loaded_python.run(program, cwd=REPOSITORY, env=clean | {"PYTHONPATH": str(REPOSITORY)})
    assert ran.returncode == 0, ran.stderr
    result: dict[str, Any] = json.loads(ran.stdout)
    assert result["people"] == 3
    assert [(author["name"], author["commits"]) for author in result["authors"]] == [
        ("Ada Adler", 10),
        ("Bea Costa", 7),
        ("Chen Lind", 3),
    ]
    (repository,) = result["entities"]
    assert "On branch main" in repository["observations"][0]
