"""Counts in a Redis that all instances share, with the storage of the `limits` library and leases of running calls.

A running call holds a lease in a sorted set for each limit on it, scored with the moment at which it expires by the
clock of Redis. The instance renews the leases of its calls; those of an instance that died expire. Windows are cut by
the clocks of the instances, as the library does it, so these must agree (NTP is near enough for windows of seconds).

Keys are `{prefix}:rates:LIMITER/{rule}/{caller}/{calls}/{seconds}/second` and `{prefix}:rates:RUNNING/{rule}/{caller}`;
rule and caller are hashes. A key expires with its window.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final, Protocol, TypeVar, cast
from urllib.parse import urlsplit

import anyio

from codecall.errors import OptionsError
from codecall.ratelimit.counting import Slot
from codecall.ratelimit.rules import RateLimitOptions, Strategy

if TYPE_CHECKING:
    from limits.aio.storage import RedisStorage
    from limits.aio.storage.redis.redispy import RedispyBridge
    from redis.asyncio import Redis

logger = logging.getLogger("codecall")

T = TypeVar("T")

RETRY_AFTER_S: Final = 1.0
"""Seconds between two attempts while a service is unavailable. Callers are told to wait as long, and a recovery is
noticed as late."""

MAX_TIMEOUTS: Final = 10
"""Number of time limits after which a request ends although others are answered."""

_TICKS: Final = 4
"""Checks for silence within one time limit."""


class StoreUnavailableError(Exception):
    """The service failed or did not answer."""


class CircuitBreaker:
    """Sends requests to a service from one event loop, and pauses while the service is unavailable.

    Args:
        name: the name of the service in the log, without a password.
        timeout_s: seconds for which the service may be silent.
        failures: exceptions, besides network errors, that mean that the service is unavailable.
        consequence: what the log says about calls while the service is unavailable.
    """

    def __init__(self, name: str, timeout_s: float, failures: type[Exception], *, consequence: str) -> None:
        self._name = name
        self._timeout_s = timeout_s
        self._failures = (failures, OSError)
        self._consequence = consequence
        self._unavailable_since: float | None = None
        self._next_attempt = 0.0
        self._pending: dict[anyio.CancelScope, float] = {}
        """The start of each request."""
        self._last_answer = 0.0
        """When the service last answered, or the loop was too busy to read an answer."""
        self._watcher: asyncio.Task[None] | None = None

    async def call(self, request: Callable[[], Awaitable[T]]) -> T:
        """Returns the answer to `request`.

        Raises:
            StoreUnavailableError: the service failed or was silent for too long; or it did so less than
                `RETRY_AFTER_S` ago, and the request was not sent.
        """
        now = time.monotonic()
        if self._unavailable_since is not None:
            if now < self._next_attempt:
                raise StoreUnavailableError
            self._next_attempt = now + RETRY_AFTER_S + self._timeout_s  # the other calls do not wait for this one
        with anyio.CancelScope() as scope:
            self._pending[scope] = now
            if self._watcher is None or self._watcher.done():
                self._watcher = asyncio.create_task(self._watch_for_silence(), context=contextvars.Context())
            try:
                answer = await request()
            except self._failures as failure:
                self._on_failure(f"{type(failure).__name__}: {failure}")
                raise StoreUnavailableError from None
            finally:
                del self._pending[scope]
            self._on_answer()
            return answer
        self._on_failure(f"no answer for {self._timeout_s:g} s")
        raise StoreUnavailableError

    async def aclose(self) -> None:
        """Stops watching for silence."""
        if self._watcher is not None:
            self._watcher.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._watcher

    async def _watch_for_silence(self) -> None:
        """Cancels requests that wait in silence, for as long as there are requests."""
        tick_s = self._timeout_s / _TICKS
        while self._pending:
            began = time.monotonic()
            await anyio.sleep(tick_s)
            now = time.monotonic()
            if now - began > 1.5 * tick_s:  # the loop was busy: there may be unread answers
                self._last_answer = now
            silent = now - self._last_answer >= self._timeout_s
            for scope, started in self._pending.items():
                waited_s = now - started
                if (silent and waited_s >= self._timeout_s) or waited_s >= MAX_TIMEOUTS * self._timeout_s:
                    scope.cancel()

    def _on_failure(self, reason: str) -> None:
        now = time.monotonic()
        self._next_attempt = now + RETRY_AFTER_S
        if self._unavailable_since is None:
            self._unavailable_since = now
            logger.warning("%s is away (%s); %s", self._name, reason, self._consequence)

    def _on_answer(self) -> None:
        self._last_answer = time.monotonic()
        if self._unavailable_since is not None:
            outage_s = self._last_answer - self._unavailable_since
            self._unavailable_since = None
            logger.warning("%s is back after %.1f s; limits hold again", self._name, outage_s)


MAX_AT_ONCE: Final = 64
"""Most calls that are counted at the same time, each on its own connection; others wait within their time limit."""

RENEWED_AT_ONCE: Final = 500
"""Most keys that one request renews."""

_UNDO: Final[dict[Strategy, str]] = {
    "moving-window": "return redis.call('LPOP', KEYS[1])",
    "fixed-window": "if tonumber(redis.call('GET', KEYS[1]) or 0) > 0 then return redis.call('DECR', KEYS[1]) end",
    "sliding-window-counter": """
        for _, key in ipairs(KEYS) do
            if tonumber(redis.call('GET', key) or 0) > 0 then return redis.call('DECR', key) end
        end""",
}
"""Scripts that remove the newest call under a key. They depend on how `limits` stores calls, which
`tests/ratelimit/test_redis_store.py` checks for the installed version."""

_NOW: Final = "local t = redis.call('TIME'); local now = t[1] * 1000 + math.floor(t[2] / 1000); "

_TAKE: Final = (
    _NOW
    + """
    for i, key in ipairs(KEYS) do
        redis.call('ZREMRANGEBYSCORE', key, '-inf', now)
        if redis.call('ZCARD', key) >= tonumber(ARGV[i + 2]) then return i end
    end
    for _, key in ipairs(KEYS) do
        redis.call('ZADD', key, now + ARGV[2], ARGV[1])
        redis.call('PEXPIRE', key, ARGV[2])
    end
    return 0"""
)
"""Adds a lease (arguments: its name, its milliseconds, the limit of each key) under every key and returns 0; or returns
the number of the first full key and adds it under none."""

_RENEW: Final = (
    _NOW
    + """
    for i, key in ipairs(KEYS) do
        redis.call('ZADD', key, 'XX', now + ARGV[1], ARGV[i + 1])
        redis.call('PEXPIRE', key, ARGV[1])
    end"""
)
"""Renews leases. XX: a lease that was released in the meantime is not added again."""

_LEAVE: Final = "for _, key in ipairs(KEYS) do redis.call('ZREM', key, ARGV[1]) end"


class _Script(Protocol):
    def __call__(self, keys: Sequence[str], args: Sequence[str | int]) -> Awaitable[int | None]: ...


def redis_breaker(options: RateLimitOptions) -> CircuitBreaker:
    """Creates the circuit breaker for the Redis of these options.

    Raises:
        OptionsError: the client for Redis is not installed.
    """
    try:
        from redis.exceptions import RedisError
    except ImportError:
        raise OptionsError(
            "storage: the client for Redis is not installed", hint="pip install 'codecall[redis]'"
        ) from None
    address = urlsplit(options.storage)
    location = f"{address.hostname or 'localhost'}:{address.port or 6379}" if address.netloc else address.path
    outcome = "calls pass uncounted" if options.fail == "open" else "calls that rate rules are about are refused"
    return CircuitBreaker(
        f"Redis at {location}", options.timeout_ms / 1000, RedisError, consequence=f"until it is back, {outcome}"
    )


class RedisCounterStore:
    """A `CounterStore` in Redis, on its own connections, which belong to one event loop.

    Args:
        options: the address of Redis, and the duration of leases.
        service: sends the requests.
    """

    late_s = 0.5  # TTL gives whole seconds, rounded

    def __init__(self, options: RateLimitOptions, service: CircuitBreaker) -> None:
        from limits.aio.storage import RedisStorage
        from redis.asyncio.retry import Retry
        from redis.backoff import NoBackoff

        self._service = service
        self._lease_ms = options.lease_s * 1000
        self.storage: RedisStorage = RedisStorage(
            f"async+{options.storage}",
            implementation="redispy",
            key_prefix=f"{options.prefix}:rates",
            # `service` has the time limit; this one is per request, which says nothing while the loop is busy.
            socket_timeout=MAX_TIMEOUTS * options.timeout_ms / 1000,
            socket_connect_timeout=MAX_TIMEOUTS * options.timeout_ms / 1000,
            # Trying again in silence takes seconds, and counts a call twice whose answer was lost.
            retry=cast("bool", Retry(NoBackoff(), 0)),
        )
        bridge = cast("RedispyBridge", self.storage.bridge)
        self._redis = cast("Redis", bridge.get_connection())
        self._gate = anyio.Semaphore(MAX_AT_ONCE)
        self._undo = {strategy: self._script(source) for strategy, source in _UNDO.items()}
        self._take, self._renew, self._leave = map(self._script, (_TAKE, _RENEW, _LEAVE))
        self._leases: dict[str, list[str]] = {}
        self._renewing: asyncio.Task[None] | None = None

    async def ask(self, request: Callable[[], Awaitable[T]]) -> T:
        """Returns the answer to `request`, a call of this store's methods, within the time limit.

        Raises:
            StoreUnavailableError: Redis is unavailable.
        """

        async def in_turn() -> T:
            async with self._gate:
                return await request()

        return await self._service.call(in_turn)

    async def undo(self, strategy: Strategy, key: str, /) -> None:
        """See `CounterStore.undo`."""
        # A sliding window has two keys. This one may have become the one before since the call was counted.
        keys = [f"{{{key}}}", f"{{{key}}}/-1"] if strategy == "sliding-window-counter" else [key]
        await self._undo[strategy]([self._key(each) for each in keys], [])

    async def acquire(self, slots: Sequence[Slot]) -> str | Slot:
        """See `CounterStore.acquire`."""
        keys = [self._key(slot.key) for slot in slots]
        lease = secrets.token_hex(8)
        full = await self._take(keys, [lease, self._lease_ms, *(slot.limit for slot in slots)])
        if full:
            return slots[full - 1]
        self._leases[lease] = keys
        if self._renewing is None or self._renewing.done():
            self._renewing = asyncio.create_task(self._renew_leases(), context=contextvars.Context())
        return lease

    async def release(self, lease: str) -> None:
        """See `CounterStore.release`."""
        keys = self._leases.pop(lease, None)
        if keys:
            await self._leave(keys, [lease])

    def release_nowait(self, lease: str) -> None:
        """See `CounterStore.release_nowait`."""
        self._leases.pop(lease, None)

    async def release_if_available(self, lease: str) -> None:
        """Ends the call of that lease, within the time limit. If Redis is unavailable, the lease expires there."""
        keys = self._leases.pop(lease, None)
        if keys:
            with contextlib.suppress(StoreUnavailableError):
                await self.ask(lambda: self._leave(keys, [lease]))

    async def aclose(self) -> None:
        """Closes the connections."""
        if self._renewing is not None:
            self._renewing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._renewing
        await self._service.aclose()
        await self._redis.aclose()

    async def _renew_leases(self) -> None:
        """Renews the leases three times in the duration of a lease, until no call runs any more."""
        while self._leases:
            await anyio.sleep(self._lease_ms / 3000)
            entries = [(key, lease) for lease, keys in self._leases.items() for key in keys]
            for start in range(0, len(entries), RENEWED_AT_ONCE):
                batch = entries[start : start + RENEWED_AT_ONCE]
                arguments = [self._lease_ms, *(lease for _, lease in batch)]
                with contextlib.suppress(StoreUnavailableError):
                    await self.ask(lambda: self._renew([key for key, _ in batch], arguments))  # noqa: B023

    def _key(self, key: str) -> str:
        return self.storage.bridge.prefixed_key(key)

    def _script(self, source: str) -> _Script:
        return cast("_Script", self._redis.register_script(source))
