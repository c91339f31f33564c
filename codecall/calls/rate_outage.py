"""A service that may be away: asked within a time limit, left alone for a while after a failure, and logged once.

The time limit is not one of each request: with a busy event loop all of them are slow, and the service is not away. It
is away when it has answered nobody for that long although it was asked, and the event loop had time to see an answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import anyio

logger = logging.getLogger("codecall")

T = TypeVar("T")

PAUSE_S: Final = 1.0
"""Seconds between two attempts while a service is away: what a caller is told to wait, and how late it is noticed that
the service is back."""

LONGEST: Final = 10
"""After so many time limits a request ends though others are answered."""

_TICKS: Final = 4
"""How often in one time limit it is looked for silence."""


class AwayError(Exception):
    """The service did not answer."""


class Reached:
    """Asks a service, from one event loop.

    Args:
        name: what log lines call it; no password.
        timeout_s: seconds for which the service may be silent.
        failures: exceptions, besides errors of the network, by which the service is away.
        meanwhile: what the log says becomes of calls while it is away.
    """

    def __init__(self, name: str, timeout_s: float, failures: type[Exception], *, meanwhile: str) -> None:
        self._name = name
        self._timeout_s = timeout_s
        self._failures = (failures, OSError)
        self._meanwhile = meanwhile
        self._away_since: float | None = None
        self._next_attempt = 0.0
        self._pending: dict[anyio.CancelScope, float] = {}
        """When each request began."""
        self._heard = 0.0
        """When the service last answered, or could not be heard."""
        self._listening: asyncio.Task[None] | None = None

    async def ask(self, request: Callable[[], Awaitable[T]]) -> T:
        """What `request` gives.

        Raises:
            AwayError: the service failed, or was silent for too long; or it did so less than `PAUSE_S` ago, and was not
                asked.
        """
        now = time.monotonic()
        if self._away_since is not None:
            if now < self._next_attempt:
                raise AwayError
            self._next_attempt = now + PAUSE_S + self._timeout_s  # the other calls do not wait for this one
        with anyio.CancelScope() as scope:
            self._pending[scope] = now
            if self._listening is None or self._listening.done():
                self._listening = asyncio.create_task(self._listen(), context=contextvars.Context())
            try:
                answer = await request()
            except self._failures as failure:
                self._failed(f"{type(failure).__name__}: {failure}")
                raise AwayError from None
            finally:
                del self._pending[scope]
            self._answered()
            return answer
        self._failed(f"no answer for {self._timeout_s:g} s")
        raise AwayError

    async def aclose(self) -> None:
        """Stop listening."""
        if self._listening is not None:
            self._listening.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._listening

    async def _listen(self) -> None:
        """End the requests that wait in silence, as long as any wait."""
        tick_s = self._timeout_s / _TICKS
        while self._pending:
            began = time.monotonic()
            await anyio.sleep(tick_s)
            now = time.monotonic()
            if now - began > 1.5 * tick_s:  # the loop was busy: there may be answers that nobody has read
                self._heard = now
            silent = now - self._heard >= self._timeout_s
            for scope, asked in self._pending.items():
                waited_s = now - asked
                if (silent and waited_s >= self._timeout_s) or waited_s >= LONGEST * self._timeout_s:
                    scope.cancel()

    def _failed(self, said: str) -> None:
        now = time.monotonic()
        self._next_attempt = now + PAUSE_S
        if self._away_since is None:
            self._away_since = now
            logger.warning("%s is away (%s); %s", self._name, said, self._meanwhile)

    def _answered(self) -> None:
        self._heard = time.monotonic()
        if self._away_since is not None:
            away_s = self._heard - self._away_since
            self._away_since = None
            logger.warning("%s is back after %.1f s; limits hold again", self._name, away_s)
