"""Untrusted texts in questions to a person: nothing invisible, and no line that could be one of ours."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final, cast

from codecall.redaction.clean import escape_invisible, json_escape

MAX_SHOWN_CHARS: Final = 16_384
"""Most characters that a person is shown in one question. Nobody can judge more, and a part of them says nothing."""

_BLANK_LETTERS: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""Characters that count as printable and show nothing."""

_TEXTS: Final = ("title", "description", "enumNames")
"""Keys of a form whose values are only shown."""

_NAMED: Final = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
"""Keys of a form whose values name schemas."""


class HiddenTextError(ValueError):
    """A question has parts that a person cannot see, or not as what they are."""


def visible(text: str) -> str:
    """`text` with every character that cannot be seen, or that looks like a blank, as an escape."""
    return _BLANK_LETTERS.sub(lambda found: json_escape(found[0]), escape_invisible(text, escape=json_escape))


def quoted(text: str) -> str:
    """`text` visible and indented, so that no line of it begins where one of ours does."""
    return "\n".join(f"    {visible(line)}" for line in text.split("\n"))


def question_size(message: str, form: object) -> int:
    """Characters of a question's message and its form, or its URL, together."""
    return len(message) + len(json.dumps(form))


def check_size(*questions: tuple[str, object]) -> None:
    """Refuse questions, each a message and its form or URL, that are too long to be shown together. Comes before all
    that makes them visible, which takes a while.

    Raises:
        HiddenTextError: they are.
    """
    if (size := sum(question_size(message, form) for message, form in questions)) > MAX_SHOWN_CHARS:
        have = "question has" if len(questions) == 1 else f"{len(questions)} questions have"
        raise HiddenTextError(f"the {have} {size:,} characters, and a person is shown at most {MAX_SHOWN_CHARS:,}")


def visible_form(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON Schema of a form with its texts visible, each on one line.

    Raises:
        HiddenTextError: anything but a text that is only shown holds what cannot be seen, or the form is nested too
            deeply.
    """
    try:
        return _form(schema)
    except RecursionError:
        raise HiddenTextError("the form is nested too deeply") from None


def _form(schema: Mapping[str, Any]) -> dict[str, Any]:
    for key in schema:
        _check(key)
    return {key: _form_value(key, value) for key, value in schema.items()}


def _form_value(key: str, value: object) -> object:
    if key in _TEXTS:
        return _shown(value)
    if key in ("$ref", "$dynamicRef") and not (isinstance(value, str) and value.startswith("#")):
        raise HiddenTextError("it refers to another document")
    if key in _NAMED and isinstance(value, dict):
        named = cast("dict[str, object]", value)
        for name in named:
            _check(name)
        return {name: _part(field) for name, field in named.items()}
    return _part(value)


def _part(value: object) -> object:
    """What may be sent back, or may be shown somewhere, and so cannot be written otherwise."""
    if isinstance(value, dict):
        return _form(cast("dict[str, Any]", value))
    if isinstance(value, list):
        return list(map(_part, cast("list[object]", value)))
    _check(value)
    return value


def _shown(value: object) -> object:
    if isinstance(value, list):
        return [_shown(item) for item in cast("list[object]", value)]
    return visible(" ".join(value.splitlines())) if isinstance(value, str) else value


def _check(value: object) -> None:
    if isinstance(value, str) and visible(value) != value:
        raise HiddenTextError(f"the form has {visible(value)[:80]!r}, parts of which nobody sees")
