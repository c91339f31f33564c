"""What a search shows of its hits: the matches, and the queries without one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice, takewhile, zip_longest

from codecall.catalog.entries import CatalogEntry
from codecall.catalog.search.fusion import diversify
from codecall.catalog.search.index import Hit

NEAREST = 3
"""Most hits named of those that fail the least score or the filter."""
NEAR_BEST = 0.9
"""Part of an entry's best score with which it is said to fit another query too: words in common give most entries some
score for most queries."""


@dataclass(frozen=True, slots=True)
class Criteria:
    """What a hit must satisfy besides the words of the query."""

    apps: frozenset[str] | None = None
    """Its app must be one of these; None allows any."""
    tags: frozenset[str] | None = None
    """It must carry one of these; None allows any or none."""
    excluded: frozenset[str] = frozenset()
    """Names it must not have."""
    min_score: float = 0.0
    """Least score."""

    @property
    def has_filter(self) -> bool:
        """Whether anything but the score can keep a hit out."""
        return bool(self.excluded) or self.apps is not None or self.tags is not None

    def fits(self, entry: CatalogEntry) -> bool:
        """Whether an entry may be shown at all."""
        return entry.name not in self.excluded and self.passes_filter(entry)

    def passes_filter(self, entry: CatalogEntry) -> bool:
        """Whether the filter lets it through, excluded or not."""
        in_app = self.apps is None or entry.app_id in self.apps
        return in_app and (self.tags is None or not entry.tags.isdisjoint(self.tags))


@dataclass(slots=True)
class Match:
    """An entry that the answer shows, how well it fits, and which of the queries it fits."""

    entry: CatalogEntry
    score: float = 0.0
    queries: dict[str, float] = field(default_factory=dict[str, float])
    """The queries that it fits, with its scores."""
    best_of: set[str] = field(default_factory=set[str])
    """Those of them that nothing in the answer fits better."""

    @property
    def strong_queries(self) -> list[str]:
        """The queries that it fits about as well as its best one, and those that nothing fits better."""
        least = NEAR_BEST * self.score
        return [query for query, score in self.queries.items() if score >= least or query in self.best_of]


@dataclass(frozen=True, slots=True)
class UnmatchedQuery:
    """A query without a hit, and what comes nearest."""

    query: str
    below_score: Sequence[Hit]
    """These pass the filter, but their score is too low."""
    outside_filter: Sequence[Hit]
    """These have the score, but do not pass the filter."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The matches of a search, and its queries without one."""

    matches: list[Match]
    """By falling score, then name; each entry once."""
    unmatched: list[UnmatchedQuery]
    """Queries that nothing fits."""
    without_place: list[str]
    """Queries that something fits, but there was no place left for it."""


def select(ranked: Sequence[tuple[str, Sequence[Hit]]], criteria: Criteria, places: int, default: bool) -> Selection:
    """Choose the hits to show for queries whose hits come by falling score.

    Each query takes its turn with its next best hit until the places are full, so that none goes without while another
    has several; of one query's hits, no app crowds out the others (`diversify`).

    Args:
        ranked: the queries, each once, with all their hits.
        criteria: what keeps hits out.
        places: most entries to show.
        default: whether `places` is only the usual number: each query that has a hit then gets at least one place.
    """
    matching: list[tuple[str, Sequence[Hit]]] = []
    unmatched: list[UnmatchedQuery] = []
    for query, hits in ranked:
        if next(_fitting(hits, criteria), None) is not None:
            matching.append((query, hits))
        else:
            unmatched.append(UnmatchedQuery(query, *_nearest(hits, criteria)))
    if default:
        places = max(places, len(matching))
    share = -(-places // len(matching)) if matching else 0
    selected = _take_turns([_ranking(hits, criteria, places, share) for _, hits in matching], places)
    matches = {_key(hit.entry): Match(hit.entry, hit.score) for hit in selected}
    without_place: list[str] = []
    for query, hits in matching:
        # All hits of one query that are shown were selected for it; of several, any may fit several.
        fitting = selected if len(ranked) == 1 else _fitting(hits, criteria)
        scored = [(match, hit.score) for hit in fitting if (match := matches.get(_key(hit.entry)))]
        for match, score in scored:
            match.score = max(match.score, score)
            match.queries[query] = score
        if scored:
            scored[0][0].best_of.add(query)
        else:
            without_place.append(query)
    best_first = sorted(matches.values(), key=lambda match: (-match.score, _key(match.entry)))
    return Selection(best_first, unmatched, without_place)


def _fitting(hits: Sequence[Hit], criteria: Criteria) -> Iterator[Hit]:
    """The hits that may be shown. Lazy: thousands fit a common word, and few are wanted."""
    scored = takewhile(lambda hit: hit.score >= criteria.min_score, hits)
    return (hit for hit in scored if criteria.fits(hit.entry)) if criteria.has_filter else scored


def _ranking(hits: Sequence[Hit], criteria: Criteria, places: int, share: int) -> list[Hit]:
    """As many hits of one query as there are places; of the first `share`, no app has all if another is close."""
    fitting = _fitting(hits, criteria)
    first = list(islice(fitting, places))
    diverse = diversify(
        chain(first, fitting), share, app_of=lambda hit: hit.entry.app_id, score_of=lambda hit: hit.score
    )
    keys = {_key(hit.entry) for hit in diverse}
    return diverse + [hit for hit in first if _key(hit.entry) not in keys]


def _take_turns(rankings: Sequence[Sequence[Hit]], places: int) -> list[Hit]:
    selected: dict[tuple[str, str], Hit] = {}
    for hit in (hit for row in zip_longest(*rankings) for hit in row if hit is not None):
        if len(selected) == places:
            break
        selected.setdefault(_key(hit.entry), hit)
    return list(selected.values())


def _nearest(hits: Sequence[Hit], criteria: Criteria) -> tuple[list[Hit], list[Hit]]:
    """Of a query without a hit: the best below the least score, and the best that the filter keeps out."""
    below = (hit for hit in hits if criteria.fits(hit.entry))
    scored = takewhile(lambda hit: hit.score >= criteria.min_score, hits)
    outside = (hit for hit in scored if hit.entry.name not in criteria.excluded)
    return list(islice(below, NEAREST)), list(islice(outside, NEAREST))


def _key(entry: CatalogEntry) -> tuple[str, str]:
    """The identity of an entry: a resource and a tool may share a name."""
    return entry.name, entry.kind
