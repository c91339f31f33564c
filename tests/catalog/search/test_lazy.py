"""The index is loaded by the first search, once, and a process may end at any moment of it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading

import pytest

from codecall.catalog.search.index import SearchIndex
from codecall.catalog.search.lazy import LazySearchIndex

SERVER = """
import asyncio
from fastmcp import Client, FastMCP
from codecall import CodeCallPlugin

async def main():
    server = FastMCP("short")
    server.tool(lambda: 1, name="one")
    CodeCallPlugin.init().install(server)
    async with Client(server) as client:
        await client.list_tools()
        {last}

asyncio.run(main())
"""


@pytest.mark.parametrize(
    "last",
    [
        "pass",
        "search = asyncio.create_task(client.call_tool('codecall:search', {'query': 'one'}));"
        "search.add_done_callback(lambda ended: ended.cancelled() or ended.exception()); await client.list_tools()",
        "await client.call_tool('codecall:search', {'query': 'one'})",
    ],
)
def test_a_process_that_ends_early_has_nothing_to_say(last: str) -> None:
    program = SERVER.format(last=last)
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert ran.stderr == ""


async def test_searches_at_the_same_moment_get_one_index_made_off_the_event_loop() -> None:
    makers: list[int] = []

    def create() -> SearchIndex:
        makers.append(threading.get_ident())
        return SearchIndex()

    lazy = LazySearchIndex(create)
    lazy.start_loading()  # there is no model to load
    assert makers == []
    first, second = await asyncio.gather(lazy.get(), lazy.get())
    assert first is second is await lazy.get()
    assert len(makers) == 1
    assert makers != [threading.get_ident()]


async def test_what_stopped_the_index_from_being_made_is_told_and_the_next_search_tries_again() -> None:
    made = SearchIndex()
    outcomes: list[SearchIndex | ImportError] = [ImportError("no scipy"), made]

    def create() -> SearchIndex:
        outcome = outcomes.pop(0)
        if isinstance(outcome, ImportError):
            raise outcome
        return outcome

    lazy = LazySearchIndex(create)
    with pytest.raises(ImportError, match="no scipy"):
        await lazy.get()
    assert await lazy.get() is made
