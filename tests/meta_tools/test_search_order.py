"""Equal input, equal output: prompt caches of models depend on it."""

from __future__ import annotations

import random

from fastmcp import Client, FastMCP
from hypothesis import given, settings
from hypothesis import strategies as st

from codecall import CodeCallPlugin, tool_metadata

VERBS = ("list", "get", "create", "delete")
NOUNS = ("user", "order", "invoice", "customer", "folder")
TOOLS = [(f"{verb}_{noun}", f"{verb.title()} the {noun} of a shop", noun) for verb in VERBS for noun in NOUNS]
QUERIES: list[object] = [
    "list the orders",
    "invoice",
    "lsit custmers",
    "the shop",
    "zzzzzz",
    "",
    ["create a folder", "delete", "qqqq"],
]


async def answers(tools: list[tuple[str, str, str]]) -> list[str]:
    """What a server with its tools added in this order says."""
    server = FastMCP("shop")
    for name, description, app in tools:
        meta = tool_metadata(app_id=app, tags=["a", "b"])
        server.tool(lambda: 1, name=name, description=description, meta=meta)
    CodeCallPlugin.init(pool={"min_workers": 0}).install(server)
    async with Client(server) as client:
        answers = [await client.call_tool("codecall:search", {"query": query, "detail": "full"}) for query in QUERIES]
    return [getattr(answer.content[0], "text", "") for answer in answers]


@given(st.randoms(use_true_random=False))
@settings(max_examples=8, deadline=None)
async def test_the_order_in_which_tools_were_added_does_not_matter(chance: random.Random) -> None:
    shuffled = list(TOOLS)
    chance.shuffle(shuffled)
    once = await answers(TOOLS)
    assert await answers(shuffled) == once
    assert await answers(TOOLS) == once
