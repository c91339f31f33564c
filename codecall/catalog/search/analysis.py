"""Text analysis for search: turns tool names, descriptions and queries into stemmed words, and entries into documents.

Entries and queries go through the same functions, so that `users:listAll`, "list all the users" and "listing users"
meet.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import NamedTuple, cast

from codecall.catalog.entries import CatalogEntry

# Vowel signs and accents that no single letter includes: Thai, Devanagari and others write words with them.
_MARKS = "".join(mark for mark in map(chr, range(0x0300, 0x10A0)) if unicodedata.category(mark) in {"Mn", "Mc"})
WORD = re.compile(rf"(?:[^\W_]+|[{_MARKS}]+)+")
_ASCII_WORD = re.compile(r"[^\W_]+", re.ASCII)  # the same where all is ASCII, in half the time
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
"""Words that do not help to tell tools apart. Verbs of command (get, list, show, find, make …) are not here."""

_MAX_WORD_CHARS = 64
"""Characters of a word that count; a longer one is a key or a blob, not a word."""

MAX_TEXT_CHARS = 20_000
"""Characters of a text that are read, from its beginning. Of 13,000 real tools the longest description has 13,078."""

_NOUN_ENDINGS = ("ment", "anc", "enc", "ur", "al", "at", "ag")
"""Stemmed endings by which English makes a noun of a verb: deployment, performance, reference, failure, retrieval,
transformation, usage."""

_MIN_ROOT_CHARS = 4

_PART_SEPARATORS = re.compile(
    r"(?<=[.?!;])\s+|\n+|(?<=[。？！；])|,?\s+(?:and then|then|and also|as well as)\s+|,\s+and\s+", re.IGNORECASE
)

MAX_REQUEST_PARTS = 10
"""Parts of one request that are searched by themselves."""

NO_STOP_WORDS = frozenset[str]()
"""No stop words, for names and for queries made of stop words only: "who am I" must find `who_am_i`."""

MAX_SCHEMA_DEPTH = 6
"""Levels of nested parameters that are read: deeper ones say little about the tool."""

MAX_CHOICES = 50
"""Values of one enumeration that are read."""

TEXT_OVERHEAD = 10
"""Characters that each text counts beside its own, of the `MAX_TEXT_CHARS` that are read of one entry: what a server
sends may have any number of parameters, and Python objects may go round in circles."""


MIN_COMPOUND_CHARS = 7
"""Letters of the shortest word of a name that may be written of several."""

_MIN_COMPOUND_PART = 3


def name_parts(name: str) -> list[str]:
    """Splits an identifier into words, lower case: at characters that are no letters or digits, and at camelCase
    humps."""
    return [part for parts in _split(name) for part in parts]


def name_words(name: str) -> list[str]:
    """Splits an identifier like `name_parts`, and adds each camelCase word as a whole (`getGitHubUser` → get, git, hub,
    user, getgithubuser): a brand written in humps is then found by its plain spelling too."""
    return list(_name_words(name))


@lru_cache(maxsize=64)  # the texts of one entry are read for two purposes
def _name_words(name: str) -> Sequence[str]:
    words: list[str] = []
    for parts in _split(name):
        words += parts
        if len(parts) > 1 and _HUMPED.fullmatch(joined := "".join(parts)):
            words.append(joined)
    return words


def terms(text: str, *, stop: frozenset[str] = STOP_WORDS) -> Sequence[str]:
    """Returns the stemmed terms of a text in their order, without the words of `stop`.

    Identifiers inside the text are split as names are. Scripts that put no blanks between words (Han, Kana, Thai, Lao)
    give one term for each pair of neighbouring characters.
    """
    return _short_terms(text, stop) if len(text) <= _MAX_WORD_CHARS else _terms(text, stop)


def _terms(text: str, stop: frozenset[str]) -> Sequence[str]:
    return _stems(_name_words(text), stop)


def _stems(words: Iterable[str], stop: frozenset[str]) -> list[str]:
    stems: list[str] = []
    for word in words:
        if word.isascii():
            if word not in stop:
                stems.append(stem(word[:_MAX_WORD_CHARS]))
        else:
            stems.extend(_terms_without_blanks(word))
    return stems


_short_terms = lru_cache(maxsize=20_000)(_terms)
"""Parameters of one server have the same names and descriptions again and again. The lists are not changed."""


@lru_cache(maxsize=50_000)
def stem(word: str) -> str:
    """Removes the inflection of `word` (ASCII, lower case): users → user; created, creating, creation → creat.

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


@lru_cache(maxsize=50_000)
def family_root(stem: str) -> str:
    """Returns what a stem shares with the verb or noun of its family: fail for failur, deploy for deployment; the stem
    itself where there is no such ending. Too coarse for a stem: the words of a family stand for each other as synonyms
    do."""
    if not (stem.isascii() and stem.isalpha()):
        return stem
    root = stem
    while root.endswith(_NOUN_ENDINGS):
        ending = next((e for e in _NOUN_ENDINGS if root.endswith(e) and len(root) - len(e) >= _MIN_ROOT_CHARS), "")
        if not ending:
            break
        root = root.removesuffix(ending)
    if len(root) > _MIN_ROOT_CHARS and root[-1] == root[-2]:
        root = root[:-1]
    if len(root) > _MIN_ROOT_CHARS + 1 and root[-1] in "eiy":
        root = root[:-1]
    return root


def split_request(text: str, limit: int) -> list[str]:
    """Splits a request for several things into its sentences, and at `then` and `, and`.

    Returns the parts of at least two words, `limit` of them at most; none where there is only one.
    """
    parts = [part for part in map(str.strip, _PART_SEPARATORS.split(text)) if len(terms(part)) > 1]
    return parts[:limit] if len(parts) > 1 else []


class FieldWeights(NamedTuple):
    """How much a word counts by where it occurs. Source: `benchmarks/search_quality.py`, this class varied."""

    name: float = 3.0
    text: float = 1.0
    """Title, description, app, tags, names and descriptions of parameters, descriptions of the author's examples."""
    results: float = 0.5
    """Names and descriptions of what a result holds."""
    choices: float = 0.3
    """Values of enumerations."""


DEFAULT_FIELD_WEIGHTS = FieldWeights()


class IndexedDocument(NamedTuple):
    """An entry as the index stores it."""

    words: dict[str, float]
    """Stemmed words and how much each counts."""
    name_words: frozenset[str]
    """The stemmed words of its name, after that of its app where it begins with it."""
    spelling: Counter[str]
    """The unstemmed words of its name (three times), its app and its description."""
    app: str
    """The app it belongs to; empty: none."""
    about: frozenset[str] = frozenset()
    """The stemmed words of what its server says of itself."""
    chars: int = 0
    """Characters that were read."""


_Parameter = tuple[str, Mapping[str, object]]
"""The name of a parameter and its schema."""


def document_from_entry(
    entry: CatalogEntry,
    fields: FieldWeights = DEFAULT_FIELD_WEIGHTS,
    common: frozenset[str] = frozenset(),
    max_chars: int = MAX_TEXT_CHARS,
) -> IndexedDocument:
    """Makes the document of an entry. Takes some 0.2 ms: do many in a thread.

    Args:
        entry: The entry.
        fields: How much words count.
        common: Words that a name may be written of without anything between them (`getchannelinfo`), beside those of
            the entry's own description.
        max_chars: How many characters are read, the name's beside those of the other texts.
    """
    words: Counter[str] = Counter()
    described = name_words(entry.description[:max_chars])
    entry_name = entry.name[:max_chars]
    parts = name_parts(entry_name)
    unknown = [part for part in parts if len(part) >= MIN_COMPOUND_CHARS and part not in common]
    known = common.union(described) if unknown else common
    joined = [inner for part in unknown for inner in split_compound(part, known)]
    _add_words(words, [*terms(entry_name, stop=NO_STOP_WORDS), *map(stem, joined)], fields.name)
    remaining = max_chars
    for text, weight in _texts(entry, fields):
        _add_words(words, terms(text[:remaining]), weight)
        remaining -= len(text) + TEXT_OVERHEAD
        if remaining <= 0:
            break
    app = name_parts(entry.app_id)
    own = parts[len(app) :] if parts[: len(app)] == app else parts
    name = frozenset(_stems([*(own or parts), *joined], NO_STOP_WORDS))
    spelling = Counter(name_words(entry_name) * 3)
    spelling.update(name_words(entry.app_id))
    spelling.update(described)
    chars = len(entry_name) + max_chars - max(0, remaining)
    return IndexedDocument(dict(words), name, spelling, entry.app_id, _stem_set(entry.about), chars)


@lru_cache(maxsize=256)  # all tools of a server have the same
def _stem_set(text: str) -> frozenset[str]:
    return frozenset(terms(text))


def split_compound(word: str, known: Collection[str]) -> list[str]:
    """Returns the fewest known words that `word` is written of; none where there are no such words, or it is itself
    known."""
    if word in known or not word.isalpha() or len(word) > _MAX_WORD_CHARS:
        return []
    best: list[list[str] | None] = [[]]
    for end in range(1, len(word) + 1):
        ways = [
            [*before, word[start:end]]
            for start in range(end - _MIN_COMPOUND_PART + 1)
            if (before := best[start]) is not None and word[start:end] in known
        ]
        best.append(min(ways, key=len, default=None))
    return best[-1] or []


def _split(name: str) -> list[tuple[str, ...]]:
    text = name[:MAX_TEXT_CHARS]
    pieces = _ASCII_WORD.findall(text) if text.isascii() else WORD.findall(unicodedata.normalize("NFKC", text))
    return [_short_humps(piece) if len(piece) <= _MAX_WORD_CHARS else _humps(piece) for piece in pieces]


def _humps(piece: str) -> tuple[str, ...]:
    return tuple(hump.lower() for hump in _HUMPS.findall(piece))


_short_humps = lru_cache(maxsize=50_000)(_humps)
"""Tools of one server say the same words again and again."""


def _terms_without_blanks(word: str) -> list[str]:
    parts: list[str] = []
    rest = word
    while match := _UNSPACED.search(rest):
        if match.start():
            parts.append(rest[: min(match.start(), _MAX_WORD_CHARS)])
        run = match.group()
        parts.extend([run] if len(run) == 1 else [run[i : i + 2] for i in range(len(run) - 1)])
        rest = rest[match.end() :]
    if rest:
        parts.append(rest[:_MAX_WORD_CHARS])
    return parts


def _has_vowel(text: str) -> bool:
    return any(letter in "aeiouy" for letter in text)


def _texts(entry: CatalogEntry, fields: FieldWeights) -> Iterator[tuple[str, float]]:
    """The texts besides the name, the most informative first, and how much their words count."""
    for text in (entry.app_id, entry.title, entry.description, *sorted(entry.tags)):
        if text:
            yield text, fields.text
    # Read once for two purposes, and no more of them than `MAX_TEXT_CHARS` has room for.
    parameters = list(islice(_parameters(entry.input_schema, MAX_SCHEMA_DEPTH), MAX_TEXT_CHARS // TEXT_OVERHEAD))
    for text in _parameter_texts(parameters):
        yield text, fields.text
    for example in entry.examples:
        yield example.description, fields.text
    if fields.results and entry.output_schema:
        # As a property, since a result may be a list, and its own description says what it is.
        held = _parameters({"properties": {"": entry.output_schema}}, MAX_SCHEMA_DEPTH + 1)
        for text in _parameter_texts(islice(held, MAX_TEXT_CHARS // TEXT_OVERHEAD)):
            yield text, fields.results
    if fields.choices:
        for text in _enum_texts(parameters):
            yield text, fields.choices


def _parameter_texts(parameters: Iterable[_Parameter]) -> Iterator[str]:
    """The names and descriptions of parameters."""
    for name, parameter in parameters:
        yield name
        description = parameter.get("description")
        if isinstance(description, str):
            yield description


def _enum_texts(parameters: Iterable[_Parameter]) -> Iterator[str]:
    for _, parameter in parameters:
        values = parameter.get("enum")
        if isinstance(values, list):
            for value in cast("list[object]", values)[:MAX_CHOICES]:
                if isinstance(value, str):
                    yield value


def _parameters(schema: Mapping[str, object], depth: int) -> Iterator[_Parameter]:
    """The parameters of a schema, nested ones too."""
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


def _add_words(words: Counter[str], stems: Sequence[str], weight: float) -> None:
    if weight == 1:
        words.update(stems)  # in C
        return
    for word in stems:
        words[word] += weight  # pyright: ignore[reportArgumentType] - a Counter of weights
