"""What a checked script is made of, as far as running it needs to know. Offsets: characters of the script as sent."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from codecall.sandbox.agentscript.parser.unicode import well_formed
from codecall.sandbox.agentscript.policy import FindingKind

# ----------------------------------------------------------------------------------------------------
# What a checked script is made of, as far as running it needs to know. Offsets: characters of the script as sent.

ScriptForm = Literal["statements", "expression", "function"]


@dataclass(frozen=True, slots=True)
class LoopSite:
    """A loop, its labels included."""

    start: int
    """Of the outermost label, or of the loop when it has none."""
    end: int
    body_start: int
    body_end: int
    body_is_block: bool
    kind: str
    """Its type of node."""


@dataclass(frozen=True, slots=True)
class FunctionSite:
    """The body of a function, method, accessor or static block."""

    body_start: int
    """Of the `{`, or of an arrow function's expression with the parentheses around it."""
    body_end: int
    is_expression: bool


@dataclass(frozen=True, slots=True)
class CatchSite:
    """A `catch` clause, or the place for one behind a `try` that has none."""

    param: Literal["none", "name", "pattern", "absent"]
    name: str | None
    """What it binds, for `param == "name"`."""
    param_start: int
    """Of the parameter without its parentheses; -1 for `none` and `absent`."""
    param_end: int
    clause_start: int
    """Of the word `catch`."""
    body_start: int
    """Of the `{`; where a clause would go, for `absent`."""
    body_end: int


@dataclass(frozen=True, slots=True)
class StatementSite:
    """A statement at which a line can be seen to run."""

    start: int
    end: int
    place: Literal["list", "branch", "test", "loop"]
    """`list`: others may stand beside it; `branch`, `loop`: it is the branch of an `if` or the body of a loop, without
    braces; `test`: it is an `if` behind an `else`."""
    test_start: int = -1
    """For `test`: of its condition."""


@dataclass(frozen=True, slots=True)
class DataSite:
    """An expression whose value is used as data without being read: a promise there would go unnoticed. Spread into an
    object or taken apart with `...rest`; or a call of a tool that is tested or compared. Without the parentheses
    around it."""

    start: int
    end: int
    tested: bool


CallKind = Literal["tool", "resource", "prompt", "result"]


@dataclass(frozen=True, slots=True)
class CallSite:
    """A call whose name is a literal."""

    kind: CallKind
    name: str
    """Of a tool or a prompt; the URI of a resource."""
    namespace: str | None
    """The namespace that knows which tool it is; empty for `tools`. None: the name is the tool's own."""
    start: int
    partial_input: str | None
    """What is known of a tool's input, as JSON text (`sandbox/known.py`); None where it is no literal."""
    certain: bool
    """Whether a wrong input is sure to be the script's failure: every run gets to it (`callsites.py`)."""


@dataclass(frozen=True, slots=True)
class ScriptOutline:
    """What a script that can be parsed is made of, whether it may run or not."""

    loops: list[LoopSite]
    calls: list[CallSite]
    has_computed_names: bool
    """Whether there are calls whose names are no literals."""


@dataclass(frozen=True, slots=True)
class CheckedScript:
    """A script that may run."""

    form: ScriptForm
    """`function`: it is one function and nothing else, to be called; `expression`: it has no top-level `return`
    and its last statement is an expression, its value; `statements`: anything else."""
    last_start: int | None
    """Start of the statement that is its value; None for `statements`."""
    loops: list[LoopSite]
    functions: list[FunctionSite]
    catches: list[CatchSite]
    runtime_names: frozenset[str]
    """The names of the runtime it uses; `policy.RUNTIME_NAMES` has them all."""
    outline: ScriptOutline
    statements: list[StatementSite] | None = None
    """For a check that looked for them."""
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, dict[str, str]])
    """The namespaces it uses, with the members that are known of them and the tools these stand for."""
    data_sites: list[DataSite] = field(default_factory=list["DataSite"])
    uncalled_function: str | None = None
    """The first function at top level that nothing names, in a script without a top-level `return`."""


# ----------------------------------------------------------------------------------------------------
# What the guard has against a script: findings, with places that always refer to the script as sent.

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


class InvalidScript(Exception):  # noqa: N818 - reads as the verdict it is
    """The script will not run. `findings` says why: in the script's order, at least one, at most `MAX_FINDINGS`."""

    def __init__(self, findings: list[Finding], outline: ScriptOutline | None = None) -> None:
        super().__init__(findings[0].message)
        self.findings = findings
        self.outline = outline
        """What it is made of, if it can be parsed."""

    @property
    def first(self) -> Finding:
        """The finding that is reported."""
        return self.findings[0]


@dataclass(frozen=True, slots=True)
class Violation:
    """A finding whose place is still an offset."""

    offset: int
    """Into the script as sent, in characters."""
    kind: FindingKind | None
    message: str
    hint: str | None = None
    code: FindingCode = "VALIDATION_ERROR"


def invalid_script(script: str, violations: Iterable[Violation], outline: ScriptOutline | None = None) -> InvalidScript:
    """The refusal that reports `marks`: sorted by place, one for each place and message, the first `MAX_FINDINGS`."""
    unique = {(mark.offset, mark.message): mark for mark in sorted(violations, key=lambda mark: mark.offset)}
    starts = [0, *(end.end() for end in _LINE_END.finditer(script))]
    findings: list[Finding] = []
    for mark in list(unique.values())[:MAX_FINDINGS]:
        offset = min(max(mark.offset, 0), len(script))
        line = bisect_right(starts, offset)
        message, hint = well_formed(mark.message), mark.hint and well_formed(mark.hint)
        findings.append(Finding(mark.kind, mark.code, message, line, offset - starts[line - 1] + 1, hint))
    return InvalidScript(findings, outline)
