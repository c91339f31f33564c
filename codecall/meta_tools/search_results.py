"""What a search says where it has no hits: which apps there are, what is typical of them, what else to try."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice, takewhile, zip_longest
from typing import NamedTuple

from codecall.catalog.entries import CatalogEntry, Kind
from codecall.catalog.search.fusion import diversify
from codecall.catalog.search.index import Hit
from codecall.catalog.search.spelling import correct_words
from codecall.catalog.suggestions import similar_names
from codecall.meta_tools.base import JsonObject

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
    """What is shown, how well it fits, and which of the queries it fits."""

    entry: CatalogEntry
    score: float = 0.0
    queries: list[str] = field(default_factory=list[str])


@dataclass(frozen=True, slots=True)
class UnmatchedQuery:
    """A query without a hit, and what comes nearest."""

    query: str
    below_score: Sequence[Hit]
    """Fit but for the score."""
    outside_filter: Sequence[Hit]
    """Fit but for the filter."""


@dataclass(frozen=True, slots=True)
class Selection:
    """What a search found, and what it did not."""

    matches: list[Match]
    """By falling score, then name; each entry once."""
    unmatched: list[UnmatchedQuery]
    """Queries that nothing fits."""
    without_place: list[str]
    """Queries that something fits, but there was no place left for it."""


def select(searched: Sequence[tuple[str, Sequence[Hit]]], criteria: Criteria, places: int, default: bool) -> Selection:
    """The hits to show for queries and their hits by falling score.

    Each query takes its turn with its next best hit until the places are full, so that none goes without while another
    has several; of one query's hits, no app crowds out the others (`diversify`).

    Args:
        searched: the queries, each once, with all their hits.
        criteria: what keeps hits out.
        places: most entries to show.
        default: whether `places` is only the usual number: each query that has a hit then gets at least one place.
    """
    matching: list[tuple[str, Sequence[Hit]]] = []
    missed: list[UnmatchedQuery] = []
    for query, hits in searched:
        if next(_fitting(hits, criteria), None) is not None:
            matching.append((query, hits))
        else:
            missed.append(UnmatchedQuery(query, *_nearest(hits, criteria)))
    if default:
        places = max(places, len(matching))
    share = -(-places // len(matching)) if matching else 0
    chosen = _in_turns([_ranking(hits, criteria, places, share) for _, hits in matching], places)
    found = {_key(hit.entry): Match(hit.entry, hit.score) for hit in chosen}
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
    enough = takewhile(lambda hit: hit.score >= criteria.min_score, hits)
    return (hit for hit in enough if criteria.fits(hit.entry)) if criteria.has_filter else enough


def _ranking(hits: Sequence[Hit], criteria: Criteria, places: int, share: int) -> list[Hit]:
    """As many hits of one query as there are places; of the first `share`, no app has all if another is close."""
    fitting = _fitting(hits, criteria)
    first = list(islice(fitting, places))
    shared = diversify(
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
    scored = takewhile(lambda hit: hit.score >= criteria.min_score, hits)
    outside = (hit for hit in scored if hit.entry.name not in criteria.excluded)
    return list(islice(below, NEAREST)), list(islice(outside, NEAREST))


def _key(entry: CatalogEntry) -> tuple[str, str]:
    """What an entry is known by: a resource and a tool may share a name."""
    return entry.name, entry.kind


MAX_NAMED = 10
"""Most unknown names, tags or queries that one warning repeats; the others are counted."""

MAX_MORE_APPS = 60
"""Most apps that an overview lists by their ids alone, after those it describes."""

_MAX_NEAR = 3
"""Unknown names for which near ones are looked for: each look takes milliseconds in a large catalog."""

_MAX_SUGGESTIONS = 8

MAX_ECHO_CHARS = 120
"""Characters of a query or name of the call that an answer repeats; what is longer ends in `…`."""

PLURALS: dict[Kind, str] = {"tool": "tools", "resource": "resources", "template": "templates", "prompt": "prompts"}
"""How each kind is called where it is counted."""


class OverviewSize(NamedTuple):
    """How much of a catalog an answer shows, so that it stays short whatever the size of the server."""

    apps: int
    """Most apps described."""
    names: int
    """Names of central entries in all, shared by the apps; each app gets at least two, and at most eight."""
    more_apps: int
    """Most further apps listed by their ids."""

    def names_per_app(self, apps: int) -> int:
        """How many names each of so many apps gets."""
        return max(2, min(8, self.names // max(1, min(apps, self.apps))))


OVERVIEW = OverviewSize(apps=20, names=40, more_apps=MAX_MORE_APPS)
"""For an empty query: at most about 4,000 characters."""
DEAD_END = OverviewSize(apps=10, names=20, more_apps=0)
"""For a query nothing fits: at most about 1,500 characters."""


class AppSize(NamedTuple):
    """An app and how much of each kind it offers."""

    app_id: str
    counts: Counter[Kind]

    @property
    def total(self) -> int:
        """All of it."""
        return self.counts.total()


def app_sizes(entries: Iterable[CatalogEntry], missed: Iterable[UnmatchedQuery] = ()) -> list[AppSize]:
    """The apps of the entries, the largest first; equal ones by id. Before them those that came near to a query that
    nothing fits."""
    counts: dict[str, Counter[Kind]] = defaultdict(Counter)
    for entry in entries:
        counts[entry.app_id][entry.kind] += 1
    near = {hit.entry.app_id for miss in missed for hit in (*miss.below_score, *miss.outside_filter)}
    found = (AppSize(app, kinds) for app, kinds in counts.items())
    return sorted(found, key=lambda app: (app.app_id not in near, -app.total, app.app_id))


def describe_apps(
    apps: Sequence[AppSize], central: Mapping[str, Sequence[CatalogEntry]], room: OverviewSize
) -> tuple[JsonObject, list[str]]:
    """`apps` of an answer, perhaps `moreApps`, and a warning where not all are shown."""
    names = room.names_per_app(len(apps))
    shown: list[JsonObject] = []
    for app in apps[: room.apps]:
        counts = {PLURALS[kind]: app.counts[kind] for kind in PLURALS if app.counts[kind]}
        typical = [entry.name for entry in central.get(app.app_id, ())[:names]]
        shown.append({"appId": app.app_id, **counts, "central": typical})
    body: JsonObject = {"apps": shown}
    rest = apps[room.apps :]
    if not rest:
        return body, []
    listed = [app.app_id for app in rest[: room.more_apps]]
    if listed:
        body["moreApps"] = listed
    said = f"{len(shown)} of {len(apps):,} apps are described"
    if listed:
        said += f", {len(listed)} more named in moreApps"
    return body, [said + "; an empty query with filter.appIds shows what one of them has."]


def interleave_apps(
    apps: Sequence[AppSize], central: Mapping[str, Sequence[CatalogEntry]], places: int
) -> list[CatalogEntry]:
    """The most central entry of each app, then the second of each, and so on, until the places are full."""
    rows = zip_longest(*(central.get(app.app_id, ()) for app in islice(apps, places)))
    return list(islice((entry for row in rows for entry in row if entry is not None), places))


def unknown_name_warnings(
    entries: Sequence[CatalogEntry], excluded: Sequence[str], apps: Sequence[str], tags: Sequence[str]
) -> list[str]:
    """A warning for every name, app or tag of a call that nothing of this caller has; with near ones."""
    checks: list[tuple[str, Sequence[str], Callable[[CatalogEntry], Iterable[str]]]] = [
        ("excludeToolNames: no tool is called", excluded, lambda entry: (entry.name,)),
        ("filter.appIds: no tool belongs to", apps, lambda entry: (entry.app_id,)),
        ("filter.tags: no tool is tagged", tags, lambda entry: entry.tags),
    ]
    warnings: list[str] = []
    for label, words, of in checks:
        if not words:
            continue
        known = Counter(word for entry in entries for word in of(entry))
        missing = [word for word in dict.fromkeys(words) if word not in known]
        if not missing:
            continue
        said = f"{label} {_quoted(missing[:MAX_NAMED])}"
        if len(missing) > MAX_NAMED:
            said += f" and {len(missing) - MAX_NAMED} more"
        near = dict.fromkeys(name for word in missing[:_MAX_NEAR] for name in similar_names(word, known, limit=2))
        if near:
            said += f"; near: {_quoted(near)}"
        elif words is tags and known:
            usual = sorted(known, key=lambda word: (-known[word], word))
            said += f"; there are: {_quoted(usual[:MAX_NAMED])}" + (", …" if len(usual) > MAX_NAMED else "")
        warnings.append(said)
    return warnings


def no_match_warnings(missed: Sequence[UnmatchedQuery], least: float, *, alone: bool) -> list[str]:
    """What to say of queries that nothing fits, and what came near. `alone`: there was only this one."""
    if not missed:
        return []
    near = any(miss.below_score for miss in missed)
    if alone:
        named = ", ".join(map(_scored, missed[0].below_score))
        what = f" with a score of at least {least:g}. Nearest: {named}" if near else ""
    else:
        what = " " + ", ".join(
            _quote(miss.query) + (f" (nearest: {_scored(miss.below_score[0])})" if miss.below_score else "")
            for miss in missed
        )
    advice = "lower minScore to get them, or describe" if near else "describe"
    return [f"Nothing matched{what}; {advice} the task in other words." + _beyond_the_filter(missed)]


def nothing_left_warning(missed: Sequence[UnmatchedQuery], things: str, total: int) -> str:
    """What to say where the filter and the excluded names leave nothing of the caller's `total` things."""
    said = f"No {things} are left after filter and excludeToolNames; {total:,} without them."
    return said + _beyond_the_filter(missed)


def _beyond_the_filter(missed: Sequence[UnmatchedQuery]) -> str:
    """What the filter kept from queries that nothing else fits."""
    outside = {(hit.entry.name, hit.entry.kind): hit for miss in missed for hit in miss.outside_filter}
    best = sorted(outside.values(), key=lambda hit: (-hit.score, hit.entry.name))[:NEAREST]
    return f" Outside the filter: {', '.join(map(_scored, best))}." if best else ""


def no_place_warning(queries: Sequence[str], places: int) -> str:
    """What to say of queries whose hits found no place."""
    return f"topK is {places}: no place was left for what fits {_quoted(queries)}."


def suggest_searches(entries: Sequence[CatalogEntry], queries: Sequence[str]) -> list[str]:
    """What to search for instead: words of this catalog that those of the queries look like, and names near to a
    query that could be one."""
    found = dict.fromkeys(correct_words(entries, " ".join(queries)))
    single = [query.strip() for query in queries if len(query.split()) == 1]
    if single:
        names = [entry.name for entry in entries]
        found |= dict.fromkeys(name for query in single[:_MAX_NEAR] for name in similar_names(query, names))
    return list(found)[:_MAX_SUGGESTIONS]


def index_progress_warnings(ready: int, encoded: int, total: int) -> list[str]:
    """What to say while not all of the index is there yet."""
    warnings: list[str] = []
    if ready < total:
        warnings.append(
            f"The index is still being built: {ready:,} of {total:,} could be searched. "
            "If the right one is missing, search again in a few seconds."
        )
    if encoded < ready:
        warnings.append(
            f"Only words were compared so far for {ready - encoded:,} of {ready:,}; the model has not read those yet. "
            "If the right one is missing, search again in a minute."
        )
    return warnings


def _scored(hit: Hit) -> str:
    return f"{_quote(hit.entry.name)} of {_quote(hit.entry.app_id)} ({hit.score:g})"


def _quoted(words: Iterable[str]) -> str:
    return ", ".join(_quote(word) for word in words)


def _quote(word: str) -> str:
    return repr(shorten_echo(word))


def shorten_echo(text: str) -> str:
    """What the caller said, as an answer repeats it: they know it, so its beginning is enough."""
    return text if len(text) <= MAX_ECHO_CHARS else text[: MAX_ECHO_CHARS - 1] + "…"
