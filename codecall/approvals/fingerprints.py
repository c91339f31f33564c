"""What two pieces of JSON data have in common: fingerprints of their texts, cut into blocks of `BLOCK` characters, of
their arrays and objects, and of the data that stands in them as base64.

JSON within a text counts as what it says, and of what a call is given also a text with the escapes of JSON or of URLs:
so a script fills a parameter that takes a text. All of it takes a time linear in the length of the data.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterator, Sequence
from decimal import Decimal
from hashlib import blake2b
from typing import Final, NamedTuple, cast
from urllib.parse import unquote, unquote_plus

from codecall.redaction.clean import well_formed

BLOCK: Final = 12
"""Characters of the shortest text that is followed."""

MAX_LAYERS: Final = 2
"""How often a text is read anew as a text within JSON: it may be JSON within JSON."""

MAX_OPEN: Final = 64
"""Most arrays and objects inside of one another that are looked for in a text; of more the innermost."""

_PART_CHARS: Final = 2
"""How many characters a part of JSON within a text counts, besides its own."""

_WINDOW: Final = 64 * 1024

SAMPLES: Final = 16
"""Samples of the base64 of some data, spread evenly; and as many at its ends, where even blank pictures differ."""

FEWEST_SAMPLES: Final = 5
"""Samples in which no alphabet differs from others that are enough by themselves."""

_SPELLING: Final = bytes.maketrans(b"-_", b"+/")
"""The two characters in which the alphabets of base64 differ, as one of them spells them."""
_FILLING: Final = b"= \t\r\n"
"""What may stand in base64 and says nothing."""

_OPENING: Final = re.compile(r"[\[{]")
_ENDED: Final = r"(?=\s*+[,:\]}])"
"""A pattern for what follows a value or key in a container."""
_PART: Final = re.compile(rf"""[\[{{\]}}]|(?P<scalar>[^\s\[\]{{}},:"\\]++{_ENDED})|[^\s,:]""")
"""Matches a bracket, a scalar, or what is in no JSON but within a string."""
_UP_TO_QUOTE: Final = re.compile(rf"""[^"\\]*+(?:\\.[^"\\]*+)*+"(?P<ended>{_ENDED})?""", re.DOTALL)
"""Matches up to a quote that is not escaped."""
_ESCAPE: Final = re.compile(r"""\\(?:u([0-9a-fA-F]{4})|(["\\/bfnrt]))""")
_ESCAPED: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


class TooMuchError(Exception):
    """There is more than may be looked at."""


class JsonContent:
    """What of some JSON data is followed.

    Args:
        value: The data.
        is_input: Whether a call is given it.
        max_chars: Most that it may be.

    Raises:
        TooMuchError: it is more.
        RecursionError: it is nested too deeply.
    """

    def __init__(self, value: object, *, is_input: bool, max_chars: int) -> None:
        self._is_input = is_input
        self._max_chars = max_chars
        self.texts: list[str] = []
        """Its texts, keys and long numbers; those of an input in all readings."""
        self.containers: list[int] = []
        """Fingerprints of its arrays and objects."""
        self.chars = 0
        """How much it is, values and parts of JSON within texts counting as characters."""
        self._walk(value)

    def _walk(self, value: object) -> tuple[int, int]:
        """A fingerprint of `value`, and about how many characters it has."""
        self._count(1)
        if isinstance(value, dict | list):
            container = _Container(is_object=isinstance(value, dict))
            if isinstance(value, list):
                for item in cast("list[object]", value):
                    container.add(*self._walk(item))
            else:
                for key, item in cast("dict[str, object]", value).items():
                    self._text(key)
                    container.add(hash(key), 0)
                    container.add(*self._walk(item))
            if container.is_followed:
                self.containers.append(container.fingerprint)
            return container.fingerprint, container.chars
        if isinstance(value, str):
            self._text(value)
            return hash(value), len(value)
        spellings = _spellings(value)
        for spelling in spellings:
            self._text(spelling)
        return hash(spellings[0]), len(spellings[0])

    def _text(self, text: str) -> None:
        for reading in _readings(text) if self._is_input and len(text) >= BLOCK else (text,):
            self._count(len(reading))
            if len(reading) >= BLOCK:
                self.texts.append(reading)
                self._search(reading)

    def _count(self, chars: int) -> None:
        self.chars += chars
        if self.chars > self._max_chars:
            raise TooMuchError

    def _search(self, text: str, layer: int = 0) -> None:
        """Follow the arrays and objects that a text has as JSON, whatever else it says.

        Where JSON begins in it is not known, and so neither which quotes begin a string: each is taken for both. What
        is certainly no JSON is given up.
        """
        outside, inside = deque[_Container](maxlen=MAX_OPEN), deque[_Container](maxlen=MAX_OPEN)
        # What is open if the next characters are within no string, and if they are within one.
        at = 0
        while True:
            if not outside and not inside:
                if (opening := _OPENING.search(text, at)) is None:
                    return
                at = opening.start()
            quote = _UP_TO_QUOTE.match(text, at)
            end = len(text) if quote is None else quote.end() - 1
            self._add_parts(outside, text, at, end)
            if inside and (quote is None or quote["ended"] is not None):
                self._add_string(inside[-1], text[at:end], layer)
            else:
                inside.clear()
            if quote is None:
                return
            outside, inside = inside, outside
            at = end + 1

    def _add_parts(self, opened: deque[_Container], text: str, at: int, end: int) -> None:
        """Add what a part of a text says to what is open where it is within no string."""
        while found := (_PART if opened else _OPENING).search(text, at, end):
            self._count(_PART_CHARS)
            at, part = found.end(), found[0]
            if part in "[{":
                opened.append(_Container(is_object=part == "{"))
            elif part in "]}":
                if opened[-1].is_object != (part == "}"):
                    opened.clear()
                    continue
                container = opened.pop()
                if container.is_followed:
                    self.containers.append(container.fingerprint)
                if opened:
                    opened[-1].add(container.fingerprint, container.chars)
            elif found["scalar"] is not None:
                said = _said(part)
                opened[-1].add(hash(said), len(said))
            else:
                opened.clear()

    def _add_string(self, container: _Container, string: str, layer: int) -> None:
        """Add a string to the container that it is in."""
        self._count(_PART_CHARS)
        said = _without_escapes(string)
        container.add(hash(said), len(said))
        if layer < MAX_LAYERS and len(said) >= BLOCK and ("[" in said or "{" in said):
            self._search(said, layer + 1)


class _Container:
    """An array or object whose items are given one after the other; the keys of an object before their values."""

    __slots__ = ("_key", "_parts", "chars", "fingerprint", "is_object")

    def __init__(self, *, is_object: bool) -> None:
        self.is_object = is_object
        self.chars = self._parts = 0
        self.fingerprint = 1 if is_object else 0
        self._key: int | None = None

    def add(self, fingerprint: int, chars: int) -> None:
        """Add a fingerprint of an item, and how many characters it has."""
        if not self.is_object:
            self.fingerprint = hash((self.fingerprint, fingerprint))
        elif self._key is None:
            self._key = fingerprint
            return
        else:
            # A sum: the order of keys does not count.
            self.fingerprint += hash((self._key, fingerprint))
            self._key = None
        self.chars += chars
        self._parts += 1

    @property
    def is_followed(self) -> bool:
        """Whether it is long enough, and more than the one item in it."""
        return self.chars >= BLOCK and self._parts > 1


def plain(text: str) -> str:
    """`text` without what is not compared."""
    return "".join(text.split()).casefold()


def blocks(text: str) -> Iterator[int]:
    """The fingerprints of a text, cut into blocks."""
    compared = plain(text)
    return (hash(compared[start : start + BLOCK]) for start in range(0, len(compared) - BLOCK + 1, BLOCK))


def windows(text: str) -> Iterator[set[int]]:
    """The fingerprints of a text at every character, a part of it after the other."""
    compared = plain(text)
    last = len(compared) - BLOCK + 1
    for start in range(0, last, _WINDOW):
        yield {hash(compared[at : at + BLOCK]) for at in range(start, min(start + _WINDOW, last))}


class Content(NamedTuple):
    """Some data that is known by its base64, in whatever alphabet, on however many lines, padded or not."""

    fingerprint: int
    """Of all of it."""
    samples: tuple[tuple[int, ...], ...]
    """The windows of each sample of its base64, from its beginning on; none if that is shorter than one."""

    @property
    def marks(self) -> frozenset[int]:
        """Windows of any text that has all of it; none if it is too short."""
        return frozenset(sample[0] for sample in self.samples)

    @property
    def cuts(self) -> Sequence[Sequence[int]]:
        """Windows of which any text that has all of it, and was cut into blocks, has at least one each."""
        return [sample for sample in self.samples if len(sample) == BLOCK] or self.samples[:1]


def content_of(encoded: str) -> Content:
    """The data that is `encoded`; read in pieces, none of which holds the interpreter for long."""
    digest, said = blake2b(digest_size=16), bytearray()
    for start in range(0, len(encoded), _WINDOW):
        piece = encoded[start : start + _WINDOW].encode("ascii", "replace").translate(_SPELLING, _FILLING)
        digest.update(piece)
        said += piece
    texts = (said[start : start + 2 * BLOCK - 1].decode().casefold() for start in _sample_starts(said))
    samples = (tuple(hash(text[at : at + BLOCK]) for at in range(len(text) - BLOCK + 1)) for text in texts)
    return Content(int.from_bytes(digest.digest()), tuple(samples))


def _sample_starts(said: bytearray) -> list[int]:
    """Where the samples of some base64 begin."""
    length, last = len(said), len(said) - BLOCK
    ends = range(0, SAMPLES // 2 * BLOCK, BLOCK)
    spread = (length * number // SAMPLES for number in range(SAMPLES))
    starts = sorted({*ends, *(last - start for start in ends), *spread})
    starts = [start for start in starts if 0 <= start <= last]
    # Alphabets differ in the other characters. One sample at least has to be whole, for `cuts`.
    alike = [start for start in starts if said[start : start + BLOCK].isalnum()]
    whole = last - BLOCK + 1
    return alike if len(alike) >= FEWEST_SAMPLES and (whole < 0 or alike[0] <= whole) else starts


def _readings(text: str) -> dict[str, None]:
    """A text, and what it says without the escapes of JSON or of URLs."""
    readings, layer = {text: None}, text
    for _ in range(MAX_LAYERS):
        if "\\" not in layer:
            break
        layer = _without_escapes(layer)
        readings[layer] = None
    if "%" in text or "+" in text:
        readings |= {unquote(text): None, unquote_plus(text): None}
    return readings


def _without_escapes(text: str) -> str:
    return well_formed(_ESCAPE.sub(_unescaped, text)) if "\\" in text else text


def _unescaped(found: re.Match[str]) -> str:
    return chr(int(found[1], 16)) if found[1] else _ESCAPED.get(found[2], found[2])


def _said(scalar: str) -> str:
    """A number or constant of some JSON as `_spellings` has it first."""
    if scalar.isdecimal() and scalar.isascii() and scalar[0] != "0":
        return scalar
    try:
        return _spellings(json.loads(scalar))[0]
    except ValueError:
        return scalar


def _spellings(value: object) -> tuple[str, ...]:
    """A number or constant as scripts write it, where that is exact."""
    if not isinstance(value, float):
        return (str(value),)
    if value.is_integer() and abs(value) < 2**63:
        return (str(int(value)),)
    spelling = str(value)
    if "e-0" not in spelling:
        return (spelling,)
    # JavaScript has no exponent here down to 1e-6, and no zero before one digit of it.
    return (spelling, format(Decimal(spelling), "f") if abs(value) >= 1e-6 else spelling.replace("e-0", "e-"))
