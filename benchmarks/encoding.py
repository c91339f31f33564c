"""How long an embedding model takes to encode a catalog, what memory, and what a second start takes.

    python benchmarks/encoding.py --data FILE [--tools 5000] [--model NAME] [--backend onnx] [--threads 2]
                                  [--json]

FILE holds JSON lines `{name, description, inputSchema?, server?}`. The tools are encoded as a server does in the
background, with the cache of vectors in a folder of its own, then once more by a second ranker, which finds them there.
Processor seconds are of this process: on a busy machine they say more than the seconds that passed.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np

from codecall.catalog.entries import CatalogEntry
from codecall.catalog.search.embedding import embedding_ranker
from codecall.options import SearchOptions


def load(file: Path, most: int) -> list[CatalogEntry]:
    """The first tools of a file, which starts again, under other names, where it has too few."""
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    tools: list[CatalogEntry] = []
    for number in range(most):
        turn, place = divmod(number, len(lines))
        tool = lines[place]
        tools.append(
            CatalogEntry(
                name=f"{tool['name']}_{turn}" if turn else tool["name"],
                app_id=tool.get("server") or "",
                description=tool.get("description") or "",
                input_schema=tool.get("inputSchema") or {},
            )
        )
    return tools


def encode(options: SearchOptions, tools: list[CatalogEntry]) -> dict[str, float]:
    """Seconds that a new ranker takes for all tools."""
    ranker = embedding_ranker(options)
    began = time.perf_counter()
    if not ranker.load():
        raise SystemExit("the model cannot be loaded")
    loaded = time.perf_counter()
    processor = time.process_time()
    ranker.add(range(len(tools)), tools)
    row = {
        "loadSeconds": loaded - began,
        "seconds": time.perf_counter() - loaded,
        "processorSeconds": time.process_time() - processor,
    }
    view = np.arange(len(tools), dtype=np.int32)
    if ranker.count_encoded(view) != len(tools):
        raise SystemExit("not all tools were encoded")
    began = time.thread_time()
    for number in range(20):
        ranker.scores(view, f"a query that nobody asked before {number}")
    return row | {"queryMs": (time.thread_time() - began) / 20 * 1_000}


def main() -> None:
    """Run what the arguments ask for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="JSON lines with tool definitions")
    parser.add_argument("--tools", type=int, default=5_000)
    parser.add_argument("--model", default=SearchOptions().model_name)
    parser.add_argument("--backend", default="auto", choices=("auto", "onnx", "torch"))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text")
    arguments = parser.parse_args()
    tools = load(arguments.data, arguments.tools)
    with tempfile.TemporaryDirectory() as folder:
        options = SearchOptions(
            strategy="embedding",
            model_name=arguments.model,
            backend=arguments.backend,
            threads=arguments.threads,
            cache_dir=folder,
        )
        first = encode(options, tools)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1_024
        second = encode(options, tools)
    result: dict[str, Any] = {"tools": len(tools), "first": first, "second": second, "peakMb": peak}
    if arguments.json:
        print(json.dumps(result))
        return
    for label, row in (("first start", first), ("second start", second)):
        print(
            f"{label}: {len(tools):,} tools in {row['seconds']:.1f} s ({row['processorSeconds']:.1f} s of processors), "
            f"model loaded in {row['loadSeconds']:.1f} s, a query takes {row['queryMs']:.1f} ms"
        )
    print(f"peak memory {peak:.0f} MB")


if __name__ == "__main__":
    main()
