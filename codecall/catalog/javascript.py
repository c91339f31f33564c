"""Writes JavaScript literals and member accesses for generated scripts; safe whatever the text holds."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import cast

from codecall.redaction.clean import json_escape

_IDENTIFIER = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")


def string_literal(text: str) -> str:
    """Writes `text` as a JavaScript string literal: readable characters stay, all others are escaped.

    The openers of HTML-like comments are escaped too, and all characters that are invisible, reorder text or are half a
    surrogate pair: the guard refuses a script that holds them.
    """
    literal = json.dumps(text, ensure_ascii=False).replace("<!--", "\\u003c!--").replace("-->", "--\\u003e")
    return literal if literal.isascii() and literal.isprintable() else "".join(map(_escaped, literal))


def _escaped(character: str) -> str:
    # Marks of a letter print, but not by themselves.
    shows = character.isprintable() and unicodedata.category(character) not in {"Mn", "Me"}
    return character if shows else json_escape(character)


def property_key(name: str) -> str:
    """Writes `name` as a key of an object literal: bare where JavaScript allows it."""
    return name if _IDENTIFIER.fullmatch(name) else string_literal(name)


def member_access(owner: str, name: str) -> str:
    """Writes the expression that reads the property `name` of `owner`."""
    return f"{owner}.{name}" if _IDENTIFIER.fullmatch(name) else f"{owner}[{string_literal(name)}]"


def literal(value: object) -> str:
    """Writes a JSON value as a JavaScript literal on one line."""
    if isinstance(value, str):
        return string_literal(value)
    if isinstance(value, Mapping):
        return object_literal({name: literal(inner) for name, inner in cast(Mapping[str, object], value).items()})
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(literal(item) for item in cast(Sequence[object], value))}]"
    return json.dumps(value, allow_nan=False)


def object_literal(expressions: Mapping[str, str]) -> str:
    """Writes an object literal on one line whose values are expressions."""
    return "{ " + ", ".join(property_list(expressions)) + " }" if expressions else "{}"


def property_list(expressions: Mapping[str, str]) -> list[str]:
    """Writes `key: value` for each expression; a variable of the key's own name is written in short form."""
    return [
        name if name == value and _variable(name) else f"{property_key(name)}: {value}"
        for name, value in expressions.items()
    ]


def _variable(name: str) -> bool:
    return _IDENTIFIER.fullmatch(name) is not None and name not in {"true", "false", "null"}
