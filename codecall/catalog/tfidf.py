"""The lexical index, the default of `codecall:search`: TF-IDF over the words of every tool, no model needed.

A tool becomes a bag of stemmed words (`text.terms`): its name counts three times; title, description, parameter
names and descriptions, tags, appId and the descriptions of its author's examples once. Its score for a query adds

- coverage: how much of the query's information (BM25 weights: saturated, normalised by length) the tool holds, and
- likeness: the cosine of the sub-linear TF-IDF vectors;

and each word of the query also reaches, at a lower weight, those words of the catalogue that look like it (character
n-grams): that finds typing errors, compounds, and inflections the stemmer does not know. Both parts lie between 0 and 1
whatever the size of the catalogue, so a threshold means the same on ten tools and on ten thousand.

The constants were chosen with `python benchmarks/search_quality.py --data FOLDER`, which prints recall, nDCG, the
calibration of the scores and what each ingredient is worth.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from codecall.catalog.entries import CatalogEntry
from codecall.catalog.index import Hit
from codecall.catalog.matrices import Floats, WordShapes, postings_of
from codecall.catalog.text import terms

NO_WORDS = frozenset[str]()
"""Nothing is left out of names, nor of queries made of stop words only: `who_am_i` must be found by "who am I"."""

MAX_SCHEMA_DEPTH = 6
"""Levels of nested parameters that are read: what lies deeper says little about the tool."""


@dataclass(frozen=True, slots=True)
class Weights:
    """How the parts of a score are mixed. The defaults are what the index uses; the benchmark varies them."""

    name: int = 3
    """How often a word of the name counts."""
    coverage: float = 0.55
    """Share of the BM25 part."""
    likeness: float = 0.45
    """Share of the cosine part."""
    unknown: float = 1.0
    """Weight of look-alikes of a query word the catalogue does not have, times their likeness."""
    unknown_least: float = 0.3
    """Least likeness (cosine of n-grams) of such a look-alike."""
    known: float = 0.3
    """Weight of look-alikes of a query word the catalogue has, times their likeness."""
    known_least: float = 0.4
    """Least likeness of such a look-alike."""
    saturation: float = 1.2
    """BM25's k1: how soon further occurrences of a word stop counting."""
    length: float = 0.6
    """BM25's b: how much long descriptions are discounted."""


MAX_ALIKE = 5
"""Look-alikes one word of a query may reach."""

FULL_COVERAGE_WORDS = 4
"""Words of average information up to which a tool must hold all of a query for full coverage; of longer queries it
must hold an ever smaller part (the root of their length): a request of thirty words never stands in one tool."""

SCORE_POWER = 0.6
"""The shown score is the raw one to this power: monotone, so it changes no ranking. It puts the raw score 0.134 at the
default threshold of 0.3, which keeps 72.5 of 75.9 points of recall@5 on the development sets and silences 14 % of the
queries made for quite other catalogues; a cut that silences half of them would cost 15 points. Plain
requests score above 0.4, small talk mostly below 0.3 (`tests/catalog/test_tfidf.py`)."""

LEAST_SCORE = 0.1
"""Scores below are noise and count as no hit."""


class TfidfIndex:
    """A catalogue indexed by its words. Building 10,000 tools takes a few seconds: do it in a thread."""

    def __init__(self, entries: Sequence[CatalogEntry], weights: Weights = Weights()) -> None:
        self._names = [entry.name for entry in entries]
        self._weights = weights
        lengths = np.zeros(len(entries), dtype=np.float32)

        def documents() -> Iterator[list[str]]:
            # One at a time: thousands of lists alive at once would set off the garbage collector, which stops the
            # event loop for a tenth of a second in a large process.
            for number, entry in enumerate(entries):
                document = _terms_of(entry, weights.name)
                lengths[number] = len(document)
                yield document

        self._vocabulary, postings = postings_of(documents())
        if postings is None:
            return
        self._postings = postings
        self._shapes = WordShapes(list(self._vocabulary))
        self._shape_numbers = list(self._vocabulary.values())

        spread = np.diff(postings.starts).astype(np.float32)
        self._information = np.log1p((len(entries) - spread + 0.5) / (spread + 0.5)).astype(np.float32)
        self._usual = float(self._information.mean())
        self._usual_cosine_idf = float(postings.cosine_idf.mean())
        slack = weights.saturation * (1 - weights.length + weights.length * lengths / lengths.mean())
        counts = postings.counts
        saturated = counts / (counts + slack[postings.documents])
        self._coverage: Floats = (saturated * np.repeat(self._information, np.diff(postings.starts))).astype(np.float32)

    @property
    def size(self) -> int:
        """Tools in the index."""
        return len(self._names)

    def search(self, query: str) -> list[Hit]:
        """All tools with a score above 0: falling score, then name. A few milliseconds over 5,000 tools."""
        scores = self._scores(query)
        if scores is None:
            return []
        found = np.flatnonzero(scores)
        hits = [Hit(self._names[i], s) for i, s in zip(found.tolist(), scores[found].tolist(), strict=True)]
        hits.sort(key=lambda hit: (-hit.score, hit.name))
        return hits

    def _scores(self, query: str) -> NDArray[np.float64] | None:
        """The shown score of every tool, or None when no word of the query leads anywhere."""
        words = list(dict.fromkeys(terms(query) or terms(query, stop=NO_WORDS)))
        if not words or not self._vocabulary:
            return None
        reached, information = self._reach(words)
        if not reached:
            return None
        numbers = np.fromiter(reached.keys(), dtype=np.int32)
        strengths = np.fromiter(reached.values(), dtype=np.float32)
        coverage = strengths * (
            self._weights.coverage / min(information, (information * FULL_COVERAGE_WORDS * self._usual) ** 0.5)
        )
        # The length of the whole query's vector, so that words which lead nowhere count against the likeness too.
        norm = float(np.linalg.norm([self._cosine_idf_of(word) for word in words]))
        likeness = strengths * self._postings.cosine_idf[numbers] * (self._weights.likeness / norm)
        raw = np.zeros(len(self._names), dtype=np.float64)
        for number, cover, like in zip(numbers.tolist(), coverage.tolist(), likeness.tolist(), strict=True):
            part = self._postings.slice_of(number)
            raw[self._postings.documents[part]] += cover * self._coverage[part] + like * self._postings.cosine[part]
        scores = np.round(np.minimum(raw, 1.0) ** SCORE_POWER, 4).astype(np.float64)
        scores[scores < LEAST_SCORE] = 0.0
        return scores

    def _cosine_idf_of(self, word: str) -> float:
        number = self._vocabulary.get(word)
        return self._usual_cosine_idf if number is None else float(self._postings.cosine_idf[number])

    def _reach(self, words: Sequence[str]) -> tuple[dict[int, float], float]:
        """The vocabulary numbers the query words lead to with their strength, and the information the query holds."""
        weights = self._weights
        reached: dict[int, float] = {}
        information = 0.0
        own = [self._vocabulary.get(word) for word in words]
        for number in own:
            if number is not None:
                reached[number] = 1.0
            information += self._usual if number is None else float(self._information[number])
        alike = self._shapes.alike(words, least=min(weights.unknown_least, weights.known_least), most=MAX_ALIKE)
        for number, looks in zip(own, alike, strict=True):
            share, least = (
                (weights.unknown, weights.unknown_least) if number is None else (weights.known, weights.known_least)
            )
            for shape, likeness in looks:
                if share and likeness >= least:
                    other = self._shape_numbers[shape]
                    reached[other] = max(reached.get(other, 0.0), share * likeness)
        return reached, information


def _terms_of(entry: CatalogEntry, name_weight: int) -> list[str]:
    """The bag of words of one tool, each as often as it counts."""
    found = terms(entry.name, stop=NO_WORDS) * name_weight
    found += terms(entry.app_id)
    for text in (entry.title, entry.description):
        if text:
            found += terms(text)
    for tag in sorted(entry.tags):
        found += terms(tag)
    for text in _parameter_texts(entry.input_schema, MAX_SCHEMA_DEPTH):
        found += terms(text)
    for example in entry.examples:
        found += terms(example.description)
    return found


def _parameter_texts(schema: Mapping[str, object], depth: int) -> Iterator[str]:
    """Names and descriptions of the parameters, nested ones too."""
    properties = schema.get("properties")
    if not isinstance(properties, Mapping) or not depth:
        return
    for name, inner in cast(Mapping[str, object], properties).items():
        yield name
        if not isinstance(inner, Mapping):
            continue
        parameter = cast(Mapping[str, object], inner)
        description = parameter.get("description")
        if isinstance(description, str):
            yield description
        yield from _parameter_texts(parameter, depth - 1)
        items = parameter.get("items")
        if isinstance(items, Mapping):
            yield from _parameter_texts(cast(Mapping[str, object], items), depth - 1)
