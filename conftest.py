"""Settings of a whole test run, chiefly what it costs besides the tests themselves."""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from tests.launch import load_time_environment

if TYPE_CHECKING:
    from tests.loaded_python import LoadedPython

COLLECT_EVERY_S = 5.0
"""Seconds of processor time between two full garbage collections, which each look at some hundred thousand objects."""

ENVIRONMENT_KEY = pytest.StashKey[dict[str, str]]()
"""The variables that matter when Python and its modules are loaded, before the first test."""

ON_REQUEST = {
    "fuzz": "it runs random scripts for minutes",
    "embedding": "it needs the weights of a real model",
}
"""Markers of the tests that run only where `-m` names the marker, each with the reason."""

LAST_COLLECTION_KEY = pytest.StashKey[float]()
"""Processor time at the last full collection."""

GENERATION_0_THRESHOLD = 5_000
"""New objects after which Python collects garbage among them; by default 700, some thirty thousand times a run."""


def pytest_xdist_auto_num_workers() -> int:
    """Test processes of `-n auto`: more than there are cores, since tests often wait for processes."""
    return max(1, 3 * (os.cpu_count() or 1) // 2)


def pytest_configure() -> None:
    """Collect no garbage while tests are collected: those objects live to the end. No example of a property fails
    because the machine is slow."""
    gc.disable()
    settings.register_profile("any machine", settings(deadline=None, suppress_health_check=[HealthCheck.too_slow]))
    settings.load_profile("any machine")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the tests of `ON_REQUEST` out of runs that do not name their marker."""
    left_out = [marker for marker in ON_REQUEST if marker not in str(config.option.markexpr)]
    deselected = [item for item in items if any(item.get_closest_marker(marker) for marker in left_out)]
    if deselected:
        config.hook.pytest_deselected(items=deselected)
        items[:] = [item for item in items if item not in deselected]


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """From now on collect only among objects of tests, not among half a million others again and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(GENERATION_0_THRESHOLD, *gc.get_threshold()[1:])
    gc.enable()
    _check_schemas_once()
    session.stash[ENVIRONMENT_KEY] = load_time_environment(os.environ)


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


def _check_environment(session: pytest.Session) -> None:
    """Fail a test that leaves another environment: no program of later tests would run in the loaded Python."""
    before, after = session.stash[ENVIRONMENT_KEY], load_time_environment(os.environ)
    session.stash[ENVIRONMENT_KEY] = after
    if changed := sorted({name for name, _ in before.items() ^ after.items()}):
        pytest.fail(f"the test leaves other values of {', '.join(changed)} in the environment", pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None]:
    """After each file, forget its servers: FastMCP caches thousands of functions, and so what they belong to. What is
    left then stays for good, and looking through it again and again took a sixth of the whole run."""
    yield
    _check_environment(item.session)
    last = item.session.stash.get(LAST_COLLECTION_KEY, 0.0)
    if nextitem is not None and (nextitem.path == item.path or time.process_time() - last < COLLECT_EVERY_S):
        return
    item.session.stash[LAST_COLLECTION_KEY] = time.process_time()
    if "fastmcp.server.dependencies" in sys.modules:
        from fastmcp.server.dependencies import without_injected_parameters
        from fastmcp.utilities.types import get_cached_typeadapter

        get_cached_typeadapter.cache_clear()
        without_injected_parameters.cache_clear()
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def shared_fork_servers() -> Iterator[None]:
    """Enclaves get their workers from fork servers that all tests share, instead of starting one each."""
    from codecall.sandbox.host import spawner
    from tests.fork_servers import ForkServers

    servers = ForkServers()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spawner, "ForkServer", servers)
        yield
    servers.close()


@pytest.fixture(scope="session")
def loaded_python() -> Iterator[LoadedPython]:
    """Runs programs that use FastMCP without loading it each time."""
    from tests.loaded_python import LoadedPython

    loaded = LoadedPython()
    yield loaded
    loaded.close()


@pytest.fixture
def own_fork_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """Enclaves of the test start fork servers of their own, for tests of these and of what is left of them."""
    from codecall.sandbox.host import spawner
    from tests.fork_servers import ForkServer

    monkeypatch.setattr(spawner, "ForkServer", ForkServer)
