"""Search through a client, by meaning: the strategies as an operator sets them, with a real model."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from fastmcp import Client, FastMCP

from codecall import CodeCallPlugin


def clinic() -> FastMCP:
    """A server whose tools are described in other words than people use."""
    server: FastMCP = FastMCP("clinic")

    @server.tool
    def list_physicians() -> list[str]:
        """Physicians on duty."""
        return []

    @server.tool
    def reserve_slot(day: str) -> str:
        """Reserve a consultation."""
        return day

    @server.tool
    def export_ledger() -> str:
        """Write the ledger to a file."""
        return ""

    return server


@asynccontextmanager
async def search_with(**embedding: Any) -> AsyncIterator[Any]:
    """Asks a clinic with these options, once all that the model has to do is done."""
    server = CodeCallPlugin.init(embedding=embedding).install(clinic())
    async with Client(server) as client:

        async def ask(query: str, **more: Any) -> dict[str, Any]:
            result = await client.call_tool("codecall:search", {"query": query, **more})
            assert result.structured_content is not None
            return result.structured_content

        with anyio.fail_after(30):
            while "warnings" in await ask("physicians on duty"):
                await anyio.lowlevel.checkpoint()
        yield ask


@pytest.mark.parametrize("strategy", ["hybrid", "embedding", "auto"])
async def test_a_model_finds_what_no_word_says(strategy: str) -> None:
    async with search_with(strategy=strategy, model_name="wordllama") as ask:
        answer = await ask("which doctors are there", minScore=0.1)
        assert answer["tools"][0]["name"] == "list_physicians"
        assert answer == await ask("which doctors are there", minScore=0.1)


async def test_words_alone_find_nothing_there() -> None:
    async with search_with(strategy="tfidf") as ask:
        assert (await ask("medics"))["tools"] == []


async def test_the_operators_synonyms_count() -> None:
    async with search_with(synonyms=[["medics", "physicians"]]) as ask:
        answer = await ask("medics")
        assert [tool["name"] for tool in answer["tools"]] == ["list_physicians"]
        assert (await ask("physicians"))["tools"][0]["score"] > answer["tools"][0]["score"]
