"""The server of docs/production.md: one of any number of instances behind one address, which share a Redis.

    REDIS_URL=redis://localhost:6379/0 ISSUER=https://login.example.com AUDIENCE=orders \
    JWKS_URI=https://login.example.com/jwks uvicorn server:app --port 8000

    REDIS_URL      what the instances share: limits, results, records for resumption, background tasks
    ISSUER, AUDIENCE, and JWKS_URI or PUBLIC_KEY_FILE (PEM)
                   whose access tokens are taken
    AUDIT_FILE     where the record of every run goes, as JSON lines; without it, into the log
    FASTMCP_DOCKET_REDELIVERY_TIMEOUT
                   seconds after which a task of an instance that died is given to another, as `PT60S`; 300 without it
"""

import os
from pathlib import Path

from fastmcp import FastMCP
from fastmcp.server.auth.providers.jwt import JWTVerifier
from fastmcp_tasks import TasksExtension
from key_value.aio.stores.redis import RedisStore
from starlette.requests import Request
from starlette.responses import JSONResponse

from codecall import CodeCallPlugin, RateLimitPlugin

REDIS = os.environ["REDIS_URL"]
ORDERS: list[dict[str, object]] = [{"number": number, "customer": f"c{number % 7}", "total": number * 10} for number in range(1, 201)]


def verifier() -> JWTVerifier:
    """Who may come in."""
    key = os.environ.get("PUBLIC_KEY_FILE")
    return JWTVerifier(
        public_key=Path(key).read_text() if key else None,
        jwks_uri=os.environ.get("JWKS_URI"),
        issuer=os.environ["ISSUER"],
        audience=os.environ["AUDIENCE"],
    )


def create_server() -> FastMCP:
    """The server, with everything that production needs."""
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
    plugin = CodeCallPlugin.init(
        vm={"preset": "secure"},
        pool={"min_workers": 2, "max_workers": 8, "max_queue": 64},
        results={"store": store},
        resume={"store": store},
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
    server.add_extension(TasksExtension(url=REDIS, name="orders"))

    @server.custom_route("/health", methods=["GET"])
    async def health(_request: Request) -> JSONResponse:
        """For probes: answers while the event loop does."""
        return JSONResponse({"workers": len(plugin.worker_pids)})

    return server


mcp = create_server()
app = mcp.http_app(stateless_http=True)
