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

from codecall.sandbox.agentscript.blanking import Eraser, Shape, blanked, misplaced, non_null
from codecall.sandbox.agentscript.characters import ODD_SPACE, UNSEEN_IN_CODE, code_point
from codecall.sandbox.agentscript.findings import Mark
from codecall.sandbox.agentscript.prescan import source_mark
from codecall.sandbox.agentscript.typescript import parse

TYPE_ARGUMENTS: Final = re.compile(r"([\w$])<(?:[A-Z][\w$]*|null|undefined|[\s.,|&\[\]<>]){1,40}+(?<=>)\(")
"""What is a call with type arguments, or looks like one: `callTool<User>(…)`, `new Map<Key, Date[]>(…)`. To JavaScript
they are comparisons, of names it may know. Other types need no suspicion: they are no names it knows."""


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
    before = script
    if (reading := parse(script)) is not None and (asserted := non_null(reading.root)):
        # The parser ranks `!` below all operators: without any, it reads the rest as everyone does
        script = blanked(script, [(place, place + 1) for place in asserted])
        reading = parse(script) if reading.sound else reading
    if reading is None:
        return None
    eraser = Eraser(script)
    eraser.run(reading.root)
    if not eraser.spans and not eraser.marks and script == before:
        return None
    text = eraser.text()
    marks = [*eraser.marks, *_hidden(script, eraser.spans), *eraser.bared(text)]
    calls = (found for found in TYPE_ARGUMENTS.finditer(text) if found.end(1) in eraser.compared)
    marks.extend(misplaced(found.start(), "type in the way") for found in calls)  # comparisons to nobody but the parser
    if reading.sound and not marks:
        marks.extend(_changed(text, eraser.shape))
    return Erased(text, marks, reading.sound)


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
