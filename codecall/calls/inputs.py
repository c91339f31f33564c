"""What was wrong with a tool's input, by the tool's own refusal: pydantic's errors, as `codecall/inputs.py` says them.

The refusals of other servers' tools arrive as plain text: those are explained by their JSON Schema, there.
"""

from __future__ import annotations

from typing import Final

from pydantic import ValidationError

from codecall.inputs import MAX_FIELDS, JsonObject, Problem, problem, with_rest

MAX_READ_ERRORS: Final = 1_000
"""Errors of one refusal that are read one by one, which takes pydantic about 1 ms."""


def problems_of(failure: ValidationError, schema: JsonObject) -> list[Problem]:
    """The fields a tool's argument validation refused, in its order: `MAX_FIELDS` and one for the rest.

    A refusal of more than `MAX_READ_ERRORS` is only counted: pydantic cannot give the first few errors alone, and
    making a million of them would hold the event loop for a second.
    """
    count = failure.error_count()
    if count > MAX_READ_ERRORS:
        return [{"field": "input", "message": f"{count:,} values are not valid"}]
    errors = failure.errors(include_url=False, include_context=False, include_input=False)
    problems = [problem([str(part) for part in item["loc"]], item["msg"], schema) for item in errors[:MAX_FIELDS]]
    return with_rest(problems, len(errors))
