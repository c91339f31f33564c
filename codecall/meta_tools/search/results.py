"""What `codecall:search` answers: its matches, the overview of apps, and the warnings."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice, zip_longest
from typing import NamedTuple, cast

from codecall.catalog.entries import CatalogEntry, Kind
from codecall.catalog.search.index import Hit
from codecall.catalog.search.spelling import correct_words
from codecall.catalog.suggestions import similar_names
from codecall.catalog.typescript.comments import shorten
from codecall.catalog.typescript.declarations import declarations
from codecall.meta_tools.base import JsonObject
from codecall.meta_tools.definitions import limit_definitions
from codecall.meta_tools.search.arguments import Detail
from codecall.meta_tools.search.selection import NEAREST, Match, UnmatchedQuery
from codecall.wording import cut, join_names

ObservedSchemas = dict[str, Mapping[str, object]]
"""Output schemas learned from the results of tools, by the tool's name."""

BRIEF_CHARS = 200
"""Longest description at detail `brief`; a longer one ends in `…`."""
MAX_NAMED = 10
"""Most unknown names, tags or queries that one warning repeats; the others are counted."""
MAX_MORE_APPS = 60
"""Most apps that an overview lists by their ids alone, after those it describes."""
MAX_ECHO_CHARS = 120
"""Characters of a query or name of the call that an answer repeats; what is longer ends in `…`."""
_MAX_NEAR = 3
"""Unknown names for which near ones are looked for: each look takes milliseconds in a large catalog."""
_MAX_SUGGESTIONS = 8

PLURALS: dict[Kind, str] = {"tool": "tools", "resource": "resources", "template": "templates", "prompt": "prompts"}
"""The word for each kind where it is counted."""


def match_documents(
    matches: Sequence[Match], observed: ObservedSchemas, detail: Detail, several: bool, with_kind: bool
) -> JsonObject:
    """`tools` of an answer, `types` where their declarations share some, and `warnings` where there is not room for
    all.

    Args:
        matches: what the answer shows.
        observed: output schemas learned from results.
        detail: how much it says of each.
        several: whether each says which of the queries it fits.
        with_kind: whether each says what kind it is.
    """
    seen = [observed.get(match.entry.name) if match.entry.kind == "tool" else None for match in matches]
    documents = [
        _document(match, schema, detail, several, with_kind) for match, schema in zip(matches, seen, strict=True)
    ]
    if detail != "typescript":
        warnings = limit_definitions(documents) if detail == "full" else []
        return {"tools": documents, "warnings": warnings} if warnings else {"tools": documents}
    types, texts = declarations(
        [(match.entry, schema) for match, schema in zip(matches, seen, strict=True)], brief=True
    )
    for document, text in zip(documents, texts, strict=True):
        document["typescript"] = text
    return {"types": types, "tools": documents} if types else {"tools": documents}


def group_by_app(found: JsonObject) -> JsonObject:
    """What `match_documents` returned, with `groups` in place of `tools`: those of one app together, still best first,
    and first the app of the best."""
    groups: dict[object, list[JsonObject]] = {}
    for document in cast("list[JsonObject]", found["tools"]):
        app = document["appId"]
        groups.setdefault(app, []).append({key: value for key, value in document.items() if key != "appId"})
    rest = {key: value for key, value in found.items() if key != "tools"}
    return {**rest, "groups": [{"appId": app, "tools": documents} for app, documents in groups.items()]}


def _document(
    match: Match, observed: Mapping[str, object] | None, detail: Detail, several: bool, with_kind: bool
) -> JsonObject:
    entry = match.entry
    body: JsonObject = {"name": entry.name}
    if with_kind:
        body["kind"] = entry.kind
    body["appId"] = entry.app_id
    if detail in {"brief", "full"}:
        text = entry.description or entry.title or ""
        body["description"] = text if detail == "full" else brief_description(text)
        if entry.kind != "tool" and entry.description and entry.title:
            body["title"] = entry.title  # the name is a URI, which says little
    body["score"] = match.score
    if several:
        body["matchedQueries"] = [_shorten_echo(query) for query in match.strong_queries]
    if detail == "full":
        body["inputSchema"] = entry.input_schema
        body["outputSchema"] = entry.output_schema
        if observed is not None:
            body["observedOutput"] = observed
        body["annotations"] = entry.annotations
    return body


def brief_description(description: str) -> str:
    """The first paragraph of a description on one line, cut at a word with `…` where it is too long."""
    return shorten(description.strip().split("\n\n", 1)[0], BRIEF_CHARS)


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
        """The number of its entries, of all kinds."""
        return self.counts.total()


def app_sizes(entries: Iterable[CatalogEntry], unmatched: Iterable[UnmatchedQuery] = ()) -> list[AppSize]:
    """The apps of the entries, the largest first; equal ones by id. Apps that come near to an unmatched query precede
    all others."""
    counts: dict[str, Counter[Kind]] = defaultdict(Counter)
    for entry in entries:
        counts[entry.app_id][entry.kind] += 1
    near = {hit.entry.app_id for query in unmatched for hit in (*query.below_score, *query.outside_filter)}
    sizes = (AppSize(app, kinds) for app, kinds in counts.items())
    return sorted(sizes, key=lambda app: (app.app_id not in near, -app.total, app.app_id))


def describe_apps(
    apps: Sequence[AppSize], central: Mapping[str, Sequence[CatalogEntry]], size: OverviewSize
) -> tuple[JsonObject, list[str]]:
    """`apps` of an answer, perhaps `moreApps`, and a warning where not all are shown."""
    names = size.names_per_app(len(apps))
    described: list[JsonObject] = []
    for app in apps[: size.apps]:
        counts = {PLURALS[kind]: app.counts[kind] for kind in PLURALS if app.counts[kind]}
        typical = [entry.name for entry in central.get(app.app_id, ())[:names]]
        described.append({"appId": app.app_id, **counts, "central": typical})
    body: JsonObject = {"apps": described}
    rest = apps[size.apps :]
    if not rest:
        return body, []
    more = [app.app_id for app in rest[: size.more_apps]]
    if more:
        body["moreApps"] = more
    warning = f"{len(described)} of {len(apps):,} apps are described"
    if more:
        warning += f", {len(more)} more named in moreApps"
    return body, [warning + "; an empty query with filter.appIds shows what one of them has."]


def interleave_apps(
    apps: Sequence[AppSize], central: Mapping[str, Sequence[CatalogEntry]], places: int
) -> list[CatalogEntry]:
    """The most central entry of each app, then the second of each, and so on, until the places are full."""
    rows = zip_longest(*(central.get(app.app_id, ()) for app in islice(apps, places)))
    return list(islice((entry for row in rows for entry in row if entry is not None), places))


def unknown_name_warnings(
    entries: Sequence[CatalogEntry], excluded: Sequence[str], apps: Sequence[str], tags: Sequence[str]
) -> list[str]:
    """Warn of every name, app or tag of a call that no entry of this caller has; near ones are named."""
    checks: list[tuple[str, Sequence[str], Callable[[CatalogEntry], Iterable[str]]]] = [
        ("excludeToolNames: no tool is called", excluded, lambda entry: (entry.name,)),
        ("filter.appIds: no tool belongs to", apps, lambda entry: (entry.app_id,)),
        ("filter.tags: no tool is tagged", tags, lambda entry: entry.tags),
    ]
    warnings: list[str] = []
    for label, words, words_of in checks:
        if not words:
            continue
        counts = Counter(word for entry in entries for word in words_of(entry))
        unknown = [word for word in dict.fromkeys(words) if word not in counts]
        if not unknown:
            continue
        warning = f"{label} {join_names(unknown, MAX_NAMED, _quote)}"
        near = dict.fromkeys(name for word in unknown[:_MAX_NEAR] for name in similar_names(word, counts, limit=2))
        if near:
            warning += f"; near: {_quoted(near)}"
        elif words is tags and counts:
            usual = sorted(counts, key=lambda word: (-counts[word], word))
            warning += f"; there are: {_quoted(usual[:MAX_NAMED])}" + (", …" if len(usual) > MAX_NAMED else "")
        warnings.append(warning)
    return warnings


def no_match_warnings(unmatched: Sequence[UnmatchedQuery], min_score: float, *, alone: bool) -> list[str]:
    """Warn of queries that nothing fits, and name what comes near. `alone`: the call has this one query only."""
    if not unmatched:
        return []
    near = any(query.below_score for query in unmatched)
    if alone:
        nearest = ", ".join(map(_scored, unmatched[0].below_score))
        detail = f" with a score of at least {min_score:g}. Nearest: {nearest}" if near else ""
    else:
        detail = " " + ", ".join(
            _quote(query.query) + (f" (nearest: {_scored(query.below_score[0])})" if query.below_score else "")
            for query in unmatched
        )
    advice = "lower minScore to get them, or describe" if near else "describe"
    return [f"Nothing matched{detail}; {advice} the task in other words." + _outside_filter(unmatched)]


def nothing_left_warning(unmatched: Sequence[UnmatchedQuery], kinds: str, total: int) -> str:
    """Warn that the filter and the excluded names leave nothing of the caller's `total` entries."""
    warning = f"No {kinds} are left after filter and excludeToolNames; {total:,} without them."
    return warning + _outside_filter(unmatched)


def _outside_filter(unmatched: Sequence[UnmatchedQuery]) -> str:
    """Name the best hits that the filter keeps from queries that nothing else fits."""
    outside = {(hit.entry.name, hit.entry.kind): hit for query in unmatched for hit in query.outside_filter}
    best = sorted(outside.values(), key=lambda hit: (-hit.score, hit.entry.name))[:NEAREST]
    return f" Outside the filter: {', '.join(map(_scored, best))}." if best else ""


def other_kinds_note(others: Sequence[CatalogEntry]) -> str:
    """Say how much there is of the kinds that a search without `filter.kinds` leaves out."""
    counted, kinds = _count_kinds([entry.kind for entry in others])
    return f"Besides the tools: {counted}; filter.kinds {kinds} finds them."


def other_kinds_match(hits: Sequence[Hit]) -> str:
    """Name the best hits of the kinds that a search without `filter.kinds` leaves out."""
    counted, kinds = _count_kinds([hit.entry.kind for hit in hits])
    names = _quoted(hit.entry.name for hit in hits[:NEAREST])
    verb, them = ("matches", "it") if len(hits) == 1 else ("match", "them")
    more = ", …" if len(hits) > NEAREST else ""
    return f"Outside the filter: {counted} {verb}: {names}{more}; filter.kinds {kinds} finds {them}."


def _count_kinds(kinds: Sequence[Kind]) -> tuple[str, str]:
    """How many of each kind, in words, and the kinds as `filter.kinds` takes them."""
    counts: Counter[Kind] = Counter(kinds)
    present: list[Kind] = [kind for kind in PLURALS if counts[kind]]
    words = [f"{counts[kind]:,} {kind if counts[kind] == 1 else PLURALS[kind]}" for kind in present]
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1]))), json.dumps(present)


def no_place_warning(queries: Sequence[str], places: int) -> str:
    """Warn of queries that have hits, but no place in the answer."""
    return f"topK is {places}: no place was left for what fits {_quoted(queries)}."


def suggest_searches(entries: Sequence[CatalogEntry], queries: Sequence[str]) -> list[str]:
    """Suggest other searches: words of this catalog that look like those of the queries, and names near to a query
    that could be one."""
    suggestions = dict.fromkeys(correct_words(entries, " ".join(queries)))
    single = [query.strip() for query in queries if len(query.split()) == 1]
    if single:
        names = [entry.name for entry in entries]
        suggestions |= dict.fromkeys(name for query in single[:_MAX_NEAR] for name in similar_names(query, names))
    return list(suggestions)[:_MAX_SUGGESTIONS]


def index_progress_warnings(ready: int, encoded: int, total: int) -> list[str]:
    """Warn while the index is incomplete."""
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
    return repr(_shorten_echo(word))


def _shorten_echo(text: str) -> str:
    """Shorten a query or name that the answer repeats: the caller knows it, so its beginning is enough."""
    return cut(text, MAX_ECHO_CHARS)
