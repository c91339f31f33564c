"""What a checked script is made of, as far as running it needs to know. Offsets: characters of the script as sent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

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
class Checked:
    """A script that may run."""

    form: ScriptForm
    """`function`: it is one arrow function and nothing else, to be called; `expression`: it has no top-level `return`
    and its last statement is an expression, its value; `statements`: anything else."""
    last_start: int | None
    """Start of the statement that is its value; None for `statements`."""
    loops: list[LoopSite]
    functions: list[FunctionSite]
    catches: list[CatchSite]
    uses: frozenset[str]
    """The names of the runtime it uses; `policy.RUNTIME_NAMES` has them all."""
