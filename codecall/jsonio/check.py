"""Checks that a text is JSON: as a whole, or a piece at a time, so that the event loop runs in between.

A piece ends at a comma between two items. What is open there is known: with those brackets around it the piece is JSON
of its own, and the decoder says whether it is. Of a string that is longer than a piece the characters are checked a
piece at a time, and an empty string stands in its place.

Programs that cut a text in the middle of an emoji escape halves of surrogate pairs, which are JSON and no Unicode text:
the decoders of msgspec and pydantic refuse them. They are found in a copy of the same length without escaped
backslashes, in which each escape is one.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from typing import Final

import anyio.to_thread
import msgspec

PIECE: Final = 64 * 1024
"""Most characters of the text that are checked in one go: a millisecond."""

QUICK_CHARS: Final = 128 * 1024
"""Characters of a text that is checked on the event loop as a whole: a millisecond or two."""

MAX_DEPTH: Final = 256
"""Most objects and arrays nested within each other. MCP refuses to send more than 255."""

check_syntax: Final = msgspec.json.Decoder(msgspec.Raw).decode
"""Checks that a text is JSON, without building its value. It refuses one thing that is JSON: escaped unpaired
surrogates.

Raises:
    msgspec.MsgspecError, UnicodeEncodeError, RecursionError: the text is not JSON, or is nested too deeply.
"""

_CLOSING: Final = str.maketrans("[{", "]}")
_NO_MARKS: Final = bytes(set(range(256)) - set(b'[]{}"'))
_LEVELS: Final = 4
"""Levels of containers that are matched all at once; deeper ones bracket by bracket."""

_HIGH_SURROGATE: Final = re.compile(r"\\u[dD][89abAB]..", re.DOTALL)

_SURROGATE: Final = re.compile(
    rb"\\u[dD](?:[89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|([89a-fA-F][0-9a-fA-F]{2}))"
)
"""A pair, or half of one in the group."""


class NotJsonError(Exception):
    """The text is not JSON, or is nested deeper than the runtime in a worker allows."""


async def is_json(text: str) -> bool:
    """Whether a text is JSON. No objects are made of it; of sixteen megabytes that takes some 0.05 s."""
    return _is_json(text) if len(text) <= QUICK_CHARS else await anyio.to_thread.run_sync(_is_json, text)


def _is_json(text: str) -> bool:
    checked = without_surrogates(text)
    try:
        # The decoder leaves the UTF-8 of a text in it, which takes memory for as long as the text lives.
        check_syntax(checked if checked.isascii() else checked.encode())
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
        return False
    return True


async def check_json(text: str) -> None:
    """Checks a text.

    Raises:
        NotJsonError: it is not JSON, or is nested deeper than `MAX_DEPTH`, or has more than `PIECE` characters between
            two commas that are in no string.
    """
    try:
        for piece in pieces(text):
            check_syntax(piece)
            await asyncio.sleep(0)
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
        raise NotJsonError from None


def pieces(text: str) -> Iterator[str]:
    """Yields texts of a few times `PIECE` characters at most. They are all JSON if and only if `text` is.

    Raises:
        NotJsonError: as in `check_json`, where it is known without the decoder.
    """
    opened = head = ""
    at = 0
    while at + PIECE < len(text):
        window = text[at : at + PIECE]
        plain = _without_escapes(window)
        if (cut := _last_comma(plain)) >= 0:
            before, opened = opened, _opened(opened, _without_escapes(head) + plain[:cut])
            if not opened:
                raise NotJsonError
            yield f"{_openings(before)}{head}{window[:cut]}{opened[::-1].translate(_CLOSING)}"
            at, head = at + cut + 1, ""
            continue
        if plain.count('"') % 2 == 0 or len(head) > PIECE:
            raise NotJsonError
        start = plain.rfind('"') + 1
        head += f'{window[:start]}"'
        at += start
        while cut := _characters(window := text[at : at + PIECE]):
            yield f'"{window[:cut]}"'
            at += cut
        if text[at : at + 1] != '"':
            raise NotJsonError
        at += 1
    yield f"{_openings(opened)}{head}{text[at:]}"


def _without_escapes(text: str) -> str:
    """The text with blanks for what might be taken for a quote at either end of a string, or for a backslash."""
    return text.replace("\\\\", "  ").replace('\\"', "  ")


def _last_comma(plain: str) -> int:
    """The offset of the last comma that is in no string; -1 if there is none."""
    comma = plain.rfind(",")
    inside = plain.count('"', 0, comma) % 2
    while comma >= 0 and inside:
        start = plain.rfind('"', 0, comma)
        comma = plain.rfind(",", 0, start)
        inside = plain.count('"', comma + 1, start) % 2
    return comma


def _characters(window: str) -> int:
    """How many characters are in the string that goes on in the window, as far as they end with a whole escape."""
    plain = _without_escapes(window)
    if (end := plain.find('"')) >= 0:
        return end
    cut = plain.rfind("\\", max(0, len(plain) - 6))
    if cut < 0:
        return len(plain)
    return cut - 6 if cut >= 6 and _HIGH_SURROGATE.match(plain, cut - 6) else cut


def _opened(before: str, plain: str) -> str:
    """The brackets that are open after a piece, if `before` are open in front of it."""
    marks = plain.encode(errors="replace").translate(None, _NO_MARKS).decode().replace('""', "")
    brackets = before + "".join(marks.split('"')[::2])
    for _ in range(_LEVELS):
        brackets = brackets.replace("[]", "").replace("{}", "")
    opened: list[str] = []
    for bracket in brackets:
        if bracket in "[{":
            opened.append(bracket)
        elif not opened or opened.pop() + bracket not in ("[]", "{}"):
            raise NotJsonError
    if len(opened) > MAX_DEPTH:
        raise NotJsonError
    return "".join(opened)


def _openings(brackets: str) -> str:
    """The beginning of a text after which a piece goes on, behind a comma."""
    outer = "".join("[" if bracket == "[" else '{"":' for bracket in brackets[:-1])
    return outer + {"": "", "[": "[0,", "{": '{"":0,'}[brackets[-1:]]


def without_surrogates(text: str) -> str:
    """A text that is JSON to msgspec if and only if `text` is JSON: other escapes are in place of surrogates."""
    if not _may_have_surrogates(text):
        return text
    return text.replace(r"\\", "xx").replace(r"\ud", r"\u0").replace(r"\uD", r"\u0")


def replace_lone_surrogates(data: bytes) -> bytes:
    """JSON, or events of it, with U+FFFD in place of halves of characters that are escaped alone.

    It is quick where there are few; with millions of them it takes seconds, in which a thread lets others run.
    """
    if rb"\ud" not in data and rb"\uD" not in data:
        return data
    repaired = bytearray(data)
    for match in _SURROGATE.finditer(data.replace(rb"\\", b"xx")):
        if match[1]:
            repaired[match.start() + 2 : match.end()] = b"fffd"
    return bytes(repaired)


async def well_formed_json(text: str) -> str:
    """JSON with U+FFFD in place of halves of surrogate pairs, which no Unicode text has."""
    if not _may_have_surrogates(text):
        return text
    return _repaired(text) if len(text) <= PIECE else await anyio.to_thread.run_sync(_repaired, text)


def _repaired(text: str) -> str:
    return replace_lone_surrogates(text.encode()).decode()


def _may_have_surrogates(text: str) -> bool:
    return r"\ud" in text or r"\uD" in text
