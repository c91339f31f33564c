"""A JSON text with one member set in place: order, spacing, comments and trailing commas of all else stay."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Final, NamedTuple, cast

from codecall.jsonio.documents import strip_comments

_SPACE: Final = re.compile(r"\s*")
_DECODER: Final = json.JSONDecoder()


class _Members(NamedTuple):
    """The members of an object in a text."""

    values: dict[str, tuple[int, int]]
    """Where the value of each begins and ends."""
    first: int
    """Where the first begins, or the object ends."""
    end: int
    """Where its closing brace stands."""


def set_member(text: str, path: Sequence[str], value: object) -> str:
    """Set the member at `path`, with the objects on the way that are missing, in JSON as editors take it. An empty text
    stands for an empty object.

    Raises:
        ValueError: the text is no JSON, or has something other than an object on the way.
    """
    changed = _set_member(text, path, value)
    json.loads(strip_comments(changed))  # whatever stood there, what is written can be read
    return changed


def _set_member(text: str, path: Sequence[str], value: object) -> str:
    if not text.strip():
        text = "{}\n"
    plain = strip_comments(text)
    json.loads(plain)
    start = _skip(plain, 0)
    for depth, key in enumerate(path, start=1):
        members = _members(plain, start)
        if key not in members.values:
            for missing in reversed(path[depth:]):
                value = {missing: value}
            return _insert(text, start, members, key, value)
        start, end = members.values[key]
        if depth == len(path):
            return text[:start] + _written(text, value, _margin(text, start)) + text[end:]
    raise ValueError("a path is needed")


def _skip(plain: str, at: int) -> int:
    return cast("re.Match[str]", _SPACE.match(plain, at)).end()


def _members(plain: str, start: int) -> _Members:
    if plain[start] != "{":
        raise ValueError("there is no object")
    values: dict[str, tuple[int, int]] = {}
    first = at = _skip(plain, start + 1)
    while plain[at] != "}":
        key, at = cast("tuple[str, int]", _DECODER.raw_decode(plain, at))
        begins = _skip(plain, _skip(plain, at) + 1)
        ends = cast("tuple[object, int]", _DECODER.raw_decode(plain, begins))[1]
        values[key] = begins, ends
        at = _skip(plain, ends)
        if plain[at] == ",":
            at = _skip(plain, at + 1)
    return _Members(values, first, at)


def _insert(text: str, start: int, members: _Members, key: str, value: object) -> str:
    """The text with a member more, behind the others of the object that begins at `start`."""
    newline = "\r\n" if "\r\n" in text else "\n"
    outer = _margin(text, start)
    if not members.values:
        margin = outer + _unit(text)
        member = f"{json.dumps(key, ensure_ascii=False)}: {_written(text, value, margin)}"
        return f"{text[: members.end].rstrip()}{newline}{margin}{member}{newline}{outer}{text[members.end :]}"
    margin = _margin(text, members.first)
    if "\n" not in text[start : members.first]:  # all are on one line
        margin = outer + _unit(text)
    member = f"{newline}{margin}{json.dumps(key, ensure_ascii=False)}: {_written(text, value, margin)}"
    last = max(end for _, end in members.values.values())
    without = strip_comments(text, trailing=False)
    comma = re.compile(r"\s*,").match(without, last, members.end)
    place = comma.end() if comma else last
    end = text.find("\n", place, members.end)
    if end >= 0 and not without[place:end].strip() and "/*" not in text[place:end]:
        place_behind = end - 1 if text[end - 1] == "\r" else end  # a comment on the last one stays on its line
    else:
        place_behind = place
    before = text[:place_behind] if comma else f"{text[:last]},{text[last:place_behind]}"
    return f"{before}{member}{',' if comma else ''}{text[place_behind:]}"


def _margin(text: str, at: int) -> str:
    """What the line that holds this place begins with."""
    return cast("re.Match[str]", re.compile(r"[ \t]*").match(text, text.rfind("\n", 0, at) + 1)).group()


def _unit(text: str) -> str:
    found = re.search(r"\n([ \t]+)\S", text)
    return found[1] if found else "  "


def _written(text: str, value: object, margin: str) -> str:
    newline = "\r\n" if "\r\n" in text else "\n"
    return json.dumps(value, indent=_unit(text), ensure_ascii=False).replace("\n", newline + margin)
