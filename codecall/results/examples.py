"""The line of an answer's hint that reads a part of a kept result: it runs as it stands, and what it gives fits.

A part is small enough for an answer by what is known of it: the items by their text, a text by its characters, and
names, which are not measured, by being few.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from codecall.jsonio.decode import utf8_length
from codecall.jsonio.incremental import ArrayIndex, skip_items
from codecall.results.languages import ReadingSyntax
from codecall.results.store import PAGE_CHARS, ResultMeta

EXAMPLE_BYTES: Final = 512 * 1024
"""Approximate bytes that an example of reading a result in pieces reads at once, at most."""

MAX_AT_ONCE: Final = 4 * 1024 * 1024
"""Bytes of a text up to which an example reads all of it; every preset lets a script take as much."""

MAX_NAMES: Final = 100
"""Names of members that an example asks for."""

NAME_BYTES: Final = 64
"""Bytes that each of them has at most, as far as is known."""

_JSON_BYTES: Final = 4
"""Most bytes that a character of a page has as JSON, where escapes are escaped once more. One of a text has up to 6,
for which an example leaves room."""


class _Chosen(NamedTuple):
    """The part that an example is about."""

    at: str | None
    """The name of the member; None for all of a result."""
    start: int
    end: int
    items: ArrayIndex | None


def usage_example(handle: str, meta: ResultMeta, text: str, inline_bytes: int, syntax: ReadingSyntax) -> str:
    """A line that a later script may consist of, which reads a part that an answer holds, and what to change in it.

    Args:
        handle: the result.
        meta: its size and index.
        text: the result.
        inline_bytes: bytes that an answer holds.
        syntax: the language of that script.
    """
    reads = f"A later script in {syntax.language} reads"
    chosen = _choose(meta, inline_bytes)
    room = max(1, min(EXAMPLE_BYTES, inline_bytes // 2))
    items = chosen.items
    if items is not None and items.count > 0:
        count = _count_that_fits(items, meta, text, room, inline_bytes)
        if count > 0:
            which = "the first item" if count == 1 else f"the first {count} items"
            example = f"return {syntax.wait}{syntax.call(handle, at=chosen.at, start=0, count=count)}"
            get = f"{syntax.wait}{syntax.call(handle, at=chosen.at)}"
            whole = f"; or filter and add up over `{get}`" if meta.size <= MAX_AT_ONCE else ""
            return f"{reads} it in pieces: `{example}` gives {which} of {items.count}{whole}."
        start, end = items.marks[0][1], _offset(items, 1, text)
        if end - start <= MAX_AT_ONCE:
            first = f"{syntax.value(handle, at=chosen.at, start=0, count=1)}[0]"
            example = _of_value(first, text[start : start + 1], room, syntax)
            return f"The first of its {items.count} items alone is too large to show. {reads} {example}"
    elif meta.size <= MAX_AT_ONCE:
        value, begins = syntax.value(handle, at=chosen.at), text[chosen.start : chosen.start + 1]
        return f"{reads} {_of_value(value, begins, room, syntax, _longest_name(meta, chosen))}"
    page = f"{syntax.wait}{syntax.call(handle, page=1)}"
    if inline_bytes < PAGE_CHARS * _JSON_BYTES + 2:
        page = syntax.beginning.format(syntax.value(handle, page=1), room // _JSON_BYTES)
    return f"{reads} its JSON text in {meta.pages} pages, as text with its escapes: `return {page}`."


def items_in(items: ArrayIndex, meta: ResultMeta, size: int) -> int:
    """The approximate number of items in `size` bytes, rounded down to one digit."""
    first = items.marks[0][1]
    share = max(1, (items.end - first) * meta.size // max(1, meta.chars))
    return _round(max(1, min(items.count, items.count * size // share)))


def quoted(name: str) -> str:
    """A name as a script writes it."""
    return msgspec.json.encode(name).decode()


def _choose(meta: ResultMeta, inline_bytes: int) -> _Chosen:
    """All of a result, or the largest member of an object where that is most of it or is too large to show."""
    whole = _Chosen(None, 0, meta.chars, meta.parts.items)
    members = meta.parts.members
    if whole.items is not None or not members:
        return whole
    name, largest = max(members.items(), key=lambda member: member[1].end - member[1].start)
    size = largest.end - largest.start
    if size <= inline_bytes and 2 * size < meta.chars:
        return whole
    return _Chosen(name, largest.start, largest.end, largest.items)


def _of_value(value: str, begins: str, room: int, syntax: ReadingSyntax, name_bytes: int = NAME_BYTES) -> str:
    """An example that reads the beginning of one value: a text, or what begins with a bracket."""
    if begins == '"':
        beginning = syntax.beginning.format(value, room // _JSON_BYTES)
        return f"the text in pieces: `return {beginning}`, or its lines, `return {syntax.lines.format(value)}`."
    if begins == "[":
        return f"what it needs of it: `return {syntax.length.format(value)}` counts its items."
    count = max(1, min(MAX_NAMES, room // (name_bytes + 3)))
    operand = value if value.endswith(")") else syntax.operand.format(value)
    names = f"return {syntax.names.format(operand, count)}"
    return f"what it needs of it: `{names}` gives the names of its members."


def _longest_name(meta: ResultMeta, chosen: _Chosen) -> int:
    """Bytes of the longest name of a member that is known. The index leaves out the very long ones."""
    if chosen.at is not None or meta.parts.members is None:
        return NAME_BYTES
    if not meta.parts.members:
        return meta.size
    return max(NAME_BYTES, *(utf8_length(quoted(name)) for name in meta.parts.members))


def _count_that_fits(items: ArrayIndex, meta: ResultMeta, text: str, room: int, inline_bytes: int) -> int:
    """How many of the first items an answer holds, a round number; 0 if the first alone is too large."""
    start = items.marks[0][1]
    count = items_in(items, meta, room)
    while count > 0 and utf8_length(text[start : _offset(items, count, text)]) + 1 > inline_bytes:
        count = _round(count // 2)
    return count


def _offset(items: ArrayIndex, number: int, text: str) -> int:
    """The offset at which an item begins; for a number behind the last item, the one at which the array ends."""
    if number >= items.count:
        return items.end
    first, start, stop = items.span(number)
    return start if first == number else start + skip_items(text[start:stop], number - first)


def _round(count: int) -> int:
    return count // (place := 10 ** (len(str(count)) - 1)) * place
