"""What was wrong with a tool's input, said so that a model can mend it: each bad field, and the valid parameters.

Three sources: the tool's own refusal (pydantic errors), a check of the input against the tool's JSON Schema (for tools
of other servers, whose refusals arrive as plain text), and the schema itself for the list of parameters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, cast

from pydantic import ValidationError

from codecall.catalog.entries import JsonObject

MAX_FIELDS: Final = 20
"""Bad fields one error names; it says how many more there are."""

MAX_READ_ERRORS: Final = 1_000
"""Errors of one refusal that are read one by one, which takes pydantic about 1 ms."""

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


def problems_of(failure: ValidationError, schema: JsonObject) -> list[Problem]:
    """The fields a tool's argument validation refused, in its order: `MAX_FIELDS` and one for the rest.

    A refusal of more than `MAX_READ_ERRORS` is only counted: pydantic cannot give the first few errors alone, and
    making a million of them would hold the event loop for a second.
    """
    count = failure.error_count()
    if count > MAX_READ_ERRORS:
        return [{"field": "input", "message": f"{count:,} values are not valid"}]
    errors = failure.errors(include_url=False, include_context=False, include_input=False)
    problems = [_problem([str(part) for part in item["loc"]], item["msg"], schema) for item in errors[:MAX_FIELDS]]
    return _with_rest(problems, len(errors))


def mismatches(arguments: Mapping[str, object], schema: JsonObject) -> list[Problem]:
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
        field = _resolve(_object(properties.get(name)), schema)
        choices = _choices(field)
        if choices and value not in choices:
            found.append((name, "Not one of the allowed values"))
        elif not _has_type(value, field.get("type")):
            found.append((name, "Wrong type"))
    return _with_rest([_problem([name], message, schema) for name, message in found[:MAX_FIELDS]], len(found))


def explain(name: str, problems: Sequence[Problem], schema: JsonObject) -> str:
    """The message of INVALID_INPUT: each bad field, then the valid parameters."""
    said = "; ".join(_sentence(problem) for problem in problems) or "the tool refused it"
    return f"Invalid input for '{name}': {said}. {parameters(schema)}"


def parameters(schema: JsonObject) -> str:
    """The parameters of a tool in one line: `*` for required, the choices of enumerations in brackets."""
    properties = _object(schema.get("properties"))
    if not properties:
        return "The tool takes no parameters."
    required = schema.get("required")
    needed = set(map(str, cast("list[object]", required))) if isinstance(required, list) else set[str]()
    listed: list[str] = []
    for name in list(properties)[:MAX_PARAMETERS]:
        choices = _choices(_resolve(_object(properties[name]), schema))
        mark = "*" if name in needed else ""
        listed.append(f"{name}{mark} ({_written(choices, ' | ')})" if choices else f"{name}{mark}")
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


def _with_rest(problems: list[Problem], total: int) -> list[Problem]:
    if total > len(problems):
        problems.append({"field": "…", "message": f"and {total - len(problems)} more bad fields"})
    return problems


def _problem(path: list[str], message: str, schema: JsonObject) -> Problem:
    problem = {"field": ".".join(path) or "input", "message": message}
    expected = _expected(path, schema)
    if expected:
        problem["expected"] = expected
    return problem


def _expected(path: list[str], schema: JsonObject) -> str:
    """What the schema wants at `path`; empty when it does not say."""
    if not path:
        return ""
    place = schema
    for part in path:
        place = _resolve(place, schema)
        known = _object(place.get("properties"))
        below = known.get(part) if part in known else place.get("items") if part.isdigit() else None
        if not isinstance(below, dict):
            return ""
        place = cast("JsonObject", below)
    place = _resolve(place, schema)
    choices = _choices(place)
    if choices:
        return f"one of {_written(choices, ', ')}"
    named = _types(place)
    return " or ".join(named)


def _types(field: JsonObject) -> list[str]:
    kind = field.get("type")
    if isinstance(kind, str):
        return [kind]
    if isinstance(kind, list):
        return [str(item) for item in cast("list[object]", kind)]
    either = field.get("anyOf")
    if isinstance(either, list):
        return [name for item in cast("list[object]", either)[:MAX_CHOICES] for name in _types(_object(item))]
    return []


def _choices(field: JsonObject) -> list[object]:
    if "const" in field:
        return [field["const"]]
    choices = field.get("enum")
    return cast("list[object]", choices) if isinstance(choices, list) else []


def _written(choices: Sequence[object], between: str) -> str:
    said = [repr(choice)[:MAX_CHOICE_CHARS] for choice in choices[:MAX_CHOICES]]
    if len(choices) > MAX_CHOICES:
        said.append(f"… {len(choices) - MAX_CHOICES} more")
    return between.join(said)


def _has_type(value: object, kind: object) -> bool:
    if not isinstance(kind, str) or kind not in _PYTHON_TYPES:
        return True
    if isinstance(value, bool):
        return kind == "boolean"
    if kind == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _PYTHON_TYPES[kind])


def _resolve(field: JsonObject, schema: JsonObject) -> JsonObject:
    """`field`, or what its `$ref` into the schema's own definitions names."""
    reference = field.get("$ref")
    if not isinstance(reference, str):
        return field
    place: object = schema
    for part in reference.removeprefix("#/").split("/"):
        place = _object(place).get(part)
    return _object(place)


def _object(value: object) -> JsonObject:
    return cast("JsonObject", value) if isinstance(value, dict) else {}
