"""Somebody who listens: real providers of the SDK in memory, in place of the global ones for one test.

A process can set its providers only once, and then all later tests would pay for them. So the places where the API
keeps them are set for the test, and put back after it; `tests/examples/test_prometheus.py` sets them as users do.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from fastmcp import Client, FastMCP
from mcp.shared import _otel
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import HistogramDataPoint, InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import Sampler

from codecall import CodeCallPlugin

Attributes = dict[str, Any]


class Listener:
    """What was told since it was made."""

    def __init__(self, patch: pytest.MonkeyPatch, sampler: Sampler | None = None) -> None:
        self._patch = patch
        self._exporter = InMemorySpanExporter()
        self._reader = InMemoryMetricReader()
        self._tracers = TracerProvider(sampler=sampler, shutdown_on_exit=False)
        self._tracers.add_span_processor(SimpleSpanProcessor(self._exporter))
        self._meters = MeterProvider([self._reader], shutdown_on_exit=False)

    def listen(self) -> None:
        """From now on."""
        self._patch.setattr(trace, "_TRACER_PROVIDER", self._tracers)
        self._patch.setattr(metrics._internal, "_METER_PROVIDER", self._meters)
        # The SDK of MCP would keep the first provider it meets.
        self._patch.setattr(_otel, "_tracer", self._tracers.get_tracer("mcp-python-sdk"))

    def all_spans(self) -> tuple[ReadableSpan, ...]:
        """FastMCP's too."""
        return self._exporter.get_finished_spans()

    def spans(self) -> list[ReadableSpan]:
        """CodeCall's, in the order in which they began."""
        own = [span for span in self.all_spans() if scope(span) == "codecall"]
        return sorted(own, key=lambda span: span.start_time or 0)

    def span(self, name: str) -> ReadableSpan:
        """The one of that name."""
        (found,) = [span for span in self.spans() if span.name == name]
        return found

    def clear(self) -> None:
        self._exporter.clear()

    def metrics(self) -> dict[str, list[tuple[Attributes, Any]]]:
        """By name: attributes, and value; of a histogram how often."""
        told: dict[str, list[tuple[Attributes, Any]]] = {}
        data = self._reader.get_metrics_data()
        for resource in data.resource_metrics if data is not None else ():
            for of_scope in resource.scope_metrics:
                assert of_scope.scope.name == "codecall"
                for metric in of_scope.metrics:
                    told[metric.name] = [
                        (
                            dict(point.attributes or {}),
                            point.count if isinstance(point, HistogramDataPoint) else point.value,
                        )
                        for point in metric.data.data_points
                    ]
        return told

    def value(self, name: str, **attributes: Any) -> float:
        """The sum of a metric over all points that have these attributes; dots are written `__`."""
        wanted = {key.replace("__", "."): value for key, value in attributes.items()}
        points = self.metrics().get(name, [])
        return sum(value for told, value in points if wanted.items() <= told.items())


def scope(span: ReadableSpan) -> str:
    """Who made it."""
    return span.instrumentation_scope.name if span.instrumentation_scope is not None else ""


def told(span: ReadableSpan) -> Mapping[str, Any]:
    """Its attributes."""
    return span.attributes or {}


def is_below(span: ReadableSpan, parent: ReadableSpan) -> bool:
    """Whether `parent` is its parent."""
    return span.parent is not None and span.parent.span_id == parent.context.span_id


def serve(*tools: Any, name: str = "crm", **options: Any) -> FastMCP[Any]:
    """A server of these functions with CodeCall, whose workers start when they are needed."""
    server = FastMCP[Any](name)
    for tool in tools:
        server.tool(tool)
    given: dict[str, Any] = {"vm": {"preset": "secure"}, "pool": {"min_workers": 0}} | options
    CodeCallPlugin.init(**given).install(server)
    return server


async def execute(client: Client[Any], script: str, **arguments: Any) -> dict[str, Any]:
    """The envelope."""
    result = await client.call_tool("codecall:execute", {"script": script, **arguments})
    assert result.structured_content is not None
    return result.structured_content
