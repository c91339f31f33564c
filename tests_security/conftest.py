"""What every attack shares: one asynchronous backend, enclaves, and secrets that no attack may ever see."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack

import pytest

from codecall.presets import PRESET_NAMES
from codecall.sandbox.enclave import Enclave
from tests.fork_servers import CANARY
from tests.reporting import pytest_runtest_makereport  # noqa: F401 - pytest finds it here
from tests_security.attacking import Canaries, as_far_as_there_is_a_jail


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """FastMCP runs on asyncio; so do the attacks."""
    return "asyncio"


@pytest.fixture(scope="session")
async def enclave() -> AsyncIterator[Enclave]:
    """Shared by all attacks: what one leaves behind, the next would find."""
    async with Enclave(preset="secure", pool={"max_workers": 2}) as shared:
        yield shared


@pytest.fixture(scope="session")
async def enclaves(canaries: Canaries) -> AsyncIterator[Mapping[str, Enclave]]:
    """An enclave for each preset. Their workers start when the first script needs them, and know the canaries' files
    and environment if they can know any."""
    del canaries
    pool = {"min_workers": 0, "max_workers": 2}
    async with AsyncExitStack() as stack:
        yield {
            preset: await stack.enter_async_context(Enclave(preset=preset, pool=pool, **as_far_as_there_is_a_jail()))
            for preset in PRESET_NAMES
        }


@pytest.fixture(scope="session")
def canaries(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Canaries]:
    """The secrets of this session, in their places."""
    placed = Canaries()
    file = tmp_path_factory.getbasetemp().parent / "codecall-canary.txt"
    file.write_text(placed.file, encoding="utf-8")
    os.environ[CANARY] = placed.environment
    yield placed
    del os.environ[CANARY]
    file.unlink(missing_ok=True)
