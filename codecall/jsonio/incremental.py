"""Decodes and indexes JSON of many megabytes a piece at a time, so that the event loop runs in between.

One call of the decoder holds the interpreter to its end, in a thread too: 8 ms for each megabyte of ordinary rows. Here
it takes 15 ms, one at a time. An array is cut at commas that look as if they stood between two of its items; the
decoder itself says whether they do, since only whole items read as an array of their own. Where no such comma is found,
and for objects, a pattern passes over as many items as fit in a piece; the decoder finds the end of a longer item, at
once: a millisecond for each megabyte.

A bound of 4 MiB for one reference would not make this needless: one call of the decoder holds the event loop for 45 to
80 ms with 4 MiB of rows and for 85 to 100 ms with 4 MiB of floats, where 20 ms are allowed. And a script takes values
of 16 MiB under `secure`, so that references would carry less than the script itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import re
from bisect import bisect_right
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Generator, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar, cast

import msgspec

from codecall.jsonio.check import NotJsonError, check_syntax

T = TypeVar("T")


def _float(text: str) -> float:
    if math.isinf(number := float(text)):
        raise msgspec.DecodeError("Number out of range")
    return number


read_json: Final = msgspec.json.Decoder(float_hook=_float).decode
"""Decodes JSON as `msgspec.json.decode` does, with a faster parser of floats. For numbers near the ends of what a float
can hold msgspec's own takes 20 microseconds, so that a hundred thousand hold the interpreter for two seconds, in
whatever thread.

Raises:
    msgspec.DecodeError, RecursionError: the text is not JSON, or is nested too deeply.
"""

JSON_STRING: Final = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
"""A pattern for one string of JSON; needs `re.DOTALL`."""

PIECE: Final = 128 * 1024
"""Bytes that are decoded in one go: about a millisecond."""

MAX_COUNTED: Final = 500_000
"""Most items of an array that are counted."""

MAX_HEAD: Final = 80
"""Bytes of an item's beginning that serve to find the next item."""

_SEPARATORS: Final = (b"},", b"],", b'",', b",")
"""Texts that may separate two items, the likeliest first."""

_NOT_JSON: Final = (msgspec.DecodeError, UnicodeDecodeError, UnicodeEncodeError, RecursionError)

_ENDS: Final = {b"[": b"]", b"{": b"}", b'"': b'"'}


def _nested(depth: int) -> str:
    """A pattern for what stands between two brackets, with other brackets nested up to `depth` levels deep."""
    deeper = rf"|[\[{{]{_nested(depth - 1)}[\]}}]" if depth else ""
    return rf'(?:{JSON_STRING}|[^"\[\]{{}}]++{deeper})*+'


_ITEMS: Final = re.compile(
    rb'(?:(?:%b|[^"\[\]{},]++|[\[{]%b[\]}])*+,)*+' % (JSON_STRING.encode(), _nested(3).encode()), re.DOTALL
)
"""Matches items or members, each with its comma, up to the first that is nested deeper than the pattern."""

_TRAILING: Final = re.compile(r"trailing characters \(byte (\d+)\)")

_decode_items = msgspec.json.Decoder(list[msgspec.Raw]).decode

_WHOLE_CHARACTERS: Final = re.compile(
    rb"(?:[^\\]++|\\[^u]|\\u(?![dD][89a-fA-F])....|\\u[dD][89abAB]..\\u[dD][c-fC-F]..)*+", re.DOTALL
)
"""Matches the JSON of a text as far as it ends with a whole escape, or a whole pair of surrogate escapes."""

MAX_MEMBERS: Final = 100
"""Most members of an object that are visited; those with names that are not too long are indexed."""

MAX_NAME: Final = 200
"""Most characters that the name of an indexed member may have, as JSON."""

STRIDE: Final = 16 * 1024
"""Characters after which the next item is marked: as many may have to be read to find an item."""

_WINDOW: Final = 64 * 1024
"""Characters that a pattern matches in one go: under 2 ms."""

_RUN: Final = 32
"""Items that a pattern tries to match at once."""

_DEEP: Final = 4
"""Levels of containers within an item that a pattern matches at once."""

_MAX_STEPS: Final = 1_000_000
"""Most brackets, items and members that are visited one by one: about a second. A text with more is not indexed."""

_STEPS_PER_YIELD: Final = 1_000
"""Steps between two yields to the event loop."""

_BLANK: Final = r"[ \t\r\n]*+"

_VALUE: Final = rf'(?:{JSON_STRING}|[^"\[\]{{}},\s]++|[\[{{]{_nested(_DEEP)}[\]}}])'
_SCALAR: Final = re.compile(r'[^"\[\]{},\s]++')
_ONE: Final = re.compile(_VALUE, re.DOTALL)
_MANY: Final = re.compile(rf"(?:{_VALUE}{_BLANK},{_BLANK}){{{_RUN}}}", re.DOTALL)
_CHARACTERS: Final = re.compile(r'(?:[^"\\]++|\\.)*+', re.DOTALL)
_PLAIN: Final = re.compile(_nested(0), re.DOTALL)
_BRACKET: Final = re.compile(rf"{_nested(0)}([\[\]{{}}])", re.DOTALL)
_BLANKS: Final = re.compile(_BLANK)
_BLANK_BYTES: Final = re.compile(rb"\s*+")


def child_values(container: object) -> Iterable[object]:
    """Returns the values in an object or an array; nothing for anything else."""
    if isinstance(container, dict):
        return cast("dict[str, object]", container).values()
    return cast("list[object]", container) if isinstance(container, list) else ()


async def read(data: bytes, depth: int) -> object:
    """Decodes `data`, which is JSON.

    Raises:
        NotJsonError: the data is no JSON, or is nested deeper than `depth` objects and arrays.
    """
    try:
        return await _value(data, 0, len(data), depth)
    except _NOT_JSON:
        raise NotJsonError from None


def read_in_thread(data: bytes, depth: int) -> object:
    """As `read`, for a thread: others get the interpreter between two pieces.

    Raises:
        NotJsonError: as `read`.
    """
    return finish(read(data, depth))


def finish(work: Coroutine[Any, None, T]) -> T:
    """The result of a coroutine that only yields to the event loop, for a thread."""
    while True:
        try:
            work.send(None)
        except StopIteration as end:
            return cast("T", end.value)


async def length(data: bytes) -> int | None:
    """Returns the number of items if `data` is an array, or of UTF-16 units if it is a text.

    Returns None for any other JSON, and for an array with more than `MAX_COUNTED` items.

    Raises:
        NotJsonError: the data is no JSON.
    """
    data = data.strip()
    try:
        if data[:1] == b"[":
            count = 0
            async with contextlib.aclosing(_batches(data, 1, len(data) - 1, _decode_items)) as batches:
                async for items in batches:
                    count += len(items)
                    if count > MAX_COUNTED:
                        return None
            return count
        if data[:1] == b'"':
            return sum(
                [len(text.encode("utf-16-le", "surrogatepass")) // 2 async for text in _texts(data, 1, len(data) - 1)]
            )
    except _NOT_JSON:
        raise NotJsonError from None
    return None


class ArrayIndex(msgspec.Struct, frozen=True, array_like=True):
    """Where the items of an array are in its text."""

    count: int
    marks: tuple[tuple[int, int], ...]
    """Number and offset in the text of some items, the first included."""
    end: int
    """The offset of the closing bracket."""

    def span(self, number: int) -> tuple[int, int, int]:
        """Returns where to look for an item: the number and offset of the mark at or before it, and where to stop."""
        index = bisect_right(self.marks, (number, self.end)) - 1
        marked, start = self.marks[index]
        stop = self.marks[index + 1][1] if index + 1 < len(self.marks) else self.end
        # Only the last item before the next mark can be longer than that, and nothing behind it is looked for.
        return marked, start, min(stop, start + STRIDE + 2 * _WINDOW)


class MemberSpan(msgspec.Struct, frozen=True, array_like=True):
    """Where the value of an object's member is in the text, and its items if the value is an array."""

    start: int
    end: int
    items: ArrayIndex | None = None


class JsonIndex(msgspec.Struct, frozen=True):
    """The index of a JSON text. Both fields are None for a scalar, and where indexing would take too long."""

    items: ArrayIndex | None = None
    """The items, if the text is an array."""
    members: dict[str, MemberSpan] | None = None
    """The first members by name, if the text is an object."""


def index_json(text: str) -> Generator[None, None, JsonIndex]:
    """Indexes a JSON text; the generator yields where the event loop may run, and returns the index."""
    scanner = _JsonScanner(text)
    start = scanner.pass_blanks(0)
    try:
        if text[start] == "[":
            return JsonIndex(items=(yield from scanner.items(start)))
        if text[start] == "{":
            return JsonIndex(members=(yield from scanner.members(start)))
    except _TooMuchError:
        pass
    return JsonIndex()


def skip_items(text: str, count: int) -> int:
    """Returns the offset of item `count` in a text that begins with item 0."""
    scanner = _JsonScanner(text)
    at = 0
    for _ in range(count):
        if at >= len(text):  # not the text that was indexed
            break
        for end in _run_to_end(scanner.value(at)):
            at = scanner.pass_blanks(scanner.pass_blanks(end) + 1)
    return at


class _TooMuchError(Exception):
    """Indexing takes more than `_MAX_STEPS`."""


Work: TypeAlias = Generator[None, None, int]
"""A generator that yields where the event loop may run, and returns an offset."""


class _Span(NamedTuple):
    """Where a value is in the data, or blanks and a value: what it is within may be very long."""

    start: int
    end: int


async def _value(data: bytes, start: int, end: int, depth: int) -> object:
    """Returns the value between two offsets. Nothing is copied that is longer than a piece: values of many levels would
    be in memory once for each."""
    if end - start > PIECE:
        start, end = _without_blanks(data, start, end)
    if end - start <= PIECE:
        return _small(data[start:end].strip(), depth)
    await asyncio.sleep(0)  # what is within it is passed over as a whole
    kind = data[start : start + 1]
    if depth < 1 and kind in (b"[", b"{"):
        raise NotJsonError
    if data[end - 1 : end] != _ENDS.get(kind, data[end - 1 : end]):
        raise NotJsonError
    if kind == b'"':
        return "".join([text async for text in _texts(data, start + 1, end - 1)])
    if kind == b"[":
        array: list[object] = []
        async for items in _batches(data, start + 1, end - 1, lambda piece: _small(piece, depth)):
            # What is larger than a piece is still to be decoded.
            array += [await _value(data, *item, depth - 1) if type(item) is _Span else item for item in items]
        return array
    if kind == b"{":
        return await _object(data, start + 1, end - 1, depth)
    return read_json(data[start:end])


def _without_blanks(data: bytes, start: int, end: int) -> _Span:
    match = _BLANK_BYTES.match(data, start, end)
    start = start if match is None else match.end()
    while end > start:
        before = max(start, end - PIECE)
        if kept := data[before:end].rstrip():
            return _Span(start, before + len(kept))
        end = before
    return _Span(start, start)


async def _object(data: bytes, start: int, end: int, depth: int) -> dict[str, object]:
    """Returns the object whose members are between two offsets."""
    members: dict[str, object] = {}
    at = start
    while at <= end:
        cut = _cut(data, at, end, members=True)
        if cut - at <= PIECE:
            inside = data[at:cut]
            if at > start and not inside.strip():
                raise NotJsonError
            members |= cast("dict[str, object]", _small(b"{%b}" % inside, depth))
        else:  # one member
            colon = _end(data, at, cut)
            key = read_json(data[at:colon])
            if not isinstance(key, str) or data[colon : colon + 1] != b":":
                raise NotJsonError
            members[key] = await _value(data, colon + 1, cut, depth - 1)
        at = cut + 1
        await asyncio.sleep(0)
    return members


def _small(data: bytes, depth: int) -> object:
    value = read_json(data)
    if data.count(b"[") + data.count(b"{") > depth:
        _check_depth(value, depth)
    return value


def _check_depth(data: object, depth: int) -> None:
    level: list[object] = [data] if isinstance(data, (dict, list)) else []
    while level:
        if depth < 1:
            raise NotJsonError
        depth -= 1
        level = [item for container in level for item in child_values(container) if type(item) in (dict, list)]


async def _texts(data: bytes, start: int, end: int) -> AsyncIterator[str]:
    """Yields the text whose characters, as JSON, are between two offsets, in parts."""
    at = start
    while end - at > PIECE:
        match = _WHOLE_CHARACTERS.match(data, at, at + PIECE)
        cut = at if match is None else match.end()
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


async def _batches(
    data: bytes, start: int, end: int, read_items: Callable[[bytes], object]
) -> AsyncGenerator[Sequence[object]]:
    """Yields the items of the array that is between two offsets in batches, as `read_items` decodes an array of them.

    An item of more than `PIECE` bytes is a batch of its own, as `_Span`.
    """
    at = start
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
            # An item that is larger than a piece is decoded later.
            large = cut - at > PIECE
            yield [_Span(at, cut)] if large else cast("list[object]", read_items(b"[%b]" % data[at:cut]))
            at = cut + 1
        await asyncio.sleep(0)
    if at <= end:
        rest = cast("list[object]", read_items(b"[%b]" % data[at:end]))
        if not rest and at > start:
            raise NotJsonError
        yield rest


def _cuts(data: bytes, start: int, end: int) -> Iterator[int]:
    """Yields commas between `start` and `end` that may separate two items of an array; one item begins at `start`."""
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
    """Returns the offset of the comma after as many items as fit in a piece that begins at `start`.

    If the first item is longer than a piece, this is the comma after it; after the last item it is `end`.
    """
    cut = start
    while cut - start < PIECE // 4:
        match = _ITEMS.match(data, cut, min(start + PIECE, end))
        cut = cut if match is None else match.end()
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
            raise NotJsonError
        cut = past + 1
    return cut - 1


def _end(data: bytes, start: int, end: int) -> int:
    """Returns the offset after the value that begins at `start` and the blanks behind it."""
    try:
        check_syntax(memoryview(data)[start:end])
    except msgspec.DecodeError as failure:
        if (match := _TRAILING.search(str(failure))) is None:
            raise
        return start + int(match[1]) - 1
    return end


class _JsonScanner:
    """Finds the ends of values in one JSON text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._steps = 0

    def pass_blanks(self, at: int) -> int:
        """Returns the offset of the first character from `at` on that is no blank."""
        match = _BLANKS.match(self._text, at)
        return match.end() if match else at

    def value(self, at: int) -> Work:
        """Returns the end of the value that begins at `at`."""
        text, stop = self._text, at + _WINDOW
        match = _ONE.match(text, at, stop)
        # What reaches the edge of the window may go on behind it.
        if match is not None and (match.end() < stop or stop >= len(text)):
            return match.end()
        if text[at] == '"':
            return (yield from self._string(at))
        if (number := _SCALAR.match(text, at)) is not None:  # longer than a window
            return number.end()
        return (yield from self._container(at))

    def items(self, at: int) -> Generator[None, None, ArrayIndex]:
        """Indexes the items of the array that begins at `at`."""
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
            if self._steps % _STEPS_PER_YIELD == 0:
                yield

    def members(self, at: int) -> Generator[None, None, dict[str, MemberSpan]]:
        """Indexes the members of the object that begins at `at`."""
        text, members = self._text, dict[str, MemberSpan]()
        at = self.pass_blanks(at + 1)
        for _ in range(MAX_MEMBERS):
            if text[at] != '"':
                break
            key_end = yield from self._string(at)
            start = self.pass_blanks(self.pass_blanks(key_end) + 1)
            member = yield from self._member(start)
            if key_end - at <= MAX_NAME:
                members[str(json.loads(text[at:key_end]))] = member
            at = self.pass_blanks(member.end)
            if text[at] == ",":
                at = self.pass_blanks(at + 1)
        return members

    def _member(self, start: int) -> Generator[None, None, MemberSpan]:
        self._step()
        yield
        if self._text[start] == "[":
            items = yield from self.items(start)
            return MemberSpan(start, items.end + 1, items)
        return MemberSpan(start, (yield from self.value(start)))

    def _container(self, at: int) -> Work:
        """Returns the end of a large or deep container; goes from bracket to bracket."""
        text, depth, last_yield = self._text, 0, at
        while at < len(text):
            match = _BRACKET.match(text, at, at + _WINDOW)
            if match is None:
                plain = _PLAIN.match(text, at, at + _WINDOW)
                at = plain.end() if plain else at
                at = (yield from self._string(at)) if text[at : at + 1] == '"' else at
            else:
                at = match.end()
                depth += 1 if match[1] in "[{" else -1
                if not depth:
                    break
            self._step()
            if self._steps % _STEPS_PER_YIELD == 0 or at - last_yield > 2 * _WINDOW:
                last_yield = at
                yield
        return at

    def _string(self, at: int) -> Work:
        """Returns the end of the string that begins at `at`."""
        text, at = self._text, at + 1
        while at < len(text):
            match = _CHARACTERS.match(text, at, at + _WINDOW)
            at = match.end() if match else at
            if text[at : at + 1] == '"':
                break
            yield
        return at + 1

    def _step(self) -> None:
        self._steps += 1
        if self._steps > _MAX_STEPS:
            raise _TooMuchError


def _run_to_end(work: Work) -> Generator[int, None, None]:
    try:
        while True:
            next(work)
    except StopIteration as end:
        yield end.value
