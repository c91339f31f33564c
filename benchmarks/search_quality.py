"""How well `codecall:search` finds the right tool: labelled queries, ablation, calibration, scale.

    python benchmarks/search_quality.py --data FOLDER [--sets azure bfcl] [--quick] [--json]

FOLDER holds `<set>.dev.jsonl` (`{query, relevant: [tool names]}`) and `<set>.tools.jsonl` (`{name, description,
inputSchema?, server?}`). Each query is searched over the tools of its set, by scikit-learn's TF-IDF as it comes, by the
index of FastMCP's own BM25 search, and by ours.

- recall@5: relevant tools among the first five / min(relevant, 5). nDCG@10: binary gain. In percent; macro: the mean
  over the sets, each set counting once.
- ablation: ours with one ingredient taken away.
- typing errors: one letter dropped, swapped or put in, in half of the longer words of every query (always the same).
- calibration: the best score of a relevant tool for its own query, beside the best score in catalogues of other sets,
  most of which have nothing for the query; and the recall@5 that is left above the default threshold.
- scale: seconds to build 10,000 tools, memory, milliseconds a query, and the longest time the event loop stood still.

`--quick` leaves out the ablation.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import random
import statistics
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import log2
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from fastmcp.server.transforms.search.bm25 import _BM25Index
from sklearn.feature_extraction.text import TfidfVectorizer

from codecall.catalog.entries import CatalogEntry
from codecall.catalog.index import IndexCache
from codecall.catalog.tfidf import TfidfIndex, Weights
from codecall.options import SearchOptions

TOOLS_OF = {"livemcp_tasks": "livemcp", "livemcp_steps": "livemcp", "metatool_multi": "metatool"}
"""Sets that share the tools of another."""
THRESHOLD = SearchOptions().similarity_threshold
FOREIGN_QUERIES = 40
"""Queries of each set that are also searched in every catalogue of another set."""

Search = Callable[[str], list[str]]
Scored = Callable[[str], list[tuple[str, float]]]


@dataclass(frozen=True)
class Query:
    text: str
    relevant: frozenset[str]


@dataclass(frozen=True)
class QuerySet:
    name: str
    catalogue: str
    tools: list[CatalogEntry]
    queries: list[Query]


def _lines(path: Path) -> Iterable[dict[str, Any]]:
    with path.open(encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


def load(folder: Path, only: Sequence[str]) -> list[QuerySet]:
    """The query sets of `folder`, all of them or those named."""
    sets: list[QuerySet] = []
    for path in sorted(folder.glob("*.dev.jsonl")):
        name = path.name.removesuffix(".dev.jsonl")
        if only and name not in only:
            continue
        catalogue = TOOLS_OF.get(name, name)
        tools = [
            CatalogEntry(
                name=tool["name"],
                app_id=tool.get("server") or "",
                description=tool.get("description") or "",
                input_schema=tool.get("inputSchema") or {},
            )
            for tool in _lines(folder / f"{catalogue}.tools.jsonl")
        ]
        queries = [Query(line["query"], frozenset(line["relevant"])) for line in _lines(path)]
        sets.append(QuerySet(name, catalogue, tools, queries))
    if not sets:
        raise SystemExit(f"--data: no *.dev.jsonl of {', '.join(only) or 'any set'} in {folder}")
    return sets


def ours(tools: Sequence[CatalogEntry], weights: Weights) -> Search:
    index = TfidfIndex(tools, weights)
    return lambda query: [hit.name for hit in index.search(query)[:10]]


def plain_tfidf(tools: Sequence[CatalogEntry]) -> Search:
    """scikit-learn's vectorizer with its defaults over name and description, cosine."""
    vectorizer = TfidfVectorizer()
    matrix = vectorizer.fit_transform([f"{tool.name} {tool.description}" for tool in tools])

    def search(query: str) -> list[str]:
        scores = (matrix @ vectorizer.transform([query]).T).toarray().ravel()
        return [tools[i].name for i in (-scores).argsort(kind="stable")[:10]]

    return search


def fastmcp_bm25(tools: Sequence[CatalogEntry]) -> Search:
    """The index of `fastmcp.server.transforms.search.BM25SearchTransform`, fed with the text it takes from a tool."""
    texts: list[str] = []
    for tool in tools:
        parts = [tool.name, tool.description]
        for name, schema in (tool.input_schema.get("properties") or {}).items():  # type: ignore[union-attr]
            parts.append(name)
            if isinstance(schema, dict) and schema.get("description"):
                parts.append(schema["description"])
        texts.append(" ".join(parts))
    index = _BM25Index()
    index.build(texts)
    return lambda query: [tools[i].name for i in index.query(query, 10)]


def measure(found: Sequence[str], relevant: frozenset[str]) -> tuple[float, float]:
    """recall@5 and nDCG@10 of one query, each 0 to 1."""
    gains = [name in relevant for name in found[:10]]
    recall = sum(gains[:5]) / min(len(relevant), 5)
    dcg = sum(1 / log2(place + 2) for place, gain in enumerate(gains) if gain)
    best = sum(1 / log2(place + 2) for place in range(min(len(relevant), 10)))
    return recall, dcg / best


def evaluate(
    sets: Sequence[QuerySet], make: Callable[[Sequence[CatalogEntry]], Search], spell: Callable[[str], str] = str
) -> dict[str, tuple[float, float]]:
    """recall@5 and nDCG@10 in percent for each set, and `macro`."""
    indexes: dict[str, Search] = {}
    result: dict[str, tuple[float, float]] = {}
    for each in sets:
        search = indexes.get(each.catalogue) or indexes.setdefault(each.catalogue, make(each.tools))
        scores = [measure(search(spell(query.text)), query.relevant) for query in each.queries]
        result[each.name] = (
            100 * statistics.fmean(recall for recall, _ in scores),
            100 * statistics.fmean(ndcg for _, ndcg in scores),
        )
    result["macro"] = (
        statistics.fmean(recall for recall, _ in result.values()),
        statistics.fmean(ndcg for _, ndcg in result.values()),
    )
    return result


def misspelt(query: str) -> str:
    """`query` with typing errors; the same query always gets the same ones."""
    chance = random.Random(query)
    words = query.split(" ")
    for number, word in enumerate(words):
        if len(word) < 5 or not word.isalpha() or chance.random() < 0.5:
            continue
        place = chance.randrange(1, len(word) - 1)
        words[number] = chance.choice(
            (
                word[:place] + word[place + 1 :],
                word[:place] + word[place + 1] + word[place] + word[place + 2 :],
                word[:place] + chance.choice("aeinrst") + word[place:],
            )
        )
    return " ".join(words)


ABLATION = {
    "name counts once": Weights(name=1),
    "no coverage (BM25) part": Weights(coverage=0, likeness=1),
    "no likeness (cosine) part": Weights(coverage=1, likeness=0),
    "no look-alikes": Weights(unknown=0, known=0),
    "look-alikes of unknown words only": Weights(known=0),
}


def calibration(sets: Sequence[QuerySet]) -> dict[str, list[float]]:
    """Percentiles of the best score of a relevant tool, and of the best score in other catalogues."""
    indexes = {each.catalogue: TfidfIndex(each.tools) for each in sets}
    own: list[float] = []
    foreign: list[float] = []
    kept: list[float] = []
    for each in sets:
        recalls: list[float] = []
        for query in each.queries:
            hits = indexes[each.catalogue].search(query.text)
            own.append(max((hit.score for hit in hits if hit.name in query.relevant), default=0.0))
            above = [hit.name for hit in hits[:10] if hit.score >= THRESHOLD]
            recalls.append(measure(above, query.relevant)[0])
        kept.append(100 * statistics.fmean(recalls))
        sample = random.Random(each.name).sample(each.queries, min(FOREIGN_QUERIES, len(each.queries)))
        for catalogue, index in indexes.items():
            if catalogue != each.catalogue:
                foreign += [hits[0].score if (hits := index.search(query.text)) else 0.0 for query in sample]
    return {
        "best relevant": _percentiles(own),
        "best in other catalogues": _percentiles(foreign),
        f"recall@5 above {THRESHOLD}": [statistics.fmean(kept)],
        f"relevant above {THRESHOLD} in %": [100 * statistics.fmean(score >= THRESHOLD for score in own)],
        f"other catalogues silent at {THRESHOLD} in %": [
            100 * statistics.fmean(score < THRESHOLD for score in foreign)
        ],
    }


PERCENTILES = (5, 10, 25, 50, 75, 90, 95)


def _percentiles(values: Sequence[float]) -> list[float]:
    ordered = sorted(values)
    return [ordered[min(len(ordered) - 1, len(ordered) * percent // 100)] for percent in PERCENTILES] if ordered else []


async def scale(sets: Sequence[QuerySet], size: int) -> dict[str, float]:
    """Build and query times of one catalogue made of the sets' tools, repeated up to `size` under other names."""
    tools = [tool for each in {each.catalogue: each for each in sets}.values() for tool in each.tools]
    many = [replace(tools[i % len(tools)], name=f"{tools[i % len(tools)].name}:{i}") for i in range(size)]
    queries = [query.text for each in sets for query in each.queries[:25]]
    cache = IndexCache()
    await cache.search(many[:10], ["warm up"])
    late: list[float] = []

    async def watch() -> None:
        while True:
            began = time.perf_counter()
            await asyncio.sleep(0.001)
            late.append(time.perf_counter() - began - 0.001)

    gc.collect()
    watcher = asyncio.create_task(watch())
    began = time.perf_counter()
    await cache.get(many)
    built = time.perf_counter() - began
    watcher.cancel()
    times: list[float] = []
    for query in queries:
        began = time.perf_counter()
        await cache.search(many, [query])
        times.append(time.perf_counter() - began)
    fresh = [replace(tool) for tool in many]
    began = time.perf_counter()
    await cache.get(fresh)
    recognised = time.perf_counter() - began
    tracemalloc.start()
    index = TfidfIndex(many)
    memory, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return {
        "tools": index.size,
        "build s": built,
        "loop late at most ms": 1000 * max(late, default=0.0),
        "query median ms": 1000 * statistics.median(times),
        "query p99 ms": 1000 * sorted(times)[len(times) * 99 // 100],
        "equal catalogue recognised ms": 1000 * recognised,
        "index MB": memory / 1e6,
    }


def _table(rows: dict[str, dict[str, tuple[float, float]]]) -> None:
    names = list(next(iter(rows.values())))
    print(f"{'recall@5 / nDCG@10':<36}" + "".join(f"{name[:15]:>17}" for name in names))
    for label, row in rows.items():
        print(f"{label:<36}" + "".join(f"{row[name][0]:>10.1f} /{row[name][1]:5.1f}" for name in names))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the query sets")
    parser.add_argument("--sets", nargs="*", default=[], help="only these sets")
    parser.add_argument("--quick", action="store_true", help="no ablation")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
    arguments = parser.parse_args()
    sets = load(arguments.data, arguments.sets)
    rows = {
        "scikit-learn TF-IDF, defaults": evaluate(sets, plain_tfidf),
        "FastMCP BM25": evaluate(sets, fastmcp_bm25),
        "CodeCall tfidf": evaluate(sets, lambda tools: ours(tools, Weights())),
        "FastMCP BM25, typing errors": evaluate(sets, fastmcp_bm25, misspelt),
        "CodeCall tfidf, typing errors": evaluate(sets, lambda tools: ours(tools, Weights()), misspelt),
    }
    if not arguments.quick:
        for label, weights in ABLATION.items():
            rows[f"  {label}"] = evaluate(sets, lambda tools, weights=weights: ours(tools, weights))
    scores = calibration(sets)
    sizes = [asyncio.run(scale(sets, size)) for size in (1_000, 5_000, 10_000)]
    if arguments.json:
        print(json.dumps({"quality": rows, "calibration": scores, "scale": sizes}))
        return
    _table(rows)
    print(f"\n{'scores':<48}" + "".join(f"{f'p{percent}':>8}" for percent in PERCENTILES))
    for label, values in scores.items():
        print(f"{label:<48}" + "".join(f"{value:>8.2f}" for value in values))
    print("\n" + "".join(f"{label:>32}" for label in sizes[0]))
    for row in sizes:
        print("".join(f"{value:>32,.1f}" for value in row.values()))


if __name__ == "__main__":
    main()
