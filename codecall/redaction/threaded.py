"""Cleaning off the event loop what takes long."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, ParamSpec, TypeVar

import anyio.to_thread
from anyio import CapacityLimiter

from codecall.errors import CodeCallError, ToolCallError
from codecall.options import SanitizationOptions
from codecall.redaction.clean import MAX_QUICK_CHARS, clean_error, secrets_not_in

T = TypeVar("T")
P = ParamSpec("P")

MAX_QUICK_GIVEN: Final = 16_384
"""Characters of JSON in which secrets are looked for on the event loop: some 10 ms where each is folded."""


class ThreadedCleaner:
    """Cleaning off the event loop, one text at a time for each script: what a hostile tool makes take long holds up
    nobody but the script that called it."""

    def __init__(self) -> None:
        self._limiter: CapacityLimiter | None = None

    async def run(self, clean: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
        """`clean(...)`, in a thread, when its turn comes. Whoever is cancelled meanwhile does not wait for the thread,
        and so keeps no worker that others wait for."""
        if self._limiter is None:
            self._limiter = CapacityLimiter(1)  # few scripts need it, and making it takes longer than cleaning a text
        work = partial(clean, *arguments, **options)
        return await anyio.to_thread.run_sync(work, abandon_on_cancel=True, limiter=self._limiter)

    async def secrets_not_in(self, given: object, *, is_large: bool) -> list[str]:
        """`secrets_not_in`, at once unless `given` has more than `MAX_QUICK_GIVEN` characters."""
        return await self.run(secrets_not_in, given) if is_large else secrets_not_in(given)

    async def clean_error(
        self, error: CodeCallError, options: SanitizationOptions, secrets: Sequence[str] | None = None
    ) -> None:
        """`clean_error`, at once when there is little to clean."""
        if len(error.message) <= MAX_QUICK_CHARS and not (isinstance(error, ToolCallError) and error.details):
            clean_error(error, options, secrets)
        else:
            await self.run(clean_error, error, options, secrets)
