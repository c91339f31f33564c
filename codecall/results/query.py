"""What of a kept result a script asks for, and the JSON text of it.

    getResult(handle)                                  all of it
    getResult(handle, { from: 0, count: 500 })         items of an array, from number 0 on
    getResult(handle, { at: 'rows' })                  one member of an object
    getResult(handle, { at: 'rows', from: 0, count: 500 })
    getResult(handle, { page: 1 })                     a page of its JSON text, as text

Whatever is asked for comes whole, or not at all: what a script cannot take is an error that says what it could.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, NamedTuple, NoReturn, TypeAlias

import msgspec

from codecall.errors import InvalidInputError, ToolCallError
from codecall.jsonio.incremental import ArrayIndex, skip_items
from codecall.results.store import PAGE_CHARS, ResultMeta

EXAMPLE_BYTES: Final = 512 * 1024
"""Bytes that an example of how to read a result in pieces takes at once, about."""

MAX_NAMED: Final = 10
"""Members that a message names."""

TextReader: TypeAlias = Callable[[int, int], Awaitable[str]]
"""Characters of the text, from one offset to another."""


class PartSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"start": "from"}):
    """What of a result is asked for; nothing: all."""

    page: int | None = None
    at: str | None = None
    start: int | None = None
    count: int | None = None
    throwOnError: object = None  # noqa: N815 - an option of the call, which may stand here too
    reference: object = None
    """The same."""


class PartRequest(NamedTuple):
    """What is asked for."""

    handle: str
    spec: PartSpec


def parse_part(handle: str, part: Mapping[str, object]) -> PartSpec:
    """What `part` asks for.

    Raises:
        InvalidInputError: nothing that there is.
    """
    try:
        wanted = msgspec.convert(part, PartSpec)
    except msgspec.ValidationError as failure:
        _refuse(handle, f"{failure} (known: at, from, count, page)")
    numbers = {"from": (wanted.start, 0), "count": (wanted.count, 0), "page": (wanted.page, 1)}
    for name, (number, least) in numbers.items():
        if number is not None and number < least:
            _refuse(handle, f"`{name}` is {number}; the least is {least}")
    if wanted.page is not None and (wanted.at, wanted.start, wanted.count) != (None, None, None):
        _refuse(handle, "`page` is for the text of the whole result; `at`, `from` and `count` do not go with it")
    return wanted


def usage_example(handle: str, head: ResultMeta) -> str:
    """How a later script reads a result, in one sentence."""
    pages = f"{{page: 1}} to {{page: {head.pages}}}"
    items, at = head.parts.items, ""
    if items is None:
        arrays = {name: member.items for name, member in (head.parts.members or {}).items() if member.items is not None}
        if not arrays:
            return f"A later script reads its JSON text in pieces: `await getResult('{handle}', {pages})`."
        name, items = max(arrays.items(), key=lambda array: array[1].count)
        at = f"at: {_quoted(name)}, "
    count = _fitting(items, head, EXAMPLE_BYTES)
    return (
        f"A later script reads it in pieces: `await getResult('{handle}', {{{at}from: 0, count: {count}}})` gives the "
        f"first {count} of {items.count} items; {pages} instead give its JSON text."
    )


async def read_part_json(part: PartRequest, head: ResultMeta, text: TextReader, max_bytes: int) -> str:
    """The JSON text of what is asked for.

    Args:
        part: what is asked for, and of which result.
        head: what is known of it.
        text: gives its characters.
        max_bytes: UTF-8 bytes a script takes.

    Raises:
        ToolCallError: there is no such part, or it is too large.
    """
    handle, wanted = part
    if wanted.page is not None:
        if wanted.page > head.pages:
            _refuse(handle, f"there is no page {wanted.page}; the last is {head.pages}")
        start = (wanted.page - 1) * PAGE_CHARS
        page = await text(start, start + PAGE_CHARS)
        return _fits(part, msgspec.json.encode(page).decode(), max_bytes, head, None)
    items, start, end = head.parts.items, 0, head.chars
    if wanted.at is not None:
        member = (head.parts.members or {}).get(wanted.at)
        if member is None:
            _refuse(handle, f"it has no member {wanted.at!r:.100} that can be read by itself; {_there_are(head)}")
        items, start, end = member.items, member.start, member.end
    if wanted.start is None and wanted.count is None:
        if end - start > max_bytes:
            raise _too_large(part, end - start, max_bytes, head, items)
        return _fits(part, await text(start, end), max_bytes, head, items)
    if items is None:
        _refuse(handle, f"it is no array whose items can be counted; {_there_are(head)}")
    first = min(wanted.start or 0, items.count)
    last = items.count if wanted.count is None else min(first + wanted.count, items.count)
    if first >= last:
        return "[]"
    start, end = await _offset(items, first, text), await _offset(items, last, text)
    if end - start > max_bytes:
        raise _too_large(part, end - start, max_bytes, head, items)
    inside = (await text(start, end)).rstrip(_BLANK)
    return _fits(part, f"[{inside if last == items.count else inside.removesuffix(',')}]", max_bytes, head, items)


_BLANK: Final = " \t\r\n"


async def _offset(items: ArrayIndex, number: int, text: TextReader) -> int:
    """Where an item begins; behind the last one, where the array ends."""
    if number >= items.count:
        return items.end
    known, start, stop = items.span(number)
    return start if known == number else start + skip_items(await text(start, stop), number - known)


def _fitting(items: ArrayIndex, head: ResultMeta, size: int) -> int:
    """How many items take so many bytes, about: a round number."""
    first = items.marks[0][1]
    share = max(1, (items.end - first) * head.size // max(1, head.chars))
    count = max(1, min(items.count, items.count * size // share))
    return count // (place := 10 ** (len(str(count)) - 1)) * place


def _quoted(name: str) -> str:
    return msgspec.json.encode(name).decode()


def _there_are(head: ResultMeta) -> str:
    parts = head.parts
    if parts.items is not None:
        return f"it is an array of {parts.items.count} items"
    if not parts.members:
        return "only its pages can be read"
    named = [
        f"{name:.60} ({f'{member.items.count} items' if member.items else f'{member.end - member.start} characters'})"
        for name, member in list(parts.members.items())[:MAX_NAMED]
    ]
    more = len(parts.members) - len(named)
    return f"it has {', '.join(named)}{f' and {more} more' if more else ''}"


def _fits(part: PartRequest, json: str, max_bytes: int, head: ResultMeta, items: ArrayIndex | None) -> str:
    size = len(json) if json.isascii() else len(json.encode())
    if size > max_bytes:
        raise _too_large(part, size, max_bytes, head, items)
    return json


def _too_large(
    part: PartRequest, size: int, max_bytes: int, head: ResultMeta, items: ArrayIndex | None
) -> ToolCallError:
    at = "" if part.spec.at is None else f"at: {_quoted(part.spec.at)}, "
    if items is not None:
        call = (
            f"{{{at}from: {part.spec.start or 0}, count: {_fitting(items, head, min(EXAMPLE_BYTES, max_bytes // 2))}}}"
        )
        hint = f"Ask for less at once: getResult(handle, {call})."
    else:
        hint = f"Read its JSON text in pieces: getResult(handle, {{page: 1}}) to {{page: {head.pages}}}."
    return ToolCallError(
        f"What is asked for of result '{part.handle:.100}' is {size} bytes; a script takes {max_bytes}",
        tool_name=part.handle,
        called="result",
        code="MESSAGE_TOO_LARGE",
        hint=hint,
    )


def _refuse(handle: str, why: str) -> NoReturn:
    raise InvalidInputError(f"Result '{handle:.100}': {why}", tool_name=handle, called="result")
