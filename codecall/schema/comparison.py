"""What is sure to be wrong with an input, of which all or only parts are known, by a JSON Schema alone."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeGuard, cast

from codecall.schema.model import property_schemas, resolve
from codecall.schema.partial import JsonPath, PartialArray, PartialObject, Unknown
from codecall.schema.patterns import certainly_differs
from codecall.schema.validation import (
    MAX_CHOICE_CHARS,
    MAX_FIELDS,
    JsonObject,
    Problem,
    add_overflow_note,
    make_problem,
)
from codecall.wording import plain_number

RULES: Final[dict[str, str]] = {
    "missing": "a required parameter is left out that has no default, and there is no unknown one that it may be",
    "unknown": "a member that the schema does not have, where `additionalProperties` is false",
    "type": "an object or array for text, a number, a boolean or null; a number or boolean for an object, an array or "
    "text that has no `format`; text without a digit for a number; a number that is not whole for an integer",
    "choice": "text or a number that is none of `enum`, nor is but for blanks and the case of letters",
    "bound": "a number below `minimum` or above `maximum`, or one that these exclude; a whole number that is no "
    "multiple of a whole `multipleOf`",
    "text": "text without `format` that is shorter than `minLength` or, without the blanks around it, longer than "
    "`maxLength`; that matches `pattern` neither with nor without them, where both are short and ASCII",
    "count": "an array with fewer items than `minItems`, or more than `maxItems` where they need not be unique",
}
"""What is sure to be wrong. `missing` holds for every tool, the others where the schema is the tool's own word."""

MAX_STEPS: Final = 5_000
"""Places in schemas, and choices of enumerations, that are looked at for one input; of one that takes more, nothing is
reported."""

_PLAIN: Final = frozenset(
    {"$ref", "$defs", "definitions", "$schema", "$id", "$comment", "type", "enum", "const", "properties", "required",
     "additionalProperties", "items", "anyOf", "title", "description", "default", "examples", "deprecated", "readOnly",
     "writeOnly", "format", "pattern", "minLength", "maxLength", "minimum", "maximum", "exclusiveMinimum",
     "exclusiveMaximum", "multipleOf", "minItems", "maxItems", "uniqueItems"}
)  # fmt: skip
"""Keywords that leave the meaning of the others alone. A schema with any other is not looked at."""

_NOT_DIGITS: Final = frozenset({"", "nan", "inf", "infinity", "null", "none"})
"""Texts without a digit that a lenient tool may take for a number or for null."""

_SCALARS: Final = frozenset({"string", "number", "integer", "boolean", "null"})
_NUMBERS: Final = frozenset({"number", "integer", "null"})
_TYPES: Final = _SCALARS | {"object", "array"}
_WRONG_TYPE: Final = "Wrong type"


class Violation(NamedTuple):
    """One thing that is wrong."""

    path: JsonPath
    message: str


class BudgetSpentError(Exception):
    """A `StepBudget` has no steps left."""


class StepBudget:
    """How much of schemas, and of inputs that are compared with them, may still be looked at; several comparisons may
    share one."""

    def __init__(self, steps: int = MAX_STEPS) -> None:
        self.left = steps

    def spend(self, steps: int = 1) -> None:
        """Spend steps.

        Raises:
            BudgetSpentError: there are not as many left.
        """
        self.left -= steps
        if self.left < 0:
            raise BudgetSpentError


def find_missing(known: Mapping[str, object], schema: JsonObject) -> list[Violation]:
    """The required parameters that are left out of an input."""
    properties = schema.get("properties")
    if isinstance(known, PartialObject) or not schema.keys() <= _PLAIN or not isinstance(properties, dict):
        return []
    return list(_missing(known, schema, ())) if known.keys() <= cast("JsonObject", properties).keys() else []


def find_violations(
    known: Mapping[str, object], schema: JsonObject, budget: StepBudget | None = None
) -> list[Violation]:
    """All that is sure to be wrong with an input; nothing where finding out takes more steps than `budget` has.

    Args:
        known: What is known of the input.
        schema: The JSON Schema of the tool's input.
        budget: What it may take; `MAX_STEPS` if left out.
    """
    try:
        return list(_SchemaComparison(schema, budget or StepBudget()).read(known, schema, ()))
    except (BudgetSpentError, RecursionError):
        return []


def violation_problems(found: Sequence[Violation], schema: JsonObject) -> list[Problem]:
    """What was found, as an error tells it."""
    entry = [make_problem([str(part) for part in path], message, schema) for path, message in found[:MAX_FIELDS]]
    return add_overflow_note(entry, len(found))


class _SchemaComparison:
    """Compares one input with one schema."""

    def __init__(self, root: JsonObject, budget: StepBudget) -> None:
        self._root = root
        self._budget = budget

    def read(self, value: object, schema: object, path: JsonPath) -> Iterator[Violation]:
        """What is wrong with `value`, which should fit `schema`."""
        self._budget.spend()
        place = self._plain(schema)
        if place is None or isinstance(value, Unknown):
            return
        branches = place.get("anyOf")
        if isinstance(branches, list):
            yield from self._branches(value, cast("list[object]", branches), path)
            return
        if _is_wrong_type(value, place):
            yield Violation(path, _WRONG_TYPE)
        elif self._is_no_choice(value, place):
            yield Violation(path, "Not one of the allowed values")
        elif (bound := _broken_bound(value, place) or self._broken_text(value, place)) is not None:
            yield Violation(path, bound)
        elif isinstance(value, dict):
            yield from self._members(cast("dict[str, object]", value), place, path)
        elif isinstance(value, list):
            if (count := _broken_count(cast("list[object]", value), place)) is not None:
                yield Violation(path, count)
            for at, item in enumerate(cast("list[object]", value)):
                yield from self.read(item, place.get("items"), path if isinstance(value, PartialArray) else (*path, at))

    def _branches(self, value: object, branches: Sequence[object], path: JsonPath) -> Iterator[Violation]:
        """What is wrong where a value must fit one of `branches`: of the only one that is of its form, the details."""
        failures: list[list[Violation]] = []
        for branch in branches:
            violations = list(self.read(value, branch, path))
            if not violations:
                return
            failures.append(violations)
        inside = [violations for violations in failures if all(item.path != path for item in violations)]
        of_its_type = [violations for violations in failures if violations[0] != Violation(path, _WRONG_TYPE)]
        if len(inside) == 1 or len(of_its_type) == 1:
            yield from (inside if len(inside) == 1 else of_its_type)[0]
        elif failures:
            yield Violation(path, "Fits none of the forms this may have")

    def _is_no_choice(self, value: object, place: JsonObject) -> bool:
        choices = place.get("enum", [place["const"]] if "const" in place else None)
        text = _fold(value)
        if text is None or not isinstance(choices, list):
            return False
        self._budget.spend(len(cast("list[object]", choices)))
        allowed = {_fold(choice) for choice in cast("list[object]", choices) if choice is not None}
        return None not in allowed and text not in allowed

    def _broken_text(self, value: object, place: JsonObject) -> str | None:
        """What a text is refused for."""
        if not isinstance(value, str) or not _is_plain_text(place):
            return None
        least, most, pattern = (place.get(keyword) for keyword in ("minLength", "maxLength", "pattern"))
        # What is one character to Python may be two to the server.
        if _is_number(least) and len(value) < least and len(value.encode("utf-16-le", "surrogatepass")) // 2 < least:
            return f"Must have at least {_counted(least, 'character')}"
        if _is_number(most) and len(value) > most and len(value.strip()) > most:
            return f"Must have at most {_counted(most, 'character')}"
        if not isinstance(pattern, str):
            return None
        self._budget.spend(5 + len(value) // 16)
        differs = certainly_differs(value, pattern)
        return f"Must match the pattern {pattern[:MAX_CHOICE_CHARS]}" if differs else None

    def _members(self, value: Mapping[str, object], place: JsonObject, path: JsonPath) -> Iterator[Violation]:
        properties = property_schemas(place)
        if not isinstance(value, PartialObject):
            required = place.get("required")
            self._budget.spend(len(value) + len(cast("list[object]", required) if isinstance(required, list) else ()))
            yield from _missing(value, place, path)
        for key, member in value.items():
            if key in properties:
                yield from self.read(member, properties[key], (*path, key))
            elif place.get("additionalProperties") is False and member is not Unknown.MAYBE_ABSENT:
                yield Violation((*path, key), "Unknown parameter")

    def _plain(self, schema: object) -> JsonObject | None:
        """`schema` without `$ref`; None where it is more than this can read."""
        place = cast("JsonObject", schema) if isinstance(schema, dict) else None
        for _ in range(10):
            if place is None or not place.keys() <= _PLAIN:
                return None
            if "$ref" not in place:
                return place
            place = resolve(place, self._root) if str(place["$ref"]).startswith("#/") else None
        return None


def _missing(value: Mapping[str, object], place: JsonObject, path: JsonPath) -> Iterator[Violation]:
    properties = property_schemas(place)
    required = place.get("required")
    closed = place.get("additionalProperties") is False
    strange = any(key not in properties for key in value)
    if not isinstance(required, list) or (strange and not closed):
        return
    for name in cast("list[object]", required):
        if isinstance(name, str) and name not in value and not _has_default(properties.get(name)):
            yield Violation((*path, name), "Field required")


def _has_default(field: object) -> bool:
    return isinstance(field, dict) and "default" in field


def _is_wrong_type(value: object, place: JsonObject) -> bool:
    stated = place.get("type")
    types = set(map(str, cast("list[object]", stated))) if isinstance(stated, list) else {str(stated)}
    if not types or not types <= _TYPES:
        return False
    if isinstance(value, (dict, list)):
        return types <= _SCALARS
    if isinstance(value, str):
        may_fit = _stands_for_other(value) or (stated != "null" and any(map(str.isdigit, value)))
        return types <= _NUMBERS and "format" not in place and not may_fit
    if not isinstance(value, (bool, int, float)):
        return False
    broken = isinstance(value, float) and not value.is_integer() and types <= {"integer", "null"}
    return broken or types.isdisjoint(_SCALARS) or stated == "null" or _is_plain_text(place)


def _is_plain_text(place: JsonObject) -> bool:
    """Whether a value must be text of which the schema says all that there is to say."""
    stated = place.get("type")
    types = set(map(str, cast("list[object]", stated))) if isinstance(stated, list) else {str(stated)}
    return "string" in types and types <= {"string", "null"} and place.keys().isdisjoint(("format", "enum", "const"))


def _stands_for_other(text: str) -> bool:
    """Whether a lenient tool may read a number or null from a text without digits."""
    return text.strip(" \t\r\n+-").casefold() in _NOT_DIGITS


def _broken_bound(value: object, place: JsonObject) -> str | None:
    """What a number is refused for."""
    if not _is_number(value) or place.get("type") not in ("integer", "number"):
        return None
    for keyword, words, breaks in _BOUNDS:
        bound = place.get(keyword)
        if _is_number(bound) and breaks(value, bound):
            return f"Must be {words} {plain_number(bound)}"
    return None


def _broken_count(value: list[object], place: JsonObject) -> str | None:
    """What an array is refused for as a whole."""
    if isinstance(value, PartialArray):
        return None
    least, most = place.get("minItems"), place.get("maxItems")
    if _is_number(least) and len(value) < least:
        return f"Must have at least {_counted(least, 'item')}"
    if _is_number(most) and len(value) > most and not place.get("uniqueItems"):
        return f"Must have at most {_counted(most, 'item')}"
    return None


def _counted(number: float, noun: str) -> str:
    return f"{plain_number(number)} {noun}{'' if number == 1 else 's'}"


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


_BOUNDS: Final[tuple[tuple[str, str, Callable[[float, float], bool]], ...]] = (
    ("minimum", "at least", operator.lt),
    ("maximum", "at most", operator.gt),
    ("exclusiveMinimum", "more than", operator.le),
    ("exclusiveMaximum", "less than", operator.ge),
    (
        "multipleOf",
        "a multiple of",
        lambda value, of: isinstance(value, int) and isinstance(of, int) and value % (of or 1) != 0,
    ),
)
"""A keyword, how a message puts it, and what breaks it."""


def _fold(value: object) -> str | None:
    """Text and numbers as a lenient tool may compare them; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return None
    return f"{value:g}" if not isinstance(value, str) else value.strip().casefold()
