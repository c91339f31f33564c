"""Fuses the lexical and the semantic ranking, and selects entries across apps.

Scores of two kinds are compared by how far each entry stands out from the others, in standard deviations: an entry that
stands out in both is the likeliest to be meant. Adding ranks instead (reciprocal rank fusion) cost one point of
recall@5 and of nDCG@10 on the development sets.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import islice
from typing import TypeVar

import numpy as np

from codecall.catalog.entries import CatalogEntry
from codecall.catalog.search.analysis import NO_STOP_WORDS, terms
from codecall.catalog.search.evidence import MANY_THINGS, spread_power
from codecall.catalog.search.indexer import Scores

SEMANTIC_WEIGHT, TWO_PARTS_SEMANTIC_WEIGHT, MANY_PARTS_SEMANTIC_WEIGHT = 1.5, 1.2, 0.8
"""Weight of the semantic ranking, for a request of two parts, and for one of `MANY_THINGS` parts or more; that of the
words is 1. A request of many parts has many values among its words, whose meaning leads astray. With 1.2 for all with
parts recall@5 and nDCG@10 are 0.3 and 0.1 lower; with 1.4 for two parts about the same."""

STEEPNESS = 0.8
"""Power of each lexical score relative to the best, before deviations are taken. With 1.5 only the first few count, and
a tool that both rankings place tenth has no chance: half a point of recall@5 less. Anything from 0.7 to 0.9 does about
as well."""

USUAL_COSINE = 0.1
"""Cosine of texts that have nothing to do with each other."""

UNRELATED = 20
"""Imaginary entries that have nothing to do with the query and are always counted in: where a caller sees three tools,
and all of them fit, none would stand out."""

COSINE_POWER = 0.6
"""Where there are no words, the score of a cosine is this power of it: 0.13 is at the default threshold of 0.3."""

WORDS_EVIDENCE, COSINE_EVIDENCE, NO_EVIDENCE = 2.7, 12.3, -4.2
"""A logistic function of how well the best entry fits by its words (as log-odds) and by its cosine, fitted as
`evidence.absolute_score` is, with MiniLM. With a power of the cosine alone 0 to 38 % of the sentences about other
things were below 0.35, and now 90 % or more in each catalog that has no tool for them; right answers lose 0.6 points of
recall@5 at the default threshold."""

DOUBT, DOUBT_SLOPE = -0.73, 0.2
"""Below this evidence, a score of 0.325, scores fall five times as slowly: a search with `minScore` 0.1 still finds
what fits badly and is right. Falling as fast they would cost 0.3 points there."""

LEAST_FIT, MOST_FIT = 0.2, 0.98
"""Words that fit worse, or better, count as this: a request in other words than the tool's may fit by meaning alone,
from a cosine of 0.57 on."""

MAX_SCORE_GAP = 0.1
"""The largest difference of two scores that are close: the largest round number that costs less than a tenth of a
point. Measured with the ranking by words on the development sets whose tools have servers (LiveMCPBench,
StableToolBench), five places: 4 to 9 % of the answers change, recall@5 falls by at most 0.5 points on any set and by
0.06 in the mean of the eight, nDCG@10 by less. At 0.2 one set loses 5.7 points."""

APP_EVERY = 5
"""One place in so many, and at least one, may go to a further app. Five is the usual length of an answer."""

T = TypeVar("T")

MAX_COMPARED = 100
"""Entries of one app that are compared; of a larger app, evenly spread over it."""


def semantic_scores(cosines: Scores, words: Scores) -> Scores:
    """Returns scores from 0 to 1: from the cosines, and from the words where there is no cosine yet."""
    return np.where(np.isnan(cosines), words, _score_from_cosine(cosines)).astype(np.float32)


def fuse_scores(words: Scores, cosines: Scores, texts: int = 1) -> Scores:
    """Returns scores from 0 to 1 from both rankings, of a request of so many texts: itself, and its parts. An entry
    without a cosine yet is ranked by its words."""
    weight = _semantic_weight(texts - 1)
    has_cosine = ~np.isnan(cosines)
    if not has_cosine.any():
        return words
    best = float(words.max(initial=0.0))
    share = (words / best) ** (STEEPNESS / spread_power(best)) if best else words
    by_words = _deviations(share, 0.0)
    mixed = by_words * (1 + weight)
    mixed[has_cosine] = by_words[has_cosine] + weight * _deviations(cosines[has_cosine], USUAL_COSINE)
    top = float(mixed.max(initial=0.0))
    if top <= 0:
        return np.zeros_like(words)
    fit = _fit(best, float(cosines[has_cosine].max()))
    return ((np.maximum(mixed, 0) / top) ** spread_power(fit) * fit).astype(np.float32)


def best_cosines(parts: Sequence[Scores]) -> Scores:
    """Returns, for a request for several things, each entry's cosine with the part it is nearest to."""
    return np.maximum.reduce(list(parts))


def diversify(
    ranked: Iterable[T],
    top: int,
    *,
    app_of: Callable[[T], Hashable],
    score_of: Callable[[T], float],
    max_gap: float = MAX_SCORE_GAP,
) -> list[T]:
    """Returns the first `top` of `ranked`, with the last places given to further apps where few apps crowd out all
    others.

    While they come from fewer than two apps (of ten or more places: than three, and so on), the best of the next app
    takes the place of the lowest that is not the only one of its app, provided its score is at most `close` below. The
    first never moves, and those that stay keep their order.

    Args:
        ranked: best first. Read no further than needed: past the last place only down to scores that are not close.
        top: places, at least 0.
        app_of: the app of one.
        score_of: its score; must not rise along `ranked`.
        close: largest difference of scores that counts as about as good.
    """
    rest = iter(ranked)
    selected = list(islice(rest, top))
    of_app = Counter(map(app_of, selected))
    wanted = 1 + max(1, top // APP_EVERY)
    while len(of_app) < wanted:
        index = next((n for n in range(len(selected) - 1, 0, -1) if of_app[app_of(selected[n])] > 1), None)
        if index is None:
            break
        least = score_of(selected[index]) - max_gap
        other = next((item for item in rest if app_of(item) not in of_app or score_of(item) < least), None)
        if other is None or score_of(other) < least:
            break
        of_app[app_of(selected.pop(index))] -= 1
        of_app[app_of(other)] = 1
        selected.append(other)
    return selected


def representative_entries(
    entries: Sequence[CatalogEntry], per_app: int, apps: Sequence[str] | None = None
) -> dict[str, list[CatalogEntry]]:
    """Returns, for each app or those named, the `per_app` entries most like the others; best first, then by name.

    An entry represents its app as well as its words (of name and description) are common there, on average. Some 20 ms
    for 1,000 entries: do it in a thread.
    """
    by_app: dict[str, list[CatalogEntry]] = defaultdict(list)
    wanted = None if apps is None else set(apps)
    for entry in entries:
        if wanted is None or entry.app_id in wanted:
            by_app[entry.app_id].append(entry)
    return {app: _representative(sorted(members, key=_by_name), per_app) for app, members in by_app.items()}


def _deviations(values: Scores, usual: float) -> Scores:
    """How far each value stands out from the others and from some `usual` ones, in standard deviations."""
    count = len(values) + UNRELATED
    ordered = np.sort(values).astype(np.float64)  # so that the order of the entries does not change the sums
    mean = (float(ordered.sum()) + UNRELATED * usual) / count
    spread = (float(((ordered - mean) ** 2).sum()) + UNRELATED * (usual - mean) ** 2) / count
    return ((values - mean) / (spread**0.5 + 1e-6)).astype(np.float32)


def _semantic_weight(parts: int) -> float:
    if parts >= MANY_THINGS:
        return MANY_PARTS_SEMANTIC_WEIGHT
    return TWO_PARTS_SEMANTIC_WEIGHT if parts else SEMANTIC_WEIGHT


def _fit(words: float, cosine: float) -> float:
    """How well the best entry fits in absolute terms, 0 to 1."""
    words = min(max(words, LEAST_FIT), MOST_FIT)
    evidence = WORDS_EVIDENCE * np.log(words / (1 - words)) + COSINE_EVIDENCE * cosine + NO_EVIDENCE
    if evidence < DOUBT:
        evidence = DOUBT + DOUBT_SLOPE * (evidence - DOUBT)
    return float(1 / (1 + np.exp(-evidence)))


def _score_from_cosine(cosines: Scores) -> Scores:
    return (np.clip(cosines, 0, 1) ** COSINE_POWER).astype(np.float32)


def _representative(members: Sequence[CatalogEntry], most: int) -> list[CatalogEntry]:
    if len(members) <= most:
        return list(members)
    compared = members[:: -(-len(members) // MAX_COMPARED)]
    words = [frozenset((*terms(entry.name, stop=NO_STOP_WORDS), *terms(entry.description))) for entry in compared]
    spread = Counter(word for each in words for word in each)
    # The root favours, among equals, what says more.
    worth = [sum(spread[word] for word in each) / max(1, len(each)) ** 0.5 for each in words]
    ranked = sorted(zip(worth, compared, strict=True), key=lambda pair: -pair[0])
    return [entry for _, entry in ranked[:most]]


def _by_name(entry: CatalogEntry) -> tuple[str, str]:
    return entry.name, entry.kind
