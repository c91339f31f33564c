"""Programs that state how they end, and the comparison with how they ended."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias, cast

from codecall.envelopes import ExecutionResult
from codecall.errors import CallKind, IllegalAccess, ScriptRefused
from codecall.sandbox.agentscript.checked import Finding

_MAX_VALUE_CHARS: Final = 500
"""Most characters of a value that a mismatch shows."""


@dataclass(frozen=True, slots=True)
class ExpectedFinding:
    """A finding that a program must have."""

    line: int
    """From 1, in the program."""
    label: str
    """The finding's kind, or its code."""
    text: str
    """What its message begins with; empty fits all."""

    def describe(self, above: int) -> str:
        """Describe the finding, with its line in a file that has `above` lines above the program."""
        return f"line {above + self.line}: {self.label} {self.text}".rstrip()

    def __str__(self) -> str:
        return self.describe(0)


@dataclass(frozen=True, slots=True)
class Refusal:
    """The program is refused before it runs, for exactly these findings."""

    findings: tuple[ExpectedFinding, ...]
    """At least one, by line."""

    def describe(self, above: int) -> str:
        """Describe the findings, with their lines in a file that has `above` lines above the program."""
        return "refused; " + "; ".join(finding.describe(above) for finding in self.findings)

    def __str__(self) -> str:
        return self.describe(0)


@dataclass(frozen=True, slots=True)
class Value:
    """The program ends `ok` with this value."""

    value: object
    """JSON data."""

    def __str__(self) -> str:
        return f"ok with {_abbreviate(self.value)}"


@dataclass(frozen=True, slots=True)
class Failure:
    """The program fails while it runs."""

    code: str
    """The error's code."""
    text: str
    """What its message contains; empty fits all."""

    def __str__(self) -> str:
        return f"{self.code} {self.text}".rstrip()


Outcome: TypeAlias = Refusal | Value | Failure
"""How a program states that it ends."""


@dataclass(frozen=True, slots=True)
class ProgramStub:
    """A stub that answers calls of a program."""

    kind: CallKind
    """`tool`, `resource`, `prompt`, `result` or `extract`."""
    name: str
    """Its name or URI."""
    line: int
    """Where it is declared in the file, from 1."""
    when: dict[str, object] | None = None
    """Keys and values that the input must have; None answers all calls."""
    value: object = None
    """The value it gives, as JSON data."""
    failure: str | dict[str, object] | None = None
    """How it fails instead: one of CodeCall's codes, a text, or `{"code", "message"}`."""
    optional: bool = False
    """Whether it may go unused."""


@dataclass(frozen=True, slots=True)
class Program:
    """One program of a script file."""

    path: str
    """The file, as it was named."""
    line: int
    """Where its separator stands in the file, from 1. Line n of the program is line `line + n` of the file."""
    title: str
    """Unique in the file."""
    source: str
    """The text to run: everything between two separators but the blank lines at its end."""
    outcome: Outcome | None
    """How it states that it ends; None stands for `ok`, with any value."""
    preset: str | None = None
    """The preset it asks for."""
    hint: str | None = None
    """A note for readers."""
    context: dict[str, object] | None = None
    """Its `codecallContext`."""
    allowed: tuple[str, ...] | None = None
    """Names and globs that it may call; None allows all."""
    stubs: tuple[ProgramStub, ...] = ()
    """The stubs that answer its calls; those declared for the whole file come last."""


def mismatch(program: Program, result: ExecutionResult) -> str | None:
    """Describe how a result differs from what the program states; None if it does not. Lines are those of the file.

    The result of a refused script has the first finding only; `findings_mismatch` compares all of them.
    """
    if _fits(program.outcome, result):
        return None
    error = result.error
    if error is None:
        actual = f"ok with {_abbreviate(result.value)}"
    else:
        location = error.location if isinstance(error, ScriptRefused) else None
        place = f"line {program.line + location.line}: " if location else ""
        kind = f"{error.kind} " if isinstance(error, IllegalAccess) else ""
        actual = f"{result.status}; {place}{error.code} {kind}{error.message}"
    outcome = program.outcome
    expected = outcome.describe(program.line) if isinstance(outcome, Refusal) else outcome or "ok"
    return _report(program, [f"expected: {expected}", f"ended:    {actual}"])


def findings_mismatch(program: Program, findings: Sequence[Finding]) -> str | None:
    """Describe how findings of the guard differ from those that the program states; None if they do not.

    A program that states no refusal must have none.
    """
    missing: list[ExpectedFinding] = []
    unexpected = list(findings)
    expected = program.outcome.findings if isinstance(program.outcome, Refusal) else ()
    # The longest texts choose first: a short one fits more
    for item in sorted(expected, key=lambda item: -len(item.text)):
        match = next((finding for finding in unexpected if _fits_finding(item, finding)), None)
        if match is None:
            missing.append(item)
        else:
            unexpected.remove(match)
    above = program.line
    lines = [f"missing:    {item.describe(above)}" for item in sorted(missing, key=lambda item: item.line)]
    lines += [f"unexpected: line {above + item.line}: {item.kind or item.code} {item.message}" for item in unexpected]
    return _report(program, lines) if lines else None


def _report(program: Program, lines: list[str]) -> str:
    return "\n".join([f"{program.path}:{program.line}: {program.title}", *(f"  {line}" for line in lines)])


def _fits_finding(expected: ExpectedFinding, finding: Finding) -> bool:
    return (
        finding.line == expected.line
        and expected.label in (finding.kind, finding.code)
        and finding.message.startswith(expected.text)
    )


def _fits(outcome: Outcome | None, result: ExecutionResult) -> bool:
    error = result.error
    match outcome:
        case None:
            return error is None
        case Value(value):
            return error is None and _same_json(value, result.value)
        case Failure(code, text):
            return error is not None and error.code == code and text in error.message
        case Refusal(findings):
            if not isinstance(error, ScriptRefused) or error.location is None:
                return False
            line = error.location.line
            labels = (error.code, error.kind if isinstance(error, IllegalAccess) else None)
            return line == min(item.line for item in findings) and any(
                item.line == line and item.label in labels and error.message.startswith(item.text) for item in findings
            )


def _same_json(expected: object, value: object) -> bool:
    """Whether two JSON values are equal; `true` is not 1, and the order of keys does not matter."""
    if isinstance(expected, dict) and isinstance(value, dict):
        left, right = cast("dict[str, object]", expected), cast("dict[str, object]", value)
        return left.keys() == right.keys() and all(_same_json(item, right[key]) for key, item in left.items())
    if isinstance(expected, list) and isinstance(value, list):
        left_items, right_items = cast("list[object]", expected), cast("list[object]", value)
        return len(left_items) == len(right_items) and all(map(_same_json, left_items, right_items))
    return isinstance(expected, bool) == isinstance(value, bool) and expected == value


def _abbreviate(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, default=repr)
    if len(text) <= _MAX_VALUE_CHARS:
        return text
    return f"{text[:_MAX_VALUE_CHARS]}… ({len(text)} characters)"
