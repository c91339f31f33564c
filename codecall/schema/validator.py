"""Validators of JSON Schemas that strangers may have written: nothing that they refer to is fetched, and items that
have to be unique are not compared with each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

from jsonschema import Draft202012Validator, ValidationError
from jsonschema.protocols import Validator
from jsonschema.validators import extend  # pyright: ignore[reportUnknownVariableType]
from referencing import Registry


def create_validator(schema: Mapping[str, object]) -> Validator:
    """A validator of the JSON Schema, which `Draft202012Validator.check_schema` has found to be one.

    A reference to another document raises `referencing.exceptions.Unresolvable` when a value is compared.
    """
    # Without a registry of its own, a reference to another document would be fetched.
    registry: Registry[Any] = Registry()
    return cast("Validator", _Validator(schema, registry=registry))


def _unique_items(validator: Validator, unique: object, instance: Any, _schema: object) -> Iterator[ValidationError]:
    """`uniqueItems`; the library compares every two items where they are of several types."""
    if unique is True and validator.is_type(instance, "array"):
        items = cast("list[object]", instance)
        if len({_identity(item) for item in items}) < len(items):
            yield ValidationError("has items that are not unique")


def _identity(value: object) -> object:
    """Equal for JSON values that are equal, and for no others."""
    if isinstance(value, Mapping):
        return frozenset((key, _identity(item)) for key, item in cast("Mapping[str, object]", value).items())
    if isinstance(value, list):
        return ("list", *map(_identity, cast("list[object]", value)))
    return (
        ("bool", value) if isinstance(value, bool) else value
    )  # to Python 1.0 is 1, as in JSON Schema; but so is true


_Validator: Final = cast("Any", extend)(Draft202012Validator, {"uniqueItems": _unique_items})
