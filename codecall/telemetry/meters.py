"""The metrics of `names.py` as instruments, and the pools of which the gauges tell."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import count
from typing import Final, Protocol
from weakref import WeakValueDictionary

from opentelemetry.metrics import CallbackOptions, Counter, Histogram, Meter, Observation

from codecall.telemetry import names


class Pool(Protocol):
    """What gauges read of a pool; they do so in a thread of their own."""

    @property
    def size(self) -> int:
        """Worker processes."""
        ...

    limit: int
    """How many there may be."""

    @property
    def waiting(self) -> int:
        """Scripts in its queue."""
        ...

    def lent(self) -> Collection[object]:
        """Workers that run scripts now."""
        ...


class Pools(Protocol):
    """Who has pools; only a weak reference to it is kept."""

    def pools(self) -> Sequence[Pool]:
        """Those that are open now."""
        ...


_SOURCES: Final[WeakValueDictionary[int, Pools]] = WeakValueDictionary()
_NUMBERS: Final = count()


def observe(source: Pools) -> None:
    """Let the gauges tell of these pools too, for as long as `source` lives."""
    _SOURCES[next(_NUMBERS)] = source


def _pools() -> list[Pool]:
    # `valuerefs` is a copy: plugins may come and go while another thread reads.
    return [pool for ref in _SOURCES.valuerefs() if (source := ref()) is not None for pool in source.pools()]


class Meters:
    """The instruments of one provider. There is one for the whole process: plugins add to the same metrics."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self.request_duration = self._histogram(names.REQUEST_DURATION)
        self.executions = self._counter(names.EXECUTIONS)
        self.script_time = self._histogram(names.SCRIPT_TIME)
        self.queue_time = self._histogram(names.QUEUE_TIME)
        self.workers_ended = self._counter(names.WORKERS_ENDED)
        self.tool_calls = self._counter(names.TOOL_CALLS)
        self.tool_time = self._histogram(names.TOOL_TIME)
        self.refusals = self._counter(names.REFUSALS)
        self.io = self._counter(names.IO)
        self.tokens_saved = self._counter(names.TOKENS_SAVED)
        self.tokens_spent = self._counter(names.TOKENS_SPENT)
        self._gauge(names.QUEUE_DEPTH, lambda: [Observation(sum(pool.waiting for pool in _pools()))])
        self._gauge(names.WORKER_LIMIT, lambda: [Observation(sum(pool.limit for pool in _pools()))])
        self._gauge(names.WORKERS, _workers)

    def _counter(self, metric: names.Metric) -> Counter:
        return self._meter.create_counter(metric.name, metric.unit, metric.what)

    def _histogram(self, metric: names.Metric) -> Histogram:
        return self._meter.create_histogram(
            metric.name, metric.unit, metric.what, explicit_bucket_boundaries_advisory=names.SECONDS
        )

    def _gauge(self, metric: names.Metric, read: Callable[[], list[Observation]]) -> None:
        def observed(_options: CallbackOptions) -> Iterable[Observation]:
            return read()

        _ = self._meter.create_observable_up_down_counter(metric.name, [observed], metric.unit, metric.what)


def _workers() -> list[Observation]:
    total = busy = 0
    for pool in _pools():
        lent = len(pool.lent())
        busy += lent
        total += max(pool.size, lent)
    return [
        Observation(busy, {names.WORKER_STATE: "busy"}),
        Observation(total - busy, {names.WORKER_STATE: "idle"}),
    ]
