"""How the rankings by words and by meaning become one.

Scores of two kinds are compared by how far each entry stands out from the others, in standard deviations: what stands
out in both is what was meant. Adding ranks instead (reciprocal rank fusion) cost one point of recall@5 and of nDCG@10
on the development sets.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import islice
from typing import TypeVar

import numpy as np

from codecall.catalog.entries import CatalogEntry
from codecall.catalog.search.analysis import NO_STOP_WORDS, terms
from codecall.catalog.search.indexer import Scores

# ----------------------------------------------------------------------------------------------------
# How the rankings by words and by meaning become one.

MEANING = 1.45
"""Weight of the meaning; that of the words is 1. Anything from 1.2 to 1.6 does about as well."""

STEEPNESS = 1.5
"""Power of the words' share of their best, before deviations are taken: the first few count, the long tail does not."""

USUAL_COSINE = 0.1
"""Cosine of texts that have nothing to do with each other."""

UNRELATED = 20
"""Entries that have nothing to do with the query and are always counted in: where a caller sees three tools, and all of
them fit, none would stand out."""

COSINE_POWER = 0.6
"""The shown score of a cosine is this power of it: 0.13 is at the default threshold of 0.3."""


def semantic_scores(cosines: Scores, words: Scores) -> Scores:
    """The scores shown, 0 to 1: by the cosines, and by words where there is none yet."""
    return np.where(np.isnan(cosines), words, _shown(cosines)).astype(np.float32)


def fuse_scores(words: Scores, cosines: Scores) -> Scores:
    """The scores shown, 0 to 1, of what both say. An entry without a cosine yet is taken at its words."""
    known = ~np.isnan(cosines)
    if not known.any():
        return words
    best = float(words.max(initial=0.0))
    share = (words / best) ** (2 * STEEPNESS) if best else words
    by_words = _deviations(share, 0.0)
    mixed = by_words * (1 + MEANING)
    mixed[known] = by_words[known] + MEANING * _deviations(cosines[known], USUAL_COSINE)
    top = float(mixed.max(initial=0.0))
    if top <= 0:
        return np.zeros_like(words)
    fit = max(best, float(_shown(cosines[known]).max()))
    return (np.sqrt(np.maximum(mixed, 0) / top) * fit).astype(np.float32)


def best_cosines(parts: Sequence[Scores]) -> Scores:
    """Of a request for several things, each entry's cosine with the part it is nearest to."""
    return np.maximum.reduce(list(parts))


def _deviations(values: Scores, usual: float) -> Scores:
    """How far each of `values` stands out from the others and some `usual` ones, in standard deviations."""
    count = len(values) + UNRELATED
    ordered = np.sort(values).astype(np.float64)  # so that the order of the entries does not change the sums
    mean = (float(ordered.sum()) + UNRELATED * usual) / count
    spread = (float(((ordered - mean) ** 2).sum()) + UNRELATED * (usual - mean) ** 2) / count
    return ((values - mean) / (spread**0.5 + 1e-6)).astype(np.float32)


def _shown(cosines: Scores) -> Scores:
    return (np.clip(cosines, 0, 1) ** COSINE_POWER).astype(np.float32)


# ----------------------------------------------------------------------------------------------------
# One app must not fill an answer alone while another has something about as good.

MAX_SCORE_GAP = 0.1
"""Scores no further apart than this are close: the largest round number that costs less than a tenth of a point.
Measured with the ranking by words on the development sets whose tools have servers (LiveMCPBench, StableToolBench),
five places: 4 to 9 % of the answers change, recall@5 falls by at most 0.5 points on any set and by 0.06 in the mean of
the eight, nDCG@10 by less. At 0.2 one set loses 5.7 points."""

APP_EVERY = 5
"""One place in so many, and at least one, may go to a further app. Five is the usual length of an answer."""

T = TypeVar("T")


def diversify(
    ranked: Iterable[T],
    top: int,
    *,
    app_of: Callable[[T], Hashable],
    score_of: Callable[[T], float],
    max_gap: float = MAX_SCORE_GAP,
) -> list[T]:
    """The first `top` of `ranked`, the last places given to further apps where few apps crowd out all others.

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
    shown = list(islice(rest, top))
    of_app = Counter(map(app_of, shown))
    wanted = 1 + max(1, top // APP_EVERY)
    while len(of_app) < wanted:
        place = next((n for n in range(len(shown) - 1, 0, -1) if of_app[app_of(shown[n])] > 1), None)
        if place is None:
            break
        least = score_of(shown[place]) - max_gap
        other = next((item for item in rest if app_of(item) not in of_app or score_of(item) < least), None)
        if other is None or score_of(other) < least:
            break
        of_app[app_of(shown.pop(place))] -= 1
        of_app[app_of(other)] = 1
        shown.append(other)
    return shown


# ----------------------------------------------------------------------------------------------------
# Which entries of an app stand for it: those whose words most of the others share.

MAX_COMPARED = 100
"""Entries of one app that are looked at; of a larger one, evenly spread over it."""


def representative_entries(
    entries: Sequence[CatalogEntry], per_app: int, apps: Sequence[str] | None = None
) -> dict[str, list[CatalogEntry]]:
    """For each app, or those named, the `per_app` entries most like the others; likest first, then by name.

    An entry is as central as its words (of name and description) are common in its app, on average. Some 20 ms for
    1,000 entries: do it in a thread.
    """
    by_app: dict[str, list[CatalogEntry]] = defaultdict(list)
    wanted = None if apps is None else set(apps)
    for entry in entries:
        if wanted is None or entry.app_id in wanted:
            by_app[entry.app_id].append(entry)
    return {app: _central(sorted(members, key=_by_name), per_app) for app, members in by_app.items()}


def _central(members: Sequence[CatalogEntry], most: int) -> list[CatalogEntry]:
    if len(members) <= most:
        return list(members)
    looked_at = members[:: -(-len(members) // MAX_COMPARED)]
    words = [frozenset(terms(entry.name, stop=NO_STOP_WORDS) + terms(entry.description)) for entry in looked_at]
    spread = Counter(word for each in words for word in each)
    # The root favours, among equals, what says more.
    worth = [sum(spread[word] for word in each) / max(1, len(each)) ** 0.5 for each in words]
    ranked = sorted(zip(worth, looked_at, strict=True), key=lambda pair: -pair[0])
    return [entry for _, entry in ranked[:most]]


def _by_name(entry: CatalogEntry) -> tuple[str, str]:
    return entry.name, entry.kind
