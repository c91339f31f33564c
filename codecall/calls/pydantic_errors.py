"""Reads pydantic's errors about an input: one that was raised here, or the text of one from another server."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from pydantic import ValidationError as PydanticValidationError

from codecall.schema.validation import MAX_FIELDS, Problem, add_overflow_note, make_problem, parameter_names

MAX_READ_ERRORS: Final = 1_000
"""Errors of one failed validation that are read one by one, which takes pydantic about 1 ms."""

MAX_TEXT_CHARS: Final = 16_384
"""Characters of the longest text that is read."""

_HEAD: Final = re.compile(r"\d{1,4} validation errors? for (?:call\[[^\]\n]{1,200}\]|\w{1,200}Arguments)\n")
"""The first line, of FastMCP's servers and of those made with the SDK alone. A model that the tool itself reads
has a name of its own."""

_LINKS: Final = "    For further information visit "


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


def problems_from_text(text: str, arguments: Mapping[str, object], schema: dict[str, object]) -> list[Problem] | None:
    """The fields that a text refuses; None if it is no such text, or is about what is no parameter.

    Args:
        text: What the tool answered.
        arguments: The input.
        schema: The tool's input schema.
    """
    head = _HEAD.match(text) if len(text) <= MAX_TEXT_CHARS else None
    if head is None:
        return None
    known = {*arguments, *parameter_names(schema)}
    problems: list[Problem] = []
    field: str | None = None
    for line in text[head.end() :].splitlines():
        if not line.startswith(" "):
            if line.split(".")[0] not in known:
                return None
            field = line
        elif field is not None and line.startswith("  ") and not line.startswith(_LINKS):
            problems.append(
                make_problem(field.split("."), line.strip().rpartition(" [type=")[0] or line.strip(), schema)
            )
            field = None
    return add_overflow_note(problems[:MAX_FIELDS], len(problems)) if problems else None
