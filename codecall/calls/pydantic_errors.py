"""Reads an error that pydantic has raised about an input."""

from __future__ import annotations

from typing import Final

from pydantic import ValidationError as PydanticValidationError

from codecall.schema.validation import MAX_FIELDS, Problem, add_overflow_note, make_problem

MAX_READ_ERRORS: Final = 1_000
"""Errors of one failed validation that are read one by one, which takes pydantic about 1 ms."""


def problems_from_pydantic(failure: PydanticValidationError, schema: dict[str, object]) -> list[Problem]:
    """The fields that a tool's argument validation refuses, in its order: `MAX_FIELDS`, and one entry for the rest.

    A failure with more than `MAX_READ_ERRORS` is only counted: pydantic cannot give the first few errors alone, and
    making a million of them would hold the event loop for a second.
    """
    count = failure.error_count()
    if count > MAX_READ_ERRORS:
        return [{"field": "input", "message": f"{count:,} values are not valid"}]
    errors = failure.errors(include_url=False, include_context=False, include_input=False)
    problems = [make_problem([str(part) for part in item["loc"]], item["msg"], schema) for item in errors[:MAX_FIELDS]]
    return add_overflow_note(problems, len(errors))
