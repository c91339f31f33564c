"""The ranker that goes by meaning: what it scores, what it keeps, and how it gets out of the way.

The model is the static one, which is small enough for every run; `test_embedding_model.py` has one on PyTorch.
"""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from codecall.catalog.entries import CatalogEntry
from codecall.catalog.search.embedding import (
    MAX_CACHED_QUERIES,
    QUERY_PREFIX,
    TOOLS_PER_STEP,
    EmbeddingRanker,
    embedding_ranker,
    passages,
)
from codecall.catalog.search.models.encoder import Encoder, Floats
from codecall.catalog.search.models.load import load_encoder
from codecall.catalog.search.models.locate import locate_model
from codecall.catalog.search.vectors import VectorCache
from codecall.errors import CodeCallError
from codecall.options import SearchOptions
from tests.catalog.catalog import CATALOG, tool
from tests.work import python_steps

STATIC = SearchOptions(strategy="hybrid", model_name="wordllama")
ALL = np.arange(len(CATALOG), dtype=np.int32)
MANY = [tool(f"thing:{number}", f"Does thing number {number}") for number in range(3 * TOOLS_PER_STEP)]


@pytest.fixture(scope="module")
def static() -> Encoder:
    return load_encoder(locate_model(STATIC))


class Watched:
    """The static model, which counts its texts, can be held up and can be made to fail."""

    def __init__(self, encoder: Encoder) -> None:
        self.identity, self.width = encoder.identity, encoder.width
        self._encoder = encoder
        self.passages_seen: list[str] = []
        self.batches = 0
        self.queries_seen: list[list[str]] = []
        self.before_batch: Callable[[], object] = lambda: None
        self.before_query: Callable[[], object] = lambda: None

    def passages(self, texts: Sequence[str]) -> Floats:
        self.before_batch()
        self.batches += 1
        self.passages_seen += texts
        return self._encoder.passages(texts)

    def queries(self, texts: Sequence[str]) -> Floats:
        self.before_query()
        self.queries_seen.append(list(texts))
        return self._encoder.queries(texts)


@pytest.fixture
def model(static: Encoder) -> Watched:
    return Watched(static)


def ranker_of(model: Watched, folder: Path | None = None) -> EmbeddingRanker:
    return EmbeddingRanker(
        lambda: model, lambda encoder: VectorCache(folder, encoder.identity, encoder.width) if folder else None
    )


def filled(model: Watched, folder: Path | None = None, entries: Sequence[CatalogEntry] = CATALOG) -> EmbeddingRanker:
    ranker = ranker_of(model, folder)
    ranker.add(range(len(entries)), entries)
    return ranker


def best(ranker: EmbeddingRanker, query: str) -> str:
    return CATALOG[int(np.nanargmax(ranker.scores(ALL, query)))].name


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("will it rain in Berlin tomorrow", "weather_forecast"),
        ("give the buyer their cash back", "orders:refund"),
        ("make an appointment with the team", "calendar:createEvent"),
    ],
)
def test_meaning_is_found_without_a_common_word(query: str, name: str):
    ranker = embedding_ranker(STATIC)
    ranker.add(range(len(CATALOG)), CATALOG)
    assert best(ranker, query) == name
    assert ranker.count_encoded(ALL) == len(CATALOG)


def test_scores_are_cosines_in_the_order_of_the_view(model: Watched):
    ranker = filled(model)
    scores = ranker.scores(ALL, "refund an order")
    assert scores.dtype == np.float32
    assert np.all(np.abs(scores) <= 1)
    view = np.array([9, 3, 3, 7], dtype=np.int32)
    assert np.array_equal(ranker.scores(view, "refund an order"), scores[view])


def test_what_others_see_changes_no_score(model: Watched):
    few = filled(model, entries=CATALOG[:5])
    many = filled(model, entries=[*CATALOG[:5], *MANY])
    view = np.arange(5, dtype=np.int32)
    for query in ("list users", "a deal", "who am I"):
        assert np.array_equal(few.scores(view, query), many.scores(view, query))


def test_documents_without_a_vector_are_told(model: Watched):
    ranker = ranker_of(model)
    assert np.isnan(ranker.scores(ALL, "users")).all()
    ranker.add([2, 700], CATALOG[:2])
    view = np.array([0, 2, 700, 5_000], dtype=np.int32)
    assert np.isnan(ranker.scores(view, "users")).tolist() == [True, False, False, True]
    assert ranker.count_encoded(view) == 2
    assert len(ranker.scores(view[:0], "users")) == 0


def test_a_number_may_stand_for_another_document_later(model: Watched):
    ranker = filled(model)
    before = ranker.scores(ALL, "refund an order")
    ranker.remove([9, 3, 999])
    assert np.flatnonzero(np.isnan(ranker.scores(ALL, "refund an order"))).tolist() == [3, 9]
    ranker.add([9], [CATALOG[9]])
    ranker.add([3], [CATALOG[9]])
    after = ranker.scores(ALL, "refund an order")
    assert after[3] == after[9] == before[9]
    ranker.add([3], [CATALOG[3]])
    assert np.array_equal(ranker.scores(ALL, "refund an order"), before)


def test_what_is_forgotten_while_it_is_encoded_stays_away(model: Watched):
    ranker = ranker_of(model)
    model.before_batch = lambda: ranker.remove([1])
    ranker.add([0, 1], CATALOG[:2])
    assert np.isnan(ranker.scores(ALL[:2], "users")).tolist() == [False, True]


def test_an_entry_the_model_has_nothing_for_gets_no_vector(model: Watched):
    model.passages = lambda texts: np.zeros((len(texts), model.width), dtype=np.float32)  # type: ignore[method-assign]
    ranker = filled(model)
    assert ranker.count_encoded(ALL) == 0
    assert np.isnan(ranker.scores(ALL, "users")).all()


def test_only_what_is_new_is_encoded(model: Watched, tmp_path: Path):
    first = filled(model, tmp_path)
    assert sorted(model.passages_seen) == sorted({each.text for entry in CATALOG for each in passages(entry)})
    model.passages_seen.clear()
    again = filled(model, tmp_path)
    assert model.passages_seen == []
    assert np.array_equal(again.scores(ALL, "refund an order"), first.scores(ALL, "refund an order"))
    changed = [replace(CATALOG[0], description="Show every person"), *CATALOG[1:]]
    filled(model, tmp_path, changed)
    assert model.passages_seen == ["Show every person"]


def test_another_revision_of_the_model_encodes_anew(model: Watched, tmp_path: Path):
    filled(model, tmp_path)
    count = len(model.passages_seen)
    model.identity = "another"
    filled(model, tmp_path)
    assert len(model.passages_seen) == 2 * count


def test_the_cache_is_where_the_option_says(static: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("codecall.catalog.search.embedding.locate_model", lambda _: None)
    monkeypatch.setattr("codecall.catalog.search.embedding.load_encoder", lambda _, **__: static)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "usual"))
    options = SearchOptions(strategy="hybrid")
    for place, found in ((None, "usual/codecall"), (tmp_path / "own", "own"), (False, None)):
        embedding_ranker(options.model_copy(update={"cache_dir": place})).add([0], CATALOG[:1])
        files = [file for file in tmp_path.rglob("*.sqlite3") if file.is_file()]
        assert [str(file.parent.relative_to(tmp_path)) for file in files] == ([found] if found else [])
        for file in files:
            file.unlink()


def test_search_answers_while_tools_are_encoded_and_goes_first(model: Watched):
    ranker = ranker_of(model)
    view = np.arange(len(MANY), dtype=np.int32)
    reached, go = threading.Event(), threading.Event()

    def hold() -> None:
        if model.batches and ranker.count_encoded(view) == TOOLS_PER_STEP and not go.is_set():
            reached.set()
            assert go.wait(10)

    model.before_batch = hold
    background = threading.Thread(target=ranker.add, args=(range(len(MANY)), MANY))
    background.start()
    assert reached.wait(10)
    asked = threading.Thread(target=ranker.encode_queries, args=(["thing number 5"],))
    asked.start()
    while not ranker._encoder_lock._urgent_waiting:  # pyright: ignore[reportPrivateUsage] - until the query stands in line
        time.sleep(0.001)
    batches: list[int] = []
    model.before_query = lambda: batches.append(model.batches)
    before = model.batches
    go.set()
    asked.join()
    assert batches == [before + 1]
    assert TOOLS_PER_STEP <= np.count_nonzero(~np.isnan(ranker.scores(view, "thing number 5"))) <= len(MANY)
    background.join()
    assert ranker.count_encoded(view) == len(MANY)


def test_queries_are_encoded_once_and_together(model: Watched):
    ranker = filled(model)
    ranker.encode_queries(["one", "two", "one"])
    ranker.encode_queries(["two", "three"])
    ranker.scores(ALL, "three")
    # Each also behind the words that say what tools are for.
    prefixed = [[f"{QUERY_PREFIX}{query}" for query in batch] for batch in (["one", "two"], ["three"])]
    assert model.queries_seen == [["one", "two", *prefixed[0]], ["three", *prefixed[1]]]


def test_few_queries_are_remembered(model: Watched):
    ranker = filled(model)
    ranker.scores(ALL, "first")
    for number in range(MAX_CACHED_QUERIES + 2):
        ranker.scores(ALL, "first" if number == 100 else f"query {number}")
    ranker.scores(ALL, "first")
    ranker.scores(ALL, "query 0")
    assert [query for query, _ in model.queries_seen if query in ("first", "query 0")] == [
        "first",
        "query 0",
        "query 0",
    ]


def fail() -> None:
    raise RuntimeError("out of\nmemory")


def test_a_model_that_fails_for_tools_is_told_once(model: Watched, caplog: pytest.LogCaptureFixture):
    ranker = filled(model)
    model.before_batch = fail
    ranker.add(range(20, 22), MANY[:2])
    ranker.add(range(22, 24), MANY[2:4])
    assert np.isnan(ranker.scores(ALL, "users")).all()
    assert ranker.count_encoded(ALL) == 0
    assert [record.message for record in caplog.records if record.levelno >= logging.WARNING] == [
        "Search goes on by words alone until the server is started again. "
        "The search model failed: RuntimeError: out of memory"
    ]


def test_a_model_that_fails_for_a_query_is_told_once(model: Watched, caplog: pytest.LogCaptureFixture):
    ranker = filled(model)
    model.before_query = fail
    for _ in range(3):
        assert np.isnan(ranker.scores(ALL, "users")).all()
    assert len([record for record in caplog.records if record.levelno == logging.ERROR]) == 1


def test_a_model_that_does_not_load_is_told_once(caplog: pytest.LogCaptureFixture):
    tried: list[int] = []

    def broken() -> Encoder:
        tried.append(1)
        raise CodeCallError("The search model 'x' cannot be loaded: OSError: no such file")

    ranker = EmbeddingRanker(broken, lambda _: None)
    assert not ranker.load()
    for _ in range(2):
        ranker.add([0], CATALOG[:1])
        assert np.isnan(ranker.scores(ALL, "users")).all()
    assert tried == [1]
    assert [record.message for record in caplog.records] == [
        "Search goes on by words alone until the server is started again. "
        "The search model 'x' cannot be loaded: OSError: no such file"
    ]


def test_closing_ends_the_work(model: Watched):
    ranker = ranker_of(model)

    def close_at_the_second() -> None:
        if model.batches == 1:
            ranker.close()

    model.before_batch = close_at_the_second
    ranker.add(range(len(MANY)), MANY)
    assert model.batches == 2
    assert np.isnan(ranker.scores(np.arange(3, dtype=np.int32), "thing")).all()


def test_a_program_that_ends_does_not_wait_for_thousands_of_tools():
    program = """
import threading, time
from codecall.catalog.search.embedding import EmbeddingRanker
from codecall.catalog.search.models.load import load_encoder
from codecall.catalog.search.models.locate import locate_model
from codecall.options import SearchOptions
from codecall.catalog.entries import CatalogEntry

class Slow:
    identity, width, started = "slow", 256, threading.Event()
    def __init__(self, encoder):
        self.encoder = encoder
    def passages(self, texts):
        self.started.set()
        time.sleep(0.2)
        return self.encoder.passages(texts)

slow = Slow(load_encoder(locate_model(SearchOptions(strategy="hybrid", model_name="wordllama"))))
ranker = EmbeddingRanker(lambda: slow, lambda _: None)
tools = [CatalogEntry(f"t{i}", "", f"does {i}", {}) for i in range(20_000)]
threading.Thread(target=ranker.add, args=(range(len(tools)), tools)).start()
slow.started.wait()
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=30)


def test_no_step_of_python_is_taken_for_each_of_ten_thousand_tools(model: Watched):
    ranker = ranker_of(model)
    known = model.passages(["a", "list users", "delete an order"])[1:]
    model.passages = lambda texts: np.tile(known, (len(texts) // 2 + 1, 1))[: len(texts)]  # type: ignore[method-assign]
    entries = [CatalogEntry(f"t{number}", "", "", {}) for number in range(10_000)]
    ranker.add(range(10_000), entries)
    view = np.arange(10_000, dtype=np.int32)
    ranker.encode_queries(["list users"])
    steps = python_steps(lambda: ranker.scores(view, "list users"))
    assert steps < 200
