"""What every test shares: one asynchronous backend, and a Redis of its own for a test that asks for one."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpcore2  # noqa: F401 - see below
import pytest

from tests.redis_server import RedisServer
from tests.reporting import pytest_runtest_makereport  # noqa: F401 - pytest finds it here

# Before any test: httpx2 loads it with its first request and keeps its exceptions for good. pytester forgets what a run
# of its own has loaded, and the errors of the next copy would be none of httpx2.


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """FastMCP runs on asyncio; so do the tests."""
    return "asyncio"


@pytest.fixture
def redis_server() -> Iterator[RedisServer]:
    """A Redis that runs, empty. The folder's path is short, as the path of a Unix socket must be."""
    with tempfile.TemporaryDirectory(prefix="redis") as folder:
        server = RedisServer(Path(folder))
        server.start()
        try:
            yield server
        finally:
            server.stop()
