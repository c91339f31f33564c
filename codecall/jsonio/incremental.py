"""JSON of many megabytes, read a piece at a time, so that the event loop has its turn in between.

One call of the decoder holds the interpreter to its end, in a thread too: 8 ms for each megabyte of ordinary rows. Here
it takes 15 ms, one at a time. An array is cut at commas that look as if they stood between two of its items; the
decoder itself says whether they do, since only whole items read as an array of their own. Where no such comma is found,
and for objects, a pattern passes over as many items as fit in a piece; the end of one that is longer is told by the
decoder, which passes over it in one go: a millisecond for each megabyte.

A bound of 4 MiB for one reference would not make this needless: one call of the decoder holds the event loop for 45 to
80 ms with 4 MiB of rows and for 85 to 100 ms with 4 MiB of floats, where 20 ms are allowed. And a script takes values
of 16 MiB under `secure`, so that references would carry less than the script itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from bisect import bisect_right
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator, Sequence
from typing import Final, TypeAlias, cast

import msgspec

from codecall.jsonio.decode import NotJson, child_values, read_json

# ----------------------------------------------------------------------------------------------------
# JSON of many megabytes, read a piece at a time, so that the event loop has its turn in between.

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
        level = [item for container in level for item in child_values(container) if type(item) in (dict, list)]


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


# ----------------------------------------------------------------------------------------------------
# Where the parts of a JSON text are: the items of an array, the members of an object.

MAX_MEMBERS: Final = 100
"""Members of an object that are found; the first ones."""

MAX_NAME: Final = 200
"""Characters of the name of a member that is found, as JSON."""

STRIDE: Final = 16 * 1024
"""Characters after which the next item is marked: what may have to be read to find one."""

_WINDOW: Final = 64 * 1024
"""Characters that are looked at in one piece: under 2 ms."""

_RUN: Final = 32
"""Items that are tried at once."""

_DEEP: Final = 4
"""Containers within an item that are passed over at once."""

_MAX_STEPS: Final = 1_000_000
"""Brackets, items and members that are looked at one by one: about a second. A text with more has no parts."""

_REST: Final = 1_000
"""Of these, how many between two yields."""

_TEXT_OF_PART: Final = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_BLANK: Final = r"[ \t\r\n]*+"


def _inside_part(depth: int) -> str:
    """What stands between brackets, other brackets included as far as that depth. The text is JSON: they match."""
    deeper = rf"|[\[{{]{_inside_part(depth - 1)}[\]}}]" if depth else ""
    return rf'(?:{_TEXT_OF_PART}|[^"\[\]{{}}]++{deeper})*+'


_VALUE: Final = rf'(?:{_TEXT_OF_PART}|[^"\[\]{{}},\s]++|[\[{{]{_inside_part(_DEEP)}[\]}}])'
_ONE: Final = re.compile(_VALUE, re.DOTALL)
_MANY: Final = re.compile(rf"(?:{_VALUE}{_BLANK},{_BLANK}){{{_RUN}}}", re.DOTALL)
_CHARACTERS: Final = re.compile(r'(?:[^"\\]++|\\.)*+', re.DOTALL)
_PLAIN: Final = re.compile(_inside_part(0), re.DOTALL)
_BRACKET: Final = re.compile(rf"{_inside_part(0)}([\[\]{{}}])", re.DOTALL)
_BLANKS: Final = re.compile(_BLANK)


class ArrayIndex(msgspec.Struct, frozen=True, array_like=True):
    """The items of an array."""

    count: int
    marks: tuple[tuple[int, int], ...]
    """Some of them, the first included: number, and offset in the text."""
    end: int
    """Where the closing bracket stands."""

    def span(self, number: int) -> tuple[int, int, int]:
        """Where to look for an item: the number of one at or before it, where that begins, and where to stop."""
        index = bisect_right(self.marks, (number, self.end)) - 1
        known, start = self.marks[index]
        stop = self.marks[index + 1][1] if index + 1 < len(self.marks) else self.end
        # Only the last item before the next mark can be longer than that, and nothing behind it is looked for.
        return known, start, min(stop, start + STRIDE + 2 * _WINDOW)


class MemberSpan(msgspec.Struct, frozen=True, array_like=True):
    """One member of an object: where its value stands, and its items if that is an array."""

    start: int
    end: int
    items: ArrayIndex | None = None


class JsonIndex(msgspec.Struct, frozen=True):
    """What is known of a text; both are None of one that is neither, or where finding out would take too long."""

    items: ArrayIndex | None = None
    """Of an array."""
    members: dict[str, MemberSpan] | None = None
    """Of an object: the first ones, by name."""


class _TooMuch(Exception):  # noqa: N818 - internal signal, named for what happened
    """Looking takes too long."""


Work: TypeAlias = Generator[None, None, int]
"""Gives an offset, in the end."""


def index_json(text: str) -> Generator[None, None, JsonIndex]:
    """The parts of a JSON text."""
    look = _Look(text)
    start = look.pass_blanks(0)
    try:
        if text[start] == "[":
            return JsonIndex(items=(yield from look.items(start)))
        if text[start] == "{":
            return JsonIndex(members=(yield from look.members(start)))
    except _TooMuch:
        pass
    return JsonIndex()


def skip_items(text: str, count: int) -> int:
    """The offset of item `count` in a text that begins with item 0."""
    look = _Look(text)
    at = 0
    for _ in range(count):
        if at >= len(text):  # not the text that was looked at
            break
        for end in _exhausted(look.value(at)):
            at = look.pass_blanks(look.pass_blanks(end) + 1)
    return at


def _exhausted(work: Work) -> Generator[int, None, None]:
    try:
        while True:
            next(work)
    except StopIteration as end:
        yield end.value


class _Look:
    """Looks at one text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._steps = 0

    def pass_blanks(self, at: int) -> int:
        """The first character from there that is no blank."""
        found = _BLANKS.match(self._text, at)
        return found.end() if found else at

    def value(self, at: int) -> Work:
        """The end of the value that begins there."""
        text, stop = self._text, at + _WINDOW
        found = _ONE.match(text, at, stop)
        # What reaches the edge of the window may go on behind it.
        if found is not None and (found.end() < stop or stop >= len(text)):
            return found.end()
        return (yield from self._string(at) if text[at] == '"' else self._container(at))

    def items(self, at: int) -> Generator[None, None, ArrayIndex]:
        """The items of the array that begins there."""
        text = self._text
        at = self.pass_blanks(at + 1)
        marks = [(0, at)]
        if text[at] == "]":
            return ArrayIndex(0, tuple(marks), at)
        number = singly = 0
        while True:
            run = None if singly else _MANY.match(text, at, at + _WINDOW)
            if run is not None and text[run.end() : run.end() + 1]:
                at, number = run.end(), number + _RUN
            else:
                singly = (singly or _RUN) - 1
                at = self.pass_blanks((yield from self.value(at)))
                if text[at] == "]":
                    return ArrayIndex(number + 1, tuple(marks), at)
                at, number = self.pass_blanks(at + 1), number + 1
            if at - marks[-1][1] >= STRIDE:
                marks.append((number, at))
                yield
            self._step()
            if self._steps % _REST == 0:
                yield

    def members(self, at: int) -> Generator[None, None, dict[str, MemberSpan]]:
        """The members of the object that begins there."""
        text, found = self._text, dict[str, MemberSpan]()
        at = self.pass_blanks(at + 1)
        while text[at] == '"' and len(found) < MAX_MEMBERS:
            key_end = yield from self._string(at)
            start = self.pass_blanks(self.pass_blanks(key_end) + 1)
            member = yield from self._member(start)
            if key_end - at <= MAX_NAME:
                found[str(json.loads(text[at:key_end]))] = member
            at = self.pass_blanks(member.end)
            if text[at] == ",":
                at = self.pass_blanks(at + 1)
        return found

    def _member(self, start: int) -> Generator[None, None, MemberSpan]:
        self._step()
        yield
        if self._text[start] == "[":
            items = yield from self.items(start)
            return MemberSpan(start, items.end + 1, items)
        return MemberSpan(start, (yield from self.value(start)))

    def _container(self, at: int) -> Work:
        """The end of a container that is large or deep, bracket by bracket."""
        text, depth, rested = self._text, 0, at
        while at < len(text):
            found = _BRACKET.match(text, at, at + _WINDOW)
            if found is None:
                plain = _PLAIN.match(text, at, at + _WINDOW)
                at = plain.end() if plain else at
                at = (yield from self._string(at)) if text[at : at + 1] == '"' else at
            else:
                at = found.end()
                depth += 1 if found[1] in "[{" else -1
                if not depth:
                    break
            self._step()
            if self._steps % _REST == 0 or at - rested > 2 * _WINDOW:
                rested = at
                yield
        return at

    def _string(self, at: int) -> Work:
        """The end of the string that begins there."""
        text, at = self._text, at + 1
        while at < len(text):
            found = _CHARACTERS.match(text, at, at + _WINDOW)
            at = found.end() if found else at
            if text[at : at + 1] == '"':
                break
            yield
        return at + 1

    def _step(self) -> None:
        self._steps += 1
        if self._steps > _MAX_STEPS:
            raise _TooMuch
