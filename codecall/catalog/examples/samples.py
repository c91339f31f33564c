"""Samples values from JSON Schema: the arguments that generated usage examples pass to tools.

Schemas come from servers we do not know, so everything is bounded: depth, number of values, length of texts. A text is
chosen by format, name, length and pattern, which `schema.patterns` compares in linear time; where none is sure to fit,
there is none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import ceil, floor, isfinite
from typing import cast

from codecall.catalog.search.analysis import name_parts
from codecall.schema.model import MAX_PROPERTIES, SchemaNode, is_nameable
from codecall.schema.patterns import certainly_differs, certainly_matches, matching_text

MAX_DEPTH = 6
"""Levels of nesting of a sample; deeper parts are empty."""
MAX_VALUES = 100
"""Values in one sample, nested ones too; further properties are left out. Recursive schemas would otherwise explode."""
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


class NoTextError(Exception):
    """No text is known that the schema of a parameter takes."""


class Sampler:
    """Generates the values of one sample, `MAX_VALUES` of them at most."""

    def __init__(self) -> None:
        self.lacks_texts = False
        """Whether properties were left out, since no text is known that their schemas take."""
        self._remaining = MAX_VALUES

    def value(self, name: str, schema: SchemaNode, depth: int = MAX_DEPTH) -> object:
        """Returns a plausible value for the parameter `name`, or for an item of it.

        Raises:
            NoTextError: none is known that its schema takes.
        """
        self._remaining -= 1
        stated = _stated(schema)
        if stated is not None:
            return self.bounded(stated, depth)
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

    def object(self, schema: SchemaNode, names: Iterable[str], depth: int = MAX_DEPTH) -> dict[str, object]:
        """Returns values of the named properties of an object."""
        properties = schema.properties
        sample: dict[str, object] = {}
        for name in names:
            if self._remaining <= 0:
                break
            try:
                sample[name] = self.value(name, properties.get(name, schema.at({})), depth)
            except NoTextError:
                self.lacks_texts = True
        return sample

    def _array(self, name: str, schema: SchemaNode, depth: int) -> list[object]:
        prefix_items = schema.body.get("prefixItems")
        if isinstance(prefix_items, list) and prefix_items:
            parts = cast(list[object], prefix_items)[:MAX_PROPERTIES]
            return [self.value(name, schema.at(part), depth) for part in parts if self._remaining > 0]
        count = max(1, min(MAX_ITEMS, int(min(schema.number("minItems") or 1, MAX_ITEMS))))
        single = name[:-1] if name.endswith("s") and not name.endswith("ss") else name
        items = schema.items
        if items.choices and schema.body.get("uniqueItems"):
            return [self.bounded(choice, depth) for choice in items.choices[:count]]
        return [self.value(single, items, depth) for _ in range(count) if self._remaining > 0]

    def bounded(self, value: object, depth: int = MAX_DEPTH) -> object:
        """Returns a value from a schema as a script may contain it: JSON only, bounded, no forbidden key."""
        self._remaining -= 1
        if isinstance(value, Mapping):
            pairs = ((str(name), inner) for name, inner in cast(Mapping[object, object], value).items())
            allowed_pairs = [pair for pair in pairs if is_nameable(pair[0])][:MAX_PROPERTIES] if depth > 0 else []
            return {name: self.bounded(inner, depth - 1) for name, inner in allowed_pairs if self._remaining > 0}
        if isinstance(value, (list, tuple)):
            items = cast(Sequence[object], value)[: MAX_ITEMS if depth > 0 else 0]
            return [self.bounded(item, depth - 1) for item in items if self._remaining > 0]
        return _plain_value(value)


def _plain_value(value: object) -> object:
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return max(-_MAX_INTEGER, min(value, _MAX_INTEGER))
    if isinstance(value, float):
        return value if isfinite(value) else 0
    return str(value)[:MAX_TEXT]


def _stated(schema: SchemaNode) -> object:
    """A value that the schema itself states."""
    body = schema.body
    if body.get("const") is not None:
        return body["const"]
    examples = body.get("examples")
    stated = list(cast(list[object], examples)) if isinstance(examples, list) else []
    # An empty default does not show what the parameter is for.
    stated += [value for value in (body.get("example"), body.get("default")) if value not in ("", [], {})]
    return next((value for value in [*stated, *schema.choices] if value is not None and _may_fit(value, schema)), None)


def _may_fit(value: object, schema: SchemaNode) -> bool:
    """Whether a value that a schema states is not sure to be refused by its pattern."""
    pattern = schema.body.get("pattern")
    return not (isinstance(value, str) and isinstance(pattern, str) and certainly_differs(value, pattern))


def text_fits(text: str, schema: SchemaNode) -> bool:
    """Whether a text that was made is sure to have the length and the pattern that a schema asks for."""
    least, most, pattern = schema.number("minLength"), schema.number("maxLength"), schema.body.get("pattern")
    if (least is not None and len(text) < least) or (most is not None and len(text) > most):
        return False
    return not isinstance(pattern, str) or certainly_matches(text, pattern)


def _number(name: str, schema: SchemaNode, *, whole: bool) -> object:
    words = name_parts(name)
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


def _text(name: str, schema: SchemaNode) -> str:
    form = schema.body.get("format")
    if isinstance(form, str) and form in _BY_FORMAT:
        if not text_fits(_BY_FORMAT[form], schema):
            raise NoTextError
        return _BY_FORMAT[form]
    words = name_parts(name)
    text = next((_TEXT_BY_WORD[word] for word in reversed(words) if word in _TEXT_BY_WORD), None)
    if words and words[-1] in {"id", "ids", "iid", "uid", "key"}:
        owner = [word for word in words[:-1] if word.isascii()]
        text = f"{owner[-1] if owner else words[-1]}-1"
    text = text or "example"
    least, most = schema.number("minLength"), schema.number("maxLength")
    if least is not None and len(text) < least:
        text = (text + "-example" * MAX_TEXT)[: int(min(least, MAX_TEXT))]
    text = text if most is None or len(text) <= most else text[: max(0, int(most))]
    if text_fits(text, schema):
        return text
    pattern = schema.body.get("pattern")
    if isinstance(pattern, str) and (least or 0) <= MAX_TEXT:
        made = matching_text(pattern, ceil(least or 0), int(min(MAX_TEXT if most is None else most, MAX_TEXT)))
        if made is not None:
            return made
    raise NoTextError
