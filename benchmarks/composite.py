"""What a step of a composite tool costs beside a call of the same tool.

A workflow of 100 steps, and the same calls made by a tool of the server, within one request each; in one run, in turns.

    python benchmarks/composite.py [--rounds N] [--json]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import time
from typing import Any

from fastmcp import Client, Context, FastMCP

from codecall import CodeCallPlugin

STEPS = 100
LAYER = 10
"""Steps that run side by side; each depends on one of the layer before."""


def create_server() -> FastMCP[Any]:
    """A server with an instant tool, a workflow over it, and a tool that makes the same calls."""
    server: FastMCP[Any] = FastMCP("steps")

    @server.tool
    async def instant(n: int) -> dict[str, int]:
        return {"n": n}

    @server.tool(output_schema=None)
    async def direct(n: int, ctx: Context) -> str:
        for _ in range(STEPS):
            await ctx.fastmcp.call_tool("instant", {"n": n})
        return json.dumps({"n": n})

    steps = [
        {
            "id": f"s{number}",
            "tool": "instant",
            "arguments": {"n": f"{{{{.steps.s{number - LAYER}.output.n}}}}" if number >= LAYER else "{{.params.n}}"},
            "dependsOn": [f"s{number - LAYER}"] if number >= LAYER else [],
        }
        for number in range(STEPS)
    ]
    parameters = {"properties": {"n": {"type": "integer"}}, "required": ["n"]}
    workflow = {"name": "flow", "description": "Steps", "parameters": parameters, "steps": steps}
    CodeCallPlugin.init(composite_tools=[workflow], audit={"sinks": []}).install(server)
    return server


async def measure(rounds: int) -> dict[str, float]:
    """Milliseconds of one step, and of one direct call: the medians of some rounds in turns."""
    times: dict[str, list[float]] = {"flow": [], "direct": []}
    async with Client(create_server()) as client:
        for number in range(rounds + 1):
            for name, taken in times.items():
                began = time.perf_counter()
                result = await client.call_tool(name, {"n": number})
                taken.append((time.perf_counter() - began) * 1000 / STEPS)
                if json.loads(result.content[0].text) != {"n": number}:
                    raise ValueError(f"{name} gave {result.content}")
    step, direct = (statistics.median(taken[1:]) for taken in times.values())
    return {"step_ms": round(step, 3), "direct_ms": round(direct, 3), "added_ms": round(step - direct, 3)}


def main() -> int:
    """Print what was measured."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    result = asyncio.run(measure(options.rounds))
    print(json.dumps(result) if options.json else "\n".join(f"{name:10} {value:.3f}" for name, value in result.items()))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
