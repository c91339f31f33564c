"""How large a value is, estimated without writing its JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, cast

NODE_CHARS: Final = 8
"""Characters that one value counts in an estimate of its JSON, besides its own."""

_FLAT: Final = frozenset({int, float, bool, type(None)})
"""Types of values without characters of their own in an estimate."""

_type_of: Final = cast("Callable[[object], type]", type)
"""`type`, with a signature that the type checker accepts for values of unknown type."""


def exceeds_chars(value: object, limit: int) -> bool:
    """Whether `value` is larger than about `limit` characters of JSON; stops counting as soon as it is."""
    return estimate_size(value, limit, NODE_CHARS) > limit


def estimate_size(value: object, limit: int, per_value: int) -> int:
    """The characters of all texts and names in `value`, and `per_value` for each value and name; of more than `limit`,
    some number above. An object that is no JSON, as a model, is counted with its attributes."""
    left = limit - per_value
    waiting: list[Iterable[Any]] = [(value,)]
    item: Any
    while waiting and left >= 0:
        # No more items than there are characters left: a container whose items are too many is not waiting here.
        for item in waiting.pop():
            kind = _type_of(item)
            if kind is str:
                left -= len(item)
            elif kind in _FLAT:
                continue
            elif kind is dict or issubclass(kind, Mapping):
                left -= len(item) * 2 * per_value
                if left >= 0:
                    left -= _count_name_chars(item)
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


def _count_name_chars(item: Mapping[Any, object]) -> int:
    try:
        return sum(map(len, item))
    except TypeError:  # a name that is no text
        return sum(len(str(name)) for name in item)
