"""What is wrong with a script as raw text, before it is parsed, wherever in it: no rule here asks what is code and
what is a literal. What depends on that is found by the parser's own scanner (`unsafe.py`), which knows.

The parser and the engine agree on where lines end only because of two rules here: the separators U+2028 and U+2029
and a carriage return of its own end a line in some places and not in others, so scripts have neither.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from codecall.sandbox.agentscript.characters import BIDI, code_point
from codecall.sandbox.agentscript.findings import Mark
from codecall.sandbox.agentscript.policy import MAX_LINE_LENGTH, MAX_SCRIPT_BYTES, SOURCE

_SURROGATE = re.compile("[\ud800-\udfff]")
_SEPARATOR = re.compile("[\u2028\u2029]")
_CARRIAGE_RETURN = re.compile(r"\r(?!\n)")
_LINE = re.compile("[^\n\r]+")


def prescan(script: str) -> list[Mark]:
    """What is wrong with the text of `script`, in no order; empty for nearly every script. Linear time."""
    if len(script) > MAX_SCRIPT_BYTES:
        return [_size(script, offset=MAX_SCRIPT_BYTES)]
    plain = script.isascii()
    if not plain:
        unpaired = _SURROGATE.search(script)
        if unpaired is not None:
            what = f"the unpaired surrogate {code_point(unpaired[0])}"
            return [source_mark("unpaired surrogate", unpaired.start(), what)]
        encoded = script.encode()
        if len(encoded) > MAX_SCRIPT_BYTES:
            return [_size(script, offset=len(encoded[:MAX_SCRIPT_BYTES].decode(errors="ignore")))]

    marks: list[Mark] = []
    if "\0" in script:
        marks.append(source_mark("NUL character", script.index("\0"), "a NUL character"))
    if script.startswith("#!"):
        marks.append(source_mark("hashbang", 0, "a hashbang line"))
    if len(script) > MAX_LINE_LENGTH:
        marks.extend(_long_lines(script))
    if "\r" in script:
        marks.extend(
            source_mark("lone carriage return", found.start(), "a carriage return that is not part of a line end")
            for found in _CARRIAGE_RETURN.finditer(script)
        )
    if not plain:
        marks.extend(
            source_mark("line separator", found.start(), f"the line separator {code_point(found[0])}")
            for found in _SEPARATOR.finditer(script)
        )
        marks.extend(
            source_mark("bidirectional control", found.start(), f"the bidirectional control {code_point(found[0])}")
            for found in BIDI.finditer(script)
        )
    return marks


def source_mark(row: str, offset: int, what: str) -> Mark:
    """The finding that row `row` of `SOURCE` describes: the script has `what` at `offset`."""
    return Mark(offset, SOURCE[row].kind, f"Script has {what}", SOURCE[row].instead)


def _long_lines(script: str) -> Iterator[Mark]:
    for line in _LINE.finditer(script):
        if line.end() - line.start() > MAX_LINE_LENGTH:
            place = line.start() + MAX_LINE_LENGTH
            yield source_mark("line length", place, f"a line longer than {MAX_LINE_LENGTH} characters")


def _size(script: str, *, offset: int) -> Mark:
    return source_mark("script length", min(offset, len(script)), f"more than {MAX_SCRIPT_BYTES} bytes")
