"""The types that `extract` takes, as JSON Schema: a schema of a known subset, or the text of a TypeScript type.

What checks an answer runs in the server, for whoever writes the script. So a schema may say nothing that can be slow to
check, or that leads elsewhere: no patterns, no references.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

Schema = dict[str, Any]

MAX_TYPE_CHARS: Final = 10_000
"""Longest text of a type, and of a schema as JSON."""

MAX_DEPTH: Final = 32

KEYWORDS: Final = frozenset(
    {
        *("type", "properties", "required", "additionalProperties", "items", "prefixItems", "enum", "const", "anyOf"),
        *("oneOf", "allOf", "title", "description", "default", "examples", "minimum", "maximum", "minLength"),
        *("exclusiveMinimum", "exclusiveMaximum", "maxLength", "minItems", "maxItems", "minProperties"),
        *("maxProperties", "format", "$schema"),
    }
)
"""The keywords of JSON Schema that are taken; `format` is told to the model and not checked."""

_TOKEN: Final = re.compile(
    r"\s+|//[^\n]*|/\*.*?\*/|(?P<text>'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\")|(?P<number>-?\d+(?:\.\d+)?)"
    r"|(?P<name>[A-Za-z_$][\w$]*)|(?P<sign>[{}()\[\]<>|,;:?])",
    re.DOTALL,
)
_TOO_DEEP: Final = "the type is nested too deeply"
_WORDS: Final[Mapping[str, Schema]] = {
    "string": {"type": "string"},
    "number": {"type": "number"},
    "boolean": {"type": "boolean"},
    "null": {"type": "null"},
    "undefined": {"type": "null"},
    "any": {},
    "unknown": {},
    "object": {"type": "object"},
    "true": {"const": True},
    "false": {"const": False},
    "Date": {"type": "string", "format": "date-time"},
}


class WrongType(ValueError):  # noqa: N818 - named for what it is
    """It is no type that `extract` takes; the text says why."""


def read_type(value: object) -> Schema:
    """The JSON Schema of a type.

    Args:
        value: A schema, or the text of a TypeScript type.

    Raises:
        WrongType: it is neither.
    """
    if isinstance(value, str):
        if len(value) > MAX_TYPE_CHARS:
            raise WrongType(f"it has {len(value):,} characters; {MAX_TYPE_CHARS:,} are the most")
        return _TypeReader(value).read()
    if not isinstance(value, dict):
        raise WrongType("a JSON Schema or the text of a TypeScript type is needed, as second argument")
    schema = cast("Schema", value)
    if len(json.dumps(schema)) > MAX_TYPE_CHARS:
        raise WrongType(f"the schema has more than {MAX_TYPE_CHARS:,} characters")
    _check(schema, "")
    return schema


def _check(schema: object, where: str, depth: int = 0) -> None:
    """Refuse what is not of the subset."""
    if isinstance(schema, bool):
        return
    if not isinstance(schema, dict) or depth > MAX_DEPTH:
        raise WrongType(f"{where or 'the schema'}: {'nested too deeply' if depth > MAX_DEPTH else 'no schema'}")
    fields = cast("Schema", schema)
    if unknown := sorted(fields.keys() - KEYWORDS):
        raise WrongType(f"{where}{unknown[0]:.40}: this keyword of JSON Schema is not taken here")
    inside: list[tuple[str, object]] = [
        (key, fields[key]) for key in ("items", "additionalProperties") if key in fields
    ]
    for key in ("anyOf", "oneOf", "allOf", "prefixItems"):
        parts = fields.get(key, [])
        if not isinstance(parts, list):
            raise WrongType(f"{where}{key}: a list is needed")
        inside += [(f"{key}[{number}]", part) for number, part in enumerate(cast("list[object]", parts))]
    properties = fields.get("properties", {})
    if not isinstance(properties, dict):
        raise WrongType(f"{where}properties: an object is needed")
    inside += [(f"properties.{name:.40}", part) for name, part in cast("dict[str, object]", properties).items()]
    for name, part in inside:
        _check(part, f"{where}{name}.", depth + 1)


class _TypeReader:
    """Reads the text of one TypeScript type, by recursive descent."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[tuple[str, str, int]] = []
        at = 0
        while at < len(text):
            found = _TOKEN.match(text, at)
            if found is None:
                raise WrongType(f"the type cannot be read at character {at + 1}, {text[at : at + 20]!r}")
            if found.lastgroup is not None:
                self._tokens.append((found.lastgroup, found[0], at))
            at = found.end()
        self._at = 0
        self._depth = 0

    def read(self) -> Schema:
        """The schema of the whole text."""
        schema = self._type()
        while self._take(";"):
            pass
        if self._at < len(self._tokens):
            raise self._wrong("the end of the type")
        return schema

    def _type(self) -> Schema:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise WrongType(_TOO_DEEP)
        self._take("|")
        options = [self._array()]
        while self._take("|"):
            options.append(self._array())
        self._depth -= 1
        if len(options) == 1:
            return options[0]
        if all(option.keys() == {"const"} for option in options):
            return {"enum": [option["const"] for option in options]}
        return {"anyOf": options}

    def _array(self) -> Schema:
        while self._take("readonly"):
            pass
        schema = self._one()
        levels = self._depth
        while self._take("["):
            self._expect("]")
            schema = {"type": "array", "items": schema}
            levels += 1
            if levels > MAX_DEPTH:
                raise WrongType(_TOO_DEEP)
        return schema

    def _one(self) -> Schema:
        kind, word = self._next()
        if kind == "text":
            return {"const": _literal(word)}
        if kind == "number":
            return {"const": _number(word)}
        if kind == "name":
            return self._named(word)
        if word == "{":
            return self._object()
        if word == "(":
            schema = self._type()
            self._expect(")")
            return schema
        if word == "[":
            items = self._list("]", self._type)
            return {"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}
        self._at -= 1
        raise self._wrong("a type")

    def _named(self, name: str) -> Schema:
        if name in ("Array", "ReadonlyArray", "Record"):
            self._expect("<")
            arguments = self._list(">", self._type)
            if len(arguments) != (2 if name == "Record" else 1):
                raise self._wrong(f"the arguments of {name}")
            if name == "Record":
                return {"type": "object", "additionalProperties": arguments[1]}
            return {"type": "array", "items": arguments[0]}
        if name not in _WORDS:
            raise WrongType(f"{name!r:.60}: write the type out; names of types and helpers such as Pick are not known")
        return dict(_WORDS[name])

    def _object(self) -> Schema:
        properties: Schema = {}
        required: list[str] = []
        others: object = False
        while not self._take("}"):
            if self._take("["):  # [key: string]: T
                while self._peek() not in ("]", ""):
                    self._next()
                self._expect("]")
                self._expect(":")
                others = self._type()
            else:
                name, optional, schema = self._member()
                properties[name] = schema
                if not optional:
                    required.append(name)
            while self._take(",") or self._take(";"):
                pass
        body: Schema = {"type": "object", "properties": properties, "additionalProperties": others}
        return {**body, "required": required} if required else body

    def _member(self) -> tuple[str, bool, Schema]:
        kind, word = self._next()
        if word == "readonly" and self._peek() not in (":", "?"):
            kind, word = self._next()
        if kind == "sign":
            self._at -= 1
            raise self._wrong("the name of a member")
        name = _literal(word) if kind == "text" else word
        optional = self._take("?")
        self._expect(":")
        return name, optional, self._type()

    def _list(self, end: str, read: Callable[[], Schema]) -> list[Schema]:
        items: list[Schema] = []
        while not self._take(end):
            items.append(read())
            if not self._take(",") and self._peek() != end:
                raise self._wrong(f"{end!r}")
        return items

    def _peek(self) -> str:
        return self._tokens[self._at][1] if self._at < len(self._tokens) else ""

    def _next(self) -> tuple[str, str]:
        if self._at >= len(self._tokens):
            raise self._wrong("more of the type")
        kind, word, _ = self._tokens[self._at]
        self._at += 1
        return kind, word

    def _take(self, word: str) -> bool:
        if self._peek() != word:
            return False
        self._at += 1
        return True

    def _expect(self, word: str) -> None:
        if not self._take(word):
            raise self._wrong(repr(word))

    def _wrong(self, wanted: str) -> WrongType:
        if self._at >= len(self._tokens):
            return WrongType(f"the type ends where {wanted} is needed")
        _, word, at = self._tokens[self._at]
        return WrongType(f"{wanted} is needed at character {at + 1} of the type, not {word!r:.40}")


def _number(word: str) -> object:
    """The value of a number of TypeScript."""
    try:
        return json.loads(word)
    except ValueError:  # it begins with a zero, or has thousands of digits
        raise WrongType(f"{word:.40}: no number that JSON has") from None


def _literal(word: str) -> str:
    """The text of a literal of TypeScript."""
    inner = word[1:-1].replace("\\'", "'").replace('\\"', '"')
    try:
        return cast("str", json.loads('"' + inner.replace('"', '\\"') + '"'))
    except ValueError:
        raise WrongType(f"{word:.40}: an escape that is not known") from None
