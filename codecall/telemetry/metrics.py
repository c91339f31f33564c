"""The metrics of `semconv.py` as OpenTelemetry instruments, the pools that the gauges measure, and the providers.

Providers are looked up at every request, so that one that is set late is found.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from itertools import count
from threading import Lock
from typing import Final, Generic, Protocol, TypeVar
from weakref import WeakValueDictionary

from fastmcp.telemetry import telemetry_mode
from opentelemetry import metrics, trace
from opentelemetry.metrics import CallbackOptions, Counter, Histogram, Meter, Observation

from codecall.telemetry import semconv as names
from codecall.telemetry.semconv import SCOPE


class ObservedPool(Protocol):
    """What gauges read of a worker pool, in a thread of their own."""

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

    def busy_workers(self) -> Collection[object]:
        """Workers that run scripts now."""
        ...


class PoolSource(Protocol):
    """An owner of pools; only a weak reference to it is kept."""

    def pools(self) -> Sequence[ObservedPool]:
        """The pools that are open now."""
        ...


_SOURCES: Final[WeakValueDictionary[int, PoolSource]] = WeakValueDictionary()
_NUMBERS: Final = count()


def observe_pools(source: PoolSource) -> None:
    """Include these pools in the gauges, for as long as `source` lives."""
    _SOURCES[next(_NUMBERS)] = source


def _pools() -> list[ObservedPool]:
    # `valuerefs` is a copy: plugins may come and go while another thread reads.
    return [pool for ref in _SOURCES.valuerefs() if (source := ref()) is not None for pool in source.pools()]


class Instruments:
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

    def _counter(self, metric: names.MetricSpec) -> Counter:
        return self._meter.create_counter(metric.name, metric.unit, metric.description)

    def _histogram(self, metric: names.MetricSpec) -> Histogram:
        return self._meter.create_histogram(
            metric.name, metric.unit, metric.description, explicit_bucket_boundaries_advisory=names.SECONDS
        )

    def _gauge(self, metric: names.MetricSpec, read: Callable[[], list[Observation]]) -> None:
        def observed(_options: CallbackOptions) -> Iterable[Observation]:
            return read()

        _ = self._meter.create_observable_up_down_counter(metric.name, [observed], metric.unit, metric.description)


def _workers() -> list[Observation]:
    total = busy = 0
    for pool in _pools():
        lent = len(pool.busy_workers())
        busy += lent
        total += max(pool.size, lent)
    return [
        Observation(busy, {names.WORKER_STATE: "busy"}),
        Observation(total - busy, {names.WORKER_STATE: "idle"}),
    ]


Provider = TypeVar("Provider", trace.TracerProvider, metrics.MeterProvider)
InstrumentT = TypeVar("InstrumentT")

_LOCK: Final = Lock()


class _ProviderCache(Generic[Provider, InstrumentT]):
    """What was created for the latest provider."""

    def __init__(self) -> None:
        self.of: Provider | None = None
        self.made: InstrumentT | None = None


_TRACER: Final = _ProviderCache[trace.TracerProvider, trace.Tracer]()
_METERS: Final = _ProviderCache[metrics.MeterProvider, Instruments]()


def tracer() -> trace.Tracer | None:
    """The tracer; None where nobody would see its spans."""
    provider = trace.get_tracer_provider()
    if type(provider).__module__.startswith("opentelemetry.trace") or telemetry_mode() != "native":
        return None
    if _TRACER.of is not provider:
        with _LOCK:
            made = provider.get_tracer(SCOPE, codecall_version())
            _TRACER.made = None if isinstance(made, trace.NoOpTracer) else made
            _TRACER.of = provider
    return _TRACER.made


def instruments() -> Instruments | None:
    """The instruments; None where nobody would read them."""
    provider = metrics.get_meter_provider()
    if type(provider).__module__.startswith("opentelemetry.metrics") or telemetry_mode() == "off":
        return None
    if _METERS.of is not provider:
        with _LOCK:
            # Again: observable metrics must not be made twice.
            if _METERS.of is not provider:
                made = provider.get_meter(SCOPE, codecall_version())
                _METERS.made = None if isinstance(made, metrics.NoOpMeter) else Instruments(made)
                _METERS.of = provider
    return _METERS.made


@cache
def codecall_version() -> str:
    """The version of CodeCall that is installed; empty where it is not."""
    try:
        return version("codecall")
    except PackageNotFoundError:
        return ""
