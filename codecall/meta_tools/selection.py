"""Which of an index's hits a search shows: filtered, fair to each query and each app, best first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice, takewhile, zip_longest

from codecall.catalog.diversity import diversified
from codecall.catalog.entries import CatalogEntry
from codecall.catalog.index import Hit

NEAREST = 3
"""Most hits named of those that only just were none."""


@dataclass(frozen=True, slots=True)
class Criteria:
    """What a call asks of a hit besides its words."""

    apps: frozenset[str] | None = None
    """It must be of one of these; None: of any."""
    tags: frozenset[str] | None = None
    """It must carry one of these; None: any or none."""
    excluded: frozenset[str] = frozenset()
    """Names it must not have."""
    least: float = 0.0
    """Least score."""

    @property
    def limits(self) -> bool:
        """Whether anything but the score can keep a hit out."""
        return bool(self.excluded) or self.apps is not None or self.tags is not None

    def fits(self, entry: CatalogEntry) -> bool:
        """Whether an entry may be shown at all."""
        return entry.name not in self.excluded and self.within(entry)

    def within(self, entry: CatalogEntry) -> bool:
        """Whether the filter lets it through, excluded or not."""
        in_app = self.apps is None or entry.app_id in self.apps
        return in_app and (self.tags is None or not entry.tags.isdisjoint(self.tags))


@dataclass(slots=True)
class Found:
    """What is shown, how well it fits, and which of the queries it fits."""

    entry: CatalogEntry
    score: float = 0.0
    queries: list[str] = field(default_factory=list[str])


@dataclass(frozen=True, slots=True)
class Missed:
    """A query without a hit, and what comes nearest."""

    query: str
    below: Sequence[Hit]
    """Fit but for the score."""
    outside: Sequence[Hit]
    """Fit but for the filter."""


@dataclass(frozen=True, slots=True)
class Selection:
    """What a search found, and what it did not."""

    found: list[Found]
    """By falling score, then name; each entry once."""
    missed: list[Missed]
    """Queries that nothing fits."""
    crowded: list[str]
    """Queries that something fits, but there was no place left for it."""


def select(searched: Sequence[tuple[str, Sequence[Hit]]], criteria: Criteria, places: int, default: bool) -> Selection:
    """The hits to show for queries and their hits by falling score.

    Each query takes its turn with its next best hit until the places are full, so that none goes without while another
    has several; of one query's hits, no app crowds out the others (`diversified`).

    Args:
        searched: the queries, each once, with all their hits.
        criteria: what keeps hits out.
        places: most entries to show.
        default: whether `places` is only the usual number: each query that has a hit then gets at least one place.
    """
    matching: list[tuple[str, Sequence[Hit]]] = []
    missed: list[Missed] = []
    for query, hits in searched:
        if next(_fitting(hits, criteria), None) is not None:
            matching.append((query, hits))
        else:
            missed.append(Missed(query, *_nearest(hits, criteria)))
    if default:
        places = max(places, len(matching))
    share = -(-places // len(matching)) if matching else 0
    chosen = _in_turns([_ranking(hits, criteria, places, share) for _, hits in matching], places)
    found = {_key(hit.entry): Found(hit.entry, hit.score) for hit in chosen}
    crowded: list[str] = []
    for query, hits in matching:
        # All hits of one query that are shown were chosen for it; of several, any may fit several.
        fitting = chosen if len(searched) == 1 else _fitting(hits, criteria)
        shown = [(item, hit.score) for hit in fitting if (item := found.get(_key(hit.entry)))]
        for item, score in shown:
            item.score = max(item.score, score)
            item.queries.append(query)
        if not shown:
            crowded.append(query)
    best_first = sorted(found.values(), key=lambda item: (-item.score, _key(item.entry)))
    return Selection(best_first, missed, crowded)


def _fitting(hits: Sequence[Hit], criteria: Criteria) -> Iterator[Hit]:
    """The hits that may be shown. Lazy: thousands fit a common word, and few are wanted."""
    enough = takewhile(lambda hit: hit.score >= criteria.least, hits)
    return (hit for hit in enough if criteria.fits(hit.entry)) if criteria.limits else enough


def _ranking(hits: Sequence[Hit], criteria: Criteria, places: int, share: int) -> list[Hit]:
    """As many hits of one query as there are places; of the first `share`, no app has all if another is close."""
    fitting = _fitting(hits, criteria)
    first = list(islice(fitting, places))
    shared = diversified(
        chain(first, fitting), share, app_of=lambda hit: hit.entry.app_id, score_of=lambda hit: hit.score
    )
    taken = {_key(hit.entry) for hit in shared}
    return shared + [hit for hit in first if _key(hit.entry) not in taken]


def _in_turns(rankings: Sequence[Sequence[Hit]], places: int) -> list[Hit]:
    chosen: dict[tuple[str, str], Hit] = {}
    for hit in (hit for row in zip_longest(*rankings) for hit in row if hit is not None):
        if len(chosen) == places:
            break
        chosen.setdefault(_key(hit.entry), hit)
    return list(chosen.values())


def _nearest(hits: Sequence[Hit], criteria: Criteria) -> tuple[list[Hit], list[Hit]]:
    """Of a query without a hit: the best below the least score, and the best that the filter keeps out."""
    below = (hit for hit in hits if criteria.fits(hit.entry))
    scored = takewhile(lambda hit: hit.score >= criteria.least, hits)
    outside = (hit for hit in scored if hit.entry.name not in criteria.excluded)
    return list(islice(below, NEAREST)), list(islice(outside, NEAREST))


def _key(entry: CatalogEntry) -> tuple[str, str]:
    """What an entry is known by: a resource and a tool may share a name."""
    return entry.name, entry.kind
