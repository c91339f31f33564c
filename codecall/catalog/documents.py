"""What the lexical index reads of an entry: its words with their weights, the words of its name, its spelling."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple, cast

from codecall.catalog.entries import CatalogEntry
from codecall.catalog.text import LONGEST_TEXT, name_words, terms

NO_WORDS = frozenset[str]()
"""Nothing is left out of names, nor of queries made of stop words only: `who_am_i` must be found by "who am I"."""

MAX_SCHEMA_DEPTH = 6
"""Levels of nested parameters that are read: what lies deeper says little about the tool."""

MAX_CHOICES = 50
"""Values of one enumeration that are read."""

TEXT_COSTS = 10
"""Characters that each text counts beside its own, of the `LONGEST_TEXT` that are read of one entry: what a server
sends may have any number of parameters, and Python objects may go round in circles."""


class Fields(NamedTuple):
    """How much a word counts by where it stands. Source: `benchmarks/search_quality.py`, this class varied."""

    name: float = 3.0
    plain: float = 1.0
    """Title, description, app, tags, names and descriptions of parameters, descriptions of the author's examples."""
    choices: float = 0.3
    """Values a parameter may take."""


FIELDS = Fields()


class Document(NamedTuple):
    """An entry as the index knows it."""

    words: dict[str, float]
    """Stemmed words and how much each counts."""
    name: frozenset[str]
    """Stemmed words of its name."""
    spelling: Counter[str]
    """Words as they are written in its name (three times), its app and its description."""


def document_of(entry: CatalogEntry, fields: Fields = FIELDS) -> Document:
    """Read `entry`. Some 0.2 ms: do many in a thread."""
    words: Counter[str] = Counter()
    name = terms(entry.name, stop=NO_WORDS)
    _count(words, name, fields.name)
    left = LONGEST_TEXT
    for text, weight in _texts(entry, fields):
        _count(words, terms(text[:left]), weight)
        left -= len(text) + TEXT_COSTS
        if left <= 0:
            break
    spelling = Counter(name_words(entry.name) * 3)
    spelling.update(name_words(entry.app_id))
    spelling.update(name_words(entry.description))
    return Document(dict(words), frozenset(name), spelling)


def _texts(entry: CatalogEntry, fields: Fields) -> Iterator[tuple[str, float]]:
    """What is read beside the name, the most telling first, and how much its words count."""
    for text in (entry.app_id, entry.title, entry.description, *sorted(entry.tags)):
        if text:
            yield text, fields.plain
    for text in _parameter_texts(entry.input_schema, MAX_SCHEMA_DEPTH):
        yield text, fields.plain
    for example in entry.examples:
        yield example.description, fields.plain
    if fields.choices:
        for text in _choices(entry.input_schema, MAX_SCHEMA_DEPTH):
            yield text, fields.choices


def _parameter_texts(schema: Mapping[str, object], depth: int) -> Iterator[str]:
    """Names and descriptions of the parameters, nested ones too."""
    for name, parameter in _parameters(schema, depth):
        yield name
        description = parameter.get("description")
        if isinstance(description, str):
            yield description


def _choices(schema: Mapping[str, object], depth: int) -> Iterator[str]:
    for _, parameter in _parameters(schema, depth):
        values = parameter.get("enum")
        if isinstance(values, list):
            for value in cast("list[object]", values)[:MAX_CHOICES]:
                if isinstance(value, str):
                    yield value


def _parameters(schema: Mapping[str, object], depth: int) -> Iterator[tuple[str, Mapping[str, object]]]:
    properties = schema.get("properties")
    if not isinstance(properties, Mapping) or not depth:
        return
    for name, inner in cast("Mapping[object, object]", properties).items():
        if not isinstance(name, str):
            continue
        if not isinstance(inner, Mapping):
            yield name, {}
            continue
        parameter = cast("Mapping[str, object]", inner)
        yield name, parameter
        yield from _parameters(parameter, depth - 1)
        items = parameter.get("items")
        if isinstance(items, Mapping):
            yield from _parameters(cast("Mapping[str, object]", items), depth - 1)


def _count(words: Counter[str], found: list[str], weight: float) -> None:
    for word in found:
        words[word] += weight  # pyright: ignore[reportArgumentType] - a Counter of weights
