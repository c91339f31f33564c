"""Validators of JSON Schemas for values that strangers may have written: nothing that a schema refers to is fetched,
items that have to be unique are not compared with each other, and patterns are searched in linear time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from fractions import Fraction
from functools import partial
from itertools import islice
from math import isfinite
from typing import Any, Final, TypeAlias, cast

from jsonschema import Draft202012Validator, FormatChecker, SchemaError, ValidationError
from jsonschema.protocols import Validator
from jsonschema.validators import extend  # pyright: ignore[reportUnknownVariableType]
from referencing import Registry

from codecall.schema.formats import FormattedText, IntOrTruth, NumberText, UnreadableError, equal, identity
from codecall.schema.pattern_search import TextTooLongError, TooManyValuesError, search

MAX_REASON_CHARS: Final = 200
"""Characters of a reason, which may repeat all of a schema."""

MAX_BRANCH_ERRORS: Final = 20
"""Errors of one branch of `anyOf` and `oneOf` that are kept, to say what is wrong with it."""

MAX_UNEVALUATED: Final = 4_000
"""Properties or items that `unevaluatedProperties` and `unevaluatedItems` look at: the library takes quadratic time,
some 0.2 s for these."""

MAX_UNEVALUATED_NAME: Final = 256
"""Characters of the longest name of a property that `unevaluatedProperties` looks at: the library compares it with
`patternProperties` by `re`."""


class InvalidSchemaError(ValueError):
    """Something is not a JSON Schema; the text says why.

    Args:
        reason: What is wrong.
        path: Where, such as `.properties.age`; empty for the schema itself.
    """

    def __init__(self, reason: str, path: str = "") -> None:
        super().__init__(f"not a JSON Schema: {reason}")
        self.path = path


def check_schema(schema: Mapping[str, object]) -> None:
    """Check that this is a JSON Schema of draft 2020-12.

    Raises:
        InvalidSchemaError: it is not.
    """
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as failure:
        path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in failure.absolute_path)
        raise InvalidSchemaError(f"{failure.message:.{MAX_REASON_CHARS}}", path) from None
    except RecursionError:
        raise InvalidSchemaError("it is nested too deeply") from None
    except OverflowError:
        raise InvalidSchemaError("a pattern has a count that is too large") from None


def create_validator(schema: Mapping[str, object], *, formats: bool = False) -> Validator:
    """A validator of the JSON Schema, which `check_schema` has found to be one.

    With `formats` it refuses texts that are not of a format of `FORMATS` that their schema names, as pydantic does.
    A reference to another document raises `referencing.exceptions.Unresolvable` when a value is compared, and a text
    that is too long for a pattern `TextTooLongError`.
    """
    # Without a registry of its own, a reference to another document would be fetched.
    registry: Registry[Any] = Registry()
    return cast("Validator", _Validator(schema, registry=registry, format_checker=FORMATS if formats else None))


def _unique_items(validator: Validator, unique: object, instance: Any, _schema: object) -> Iterator[ValidationError]:
    """`uniqueItems`; the library compares every two items where they are of several types."""
    if unique is True and validator.is_type(instance, "array"):
        items = cast("list[object]", instance)
        if len({identity(item) for item in items}) < len(items):
            yield ValidationError("has items that are not unique")


def _const(_validator: Validator, constant: object, instance: Any, _schema: object) -> Iterator[ValidationError]:
    """`const`; a value that was read for what it stands for is compared by that."""
    if not equal(instance, constant):
        yield ValidationError(f"{constant!r} was expected")


def _enum(_validator: Validator, constants: list[object], instance: Any, _schema: object) -> Iterator[ValidationError]:
    """`enum`, likewise."""
    if not any(equal(instance, constant) for constant in constants):
        yield ValidationError(f"{instance!r} is not one of {constants!r}")


def _pattern(validator: Validator, pattern: str, instance: Any, _schema: object) -> Iterator[ValidationError]:
    """`pattern`; the library searches with `re`, as it does for the three that follow."""
    if validator.is_type(instance, "string") and not search(pattern, instance):
        yield ValidationError(f"{instance!r} does not match {pattern!r}")


def _pattern_properties(
    validator: Any, patterns: Mapping[str, object], instance: Any, _schema: object
) -> Iterator[ValidationError]:
    if validator.is_type(instance, "object"):
        for pattern, schema in patterns.items():
            for name, value in instance.items():
                if search(pattern, name):
                    yield from validator.descend(value, schema, path=name, schema_path=pattern)


def _any_of(validator: Validator, branches: list[object], instance: Any, _schema: object) -> Iterator[ValidationError]:
    context: list[ValidationError] = []
    for index, branch in enumerate(branches):
        if not (errors := _branch_errors(validator, branch, index, instance)):
            return
        context += errors
    yield ValidationError(f"{_briefly(instance)} is not valid under any of the given schemas", context=context)


def _one_of(validator: Validator, branches: list[object], instance: Any, _schema: object) -> Iterator[ValidationError]:
    context: list[ValidationError] = []
    valid: list[object] = []
    for index, branch in enumerate(branches):
        errors = _branch_errors(validator, branch, index, instance)
        context += errors
        valid += [] if errors else [branch]
    if not valid:
        yield ValidationError(f"{_briefly(instance)} is not valid under any of the given schemas", context=context)
    elif len(valid) > 1:
        yield ValidationError(f"{_briefly(instance)} is valid under each of {', '.join(map(_briefly, valid))}")


def _branch_errors(validator: Validator, branch: object, index: int, instance: Any) -> list[ValidationError]:
    """The first errors of a branch: the library keeps all, 3 kB for each item of a list."""
    return list(islice(cast("Any", validator).descend(instance, branch, schema_path=index), MAX_BRANCH_ERRORS))


def _briefly(value: object) -> str:
    return f"{value!r:.{MAX_REASON_CHARS}}"


def _additional_properties(
    validator: Validator, others: object, instance: Any, schema: Mapping[str, Any]
) -> Iterable[ValidationError] | None:
    if patterns := schema.get("patternProperties") if validator.is_type(instance, "object") else None:
        instance = {name: value for name, value in instance.items() if not any(search(each, name) for each in patterns)}
        schema = {key: value for key, value in schema.items() if key != "patternProperties"}
    return _LIBRARY["additionalProperties"](validator, others, instance, schema)


def _unevaluated_properties(
    validator: Validator, others: object, instance: Any, schema: object
) -> Iterable[ValidationError] | None:
    names = instance if validator.is_type(instance, "object") else ()
    if len(names) > MAX_UNEVALUATED:
        raise TooManyValuesError("unevaluatedProperties", len(names), MAX_UNEVALUATED)
    for name in names:
        if len(name) > MAX_UNEVALUATED_NAME:
            raise TextTooLongError("unevaluatedProperties", len(name), MAX_UNEVALUATED_NAME)
    return _LIBRARY["unevaluatedProperties"](validator, others, instance, schema)


def _unevaluated_items(
    validator: Validator, others: object, instance: Any, schema: object
) -> Iterable[ValidationError] | None:
    if validator.is_type(instance, "array") and len(instance) > MAX_UNEVALUATED:
        raise TooManyValuesError("unevaluatedItems", len(instance), MAX_UNEVALUATED)
    return _LIBRARY["unevaluatedItems"](validator, others, instance, schema)


def _check_format(name: str, text: object) -> bool:
    if isinstance(text, str):
        FormattedText.read(name, text)
    return True


FORMATS: Final = FormatChecker(formats=())
for _name in ("date", "date-time", "time", "duration", "uuid", "ipv4", "ipv6", "email"):
    FORMATS.checks(_name, raises=UnreadableError)(partial(_check_format, _name))


_Check: TypeAlias = Callable[[Validator, object, Any, object], Iterable[ValidationError] | None]
_LIBRARY: Final = cast("Mapping[str, _Check]", Draft202012Validator.VALIDATORS)


def _bound(keyword: str) -> _Check:
    """A bound; of a text that stands for a number, that number."""
    check = _LIBRARY[keyword]

    def bound(validator: Validator, limit: object, instance: Any, schema: object) -> Iterable[ValidationError] | None:
        return check(validator, limit, instance.number if isinstance(instance, NumberText) else instance, schema)

    return bound


def _multiple_of(validator: Validator, step: int | float, instance: Any, _schema: object) -> Iterator[ValidationError]:
    """Exact for what JSON writes: 19.99 is a multiple of 0.01, which the floats nearest to them are not."""
    number = instance.number if isinstance(instance, NumberText) else instance
    if not validator.is_type(number, "number") or (isinstance(number, float) and not isfinite(number)):
        return
    if (_exact(number) / _exact(step)).denominator != 1:
        yield ValidationError(f"{number!r} is not a multiple of {step}")


def _exact(number: float) -> Fraction:
    return Fraction(repr(number) if isinstance(number, float) else number)


_CHECKS: Final = {
    "multipleOf": _multiple_of,
    **{"uniqueItems": _unique_items, "const": _const, "enum": _enum},
    **{"pattern": _pattern, "patternProperties": _pattern_properties},
    **{"additionalProperties": _additional_properties, "unevaluatedProperties": _unevaluated_properties},
    **{"unevaluatedItems": _unevaluated_items, "anyOf": _any_of, "oneOf": _one_of},
    **{word: _bound(word) for word in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")},
}


def _is_truth_value(_checker: object, instance: object) -> bool:
    return isinstance(instance, bool | IntOrTruth)


_Validator: Final = cast("Any", extend)(
    Draft202012Validator, _CHECKS, type_checker=Draft202012Validator.TYPE_CHECKER.redefine("boolean", _is_truth_value)
)

_HOLD_SCHEMAS: Final = (
    *("additionalProperties", "allOf", "anyOf", "contains", "contentSchema", "else", "if", "items", "not", "oneOf"),
    *("prefixItems", "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties"),
)
"""Keywords whose value is a schema, or a list of schemas."""

_NAME_SCHEMAS: Final = ("properties", "patternProperties", "dependentSchemas", "$defs", "definitions")
"""Keywords whose value has schemas by names."""

KEYWORDS: Final = frozenset(
    {*_Validator.VALIDATORS, *_HOLD_SCHEMAS, *_NAME_SCHEMAS}
    | {"$schema", "$id", "$anchor", "$dynamicAnchor", "$vocabulary", "$comment", "maxContains", "minContains"}
    | {"title", "description", "default", "deprecated", "examples", "readOnly", "writeOnly"}
    | {"contentEncoding", "contentMediaType"}
)
"""The keywords of draft 2020-12."""


def unknown_keywords(schema: object) -> Iterator[str]:
    """The keys of a schema and of all within it that are no keywords, but for those of extensions (`x-…`)."""
    if not isinstance(schema, Mapping):
        return
    for key, value in cast("Mapping[str, object]", schema).items():
        held = list(cast("Mapping[str, object]", value).values()) if key in _NAME_SCHEMAS and value else value
        if key in _HOLD_SCHEMAS or key in _NAME_SCHEMAS:
            for each in cast("list[object]", held) if isinstance(held, list) else [held]:
                yield from unknown_keywords(each)
        elif key not in KEYWORDS and not key.startswith("x-"):
            yield key
