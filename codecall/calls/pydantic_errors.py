"""Reads an error that pydantic has raised about an input."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pydantic import ValidationError as PydanticValidationError

from codecall.schema.locations import located_problems
from codecall.schema.validation import Problem

MAX_READ_ERRORS: Final = 1_000
"""Errors of one failed validation that are read one by one, which takes pydantic about 1 ms."""


def problems_from_pydantic(
    failure: PydanticValidationError, arguments: Mapping[str, object] | None, schema: dict[str, object]
) -> list[Problem]:
    """The fields that a tool's argument validation refuses, in its order: `MAX_FIELDS`, and one entry for the rest.

    A failure with more than `MAX_READ_ERRORS` is only counted: pydantic cannot give the first few errors alone, and
    making a million of them would hold the event loop for a second.

    Args:
        failure: The error.
        arguments: The input; None: it is not known.
        schema: The tool's input schema.
    """
    count = failure.error_count()
    if count > MAX_READ_ERRORS:
        return [{"field": "input", "message": f"{count:,} values are not valid"}]
    errors = failure.errors(include_url=False, include_context=False, include_input=False)
    return located_problems([(item["loc"], item["msg"]) for item in errors], arguments, schema)
