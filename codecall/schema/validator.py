"""Validators of JSON Schemas that strangers may have written: nothing that they refer to is fetched, and items that
have to be unique are not compared with each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

from jsonschema import Draft202012Validator, SchemaError, ValidationError
from jsonschema.protocols import Validator
from jsonschema.validators import extend  # pyright: ignore[reportUnknownVariableType]
from referencing import Registry

MAX_REASON_CHARS: Final = 200
"""Characters of a reason, which may repeat all of a schema."""


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


def create_validator(schema: Mapping[str, object]) -> Validator:
    """A validator of the JSON Schema, which `check_schema` has found to be one.

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
