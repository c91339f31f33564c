"""The server of docs/operations/deployment.md: one of any number of instances behind one address, which share a Redis.

uvicorn server:app --port 8000                          an instance
python -m fastmcp_tasks.worker_cli worker server.py     one that only works off background tasks

REDIS_URL           what the instances share: limits, large results, completed calls, background tasks
ISSUER, AUDIENCE, and JWKS_URI or PUBLIC_KEY_FILE (PEM)
                    whose access tokens are taken
AUDIT_FILE          where the record of every run goes, as JSON lines; without it, into the log
METRICS_PORT        where Prometheus reads metrics; without it, nobody does
FASTMCP_TASKS_ENCRYPTION_KEY
                    by which FastMCP encrypts the tokens of callers that wait in the queue
FASTMCP_DOCKET_REDELIVERY_TIMEOUT
                    when a task of an instance that died is given to another, such as PT60S; else 300 seconds
"""

import logging
import os
from pathlib import Path

from fastmcp import FastMCP
from fastmcp.server.auth.providers.jwt import JWTVerifier
from fastmcp_tasks import TasksExtension
from key_value.aio.stores.redis import RedisStore
from starlette.requests import Request
from starlette.responses import JSONResponse

from codecall import CodeCallPlugin, JsonLinesSink, RateLimitPlugin

REDIS = os.environ["REDIS_URL"]
ORDERS: list[dict[str, object]] = [{"number": n, "customer": f"c{n % 7}", "total": n * 10} for n in range(1, 201)]


def verifier() -> JWTVerifier:
    """Who may come in."""
    key = os.environ.get("PUBLIC_KEY_FILE")
    return JWTVerifier(
        public_key=Path(key).read_text() if key else None,
        jwks_uri=os.environ.get("JWKS_URI"),
        issuer=os.environ["ISSUER"],
        audience=os.environ["AUDIENCE"],
    )


def serve_metrics(port: int) -> None:
    """Let Prometheus read what CodeCall tells OpenTelemetry."""
    from opentelemetry import metrics
    from opentelemetry.exporter.prometheus import PrometheusMetricReader
    from opentelemetry.sdk.metrics import MeterProvider
    from prometheus_client import start_http_server

    metrics.set_meter_provider(MeterProvider(metric_readers=[PrometheusMetricReader(scope_info_enabled=False)]))
    start_http_server(port)


def create_server() -> FastMCP:
    """The server, with what production needs."""
    server = FastMCP("orders", auth=verifier())

    @server.tool(annotations={"readOnlyHint": True})
    def list_orders(customer: str | None = None, limit: int = 50) -> list[dict[str, object]]:
        """List orders, those of one customer if given."""
        return [order for order in ORDERS if customer in (None, order["customer"])][:limit]

    @server.tool(annotations={"readOnlyHint": True})
    def get_order(number: int) -> dict[str, object]:
        """Get an order."""
        return ORDERS[number - 1]

    store = RedisStore(url=REDIS)
    audit = os.environ.get("AUDIT_FILE")
    plugin = CodeCallPlugin.init(
        # HTTP clients of the MCP SDK take at most 1 MiB in one event, and a result is sent twice, as data and as text.
        vm={"preset": "secure", "max_result_bytes": 256 * 1024},
        pool={"min_workers": 2, "max_workers": 8, "max_queue": 64},
        results={"store": store},
        resume={"store": store},
        audit={"sinks": [JsonLinesSink(audit)] if audit else None},
        shutdown={"grace_s": 20, "on_sigterm": True},
        tasks=True,
    )
    plugin.install(server)
    RateLimitPlugin.init(
        rules=[
            {"tool": "codecall:execute", "rate": ["5/second", "100/minute"], "name": "scripts"},
            {"tool": "codecall:execute", "concurrent": 4, "name": "scripts at once"},
            {"tool": "*_order*", "rate": "2000/minute", "name": "orders"},
        ],
        storage=REDIS,
    ).install(server)
    server.add_extension(TasksExtension(url=REDIS, name="orders", concurrency=4))

    @server.custom_route("/health", methods=["GET"])
    async def health(_request: Request) -> JSONResponse:
        """For probes: answers while the event loop does."""
        return JSONResponse({"workers": len(plugin.worker_pids)})

    return server


logging.basicConfig()
logging.getLogger("codecall").setLevel(logging.INFO)
if "METRICS_PORT" in os.environ:
    serve_metrics(int(os.environ["METRICS_PORT"]))
mcp = create_server()
app = mcp.http_app(stateless_http=True)
