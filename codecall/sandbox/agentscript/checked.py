"""The result of validating a script: where to instrument it and what it calls, or the findings against it.

Offsets and positions always refer to the script as sent, in characters.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from codecall.sandbox.agentscript.parser.unicode import well_formed
from codecall.sandbox.agentscript.policy import FindingKind
from codecall.sandbox.lines import LineTable

Position: TypeAlias = tuple[int, int]
"""Line and column, both from 1. A column counts characters (code points; a tab is one)."""

MAX_FINDINGS: Final = 100
"""Most findings one refusal carries; the first ones in the script. Keeps a refusal readable and its frame small."""

FindingCode = Literal["SYNTAX_ERROR", "VALIDATION_ERROR", "SELF_REFERENCE_BLOCKED"]

ScriptForm = Literal["statements", "expression", "function"]


@dataclass(frozen=True, slots=True)
class LoopSite:
    """A loop, its labels included."""

    start: int
    """Start of the outermost label, or of the loop when it has none."""
    end: int
    body_start: int
    body_end: int
    body_is_block: bool
    kind: str
    """Its node type."""


@dataclass(frozen=True, slots=True)
class FunctionSite:
    """The body of a function, method, accessor or static block."""

    body_start: int
    """Start of the `{`, or of an arrow function's expression with the parentheses around it."""
    body_end: int
    is_expression: bool


@dataclass(frozen=True, slots=True)
class CatchSite:
    """A `catch` clause, or the place for one after a `try` that has none."""

    param: Literal["none", "name", "pattern", "absent"]
    name: str | None
    """The name it binds, for `param == "name"`."""
    param_start: int
    """Start of the parameter without its parentheses; -1 for `none` and `absent`."""
    param_end: int
    body_start: int
    """Start of the `{`; where a clause would go, for `absent`."""
    body_end: int


@dataclass(frozen=True, slots=True)
class StatementSite:
    """A statement whose execution shows that its line ran."""

    start: int
    end: int
    place: Literal["list", "branch", "test", "loop"]
    """`list`: it is in a list of statements; `branch`, `loop`: it is the branch of an `if` or the body of a loop,
    without braces; `test`: it is an `if` after an `else`."""
    test_start: int = -1
    """Start of its condition, for `test`."""


DataUse = Literal["spread", "taken apart", "tested"]


@dataclass(frozen=True, slots=True)
class DataSite:
    """An expression whose value is used as data without reading a property, so that a promise would go unnoticed:
    spread into an object or destructured with `...rest`; or a call of a tool that is tested or compared. Without the
    parentheses around it."""

    start: int
    end: int
    use: DataUse


@dataclass(frozen=True, slots=True)
class DestructuringSite:
    """A declaration that destructures a value, not in the head of a loop."""

    start: int
    end: int
    is_var: bool
    """Whether it declares by `var`, which may stand where a list of statements may not."""


CallKind = Literal["tool", "resource", "prompt", "result"]


@dataclass(frozen=True, slots=True)
class CallSite:
    """A call whose name is a literal."""

    kind: CallKind
    name: str
    """Name of a tool or a prompt; URI of a resource."""
    namespace: str | None
    """The namespace whose member is called; empty for `tools`. None: `name` is the tool's full name."""
    start: int
    partial_input: str | None
    """The part of a tool's input that literals spell out, as JSON text (`schema/partial.py`); None where it is not a
    literal."""
    certain: bool
    """Whether an invalid input is certain to fail the script: every run reaches the call (`analysis/calls.py`)."""


@dataclass(frozen=True, slots=True)
class ScriptOutline:
    """The loops and calls of a script that can be parsed, whether it may run or not."""

    loops: list[LoopSite]
    calls: list[CallSite]
    has_computed_names: bool
    """Whether there are calls whose names are not literals."""


@dataclass(frozen=True, slots=True)
class IntegerSite:
    """The literal of an integer beyond 2^53. The engine gets it as a BigInt, which is that integer."""

    end: int
    text: str
    """Its digits, without separators."""


@dataclass(frozen=True, slots=True)
class MistakenCallback:
    """A function given to a method of lists, which it gives nothing, or true or false where that sorts."""

    method: str
    """The method: `filter`, `sort` …"""
    start: int
    compares: bool = False
    """Whether it gives true or false: `(a, b) => a > b`."""


@dataclass(frozen=True, slots=True)
class AsyncCallback:
    """An `async` function given to a method of lists, which does not wait for the promises that it gives."""

    method: str
    """The method: `forEach`, `filter` …"""
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class LookupSite:
    """A lookup, `table[key]` or `table.get(key)`, whose value becomes a key or part of a text, and nothing asks whether
    there is one."""

    start: int
    end: int
    key_start: int
    key_end: int
    table: str
    """The table as an expression without calls."""
    is_get: bool
    """Whether it calls `get`."""
    traces: tuple[str, ...]
    """What stands in a result, as JSON text, where `undefined` is the value."""


@dataclass(frozen=True, slots=True)
class ScriptEnding:
    """What a script does about its value: for the warning where there is none."""

    returns: bool = False
    """Whether there is a `return` at top level."""
    uncalled_function: str | None = None
    """The first function at top level that nothing names, in a script without such a `return`."""
    mistaken_callbacks: tuple[MistakenCallback, ...] = ()
    async_callbacks: tuple[AsyncCallback, ...] = ()
    reads: frozenset[str] = frozenset()
    """Names of properties that it reads; some of them where there are very many."""
    writes: frozenset[str] = frozenset()
    """Names of properties that objects of its own have."""
    lookups: tuple[LookupSite, ...] = ()


@dataclass(frozen=True, slots=True)
class CheckedScript:
    """A script that may run."""

    form: ScriptForm
    """`function`: it is one function and nothing else, to be called; `expression`: it has no top-level `return`
    and its last statement is an expression, its value; `statements`: anything else."""
    last_start: int | None
    """Start of the statement that gives its value; None for `statements`."""
    loops: list[LoopSite]
    functions: list[FunctionSite]
    catches: list[CatchSite]
    runtime_names: frozenset[str]
    """The names of the runtime it uses; `policy.RUNTIME_NAMES` has them all."""
    outline: ScriptOutline
    statements: list[StatementSite] | None = None
    """None unless the validation was asked to collect them."""
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, dict[str, str]])
    """The namespaces it uses: see `NameUsage.namespaces`."""
    data_sites: list[DataSite] = field(default_factory=list["DataSite"])
    destructuring_sites: list[DestructuringSite] = field(default_factory=list["DestructuringSite"])
    ending: ScriptEnding = field(default_factory=ScriptEnding)
    integers: tuple[IntegerSite, ...] = ()


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing in a script that AgentScript does not allow."""

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


class InvalidScriptError(Exception):
    """The script must not run. `findings` say why: in the script's order, at least one, at most `MAX_FINDINGS`."""

    def __init__(self, findings: list[Finding], outline: ScriptOutline | None = None) -> None:
        super().__init__(findings[0].message)
        self.findings = findings
        self.outline = outline
        """Its loops and calls, if it can be parsed."""

    @property
    def first(self) -> Finding:
        """The finding that is reported."""
        return self.findings[0]


@dataclass(frozen=True, slots=True)
class Violation:
    """A finding whose place is still an offset."""

    offset: int
    kind: FindingKind | None
    message: str
    hint: str | None = None
    code: FindingCode = "VALIDATION_ERROR"


def invalid_script(
    script: str, violations: Iterable[Violation], outline: ScriptOutline | None = None
) -> InvalidScriptError:
    """The exception that reports `violations`: sorted by offset, without duplicates, the first `MAX_FINDINGS`."""
    in_order = sorted(violations, key=lambda violation: violation.offset)
    unique = {(violation.offset, violation.message): violation for violation in in_order}
    lines = LineTable(script)
    findings: list[Finding] = []
    for violation in list(unique.values())[:MAX_FINDINGS]:
        line, column = lines.position(min(max(violation.offset, 0), len(script)))
        message, hint = well_formed(violation.message), violation.hint and well_formed(violation.hint)
        findings.append(Finding(violation.kind, violation.code, message, line, column, hint))
    return InvalidScriptError(findings, outline)
