"""Reads a part of a kept result: what `getResult` accepts, and the JSON text it returns.

    getResult(handle)                                  all of it
    getResult(handle, { from: 0, count: 500 })         items of an array, from number 0 on
    getResult(handle, { at: 'rows' })                  one member of an object
    getResult(handle, { at: 'rows', from: 0, count: 500 })
    getResult(handle, { page: 1 })                     a page of its JSON text, as text

A part is returned completely or not at all: one that is too large for a script is an error that says how to read less.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, NamedTuple, NoReturn, TypeAlias

import msgspec

from codecall.errors import InvalidInputError, ToolCallError
from codecall.jsonio.decode import utf8_length
from codecall.jsonio.incremental import ArrayIndex, skip_items
from codecall.results.examples import EXAMPLE_BYTES, items_in
from codecall.results.languages import ReadingSyntax
from codecall.results.store import PAGE_CHARS, ResultMeta

MAX_NAMED: Final = 10
"""Members that a message lists."""

_BLANK: Final = " \t\r\n"

TextReader: TypeAlias = Callable[[int, int], Awaitable[str]]
"""Returns the characters of the text from one offset to another."""


class PartSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"start": "from"}):
    """The part of a result that a script wants; without any option, all of it."""

    page: int | None = None
    at: str | None = None
    start: int | None = None
    count: int | None = None
    throwOnError: object = None  # noqa: N815 - an option of the call, which may stand here too
    reference: object = None
    """Also an option of the call."""


class PartRequest(NamedTuple):
    """A result, and the part of it that a script wants."""

    handle: str
    spec: PartSpec
    syntax: ReadingSyntax
    """The language of the script."""


def parse_part(handle: str, part: Mapping[str, object], syntax: ReadingSyntax) -> PartRequest:
    """Read the options of `part`, which a script in the language of `syntax` gave.

    Raises:
        InvalidInputError: an option is unknown or not valid.
    """
    try:
        spec = msgspec.convert(part, PartSpec)
    except msgspec.ValidationError as failure:
        if "at" in part and not isinstance(at := part["at"], (str, type(None))):
            first = at[0] if isinstance(at, list) and at and isinstance(at[0], str) else "name"
            example = f"{syntax.value(handle, at=first)}…"
            reason = f"`at` takes the name of one member as text, no path: go on in what it gives, {example}"
            _refuse(handle, reason, syntax)
        _refuse(handle, f"{failure} (known: at, {syntax.start}, count, page)", syntax)
    numbers = {syntax.start: (spec.start, 0), "count": (spec.count, 0), "page": (spec.page, 1)}
    for name, (number, least) in numbers.items():
        if number is not None and number < least:
            _refuse(handle, f"`{name}` is {number}; the least is {least}", syntax)
    if spec.page is not None and (spec.at, spec.start, spec.count) != (None, None, None):
        reason = f"`page` is for the text of the whole result; `at`, `{syntax.start}` and `count` do not go with it"
        _refuse(handle, reason, syntax)
    return PartRequest(handle, spec, syntax)


async def read_part_json(part: PartRequest, meta: ResultMeta, text: TextReader, max_bytes: int) -> str:
    """The JSON text of a part of a result.

    Args:
        part: the result, and the part of it.
        meta: size and index of the result.
        text: returns characters of the result.
        max_bytes: UTF-8 bytes the part may have.

    Raises:
        ToolCallError: the part does not exist, or is too large.
    """
    handle, spec, syntax = part
    if spec.page is not None:
        if spec.page > meta.pages:
            _refuse(handle, f"there is no page {spec.page}; the last is {meta.pages}", syntax)
        start = (spec.page - 1) * PAGE_CHARS
        page = await text(start, start + PAGE_CHARS)
        return _check_size(part, msgspec.json.encode(page).decode(), max_bytes, meta, None)
    items, start, end = meta.parts.items, 0, meta.chars
    if spec.at is not None:
        member = (meta.parts.members or {}).get(spec.at)
        if member is None:
            path = " (`at` is the name of one member, no path)" if "." in spec.at else ""
            missing = f"it has no member {spec.at!r:.100} that can be read by itself{path}"
            _refuse(handle, f"{missing}; {_describe_parts(meta, syntax)}", syntax)
        items, start, end = member.items, member.start, member.end
    if spec.start is None and spec.count is None:
        if end - start > max_bytes:
            raise _too_large(part, end - start, max_bytes, meta, items)
        return _check_size(part, await text(start, end), max_bytes, meta, items)
    if items is None:
        _refuse(handle, f"it is no array whose items can be counted; {_describe_parts(meta, syntax)}", syntax)
    first = min(spec.start or 0, items.count)
    last = items.count if spec.count is None else min(first + spec.count, items.count)
    if first >= last:
        return "[]"
    start, end = await _offset(items, first, text), await _offset(items, last, text)
    if end - start > max_bytes:
        raise _too_large(part, end - start, max_bytes, meta, items)
    inside = (await text(start, end)).rstrip(_BLANK)
    return _check_size(part, f"[{inside if last == items.count else inside.removesuffix(',')}]", max_bytes, meta, items)


async def _offset(items: ArrayIndex, number: int, text: TextReader) -> int:
    """The offset at which an item begins; for a number behind the last item, the one at which the array ends."""
    if number >= items.count:
        return items.end
    first, start, stop = items.span(number)
    return start if first == number else start + skip_items(await text(start, stop), number - first)


def _describe_parts(meta: ResultMeta, syntax: ReadingSyntax) -> str:
    parts = meta.parts
    if parts.items is not None:
        return f"it is an array of {parts.items.count} items"
    if not parts.members:
        begins = syntax.beginning.format("text", 8_000)
        return f"it has no items or members: read all of it and take parts of that (`{begins}`), or its pages"
    members = [
        f"{name:.60} ({f'{member.items.count} items' if member.items else f'{member.end - member.start} characters'})"
        for name, member in list(parts.members.items())[:MAX_NAMED]
    ]
    more = len(parts.members) - len(members)
    return f"it has {', '.join(members)}{f' and {more} more' if more else ''}"


def _check_size(part: PartRequest, json: str, max_bytes: int, meta: ResultMeta, items: ArrayIndex | None) -> str:
    size = utf8_length(json)
    if size > max_bytes:
        raise _too_large(part, size, max_bytes, meta, items)
    return json


def _too_large(
    part: PartRequest, size: int, max_bytes: int, meta: ResultMeta, items: ArrayIndex | None
) -> ToolCallError:
    handle = part.handle[:100]
    if items is not None:
        count = items_in(items, meta, min(EXAMPLE_BYTES, max_bytes // 2))
        call = part.syntax.call(handle, at=part.spec.at, start=part.spec.start or 0, count=count)
        hint = f"Ask for less at once: {call}."
    else:
        hint = f"Read its JSON text in {meta.pages} pages: {part.syntax.call(handle, page=1)}."
    return ToolCallError(
        f"What is asked for of result '{part.handle:.100}' is {size} bytes; a script takes {max_bytes}",
        tool_name=part.handle,
        called="result",
        code="MESSAGE_TOO_LARGE",
        hint=hint,
    )


def _refuse(handle: str, reason: str, syntax: ReadingSyntax) -> NoReturn:
    hint = f"{syntax.function}(handle) gives all of it; `largeResult.hint` of the answer says how its parts are read."
    raise InvalidInputError(f"Result '{handle:.100}': {reason}", tool_name=handle, called="result", hint=hint)
