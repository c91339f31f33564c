"""What a client reads when the server under CodeCall fails: never the text of an exception not meant for it."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from fastmcp.exceptions import AuthorizationError, ToolError
from fastmcp.server.middleware import Middleware
from fastmcp.server.middleware.rate_limiting import RateLimitError

SECRET = "db at /srv/secret/db.sqlite password=hunter2 down"


class Listing(Middleware):
    """Raises instead of listing tools while a tool is called; a client may list them, as ours does by itself."""

    def __init__(self, failure: Exception) -> None:
        self.failure = failure
        self.calls = 0

    async def on_call_tool(self, context: Any, call_next: Any) -> Any:
        self.calls += 1
        try:
            return await call_next(context)
        finally:
            self.calls -= 1

    async def on_list_tools(self, context: Any, call_next: Any) -> Any:
        if self.calls:
            raise self.failure
        return await call_next(context)


def clean(text: str) -> str:
    for secret in ("secret", "hunter2", "sqlite"):
        assert secret not in text
    return text


@pytest.fixture
def failing(shop: Any, caplog: pytest.LogCaptureFixture) -> Any:
    caplog.set_level(logging.ERROR, logger="codecall")
    shop.server.add_middleware(Listing(RuntimeError(SECRET)))
    return shop


def logged(caplog: pytest.LogCaptureFixture) -> str:
    # Looked for before the script runs, and again when it is called.
    records = [record.getMessage() for record in caplog.records if record.name == "codecall"]
    assert 1 <= len(records) <= 2
    assert all("on_list_tools" in record for record in records)
    return clean("\n".join(records))


@pytest.mark.parametrize(
    "script",
    ["return await callTool('users_get', { id: 1 })", "return getTool('users_get')", "return await callTool('x', {})"],
)
async def test_execute(failing: Any, script: str, caplog: pytest.LogCaptureFixture) -> None:
    envelope = await failing.ask("codecall:execute", script=script)
    assert envelope["status"] == "tool_error"
    assert envelope["error"]["code"] == "TOOL_EXECUTION_ERROR"
    name = envelope["error"]["toolName"]
    assert envelope["error"]["message"] == (f"Tool '{name}' could not be looked up: the server failed (RuntimeError)")
    assert "looking up tool" in logged(caplog)


async def test_a_script_can_catch_it(failing: Any) -> None:
    script = "return (await callTool('users_get', { id: 1 }, { throwOnError: false })).error.code"
    assert (await failing.ask("codecall:execute", script=script))["result"] == "TOOL_EXECUTION_ERROR"


async def test_invoke(failing: Any, caplog: pytest.LogCaptureFixture) -> None:
    answer = await failing.ask("codecall:invoke", tool="users_get", input={"id": 1})
    assert answer["status"] == "error"
    assert answer["error"]["code"] == "TOOL_EXECUTION_ERROR"
    assert "the server failed (RuntimeError)" in clean(str(answer))
    logged(caplog)


@pytest.mark.parametrize(("verb", "arguments"), [("search", {"query": "users"}), ("describe", {"toolNames": ["a"]})])
async def test_search_and_describe(
    failing: Any, verb: str, arguments: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    refusal = await failing.refusal(f"codecall:{verb}", **arguments)
    assert refusal == f"codecall:{verb}: the server failed (RuntimeError)"
    logged(caplog)


async def test_errors_meant_for_clients_are_passed_on_cleaned(shop: Any, caplog: pytest.LogCaptureFixture) -> None:
    shop.server.add_middleware(Listing(ToolError(f"come back later ({SECRET})")))
    for verb, arguments in (("search", {"query": "users"}), ("describe", {"toolNames": ["a"]})):
        refusal = await shop.refusal(f"codecall:{verb}", **arguments)
        assert "come back later" in refusal
        assert "hunter2" not in refusal
        assert "/srv" not in refusal
    answer = await shop.ask("codecall:invoke", tool="users_get", input={"id": 1})
    assert "come back later" in answer["error"]["message"]
    assert "hunter2" not in str(answer)
    assert not [record for record in caplog.records if record.name == "codecall"]


@pytest.mark.parametrize(
    ("failure", "code"), [(AuthorizationError("no"), "ACCESS_DENIED"), (RateLimitError("slower"), "RATE_LIMIT")]
)
async def test_refusals_of_the_listing_keep_their_code(shop: Any, failure: Exception, code: str) -> None:
    shop.server.add_middleware(Listing(failure))
    assert (await shop.ask("codecall:invoke", tool="users_get", input={}))["error"]["code"] == code
