"""What documents have of a query, and how well the best of them fit it in absolute terms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from codecall.catalog.search.inverted_index import Floats, Ints

Doubles = NDArray[np.float64]

MAX_HITS = 5
"""Words of a query that a document has: more say no more."""

MANY_THINGS = 3
"""Parts from which on a request asks for several things; two sentences are often about one."""

MAX_COMPARED = 100
"""Documents that are compared with those before them, and those that score the same as the last."""

APP_SIZE_POWER = 0.25
"""What an app has of a text is divided by this power of how many documents it has: a large one has some of any text."""

LONG_QUERY, LONGEST_QUERY = 4, 15
"""Words from which on a query is a task rather than a remark, and from which on more words say no more."""


class TermScores(NamedTuple):
    """A word of a query, and its contribution to the score of each document."""

    weight: float
    rarity: float
    found: Floats


class SpellingScores(NamedTuple):
    """The weight of each n-gram of a word of a query, and what they add to the score of each document."""

    grams: dict[int, float]
    found: Floats


class AppGroups(NamedTuple):
    """Documents by app; those without an app count as one."""

    group_of: NDArray[np.intp]
    """The group of each document."""
    sizes: NDArray[np.intp]
    """How many documents each group has."""


class PartScores(NamedTuple):
    """The scores of one text, combined and by themselves."""

    mixed: Floats
    terms: list[TermScores]
    spelling: Floats
    name: Floats

    def fit(self, documents: Ints, lengths: Floats, words: int) -> float:
        """How well the one of these documents that fits best does so in absolute terms, 0 to 1, given how much their
        words count in all, in a query of so many words."""
        wanted = sum(term.weight * term.rarity for term in self.terms)
        found = np.array([term.found[documents] for term in self.terms])
        held: Doubles = np.array([term.weight for term in self.terms]) @ found.astype(np.float64)
        fits = absolute_score(
            held / (wanted or 1.0),
            self.spelling[documents],
            self.name[documents],
            np.count_nonzero(found, axis=0),
            lengths,
            words=words,
        )
        return float(fits.max())


def absolute_score(
    covered: Doubles, likeness: Floats, name: Floats, hits: NDArray[np.intp], lengths: Floats, *, words: int
) -> Doubles:
    """Returns how well documents fit a text, 0 to 1.

    A logistic function, fitted on right answers to the queries of the development sets (with one set left out at a
    time), on queries of one to four words taken from tools, and on 60 sentences that have nothing to do with tools
    (`docs/internals/benchmarks.md`).

    Args:
        covered: The share of the text's words in each document, by their rarity.
        likeness: The cosine of n-grams.
        name: The share of each document's name in the text.
        hits: How many words of the text each has: one is often there by chance, four are not.
        lengths: How much the words of each count in all: what says much of itself has some words of any text.
        words: How many words the whole query has: small talk has few, and a task told in many shares few of them with
            its tool.
    """
    evidence = 1.6 * covered + 1.8 * likeness + 0.3 * name + 1.15 * np.log(np.minimum(hits, MAX_HITS) + 0.5) - 1.43
    evidence = evidence - 0.28 * np.log(lengths + 1)
    evidence = evidence + 2.1 * np.log(np.clip(words, LONG_QUERY, LONGEST_QUERY) / LONG_QUERY)
    return 1 / (1 + np.exp(-evidence))


def repeated_shares(terms: Sequence[TermScores], documents: Ints, scores: Floats) -> Doubles:
    """Returns, for each of these documents, how much of what it has of a query those that score higher have too."""
    order = np.argsort(-scores, kind="stable")
    held: Doubles = np.array([term.weight * term.found[documents[order]] for term in terms], np.float64)
    # The first column stands for nothing; those that score the same are not before each other.
    before = np.maximum.accumulate(np.pad(held, ((0, 0), (1, 0))), axis=1)
    places = np.searchsorted(-scores[order], -scores[order])
    total = held.sum(axis=0)
    shares = np.zeros(len(documents))
    shares[order] = np.minimum(held, before[:, places]).sum(axis=0) / np.where(total > 0, total, 1)
    return shares


def app_shares(terms: Sequence[TermScores], documents: Ints, apps: AppGroups) -> Floats:
    """Returns, for each of these documents, how much its app as a whole has of a text, relative to the best app.

    A word counts where any document of the app has it, by how few apps have it: who names a board and its tickets means
    the app that has both, even where one tool has the board and another the tickets.
    """
    shares = np.zeros(len(apps.sizes))
    for term in terms:
        has = np.zeros(len(shares), np.bool_)
        has[apps.group_of[term.found[documents] > 0]] = True
        shares += has * (term.weight * word_rarity(int(has.sum()), len(shares)))
    return relative_to_best((shares / apps.sizes**APP_SIZE_POWER).astype(np.float32))[apps.group_of]


def word_rarity(documents: int, total: int) -> float:
    """Returns how much a word says that so many documents have, or apps, of all there are."""
    return float(np.log1p((total - documents + 0.5) / (documents + 0.5)))


def spread_power(fit: float) -> float:
    """Returns the power of the other documents' scores relative to the best, which fits so well.

    What has a quarter of the best score is about at the default threshold, however well the best fits: where all fit
    badly, the right one is often not the first.
    """
    return float(np.clip(np.log(max(fit, 0.01) / 0.3) / np.log(4), 0.1, 0.5))


def relative_to_best(scores: Floats) -> Floats:
    """Returns the scores divided by the best."""
    best = float(scores.max(initial=0.0))
    return scores / best if best else scores
