"""Counts in a Redis that all instances share: the storage of the `limits` library, and leases of running calls.

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
import secrets
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final, Protocol, TypeVar, cast
from urllib.parse import urlsplit

import anyio

from codecall.calls.rate_counting import Slot
from codecall.calls.rate_outage import LONGEST, AwayError, Reached
from codecall.calls.rules import RateLimitOptions, Strategy
from codecall.errors import OptionsError

if TYPE_CHECKING:
    from limits.aio.storage import RedisStorage
    from limits.aio.storage.redis.redispy import RedispyBridge
    from redis.asyncio import Redis

T = TypeVar("T")

MAX_AT_ONCE: Final = 64
"""Calls that are counted at the same time, each on its connection; more wait, within their time limit."""

RENEWED_AT_ONCE: Final = 500
"""Keys that one request renews."""

_UNDO: Final[dict[Strategy, str]] = {
    "moving-window": "return redis.call('LPOP', KEYS[1])",
    "fixed-window": "if tonumber(redis.call('GET', KEYS[1]) or 0) > 0 then return redis.call('DECR', KEYS[1]) end",
    "sliding-window-counter": """
        for _, key in ipairs(KEYS) do
            if tonumber(redis.call('GET', key) or 0) > 0 then return redis.call('DECR', key) end
        end""",
}
"""Take back the newest call under a key. They know how `limits` keeps calls, which `tests/calls/test_rates_redis.py`
holds for the installed version."""

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
"""A lease (its name, its milliseconds, the limit of each key) under every key: 0, or the number of the key that is full
and then under none."""

_RENEW: Final = (
    _NOW
    + """
    for i, key in ipairs(KEYS) do
        redis.call('ZADD', key, 'XX', now + ARGV[1], ARGV[i + 1])
        redis.call('PEXPIRE', key, ARGV[1])
    end"""
)
"""XX: a lease that was given back in the meantime stays so."""

_LEAVE: Final = "for _, key in ipairs(KEYS) do redis.call('ZREM', key, ARGV[1]) end"


class _Script(Protocol):
    def __call__(self, keys: Sequence[str], args: Sequence[str | int]) -> Awaitable[int | None]: ...


def reached(options: RateLimitOptions) -> Reached:
    """How the Redis of these options is asked.

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
    place = f"{address.hostname or 'localhost'}:{address.port or 6379}" if address.netloc else address.path
    meanwhile = "calls pass uncounted" if options.fail == "open" else "calls that rate rules are about are refused"
    return Reached(
        f"Redis at {place}", options.timeout_ms / 1000, RedisError, meanwhile=f"until it is back, {meanwhile}"
    )


class RedisStore:
    """The counts in Redis, on connections of its own that belong to one event loop.

    Args:
        options: where, and for how long leases are.
        service: asks Redis.
    """

    late_s = 0.5  # TTL gives whole seconds, rounded

    def __init__(self, options: RateLimitOptions, service: Reached) -> None:
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
            socket_timeout=LONGEST * options.timeout_ms / 1000,
            socket_connect_timeout=LONGEST * options.timeout_ms / 1000,
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
        """What `request`, made of this store's methods, gives within the time limit.

        Raises:
            AwayError: Redis is away.
        """

        async def in_turn() -> T:
            async with self._gate:
                return await request()

        return await self._service.ask(in_turn)

    async def undo(self, strategy: Strategy, key: str, /) -> None:
        """See `Store.undo`."""
        # A sliding window has two keys. This one may have become the one before since the call was counted.
        keys = [f"{{{key}}}", f"{{{key}}}/-1"] if strategy == "sliding-window-counter" else [key]
        await self._undo[strategy]([self._key(each) for each in keys], [])

    async def take(self, slots: Sequence[Slot]) -> str | Slot:
        """See `Store.take`."""
        keys = [self._key(slot.key) for slot in slots]
        lease = secrets.token_hex(8)
        full = await self._take(keys, [lease, self._lease_ms, *(slot.limit for slot in slots)])
        if full:
            return slots[full - 1]
        self._leases[lease] = keys
        if self._renewing is None or self._renewing.done():
            self._renewing = asyncio.create_task(self._renew_leases(), context=contextvars.Context())
        return lease

    async def leave(self, lease: str) -> None:
        """See `Store.leave`."""
        keys = self._leases.pop(lease, None)
        if keys:
            await self._leave(keys, [lease])

    def drop(self, lease: str) -> None:
        """See `Store.drop`."""
        self._leases.pop(lease, None)

    async def end(self, lease: str) -> None:
        """The same as `leave`, within the time limit. Where Redis is away the lease expires there."""
        keys = self._leases.pop(lease, None)
        if keys:
            with contextlib.suppress(AwayError):
                await self.ask(lambda: self._leave(keys, [lease]))

    async def aclose(self) -> None:
        """Close the connections."""
        if self._renewing is not None:
            self._renewing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._renewing
        await self._service.aclose()
        await self._redis.aclose()

    async def _renew_leases(self) -> None:
        """Until no call runs any more: three times in the time of a lease."""
        while self._leases:
            await anyio.sleep(self._lease_ms / 3000)
            held = [(key, lease) for lease, keys in self._leases.items() for key in keys]
            for start in range(0, len(held), RENEWED_AT_ONCE):
                some = held[start : start + RENEWED_AT_ONCE]
                arguments = [self._lease_ms, *(lease for _, lease in some)]
                with contextlib.suppress(AwayError):
                    await self.ask(lambda: self._renew([key for key, _ in some], arguments))  # noqa: B023

    def _key(self, key: str) -> str:
        return self.storage.bridge.prefixed_key(key)

    def _script(self, source: str) -> _Script:
        return cast("_Script", self._redis.register_script(source))
