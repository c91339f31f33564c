"""The tables of docs/reference/telemetry.md as the code has them, with the names that Prometheus gives the metrics."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider
from prometheus_client import CollectorRegistry

from codecall.telemetry import metrics as meters
from codecall.telemetry import semconv as names

ALERTS = Path(__file__).parents[2] / "examples" / "prometheus" / "alerts.yml"


class Family(NamedTuple):
    """A metric as Prometheus has it."""

    name: str
    """Of its first sample, without `_bucket`."""
    labels: frozenset[str]


@cache
def families() -> dict[str, Family]:
    """By CodeCall's name: what the real exporter makes of each metric with all its attributes."""
    registry = CollectorRegistry()
    provider = MeterProvider(
        [PrometheusMetricReader(registry=registry, scope_info_enabled=False)], shutdown_on_exit=False
    )
    meter = meters.Instruments(provider.get_meter(names.SCOPE))
    instruments = {item.name: item for item in vars(meter).values() if hasattr(item, "name")}
    for metric in names.METRICS:
        if metric.kind != "gauge":
            instrument = instruments[metric.name]
            record = instrument.add if metric.kind == "counter" else instrument.record
            record(1, dict.fromkeys(metric.attributes, "x"))
    by_help = {family.documentation: family for family in registry.collect()}
    result: dict[str, Family] = {}
    for metric in names.METRICS:
        sample = by_help[metric.description].samples[0]
        labels = frozenset(sample.labels) - {"le"}
        result[metric.name] = Family(sample.name.removesuffix("_bucket"), labels)
    return result


def _code(items: Any) -> str:
    return ", ".join(f"`{item}`" for item in items)


def span_rows() -> list[list[str]]:
    """Every span."""
    return [
        [
            f"`{span.name}`",
            "FastMCP's" if span.parent == "FastMCP's" else _code(span.parent.split(", ")),
            span.description,
            _code(span.attributes),
        ]
        for span in names.SPANS
    ]


def metric_rows() -> list[list[str]]:
    """Every metric."""
    rows: list[list[str]] = []
    for metric in names.METRICS:
        what = f"{metric.description}, {metric.unit}" if metric.unit in ("s", "By") else metric.description
        rows.append(
            [f"`{metric.name}`", f"`{families()[metric.name].name}`", metric.kind, what, _code(metric.attributes)]
        )
    return rows


def attribute_rows() -> list[list[str]]:
    """Every attribute."""
    return [[f"`{name}`", says] for name, says in names.ATTRIBUTES.items()]


def alerts() -> list[dict[str, Any]]:
    """The rules of the example."""
    (group,) = yaml.safe_load(ALERTS.read_text(encoding="utf-8"))["groups"]
    return group["rules"]


def alert_lines() -> list[str]:
    """The rules, as the page shows them: name, expression."""
    return [line for rule in alerts() for line in (f"{rule['alert']}", f"  {rule['expr']}")]
