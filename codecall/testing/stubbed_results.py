"""Kept results of a test: stubs give them."""

from __future__ import annotations

from collections.abc import Mapping

from codecall.envelopes import LargeResult
from codecall.errors import LimitExceeded
from codecall.testing.broker import StubBroker

__tracebackhide__ = True  # pytest: tracebacks of tests end in the tests


class StubbedResults:
    """Kept results of a test: stubs give them, and none is kept. A `sandbox.services.ResultVault`.

    Args:
        broker: Has the stubs.
    """

    def __init__(self, broker: StubBroker) -> None:
        self._broker = broker

    async def keep(self, text: str, size: int) -> LargeResult:
        """Enclaves of tests keep nothing, so that scripts end with OUTPUT_LIMIT."""
        del text
        raise LimitExceeded(f"The result of {size} bytes is not kept", code="OUTPUT_LIMIT")

    async def fetch(self, handle: str, part: Mapping[str, object], *, max_bytes: int | None = None) -> str:
        """The stub's value. See `ResultVault.fetch`."""
        return await self._broker.result(handle, dict(part), max_bytes=max_bytes)
