"""Whether anybody listens. Providers are looked up at every request, so that one that is set late is found; what comes
with OpenTelemetry's API itself does nothing, and nothing is made for it.

FastMCP's switch holds for these spans too: `fastmcp.settings.telemetry_mode` and `suppress_fastmcp_telemetry()`.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version
from threading import Lock
from typing import Final, Generic, TypeVar

from fastmcp.telemetry import telemetry_mode
from opentelemetry import metrics, trace

from codecall.telemetry.meters import Meters
from codecall.telemetry.names import SCOPE

Provider = TypeVar("Provider", trace.TracerProvider, metrics.MeterProvider)
Made = TypeVar("Made")

_LOCK: Final = Lock()


class _Last(Generic[Provider, Made]):
    """What was made for the provider that was there last."""

    def __init__(self) -> None:
        self.of: Provider | None = None
        self.made: Made | None = None


_TRACER: Final = _Last[trace.TracerProvider, trace.Tracer]()
_METERS: Final = _Last[metrics.MeterProvider, Meters]()


def tracer() -> trace.Tracer | None:
    """What makes spans; None where nobody would see them."""
    provider = trace.get_tracer_provider()
    if type(provider).__module__.startswith("opentelemetry.trace") or telemetry_mode() != "native":
        return None
    if _TRACER.of is not provider:
        with _LOCK:
            made = provider.get_tracer(SCOPE, _version())
            _TRACER.made = None if isinstance(made, trace.NoOpTracer) else made
            _TRACER.of = provider
    return _TRACER.made


def meters() -> Meters | None:
    """What takes measurements; None where nobody would read them."""
    provider = metrics.get_meter_provider()
    if type(provider).__module__.startswith("opentelemetry.metrics") or telemetry_mode() == "off":
        return None
    if _METERS.of is not provider:
        with _LOCK:
            # Again: observable metrics must not be made twice.
            if _METERS.of is not provider:
                made = provider.get_meter(SCOPE, _version())
                _METERS.made = None if isinstance(made, metrics.NoOpMeter) else Meters(made)
                _METERS.of = provider
    return _METERS.made


@cache
def _version() -> str:
    try:
        return version("codecall")
    except PackageNotFoundError:
        return ""
