"""Decodes JSON from untrusted sources within bounds of size, nesting and number of values, and computes digests of JSON
that do not depend on the order of keys. Estimates how large a value is, without writing its JSON.

Decoding happens on the event loop, because a thread would not help: the decoder holds the interpreter from its first
byte to its last. So its input is bounded beforehand: a megabyte of ordinary rows takes about 4 ms, one of as many
objects and arrays as `JsonBounds` let through about 12 ms, one of short keys up to 40 ms. More is decoded in pieces.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple, NoReturn, cast

import anyio.to_thread
import msgspec

from codecall.concurrency import loop_turn
from codecall.jsonio.check import NotJsonError, check_syntax
from codecall.jsonio.incremental import JSON_STRING, child_values, finish, read, read_in_thread, read_json
from codecall.redaction.clean import well_formed
from codecall.sandbox import wire

_NODE_CHARS: Final = 8
"""Characters that one value counts in an estimate of its JSON, besides its own."""

_FLAT: Final = frozenset({float, bool, type(None)})
"""Types of values without characters of their own in an estimate."""

_SHORT_BITS: Final = 64
"""Bits of an integer up to which its digits are not counted."""

_type_of: Final = cast("Callable[[object], type]", type)
"""`type`, with a signature that the type checker accepts for values of unknown type."""


def refuse_constant(name: str) -> NoReturn:
    """The `parse_constant` of decoders in `json`, which take `NaN` and `Infinity`.

    Raises:
        ValueError: always.
    """
    raise ValueError(f"{name} is not JSON")


MANY = 5_000
"""Objects and arrays that are visited without yielding to the event loop: under a millisecond."""

QUICK_CHARS: Final = 64 * 1024
QUICK_CONTAINERS: Final = 2_000
"""Characters of a text, and objects and arrays in it, up to which it is decoded at once: some 0.3 ms. Larger texts are
decoded one in each iteration of the event loop."""

WHOLE_CHARS: Final = 1024 * 1024
"""Characters of a text up to which it is decoded in one go, if it has at most `FEWEST_CONTAINERS`."""

MARK_DEPTH = 2
"""Levels by which the marks that the runtime leaves for shortened values may exceed the nesting of a preset."""

FEWEST_CONTAINERS = 50_000
"""Objects and arrays that data may have under every preset."""

BYTES_PER_CONTAINER = 64
"""For every so many bytes a preset allows, one object or array more. An empty array is two bytes of JSON and sixty-four
of the server's memory, and takes ten times as long to decode as other data."""

_STRING = re.compile(f"{JSON_STRING}?", re.DOTALL)
_PIECE = re.compile(rf'(?:[^"]*+{JSON_STRING}){{1,1000}}+|.++', re.DOTALL)


utf8_length: Final = wire.utf8_length


class TooManyContainersError(Exception):
    """The data has more objects and arrays than allowed; `count` is how many it has."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.count = count


class JsonBounds(NamedTuple):
    """Limits of JSON data from a worker."""

    depth: int
    """Most objects and arrays nested within each other."""
    containers: int
    """Most objects and arrays in all."""

    @classmethod
    def from_limits(cls, limits: wire.Limits, size: int = 0) -> JsonBounds:
        """Returns the bounds for the largest result and input of a preset, or for `size` bytes where that is more."""
        return cls(
            limits.sanitize_max_depth + MARK_DEPTH,
            FEWEST_CONTAINERS + max(limits.max_result_bytes, limits.max_tool_input_bytes, size) // BYTES_PER_CONTAINER,
        )


async def decode_json(text: str, bounds: JsonBounds) -> object:
    """Decodes `text`.

    Raises:
        NotJsonError: the text is not JSON, or is nested more deeply than `bounds` allow.
        TooManyContainersError: the text has more objects and arrays than `bounds` allow.
    """
    # Brackets in strings count too at first: nearly always there are few enough all the same.
    brackets = await count_containers(text, bounds.containers)
    if brackets > bounds.containers:
        raise TooManyContainersError(brackets)
    try:
        if len(text) > WHOLE_CHARS or brackets > FEWEST_CONTAINERS:
            check_syntax(text)
            return await read(text.encode(), bounds.depth)
        if len(text) <= QUICK_CHARS and brackets <= QUICK_CONTAINERS:
            data = read_json(text)
        else:
            async with loop_turn():
                data = read_json(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        raise NotJsonError from None
    if brackets > bounds.depth:
        await check_depth(data, bounds.depth)
    return data


def count_containers_in_thread(text: str, threshold: int) -> int:
    """As `count_containers`, for a thread."""
    return finish(count_containers(text, threshold))


def decode_in_thread(text: str, containers: int, depth: int) -> object:
    """As `decode_json`, for a thread, of a text with so many objects and arrays: others get the interpreter between two
    pieces.

    Raises:
        NotJsonError: the text is not JSON, or is nested more deeply than `depth`.
    """
    try:
        if len(text) > QUICK_CHARS or containers > QUICK_CONTAINERS:
            data = text.encode()
            check_syntax(data)
            return read_in_thread(data, depth)
        value = read_json(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        raise NotJsonError from None
    if containers > depth:
        finish(check_depth(value, depth))
    return value


async def count_containers(text: str, threshold: int) -> int:
    """Counts objects and arrays in JSON text. Up to `threshold`, brackets within strings may be among them."""
    return await _count(text, "[{", threshold)


async def count_values(text: str, threshold: int) -> int:
    """Counts values in JSON text; those of empty objects and arrays are counted as if each had one. Up to `threshold`,
    brackets and commas within strings may be among them."""
    return 1 + await _count(text, "[{,", threshold)


async def _count(text: str, marks: str, threshold: int) -> int:
    if text.startswith('"'):  # all marks are in one string
        return 0
    count = sum(map(text.count, marks))
    return count if count <= threshold else await _count_outside_strings(text, marks)


async def _count_outside_strings(text: str, marks: str) -> int:
    count = 0
    for piece in _PIECE.finditer(text):
        count += sum(map(_STRING.sub("", piece[0]).count, marks))
        await asyncio.sleep(0)
    return count


async def check_depth(data: object, depth: int) -> None:
    """Look how deeply objects and arrays are nested.

    Raises:
        NotJsonError: more than `depth` deep.
    """
    level = [data]
    while level:
        below: list[object] = []
        for start in range(0, len(level), MANY):
            containers = level[start : start + MANY]
            below += [item for each in containers for item in child_values(each) if type(item) in (dict, list)]
            if len(level) > MANY:
                await asyncio.sleep(0)
        depth -= 1
        if below and depth < 1:
            raise NotJsonError
        level = below


_MAYBE_LONG = re.compile(rb"\d{3}")
_LONG_TEXT = re.compile(rb'"-?\d{19,}"')


def encode_exactly(value: object) -> bytes:
    """Encodes data as `msgspec.json.encode` does, but integers beyond 64 bits as integers, where that writes texts.

    Raises:
        UnicodeEncodeError: there is text in it that has no UTF-8 form.
        TypeError, ValueError, OverflowError, RecursionError: it is not JSON data.
    """
    encoded = msgspec.json.encode(value)
    # Nineteen digits in a row cover three of every sixth character: a look at a sixth of the text mostly tells.
    if _MAYBE_LONG.search(encoded[::6]) is not None and _LONG_TEXT.search(encoded) is not None:
        return msgspec.json.encode(_with_raw_integers(value))
    return encoded


def _with_raw_integers(value: object) -> object:
    if isinstance(value, int):
        return value if -(2**63) <= value < 2**64 else msgspec.Raw(str(value).encode())
    if isinstance(value, Mapping):
        return {key: _with_raw_integers(item) for key, item in cast("Mapping[object, object]", value).items()}
    if isinstance(value, (list, tuple)):
        return [_with_raw_integers(item) for item in cast("Iterable[object]", value)]
    return value


def encode_context(context: Mapping[str, Any] | None) -> str | None:
    """Encodes `codecallContext` as JSON text; returns None for an empty one.

    Raises:
        TypeError: the context is not JSON data.
    """
    if not context:
        return None
    try:
        return encode_exactly(context).decode()
    except (TypeError, UnicodeEncodeError, RecursionError) as failure:
        raise TypeError(f"context: JSON data is needed: {failure}") from None


def encode_json(value: object) -> str:
    """Encodes plain data as JSON. Lone surrogates, which have no UTF-8 form, are replaced."""
    try:
        return encode_exactly(value).decode()
    except UnicodeEncodeError:
        return well_formed(json.dumps(value, ensure_ascii=False))


MAX_SORTED: Final = 64 * 1024
"""Most characters of an input whose keys are sorted: half a millisecond."""


def canonical_digest(text: str) -> str:
    """Returns the SHA-256 of an input in JSON text, with its keys sorted, as 64 hexadecimal digits."""
    return hashlib.sha256(_canonical(text)).hexdigest()


async def canonical_digest_async(text: str) -> str:
    """Returns `canonical_digest`; computes it in a thread where it takes long."""
    return canonical_digest(text) if len(text) <= MAX_SORTED else await anyio.to_thread.run_sync(canonical_digest, text)


def sha256(text: str) -> str:
    """Returns the SHA-256 of a text as UTF-8, as 64 hexadecimal digits."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _canonical(text: str) -> bytes:
    if len(text) <= MAX_SORTED:
        try:
            return msgspec.json.encode(read_json(text), order="sorted")
        except (ValueError, OverflowError, RecursionError):
            pass  # what cannot be decoded is compared character by character
    return text.encode("utf-8", "surrogatepass")


def exceeds_chars(value: object, limit: int) -> bool:
    """Whether `value` is larger than about `limit` characters of JSON; stops counting as soon as it is."""
    return estimate_size(value, limit, _NODE_CHARS) > limit


def estimate_size(value: object, limit: int, per_value: int, text_size: Callable[[str], int] = len) -> int:
    """What all texts and names in `value` count by `text_size`, the digits of long integers, and `per_value` for each
    value; of more than `limit`, some number above. An object that is no JSON, as a model, is counted with its
    attributes."""
    left = limit - per_value
    waiting: list[Iterable[Any]] = [(value,)]
    item: Any
    while waiting and left >= 0:
        # No more items than there are characters left: a container whose items are too many is not waiting here.
        for item in waiting.pop():
            kind = _type_of(item)
            if kind is str:
                left -= text_size(item)
            elif kind is int:
                if (bits := item.bit_length()) > _SHORT_BITS:
                    left -= bits // 3  # a digit is 3.3 bits
            elif kind in _FLAT:
                continue
            elif kind is dict or issubclass(kind, Mapping):
                left -= len(item) * 2 * per_value
                if left >= 0:
                    left -= _names_size(item, text_size)
                waiting.append(item.values())
            elif issubclass(kind, (list, tuple)):
                left -= len(item) * (per_value + 1)
                waiting.append(item)
            elif issubclass(kind, (str, bytes)):
                left -= len(item)
            elif (attributes := getattr(item, "__dict__", None)) is not None:
                left -= len(attributes) * per_value
                waiting.append(attributes.values())
            if left < 0:
                break
    return limit - left


def _names_size(item: Mapping[Any, object], text_size: Callable[[str], int]) -> int:
    try:
        return sum(map(text_size, item))
    except (TypeError, AttributeError):  # a name that is no text
        return sum(text_size(str(name)) for name in item)
