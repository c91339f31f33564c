"""One search: what it finds, and what the answer says where it finds little. Loaded with the search index."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

import anyio.to_thread

from codecall.catalog.entries import CatalogEntry, Kind
from codecall.catalog.search.index import Hit, SearchIndex
from codecall.catalog.search.threads import search_threads
from codecall.concurrency import CHUNK
from codecall.meta_tools.base import JsonObject
from codecall.meta_tools.search.arguments import SearchArguments, SearchFilter
from codecall.meta_tools.search.results import (
    DEAD_END,
    OVERVIEW,
    PLURALS,
    AppSize,
    OverviewSize,
    app_sizes,
    describe_apps,
    index_progress_warnings,
    interleave_apps,
    no_match_warnings,
    no_place_warning,
    nothing_left_warning,
    other_kinds_match,
    other_kinds_note,
    suggest_searches,
    unknown_name_warnings,
)
from codecall.meta_tools.search.selection import Criteria, Match, Selection, UnmatchedQuery, select
from codecall.options import PluginOptions

if TYPE_CHECKING:
    from codecall.extraction.ranking import ModelRanking

CANDIDATES = 30
"""Hits of a query that the client's model chooses from; of a smaller catalog it sees everything."""

BEST, STEP = 0.99, 0.02
"""The score of the client's model's first choice, and by how much the next one's is lower."""

WEAK_SCORE = 0.4
"""Queries whose best hit scores less get suggestions too. Plain requests score above:
`tests/catalog/search/test_lexical.py`."""

T = TypeVar("T")


class SearchRequest:
    """One call of the tool: it finds the matches, and writes the rest of the answer into `body`.

    Where there are no matches, the answer says what there is and what to try instead.

    Args:
        arguments: of the call.
        entries: what is searched.
        index: searches it.
        options: of the plugin.
        ranking: has the client's model choose; None: words do.
        unlisted: why tools may be missing.
        list_others: gives what there is of the kinds that are not searched, where the call does not say which are.
    """

    def __init__(
        self,
        arguments: SearchArguments,
        entries: Sequence[CatalogEntry],
        index: SearchIndex,
        options: PluginOptions,
        ranking: ModelRanking | None = None,
        *,
        unlisted: Sequence[str] = (),
        list_others: Callable[[], Awaitable[Sequence[CatalogEntry]]] | None = None,
    ) -> None:
        self._list_others = list_others
        self._ranking = ranking
        queries = [arguments.query] if isinstance(arguments.query, str) else arguments.query
        filters = arguments.filter or SearchFilter()
        self.queries = list(dict.fromkeys(query for query in queries if query.strip()))
        self.body: JsonObject = {"totalIndexed": len(entries)}
        self._entries = entries
        self._unlisted = unlisted
        self._index = index
        self._excluded = arguments.exclude_tool_names or []
        self._apps, self._tags = filters.app_ids or [], filters.tags or []
        self._kinds = " or ".join(dict.fromkeys(PLURALS[kind] for kind in filters.kinds or ("tool",)))
        self._places = arguments.top_k or options.top_k
        self._default_places = arguments.top_k is None
        self._criteria = Criteria(
            apps=None if filters.app_ids is None else frozenset(filters.app_ids),
            tags=None if filters.tags is None else frozenset(filters.tags),
            excluded=frozenset(self._excluded),
            min_score=options.embedding.similarity_threshold if arguments.min_score is None else arguments.min_score,
        )

    async def run(self) -> list[Match]:
        """Return what the answer shows; `body` then has the rest of the answer."""
        warnings = list(self._unlisted)
        if self._excluded or self._apps or self._tags:
            check = partial(unknown_name_warnings, self._entries, self._excluded, self._apps, self._tags)
            warnings += await self._run_in_thread(check, len(self._excluded))
        matches: list[Match] = []
        if not self._entries:
            self.body["apps"] = []
            warnings.append(f"There are no {self._kinds} you can reach here.")
            if self.queries:
                warnings += await self._fitting_others(self.queries)
        elif not self.queries:
            matches = await self._overview(warnings)
        else:
            matches = await self._search(warnings)
        if not self.queries and (others := await self._others()):
            warnings.append(other_kinds_note(others))
        if warnings:
            self.body["warnings"] = warnings
        return matches

    async def _overview(self, warnings: list[str]) -> list[Match]:
        """Put the apps into the answer; the most central entries of each stand in place of hits."""
        entries, apps = await self._run_in_thread(self._filtered)
        central = await self._describe_apps(entries, apps, OVERVIEW, warnings)
        return [Match(entry) for entry in interleave_apps(apps, central, self._places)]

    async def _search(self, warnings: list[str]) -> list[Match]:
        """Return the hits; where a query has none, the answer says what is nearest and what to try instead."""
        results = await self._index.search(self._entries, self.queries)
        hits = list(zip(self.queries, results.hits, strict=True))
        if self._ranking is not None:
            hits = await self._choose(self._ranking, hits, warnings)
        choose = partial(select, hits, self._criteria, self._places, self._default_places)
        # One query is read no further than it is shown. Ten common words over thousands of tools, or a filter that
        # leaves few of them, have tens of thousands of hits: too many for the event loop.
        in_loop = len(hits) == 1 and not self._criteria.has_filter
        selection = choose() if in_loop else await self._run_in_thread(choose)
        warnings += index_progress_warnings(results.ready, results.encoded, len(self._entries))
        if selection.without_place:
            warnings.append(no_place_warning(selection.without_place, self._places))
        await self._suggest(selection)
        unmatched, min_score = selection.unmatched, self._criteria.min_score
        if selection.matches:
            warnings += no_match_warnings(unmatched, min_score, alone=False)
        else:
            entries, apps = await self._run_in_thread(partial(self._filtered, unmatched))
            if entries and results.ready:
                warnings += no_match_warnings(unmatched, min_score, alone=len(self.queries) == 1)
            await self._describe_apps(entries, apps, DEAD_END, warnings, unmatched)
        if unmatched:
            warnings += await self._fitting_others([query.query for query in unmatched])
        return selection.matches

    async def _others(self) -> Sequence[CatalogEntry]:
        """What there is of other kinds; nothing where the call says which are searched."""
        if self._list_others is None:
            return ()
        try:
            others = await self._list_others()
        except Exception:
            # What fails about prompts is said to who asks for them; tools are found without.
            return ()
        return [entry for entry in others if self._criteria.fits(entry)]

    async def _fitting_others(self, queries: Sequence[str]) -> list[str]:
        """Say what of other kinds fits queries that nothing here fits."""
        others = await self._others()
        if not others:
            return []
        found = await self._index.search(others, queries)
        best: dict[tuple[str, Kind], Hit] = {}
        for hits in found.hits:
            for hit in islice(hits, CANDIDATES):
                if hit.score >= self._criteria.min_score:
                    best.setdefault((hit.entry.name, hit.entry.kind), hit)
        ordered = sorted(best.values(), key=lambda hit: -hit.score)
        return [other_kinds_match(ordered)] if ordered else []

    async def _choose(
        self, ranking: ModelRanking, found: Sequence[tuple[str, Sequence[Hit]]], warnings: list[str]
    ) -> list[tuple[str, Sequence[Hit]]]:
        """The hits that the client's model chooses; those by words where it does not."""
        from codecall.approvals.elicitation import UnansweredError  # loaded with the ranking

        candidates = list(self._entries) if len(self._entries) <= CANDIDATES else []
        for _, hits in found:
            candidates += [hit.entry for hit in islice(hits, CANDIDATES)]
        unique = {(entry.name, entry.kind): entry for entry in candidates if self._criteria.fits(entry)}
        entries = list(unique.values())
        if not entries:
            return list(found)
        about = [(entry.name, entry.description or entry.title or "") for entry in entries]
        try:
            chosen = await ranking.choose(self.queries, about)
        except UnansweredError as reason:
            warnings.append(f"Chosen by words alone: {reason}.")
            return list(found)
        ranked: list[tuple[str, Sequence[Hit]]] = []
        for (query, hits), places in zip(found, chosen, strict=True):
            if not places:
                warnings.append(f"Chosen by words alone: the client's model found nothing that fits {query!r:.100}.")
            # The model gives an order and no scores; each place is worth a little less than the one before.
            ordered = [
                Hit(entries[place], round(max(BEST - number * STEP, STEP), 4)) for number, place in enumerate(places)
            ]
            ranked.append((query, ordered or hits))
        return ranked

    async def _describe_apps(
        self,
        filtered: Sequence[CatalogEntry],
        apps: Sequence[AppSize],
        size: OverviewSize,
        warnings: list[str],
        unmatched: Sequence[UnmatchedQuery] = (),
    ) -> dict[str, list[CatalogEntry]]:
        """Put the apps of `filtered` into the answer, or all apps where the filter leaves nothing.

        Returns the central entries of each app, of those in `filtered`.
        """
        entries = filtered
        if not filtered:
            entries, apps = self._entries, await self._run_in_thread(partial(app_sizes, self._entries, unmatched))
            warnings.append(nothing_left_warning(unmatched, self._kinds, len(entries)))
        # An overview may show as many entries as there are places, each of another app.
        per_app = max(self._places, size.names_per_app(len(apps)))
        app_ids = [app.app_id for app in apps[: max(self._places, size.apps)]]
        central = await self._index.representative_entries(entries, per_app, app_ids)
        described, size_warnings = describe_apps(apps, central, size)
        self.body.update(described)
        warnings += size_warnings
        return central if filtered else {}

    async def _suggest(self, selection: Selection) -> None:
        """Put other words to search for into the answer, for queries without a hit or with weak ones only."""
        confident = {query for match in selection.matches if match.score >= WEAK_SCORE for query in match.queries}
        weak = [query for query in self.queries if query not in confident and query not in selection.without_place]
        # Reads descriptions: a few long ones are already too much for the event loop.
        if weak and (words := await self._run_in_thread(partial(suggest_searches, self._entries, weak), CHUNK)):
            self.body["suggestions"] = words

    def _filtered(self, unmatched: Sequence[UnmatchedQuery] = ()) -> tuple[Sequence[CatalogEntry], list[AppSize]]:
        """The entries that the filter and the excluded names leave, and their apps."""
        entries = self._entries
        if self._criteria.has_filter:
            entries = [entry for entry in entries if self._criteria.fits(entry)]
        return entries, app_sizes(entries, unmatched)

    async def _run_in_thread(self, function: Callable[[], T], more: int = 0) -> T:
        """Call `function`; in a thread where there are many entries (or `more` things to look at).

        Never in one of the threads in which tools run: a flood of searches would leave those none.
        """
        few = len(self._entries) + more <= CHUNK
        return function() if few else await anyio.to_thread.run_sync(function, limiter=search_threads())
