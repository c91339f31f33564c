"""What every test shares: one asynchronous backend."""

from __future__ import annotations

import pytest

from tests.reporting import pytest_runtest_makereport  # noqa: F401 - pytest finds it here


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """FastMCP runs on asyncio; so do the tests."""
    return "asyncio"
