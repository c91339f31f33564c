"""What every test shares: one asynchronous backend, and a Redis of its own for a test that asks for one."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.redis_server import RedisServer
from tests.reporting import pytest_runtest_makereport  # noqa: F401 - pytest finds it here


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
