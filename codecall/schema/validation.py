"""What is wrong with a tool's input by its JSON Schema, said so that a model can mend it: each bad field, and the valid
parameters."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final, cast

from codecall.schema.model import property_schemas, resolve
from codecall.wording import nearest, plain_number

JsonObject = dict[str, object]

MAX_FIELDS: Final = 20
"""Bad fields one error names; it says how many more there are."""

MAX_PARAMETERS: Final = 40
"""Parameters the message lists; it says how many more there are."""

MAX_CHOICES: Final = 12
"""Values of one enumeration that are listed; it says how many more there are."""

MAX_CHOICE_CHARS: Final = 60

MAX_ALTERNATIVES: Final = 50
"""Alternatives of one field that are looked at."""

MAX_FORM_MEMBERS: Final = 6
"""Members of one alternative that are named; it says how many more there are."""

MAX_FORMS_CHARS: Final = 500
"""Characters of the alternatives of one field that are objects; longer ones are `object`."""

MAX_FORM_CHOICES: Final = 3
"""Values of a member that an alternative spells out."""

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
    listed = "; ".join(_sentence(problem) for problem in problems) or "the tool refused it"
    return f"Invalid input for '{name}': {listed}{'' if listed.endswith('?') else '.'} {describe_parameters(schema)}"


def advise_on_nulls(problems: Sequence[Problem], arguments: object, schema: JsonObject) -> list[Problem]:
    """The problems, with the advice to leave out fields that are null, may not be, and are not required."""
    return [
        {**each, "message": f"{each['message']}; leave it out rather than give null"}
        if _is_needless_null(each["field"].split("."), arguments, schema)
        else each
        for each in problems
    ]


def _is_needless_null(path: Sequence[str], arguments: object, schema: JsonObject) -> bool:
    value, place, is_optional = arguments, schema, False
    for part in path:
        place = resolve(place, schema)
        members, items, properties = _object(value), _array(value), property_schemas(place)
        if part in members and part in properties:
            is_optional = part not in _array(place.get("required"))
            value, place = members[part], _object(properties[part])
        elif part.isdigit() and len(part) < 9 and int(part) < len(items):
            value, is_optional, place = items[int(part)], False, _object(place.get("items"))
        else:
            return False
    types = _types(resolve(place, schema), schema)
    return value is None and is_optional and bool(types) and "null" not in types


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
        types = _join_values(choices, " | ") if choices else " | ".join(_types(field, schema))
        mark = "*" if name in needed else ""
        listed.append(f"{name}{mark} ({types})" if types else f"{name}{mark}")
    rest = len(properties) - len(listed)
    more = f" and {rest} more" if rest > 0 else ""
    return f"Valid parameters (* = required): {', '.join(listed)}{more}."


def parameter_names(schema: JsonObject) -> list[str]:
    """The names of a tool's parameters."""
    return list(_object(schema.get("properties")))


def _sentence(problem: Problem) -> str:
    expected = problem.get("expected")
    line = f"{problem['field']}: {problem['message']}"
    return f"{line} (expected {expected})" if expected else line


def add_overflow_note(problems: list[Problem], total: int) -> list[Problem]:
    """Returns the problems, with a last one that counts the rest of `total`."""
    if total > len(problems):
        problems.append({"field": "…", "message": f"and {total - len(problems)} more bad fields"})
    return problems


def make_problem(path: Sequence[str], message: str, schema: JsonObject, expected: JsonObject | None = None) -> Problem:
    """What is wrong with the field at `path`, and what `schema`, or the schema `expected`, wants there."""
    entry = {"field": ".".join(path) or "input", "message": message}
    if near := _similar_parameter(path, schema):
        entry["message"] = f"{message}; did you mean '{near}'?"
    if words := _wanted(expected, schema) if expected is not None else _expected(path, schema):
        entry["expected"] = words
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
    return _wanted(place, schema)


def _wanted(field: JsonObject, schema: JsonObject) -> str:
    """What a field has to be, in words."""
    field = resolve(field, schema)
    if choices := _choices(field, schema):
        return f"one of {_join_values(choices, ', ')}"
    return " or ".join(_types(field, schema))


def type_words(field: JsonObject, schema: JsonObject) -> str:
    """An alternative in words: its type, an object by its members."""
    form = _form(field, schema)
    return (form if len(form) <= MAX_FORMS_CHARS else "") or " | ".join(_types(field, schema)) or "any"


def _types(field: JsonObject, schema: JsonObject, levels: int = 2) -> list[str]:
    kind = field.get("type")
    if isinstance(kind, str):
        return [_type_name(kind, field, schema)]
    if isinstance(kind, list):
        return [_type_name(str(item), field, schema) for item in cast("list[object]", kind)]
    members = alternatives(field, schema) if levels else []
    several = sum(item.get("type") != "null" for item in members) > 1
    forms = [_form(item, schema) if several else "" for item in members]
    if sum(map(len, forms)) > MAX_FORMS_CHARS:
        forms = [""] * len(members)
    named = [
        said
        for item, form in zip(members, forms, strict=True)
        for said in ([form] if form else _types(item, schema, levels - 1))
    ]
    named = list(dict.fromkeys(named))
    if len(named) > MAX_CHOICES:
        named[MAX_CHOICES:] = [f"… {len(named) - MAX_CHOICES} more"]
    return named


def _form(field: JsonObject, schema: JsonObject) -> str:
    """An object by the names of its members, those first that can have few values; empty for what has none."""
    properties = {name: resolve(_object(each), schema) for name, each in property_schemas(field).items()}
    if not properties:
        return ""
    required = field.get("required")
    needed = cast("list[object]", required) if isinstance(required, list) else []
    choices = {name: _choices(each, schema)[: MAX_FORM_CHOICES + 1] for name, each in properties.items()}
    short_choices = {name: values for name, values in choices.items() if 0 < len(values) <= MAX_FORM_CHOICES}
    lines: list[str] = []
    for name in sorted(properties, key=lambda name: (name not in short_choices, name not in needed))[:MAX_FORM_MEMBERS]:
        values = f": {_join_values(short_choices[name], ' | ')}" if name in short_choices else ""
        lines.append(f"{name}{'' if name in needed else '?'}{values}")
    if len(properties) > len(lines):
        lines.append(f"… {len(properties) - len(lines)} more")
    return f"{{{', '.join(lines)}}}"


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
    for item in alternatives(field, schema):
        nothing: list[object] = [None] if item.get("type") == "null" else []
        some = nothing or ([] if item.keys() & {"anyOf", "oneOf"} else _choices(item, schema))
        if not some:
            return []
        found += some
    return found


def alternatives(field: JsonObject | None, schema: JsonObject) -> list[JsonObject]:
    """The alternatives of a field."""
    stated = field or {}
    either = stated.get("anyOf", stated.get("oneOf"))
    items = cast("list[object]", either)[:MAX_ALTERNATIVES] if isinstance(either, list) else []
    return [resolve(_object(item), schema) for item in items]


def _join_values(choices: Sequence[object], between: str) -> str:
    values = [_value(choice)[:MAX_CHOICE_CHARS] for choice in choices[:MAX_CHOICES]]
    if len(choices) > MAX_CHOICES:
        values.append(f"… {len(choices) - MAX_CHOICES} more")
    return between.join(values)


def _value(choice: object) -> str:
    plain = plain_number(choice) if isinstance(choice, float) else choice
    return repr(choice) if isinstance(choice, str) else json.dumps(plain, default=repr)


def _has_type(value: object, kind: object) -> bool:
    if not isinstance(kind, str) or kind not in _PYTHON_TYPES:
        return True
    if isinstance(value, bool):
        return kind == "boolean"
    if kind == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _PYTHON_TYPES[kind])


def _array(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []


def _object(value: object) -> JsonObject:
    return cast("JsonObject", value) if isinstance(value, dict) else {}
