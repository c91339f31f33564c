"""A server over HTTP whose metrics Prometheus reads. Run: python examples/prometheus/server.py

Clients talk to http://127.0.0.1:8000/mcp; the metrics are at http://127.0.0.1:9464/metrics, a port of their own, which
clients need not reach. CodeCall needs no option for it: it tells whatever provider is set.
"""

from __future__ import annotations

import argparse

from fastmcp import FastMCP
from opentelemetry import metrics
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider
from prometheus_client import start_http_server

from codecall import CodeCallPlugin, RateLimitPlugin

mcp = FastMCP("shop")
STOCK = {"lamp": 12, "desk": 0, "chair": 7}


@mcp.tool
def list_products() -> list[str]:
    """List the products."""
    return list(STOCK)


@mcp.tool
def get_stock(product: str) -> int:
    """Get how many units of a product are in stock."""
    return STOCK[product]


CodeCallPlugin.init().install(mcp)
RateLimitPlugin.init(rules=[{"tool": "codecall:execute", "rate": "20/second"}]).install(mcp)


def main() -> None:
    """Serve until the process is told to end."""
    parser = argparse.ArgumentParser(description="A shop over HTTP, with metrics for Prometheus")
    parser.add_argument("--port", type=int, default=8000, help="of the MCP endpoint")
    parser.add_argument("--metrics-port", type=int, default=9464, help="of /metrics")
    parser.add_argument("--metrics-host", default="127.0.0.1", help="address of /metrics; 0.0.0.0 in a container")
    arguments = parser.parse_args()
    metrics.set_meter_provider(MeterProvider(metric_readers=[PrometheusMetricReader(scope_info_enabled=False)]))
    start_http_server(arguments.metrics_port, addr=arguments.metrics_host)
    mcp.run(transport="http", port=arguments.port, show_banner=False)


if __name__ == "__main__":
    main()
