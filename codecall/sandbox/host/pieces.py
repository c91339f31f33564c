"""JSON of many megabytes, read a piece at a time, so that the event loop has its turn in between.

One call of the decoder holds the interpreter to its end, in a thread too: 8 ms for each megabyte of ordinary rows. Here
it takes 15 ms, one at a time. An array is cut at commas that look as if they stood between two of its items; the
decoder itself says whether they do, since only whole items read as an array of their own. Where no such comma is found,
and for objects, the decoder first tells the members apart without reading them, in one go: a millisecond for each
megabyte.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Final, cast

import msgspec

from codecall.decoding import read_json
from codecall.sandbox.host.payloads import NotJson, items_of

PIECE: Final = 128 * 1024
"""Bytes that are read in one go: about a millisecond."""

MAX_HEAD: Final = 80
"""Bytes of an item's beginning by which the next is looked for."""

_MEMBER: Final = 100
"""What a member of an object counts besides the bytes of its value: telling it from others takes as long as reading
so many."""

_SEPARATORS: Final = (b"},", b"],", b'",', b",")
"""What may stand between two items, the likeliest first."""

_NOT_JSON: Final = (msgspec.DecodeError, UnicodeDecodeError, UnicodeEncodeError, RecursionError)

_apart = msgspec.json.Decoder(list[msgspec.Raw]).decode
_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode

_WHOLE_CHARACTERS: Final = re.compile(
    rb"(?:[^\\]++|\\[^u]|\\u(?![dD][89a-fA-F])....|\\u[dD][89abAB]..\\u[dD][c-fC-F]..)*+", re.DOTALL
)
"""As much of a text's JSON as is not half of an escape, or of a pair of them."""


async def read(data: bytes, depth: int) -> object:
    """What `data`, which is JSON, says.

    Raises:
        NotJson: it is no JSON, or nested deeper than `depth` objects and arrays.
    """
    try:
        return await _value(data.strip(), depth)
    except _NOT_JSON:
        raise NotJson from None


async def length(data: bytes) -> int | None:
    """Items of the array, or UTF-16 units of the text, that `data` is; None of anything else.

    Raises:
        NotJson: it is no JSON.
    """
    data = data.strip()
    try:
        if data[:1] == b"[":
            return sum([len(items) async for items in _batches(data, _apart)])
        if data[:1] == b'"':
            return sum([len(text.encode("utf-16-le", "surrogatepass")) // 2 async for text in _texts(data)])
    except _NOT_JSON:
        raise NotJson from None
    return None


async def _value(data: bytes, depth: int) -> object:
    if len(data) <= PIECE:
        return _small(data, depth)
    if depth < 1 and data[:1] in (b"[", b"{"):
        raise NotJson
    if data[:1] == b'"':
        return "".join([text async for text in _texts(data)])
    if data[:1] == b"[":
        found: list[object] = []
        async for items in _batches(data, lambda piece: _small(piece, depth)):
            # What could not be cut is still to be read.
            found += [await _value(bytes(item), depth - 1) if type(item) is msgspec.Raw else item for item in items]
        return found
    if data[:1] == b"{":
        return await _object(data, depth)
    return read_json(data)


async def _object(data: bytes, depth: int) -> dict[str, object]:
    found: dict[str, object] = {}
    since = 0
    members = _members(data)
    await asyncio.sleep(0)
    for key, value in members.items():
        found[key] = await _value(bytes(value), depth - 1)
        since += len(value) + _MEMBER
        if since > PIECE:
            since = 0
            await asyncio.sleep(0)
    return found


def _small(data: bytes, depth: int) -> object:
    value = read_json(data)
    if data.count(b"[") + data.count(b"{") > depth:
        _check_depth(value, depth)
    return value


def _check_depth(data: object, depth: int) -> None:
    level: list[object] = [data] if isinstance(data, (dict, list)) else []
    while level:
        if depth < 1:
            raise NotJson
        depth -= 1
        level = [item for container in level for item in items_of(container) if type(item) in (dict, list)]


async def _texts(data: bytes) -> AsyncIterator[str]:
    """The text whose JSON is `data`, in parts."""
    at, end = 1, len(data) - 1
    while end - at > PIECE:
        found = _WHOLE_CHARACTERS.match(data, at, at + PIECE)
        cut = at if found is None else found.end()
        while cut > at and data[cut] & 0xC0 == 0x80:
            cut -= 1  # within a character
        if cut == at:
            break
        yield _text(data[at:cut])
        at = cut
        await asyncio.sleep(0)
    yield _text(data[at:end])


def _text(characters: bytes) -> str:
    return cast("str", read_json(b'"%b"' % characters))


async def _batches(data: bytes, read_items: Callable[[bytes], object]) -> AsyncIterator[Sequence[object]]:
    """The items of the array whose JSON is `data`, some at a time, as `read_items` reads an array of them; single items
    of more than `PIECE` bytes as `Raw`, where it is not cut at the right place."""
    at, end = 1, len(data) - 1
    while end - at > PIECE:
        for cut in _cuts(data, at, at + PIECE):
            try:
                items = read_items(b"[%b]" % data[at:cut])
            except msgspec.DecodeError:
                continue
            yield cast("list[object]", items)
            at = cut + 1
            break
        else:
            async for items in _told_apart(data[at:end], read_items):
                yield items
            return
        await asyncio.sleep(0)
    yield cast("list[object]", read_items(b"[%b]" % data[at:end]))


def _cuts(data: bytes, start: int, end: int) -> Iterator[int]:
    """Commas between `start` and `end` that may stand between two items of an array, one of which begins at `start`."""
    tried: set[int] = set()
    head = data[start : start + MAX_HEAD].lstrip()
    if (colon := head.find(b":")) > 0:
        comma = data.rfind(b",", start, max(start, data.rfind(head[:colon], start + 1, end)))
        if comma > 0:
            tried.add(comma)
            yield comma
    for separator in _SEPARATORS:
        place = data.rfind(separator, start, end)
        comma = place + len(separator) - 1
        if place >= 0 and comma not in tried:
            tried.add(comma)
            yield comma


async def _told_apart(inside: bytes, read_items: Callable[[bytes], object]) -> AsyncIterator[Sequence[object]]:
    """The same of what stands in an array, where no cut is right."""
    waiting: list[msgspec.Raw] = []
    size = 0
    apart = _apart(b"[%b]" % inside)
    await asyncio.sleep(0)
    for item in apart:
        if len(item) > PIECE or size > PIECE:
            if waiting:
                yield cast("list[object]", read_items(b"[%b]" % b",".join(waiting)))
                await asyncio.sleep(0)
            waiting, size = [], 0
        if len(item) > PIECE:
            yield [item]
        else:
            waiting.append(item)
            size += len(item)
    if waiting:
        yield cast("list[object]", read_items(b"[%b]" % b",".join(waiting)))
