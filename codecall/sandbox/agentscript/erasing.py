"""Types taken out of a script, in place: each character of a type becomes a blank, line ends stay, so that everything
else stays where it was sent. `policy.TYPESCRIPT` says what becomes of each kind of node.

Where blanks alone would change what the code around them means, some erased characters become `;`, `(` or `)`:

    interface A {}\\n(x)         ;             \\n(x)         a statement or a member of a class begins and ends there
    a = b as T\\n[x]             a = b ;   \\n[x]             a line end no longer ends the statement by itself
    class { get: T\\n x() {} }   class { get;  \\n x() {} }   nor a field
    (a):\\n T => a               (a  \\n ) => a               no line end may stand before =>
    async <\\nT>(a) => a         async (\\n   a) => a         nor behind `async`

What is left is read once more, by the same parser: where it does not have the very tree that the script has without
its types, the type is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from codecall.sandbox.agentscript.blanking import Eraser, Shape, blanked, broken_lines, misplaced
from codecall.sandbox.agentscript.characters import ODD_SPACE, UNSEEN_IN_CODE, code_point
from codecall.sandbox.agentscript.findings import Mark
from codecall.sandbox.agentscript.prescan import source_mark
from codecall.sandbox.agentscript.typescript import comparisons, misranked, parse

_IN_TYPES = r"[\s.|\[\]<>]|&(?!&)|\{[^{}()]*\}|\"[^\"\n]*\"|'[^'\n]*'"
_SEVERAL = rf"<(?:[A-Z][\w$]*|null|undefined|true|false|,|{_IN_TYPES}){{1,40}}+(?<=>)(?=[(`])"
_ONE = rf"<(?![<=])(?:[\w$]++|{_IN_TYPES}){{1,40}}?>(?=\s*[(`])"
_FROM_SIGN: Final = re.compile(f"{_SEVERAL}|{_ONE}")
TYPE_ARGUMENTS: Final = re.compile(rf"[\w$)\]](?:{_SEVERAL}|\s*{_ONE})")
"""What is a call with type arguments, or looks like one: `callTool<User>(…)`, `new Map<Key, Date[]>(…)`. To JavaScript
they are comparisons, of names it may know. In a list of several, those that begin with small letters may be two honest
comparisons: `f(a<b, c>(d))`."""

_MAX_COMPARED: Final = 64
"""Different texts that may be types, each of which is read for itself."""
_MAX_ROUNDS: Final = 4
"""Readings of a script in which the parser ranks operators wrongly."""


class Erased(NamedTuple):
    """A script without its types."""

    text: str
    """As long as the script, and with the same lines."""
    marks: list[Mark]
    """What cannot be erased."""
    sound: bool
    """Whether the parser could read all of the script; otherwise `text` is good for finding out what is wrong, and for
    nothing else."""


def erase(script: str) -> Erased | None:
    """Take the types out of `script`; None when there is nothing of TypeScript in it, or too much to read."""
    before, marks = script, list[Mark]()
    reading = parse(script)
    for _ in range(_MAX_ROUNDS):
        if reading is None:
            return None
        ranked = list(misranked(script, reading.root))
        types = [(node.start_byte, node.end_byte) for node in ranked]
        marks.extend(mark for node in ranked for mark in broken_lines(script, node))
        if reading.sound:
            types.extend(_read_as_types(script, comparisons(script, reading.root), marks))
        if not types:
            break
        # Without what the parser ranks wrongly, it reads the rest as everyone does
        marks.extend(_hidden(script, types))
        script = blanked(script, types)
        if not reading.sound:
            break
        reading = parse(script)
    if reading is None:
        return None
    eraser = Eraser(script)
    eraser.run(reading.root)
    if not eraser.spans and not eraser.marks and not marks and script == before:
        return None
    text = eraser.text()
    marks.extend((*eraser.marks, *_hidden(script, eraser.spans), *eraser.bared(text)))
    if reading.sound and not marks:
        marks.extend(_changed(text, eraser.shape))
    return Erased(text, marks, reading.sound)


def _read_as_types(script: str, places: list[int], marks: list[Mark]) -> Iterator[tuple[int, int]]:
    """What begins at one of the `places` of the sign `<`, and is a call's type arguments to everyone but the parser.
    Where it takes too much to tell, there is a finding."""
    known: dict[str, bool] = {}
    read = 0
    for place in places:
        found = _FROM_SIGN.match(script, place) if place >= read else None
        if found is None:
            continue
        types = found[0]
        if types not in known:
            if len(known) == _MAX_COMPARED:
                marks.append(misplaced(place, "type arguments in the way"))
                return
            text = f"let a: A{types};"
            reading = parse(text)
            known[types] = reading is not None and reading.sound and not any(broken_lines(text, reading.root))
        if known[types]:
            read = found.end()
            yield found.span()


def _changed(text: str, wanted: Shape) -> list[Mark]:
    """The finding about a script that means something else without its types."""
    reading = parse(text)
    eraser = Eraser(text)
    if reading is not None:
        eraser.run(reading.root)
        if reading.sound and not eraser.spans and not eraser.marks and eraser.shape == wanted:
            return []
    pairs = zip(eraser.shape, wanted, strict=False)
    same = next((index for index, (one, other) in enumerate(pairs) if one != other), len(eraser.shape))
    offset = next((place for _, place in reversed(wanted[: same + 1]) if place >= 0), 0)
    return [misplaced(offset, "type in the way")]


def _hidden(script: str, spans: list[tuple[int, int]]) -> Iterator[Mark]:
    """What nobody would see in the types, at which the guard does not look."""
    for start, end in spans if not script.isascii() else ():
        for unseen, row in ((UNSEEN_IN_CODE, "invisible character"), (ODD_SPACE, "unusual white space")):
            if found := unseen.search(script, start, end):
                yield source_mark(row, found.start(), f"the {row} {code_point(found[0])}")
