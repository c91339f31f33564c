"""One enclave per module would share workers between tests; one per test would start a process for each."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from codecall.sandbox.enclave import Enclave


@pytest.fixture(scope="session")
async def enclave() -> AsyncIterator[Enclave]:
    """An enclave under the default preset, shared by all tests that leave it as they found it."""
    async with Enclave(preset="secure", pool={"max_workers": 2}) as shared:
        yield shared
