"""Inputs and values as records hold them, where the options include them: without credentials, and within bounds.

All of this runs in the thread that creates events. Even there a regular expression holds the interpreter until it ends,
so none is applied to a text longer than `ValueBounds.text`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, cast

from codecall.envelopes import CallRecord
from codecall.jsonio.decode import MAX_SORTED, read_json, sha256
from codecall.redaction.clean import MAX_DEPTH, MAX_NODES, MAX_VALUE_CHARS
from codecall.redaction.masking import Masker
from codecall.redaction.patterns import CREDENTIAL

MAX_TEXT: Final = 4_000
"""Most characters of one text."""

MAX_READ: Final = MAX_SORTED
"""Most characters of JSON that are decoded; of a longer text only the size is recorded."""

NODE: Final = 64
"""Characters that each item of a list or an object counts."""

MAX_CUT_TRIES: Final = 20
"""Most places between lines, and between words, that are tried for one cut."""

CUT_CONTEXT: Final = 400
"""Characters on both sides of a cut that are examined."""

_QUERY = re.compile("[?#]")
_PRIVATE_KEY = re.compile(
    r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY.*?(?:-----END [A-Z ]{0,30}PRIVATE KEY[^-]{0,20}-----|\Z)", re.S
)


@dataclass(frozen=True, slots=True)
class ValueBounds:
    """How much of one value a record keeps."""

    read: int = MAX_READ
    """Most characters of JSON that are decoded; of a longer text only the size is recorded."""
    nodes: int = MAX_NODES
    """Most values, including those within others."""
    chars: int = MAX_VALUE_CHARS
    """Most characters of all texts in the value."""
    text: int = MAX_TEXT
    """Most characters of one text."""


RECORD: Final = ValueBounds()
"""The bounds of values in records."""


def redact_json(text: str, bounds: ValueBounds = RECORD, masker: Masker | None = None) -> object:
    """Decodes JSON text and redacts it for a record. `masker`: the masker of the run, if it has one.

    Raises:
        MaskingTimeoutError: here and below, the deadline of the masker has come.
    """
    if len(text) > bounds.read:
        return {"__truncated": {"characters": len(text)}}
    try:
        return redact_value(read_json(text), bounds, masker)
    except (ValueError, RecursionError):
        return {"__unreadable": {"characters": len(text)}}


def redact_value(data: object, bounds: ValueBounds = RECORD, masker: Masker | None = None) -> object:
    """Redacts JSON data for a record. Marks replace parts that are too deep, too long or too many."""
    bounded = _ValueCutter(bounds).cut(data, 0)
    masker = masker or Masker()
    masker.learn(bounded)
    return masker.mask(bounded, "", [])


def redact_script(script: str, masker: Masker | None = None) -> str:
    """Redacts a script for a record, at full length."""
    masker = masker or Masker()
    parts = _split(_PRIVATE_KEY.sub(CREDENTIAL, script), Masker(deadline=masker.deadline))
    return "".join(cast("str", masker.mask(part, "", [])) for part in parts)


def call_subject(
    record: CallRecord, *, full_uri: bool, redact: Callable[[str], object] = redact_value
) -> dict[str, object]:
    """Returns what a call called; a resource's URI ends before its query and fragment unless `full_uri`."""
    name = record.name
    if record.called == "resource":
        query = None if full_uri else _QUERY.search(name)
        name = cast("str", redact(name if query is None else name[: query.start()]))
        if query is not None:
            name += f"?sha256={sha256(record.name)}"
    return {"called": record.called, "name": name}


def estimate_chars(fields: Mapping[str, object]) -> int:
    """Estimates the characters that the fields of an event occupy in memory."""
    chars = 0
    pending = [*fields.values()]
    while pending:
        value = pending.pop()
        if isinstance(value, str):
            chars += len(value)
        elif isinstance(value, Mapping):
            mapping = cast("Mapping[str, object]", value)
            chars += sum(NODE + len(key) for key in mapping)
            pending.extend(mapping.values())
        elif isinstance(value, list | tuple):
            items = cast("Sequence[object]", value)
            chars += NODE * len(items)
            pending.extend(items)
    return chars


def _split(text: str, masker: Masker) -> Iterator[str]:
    """Splits a text between lines, else between words, else anywhere. `masker`: tries out where it may be cut."""
    at = 0
    while len(text) - at > MAX_TEXT:
        end = _part_end(text, at, masker)
        yield text[at:end]
        at = end
    yield text[at:]


def _part_end(text: str, at: int, masker: Masker) -> int:
    """Returns the end of the part that begins at `at`, at a place where the cut hides no credential."""
    first = 0
    for blank in "\n ":
        before = at + MAX_TEXT
        for _ in range(MAX_CUT_TRIES):
            end = text.rfind(blank, at, before) + 1
            if not end:
                break
            first = first or end
            if _is_safe_cut(text, end, masker):
                return end
            before = end - 1
    return first or at + MAX_TEXT


def _is_safe_cut(text: str, end: int, masker: Masker) -> bool:
    """Whether two parts are masked like the joined text; they are not between `password =` and its value."""
    before, behind = text[max(0, end - CUT_CONTEXT) : end], text[end : end + CUT_CONTEXT]
    joined, *halves = (cast("str", masker.mask(part, "", [])) for part in (before + behind, before, behind))
    return joined == "".join(halves)


class _ValueCutter:
    """Cuts one value down to its bounds."""

    def __init__(self, bounds: ValueBounds) -> None:
        self._nodes = bounds.nodes
        self._chars = bounds.chars
        self._longest = bounds.text

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
        """Returns as much of a text as the bounds allow, up to a blank, so that no half of a credential remains."""
        self._chars -= min(len(text), self._longest)
        if self._chars < 0:
            return f"…[truncated {len(text)} characters]"
        if len(text) <= self._longest:
            return text
        end = max(text.rfind(" ", 0, self._longest), text.rfind("\n", 0, self._longest), 0)
        return f"{text[:end]}…[truncated {len(text) - end} characters]"
