"""JSON of many megabytes, read a piece at a time, so that the event loop has its turn in between.

One call of the decoder holds the interpreter to its end, in a thread too: 8 ms for each megabyte of ordinary rows. Here
it takes 15 ms, one at a time. An array is cut at commas that look as if they stood between two of its items; the
decoder itself says whether they do, since only whole items read as an array of their own. Where no such comma is found,
and for objects, a pattern passes over as many items as fit in a piece; the end of one that is longer is told by the
decoder, which passes over it in one go: a millisecond for each megabyte.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from typing import Final, cast

import msgspec

from codecall.decoding import read_json
from codecall.sandbox.host.payloads import NotJson, items_of

PIECE: Final = 128 * 1024
"""Bytes that are read in one go: about a millisecond."""

MAX_COUNTED: Final = 500_000
"""Items of an array that are counted."""

MAX_HEAD: Final = 80
"""Bytes of an item's beginning by which the next is looked for."""

_SEPARATORS: Final = (b"},", b"],", b'",', b",")
"""What may stand between two items, the likeliest first."""

_NOT_JSON: Final = (msgspec.DecodeError, UnicodeDecodeError, UnicodeEncodeError, RecursionError)

_ENDS: Final = {b"[": b"]", b"{": b"}", b'"': b'"'}
_TEXT: Final = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'


def _inside(depth: int) -> bytes:
    """What stands between brackets, other brackets included as far as that depth."""
    deeper = rb"|[\[{]%b[\]}]" % _inside(depth - 1) if depth else b""
    return rb'(?:%b|[^"\[\]{}]++%b)*+' % (_TEXT, deeper)


_ITEMS: Final = re.compile(rb'(?:(?:%b|[^"\[\]{},]++|[\[{]%b[\]}])*+,)*+' % (_TEXT, _inside(3)), re.DOTALL)
"""Items, or members, each with the comma behind it; nothing before one that is nested deeper than the pattern."""

_TRAILING: Final = re.compile(r"trailing characters \(byte (\d+)\)")

_apart = msgspec.json.Decoder(list[msgspec.Raw]).decode
_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_one = msgspec.json.Decoder(msgspec.Raw).decode

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
    """Items of the array, or UTF-16 units of the text, that `data` is; None of anything else, and of an array with more
    than `MAX_COUNTED`.

    Raises:
        NotJson: it is no JSON.
    """
    data = data.strip()
    try:
        if data[:1] == b"[":
            count = 0
            async with contextlib.aclosing(_batches(data, _apart)) as batches:
                async for items in batches:
                    count += len(items)
                    if count > MAX_COUNTED:
                        return None
            return count
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
    if data[-1:] != _ENDS.get(data[:1], data[-1:]):
        raise NotJson
    if data[:1] == b'"':
        return "".join([text async for text in _texts(data)])
    if data[:1] == b"[":
        found: list[object] = []
        async for items in _batches(data, lambda piece: _small(piece, depth)):
            # What is larger than a piece is still to be read.
            found += [await _later(item, depth) if type(item) is msgspec.Raw else item for item in items]
        return found
    if data[:1] == b"{":
        return await _object(data, depth)
    return read_json(data)


async def _later(item: msgspec.Raw, depth: int) -> object:
    return await _value(bytes(item).strip(), depth - 1)


async def _object(data: bytes, depth: int) -> dict[str, object]:
    found: dict[str, object] = {}
    at, end = 1, len(data) - 1
    while at <= end:
        cut = _cut(data, at, end, members=True)
        piece = b"{%b}" % data[at:cut]
        if at > 1 and not piece[1:-1].strip():
            raise NotJson
        if len(piece) <= PIECE:
            found |= cast("dict[str, object]", _small(piece, depth))
        else:
            for key, value in _members(piece).items():
                found[key] = await _value(bytes(value), depth - 1)
        at = cut + 1
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


async def _batches(data: bytes, read_items: Callable[[bytes], object]) -> AsyncGenerator[Sequence[object]]:
    """The items of the array whose JSON is `data`, some at a time, as `read_items` reads an array of them; single items
    of more than `PIECE` bytes as `Raw`, where it is not cut at the right place."""
    at, end = 1, len(data) - 1
    guessing = True
    while end - at > PIECE:
        for cut in _cuts(data, at, at + PIECE) if guessing else ():
            try:
                items = read_items(b"[%b]" % data[at:cut])
            except msgspec.DecodeError:
                await asyncio.sleep(0)
                continue
            yield cast("list[object]", items)
            at = cut + 1
            break
        else:
            guessing = False
            cut = _cut(data, at, end)
            items = data[at:cut]
            # One that is larger than a piece is read later.
            yield [msgspec.Raw(items)] if cut - at > PIECE else cast("list[object]", read_items(b"[%b]" % items))
            at = cut + 1
        await asyncio.sleep(0)
    if at <= end:
        rest = cast("list[object]", read_items(b"[%b]" % data[at:end]))
        if not rest and at > 1:
            raise NotJson
        yield rest


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


def _cut(data: bytes, start: int, end: int, *, members: bool = False) -> int:
    """The comma behind as many items as fit in a piece that begins at `start`, or behind the first of them if that is
    longer; `end` behind the last."""
    cut = start
    while cut - start < PIECE // 4:
        found = _ITEMS.match(data, cut, min(start + PIECE, end))
        cut = cut if found is None else found.end()
        if cut - start >= PIECE // 4:
            break
        past = cut
        if members:
            past = _end(data, past, end)
            if data[past : past + 1] != b":":
                return end
            past += 1
        past = _end(data, past, end)
        if past - start > PIECE and cut > start:
            break
        if past >= end:
            return end
        if data[past : past + 1] != b",":
            raise NotJson
        cut = past + 1
    return cut - 1


def _end(data: bytes, start: int, end: int) -> int:
    """What comes after the value that begins at `start`, and after the blanks behind it."""
    try:
        _one(memoryview(data)[start:end])
    except msgspec.DecodeError as failure:
        if (found := _TRAILING.search(str(failure))) is None:
            raise
        return start + int(found[1]) - 1
    return end
