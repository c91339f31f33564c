"""Finds, for a mistyped word, the words of a catalog that one typing error turns into it.

The ranking by words searches with them (`lexical.py`); search suggests them, and words two errors away, where nothing
fits (`correct_words`).
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from weakref import ref

from codecall.catalog.entries import CatalogEntry
from codecall.catalog.search.analysis import STOP_WORDS, name_words, stem
from codecall.catalog.search.synonyms import ACTIONS, THINGS
from codecall.catalog.suggestions import similar_names

MAX_WORDS = 8
"""Words of a text that are corrected, from its beginning."""

MAX_ENTRY_CHARS = 2_000
"""Characters of one entry that are read, from its name on to the end of its description: what is longer is a manual."""

MAX_TOTAL_CHARS = 200_000
"""Characters of a catalog that are read, shared evenly by its entries: 0.1 s of random words, which is the worst. The
tools of most servers have fewer."""

MIN_ENTRY_CHARS = 150
"""Characters of each entry that are read however many entries there are: room for a name, which MCP ends at 128, and
tags."""

MAX_VOCABULARIES = 4
"""Catalogs whose words are cached: few differ between callers, and each may take some megabytes."""

MIN_LETTERS = 4
"""Letters of the shortest word that is corrected: a shorter one is near to too many."""

_MIN_LETTERS_TWO_ERRORS = 8
"""Letters from which on a word may have two errors; the correct word may be one letter shorter."""

_KNOWN_STEMS = frozenset(stem(word) for group in chain(ACTIONS, THINGS) for word in group.split())
"""Words that the ranker knows by itself: such a word is no error because a catalog does without it."""


class Vocabulary:
    """Words, arranged so that those one typing error away from another are found among a few hundred of 30,000: an
    error changes the first letter or the last, never both. One thread adds words; any may ask meanwhile."""

    def __init__(self) -> None:
        self._words: set[str] = set()
        self._by_first: defaultdict[tuple[str, int], list[str]] = defaultdict(list)
        self._by_last: defaultdict[tuple[str, int], list[str]] = defaultdict(list)

    def __iter__(self) -> Iterator[str]:
        """Returns the words."""
        return iter(self._words)

    def add(self, words: Iterable[str]) -> None:
        """Adds words of letters that are long enough to be a correction; others are no use here."""
        for word in words:
            if len(word) >= MIN_LETTERS and word not in self._words and word.isalpha():
                self._words.add(word)
                self._by_first[word[0], len(word)].append(word)
                self._by_last[word[-1], len(word)].append(word)

    def one_error_away(self, word: str) -> Iterator[list[str]]:
        """Yields the words that one typing error turns into `word`: a letter wrong, missing, too many, or swapped with
        its neighbour. First those with its first letter, which people seldom mistype, then the others."""
        if len(word) >= MIN_LETTERS:
            lengths = range(len(word) - 1, len(word) + 2)
            for ends, letter in ((self._by_first, word[0]), (self._by_last, word[-1])):
                yield [other for length in lengths for other in _one_error_away(word, ends.get((letter, length), ()))]


@dataclass(frozen=True, slots=True)
class _CatalogWords:
    """The words of a catalog of three letters and more: shorter ones are no corrections of the words that are
    checked."""

    entries: tuple[ref[CatalogEntry], ...]
    counts: Mapping[str, int]
    """How many entries have each word."""
    stems: frozenset[str]

    def of(self, entries: Sequence[CatalogEntry]) -> bool:
        """Whether these are the words of these very entries in this order; below 1 ms for 10,000."""
        return len(self.entries) == len(entries) and all(
            reference() is entry for reference, entry in zip(self.entries, entries, strict=True)
        )


_lock = threading.Lock()  # of two threads that ask for the same words, one reads
_cache: list[_CatalogWords] = []


def correct_words(entries: Sequence[CatalogEntry], text: str) -> list[str]:
    """Returns, for each word of `text` that these entries do not have, the word of theirs that it looks like, if any.

    One letter may be wrong, missing, too many, or swapped with its neighbour; in a word of eight letters or more also
    two. Of several such words, the one that most entries have. Made from these entries alone, of long ones from the
    beginning (`MAX_READ`, `MAX_TOTAL_CHARS`). At the worst 0.3 s the first time and then 0.2 s, for 10,000 entries five
    times as much; real tools take a tenth. Call it in a thread.
    """
    words = [
        word
        for word in dict.fromkeys(name_words(text))
        if len(word) >= MIN_LETTERS and word not in STOP_WORDS and stem(word) not in _KNOWN_STEMS
    ][:MAX_WORDS]
    if not words or not entries:
        return []
    vocabulary = _vocabulary(entries)
    best: list[str] = []
    for word in words:
        if stem(word) in vocabulary.stems:
            continue
        if others := _one_error_away(word, vocabulary.counts):
            best.append(min(others, key=lambda other: (-vocabulary.counts[other], other)))
        elif len(word) >= _MIN_LETTERS_TWO_ERRORS:
            best += similar_names(
                word, (other for other in vocabulary.counts if len(other) >= _MIN_LETTERS_TWO_ERRORS - 1), limit=1
            )
    return list(dict.fromkeys(best))


def _vocabulary(entries: Sequence[CatalogEntry]) -> _CatalogWords:
    """The words of the entries: cached ones where these very entries were read lately."""
    with _lock:
        vocabulary = next((cached for cached in _cache if cached.of(entries)), None) or _read_vocabulary(entries)
        others = [cached for cached in _cache if cached is not vocabulary and cached.entries[0]() is not None]
        _cache[:] = [vocabulary, *others[: MAX_VOCABULARIES - 1]]
        return vocabulary


def _read_vocabulary(entries: Sequence[CatalogEntry]) -> _CatalogWords:
    limit = max(MIN_ENTRY_CHARS, min(MAX_ENTRY_CHARS, MAX_TOTAL_CHARS // len(entries)))
    counts: Counter[str] = Counter()
    for entry in entries:
        text = _beginning(entry, limit)
        counts.update({word for word in name_words(text) if len(word) >= MIN_LETTERS - 1 and not word.isdigit()})
    return _CatalogWords(tuple(map(ref, entries)), counts, frozenset(map(stem, counts)))


def _beginning(entry: CatalogEntry, limit: int) -> str:
    """The first characters of an entry's texts, `limit` at most, without a word that would be cut."""
    parts: list[str] = []
    remaining = limit
    for part in chain((entry.name, entry.title or ""), sorted(entry.tags), (entry.description,)):
        if len(part) > remaining:
            while remaining and part[remaining].isalnum():
                remaining -= 1
            parts.append(part[:remaining])
            break
        parts.append(part)
        remaining -= len(part)
    return "\n".join(parts)


def _one_error_away(word: str, vocabulary: Iterable[str]) -> list[str]:
    """The vocabulary's words that one typing error turns into `word`."""
    # The error is in one place: of what is before and what is after it, one is half of the word, or nearly.
    half = len(word) // 2 - 1
    head, tail = word[:half], word[-half:]
    lengths = range(len(word) - 1, len(word) + 2)
    return [
        other
        for other in vocabulary
        if (other.startswith(head) or other.endswith(tail)) and len(other) in lengths and _one_error(word, other)
    ]


def _one_error(word: str, other: str) -> bool:
    """Whether one typing error turns `other` into `word`. In the shortest words another letter makes another word."""
    shorter = min(len(word), len(other))
    start = next((place for place in range(shorter) if word[place] != other[place]), shorter)
    end = next((place for place in range(shorter - start) if word[-1 - place] != other[-1 - place]), shorter - start)
    left, right = word[start : len(word) - end], other[start : len(other) - end]
    if len(left) == len(right) == 1:
        return len(word) > MIN_LETTERS
    return len(left) + len(right) == 1 or (len(left) == 2 and left == right[::-1])
