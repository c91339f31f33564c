"""Which words of a catalogue somebody may have meant who mistyped them: what search suggests where nothing fits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain

from codecall.catalog.entries import CatalogEntry
from codecall.catalog.near import near_names
from codecall.catalog.synonyms import ACTIONS, THINGS
from codecall.catalog.text import STOP_WORDS, name_words, stem

MAX_WORDS = 8
"""Words of a text that are looked at, from its beginning."""

READ_WHOLE = 1_000
"""Entries of a catalogue up to which descriptions are read too (30 ms); of a larger one, names and tags hold enough."""

_SHORTEST = 4
"""Letters of a word that is looked at: a shorter one is near to too many."""

_LONG = 8
"""Letters from which two errors in one word are looked for, and one letter fewer of the word that is meant."""

_UNDERSTOOD = frozenset(stem(word) for group in chain(ACTIONS, THINGS) for word in group.split())
"""Words the ranking knows by itself: none of them is an error because this catalogue does without it."""


def spellings(entries: Iterable[CatalogEntry], text: str) -> list[str]:
    """For each word of `text` that is none of these entries', the one of theirs that it looks like, if there is one.

    One letter may be wrong, missing, too many, or swapped with its neighbour; in a word of eight letters or more also
    two. Of several such words, the one that most entries have. Made from these entries alone. Some 20 ms for 1,000
    entries, 100 ms for 10,000: call it in a thread.
    """
    asked = [
        word
        for word in dict.fromkeys(name_words(text))
        if len(word) >= _SHORTEST and word not in STOP_WORDS and stem(word) not in _UNDERSTOOD
    ][:MAX_WORDS]
    if not asked:
        return []
    known = _words(list(entries))
    stems = {stem(word) for word in known}
    asked = [word for word in asked if stem(word) not in stems]
    found: dict[str, list[str]] = {word: [] for word in asked}
    for other in known:
        for word, others in found.items():
            if abs(len(other) - len(word)) <= 1 and _one_error(word, other):
                others.append(other)
    best: list[str] = []
    for word, others in found.items():
        if others:
            best.append(min(others, key=lambda other: (-known[other], other)))
        elif len(word) >= _LONG:
            best += near_names(word, (other for other in known if len(other) >= _LONG - 1), limit=1)
    return list(dict.fromkeys(best))


def _words(entries: Sequence[CatalogEntry]) -> Counter[str]:
    """The words of the entries, and how many entries have each."""
    found: Counter[str] = Counter()
    for entry in entries:
        texts = [entry.name, *entry.tags, entry.title or ""]
        if len(entries) <= READ_WHOLE:
            texts.append(entry.description)
        found.update({word for text in texts for word in name_words(text) if not word.isdigit()})
    return found


def _one_error(word: str, other: str) -> bool:
    """Whether one typing error makes `word` of `other`. In the shortest words another letter makes another word."""
    shorter = min(len(word), len(other))
    start = next((place for place in range(shorter) if word[place] != other[place]), shorter)
    end = next((place for place in range(shorter - start) if word[-1 - place] != other[-1 - place]), shorter - start)
    left, right = word[start : len(word) - end], other[start : len(other) - end]
    if len(left) == len(right) == 1:
        return len(word) > _SHORTEST
    return len(left) + len(right) == 1 or (len(left) == 2 and left == right[::-1])
