"""An enclave that runs Starlark, shared by all programs: what one leaves behind, the next would find."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from codecall.sandbox.enclave import Enclave
from tests_security.attacking import Canaries, as_far_as_there_is_a_jail
from tests_security.test_attacks import FORCED


@pytest.fixture(scope="session")
async def starlark(canaries: Canaries) -> AsyncIterator[Enclave]:
    """Its workers know the canaries' files and environment if they can know any."""
    del canaries
    options: dict[str, Any] = {"preset": FORCED or "secure", "pool": {"min_workers": 0, "max_workers": 2}}
    async with Enclave(**options, starlark=True, **as_far_as_there_is_a_jail()) as enclave:
        yield enclave
