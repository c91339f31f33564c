"""Testing of scripts: files of programs that state how they end, and the comparison with how they did."""

from __future__ import annotations

from codecall.testing.programs import (
    ExpectedFinding,
    Failure,
    Outcome,
    Program,
    Refusal,
    Value,
    findings_mismatch,
    mismatch,
)
from codecall.testing.scripts import ScriptFileError, parse_programs, read_programs

__all__ = [
    "ExpectedFinding",
    "Failure",
    "Outcome",
    "Program",
    "Refusal",
    "ScriptFileError",
    "Value",
    "findings_mismatch",
    "mismatch",
    "parse_programs",
    "read_programs",
]
