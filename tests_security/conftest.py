"""What every attack shares: one asynchronous backend, and one enclave under the default preset."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from codecall.sandbox.enclave import Enclave


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """FastMCP runs on asyncio; so do the attacks."""
    return "asyncio"


@pytest.fixture(scope="session")
async def enclave() -> AsyncIterator[Enclave]:
    """Shared by all attacks: what one leaves behind, the next would find."""
    async with Enclave(preset="secure", pool={"max_workers": 2}) as shared:
        yield shared
