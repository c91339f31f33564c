"""Inputs and values as records hold them, where the options ask for them: without credentials, and within bounds.

Everything here happens in the thread that makes events. Even there a regular expression holds the interpreter until it
is through, so no text is given to one as a whole that is longer than `MAX_TEXT`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, cast

from codecall.calls.digests import MAX_SORTED
from codecall.decoding import read_json
from codecall.masking import Masker
from codecall.sanitizing import CREDENTIAL, MAX_DEPTH, MAX_NODES, MAX_VALUE_CHARS

MAX_TEXT: Final = 4_000
"""Characters of one text."""

MAX_READ: Final = MAX_SORTED
"""Characters of JSON that are read; of more only the size is told."""

_KEY = re.compile(r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY.*?(?:-----END [A-Z ]{0,30}PRIVATE KEY[^-]{0,20}-----|\Z)", re.S)


def recorded_json(text: str) -> object:
    """The data of JSON text, for a record."""
    if len(text) > MAX_READ:
        return {"__truncated": {"characters": len(text)}}
    try:
        return recorded(read_json(text))
    except (ValueError, RecursionError):
        return {"__unreadable": {"characters": len(text)}}


def recorded(data: object) -> object:
    """JSON data for a record. What is too deep, too long or too much is a mark that says so."""
    bounded = _Bounds().cut(data, 0)
    masker = Masker()
    masker.learn(bounded)
    return masker.mask(bounded, "", [])


def recorded_script(script: str) -> str:
    """A script for a record, whole."""
    masker = Masker()
    return "".join(cast("str", masker.mask(part, "", [])) for part in _parts(_KEY.sub(CREDENTIAL, script)))


def _parts(text: str) -> Iterator[str]:
    """Parts of a text between lines, else between words, else wherever they end."""
    at = 0
    while len(text) - at > MAX_TEXT:
        end = text.rfind("\n", at, at + MAX_TEXT) + 1 or text.rfind(" ", at, at + MAX_TEXT) + 1 or at + MAX_TEXT
        yield text[at:end]
        at = end
    yield text[at:]


class _Bounds:
    """What is left of the bounds of one value."""

    def __init__(self) -> None:
        self._nodes = MAX_NODES
        self._chars = MAX_VALUE_CHARS

    def cut(self, value: object, depth: int) -> object:
        self._nodes -= 1
        if isinstance(value, str):
            return self._text(value)
        if not isinstance(value, Mapping | list | tuple):
            return value
        if depth >= MAX_DEPTH:
            return {"__truncated": {"depth": depth}}
        if isinstance(value, Mapping):
            mapping = cast("Mapping[object, object]", value)
            cut: dict[str, object] = {}
            for key, item in mapping.items():
                if self._nodes <= 0 or self._chars <= 0:
                    cut["__truncated"] = {"properties": len(mapping) - len(cut)}
                    break
                cut[self._text(str(key))] = self.cut(item, depth + 1)
            return cut
        sequence = cast("Sequence[object]", value)
        items: list[object] = []
        for item in sequence:
            if self._nodes <= 0 or self._chars <= 0:
                items.append({"__truncated": {"items": len(sequence) - len(items)}})
                break
            items.append(self.cut(item, depth + 1))
        return items

    def _text(self, text: str) -> str:
        """A text, or as much of it as may be: up to a blank, so that no half of a credential stays behind."""
        self._chars -= min(len(text), MAX_TEXT)
        if self._chars < 0:
            return f"…[truncated {len(text)} characters]"
        if len(text) <= MAX_TEXT:
            return text
        end = max(text.rfind(" ", 0, MAX_TEXT), text.rfind("\n", 0, MAX_TEXT), 0)
        return f"{text[:end]}…[truncated {len(text) - end} characters]"
