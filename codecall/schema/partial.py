"""What is known of a call's input before any call is made: JSON data with gaps.

A worker reads it from the literals in a script and sends it as JSON text (`agentscript/analysis/calls.py` writes it).
Text, numbers, booleans and null stand for themselves in it, and arrays for everything else:

    []                        a value that is not known, or none at all: `{ limit: size }`
    [0]                       a value that is there and not known: `` { query: `from:${name}` } ``
    [1, {key: [offset, x]}]   an object; where each member begins in the script, and what is known of it
    [2, {key: [offset, x]}]   an object with these members and perhaps others: `{ ...defaults, limit: 5 }`
    [3, [x, …]]               an array
    [4, [x, …]]               an array with these items and perhaps others among them: `[...ids, 7]`
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Final, NamedTuple, cast

MAX_NESTING: Final = 70
"""Most objects and arrays within each other. A script may nest 64 brackets."""

MAX_VALUES: Final = 2_000
"""Most values in one input; of a larger one nothing is known beforehand."""

JsonPath = tuple[str | int, ...]
"""From an input to a value in it."""


class Unknown(Enum):
    """A value that is not known."""

    MAYBE_ABSENT = "perhaps"
    """The value may also be absent: `undefined` has no place in JSON."""
    PRESENT = "present"
    """The value exists."""


class PartialObject(dict[str, object]):
    """An object that may have other members too."""


class PartialArray(list[object]):
    """An array that may have other items too, anywhere."""


class PreflightError(NamedTuple):
    """Why a call cannot end well, found out before it is made."""

    code: str
    """As the call's own error would have it."""
    message: str
    hint: str | None = None
    problems: tuple[dict[str, str], ...] = ()
    """Each bad field: `field`, `message`, and `expected` where the schema says what."""
    paths: tuple[JsonPath, ...] = ()
    """Paths of the bad fields in the input, which need not exist in it."""


class PartialInputError(ValueError):
    """The data does not have the form described above."""


class PartialInput(NamedTuple):
    """What is known of one input."""

    value: dict[str, object]
    offsets: Mapping[JsonPath, int]
    """By path: where each member of an object begins, in characters of the script."""

    @classmethod
    def from_json(cls, data: object) -> PartialInput:
        """Builds the input from decoded JSON.

        Raises:
            PartialInputError: the data does not have the form described above.
        """
        reading = _PartialInputReader()
        value = reading.value(data, ())
        if not isinstance(value, dict):
            raise PartialInputError("an input is an object")
        return cls(cast("dict[str, object]", value), reading.places)

    def offset_of(self, paths: Sequence[JsonPath]) -> int | None:
        """Where the first of `paths` leads, or else as far as one of them does; None where that is the whole input."""
        for cut in range(max(map(len, paths), default=0)):
            for path in paths:
                if (offset := self.offsets.get(path[: len(path) - cut] if cut else path)) is not None:
                    return offset
        return None


def has_unknowns(value: object) -> bool:
    """Whether `value` contains anything unknown."""
    if isinstance(value, dict):
        return isinstance(value, PartialObject) or any(map(has_unknowns, cast("dict[str, object]", value).values()))
    if isinstance(value, list):
        return isinstance(value, PartialArray) or any(map(has_unknowns, cast("list[object]", value)))
    return isinstance(value, Unknown)


class _PartialInputReader:
    """Reads one input."""

    def __init__(self) -> None:
        self.places: dict[JsonPath, int] = {}
        self._left = MAX_VALUES + 1

    def value(self, data: object, path: JsonPath) -> object:
        """What stands at `path`."""
        self._left -= 1
        if self._left < 0:
            raise PartialInputError("too many values")
        if not isinstance(data, list):
            if isinstance(data, dict):
                raise PartialInputError("an object without its mark")
            return data
        if len(path) > MAX_NESTING:
            raise PartialInputError("nested too deeply")
        parts = cast("list[object]", data)
        if parts in ([], [0]):
            return Unknown.PRESENT if parts else Unknown.MAYBE_ABSENT
        mark, inside = parts if len(parts) == 2 else (0, None)
        if mark in (1, 2) and isinstance(inside, dict):
            members = cast("dict[str, object]", inside).items()
            value = {key: self._member(member, (*path, key)) for key, member in members}
            return value if mark == 1 else PartialObject(value)
        if mark in (3, 4) and isinstance(inside, list):
            items = [self.value(item, (*path, at)) for at, item in enumerate(cast("list[object]", inside))]
            return items if mark == 3 else PartialArray(items)
        raise PartialInputError("an array without its mark")

    def _member(self, data: object, path: JsonPath) -> object:
        pair = cast("list[object]", data) if isinstance(data, list) else []
        offset, value = pair if len(pair) == 2 else (None, None)
        if not isinstance(offset, int) or isinstance(offset, bool) or offset < 0:
            raise PartialInputError("a member without its place")
        self.places[path] = offset
        return self.value(value, path)
