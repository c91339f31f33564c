"""What concerns a run of the tests as a whole: what it costs beside the tests themselves."""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.fork_servers import ForkServers
    from tests.loaded_python import LoadedPython

BETWEEN_S = 5.0
"""Processor time between two collections of all garbage, which each look at some hundred thousand objects."""

COLLECTED = pytest.StashKey[float]()
"""Processor time at the last of them."""

YOUNG = 5_000
"""New objects after which Python looks for garbage among them; otherwise 700, some thirty thousand times a run."""


def pytest_xdist_auto_num_workers() -> int:
    """Test processes of `-n auto`: more than there are cores, since tests often wait for processes."""
    return max(1, 3 * (os.cpu_count() or 1) // 2)


def pytest_configure() -> None:
    """Look for no garbage while tests are collected: what that makes is kept to the end."""
    gc.disable()


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """From now on look only at what tests make, not at half a million objects again and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, *gc.get_threshold()[1:])
    gc.enable()
    _check_schemas_once()


def _check_schemas_once() -> None:
    """A client checks the schema of each tool's results, with 20 ms for one of CodeCall's; most tests have a client."""
    from jsonschema import Draft202012Validator

    check: Callable[[object], None] = Draft202012Validator.check_schema
    correct: set[str] = set()

    def check_once(schema: object) -> None:
        if (text := json.dumps(schema, sort_keys=True)) not in correct:
            check(schema)
            correct.add(text)

    Draft202012Validator.check_schema = staticmethod(check_once)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None]:
    """Behind each file, forget its servers: FastMCP remembers thousands of functions, and so what they belong to. What
    is left then is left for good, and looking through it again and again took a sixth of the whole run."""
    yield
    last = item.session.stash.get(COLLECTED, 0.0)
    if nextitem is not None and (nextitem.path == item.path or time.process_time() - last < BETWEEN_S):
        return
    item.session.stash[COLLECTED] = time.process_time()
    if "fastmcp.server.dependencies" in sys.modules:
        from fastmcp.server.dependencies import without_injected_parameters
        from fastmcp.utilities.types import get_cached_typeadapter
        from uncalled_for import introspection

        get_cached_typeadapter.cache_clear()
        without_injected_parameters.cache_clear()
        introspection._signature_cache.clear()
        introspection._parameter_cache.clear()
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def fork_servers() -> Iterator[ForkServers]:
    """The fork servers that tests share."""
    from tests.fork_servers import ForkServers

    servers = ForkServers()
    yield servers
    servers.close()


@pytest.fixture(scope="session")
def loaded_python() -> Iterator[LoadedPython]:
    """Runs programs that use FastMCP without loading it each time."""
    from tests.loaded_python import LoadedPython

    loaded = LoadedPython()
    yield loaded
    loaded.close()


@pytest.fixture
def shared_fork_server(fork_servers: ForkServers, monkeypatch: pytest.MonkeyPatch) -> None:
    """Enclaves that the test makes have their workers from a fork server of all such tests, instead of one each."""
    from codecall.sandbox.host import spawner as maker

    monkeypatch.setattr(maker, "ForkServer", fork_servers)
