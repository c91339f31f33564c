"""Where in an input an error of pydantic is, and which alternative of a union it is about.

Pydantic's locations name alternatives as if they were members: `to.email.address` is the `address` of `to` where its
`kind` is `email`, and `age.str` is `age` itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, cast

from codecall.schema.model import property_schemas, resolve
from codecall.schema.validation import (
    MAX_FIELDS,
    JsonObject,
    Problem,
    add_overflow_note,
    alternatives,
    make_problem,
    type_words,
)

Location = Sequence[str | int]

_UNKNOWN: Final = object()
"""A value that is not known: that of a text which the tool reads itself, and of what is missing."""

_SCALARS: Final[Mapping[str, str]] = {"str": "string", "int": "integer", "float": "number", "bool": "boolean"}
"""Pydantic's names of alternatives, and their types in JSON Schema."""

_CONTAINERS: Final[Mapping[str, str]] = {"list": "array", "set": "array", "tuple": "array", "dict": "object"}
"""The same for those that go on with a bracket."""

_PYTHON_OBJECT: Final = re.compile(r"a valid dictionary(?: or (?:instance of \w+|object to extract fields from))?")

_TAG: Final = re.compile(r"(Unable to extract tag using discriminator|Input tag '.*' found using) '([^']+)'", re.DOTALL)
"""What is said of a union whose alternatives are told apart by one property."""

_SHOULD: Final = "Input should be "


class _Place(NamedTuple):
    path: tuple[str, ...]
    schema: JsonObject | None
    """What it has to be; None if that is not known."""
    alternative: str
    """As which alternative, in words; empty: there is one."""
    is_whole: bool
    """Whether the value itself would have to be another alternative."""


def located_problems(
    errors: Sequence[tuple[Location, str]], arguments: Mapping[str, object] | None, schema: JsonObject
) -> list[Problem]:
    """The bad fields of an input: `MAX_FIELDS`, and one entry for the rest.

    Args:
        errors: The locations, and what is said of them.
        arguments: The input; None: it is not known.
        schema: The tool's input schema.
    """
    locator = _Locator(arguments, schema, [location for location, _ in errors])
    problems: list[Problem] = []
    whole: dict[tuple[str, ...], Problem] = {}
    left_out = 0
    for location, text in errors:
        place = locator.place(location)
        message = _PYTHON_OBJECT.sub("an object", text)
        if place.is_whole and (first := whole.get(place.path)) is not None:
            first["message"] += f", or {message.removeprefix(_SHOULD)}"
        elif len(problems) == MAX_FIELDS:
            left_out += 1
        else:
            problems.append(_problem(place, message, schema))
            if place.is_whole:
                whole[place.path] = problems[-1]
    return add_overflow_note(problems, len(problems) + left_out)


def _problem(place: _Place, message: str, schema: JsonObject) -> Problem:
    if (match := _TAG.match(message)) is not None:
        text = "Field required" if match[1].startswith("Unable") else "Not one of the allowed values"
        known = [tag for one in alternatives(place.schema, schema) for tag in _tags(one, match[2])]
        return make_problem([*place.path, match[2]], text, schema, {"enum": known})
    if place.alternative and not place.is_whole:
        message += f" {place.alternative}"
    return make_problem(place.path, message, schema, place.schema)


class _Locator:
    def __init__(
        self, arguments: Mapping[str, object] | None, schema: JsonObject, locations: Iterable[Location]
    ) -> None:
        self._input: object = _UNKNOWN if arguments is None else arguments
        self._schema = schema
        self._below: dict[Location, set[str]] = {}
        """What is named right below each part of a location."""
        self._unions: dict[int, tuple[JsonObject | None, list[JsonObject]]] = {}
        self._tags: dict[tuple[int, str], str] = {}
        """The properties by which alternatives are told apart, by schema and label."""
        self._labels: dict[Location, tuple[JsonObject | None, str]] = {}
        """The alternatives that labels name, and how each is called."""
        for location in locations:
            for at in range(1, len(location)):
                self._below.setdefault(tuple(location[:at]), set()).add(str(location[at]))

    def place(self, location: Location) -> _Place:
        path: list[str] = []
        value, schema = self._input, cast("JsonObject | None", self._schema)
        alternative, is_whole = "", False
        for at, each in enumerate(location, 1):
            part, is_whole, is_last = str(each), False, at == len(location)
            if (known := self._unions.get(id(schema))) is None:
                known = self._unions[id(schema)] = self._union(schema)
            schema, members = known
            if (tag := self._tags.get((id(schema), part))) is None:
                tag = self._tags[id(schema), part] = _discriminator(schema, members, part)
            if members and not (_has(value, part) and not _is_label(part, members, tag)):
                label = tuple(location[:at])
                if (named := self._labels.get(label)) is None:
                    named = self._labels[label] = self._named(label, members, tag)
                chosen, alternative = named
                is_whole = is_last and not tag
                schema = schema if is_whole else chosen
            elif schema is not None or _has(value, part) or (is_last if _is_container(value) else _may_have(value)):
                path.append(part)
                value, schema = _member(value, part), self._member_schema(schema, part)
        return _Place(tuple(path), schema, alternative, is_whole)

    def _union(self, schema: JsonObject | None) -> tuple[JsonObject | None, list[JsonObject]]:
        """What a schema stands for, and its alternatives, if there are several beside null."""
        for _ in range(10):
            schema = None if schema is None else resolve(schema, self._schema)
            members = [one for one in alternatives(schema, self._schema) if one.get("type") != "null"]
            if len(members) != 1:
                return schema, members
            schema = members[0]
        return None, []

    def _named(self, label: Location, members: Sequence[JsonObject], tag: str) -> tuple[JsonObject | None, str]:
        """The alternative that a label names, None if that is not certain, and what it is called."""
        part = str(label[-1])
        if tag:
            found = [one for one in members if part in map(str, _tags(one, tag))]
        elif kind := _label_type(part):
            found = [one for one in members if one.get("type") == kind]
        else:
            # The name of a class, which schemas rarely keep: what is said of its members tells which it is.
            named = self._below.get(label, set())
            found = [one for one in members if one.get("title") == part]
            found = found or [one for one in members if named and named <= property_schemas(one).keys()]
        chosen = found[0] if len(found) == 1 else None
        if tag:
            return chosen, f"where {tag} is '{part}'"
        return chosen, f"in the form {type_words(chosen, self._schema) if chosen is not None else part}"

    def _member_schema(self, schema: JsonObject | None, part: str) -> JsonObject | None:
        if schema is None:
            return None
        below = property_schemas(schema).get(part)
        if below is None and part.isdigit():
            first = schema.get("prefixItems")
            items = cast("list[object]", first) if isinstance(first, list) else []
            below = items[int(part)] if len(part) < 6 and int(part) < len(items) else schema.get("items")
        if below is None:
            below = schema.get("additionalProperties")
        return cast("JsonObject", below) if isinstance(below, dict) else None


def _discriminator(schema: JsonObject | None, members: Sequence[JsonObject], label: str) -> str:
    """The property by which the alternatives are told apart; empty if there is none. In a schema that is published
    without references, it is the one of which one alternative alone has the value `label`."""
    stated = (schema or {}).get("discriminator")
    name = cast("JsonObject", stated).get("propertyName") if isinstance(stated, dict) else None
    if isinstance(name, str):
        return name
    common = set[str].intersection(*(set(property_schemas(one)) for one in members)) if members else ()
    found = [each for each in sorted(common) if sum(label in map(str, _tags(one, each)) for one in members) == 1]
    return found[0] if len(found) == 1 else ""


def _tags(member: JsonObject, tag: str) -> list[object]:
    """The values of the property by which an alternative is told apart."""
    field = property_schemas(member).get(tag)
    stated = cast("JsonObject", field) if isinstance(field, dict) else {}
    if isinstance(choices := stated.get("enum"), list):
        return cast("list[object]", choices)
    return [stated["const"]] if "const" in stated else []


def _label_type(label: str) -> str | None:
    return _SCALARS.get(label) or _CONTAINERS.get(label.partition("[")[0])


def _is_label(part: str, members: Sequence[JsonObject], tag: str) -> bool:
    """Whether a name that the value has itself is one of an alternative all the same."""
    return any(part in map(str, _tags(one, tag)) for one in members) if tag else _label_type(part) is not None


def _is_container(value: object) -> bool:
    return isinstance(value, (dict, list))


def _may_have(value: object) -> bool:
    """Whether a value may have members that are not seen: one that is not known, or a text that is read."""
    return value is _UNKNOWN or isinstance(value, str)


def _has(value: object, part: str) -> bool:
    if isinstance(value, dict):
        return part in value
    return isinstance(value, list) and part.isdigit() and len(part) < 9 and int(part) < len(cast("list[object]", value))


def _member(value: object, part: str) -> object:
    if not _has(value, part):
        return _UNKNOWN
    return cast("list[object]", value)[int(part)] if isinstance(value, list) else cast("JsonObject", value)[part]
