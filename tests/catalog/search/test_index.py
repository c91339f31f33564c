"""The library: every caller gets an answer made from their own entries alone, whatever others do meanwhile."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace

import anyio
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codecall.catalog.entries import CatalogEntry
from codecall.catalog.search import index
from codecall.catalog.search.index import MIN_SCORE, SearchIndex, SearchResults, SemanticOptions
from codecall.catalog.search.indexer import SPARE_ENTRIES, DocumentIdArray, Scores
from codecall.catalog.search.lexical import LexicalRanker
from tests.catalog.catalog import CATALOG, tool
from tests.work import thread_share

Found = list[list[tuple[str, float]]]


def patient() -> SearchIndex:
    """A library that waits for all there is, however busy the machine."""
    return SearchIndex(wait_s=60)


def plain(searched: SearchResults) -> Found:
    return [[(hit.entry.name, hit.score) for hit in hits] for hits in searched.hits]


def crowd(count: int) -> list[CatalogEntry]:
    return [
        replace(CATALOG[n % len(CATALOG)], name=f"crowd:{n}", description=f"{CATALOG[n % 15].description} {n}")
        for n in range(count)
    ]


class Meanings:
    """A ranking by meaning for tests: the cosine is high where the query's first word is in the name."""

    failed = False

    def __init__(self) -> None:
        self.added: list[int] = []
        self.prepared: list[list[str]] = []
        self.names: dict[int, str] = {}
        self.go = threading.Event()
        self.go.set()

    def add(self, numbers: Sequence[int], entries: Sequence[CatalogEntry]) -> None:
        assert self.go.wait(10)
        self.added += numbers
        self.names |= {number: entry.name for number, entry in zip(numbers, entries, strict=True)}

    def remove(self, numbers: Collection[int]) -> None:
        for number in numbers:
            del self.names[number]

    def encode_queries(self, queries: Iterable[str]) -> None:
        self.prepared.append(list(queries))

    def count_encoded(self, view: DocumentIdArray) -> int:
        return len(set(view.tolist()) & self.names.keys())

    def scores(self, view: DocumentIdArray, query: str) -> Scores:
        first = query.split(" ", maxsplit=1)[0]
        names = (self.names.get(number) for number in view.tolist())
        cosines = [np.nan if name is None else 0.8 if first in name else 0.05 for name in names]
        return np.array(cosines, np.float32)


async def test_search_answers_each_query_in_order() -> None:
    found = await patient().search(CATALOG, ["list users", "delete an order", ""])

    assert [names[0][0] if names else None for names in plain(found)] == ["users:list", "orders:delete", None]
    assert found.ready == found.encoded == len(CATALOG)


async def test_no_entries_or_no_queries() -> None:
    library = patient()

    assert await library.search((), []) == SearchResults([], 0, 0)
    assert plain(await library.search((), ["list users"])) == [[]]
    assert plain(await library.search(CATALOG, [])) == []
    assert plain(await library.search((), ["list users"])) == [[]]


async def test_hits_are_a_sequence_of_rounded_scores_in_a_fixed_order() -> None:
    entries = [tool(f"copy_{letter}", "Duplicate a page") for letter in "zwyx"]
    hits = (await patient().search([*CATALOG, *entries], ["duplicate page"])).hits[0]

    assert [hit.entry.name for hit in hits[:4]] == ["copy_w", "copy_x", "copy_y", "copy_z"]
    assert len(hits) == len(list(hits)) == sum(1 for _ in hits)
    assert hits[-1].score >= MIN_SCORE
    assert all(hit.score == round(hit.score, 4) <= 1 for hit in hits)
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    with pytest.raises(IndexError):
        _ = hits[len(hits)]


async def test_a_hit_is_the_callers_own_entry() -> None:
    library = patient()
    await library.search(CATALOG, ["list users"])
    mine = [replace(entry) for entry in CATALOG]

    assert (await library.search(mine, ["list users"])).hits[0][0].entry is mine[0]


WORDS = st.sampled_from(
    [
        "user",
        "order",
        "list",
        "delete",
        "pay",
        "meeting",
        "weather",
        "report",
        "of",
        "a",
        "getUser",
        "搜索",
        "Kunde",
        "x1",
    ]
)
TEXTS = st.lists(WORDS, max_size=6).map(" ".join)
POOL = st.lists(st.tuples(TEXTS, TEXTS), min_size=2, max_size=14).map(
    lambda pairs: [tool(f"t{n} {name}", text, f"app{n % 3}") for n, (name, text) in enumerate(pairs)]
)


@settings(max_examples=8, deadline=None)
@given(POOL, st.lists(TEXTS, min_size=1, max_size=2), st.integers(0, 2**32))
def test_an_answer_depends_on_the_callers_entries_alone(
    pool: list[CatalogEntry], queries: list[str], seed: int
) -> None:
    chance = random.Random(seed)

    async def check() -> None:
        shared = patient()
        foreign = crowd(120)
        for _ in range(6):
            mine = chance.sample(pool, chance.randint(1, len(pool)))
            others = chance.sample([*pool, *foreign], chance.randint(1, len(pool) + len(foreign)))
            await shared.search(others, queries)
            if chance.random() < 0.5:  # pushes out what is not seen
                await shared.search([tool(f"{chance.random()}", "list orders") for _ in range(300)], queries)
            answer, alone = await shared.search(mine, queries), await patient().search(mine[::-1], queries)
            assert plain(answer) == plain(alone)
            assert (answer.ready, answer.encoded) == (len(mine), len(mine))
            assert await shared.representative_entries(mine, 2) == await patient().representative_entries(mine, 2)

    anyio.run(check)


class Counting(LexicalRanker):
    """The ranking by words, counting what it is told."""

    told: list[list[str]]
    failed = False

    def __init__(self) -> None:
        super().__init__()
        self.told = []
        self.forgotten = 0

    def add(self, numbers: Sequence[int], entries: Sequence[CatalogEntry]) -> None:
        self.told.append([entry.name for entry in entries])
        super().add(numbers, entries)

    def remove(self, numbers: Collection[int]) -> None:
        self.forgotten += len(numbers)
        super().remove(numbers)

    def holds(self) -> list[int]:
        return [number for segment in self._index.snapshot.segments for number in segment.ids.tolist()]

    def scores(self, view: DocumentIdArray, query: str) -> Scores:
        found = np.full(len(view), np.nan, np.float32)
        known = np.isin(view, self.holds())
        found[known] = super().scores(view[known], query)
        return found

    def encode_queries(self, queries: Iterable[str]) -> None:
        pass

    def count_encoded(self, view: DocumentIdArray) -> int:
        return int(np.isin(view, self.holds()).sum())


def counting() -> tuple[SearchIndex, Counting]:
    """A library whose ranking by meaning is the one by words, so that a test can look at it."""
    ranker = Counting()
    return SearchIndex(SemanticOptions(lambda: ranker, semantic_only=True)), ranker


async def ask(library: SearchIndex, entries: Sequence[CatalogEntry]) -> SearchResults:
    """A search with all the patience it needs for the second ranking, too."""
    while (found := await library.search(entries, ["list users"])).encoded < len(entries):
        pass
    return found


@pytest.mark.parametrize(
    ("change", "told"),
    [
        pytest.param(lambda tools: [*tools, tool("notes:add", "Write a note")], ["notes:add"], id="added"),
        pytest.param(lambda tools: tools[1:], None, id="removed"),
        pytest.param(lambda tools: tools[::-1], None, id="turned around"),
        pytest.param(lambda tools: [replace(entry) for entry in tools], None, id="equal by value"),
        pytest.param(
            lambda tools: [*tools[1:], replace(tools[0], description="Write a note")], ["users:list"], id="description"
        ),
        pytest.param(
            lambda tools: [replace(tools[0], input_schema={"properties": {"note": {}}}), *tools[1:]],
            ["users:list"],
            id="schema",
        ),
    ],
)
async def test_only_what_is_new_is_indexed(
    change: Callable[[list[CatalogEntry]], list[CatalogEntry]], told: list[str] | None
) -> None:
    library, ranker = counting()
    await ask(library, CATALOG)
    await ask(library, CATALOG)
    changed = change(list(CATALOG))
    await ask(library, changed)
    found = await ask(library, changed)

    assert ranker.told == [[entry.name for entry in CATALOG], *([told] if told else [])]
    assert plain(found) == plain(await ask(counting()[0], changed))


async def test_what_nobody_sees_any_more_is_forgotten() -> None:
    library, ranker = counting()
    for version in range(8):
        await ask(library, [tool(f"t{n}", f"Tool {n} of version {version} lists users") for n in range(150)])
    assert ranker.forgotten == 0  # sixteen kinds of callers are remembered
    for n in range(17):
        await ask(library, [*CATALOG, tool("changing", str(n))])

    assert ranker.forgotten >= 7 * 150
    held = ranker.holds()
    assert len(held) == len(set(held)) <= 2 * SPARE_ENTRIES


async def test_many_callers_at_once_share_one_build() -> None:
    library, ranker = counting()

    async with anyio.create_task_group() as group:
        for _ in range(8):
            group.start_soon(ask, library, [replace(entry) for entry in CATALOG])

    assert ranker.told == [[entry.name for entry in CATALOG]]


async def test_searches_go_on_unharmed_while_others_add_and_forget() -> None:
    library = patient()
    mine = list(CATALOG)
    expected = plain(await library.search(mine, ["list users", "delte ordr"]))
    done = False

    async def churn() -> None:
        nonlocal done
        for version in range(6):
            others = [tool(f"user{n}", f"List user {n} of version {version}") for n in range(400)]
            found = await library.search([*others, *mine[:3]], ["list user"])
            assert found.ready == 403
        done = True

    async def same() -> None:
        while not done:
            fresh = [replace(entry) for entry in mine]
            assert plain(await library.search(fresh, ["list users", "delte ordr"])) == expected

    async with anyio.create_task_group() as group:
        for work in (churn, same, same):
            group.start_soon(work)


async def test_a_cancelled_caller_does_no_harm() -> None:
    meanings = Meanings()
    meanings.go.clear()
    library = SearchIndex(SemanticOptions(lambda: meanings), wait_s=30)
    async with anyio.create_task_group() as hasty:
        hasty.start_soon(library.search, CATALOG, ["list users"])
        await anyio.wait_all_tasks_blocked()
        hasty.cancel_scope.cancel()
    task = asyncio.create_task(library.search([replace(entry) for entry in CATALOG], ["list users"]))
    await asyncio.sleep(0)
    task.cancel()  # as asyncio.wait_for does, without AnyIO's scopes
    with pytest.raises(asyncio.CancelledError):
        await task
    meanings.go.set()

    await ask(library, CATALOG)
    assert len(meanings.added) == len(CATALOG)


def test_one_library_serves_one_event_loop_after_the_other() -> None:
    meanings = Meanings()
    meanings.go.clear()
    library = SearchIndex(SemanticOptions(lambda: meanings), wait_s=0.01)

    first = anyio.run(library.search, CATALOG, ["list users"])  # ends while the second ranking is being fed
    meanings.go.set()
    second = anyio.run(ask, library, CATALOG)

    assert first.encoded == 0
    assert second.encoded == len(CATALOG)
    assert plain(first)[0][0][0] == plain(second)[0][0][0] == "users:list"


async def test_until_there_are_vectors_words_answer() -> None:
    meanings = Meanings()
    meanings.go.clear()
    library = SearchIndex(SemanticOptions(lambda: meanings), wait_s=0.01)
    by_words = plain(await patient().search(CATALOG, ["order git"]))

    early = await library.search(CATALOG, ["order git"])
    assert (early.ready, early.encoded) == (len(CATALOG), 0)
    assert plain(early) == by_words

    meanings.go.set()
    late = await ask(library, CATALOG)
    assert late.encoded == len(CATALOG)
    assert plain(await library.search(CATALOG, ["order git"])) != by_words


async def test_the_words_of_what_is_there_answer_while_more_is_indexed(monkeypatch: pytest.MonkeyPatch) -> None:
    go = threading.Event()
    go.set()

    class Slow(LexicalRanker):
        def add(self, numbers: Sequence[int], entries: Sequence[CatalogEntry]) -> None:
            assert go.wait(10)
            super().add(numbers, entries)

    monkeypatch.setattr(index, "_lexical_ranker", lambda _: Slow())
    library = SearchIndex(wait_s=0.01)
    await library.search(CATALOG[:5], ["list users"])
    go.clear()
    early = await library.search(CATALOG, ["list users", "delete an order"])
    go.set()
    late = await ask(library, CATALOG)

    assert early.ready == early.encoded == 5
    assert plain(early) == plain(await patient().search(CATALOG[:5], ["list users", "delete an order"]))
    assert late.ready == len(CATALOG)


async def test_a_model_that_has_failed_is_not_waited_for() -> None:
    meanings = Meanings()
    meanings.go.clear()
    library = SearchIndex(SemanticOptions(lambda: meanings, semantic_only=True))
    assert (await library.search(CATALOG, ["list users"])).encoded == 0
    meanings.failed = True
    found = await ask(library, CATALOG)
    meanings.go.set()

    assert plain(found) == plain(await patient().search(CATALOG, ["list users"]))


async def test_meaning_alone_ranks_what_has_a_vector() -> None:
    library = SearchIndex(SemanticOptions(Meanings, semantic_only=True))
    found = plain(await ask(library, CATALOG))

    assert found[0] == [("orders:list", 0.8747), ("users:list", 0.8747), *found[0][2:]]
    assert all(score < 0.3 for _, score in found[0][2:])


async def test_parts_of_a_request_are_prepared_at_once() -> None:
    meanings = Meanings()
    library = SearchIndex(SemanticOptions(lambda: meanings))
    await ask(library, CATALOG)
    meanings.prepared.clear()
    await library.search(CATALOG, ["list users. delete the order", "weather"])

    assert meanings.prepared == [["list users. delete the order", "list users.", "delete the order", "weather"]]


async def test_what_keeps_the_index_from_being_made_is_reported_and_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    failures = [RuntimeError("no memory"), ImportError("no library")]

    def make(_: object) -> LexicalRanker:
        if failures:
            raise failures.pop()
        return LexicalRanker()

    monkeypatch.setattr(index, "_lexical_ranker", make)
    library = patient()
    for kind in (ImportError, RuntimeError):
        with anyio.fail_after(10), pytest.raises(kind, match="no "):
            await library.search(CATALOG, ["list users"])
        assert plain(await library.search((), ["list users"])) == [[]]

    assert (await library.search(CATALOG, ["list users"])).ready == len(CATALOG)


async def test_words_answer_where_there_is_no_ranking_by_meaning_yet() -> None:
    failures = [RuntimeError("no memory")]

    def make() -> Meanings:
        if failures:
            raise failures.pop()
        return Meanings()

    library = SearchIndex(SemanticOptions(make))

    found = await library.search(CATALOG, ["list users"])
    assert found.hits[0][0].entry.name == "users:list"
    assert (await ask(library, CATALOG)).encoded == len(CATALOG)


async def test_threads_end_when_there_is_nothing_to_do() -> None:
    library = SearchIndex(SemanticOptions(Meanings))
    await ask(library, CATALOG)
    for thread in threading.enumerate():
        if thread.name in {"codecall-words", "codecall-meaning"}:
            await anyio.to_thread.run_sync(thread.join, 10)
            assert not thread.is_alive()
    await library.search(CATALOG, ["list orders"])

    assert not {"codecall-words", "codecall-meaning"} & {thread.name for thread in threading.enumerate()}


async def test_the_loop_runs_on_while_five_thousand_tools_are_indexed() -> None:
    many = crowd(5_000)
    library = patient()
    await library.search(CATALOG, ["list users"])  # loads scikit-learn, as a server does when it starts
    with thread_share() as loop:
        assert (await library.search(many, ["list users number 7"])).ready == 5_000
        # The same in objects of their own: compared by value, in a thread.
        await library.search([replace(entry, input_schema=dict(entry.input_schema)) for entry in many], ["list users"])
    assert loop.share < 0.25
