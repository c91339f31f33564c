"""Values against JSON Schemas, all of the schema: what stubs are checked with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from jsonschema.exceptions import SchemaError
from jsonschema.protocols import Validator
from jsonschema.validators import Draft202012Validator, validator_for
from referencing import Registry
from referencing.exceptions import Unresolvable

JsonObject = dict[str, object]

MAX_PROBLEMS: Final = 10
"""Problems of one value that are told."""

_MAX_CHARS: Final = 300


class Schema:
    """One JSON Schema to check values with. References to other documents are never followed.

    Args:
        schema: The schema; of the draft its `$schema` names, else 2020-12, as MCP has it.
        what: What has it, for messages.
        root: What messages call the value itself.

    Raises:
        ValueError: it is no JSON Schema.
    """

    def __init__(self, schema: Mapping[str, object], what: str, root: str) -> None:
        self._what = what
        self._root = root
        kind = cast("Any", validator_for(schema, default=Draft202012Validator))
        try:
            kind.check_schema(schema)
        except SchemaError as error:
            raise ValueError(f"{what} is no JSON Schema: {error.message}") from None
        nothing_else = cast("Any", Registry)()
        self._validator: Validator = kind(schema, registry=nothing_else)

    def problems(self, value: object) -> list[dict[str, str]]:
        """What is wrong with `value`: `field` and `message` of each problem; empty when it fits.

        Raises:
            ValueError: the schema refers to what it does not hold.
        """
        found: list[dict[str, str]] = []
        try:
            for error in self._validator.iter_errors(cast("Any", value)):
                if len(found) == MAX_PROBLEMS:
                    found.append({"field": "…", "message": "and more"})
                    break
                field = ".".join(str(part) for part in error.absolute_path) or self._root
                message = error.message
                found.append({"field": field, "message": f"{message[:_MAX_CHARS]}{'…' * (len(message) > _MAX_CHARS)}"})
        except Unresolvable as failure:
            raise ValueError(f"{self._what} refers to what it does not hold: {failure}") from None
        return found
