"""The lexical ranker, the default of `codecall:search`: BM25 over words plus character n-grams; no model needed.

The option that selects it is called `tfidf`. A document's score is a weighted sum of three parts, each divided by the
best there is:

- words: BM25 over the stemmed words of name, title, description, parameters, tags and examples. Where a document lacks
  a word of the query, the best of its synonyms and its family (fail, failure) stands in for it at a lower weight;
- spelling: the cosine of character n-grams of name, app and description: typing errors, compounds, and inflections that
  the stemmer does not know;
- name: the share of the tool's name that the query names, by how rare its words are in names.

The tools of an app are raised by how many words of the request the app has, whichever of its tools has them, and by how
well the best of them fits.

What a tool's server says of itself counts a little, for words of the query that the tool does not have: it finds the
tools of a server that says GitHub where they only say issue, and never places a tool that has no word of the query
before one that has.

A word that no document has is searched as the one it misspells, if any (`spelling.py`). A request for several things is
also searched part by part, so that each of them finds its tool; and there a tool loses a little for what better ones
have of the request too, so that many tools for one thing leave room for those for the others.

How rare a word is, and how long documents are, is counted over what the caller sees: what others see changes nothing.
The returned score says how well the best tool fits the query in absolute terms, and how the others compare with it
(`evidence.py`).

The constants were chosen with `make bench-search`, which prints what each ingredient brings.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from codecall.catalog.entries import CatalogEntry
from codecall.catalog.search.analysis import (
    DEFAULT_FIELD_WEIGHTS,
    MAX_REQUEST_PARTS,
    NO_STOP_WORDS,
    STOP_WORDS,
    WORD,
    FieldWeights,
    IndexedDocument,
    document_from_entry,
    family_root,
    name_words,
    split_request,
    terms,
)
from codecall.catalog.search.evidence import (
    MANY_THINGS,
    MAX_COMPARED,
    AppGroups,
    Doubles,
    PartScores,
    SpellingScores,
    TermScores,
    app_shares,
    relative_to_best,
    repeated_shares,
    spread_power,
    word_rarity,
)
from codecall.catalog.search.intents import DESTROYS, Intent, intent_factors, query_intents, to_destroy, tool_intent
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
from codecall.catalog.search.synonyms import COMMON_WORDS, FILLER_WORDS, replace_phrases, synonyms_by_stem, synonyms_of
from codecall.catalog.search.text_quota import TextQuota
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
    app_words: float = 0.3
    """How much the app that has most of a request's words, wherever in its tools they are, raises its tools; other apps
    by the cube of their share of that. Of a request for several things, this goes part by part."""
    siblings: float = 1.0
    """How much the best tool of the app that fits best raises the others; those of other apps by the square of how well
    the app fits."""
    about: float = 0.3
    """Weight of the share of a query that only the tool's server says."""
    request_parts: float = 0.8
    """Weight of the best part of a request for several things; that of the whole query is 1."""
    repetition: float = 0.15
    """What a tool loses in a request for several things, if those that fit better have all it has of the request."""
    synonym: float = 0.6
    """Weight of a word's synonym, in documents that lack the word itself."""
    name_synonym: float = 0.5
    """Weight of a word's synonym in a name."""
    correction: float = 0.85
    """Weight of the word that stands in for a mistyped one; 0: none does."""
    padding: float = 0.7
    """Weight of words that only pad a request."""
    number: float = 0.5
    """Weight of numbers: in a request they are mostly values, in a tool examples and limits."""
    families: bool = True
    """Whether words of one family stand in for each other as synonyms do."""
    saturation: float = 1.2
    """BM25's k1: how soon further occurrences of a word stop counting."""
    length: float = 0.6
    """BM25's b: how much long descriptions are discounted."""
    fields: FieldWeights = DEFAULT_FIELD_WEIGHTS


_STEPS = 2.0**16
"""Rarities of the words of names are multiples of one divided by this."""


class LexicalRanker:
    """Ranks documents by the words of a query.

    Args:
        weights: The weights of the parts of a score.
        synonyms: Groups of words that stand for each other, beside those of `synonyms.py`. Whoever gives them knows
            this catalog: each counts as the word itself.
    """

    def __init__(self, weights: LexicalWeights = LexicalWeights(), synonyms: Iterable[Iterable[str]] = ()) -> None:
        self._weights = weights
        given = [tuple(group) for group in synonyms]
        self._synonyms = synonyms_by_stem(given)
        self._equals = synonyms_of(given)
        self._index = InvertedIndex()
        self._quota = TextQuota()

    def add(self, ids: Sequence[int], entries: Sequence[CatalogEntry]) -> None:
        """Indexes entries under these ids: about 0.3 ms each. One thread at a time."""
        with defer_full_collections():
            documents = [self._document(number, entry) for number, entry in zip(ids, entries, strict=True)]
            self._index.add(ids, documents, [tool_intent(entry) for entry in entries])

    def remove(self, ids: Collection[int]) -> None:
        """Removes entries. The same thread."""
        self._quota.remove(ids)
        self._index.remove(ids)

    def scores(self, view: Ints, query: str) -> Floats:
        """Returns how well each document of `view` fits, 0 to 1. Any thread; a few milliseconds over 10,000."""
        return self._scorer(view).scores(query)

    def prefer_intended(self, view: Ints, query: str, scores: Floats) -> Floats:
        """Returns the scores of `view`, lowered for tools that do something else than `query` asks for
        (`intents.py`), or destroy something else, and for those that repeat what better ones have of a request for
        several things. The best score stays: it says how well anything fits."""
        scorer = self._scorer(view)
        query = scorer.rewrite(query)
        intents = self._index.snapshot.intents[view]
        lowered = scores * intent_factors(query_intents(query), intents)
        destroys = (intents & Intent.DESTROY) > 0
        meant = destroys & scorer.named_any(to_destroy(query))
        if meant.any():
            lowered[destroys & ~meant] *= DESTROYS
        best = float(lowered.max(initial=0.0))
        return scorer.lower_repetition(query, lowered * (float(scores.max()) / best)) if best else scores

    def rewrite(self, view: Ints, query: str) -> str:
        """Returns the query as it is searched in `view`: some phrases replaced, typing errors corrected."""
        return self._scorer(view).rewrite(query)

    def _document(self, number: int, entry: CatalogEntry) -> IndexedDocument:
        document = document_from_entry(entry, self._weights.fields, COMMON_WORDS, self._quota.max_chars(entry))
        self._quota.add(number, entry, document.chars)
        return document

    def _scorer(self, view: Ints) -> _QueryScorer:
        return _QueryScorer(self._index.snapshot, view, self._weights, self._synonyms, self._equals)


class _QueryScorer:
    """Scores one query over the documents that one caller sees."""

    def __init__(
        self,
        shelf: IndexSnapshot,
        view: Ints,
        weights: LexicalWeights,
        relatives: Mapping[str, tuple[str, ...]],
        equals: Mapping[str, tuple[str, ...]],
    ) -> None:
        self._snapshot = shelf
        self._weights = weights
        self._synonyms = relatives
        self._equals = equals
        self._view = view
        self._size = len(shelf.lengths)
        self._visible: Flags = np.zeros(self._size, np.bool_)
        self._visible[view] = True
        # In double precision the sum is exact, so the order of the view does not matter.
        mean = float(shelf.lengths[view].mean(dtype=np.float64)) if len(view) else 1.0
        relative = shelf.lengths / (mean or 1.0)
        self._saturation: Floats = weights.saturation * (1 - weights.length + weights.length * relative)
        self._terms: dict[str, TermScores] = {}
        self._names: dict[str, Ints] = {}
        self._spellings: dict[str, SpellingScores] = {}
        self._corrected: set[str] = set()

    def scores(self, query: str) -> Floats:
        """Returns the score of each document of the view."""
        query = self.rewrite(query)
        texts = split_request(query, MAX_REQUEST_PARTS)
        whole = self._part(query, by_app=not texts)
        if whole is None:
            return np.zeros(len(self._view), np.float32)
        mixed = whole.mixed
        parts = [part for text in texts if (part := self._part(text, by_app=True)) is not None]
        if len(parts) > 1:
            mixed = mixed + self._weights.request_parts * np.maximum.reduce([part.mixed for part in parts])
        visible = self._with_siblings(mixed[self._view])
        best = float(visible.max(initial=0.0))
        if not best:
            return np.zeros(len(self._view), np.float32)
        documents = self._view[visible == best]
        lengths = self._snapshot.lengths[documents]
        fit = max(part.fit(documents, lengths, len(whole.terms)) for part in (whole, *parts))
        return ((visible / best) ** spread_power(fit) * fit).astype(np.float32)

    @cached_property
    def _apps(self) -> AppGroups:
        """The apps of the view."""
        _, group_of, sizes = np.unique(self._snapshot.apps[self._view], return_inverse=True, return_counts=True)
        return AppGroups(group_of, sizes)

    def _with_siblings(self, scores: Floats) -> Floats:
        """Raises the scores of the view by how well the best tool of the same app fits: who asks for several things
        often means one app, and some of its tools say little of themselves."""
        apps = self._snapshot.apps[self._view]
        best_of_app = np.zeros(int(apps.max(initial=0)) + 1, np.float32)
        np.maximum.at(best_of_app, apps, scores)
        best = np.where(apps > 0, best_of_app[apps], scores)
        return (scores * (1 + self._weights.siblings * relative_to_best(best) ** 2)).astype(np.float32)

    def lower_repetition(self, query: str, scores: Floats) -> Floats:
        """Returns these scores of the view, lowered for what documents that score higher have of the request too."""
        lost = self._weights.repetition
        if not lost or len(split_request(query, MAX_REQUEST_PARTS)) < MANY_THINGS:
            return scores
        least = np.partition(scores, -MAX_COMPARED)[-MAX_COMPARED] if len(scores) > MAX_COMPARED else 0
        first = np.flatnonzero((scores >= least) & (scores > 0))
        found = [self._term(word) for word in dict.fromkeys(terms(query))]
        lowered = scores.copy()
        lowered[first] *= 1 - lost * repeated_shares(found, self._view[first], scores[first])
        return lowered

    def rewrite(self, query: str) -> str:
        """Returns the query with its phrases replaced, and for each word that looks like a typing error one of the
        visible documents."""
        query = replace_phrases(query, self._is_named)
        return self._corrected_query(query) if self._weights.correction else query

    def named_any(self, words: Sequence[str]) -> Flags:
        """Returns which documents of the view have one of these words, or one that stands for it, in their names."""
        named = np.zeros(self._size, np.bool_)
        for word in terms(" ".join(words)):
            for each in (word, *self._relatives(word)):
                named[self._named(each)] = True
        return named[self._view]

    def _is_named(self, word: str) -> bool:
        return len(self._named(word)) > 0

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
        return any(
            stem in self._synonyms or stem in FILLER_WORDS or len(self._counts(stem)[0]) or self._is_about(stem)
            for stem in stems
        )

    def _is_about(self, stem: str) -> bool:
        """Whether the server of a visible document says this word of itself."""
        places = [place for place, text in enumerate(self._snapshot.about_words) if stem in text]
        return bool(places) and bool(np.isin(self._snapshot.abouts[self._view], places).any())

    def _spelled(self, word: str) -> tuple[Ints, Floats]:
        return self._postings((segment.spellings for segment in self._snapshot.segments), word)

    def _part(self, text: str, *, by_app: bool) -> PartScores | None:
        """The scores of one text; `by_app`: raised by what apps as a whole have of it."""
        words = terms(text) or terms(text, stop=NO_STOP_WORDS)
        if not words:
            return None
        term_scores = [self._term(word) for word in dict.fromkeys(words)]
        by_words = np.zeros(self._size, np.float32)
        for term in term_scores:
            by_words += term.weight * term.found
        by_spelling = self._spelling(text)
        by_name = self._name(terms(text, stop=NO_STOP_WORDS))
        w = self._weights
        mixed = (
            relative_to_best(by_words) + w.spelling * relative_to_best(by_spelling) + w.name * relative_to_best(by_name)
        )
        mixed = (mixed / (1 + w.spelling + w.name)).astype(np.float32)
        if by_app and w.app_words and len(self._apps.sizes) > 1:
            mixed[self._view] *= 1 + w.app_words * app_shares(term_scores, self._view, self._apps) ** 3
        if len(self._snapshot.about_words) > 1:
            own, term_scores = term_scores, [self._with_about(word, self._term(word)) for word in dict.fromkeys(words)]
            wanted = sum(term.weight * term.rarity for term in own)
            by_about = np.zeros(self._size, np.float32)
            for before, term in zip(own, term_scores, strict=True):
                by_about += term.weight * (term.found - before.found) / (wanted or 1)
            mixed = _add_below(mixed, w.about * by_about, by_words > 0)
        return PartScores(mixed, term_scores, by_spelling, by_name)

    def _term(self, word: str) -> TermScores:
        term = self._terms.get(word)
        if term is None:
            scores = np.zeros(self._size, np.float32)
            counts = self._counts(word)
            rarity = self._rarity(len(counts[0]))
            self._add_counts(scores, counts, rarity)
            for other in self._relatives(word):
                if len((counts := self._counts(other))[0]):
                    # A synonym is worth no more than the word it stands for.
                    worth = self._weights.synonym * min(rarity, self._rarity(len(counts[0])))
                    self._add_counts(scores, counts, rarity if other in self._equals.get(word, ()) else worth)
            weight = self._weights.padding if word in FILLER_WORDS else 1.0
            weight *= self._weights.number if word.isdigit() else 1.0
            weight *= self._weights.correction if word in self._corrected else 1.0
            term = self._terms[word] = TermScores(weight, rarity, scores)
        return term

    def _with_about(self, word: str, term: TermScores) -> TermScores:
        """The term as found also where a document's server says the word of itself, and the document does not."""
        said = np.array([word in text for text in self._snapshot.about_words])
        if not said.any():
            return term
        only_there = said[self._snapshot.abouts] & self._visible & (term.found == 0)
        return term._replace(found=np.where(only_there, term.rarity, term.found).astype(np.float32))

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
        return word_rarity(documents, len(self._view))

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
        scores = np.zeros(self._size, np.float64)
        for word, weight in weights.items():
            ids = self._named(word)
            if len(ids):
                scores[ids] += weight * self._name_rarity(len(ids))
        return (scores / self._name_sizes).astype(np.float32)

    def _named(self, word: str) -> Ints:
        """The visible documents whose name holds a word."""
        found = self._names.get(word)
        if found is None:
            found, _ = self._postings((segment.names for segment in self._snapshot.segments), word)
            self._names[word] = found
        return found

    def _name_rarity(self, documents: int | NDArray[np.intp]) -> Doubles:
        """How much a word of a name says. In steps, so that sums are exact in any order."""
        return np.round(np.log1p((len(self._view) - documents + 0.5) / (documents + 0.5)) * _STEPS) / _STEPS

    @cached_property
    def _name_sizes(self) -> Doubles:
        """How much the words of each name say together."""
        sizes = np.zeros(self._size, np.float64)
        found: list[tuple[Ints, Ints]] = []
        for segment in self._snapshot.segments:
            documents = segment.ids[segment.names.rows]
            seen = self._visible[documents]
            found.append((documents[seen], segment.names.columns_of_values[seen]))
        spread = sum(np.bincount(columns, minlength=len(self._snapshot.word_ids)) for _, columns in found)
        for documents, columns in found:
            sizes += np.bincount(documents, self._name_rarity(spread)[columns], minlength=self._size)
        sizes[sizes == 0] = 1
        return sizes

    def _spelling(self, text: str) -> Floats:
        words = name_words(text)
        parts = [self._word_spelling(word) for word in [w for w in words if w not in STOP_WORDS] or words]
        scores = np.zeros(self._size, np.float32)
        weights: defaultdict[int, float] = defaultdict(float)
        for part in parts:
            scores += part.found
            for gram, weight in part.grams.items():
                weights[gram] += weight
        length = sqrt(sum(weight * weight for weight in weights.values()))
        return scores / length if length else scores

    def _word_spelling(self, word: str) -> SpellingScores:
        part = self._spellings.get(word)
        if part is None:
            part = self._spellings[word] = self._count_ngrams(word)
        return part

    def _count_ngrams(self, word: str) -> SpellingScores:
        ids, counts = text_ngrams([word])
        rows = np.zeros(0, np.int32)
        values = np.zeros(0, np.float32)
        grams = np.zeros(0, np.int32)
        for segment in self._snapshot.segments:
            found, parts, sizes = segment.grams.columns(ids)
            documents = segment.ids[found]
            seen = self._visible[documents]
            rows = np.concatenate((rows, documents[seen]))
            values = np.concatenate((values, parts[seen]))
            grams = np.concatenate((grams, np.repeat(np.arange(len(ids), dtype=np.int32), sizes)[seen]))
        spread = np.bincount(grams, minlength=len(ids))
        weights = counts * (np.log((1 + len(self._view)) / (1 + spread)) + 1)
        scores = np.bincount(rows, values * weights[grams], minlength=self._size).astype(np.float32)
        return SpellingScores(dict(zip(ids, weights.tolist(), strict=True)), scores)


def _add_below(scores: Floats, bonus: Floats, first: Flags) -> Floats:
    """Adds a bonus to scores; those that are not `first` stay below those that are."""
    raised: Floats = scores + bonus
    if first.any():
        highest = np.float32(0.99) * scores[first].min()
        raised = np.where(first, raised, np.maximum(scores, np.minimum(raised, highest)))
    return raised.astype(np.float32)
