"""What is wrong with a script as text, before it is parsed: size, characters that deceive, nesting. Linear time.

The characters of a script are looked at closely only when a first, fast look finds something that could matter;
a plain script costs a few microseconds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from codecall.sandbox.agentscript.findings import Mark
from codecall.sandbox.agentscript.lexing import Piece, pieces
from codecall.sandbox.agentscript.policy import MAX_LINE_LENGTH, MAX_NESTING, MAX_SCRIPT_BYTES, SOURCE

_SURROGATE = re.compile("[\ud800-\udfff]")

# Unicode property Bidi_Control
_BIDI = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")

# Characters that show nothing: controls, joiners, fillers, separators, variation selectors, tags. White space that
# has a width (no-break space and the like) is what it looks like and stays.
_JOINERS: Final = "\u200d\ufe0e\ufe0f"
_INVISIBLE: Final = (
    "\x01-\x08\x0e-\x1f\x7f-\x9f\xad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200c\u2028\u2029\u2060-\u2065"
    "\u206a-\u206f\u3164\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff"
)
_UNSEEN_IN_CODE = re.compile(f"[{_INVISIBLE}{_JOINERS}]")
# In comments emoji may keep what holds them together: a joiner or selector that does not follow a plain letter
_UNSEEN_IN_COMMENT = re.compile(f"[{_INVISIBLE}]|(?<=[\\s!-~\u00a1-\u00a8\u00ab-\u02ff\u0370-\u1fff])\u200d")

# Letters of other alphabets that pass for Latin ones: all of Cyrillic, and the Greek that look alike
_ALIKE: Final = (
    "\u0400-\u052f\u1c80-\u1c8f\u2de0-\u2dff\ua640-\ua69f"
    "\u0370\u0371\u037f\u0391\u0392\u0395-\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7"
    "\u03b1\u03b3\u03b9\u03ba\u03bd\u03bf\u03c1\u03c5\u03c7\u03f2\u03f3\u03f9\u1d26-\u1d2a\u1f00-\u1fff"
)
_LOOK_ALIKE = re.compile(f"[{_ALIKE}]")
_LATIN = re.compile(
    "[A-Za-z\u00aa\u00ba\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u1e00-\u1eff\uff21-\uff3a\uff41-\uff5a]"
)

_SUSPICIOUS = re.compile(f"[{_INVISIBLE}{_JOINERS}{_ALIKE}]")
_CONTROL = re.compile("[\x01-\x08\x0e-\x1f\x7f]")
_LINE = re.compile("[^\n\r]+")
_LINE_END = re.compile("[\n\r\u2028\u2029]")


def prescan(script: str) -> list[Mark]:
    """What is wrong with the text of `script`, in no order; empty for nearly every script."""
    if len(script) > MAX_SCRIPT_BYTES:
        return [_size(script, offset=MAX_SCRIPT_BYTES)]
    plain = script.isascii()
    if not plain:
        unpaired = _SURROGATE.search(script)
        if unpaired is not None:
            return [_mark("unpaired surrogate", unpaired.start(), f"the unpaired surrogate {_code(unpaired[0])}")]
        encoded = script.encode()
        if len(encoded) > MAX_SCRIPT_BYTES:
            return [_size(script, offset=len(encoded[:MAX_SCRIPT_BYTES].decode(errors="ignore")))]

    marks: list[Mark] = []
    if "\0" in script:
        marks.append(_mark("NUL character", script.index("\0"), "a NUL character"))
    if script.startswith("#!"):
        marks.append(_mark("hashbang", 0, "a hashbang line"))
    if len(script) > MAX_LINE_LENGTH:
        marks.extend(_long_lines(script))
    if not plain:
        marks.extend(
            _mark("bidirectional control", found.start(), f"the bidirectional control {_code(found[0])}")
            for found in _BIDI.finditer(script)
        )
    if (
        script.count("(") + script.count("[") + script.count("{") > MAX_NESTING
        or "<!--" in script
        or "-->" in script
        or (_CONTROL if plain else _SUSPICIOUS).search(script) is not None
    ):
        marks.extend(_look_closely(script))
    return marks


def _look_closely(script: str) -> Iterator[Mark]:
    """What depends on where a character stands: in code, in a comment or in a literal."""
    deceptive = not script.isascii() or _CONTROL.search(script) is not None
    depth = 0
    fresh_line = True  # nothing but blanks and comments on this line so far
    for piece in pieces(script):
        kind, start, end = piece
        if kind == "open":
            depth += 1
            if depth == MAX_NESTING + 1:
                yield _mark("bracket nesting", start, f"brackets nested deeper than {MAX_NESTING}")
        elif kind == "close":
            depth = max(0, depth - 1)
        elif kind == "sign":
            for comment in ("<!--", "-->") if fresh_line else ("<!--",):
                if script.startswith(comment, start):
                    yield _mark("HTML-like comment", start, f"the HTML-like comment {comment}")
        if kind in {"blank", "comment"}:
            fresh_line = fresh_line or _LINE_END.search(script, start, end) is not None
        else:
            fresh_line = False
        if deceptive and kind not in {"string", "template"}:
            yield from _deceptions(script, piece)


def _deceptions(script: str, piece: Piece) -> Iterator[Mark]:
    """Characters of a piece of code or comment that are not what they seem."""
    kind, start, end = piece
    unseen = _UNSEEN_IN_COMMENT if kind == "comment" else _UNSEEN_IN_CODE
    for found in unseen.finditer(script, start, end):
        yield _mark("invisible character", found.start(), f"the invisible character {_code(found[0])}")
    if kind == "word" and _LOOK_ALIKE.search(script, start, end) and _LATIN.search(script, start, end):
        yield _mark("mixed alphabets", start, f"a name of mixed alphabets: {script[start:end][:60]}")


def _long_lines(script: str) -> Iterator[Mark]:
    for line in _LINE.finditer(script):
        if line.end() - line.start() > MAX_LINE_LENGTH:
            place = line.start() + MAX_LINE_LENGTH
            yield _mark("line length", place, f"a line longer than {MAX_LINE_LENGTH} characters")


def _size(script: str, *, offset: int) -> Mark:
    return _mark("script length", min(offset, len(script)), f"more than {MAX_SCRIPT_BYTES} bytes")


def _mark(row: str, offset: int, what: str) -> Mark:
    return Mark(offset, SOURCE[row].kind, f"Script has {what}", SOURCE[row].instead)


def _code(character: str) -> str:
    return f"U+{ord(character):04X}"
