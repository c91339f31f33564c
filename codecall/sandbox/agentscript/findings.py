"""What the guard has against a script: findings, with places that always refer to the script as sent."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from codecall.sandbox.agentscript.characters import well_formed
from codecall.sandbox.agentscript.policy import FindingKind
from codecall.sandbox.agentscript.sites import Outline

MAX_FINDINGS: Final = 100
"""Most findings one refusal carries; the first ones in the script. Keeps a refusal readable and its frame small."""

FindingCode = Literal["SYNTAX_ERROR", "VALIDATION_ERROR", "SELF_REFERENCE_BLOCKED"]

_LINE_END = re.compile(r"\r\n|\n|\r")


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing in a script that AgentScript does not have."""

    kind: FindingKind | None
    """None for a syntax error."""
    code: FindingCode
    message: str
    line: int
    """From 1, in the script as sent."""
    column: int
    """From 1, in characters (code points; a tab is one)."""
    hint: str | None = None
    """What to write instead."""


class Refused(Exception):  # noqa: N818 - reads as the verdict it is
    """The script will not run. `findings` says why: in the script's order, at least one, at most `MAX_FINDINGS`."""

    def __init__(self, findings: list[Finding], outline: Outline | None = None) -> None:
        super().__init__(findings[0].message)
        self.findings = findings
        self.outline = outline
        """What it is made of, if it can be parsed."""

    @property
    def first(self) -> Finding:
        """The finding that is reported."""
        return self.findings[0]


@dataclass(frozen=True, slots=True)
class Mark:
    """A finding whose place is still an offset."""

    offset: int
    """Into the script as sent, in characters."""
    kind: FindingKind | None
    message: str
    hint: str | None = None
    code: FindingCode = "VALIDATION_ERROR"


def refusal(script: str, marks: Iterable[Mark], outline: Outline | None = None) -> Refused:
    """The refusal that reports `marks`: sorted by place, one for each place and message, the first `MAX_FINDINGS`."""
    unique = {(mark.offset, mark.message): mark for mark in sorted(marks, key=lambda mark: mark.offset)}
    starts = [0, *(end.end() for end in _LINE_END.finditer(script))]
    findings: list[Finding] = []
    for mark in list(unique.values())[:MAX_FINDINGS]:
        offset = min(max(mark.offset, 0), len(script))
        line = bisect_right(starts, offset)
        message, hint = well_formed(mark.message), mark.hint and well_formed(mark.hint)
        findings.append(Finding(mark.kind, mark.code, message, line, offset - starts[line - 1] + 1, hint))
    return Refused(findings, outline)
