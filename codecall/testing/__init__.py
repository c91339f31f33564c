"""Testing of scripts: a pytest plugin, and files of programs that state how they end.

The plugin is loaded by pytest itself; its fixtures are in `plugin.py`. Names are imported when they are first used, so
loading it is free.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from codecall.testing.calls import Call, Calls
    from codecall.testing.recording.fixtures import Tape
    from codecall.testing.results import ScriptResult
    from codecall.testing.runner import Script, ScriptEnclave
    from codecall.testing.scripts.parser import ScriptFileError, parse_programs, read_programs
    from codecall.testing.scripts.programs import (
        ExpectedFinding,
        Failure,
        Outcome,
        Program,
        ProgramStub,
        Refusal,
        Value,
        findings_mismatch,
        mismatch,
    )
    from codecall.testing.stubs.stubs import Stub, Stubs

__all__ = [  # noqa: RUF022 - alphabetical, whatever the letter case
    "Call",
    "Calls",
    "ExpectedFinding",
    "Failure",
    "findings_mismatch",
    "mismatch",
    "Outcome",
    "parse_programs",
    "Program",
    "ProgramStub",
    "read_programs",
    "Refusal",
    "Script",
    "ScriptEnclave",
    "ScriptFileError",
    "ScriptResult",
    "Stub",
    "Stubs",
    "Tape",
    "Value",
]

_HOMES = {
    "Call": "calls",
    "Calls": "calls",
    "Script": "runner",
    "ScriptEnclave": "runner",
    "ScriptFileError": "scripts.parser",
    "ScriptResult": "results",
    "Stub": "stubs.stubs",
    "Stubs": "stubs.stubs",
    "Tape": "recording.fixtures",
    "parse_programs": "scripts.parser",
    "read_programs": "scripts.parser",
}
"""Where each name lives that is not in `programs`."""


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'codecall.testing' has no attribute {name!r}")
    value = getattr(import_module(f"codecall.testing.{_HOMES.get(name, 'scripts.programs')}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
