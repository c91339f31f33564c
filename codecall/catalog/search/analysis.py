"""How tool names, descriptions and queries become words: split, lowered, freed of filler, stemmed.

Both sides go through the same functions, so that `users:listAll`, "list all the users" and "listing users" meet.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple, cast

from codecall.catalog.entries import CatalogEntry

# Vowel signs and accents that no single letter includes: Thai, Devanagari and others write words with them.
_MARKS = "".join(mark for mark in map(chr, range(0x0300, 0x10A0)) if unicodedata.category(mark) in {"Mn", "Mc"})
_WORD = re.compile(rf"(?:[^\W_]+|[{_MARKS}]+)+")
# Humps are ASCII; every other letter goes on with the word it stands in.
_HUMPS = re.compile(rf"[A-Z]+(?=[A-Z][a-z])|[A-Z]?(?:[^\W\d_A-Z]+|[{_MARKS}]+)+|[A-Z]+|\d+|.")
_HUMPED = re.compile(r"[A-Za-z0-9]+")
_UNSPACED = re.compile(
    "["
    "\u0e00-\u0eff"  # Thai, Lao
    "\u3040-\u30ff"  # Hiragana, Katakana
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # Han
    "]+"
)

STOP_WORDS = frozenset(
    word
    for line in (
        "a an and any anyone are as at be been being but by can could did do does doing done for from had has have",
        "having he her here hers him his how i if in into is it its itself just kindly let like may me might mine",
        "more most must my need needed needs of off on onto or our ours out over own per please shall she should",
        "so some such than thank thanks that the their theirs them then there these they this those though through",
        "thus to too under until up upon us very via want wanted wants was we were what whatever when where",
        "whether which while who whom whose why will wish with within without would yes you your yours also am",
        "about after again all another because before between both each either else ever every few further d ll m",
        "re s t ve don doesn didn isn wasn won able help give tell know looking",
    )
    for word in line.split()
)
"""Words that say nothing about which tool is meant. Verbs of command (get, list, show, find, make …) are not here."""

_LONGEST_WORD = 64
"""Characters of a word that count; what is longer is a key or a blob, not a word."""

MAX_TEXT_CHARS = 20_000
"""Characters of a text that are read, from its beginning. Of 13,000 real tools the longest description has 13,078."""

_ENDINGS = (
    ("ations", "at"), ("ation", "at"), ("ators", "at"), ("ator", "at"), ("ating", "at"), ("ated", "at"),
    ("ates", "at"), ("ate", "at"), ("ities", "iti"), ("ity", "iti"), ("izing", "iz"), ("ized", "iz"), ("izes", "iz"),
    ("ize", "iz"), ("ising", "iz"), ("ised", "iz"), ("ises", "iz"), ("ise", "iz"),
)  # fmt: skip

_BETWEEN_INTENTIONS = re.compile(
    r"(?<=[.?!;])\s+|\n+|(?<=[。？！；])|,?\s+(?:and then|then|and also|as well as)\s+|,\s+and\s+", re.IGNORECASE
)

MAX_REQUEST_PARTS = 10
"""Parts of one query that are searched by themselves."""

NO_STOP_WORDS = frozenset[str]()
"""Nothing is left out of names, nor of queries made of stop words only: `who_am_i` must be found by "who am I"."""

MAX_SCHEMA_DEPTH = 6
"""Levels of nested parameters that are read: what lies deeper says little about the tool."""

MAX_CHOICES = 50
"""Values of one enumeration that are read."""

TEXT_OVERHEAD = 10
"""Characters that each text counts beside its own, of the `MAX_TEXT_CHARS` that are read of one entry: what a server
sends may have any number of parameters, and Python objects may go round in circles."""


def name_parts(name: str) -> list[str]:
    """The words of an identifier, lower case: split at what is no letter or digit, and at camelCase humps."""
    return [part for parts in _split(name) for part in parts]


def name_words(name: str) -> list[str]:
    """The same, and each camelCase word also whole (`getGitHubUser` → get, git, hub, user, getgithubuser): a brand
    written in humps is then found by its plain spelling too."""
    words: list[str] = []
    for parts in _split(name):
        words += parts
        whole = "".join(parts)
        if len(parts) > 1 and _HUMPED.fullmatch(whole):
            words.append(whole)
    return words


def terms(text: str, *, stop: frozenset[str] = STOP_WORDS) -> list[str]:
    """The stemmed terms of a text in their order, without the words of `stop`.

    Identifiers inside the text are split as names are. Scripts that put no blanks between words (Han, Kana, Thai, Lao)
    give one term for each pair of neighbouring characters.
    """
    found: list[str] = []
    for word in name_words(text):
        if word.isascii():
            if word not in stop:
                found.append(stem(word[:_LONGEST_WORD]))
        else:
            found.extend(_unspaced(word))
    return found


@lru_cache(maxsize=50_000)
def stem(word: str) -> str:
    """`word` (ASCII, lower case) without its inflection: users → user, created, creating, creation → creat.

    Lighter than Porter's algorithm: plurals, -ing, -ed, -ion and a final e. A stem keeps at least three characters.
    """
    if len(word) < 4 or not word.isalpha():
        return word
    root = word
    if root.endswith("ies") and len(root) > 4:
        root = root[:-3] + "y"
    elif root.endswith(("sses", "shes", "ches", "xes", "zes")):
        root = root[:-2]
    elif root.endswith("s") and not root.endswith(("ss", "us", "is")):
        root = root[:-1]
    for ending in ("ing", "ed"):
        if root.endswith(ending) and _has_vowel(root[: -len(ending)]) and len(root) - len(ending) >= 3:
            root = root[: -len(ending)]
            if len(root) > 3 and root[-1] == root[-2] and root[-1] not in "lsz":
                root = root[:-1]
            break
    if root.endswith("ion") and len(root) > 5 and root[-4] in "ts":
        root = root[:-3]
    if root.endswith("e") and len(root) > 3:
        root = root[:-1]
    if root.endswith("y") and len(root) > 3:
        root = root[:-1] + "i"
    return root


def split_request(text: str, most: int) -> list[str]:
    """The parts of a request that asks for several things: its sentences, and what `then` or `, and` joins.

    Those of at least two words, at most `most` of them; none where there is one only.
    """
    found = [part for part in map(str.strip, _BETWEEN_INTENTIONS.split(text)) if len(terms(part)) > 1]
    return found[:most] if len(found) > 1 else []


class FieldWeights(NamedTuple):
    """How much a word counts by where it stands. Source: `benchmarks/search_quality.py`, this class varied."""

    name: float = 3.0
    text: float = 1.0
    """Title, description, app, tags, names and descriptions of parameters, descriptions of the author's examples."""
    choices: float = 0.3
    """Values a parameter may take."""


DEFAULT_FIELD_WEIGHTS = FieldWeights()


class IndexedDocument(NamedTuple):
    """An entry as the index knows it."""

    words: dict[str, float]
    """Stemmed words and how much each counts."""
    name_words: frozenset[str]
    """Stemmed words of its name."""
    spelling: Counter[str]
    """Words as they are written in its name (three times), its app and its description."""


def document_from_entry(entry: CatalogEntry, fields: FieldWeights = DEFAULT_FIELD_WEIGHTS) -> IndexedDocument:
    """Read `entry`. Some 0.2 ms: do many in a thread."""
    words: Counter[str] = Counter()
    name = terms(entry.name, stop=NO_STOP_WORDS)
    _count(words, name, fields.name)
    left = MAX_TEXT_CHARS
    for text, weight in _texts(entry, fields):
        _count(words, terms(text[:left]), weight)
        left -= len(text) + TEXT_OVERHEAD
        if left <= 0:
            break
    spelling = Counter(name_words(entry.name) * 3)
    spelling.update(name_words(entry.app_id))
    spelling.update(name_words(entry.description))
    return IndexedDocument(dict(words), frozenset(name), spelling)


def _split(name: str) -> list[list[str]]:
    pieces = _WORD.findall(unicodedata.normalize("NFKC", name[:MAX_TEXT_CHARS]))
    return [[hump.lower() for hump in _HUMPS.findall(piece)] for piece in pieces]


def _unspaced(word: str) -> list[str]:
    found: list[str] = []
    rest = word
    while match := _UNSPACED.search(rest):
        if match.start():
            found.append(rest[: min(match.start(), _LONGEST_WORD)])
        run = match.group()
        found.extend([run] if len(run) == 1 else [run[i : i + 2] for i in range(len(run) - 1)])
        rest = rest[match.end() :]
    if rest:
        found.append(rest[:_LONGEST_WORD])
    return found


def _has_vowel(text: str) -> bool:
    return any(letter in "aeiouy" for letter in text)


def _texts(entry: CatalogEntry, fields: FieldWeights) -> Iterator[tuple[str, float]]:
    """What is read beside the name, the most telling first, and how much its words count."""
    for text in (entry.app_id, entry.title, entry.description, *sorted(entry.tags)):
        if text:
            yield text, fields.text
    for text in _parameter_texts(entry.input_schema, MAX_SCHEMA_DEPTH):
        yield text, fields.text
    for example in entry.examples:
        yield example.description, fields.text
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
