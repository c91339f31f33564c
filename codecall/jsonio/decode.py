"""JSON of strangers: text from a worker is bounded in size, nesting and number of values, then decoded; and digests of
JSON that do not depend on the order of keys.

Decoding happens on the event loop, because a thread would not help: the decoder holds the interpreter from its first
byte to its last. So what it is given is bounded beforehand: a megabyte of ordinary rows takes about 4 ms, one of the
densest data that `Bounds` let through about 12 ms.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple, cast

import anyio.to_thread
import msgspec

from codecall.redaction.clean import well_formed
from codecall.sandbox import wire


def _float(text: str) -> float:
    if math.isinf(number := float(text)):
        raise msgspec.DecodeError("Number out of range")
    return number


read_json: Final = msgspec.json.Decoder(float_hook=_float).decode
"""`msgspec.json.decode`, but for numbers near the ends of what a float can hold. Its own reading of one of those takes
20 microseconds, so that a hundred thousand hold the interpreter for two seconds, in whatever thread.

Raises:
    msgspec.DecodeError, RecursionError: not JSON, or nested too deeply.
"""

MANY = 10_000
"""Objects and arrays that are visited without a pause: under a millisecond."""

MARK_DEPTH = 2
"""Levels by which the runtime's own marks of what it shortened may exceed the nesting a preset allows."""

FEWEST_CONTAINERS = 50_000
"""Objects and arrays that data may have under every preset."""

BYTES_PER_CONTAINER = 64
"""For every so many bytes a preset allows, one object or array more. An empty array is two bytes of JSON and sixty-four
of the server's memory, and takes ten times as long to decode as other data."""

_STRING = re.compile(r'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_PIECE = re.compile(r'(?:[^"]*+"(?:[^"\\]++|\\.)*+"){1,1000}+|.++', re.DOTALL)


class NotJson(Exception):  # noqa: N818 - internal signal, named for what happened
    """The text is not JSON, or nested deeper than the runtime in a worker would let it be."""


class TooManyContainers(Exception):  # noqa: N818 - internal signal, named for what happened
    """The data have more objects and arrays than may be. `count`: how many."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.count = count


class JsonBounds(NamedTuple):
    """Limits of JSON data from a worker."""

    depth: int
    """Objects and arrays within each other."""
    containers: int
    """Objects and arrays."""

    @classmethod
    def from_limits(cls, limits: wire.Limits, size: int = 0) -> JsonBounds:
        """The bounds that go with a preset, for data of its largest results, or of `size` bytes where that is more."""
        return cls(
            limits.sanitize_max_depth + MARK_DEPTH,
            FEWEST_CONTAINERS + max(limits.max_result_bytes, size) // BYTES_PER_CONTAINER,
        )


def utf8_length(text: str) -> int:
    """Bytes of `text` as UTF-8."""
    return len(text) if text.isascii() else len(text.encode())


async def decode_json(text: str, bounds: JsonBounds) -> object:
    """The data in `text`.

    Raises:
        NotJson: not JSON, or nested more deeply than `bounds` allow.
        TooManyContainers: more objects and arrays than they allow.
    """
    # What stands in strings counts too at first: nearly always that is few enough all the same.
    brackets = await count_containers(text, bounds.containers)
    if brackets > bounds.containers:
        raise TooManyContainers(brackets)
    try:
        data = read_json(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        raise NotJson from None
    if brackets > bounds.depth:
        await _check_depth(data, bounds.depth)
    return data


async def count_containers(text: str, threshold: int) -> int:
    """Objects and arrays in JSON text. Up to `enough`, brackets within strings may be among them."""
    brackets = text.count("[") + text.count("{")
    return brackets if brackets <= threshold else await _containers(text)


async def _containers(text: str) -> int:
    count = 0
    for piece in _PIECE.finditer(text):
        bare = _STRING.sub("", piece[0])
        count += bare.count("[") + bare.count("{")
        await asyncio.sleep(0)
    return count


async def _check_depth(data: object, depth: int) -> None:
    level = [data]
    while level := [item for container in level for item in child_values(container) if type(item) in (dict, list)]:
        depth -= 1
        if depth < 1:
            raise NotJson
        if len(level) > MANY:
            await asyncio.sleep(0)


def child_values(container: object) -> Iterable[object]:
    """What an object or an array holds; of anything else nothing."""
    if isinstance(container, dict):
        return cast("dict[str, object]", container).values()
    return cast("list[object]", container) if isinstance(container, list) else ()


def encode_context(context: Mapping[str, Any] | None) -> str | None:
    """`codecallContext` as JSON text; None where there is nothing.

    Raises:
        TypeError: it is not JSON data.
    """
    if not context:
        return None
    try:
        return msgspec.json.encode(context).decode()
    except (TypeError, UnicodeEncodeError, RecursionError) as failure:
        raise TypeError(f"context: JSON data is needed: {failure}") from None


def encode_json(value: object) -> str:
    """JSON of plain data. What is no Unicode text in it, which has no UTF-8 form, is replaced."""
    try:
        return msgspec.json.encode(value).decode()
    except UnicodeEncodeError:
        return well_formed(json.dumps(value, ensure_ascii=False))


MAX_SORTED: Final = 64 * 1024
"""Characters of input whose keys are sorted: half a millisecond."""


def canonical_digest(text: str) -> str:
    """The SHA-256 of an input, given as JSON text, with its keys sorted; 64 hexadecimal digits."""
    return hashlib.sha256(_canonical(text)).hexdigest()


async def canonical_digest_async(text: str) -> str:
    """`canonical_digest`, off the event loop where it takes long."""
    return canonical_digest(text) if len(text) <= MAX_SORTED else await anyio.to_thread.run_sync(canonical_digest, text)


def sha256(text: str) -> str:
    """SHA-256 of a text as UTF-8; 64 hexadecimal digits."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _canonical(text: str) -> bytes:
    if len(text) <= MAX_SORTED:
        try:
            return msgspec.json.encode(read_json(text), order="sorted")
        except (ValueError, OverflowError, RecursionError):
            pass  # what cannot be decoded is compared character by character
    return text.encode("utf-8", "surrogatepass")
