"""The results of `load.py` as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchmarks.load_work import PLAIN, SIDES

Result = Mapping[str, Any]


def report(results: Sequence[Result], about: Mapping[str, object]) -> str:
    """Two tables and what they come to."""
    parts = [
        ", ".join(f"{key} {value}" for key, value in about.items()),
        "",
        *_totals(results),
        "",
        *_kinds(results),
        "",
        *map(_verdict, results),
    ]
    return "\n".join(parts + _errors(results))


def _totals(results: Sequence[Result]) -> Iterator[str]:
    yield (
        "| clients | owners | | scripts/s | p50 ms | p95 ms | p99 ms | errors | server MB | workers MB "
        "| processor ms: server | workers | clients |"
    )
    yield "|---:|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
    for result in results:
        for side, about in SIDES.items():
            for name, of in ((f"{about.title}, {PLAIN.name}", result[side]["plain"]), (about.title, result[side])):
                memory, processor = of["memoryMb"], of["cpuMs"]
                cells = [
                    result["clients"],
                    result["owners"],
                    name,
                    f"{of['perSecond']:.1f}",
                    *(f"{of[part]:,.0f}" for part in ("p50", "p95", "p99")),
                    of["errors"],
                    f"{memory['server']:.0f}",
                    f"{memory['workers']:.0f}",
                    *(f"{processor[who]:.1f}" for who in ("server", "workers", "clients")),
                ]
                yield "| " + " | ".join(map(str, cells)) + " |"


def _kinds(results: Sequence[Result]) -> Iterator[str]:
    columns = [(result, side) for result in results for side in SIDES]
    titles = [
        f"{SIDES[side].title}, {result['clients']} clients, {result['owners']} owner{'s'[: result['owners'] > 1]}"
        for result, side in columns
    ]
    yield f"| p50 / p95 / p99 in ms | {' | '.join(titles)} |"
    yield f"|---|{'---:|' * len(columns)}"
    for kind in results[0]["codecall"]["kinds"]:
        cells = [
            " / ".join(f"{result[side]['kinds'][kind][part]:,.0f}" for part in ("p50", "p95", "p99"))
            for result, side in columns
        ]
        yield f"| {kind} | {' | '.join(cells)} |"


def _verdict(result: Result) -> str:
    owners = "" if result["owners"] == 1 else f" of {result['owners']} owners"
    return (
        f"With {result['clients']} clients{owners}, CodeCall does **{result['ratio']:.1f} times** as many scripts a "
        f"second as CodeMode, with {result['codecall']['errors']} errors (CodeMode: {result['codemode']['errors']})."
    )


def _errors(results: Sequence[Result]) -> list[str]:
    lines: list[str] = []
    for result in results:
        for side, about in SIDES.items():
            wrong = {**result[side]["plain"]["wrong"], **result[side]["wrong"]}
            lines += [f"- {about.title}, {result['clients']} clients: {n} x {what}" for what, n in wrong.items()]
    return ["", "Errors:", "", *lines] if lines else []
