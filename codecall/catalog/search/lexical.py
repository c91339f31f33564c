"""The lexical ranker, the default of `codecall:search`: BM25 over words plus character n-grams; no model needed.

The option that selects it is called `tfidf`. A document's score is a weighted sum of three parts, each divided by the
best there is:

- words: BM25 over the stemmed words of name, title, description, parameters, tags and examples. Where a document lacks
  a word of the query, the best of its synonyms and its family (fail, failure) stands in for it at a lower weight;
- spelling: the cosine of character n-grams of name, app and description: typing errors, compounds, and inflections that
  the stemmer does not know;
- name: the share of the tool's name that the query names.

A word that no document has is searched as the one it misspells, if any (`spelling.py`). A request for several things is
also searched part by part, so that each of them finds its tool.

How rare a word is, and how long documents are, is counted over what the caller sees: what others see changes nothing.
The returned score says how well the best tool fits the query in absolute terms, and how the others compare with it.

The constants were chosen with `make bench-search`, which prints what each ingredient brings.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from codecall.catalog.entries import CatalogEntry
from codecall.catalog.search.analysis import (
    DEFAULT_FIELD_WEIGHTS,
    MAX_REQUEST_PARTS,
    NO_STOP_WORDS,
    STOP_WORDS,
    WORD,
    FieldWeights,
    document_from_entry,
    family_root,
    name_words,
    split_request,
    terms,
)
from codecall.catalog.search.intents import asked_intents, intent_factors, tool_intent
from codecall.catalog.search.inverted_index import (
    Flags,
    Floats,
    IndexSnapshot,
    Ints,
    InvertedIndex,
    Postings,
    text_ngrams,
)
from codecall.catalog.search.spelling import MIN_LETTERS
from codecall.catalog.search.synonyms import FILLER_WORDS, replace_phrases, synonyms_by_stem
from codecall.concurrency import defer_full_collections

MAX_CHECKED_WORDS = 30
"""Unknown words of a query that are looked up for typing errors, from its beginning."""


@dataclass(frozen=True, slots=True)
class LexicalWeights:
    """The weights of the parts of a score. The index uses the defaults; the benchmark varies them."""

    spelling: float = 0.4
    """Weight of the spelling; that of the words is 1."""
    name: float = 0.2
    """Weight of the name."""
    request_parts: float = 0.6
    """Weight of the best part of a request for several things; that of the whole query is 1."""
    synonym: float = 0.6
    """Weight of a word's synonym, in documents that lack the word itself."""
    name_synonym: float = 0.4
    """Weight of a word's synonym in a name."""
    correction: float = 0.85
    """Weight of the word that stands in for a mistyped one; 0: none does."""
    padding: float = 0.7
    """Weight of words that only pad a request."""
    families: bool = True
    """Whether words of one family stand in for each other as synonyms do."""
    saturation: float = 1.2
    """BM25's k1: how soon further occurrences of a word stop counting."""
    length: float = 0.6
    """BM25's b: how much long descriptions are discounted."""
    fields: FieldWeights = DEFAULT_FIELD_WEIGHTS


class _TermScores(NamedTuple):
    """A word of a query, and its contribution to the score of each document."""

    weight: float
    rarity: float
    found: Floats


class _PartScores(NamedTuple):
    """The combined scores of one text, and how much of it the best document holds."""

    mixed: Floats
    covered: float
    likeness: float


class LexicalRanker:
    """Ranks documents by the words of a query.

    Args:
        weights: The weights of the parts of a score.
        synonyms: Groups of words that stand for each other, beside those of `synonyms.py`.
    """

    def __init__(self, weights: LexicalWeights = LexicalWeights(), synonyms: Iterable[Iterable[str]] = ()) -> None:
        self._weights = weights
        self._synonyms = synonyms_by_stem(synonyms)
        self._index = InvertedIndex()

    def add(self, ids: Sequence[int], entries: Sequence[CatalogEntry]) -> None:
        """Indexes entries under these ids: about 0.3 ms each. One thread at a time."""
        with defer_full_collections():
            documents = [document_from_entry(entry, self._weights.fields) for entry in entries]
            self._index.add(ids, documents, [tool_intent(entry) for entry in entries])

    def remove(self, ids: Collection[int]) -> None:
        """Removes entries. The same thread."""
        self._index.remove(ids)

    def scores(self, view: Ints, query: str) -> Floats:
        """Returns how well each document of `view` fits, 0 to 1. Any thread; a few milliseconds over 10,000."""
        return self._scorer(view).scores(query)

    def prefer_asked(self, view: Ints, query: str, scores: Floats) -> Floats:
        """Returns the scores of `view`, lowered for tools that do something else than `query` asks for
        (`intents.py`). The best score stays: it says how well anything fits."""
        lowered = scores * intent_factors(asked_intents(self.rewrite(view, query)), self._index.snapshot.intents[view])
        best = float(lowered.max(initial=0.0))
        return lowered * (float(scores.max()) / best) if best else scores

    def rewrite(self, view: Ints, query: str) -> str:
        """Returns the query as it is searched in `view`: some phrases replaced, typing errors corrected."""
        return self._scorer(view).rewrite(query)

    def _scorer(self, view: Ints) -> _QueryScorer:
        return _QueryScorer(self._index.snapshot, view, self._weights, self._synonyms)


class _QueryScorer:
    """Scores one query over the documents that one caller sees."""

    def __init__(
        self,
        shelf: IndexSnapshot,
        view: Ints,
        weights: LexicalWeights,
        relatives: Mapping[str, tuple[str, ...]],
    ) -> None:
        self._snapshot = shelf
        self._weights = weights
        self._synonyms = relatives
        self._view = view
        self._size = len(shelf.lengths)
        self._visible: Flags = np.zeros(self._size, np.bool_)
        self._visible[view] = True
        # In double precision the sum is exact, so the order of the view does not matter.
        mean = float(shelf.lengths[view].mean(dtype=np.float64)) if len(view) else 1.0
        relative = shelf.lengths / (mean or 1.0)
        self._saturation: Floats = weights.saturation * (1 - weights.length + weights.length * relative)
        self._terms: dict[str, _TermScores] = {}
        self._corrected: set[str] = set()

    def scores(self, query: str) -> Floats:
        """Returns the score of each document of the view."""
        query = self.rewrite(query)
        query_scores = self._part(query)
        if query_scores is None:
            return np.zeros(len(self._view), np.float32)
        mixed, covered, likeness = query_scores
        parts = [part for text in split_request(query, MAX_REQUEST_PARTS) if (part := self._part(text)) is not None]
        if len(parts) > 1:
            mixed = mixed + self._weights.request_parts * np.maximum.reduce([part.mixed for part in parts])
            covered = max(covered, *(part.covered for part in parts))
            likeness = max(likeness, *(part.likeness for part in parts))
        best = float(mixed.max(initial=0.0))
        if not best:
            return np.zeros(len(self._view), np.float32)
        return (np.sqrt((mixed / best)[self._view]) * absolute_score(covered, likeness)).astype(np.float32)

    def rewrite(self, query: str) -> str:
        """Returns the query with its phrases replaced, and for each word that looks like a typing error one of the
        visible documents."""
        query = replace_phrases(query, self._is_named)
        return self._corrected_query(query) if self._weights.correction else query

    def _is_named(self, word: str) -> bool:
        ids, _ = self._postings((segment.names for segment in self._snapshot.segments), word)
        return len(ids) > 0

    def _corrected_query(self, query: str) -> str:
        checked = 0

        def replace(match: re.Match[str]) -> str:
            nonlocal checked
            text, word = match.group(), match.group().lower()
            if len(word) < MIN_LETTERS or word in STOP_WORDS or name_words(text) != [word] or self._is_known(word):
                return text
            checked += 1
            correction = self._correction(word) if checked <= MAX_CHECKED_WORDS else None
            self._corrected.update(terms(correction) if correction else ())
            return correction or text

        return WORD.sub(replace, query)

    def _correction(self, word: str) -> str | None:
        """Of the words that the mistyped `word` may stand for, the one that most visible documents have."""
        for others in self._snapshot.vocabulary.one_error_away(word):
            spread = {other: len(self._spelled(other)[0]) for other in others}
            best = min(spread, key=lambda other: (-spread[other], other), default=None)
            if best and spread[best]:
                return best
        return None

    def _is_known(self, word: str) -> bool:
        stems = terms(word, stop=NO_STOP_WORDS)
        return any(stem in self._synonyms or stem in FILLER_WORDS or len(self._counts(stem)[0]) for stem in stems)

    def _spelled(self, word: str) -> tuple[Ints, Floats]:
        return self._postings((segment.spellings for segment in self._snapshot.segments), word)

    def _part(self, text: str) -> _PartScores | None:
        words = terms(text) or terms(text, stop=NO_STOP_WORDS)
        if not words:
            return None
        term_scores = [self._term(word) for word in dict.fromkeys(words)]
        by_words = np.zeros(self._size, np.float32)
        wanted = 0.0
        for term in term_scores:
            by_words += term.weight * term.found
            wanted += term.weight * term.rarity
        by_spelling = self._spelling(text)
        by_name = self._name(terms(text, stop=NO_STOP_WORDS))
        w = self._weights
        mixed = (
            _relative_to_best(by_words)
            + w.spelling * _relative_to_best(by_spelling)
            + w.name * _relative_to_best(by_name)
        )
        covered = float(by_words.max(initial=0.0)) / wanted if wanted else 0.0
        return _PartScores(
            (mixed / (1 + w.spelling + w.name)).astype(np.float32), covered, float(by_spelling.max(initial=0.0))
        )

    def _term(self, word: str) -> _TermScores:
        term = self._terms.get(word)
        if term is None:
            scores = np.zeros(self._size, np.float32)
            counts = self._counts(word)
            rarity = self._rarity(len(counts[0]))
            self._add_counts(scores, counts, rarity)
            for synonym in self._relatives(word):
                counts = self._counts(synonym)
                if len(counts[0]):
                    # A synonym is worth no more than the word it stands for.
                    self._add_counts(scores, counts, self._weights.synonym * min(rarity, self._rarity(len(counts[0]))))
            weight = self._weights.padding if word in FILLER_WORDS else 1.0
            weight *= self._weights.correction if word in self._corrected else 1.0
            term = self._terms[word] = _TermScores(weight, rarity, scores)
        return term

    def _relatives(self, word: str) -> Iterator[str]:
        """The words that may stand in for `word`: its synonyms, and its family, as failure for fail."""
        yield from self._synonyms.get(word, ())
        if self._weights.families:
            yield from (other for other in self._snapshot.families.get(family_root(word), ()) if other != word)

    def _add_counts(self, scores: Floats, counts: tuple[Ints, Floats], weight: float) -> None:
        ids, values = counts
        contribution = weight * values / (values + self._saturation[ids])
        scores[ids] = np.maximum(scores[ids], contribution)

    def _rarity(self, documents: int) -> float:
        return float(np.log1p((len(self._view) - documents + 0.5) / (documents + 0.5)))

    def _counts(self, word: str) -> tuple[Ints, Floats]:
        """The visible documents that hold a word, and how much the word counts in each."""
        return self._postings((segment.words for segment in self._snapshot.segments), word)

    def _postings(self, kind: Iterable[Postings], word: str) -> tuple[Ints, Floats]:
        column = self._snapshot.word_ids.get(word)
        ids: list[Ints] = []
        values: list[Floats] = []
        if column is not None:
            for segment, postings in zip(self._snapshot.segments, kind, strict=True):
                part = postings.column(column)
                if part.stop > part.start:
                    ids.append(segment.ids[postings.rows[part]])
                    values.append(postings.values[part])
        if not ids:
            return np.zeros(0, np.int32), np.zeros(0, np.float32)
        documents = np.concatenate(ids)
        seen = self._visible[documents]
        return documents[seen], np.concatenate(values)[seen]

    def _name(self, words: Sequence[str]) -> Floats:
        weights = dict.fromkeys(words, 1.0)
        for word in words:
            for other in self._relatives(word):
                weights.setdefault(other, self._weights.name_synonym)
        scores = np.zeros(self._size, np.float32)
        for word, weight in weights.items():
            ids, parts = self._postings((segment.names for segment in self._snapshot.segments), word)
            scores[ids] += weight * parts
        return scores

    def _spelling(self, text: str) -> Floats:
        words = name_words(text)
        ids, counts = text_ngrams([word for word in words if word not in STOP_WORDS] or words)
        places = np.arange(len(ids))
        documents_of_parts: list[Ints] = []
        values: list[Floats] = []
        of_gram: list[Ints] = []
        for segment in self._snapshot.segments:
            rows, parts, sizes = segment.grams.columns(ids)
            documents = segment.ids[rows]
            seen = self._visible[documents]
            documents_of_parts.append(documents[seen])
            values.append(parts[seen])
            of_gram.append(np.repeat(places, sizes)[seen].astype(np.int32))
        if not documents_of_parts or not ids:
            return np.zeros(self._size, np.float32)
        grams = np.concatenate(of_gram)
        spread = np.bincount(grams, minlength=len(ids))
        weights = counts * (np.log((1 + len(self._view)) / (1 + spread)) + 1)
        weights /= np.linalg.norm(weights)
        contributions = np.concatenate(values) * weights[grams]
        return np.bincount(np.concatenate(documents_of_parts), contributions, minlength=self._size).astype(np.float32)


def absolute_score(covered: float, likeness: float) -> float:
    """Returns how well the best document fits, 0 to 1: from the share of the query's words in it, and the likeness of
    spelling.

    The power puts the default threshold of 0.3 where it costs half a point of recall@5 on the development sets
    (`benchmarks/search_quality.py`). It silences words that lead nowhere, but few of the requests that were made for
    quite another catalog: long ones always share some words with some tool.
    """
    return min(1.0, max(covered, likeness) ** 0.54)


def _relative_to_best(scores: Floats) -> Floats:
    best = float(scores.max(initial=0.0))
    return scores / best if best else scores
