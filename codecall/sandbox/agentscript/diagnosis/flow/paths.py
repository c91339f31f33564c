"""Paths from the answer of a call to a value in it, through lists and objects that the script makes of such values."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeAlias, cast

MAX_VALUES: Final = 200
"""Values that are followed where a path leads to each item of a list."""


class Step(Enum):
    """A step of a path that is not a name or an index."""

    EACH = "each"
    """To some item of a list."""
    FOUND = "found"
    """To some item of a list, or to nothing."""
    FLAT = "flat"
    """To some item of what is a list; what is none stays as it is, as `flat` and `concat` have it."""
    LISTED = "listed"
    """To a list of the script's own that has the value as an item."""
    GATHERED = "gathered"
    """To a list or an object of the script's own that has the value at one place, whose index or name stands behind it;
    `EACH` for any."""


@dataclass(frozen=True, slots=True)
class CopyWithout:
    """The step to an object of the script's own with the same properties, but these: `{ ...item, total: 0 }`."""

    names: frozenset[str]


AnyStep: TypeAlias = str | int | Step | CopyWithout
ValuePath: TypeAlias = tuple[AnyStep, ...]
"""How to get from one value to another inside it."""


class Undefined:
    """JavaScript's `undefined`."""


UNDEFINED: Final = Undefined()


def path_in_answer(path: ValuePath) -> ValuePath | None:
    """The path without the lists and objects of the script's own out of which a value was taken again; None: it leads
    to another value than the one that was put in, or to such a list or object itself."""
    taken: list[AnyStep] = []
    for step in path:
        last = taken[-1] if taken else None
        if step in {Step.LISTED, Step.GATHERED} or last is Step.GATHERED:
            taken.append(step)
        elif last is Step.LISTED and not isinstance(step, str | CopyWithout):
            taken.pop()
            if step is Step.FOUND:
                _find(taken)
        elif taken[-2:-1] == [Step.GATHERED]:
            if step != last and not isinstance(step, Step) and last is not Step.EACH:
                return None
            del taken[-2:]
        elif isinstance(step, Step) and step is not Step.EACH:
            taken.append(step)
        elif isinstance(last, CopyWithout):
            if step in last.names:
                return None
            taken[-1] = step
        else:
            taken.append(step)
    if taken and isinstance(taken[-1], CopyWithout):
        taken.pop()
    return None if Step.GATHERED in taken else tuple(taken)


def _find(taken: list[AnyStep]) -> None:
    """Note that an item may not have been found in the list of the script's own that the path has led to."""
    each = max((number for number, step in enumerate(taken) if not isinstance(step, CopyWithout)), default=None)
    if each is not None and taken[each] is Step.EACH and taken[-2:-1] != [Step.GATHERED]:
        taken[each] = Step.FOUND


def kind_of_place(path: ValuePath) -> ValuePath | None:
    """The path with every step to an item alike, so that two of them are equal that may lead to the same value."""
    inside = path_in_answer(path)
    if inside is None:
        return None
    steps = (step for step in inside if not isinstance(step, CopyWithout))
    return tuple(step if isinstance(step, str) or step is Step.LISTED else Step.EACH for step in steps)


def follow(answer: object, path: ValuePath) -> tuple[list[object], list[object]] | None:
    """The values at the end of a path, and what the last step was taken from; None where an earlier step fails."""
    values, parents = [answer], list[object]()
    for step in path:
        if isinstance(step, CopyWithout):
            continue
        if any(value is UNDEFINED or value is None for value in values):
            # Of some, the way goes on; reading from the others was the script's mistake, but an earlier one.
            values = [value for value in values if value is not UNDEFINED and value is not None]
        if not values:
            return None
        parents = values
        if step is Step.LISTED:
            values = [cast("object", values)]
        else:
            values = [below for value in values for below in _step_into(value, step)][:MAX_VALUES]
    return values, parents


def _step_into(value: object, step: str | int | Step) -> list[object]:
    """The values one step further; all items where the step is to some item of a list."""
    items = cast("list[object]", value) if isinstance(value, list) else None
    members = cast("dict[str, object]", value) if isinstance(value, dict) else {}
    if step is Step.FLAT and items is None:
        return [value]
    if isinstance(step, Step):
        some = items if items is not None else list(members.values()) or [UNDEFINED]
        return [*some, UNDEFINED] if step is Step.FOUND else some
    if step == "length" and isinstance(value, list | str):
        return [len(cast("list[object] | str", value))]
    if items is not None and str(step).isdecimal():
        return items[int(step) :][:1] or [UNDEFINED]
    return [members.get(str(step), UNDEFINED)]
