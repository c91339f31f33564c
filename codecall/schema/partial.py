"""What is known of a call's input before the script runs: JSON data with gaps.

A worker reads it from the literals in a script and sends it as JSON text (`agentscript/literals.py` writes it). Text,
numbers, booleans and null stand for themselves in it, and arrays for everything else:

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

Path = tuple[str | int, ...]
"""From an input to a value in it."""


class Gap(Enum):
    """A value that is not known."""

    PERHAPS = "perhaps"
    """Nor is whether there is one: what is undefined has no place in JSON."""
    PRESENT = "present"
    """There is one."""


class Partial(dict[str, object]):
    """An object that may have other members too."""


class Some(list[object]):
    """An array that may have other items too, anywhere."""


class Mistake(NamedTuple):
    """Why a call cannot end well, found out before it is made."""

    code: str
    """As the call's own error would have it."""
    message: str
    hint: str | None = None
    problems: tuple[dict[str, str], ...] = ()
    """Each bad field: `field`, `message`, and `expected` where the schema says what."""
    paths: tuple[Path, ...] = ()
    """Of the bad fields in the input; perhaps beyond what is there."""


class NotKnown(ValueError):  # noqa: N818 - internal signal, named for what happened
    """The data are not what is written above."""


class Known(NamedTuple):
    """What is known of one input."""

    value: dict[str, object]
    places: Mapping[Path, int]
    """By path: where each member of an object begins, in characters of the script."""

    @classmethod
    def read(cls, data: object) -> Known:
        """From the decoded JSON.

        Raises:
            NotKnown: it is something else.
        """
        reading = _Reading()
        value = reading.value(data, ())
        if not isinstance(value, dict):
            raise NotKnown("an input is an object")
        return cls(cast("dict[str, object]", value), reading.places)

    def place(self, paths: Sequence[Path]) -> int | None:
        """Where the first of `paths` leads, or else as far as one of them does; None where that is the whole input."""
        for cut in range(max(map(len, paths), default=0)):
            for path in paths:
                if (offset := self.places.get(path[: len(path) - cut] if cut else path)) is not None:
                    return offset
        return None


def has_gaps(value: object) -> bool:
    """Whether anything in `value` is not known."""
    if isinstance(value, dict):
        return isinstance(value, Partial) or any(map(has_gaps, cast("dict[str, object]", value).values()))
    if isinstance(value, list):
        return isinstance(value, Some) or any(map(has_gaps, cast("list[object]", value)))
    return isinstance(value, Gap)


class _Reading:
    """Reads one input."""

    def __init__(self) -> None:
        self.places: dict[Path, int] = {}
        self._left = MAX_VALUES + 1

    def value(self, data: object, path: Path) -> object:
        """What stands at `path`."""
        self._left -= 1
        if self._left < 0:
            raise NotKnown("too many values")
        if not isinstance(data, list):
            if isinstance(data, dict):
                raise NotKnown("an object without its mark")
            return data
        if len(path) > MAX_NESTING:
            raise NotKnown("nested too deeply")
        parts = cast("list[object]", data)
        if parts in ([], [0]):
            return Gap.PRESENT if parts else Gap.PERHAPS
        mark, inside = parts if len(parts) == 2 else (0, None)
        if mark in (1, 2) and isinstance(inside, dict):
            members = cast("dict[str, object]", inside).items()
            value = {key: self._member(member, (*path, key)) for key, member in members}
            return value if mark == 1 else Partial(value)
        if mark in (3, 4) and isinstance(inside, list):
            items = [self.value(item, (*path, at)) for at, item in enumerate(cast("list[object]", inside))]
            return items if mark == 3 else Some(items)
        raise NotKnown("an array without its mark")

    def _member(self, data: object, path: Path) -> object:
        pair = cast("list[object]", data) if isinstance(data, list) else []
        offset, value = pair if len(pair) == 2 else (None, None)
        if not isinstance(offset, int) or isinstance(offset, bool) or offset < 0:
            raise NotKnown("a member without its place")
        self.places[path] = offset
        return self.value(value, path)
