"""Puts the counting into a checked script: at the positions the parser reported, never by printing a tree.

What the engine runs is the script as sent, wrapped in one function, with short calls inserted. No line break is
inserted before the script's end, so lines stay what they were; `Program.original` maps a column back.

    functions   ++__ag_s>__ag_n&&(__ag_n=__ag_t(__ag_s,__ag_p));   at each entry: steps, and now and then the clock
    loops       {let __ag_i3=0;for(…){…;++__ag_i3>MAX&&__ag_l();…}}    turns of this loop since it was entered
    catch       __ag_c(error);            a limit passes through; a `try` with only `finally` gets a clause for it
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

from codecall.sandbox.agentscript.guard import CatchSite, Checked, FunctionSite, LoopSite

FIRST_LINE = 1000
"""Where the script begins in what the engine sees: below the prelude's lines, so that frames tell the two apart."""

_TICK = "++__ag_s>__ag_n&&(__ag_n=__ag_t(__ag_s,__ag_p))"
_PADDING = "\n" * (FIRST_LINE - 1)
# The function inside has no arguments: `arguments` of a script, which the guard refuses, would be empty too.
_RUNTIME = '((__ag_t,__ag_l,__ag_c)=>(function(){"use strict";let __ag_s=0,__ag_n=0,__ag_p;'
_HEAD = _RUNTIME + "return[()=>__ag_s,()=>{__ag_n=-1},()=>__ag_p,async()=>{"
_TAIL = "\n}]})())"

# Order of texts inserted at one place: closing before opening; the inner closes first, the outer opens first.
_CLOSE, _OPEN = 0, 1


@dataclass(frozen=True, slots=True)
class Program:
    """A script ready for the engine."""

    text: str
    """What the engine evaluates: a function that gives the step counter, its poison, and the script's body."""
    _script: str
    _offsets: tuple[int, ...]
    _lengths: tuple[int, ...]

    def original(self, line: int, column: int) -> tuple[int, int] | None:
        """The place in the script as sent for a line and column (from 1) of `text`; None when it lies outside."""
        line -= FIRST_LINE - 1
        lines = self._script.split("\n")
        if not 1 <= line <= len(lines):
            return None
        start = sum(len(text) + 1 for text in lines[: line - 1])
        end = start + len(lines[line - 1])
        wanted = column - 1 - (len(_HEAD) if line == 1 else 0)
        first = bisect_right(self._offsets, start - 1)
        shift = 0
        for offset, length in zip(self._offsets[first:], self._lengths[first:], strict=True):
            if offset > end or offset - start + shift >= wanted:
                break
            shift += length
        return line, max(1, min(wanted - shift, end - start) + 1)


class _Inserts:
    """Texts to insert, kept with what decides their order where several share one offset."""

    def __init__(self) -> None:
        self.items: list[tuple[int, int, int, str]] = []

    def first(self, offset: int, text: str) -> None:
        """Text right at `offset`, ahead of whatever opens there."""
        self.items.append((offset, _OPEN, -(2**62), text))

    def around(self, start: int, end: int, opening: str, closing: str) -> None:
        """Text around a span; spans that share an edge nest by their size."""
        self.items.append((start, _OPEN, -end, opening))
        self.items.append((end, _CLOSE, -start, closing))


def instrument(script: str, checked: Checked, *, max_iterations: int) -> Program:
    """The program for a checked script. `max_iterations` is the limit for the turns of any one loop."""
    inserts = _Inserts()
    for number, loop in enumerate(checked.loops):
        _loop(inserts, loop, number, max_iterations)
    for function in checked.functions:
        _function(inserts, function)
    for clause in checked.catches:
        _catch(inserts, clause)
    if checked.form != "statements" and checked.last_start is not None:
        inserts.items.append((checked.last_start, _OPEN, -len(script) - 1, "return "))
    inserts.items.sort()

    pieces: list[str] = [_PADDING, _HEAD]
    at = 0
    for offset, _, _, text in inserts.items:
        pieces.append(script[at:offset])
        pieces.append(text)
        at = offset
    pieces.append(script[at:])
    pieces.append(_TAIL)
    return Program(
        "".join(pieces),
        script,
        tuple(item[0] for item in inserts.items),
        tuple(len(item[3]) for item in inserts.items),
    )


def _loop(inserts: _Inserts, loop: LoopSite, number: int, limit: int) -> None:
    count = f"{_TICK};++__ag_i{number}>{limit}&&__ag_l();"
    inserts.around(loop.start, loop.end, f"{{let __ag_i{number}=0;", "}")
    if loop.body_is_block:
        inserts.first(loop.body_start + 1, count)
    else:
        inserts.around(loop.body_start, loop.body_end, "{" + count, "}")


def _function(inserts: _Inserts, site: FunctionSite) -> None:
    if site.is_expression:
        inserts.around(site.body_start, site.body_end, f"({_TICK},", ")")
    else:
        inserts.first(site.body_start + 1, f"{_TICK};")


def _caught(name: str) -> str:
    # Where the stack is exhausted there is no room for the call either: then the error stays in `__ag_p`, and the next
    # step, which `__ag_n` makes look at once, finds it there.
    return f"__ag_p={name};__ag_n=-1;__ag_c({name});__ag_p=void 0;"


def _catch(inserts: _Inserts, clause: CatchSite) -> None:
    if clause.param == "name":
        inserts.first(clause.body_start + 1, _caught(clause.name or ""))
    elif clause.param == "absent":
        inserts.first(clause.body_start, f"catch(__ag_e){{{_caught('__ag_e')}throw __ag_e}}")
    elif clause.param == "none":
        inserts.first(clause.body_start, "(__ag_e)")
        inserts.first(clause.body_start + 1, _caught("__ag_e"))
    else:
        # catch({message}){…}  ->  catch(__ag_e){__ag_c(__ag_e);let {message}=(__ag_e);{…}}
        inserts.first(clause.param_start, f"__ag_e){{{_caught('__ag_e')}let ")
        inserts.items.append((clause.param_end, _CLOSE, -clause.param_start, "=(__ag_e"))
        inserts.first(clause.body_start, ";")
        inserts.items.append((clause.body_end, _CLOSE, -clause.body_start, "}"))
