"""Collects the programs of script files as tests: `pytest users.script.js` runs each, without any Python."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, cast

import pytest

from codecall.errors import NOT_FOUND, Location, OptionsError
from codecall.presets import Preset
from codecall.sandbox.agentscript.checked import Finding
from codecall.testing.enclaves import PresetChoice, configured_preset, display_path, session_enclaves
from codecall.testing.report import IN_FILES, FailureKind, format_reasons
from codecall.testing.results import error_location, namespace_lines, outcome_lines, place_lines
from codecall.testing.runner import ScriptEnclave, ScriptOrigin
from codecall.testing.scripts.parser import ScriptFileError, read_programs
from codecall.testing.scripts.programs import Failure, Program, ProgramStub, Refusal, findings_mismatch, mismatch
from codecall.testing.stubs.stubs import Stubs

_ALLOWED: Final[dict[FailureKind, set[str]]] = {
    "undeclared": {error.code for error in NOT_FOUND.values()},
    "invalid_input": {"INVALID_INPUT"},
}
"""Kinds of failure that are allowed if a program states that it ends with one of these codes."""


class ProgramFailedError(Exception):
    """A program did not end as it states. The message is the whole report."""


class ScriptFile(pytest.File):
    """A script file, which collects its programs as tests."""

    def collect(self) -> Iterator[pytest.Item]:
        """Yield one item for each program."""
        name = display_path(self.path, self.config.rootpath)
        try:
            programs = read_programs(self.path)
        except ScriptFileError as error:
            raise self.CollectError(f"{name}:{error.line}: {error.problem}") from None
        item: Any = ScriptItem
        for program in programs:
            yield cast("ScriptItem", item.from_parent(self, name=program.title, program=replace(program, path=name)))


class ScriptItem(pytest.Item):
    """One program of a script file.

    Args:
        program: The program.
    """

    def __init__(self, *, program: Program, **rest: Any) -> None:
        cast("Any", super()).__init__(**rest)
        self.program = program
        """The program it runs."""

    def runtest(self) -> None:
        """Run the program and compare its end with what it states.

        Raises:
            ProgramFailedError: it ended otherwise, or something is wrong with its stubs.
        """
        report = run_program(self.program, self.path, self.config)
        if report is not None:
            raise ProgramFailedError(report)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Show the report alone: a traceback would only show this module."""
        if isinstance(excinfo.value, (ProgramFailedError, OptionsError)):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[os.PathLike[str] | str, int | None, str]:
        """The file and line of the program."""
        return self.path, self.program.line - 1, self.name


def run_program(program: Program, path: Path, config: pytest.Config) -> str | None:
    """Run a program of the file at `path`. Returns a report of why its test fails, or None if it does not."""
    enclaves = session_enclaves(config)
    stubs = Stubs(lambda: enclaves.portal, IN_FILES)
    _declare(stubs, program)
    enclave = ScriptEnclave(enclaves, PresetChoice(program.preset or configured_preset(config)), stubs)
    origin = ScriptOrigin(program.path, path, program.line + 1)
    result = enclave.attempt(program.source, origin=origin, context=program.context, allowed_tools=program.allowed)
    difference = mismatch(program, result.execution)
    if isinstance(program.outcome, Refusal):
        difference = findings_mismatch(program, _findings(program.source, enclave.preset)) or difference
    # A program that ended otherwise may not have come to all of its calls: unused stubs say nothing then.
    reasons = [reason for reason in stubs.failures() if difference is None or reason.kind != "unused"]
    if difference is None and not reasons:
        return None
    lines = [difference] if difference else [f"{program.path}:{program.line}: {program.title}"]
    if reasons:
        lines += [f"  {line}" for line in format_reasons(reasons).split("\n")]
    location = error_location(result.error) if result.error else None
    if result.error is not None and location is not None:
        # As a line of the file: a line of the program means nothing to an editor
        place = Location(program.line + location.line, location.column)
        lines += place_lines(place, program.path, "\n" * program.line + program.source)
        lines += namespace_lines(result.error, program.source)
    lines += outcome_lines(result.execution, result.calls)
    return "\n".join(lines)


def _declare(stubs: Stubs, program: Program) -> None:
    """Declare the stubs of a program."""

    def key(stub: ProgramStub) -> tuple[object, ...]:
        return stub.kind, stub.name, repr(stub.when), stub.optional

    counts = Counter(map(key, program.stubs))
    others = {"resource": stubs.resource, "prompt": stubs.prompt, "result": stubs.result, "extract": stubs.extract}
    declare = {"tool": stubs, **others}
    for stub in program.stubs:
        answer = {"returns": stub.value} if stub.failure is None else {"raises": stub.failure}
        settings: dict[str, Any] = {**answer, "optional": stub.optional}
        if counts[key(stub)] > 1:
            settings["times"] = 1
        if stub.kind != "resource":
            settings["when"] = stub.when
        declare[stub.kind](stub.name, **settings).place = f"{Path(program.path).name}:{stub.line}"
    if isinstance(program.outcome, Failure):
        stubs.history.allowed |= {kind for kind, codes in _ALLOWED.items() if program.outcome.code in codes}


def _findings(source: str, preset: Preset) -> list[Finding]:
    """Every finding of the guard in a script; the worker reports the first only."""
    from codecall.sandbox.agentscript.checked import InvalidScriptError
    from codecall.sandbox.agentscript.policy import Rules
    from codecall.sandbox.agentscript.validate import validate_script

    try:
        validate_script(source, Rules.from_limits(preset))
    except InvalidScriptError as refused:
        return refused.findings
    return []
