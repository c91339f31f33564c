"""Inserts counters into a validated script: at the offsets the parser reported, never by printing a tree.

The engine runs the script as sent, wrapped in one function, with short calls inserted. No line break is inserted before
the script's end, so lines stay what they were; `InstrumentedScript.original_position` maps a column back.

    functions   ++__ag_s>__ag_n&&(__ag_n=__ag_t(__ag_s,__ag_p));   at each entry: steps, and now and then the clock
    loops       {let __ag_i3=0;for(…){…;++__ag_i3>MAX&&__ag_l();…}}    turns of this loop since it was entered
    catch       __ag_c(error);            a limit passes through; a `try` with only `finally` gets a clause for it
    data        {...__ag_d((x),'spread')}      a promise has no properties: it was not awaited; a text has characters
                if (__ag_d((f()),'tested'))    nor is it true or false
    integers    9007199254740993n     a number could not hold it
    places      0;const {a}=b       what has a pattern, or is the script's value: the engine records no place for it
    lookups     `${((__ag_m=byId[(__ag_k=id)])??__ag_u(__ag_m,3,byId,__ag_k))}`     what is not found is noted

For line coverage, one more call stands at each statement, and before the value of each function without braces; it
reports the line when it runs for the first time.

    statements  __ag_r[7]||(__ag_v(7),__ag_r[7]=1);
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, islice
from typing import Final, Literal

from codecall.sandbox.agentscript.checked import (
    CatchSite,
    CheckedScript,
    FunctionSite,
    LoopSite,
    Position,
    ScriptEnding,
    ScriptForm,
    StatementSite,
)
from codecall.sandbox.agentscript.parser.esprima import Node
from codecall.sandbox.agentscript.parser.parse import LOOP_TYPES, PREFIX_LENGTH, children
from codecall.sandbox.lines import LineTable

_NOT_EXECUTED: Final = frozenset({"BlockStatement", "EmptyStatement", "FunctionDeclaration"})

_STATEMENT_LISTS: Final = {"BlockStatement": "body", "SwitchCase": "consequent"}
"""By type of node: its field with a list of statements. The bodies of functions and static blocks are blocks."""


FIRST_LINE = 1000
"""Line of the engine's text on which the script begins: below the prelude's lines, so that stacks tell the two
apart."""

MAX_FRAMES: Final = 200
"""Frames of a stack that are looked at. Names of functions stand in it, and may look like any number of frames."""

# A function's name stands before the place, and a script chooses that name.
_FRAME = re.compile(r"(?m)^ +at (?:.* )?\(?<input>:(\d{1,6}):(\d{1,6})\)?$")

_TICK = "++__ag_s>__ag_n&&(__ag_n=__ag_t(__ag_s,__ag_p))"
_PLACE = "0;"
"""A statement for which the engine records a place, and no code."""

_PADDING = "\n" * (FIRST_LINE - 1)
# The function inside has no arguments: `arguments` of a script, which the validator refuses, would be empty too.
_RUNTIME = '((__ag_t,__ag_l,__ag_c,__ag_d,__ag_u)=>(function(){"use strict";let __ag_s=0,__ag_n=0,__ag_p,__ag_m,__ag_k;'
_BODY = "return[()=>__ag_s,()=>{__ag_n=-1},()=>__ag_p,async()=>{"
_HEAD = _RUNTIME + _BODY
_COVERAGE_HEAD = _RUNTIME.replace("__ag_u)", "__ag_u,__ag_v)", 1) + "const __ag_r={__proto__:null};" + _BODY
_TAIL = "\n}]})())"

# Order of texts inserted at one place: closing before opening; the inner closes first, the outer opens first.
_CLOSE, _OPEN = 0, 1
_FOREMOST = -(2**62)


@dataclass(frozen=True)
class InstrumentedScript:
    """A script ready for the engine."""

    text: str
    """What the engine evaluates: a function that returns the step counter, the function that poisons it, and the
    script's body."""
    script: str
    """The script as it was validated."""
    _insert_offsets: tuple[int, ...]
    _insert_lengths: tuple[int, ...]
    _head_length: int = len(_HEAD)
    form: ScriptForm = "statements"
    """What its value is; see `CheckedScript.form`."""
    ending: ScriptEnding = field(default_factory=ScriptEnding)
    integers: tuple[str, ...] = ()
    """The integers beyond 2^53 that stand in it."""

    @cached_property
    def lines(self) -> LineTable:
        """The lines of `script`."""
        return LineTable(self.script)

    def position_in_stack(self, stack: str) -> Position | None:
        """The innermost place in the script that a stack of the engine names."""
        for frame in islice(_FRAME.finditer(stack), MAX_FRAMES):
            if (position := self.original_position(int(frame[1]), int(frame[2]))) is not None:
                return position
        return None

    def original_position(self, line: int, column: int) -> Position | None:
        """The place in the script as sent for a line and column (from 1) of `text`; None when it lies outside."""
        line -= FIRST_LINE - 1
        if not 1 <= line <= len(self.lines):
            return None
        start, end = self.lines.offset(line, 1), self.lines.end(line)
        target = column - 1 - (self._head_length if line == 1 else 0)
        first = bisect_right(self._insert_offsets, start - 1)
        shift = 0
        for offset, length in zip(self._insert_offsets[first:], self._insert_lengths[first:], strict=True):
            if offset > end or offset - start + shift >= target:
                break
            shift += length
        return line, max(1, min(target - shift, end - start) + 1)


class _Inserts:
    """Texts to insert, with what decides their order where several share one offset."""

    def __init__(self) -> None:
        self.items: list[tuple[int, int, int, int, str]] = []

    def first(self, offset: int, text: str, rank: int = 0) -> None:
        """Text right at `offset`, ahead of whatever opens there; a lower rank comes first."""
        self.items.append((offset, _OPEN, _FOREMOST, rank, text))

    def around(self, start: int, end: int, opening: str, closing: str, rank: int = 0) -> None:
        """Text around a span; spans that share an edge nest by their size, equal ones by their rank."""
        self.items.append((start, _OPEN, -end, rank, opening))
        self.items.append((end, _CLOSE, -start, 0, closing))


def instrument(script: str, checked: CheckedScript, *, max_iterations: int) -> InstrumentedScript:
    """The script for the engine. `max_iterations` is the limit for the turns of any one loop."""
    inserts = _Inserts()
    reports = _LineReports(script, checked.statements)
    for number, loop in enumerate(checked.loops):
        _instrument_loop(inserts, loop, number, max_iterations, reports)
    for function in checked.functions:
        _instrument_function(inserts, function, reports)
    for statement in checked.statements or ():
        _instrument_statement(inserts, statement, reports)
    for clause in checked.catches:
        _instrument_catch(inserts, clause)
    for integer in checked.integers:
        inserts.items.append((integer.end, _CLOSE, _FOREMOST, 0, "n"))
    for site in checked.data_sites:
        inserts.around(site.start, site.end, "__ag_d((", f"),'{site.use}')")
    for declaration in checked.destructuring_sites:
        if declaration.is_var:
            inserts.around(declaration.start, declaration.end, f"{{{_PLACE}", "}")
        else:
            inserts.first(declaration.start, _PLACE, rank=2)
    for number, lookup in enumerate(checked.ending.lookups):
        # Inside of what else is around the same expression.
        inserts.items.append((lookup.start, _OPEN, -lookup.end, 1, "((__ag_m="))
        closing = f")??__ag_u(__ag_m,{number},{lookup.table},__ag_k))"
        inserts.items.append((lookup.end, _CLOSE, -lookup.start, -1, closing))
        inserts.around(lookup.key_start, lookup.key_end, "(__ag_k=(", "))")
    if checked.form != "statements" and checked.last_start is not None:
        inserts.items.append((checked.last_start, _OPEN, -len(script) - 1, 0, f"{_PLACE}return "))
    inserts.items.sort()

    head = _HEAD if checked.statements is None else _COVERAGE_HEAD
    pieces: list[str] = [_PADDING, head]
    at = 0
    for offset, _, _, _, text in inserts.items:
        pieces.append(script[at:offset])
        pieces.append(text)
        at = offset
    pieces.append(script[at:])
    pieces.append(_TAIL)
    return InstrumentedScript(
        "".join(pieces),
        script,
        tuple(item[0] for item in inserts.items),
        tuple(len(item[4]) for item in inserts.items),
        len(head),
        checked.form,
        checked.ending,
        tuple(site.text for site in checked.integers),
    )


class _LineReports:
    """The calls that report which lines ran; empty texts where coverage is not asked for."""

    def __init__(self, script: str, statements: list[StatementSite] | None) -> None:
        self._lines = None if statements is None else LineTable(script)
        self._loop_bodies = {site.start for site in statements or () if site.place == "loop"}

    def at(self, offset: int, end: str = ";") -> str:
        """The call that reports the line of `offset`, and the text that ends it."""
        if self._lines is None:
            return ""
        line = self._lines.line(offset)
        return f"__ag_r[{line}]||(__ag_v({line}),__ag_r[{line}]=1){end}"

    def at_body(self, offset: int) -> str:
        """The call for a loop's body without braces that begins at `offset`, if it is a statement that runs."""
        return self.at(offset) if offset in self._loop_bodies else ""


def _instrument_statement(inserts: _Inserts, site: StatementSite, reports: _LineReports) -> None:
    match site.place:
        case "list":
            inserts.first(site.start, reports.at(site.start), rank=1)
        case "branch":
            inserts.around(site.start, site.end, "{" + reports.at(site.start), "}")
        case "test":
            inserts.first(site.test_start, reports.at(site.start, ","), rank=1)
        case "loop":
            pass  # within the braces that the loop's body gets anyway


def _instrument_loop(inserts: _Inserts, loop: LoopSite, number: int, limit: int, reports: _LineReports) -> None:
    count = f"{_TICK};++__ag_i{number}>{limit}&&__ag_l();"
    inserts.around(loop.start, loop.end, f"{{let __ag_i{number}=0;", "}", rank=1)
    if loop.body_is_block:
        inserts.first(loop.body_start + 1, count)
    else:
        inserts.around(loop.body_start, loop.body_end, "{" + count + reports.at_body(loop.body_start), "}")


def _instrument_function(inserts: _Inserts, site: FunctionSite, reports: _LineReports) -> None:
    if site.is_expression:
        inserts.around(site.body_start, site.body_end, f"({_TICK},{reports.at(site.body_start, ',')}", ")")
    else:
        inserts.first(site.body_start + 1, f"{_TICK};")


def _report_caught(name: str) -> str:
    # Where the stack is exhausted there is no room for the call either: then the error stays in `__ag_p`, and the next
    # step, which `__ag_n` makes look at once, finds it there.
    return f"__ag_p={name};__ag_n=-1;__ag_c({name});__ag_p=void 0;"


def _instrument_catch(inserts: _Inserts, clause: CatchSite) -> None:
    if clause.param == "name":
        inserts.first(clause.body_start + 1, _report_caught(clause.name or ""))
    elif clause.param == "absent":
        inserts.first(clause.body_start, f"catch(__ag_e){{{_report_caught('__ag_e')}throw __ag_e}}")
    elif clause.param == "none":
        inserts.first(clause.body_start, "(__ag_e)")
        inserts.first(clause.body_start + 1, _report_caught("__ag_e"))
    else:
        # catch({message}){…}  ->  catch(__ag_e){__ag_c(__ag_e);let {message}=(__ag_e);{…}}
        inserts.first(clause.param_start, f"__ag_e){{{_report_caught('__ag_e')}let ")
        inserts.items.append((clause.param_end, _CLOSE, -clause.param_start, 0, "=(__ag_e"))
        inserts.first(clause.body_start, ";")
        inserts.items.append((clause.body_end, _CLOSE, -clause.body_start, 0, "}"))


def statement_sites(statements: list[Node]) -> list[StatementSite]:
    """Every statement whose execution shows that its line ran, in no order."""
    sites = [_statement_site(statement, "list") for statement in statements if statement.type not in _NOT_EXECUTED]
    pending = list(statements)
    while pending:
        node = pending.pop()
        kind: str = node.type
        if kind in _STATEMENT_LISTS:
            inside: list[Node] = getattr(node, _STATEMENT_LISTS[kind])
            sites.extend(
                _statement_site(statement, "list") for statement in inside if statement.type not in _NOT_EXECUTED
            )
        elif kind == "IfStatement":
            branches = [node.consequent] if node.alternate is None else [node.consequent, node.alternate]
            sites.extend(
                _branch_site(branch, is_else=branch is node.alternate)
                for branch in branches
                if branch.type not in _NOT_EXECUTED
            )
        elif kind in LOOP_TYPES and node.body.type not in _NOT_EXECUTED:
            sites.append(_statement_site(node.body, "loop"))
        pending.extend(children(node))
    return sites


def runnable_lines(script: str, checked: CheckedScript) -> frozenset[int]:
    """The lines of a script that can run; `checked` is the result of a validation that collected statements."""
    lines = LineTable(script)
    bodies = (site.body_start for site in checked.functions if site.is_expression)
    return frozenset(map(lines.line, chain((site.start for site in checked.statements or ()), bodies)))


def _branch_site(branch: Node, *, is_else: bool) -> StatementSite:
    """A branch of an `if` without braces. A chain of `else if` must not nest: some are thousands long."""
    if is_else and branch.type == "IfStatement":
        return StatementSite(
            branch.range[0] - PREFIX_LENGTH,
            branch.range[1] - PREFIX_LENGTH,
            "test",
            branch.test.range[0] - PREFIX_LENGTH,
        )
    return _statement_site(branch, "branch")


def _statement_site(statement: Node, place: Literal["list", "branch", "loop"]) -> StatementSite:
    start, end = statement.range
    return StatementSite(start - PREFIX_LENGTH, end - PREFIX_LENGTH, place)
