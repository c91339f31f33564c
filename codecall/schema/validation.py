"""What is wrong with a tool's input by its JSON Schema, said so that a model can mend it: each bad field, and the valid
parameters."""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, cast

from codecall.schema.partial import JsonPath, PartialArray, PartialObject, Unknown
from codecall.similarity import nearest

JsonObject = dict[str, object]

MAX_FIELDS: Final = 20
"""Bad fields one error names; it says how many more there are."""

MAX_PARAMETERS: Final = 40
"""Parameters the message lists; it says how many more there are."""

MAX_CHOICES: Final = 12
"""Values of one enumeration that are listed; it says how many more there are."""

MAX_CHOICE_CHARS: Final = 60

Problem = dict[str, str]
"""One bad field: `field`, `message`, and `expected` where the schema says what."""

_PYTHON_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int, float),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}
"""What a decoded JSON value of each JSON Schema type is in Python."""


def shallow_problems(arguments: Mapping[str, object], schema: JsonObject) -> list[Problem]:
    """How `arguments` plainly disagree with `schema` at the top level: missing, unknown, of another type, not a choice.

    A shallow check on purpose. It explains a failure that has happened; it never refuses a call.
    """
    properties = _object(schema.get("properties"))
    required = schema.get("required")
    names = cast("list[object]", required) if isinstance(required, list) else []
    found = [(str(name), "Field required") for name in names if str(name) not in arguments]
    if schema.get("additionalProperties") is False:
        found += [(name, "Unknown parameter") for name in arguments if name not in properties]
    for name, value in arguments.items():
        field = resolve(_object(properties.get(name)), schema)
        choices = _choices(field, schema)
        if choices and value not in choices:
            found.append((name, "Not one of the allowed values"))
        elif not _has_type(value, field.get("type")):
            found.append((name, "Wrong type"))
    return add_overflow_note(
        [make_problem([name], message, schema) for name, message in found[:MAX_FIELDS]], len(found)
    )


def invalid_input_message(name: str, problems: Sequence[Problem], schema: JsonObject) -> str:
    """The message of INVALID_INPUT: each bad field, then the valid parameters."""
    said = "; ".join(_sentence(problem) for problem in problems) or "the tool refused it"
    return f"Invalid input for '{name}': {said}{'' if said.endswith('?') else '.'} {describe_parameters(schema)}"


def describe_parameters(schema: JsonObject) -> str:
    """The parameters of a tool in one line: `*` for required, types or the choices of enumerations in brackets."""
    properties = _object(schema.get("properties"))
    if not properties:
        return "It takes no parameters."
    required = schema.get("required")
    needed = set(map(str, cast("list[object]", required))) if isinstance(required, list) else set[str]()
    listed: list[str] = []
    for name in list(properties)[:MAX_PARAMETERS]:
        field = resolve(_object(properties[name]), schema)
        choices = _choices(field, schema)
        said = _join_values(choices, " | ") if choices else " | ".join(_types(field, schema))
        mark = "*" if name in needed else ""
        listed.append(f"{name}{mark} ({said})" if said else f"{name}{mark}")
    rest = len(properties) - len(listed)
    more = f" and {rest} more" if rest > 0 else ""
    return f"Valid parameters (* = required): {', '.join(listed)}{more}."


def parameter_names(schema: JsonObject) -> list[str]:
    """The names of a tool's parameters."""
    return list(_object(schema.get("properties")))


def _sentence(problem: Problem) -> str:
    expected = problem.get("expected")
    said = f"{problem['field']}: {problem['message']}"
    return f"{said} (expected {expected})" if expected else said


def add_overflow_note(problems: list[Problem], total: int) -> list[Problem]:
    """Returns the problems, with a last one that counts the rest of `total`."""
    if total > len(problems):
        problems.append({"field": "…", "message": f"and {total - len(problems)} more bad fields"})
    return problems


def make_problem(path: Sequence[str], message: str, schema: JsonObject) -> Problem:
    """What is wrong with the field at `path`, and what `schema` expects there."""
    entry = {"field": ".".join(path) or "input", "message": message}
    if near := _similar_parameter(path, schema):
        entry["message"] = f"{message}; did you mean '{near}'?"
    expected = _expected(path, schema)
    if expected:
        entry["expected"] = expected
    return entry


def _similar_parameter(path: Sequence[str], schema: JsonObject) -> str | None:
    """The parameter that one which does not exist is spelled like."""
    known = _object(schema.get("properties"))
    if len(path) != 1 or path[0] in known or len(path[0]) > MAX_CHOICE_CHARS:
        return None
    folded = {name.replace("_", "").casefold(): name for name in list(known)[:MAX_PARAMETERS]}
    near = nearest(path[0].replace("_", "").casefold(), folded, min_similarity=0.75)
    return folded[near[0]] if near else None


def _expected(path: Sequence[str], schema: JsonObject) -> str:
    """What the schema wants at `path`; empty when it does not say."""
    if not path:
        return ""
    place = schema
    for part in path:
        place = resolve(place, schema)
        known = _object(place.get("properties"))
        below = known.get(part) if part in known else place.get("items") if part.isdigit() else None
        if not isinstance(below, dict):
            return ""
        place = cast("JsonObject", below)
    place = resolve(place, schema)
    choices = _choices(place, schema)
    if choices:
        return f"one of {_join_values(choices, ', ')}"
    named = _types(place, schema)
    return " or ".join(named)


def _types(field: JsonObject, schema: JsonObject) -> list[str]:
    kind = field.get("type")
    if isinstance(kind, str):
        return [_type_name(kind, field, schema)]
    if isinstance(kind, list):
        return [_type_name(str(item), field, schema) for item in cast("list[object]", kind)]
    named = [name for item in _members(field, schema) if "anyOf" not in item for name in _types(item, schema)]
    return list(dict.fromkeys(named))


_FORMATS: Final[Mapping[object, str]] = {
    "date": "date, YYYY-MM-DD",
    "date-time": "date and time, YYYY-MM-DDThh:mm:ssZ",
    "time": "time, hh:mm:ss",
}
"""How a text of such a format is written (RFC 3339)."""


def _type_name(kind: str, field: JsonObject, schema: JsonObject) -> str:
    if kind == "string":
        stated = field.get("format")
        return _FORMATS.get(stated, kind) if isinstance(stated, str) else kind
    item = resolve(_object(field.get("items")), schema).get("type") if kind == "array" else None
    return f"{item}[]" if isinstance(item, str) else kind


def _choices(field: JsonObject, schema: JsonObject) -> list[object]:
    """All values that there are for a field; empty where there are others."""
    if "const" in field:
        return [field["const"]]
    choices = field.get("enum")
    if isinstance(choices, list):
        return cast("list[object]", choices)
    found: list[object] = []
    for item in _members(field, schema):
        nothing: list[object] = [None] if item.get("type") == "null" else []
        some = nothing or ([] if "anyOf" in item else _choices(item, schema))
        if not some:
            return []
        found += some
    return found


def _members(field: JsonObject, schema: JsonObject) -> list[JsonObject]:
    """The alternatives of a field."""
    either = field.get("anyOf")
    items = cast("list[object]", either)[:MAX_CHOICES] if isinstance(either, list) else []
    return [resolve(_object(item), schema) for item in items]


def _join_values(choices: Sequence[object], between: str) -> str:
    said = [_value(choice)[:MAX_CHOICE_CHARS] for choice in choices[:MAX_CHOICES]]
    if len(choices) > MAX_CHOICES:
        said.append(f"… {len(choices) - MAX_CHOICES} more")
    return between.join(said)


def _value(choice: object) -> str:
    return repr(choice) if isinstance(choice, str) else json.dumps(choice, default=repr)


def _has_type(value: object, kind: object) -> bool:
    if not isinstance(kind, str) or kind not in _PYTHON_TYPES:
        return True
    if isinstance(value, bool):
        return kind == "boolean"
    if kind == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _PYTHON_TYPES[kind])


def resolve(field: JsonObject, schema: JsonObject) -> JsonObject:
    """`field`, or what its `$ref` into the schema's own definitions names."""
    reference = field.get("$ref")
    if not isinstance(reference, str):
        return field
    place: object = schema
    for part in reference.removeprefix("#/").split("/"):
        place = _object(place).get(part)
    return _object(place)


def property_schemas(schema: Mapping[str, object]) -> JsonObject:
    """The schemas of an object's properties, by name."""
    return _object(schema.get("properties"))


def property_defaults(schema: Mapping[str, object]) -> dict[str, object]:
    """The defaults that a schema gives for an object's properties, by name."""
    fields = property_schemas(schema).items()
    return {name: _object(field)["default"] for name, field in fields if _has_default(field)}


def _object(value: object) -> JsonObject:
    return cast("JsonObject", value) if isinstance(value, dict) else {}


RULES: Final[dict[str, str]] = {
    "missing": "a required parameter is left out that has no default, and there is no unknown one that it may be",
    "unknown": "a member that the schema does not have, where `additionalProperties` is false",
    "type": "an object or array for text, a number, a boolean or null; a number or boolean for an object or array; "
    "text without a digit for a number",
    "choice": "text or a number that is none of `enum`, nor is but for blanks and the case of letters",
    "bound": "a number below `minimum` or above `maximum`, or one that these exclude",
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
"""Texts without a digit that a lenient tool may take for a number."""

_SCALARS: Final = frozenset({"string", "number", "integer", "boolean", "null"})
_NUMBERS: Final = frozenset({"number", "integer", "null"})
_TYPES: Final = _SCALARS | {"object", "array"}


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

    def take(self, steps: int = 1) -> None:
        """Take steps.

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
        self._budget.take()
        place = self._plain(schema)
        if place is None or isinstance(value, Unknown):
            return
        branches = place.get("anyOf")
        if isinstance(branches, list):
            yield from self._branches(value, cast("list[object]", branches), path)
            return
        if _is_wrong_type(value, place):
            yield Violation(path, "Wrong type")
        elif self._is_no_choice(value, place):
            yield Violation(path, "Not one of the allowed values")
        elif (bound := _broken_bound(value, place)) is not None:
            yield Violation(path, bound)
        elif isinstance(value, dict):
            yield from self._members(cast("dict[str, object]", value), place, path)
        elif isinstance(value, list):
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
        if len(inside) == 1:
            yield from inside[0]
        elif failures:
            yield Violation(path, "Fits none of the forms this may have")

    def _is_no_choice(self, value: object, place: JsonObject) -> bool:
        choices = place.get("enum", [place["const"]] if "const" in place else None)
        text = _fold(value)
        if text is None or not isinstance(choices, list):
            return False
        self._budget.take(len(cast("list[object]", choices)))
        allowed = {_fold(choice) for choice in cast("list[object]", choices) if choice is not None}
        return None not in allowed and text not in allowed

    def _members(self, value: Mapping[str, object], place: JsonObject, path: JsonPath) -> Iterator[Violation]:
        properties = property_schemas(place)
        if not isinstance(value, PartialObject):
            required = place.get("required")
            self._budget.take(len(value) + len(cast("list[object]", required) if isinstance(required, list) else ()))
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
        return types <= _NUMBERS and "format" not in place and not _may_be_number(value)
    return isinstance(value, (bool, int, float)) and types.isdisjoint(_SCALARS)


def _may_be_number(text: str) -> bool:
    """Whether a lenient tool may read a number from a text."""
    return any(map(str.isdigit, text)) or text.strip(" \t\r\n+-").casefold() in _NOT_DIGITS


def _broken_bound(value: object, place: JsonObject) -> str | None:
    """What a number is refused for."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or place.get("type") not in ("integer", "number"):
        return None
    for keyword, words, breaks in _BOUNDS:
        bound = place.get(keyword)
        if isinstance(bound, (int, float)) and not isinstance(bound, bool) and breaks(value, bound):
            return f"Must be {words} {bound}"
    return None


_BOUNDS: Final[tuple[tuple[str, str, Callable[[float, float], bool]], ...]] = (
    ("minimum", "at least", operator.lt),
    ("maximum", "at most", operator.gt),
    ("exclusiveMinimum", "more than", operator.le),
    ("exclusiveMaximum", "less than", operator.ge),
)
"""A keyword, how a message puts it, and what breaks it."""


def _fold(value: object) -> str | None:
    """Text and numbers as a lenient tool may compare them; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return None
    return f"{value:g}" if not isinstance(value, str) else value.strip().casefold()
