"""Validators of pydantic's that let pass what is not known of an input, and count what they do.

What pydantic does for one input may grow exponentially with the nesting of an input, where a union refers to itself, or
with the product of an array and the fields of its items. Each of these validators is a step or as many as it looks at
members; the context of a validation is its `Steps`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import thread_time
from typing import Any, Final, cast

from pydantic_core import SchemaValidator, ValidationError
from pydantic_core.core_schema import ValidationInfo

from codecall.sandbox.known import Gap, Partial, Some, has_gaps

Node = dict[str, Any]
"""A node of pydantic's core schema."""

Handler = Callable[[object], object]

MAX_STEPS: Final = 1_500
"""Steps for one input: about 5 ms where each is a model that fails. Beyond, nothing is certain."""

MAX_SECONDS: Final = 0.004
"""Most time of one validation. Its steps rarely take as long: it is for schemas whose single steps do."""

_SEVERAL: Final = 64
"""Steps after which the time is looked at."""


class TooMuchError(Exception):
    """A validation has no steps left, or has taken too long."""


class Steps:
    """What one validation may do.

    Args:
        most: steps it may take.
    """

    def __init__(self, most: int) -> None:
        self.left = most
        self._until = thread_time() + MAX_SECONDS
        self._look = most - _SEVERAL

    def take(self, number: int = 1) -> None:
        """Take steps.

        Raises:
            TooMuchError: there are not as many left.
        """
        self.left -= number
        if self.left < 0:
            raise TooMuchError
        if self.left < self._look:
            self._look = self.left - _SEVERAL
            if thread_time() > self._until:
                self.left = 0
                raise TooMuchError


def refusal(
    validator: SchemaValidator, known: Mapping[str, object], steps: Steps | None = None
) -> ValidationError | None:
    """How the validator refuses an input; None where it does not, and where finding out takes more than `steps`.

    Args:
        validator: a loosened one.
        known: the input.
        steps: what it may take; `MAX_STEPS` unless told.
    """
    try:
        validator.validate_python(known, context=steps or Steps(MAX_STEPS))
    except ValidationError as error:
        return error
    except Exception:  # `TooMuchError`, or such as a choice that cannot be compared with
        return None
    return None


def wrapped(function: Callable[[Any, Handler, ValidationInfo], object], schema: Node) -> Node:
    """A node that asks `function` first."""
    return {"type": "function-wrap", "function": {"type": "with-info", "function": function}, "schema": schema}


def past_gaps(value: object, handler: Handler, info: ValidationInfo) -> object:
    """Anything: a gap fits."""
    _steps(info).take()
    return value if isinstance(value, Gap) else handler(value)


def past_lists(value: object, handler: Handler, info: ValidationInfo) -> object:
    """A list or tuple, of which it must be known how many items there are."""
    _steps(info).take()
    return value if isinstance(value, Some) else handler(value)


def past_sets(value: object, handler: Handler, info: ValidationInfo) -> object:
    """A set, of which all must be known: with gaps in it, nobody can say which items are the same."""
    _steps(info).take(_size(value))
    return value if has_gaps(value) else handler(value)


def past_mappings(value: object, handler: Handler, info: ValidationInfo) -> object:
    """An object whose members decide, or are counted."""
    _steps(info).take(_members(value))
    return value if _is_uncertain(value) else handler(value)


def past_object(names: Mapping[str, bool], value: object, handler: Handler, info: ValidationInfo) -> object:
    """An object, without members that may not be there, and with those that may."""
    _steps(info).take(len(names) + _members(value))
    if isinstance(value, dict):
        members = cast("Mapping[str, object]", value)
        sure = {key: item for key, item in members.items() if key in names or item is not Gap.PERHAPS}
        rest = dict.fromkeys((name for name, required in names.items() if required), Gap.PERHAPS)
        value = {**rest, **sure} if isinstance(value, Partial) else sure
    return handler(value)


def _is_uncertain(value: object) -> bool:
    if not isinstance(value, dict):
        return False
    members = cast("dict[str, object]", value).values()
    return isinstance(value, Partial) or any(isinstance(member, Gap) for member in members)


def _steps(info: ValidationInfo) -> Steps:
    return cast("Steps", info.context)


def _members(value: object) -> int:
    """One for the value and one for each of its members or items."""
    return 1 + len(cast("dict[str, object] | list[object]", value)) if isinstance(value, dict | list) else 1


def _size(value: object) -> int:
    """The values in `value`, itself included."""
    inside = cast("dict[str, object]", value).values() if isinstance(value, dict) else value
    return 1 + sum(map(_size, cast("list[object]", inside))) if isinstance(value, dict | list) else 1
