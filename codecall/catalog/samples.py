"""Sample values from JSON Schema, and JavaScript literals of them: what the made usage examples pass to tools.

Schemas come from servers we do not know, so everything is bounded: depth, number of values, length of texts.
Patterns are never run, since a hostile one could hang the process; a text is chosen by format, name and length.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from math import ceil, floor, isfinite
from typing import cast

from codecall.catalog.text import name_words
from codecall.sandbox.agentscript.policy import NEVER_NAMES, PREFIXES

JsonObject = Mapping[str, object]

MAX_DEPTH = 6
"""Nesting of a sample; deeper parts are empty."""
MAX_VALUES = 100
"""Values in one sample, nested ones too; further properties are left out. Recursive schemas would else explode."""
MAX_REFERENCES = 16
"""`$ref`, `allOf`, `anyOf` and `oneOf` followed for one value."""
MAX_PROPERTIES = 40
"""Required properties of one object that get a sample."""
MAX_ITEMS = 3
"""Items of a sample array, whatever its `minItems`."""
MAX_TEXT = 100
"""Characters of a sample text."""
_MAX_INTEGER = 2**53 - 1

_BY_FORMAT = {
    "date": "2025-01-31",
    "date-time": "2025-01-31T09:00:00Z",
    "time": "09:00:00Z",
    "duration": "PT1H",
    "email": "ada@example.com",
    "idn-email": "ada@example.com",
    "hostname": "example.com",
    "idn-hostname": "example.com",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "uri": "https://example.com",
    "url": "https://example.com",
    "iri": "https://example.com",
    "uri-reference": "/example",
    "uuid": "123e4567-e89b-42d3-a456-426614174000",
    "byte": "ZXhhbXBsZQ==",
    "binary": "ZXhhbXBsZQ==",
    "json-pointer": "/example",
}

_TEXT_BY_WORD = {
    "email": "ada@example.com",
    "mail": "ada@example.com",
    "url": "https://example.com",
    "uri": "https://example.com",
    "link": "https://example.com",
    "website": "https://example.com",
    "path": "docs/readme.md",
    "file": "docs/readme.md",
    "filename": "readme.md",
    "folder": "docs",
    "directory": "docs",
    "city": "Paris",
    "location": "Paris",
    "country": "FR",
    "currency": "EUR",
    "language": "en",
    "lang": "en",
    "locale": "en",
    "timezone": "Europe/Paris",
    "date": "2025-01-31",
    "day": "2025-01-31",
    "since": "2025-01-01",
    "until": "2025-01-31",
    "time": "09:00",
    "phone": "+33123456789",
    "color": "#336699",
    "owner": "octocat",
    "repo": "hello-world",
    "repository": "hello-world",
    "branch": "main",
    "query": "example",
    "search": "example",
    "keyword": "example",
    "name": "Example",
    "title": "Example",
    "subject": "Example",
    "symbol": "ABC",
    "status": "active",
}
"""Sample texts by the last word of a parameter's name that is listed."""

_INTEGER_BY_WORD = {
    "limit": 10,
    "size": 10,
    "count": 10,
    "max": 10,
    "top": 10,
    "results": 10,
    "offset": 0,
    "skip": 0,
    "year": 2025,
    "month": 1,
    "day": 31,
    "age": 30,
    "port": 8080,
    "quantity": 1,
    "latitude": 48,
    "longitude": 2,
}

_NUMBER_BY_WORD = {"lat": 48.8566, "latitude": 48.8566, "lon": 2.3522, "lng": 2.3522, "longitude": 2.3522}

_IDENTIFIER = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")


class Schema:
    """One JSON Schema with its document, so that local references resolve."""

    __slots__ = ("body", "root")

    def __init__(self, body: JsonObject, root: JsonObject | None = None) -> None:
        self.root: JsonObject = body if root is None else root
        self.body = _resolved(body, self.root)

    def at(self, body: object) -> Schema:
        """A part of this schema's document; what is no schema object allows everything."""
        return Schema(cast(JsonObject, body) if isinstance(body, Mapping) else {}, self.root)

    @property
    def kind(self) -> str:
        """The JSON type, the first that is not null; guessed from other keywords; empty when anything goes."""
        given = self.body.get("type")
        kinds = cast(Sequence[object], given) if isinstance(given, list) else [given]
        for kind in kinds:
            if isinstance(kind, str) and kind != "null":
                return kind
        if "null" in kinds:
            return "null"
        if "properties" in self.body:
            return "object"
        return "array" if "items" in self.body or "prefixItems" in self.body else ""

    @property
    def properties(self) -> dict[str, Schema]:
        """The properties of an object that a script may name, in their order."""
        found = self.body.get("properties")
        if not isinstance(found, Mapping):
            return {}
        properties = cast(Mapping[object, object], found)
        return {name: self.at(body) for name, body in properties.items() if isinstance(name, str) and speakable(name)}

    @property
    def required(self) -> list[str]:
        """The required properties that a script may name, without repetition."""
        found = self.body.get("required")
        if not isinstance(found, list):
            return []
        names = (name for name in cast(list[object], found) if isinstance(name, str) and speakable(name))
        return list(dict.fromkeys(names))[:MAX_PROPERTIES]

    @property
    def items(self) -> Schema:
        """The schema of an array's items."""
        return self.at(self.body.get("items"))

    @property
    def choices(self) -> list[object]:
        """The values of `enum`, null left out."""
        found = self.body.get("enum")
        return [value for value in cast(list[object], found) if value is not None] if isinstance(found, list) else []

    def number(self, keyword: str) -> float | None:
        """A numeric keyword, if it is one."""
        value = self.body.get(keyword)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return None
        try:
            number = float(value)
        except OverflowError:
            return None
        return number if isfinite(number) else None


def speakable(name: str) -> bool:
    """Whether a script may use `name` as a property name."""
    return name not in NEVER_NAMES and not name.startswith(tuple(PREFIXES))


def _resolved(body: JsonObject, root: JsonObject) -> JsonObject:
    """`body` with its references followed, `allOf` merged in, and the first alternative that is not null taken."""
    for _ in range(MAX_REFERENCES):
        reference = body.get("$ref")
        if isinstance(reference, str):
            rest = {key: value for key, value in body.items() if key != "$ref"}
            body = {**_pointed(reference, root), **rest}
            continue
        parts = body.get("allOf")
        if isinstance(parts, list):
            body = _merged(
                body, [cast(JsonObject, p) for p in cast(list[object], parts) if isinstance(p, Mapping)], root
            )
            continue
        alternatives = body.get("anyOf") or body.get("oneOf")
        if not isinstance(alternatives, list):
            return body
        rest = {key: value for key, value in body.items() if key not in {"anyOf", "oneOf"}}
        body = {**rest, **_first_of(cast(list[object], alternatives))}
    return {}


def _pointed(reference: str, root: JsonObject) -> JsonObject:
    if not reference.startswith("#"):
        return {}
    target: object = root
    for part in reference[1:].split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        target = cast(JsonObject, target).get(key) if isinstance(target, Mapping) else None
    return cast(JsonObject, target) if isinstance(target, Mapping) else {}


def _merged(body: JsonObject, parts: list[JsonObject], root: JsonObject) -> JsonObject:
    merged = {key: value for key, value in body.items() if key != "allOf"}
    properties: dict[str, object] = {}
    required: list[object] = []
    for part in [*parts[:MAX_REFERENCES], dict(merged)]:
        reference = part.get("$ref")
        known: JsonObject = {**_pointed(reference, root), **part} if isinstance(reference, str) else part
        for key, value in known.items():
            if key == "properties" and isinstance(value, Mapping):
                properties.update(cast(JsonObject, value))
            elif key == "required" and isinstance(value, list):
                required += cast(list[object], value)
            elif key != "$ref":
                merged.setdefault(key, value)
    if properties:
        merged["properties"] = properties
    if required:
        merged["required"] = required
    return merged


def _first_of(alternatives: list[object]) -> JsonObject:
    for each in alternatives:
        if isinstance(each, Mapping) and cast(JsonObject, each).get("type") != "null":
            return cast(JsonObject, each)
    return {"type": "null"}


class Sampler:
    """Makes the values of one sample, `MAX_VALUES` of them at most."""

    def __init__(self) -> None:
        self._left = MAX_VALUES

    def value(self, name: str, schema: Schema, depth: int = MAX_DEPTH) -> object:
        """A plausible value for the parameter `name`, or for an item of it."""
        self._left -= 1
        stated = _stated(schema)
        if stated is not None:
            return self.within(stated, depth)
        kind = schema.kind
        if kind == "object":
            return self.object(schema, schema.required, depth - 1) if depth > 0 else {}
        if kind == "array":
            return self._array(name, schema, depth - 1) if depth > 0 else []
        if kind in {"integer", "number"}:
            return _number(name, schema, whole=kind == "integer")
        if kind == "boolean":
            return True
        return None if kind == "null" else _text(name, schema)

    def object(self, schema: Schema, names: Iterable[str], depth: int = MAX_DEPTH) -> dict[str, object]:
        """Values of those properties of an object."""
        known = schema.properties
        made: dict[str, object] = {}
        for name in names:
            if self._left <= 0:
                break
            made[name] = self.value(name, known.get(name, schema.at({})), depth)
        return made

    def _array(self, name: str, schema: Schema, depth: int) -> list[object]:
        given = schema.body.get("prefixItems")
        if isinstance(given, list) and given:
            parts = cast(list[object], given)[:MAX_PROPERTIES]
            return [self.value(name, schema.at(part), depth) for part in parts if self._left > 0]
        count = max(1, min(MAX_ITEMS, int(min(schema.number("minItems") or 1, MAX_ITEMS))))
        single = name[:-1] if name.endswith("s") and not name.endswith("ss") else name
        items = schema.items
        if items.choices and schema.body.get("uniqueItems"):
            return [self.within(choice, depth) for choice in items.choices[:count]]
        return [self.value(single, items, depth) for _ in range(count) if self._left > 0]

    def within(self, value: object, depth: int = MAX_DEPTH) -> object:
        """A given value as it can stand in a script: JSON only, bounded, no forbidden key."""
        self._left -= 1
        if isinstance(value, str):
            return value[:MAX_TEXT]
        if isinstance(value, bool) or value is None:
            return value
        if isinstance(value, int):
            return max(-_MAX_INTEGER, min(value, _MAX_INTEGER))
        if isinstance(value, float):
            return value if isfinite(value) else 0
        if isinstance(value, Mapping):
            pairs = ((str(name), inner) for name, inner in cast(Mapping[object, object], value).items())
            kept = [pair for pair in pairs if speakable(pair[0])][:MAX_PROPERTIES] if depth > 0 else []
            return {name: self.within(inner, depth - 1) for name, inner in kept if self._left > 0}
        if isinstance(value, (list, tuple)):
            items = cast(Sequence[object], value)[:MAX_ITEMS] if depth > 0 else []
            return [self.within(item, depth - 1) for item in items if self._left > 0]
        return str(value)[:MAX_TEXT]


def _stated(schema: Schema) -> object:
    """A value the schema itself gives."""
    body = schema.body
    if body.get("const") is not None:
        return body["const"]
    examples = body.get("examples")
    if isinstance(examples, list) and examples and cast(list[object], examples)[0] is not None:
        return cast(list[object], examples)[0]
    for keyword in ("example", "default"):
        # An empty default says "nothing": it shows nobody what the parameter is for.
        if body.get(keyword) not in (None, "", [], {}):
            return body[keyword]
    return schema.choices[0] if schema.choices else None


def _number(name: str, schema: Schema, *, whole: bool) -> object:
    words = name_words(name)
    by_word: Mapping[str, float] = _INTEGER_BY_WORD if whole else {**_INTEGER_BY_WORD, **_NUMBER_BY_WORD}
    value = next((float(by_word[word]) for word in reversed(words) if word in by_word), 1.0)
    low, high = schema.number("minimum"), schema.number("maximum")
    above, below = schema.number("exclusiveMinimum"), schema.number("exclusiveMaximum")
    step = 1.0 if whole else 0.5
    if above is not None:
        low = max(above + step, low if low is not None else above + step)
    if below is not None:
        high = min(below - step, high if high is not None else below - step)
    if high is not None:
        value = min(value, floor(high) if whole else high)
    if low is not None:
        value = max(value, ceil(low) if whole else low)
    multiple = schema.number("multipleOf")
    if multiple is not None and multiple > 0 and isfinite(value / multiple):
        value = ceil(value / multiple) * multiple
    return int(value) if isfinite(value) and value == int(value) else value if isfinite(value) else 0


def _text(name: str, schema: Schema) -> str:
    form = schema.body.get("format")
    if isinstance(form, str) and form in _BY_FORMAT:
        return _BY_FORMAT[form]
    words = name_words(name)
    text = next((_TEXT_BY_WORD[word] for word in reversed(words) if word in _TEXT_BY_WORD), None)
    if words and words[-1] in {"id", "ids", "key", "uid"}:
        owner = [word for word in words[:-1] if word.isascii()]
        text = f"{owner[-1] if owner else words[-1]}-1"
    text = text or "example"
    least, most = schema.number("minLength"), schema.number("maxLength")
    if least is not None and len(text) < least:
        text = (text + "-example" * MAX_TEXT)[: int(min(least, MAX_TEXT))]
    return text if most is None or len(text) <= most else text[: max(0, int(most))]


def quoted(text: str) -> str:
    """A JavaScript string literal of `text`: readable characters stay, everything else is escaped.

    Escaped are also the openers of HTML-like comments and all characters that are invisible, reorder text or are half
    a pair: a script that holds them would be refused as it stands.
    """
    literal = json.dumps(text, ensure_ascii=False).replace("<!--", "\\u003c!--").replace("-->", "--\\u003e")
    return literal if literal.isascii() and literal.isprintable() else "".join(map(_escaped, literal))


def _escaped(character: str) -> str:
    if character.isprintable() and unicodedata.category(character) not in {"Mn", "Me", "Cf", "Co", "Cn"}:
        return character
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))


def key(name: str) -> str:
    """`name` as a key of an object literal: bare where JavaScript allows it."""
    return name if _IDENTIFIER.fullmatch(name) else quoted(name)


def member(owner: str, name: str) -> str:
    """The expression that reads the property `name` of `owner`."""
    return f"{owner}.{name}" if _IDENTIFIER.fullmatch(name) else f"{owner}[{quoted(name)}]"


def literal(value: object) -> str:
    """A JavaScript literal of a JSON value, on one line."""
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, Mapping):
        return object_literal({name: literal(inner) for name, inner in cast(Mapping[str, object], value).items()})
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(literal(item) for item in cast(Sequence[object], value))}]"
    return json.dumps(value, allow_nan=False)


def object_literal(expressions: Mapping[str, str]) -> str:
    """An object literal on one line whose values are expressions."""
    return "{ " + ", ".join(pairs(expressions)) + " }" if expressions else "{}"


def pairs(expressions: Mapping[str, str]) -> list[str]:
    """`key: value` for each expression; a variable of the key's own name is written short."""
    return [
        name if name == value and _variable(name) else f"{key(name)}: {value}" for name, value in expressions.items()
    ]


def _variable(name: str) -> bool:
    return _IDENTIFIER.fullmatch(name) is not None and name not in {"true", "false", "null"}
