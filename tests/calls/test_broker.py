"""Every outcome of a call, over real FastMCP servers."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from typing import Annotated, Any, Literal, cast

import anyio
import mcp_types
import pytest
from fastmcp import Client, Context, FastMCP
from fastmcp.exceptions import AuthorizationError, InsufficientScopeError, NotFoundError, ToolError
from fastmcp.server import create_proxy
from fastmcp.server.auth import AuthContext
from fastmcp.server.extensions import ServerExtension
from fastmcp.server.middleware import AuthMiddleware, Middleware
from fastmcp.server.middleware.rate_limiting import RateLimitError
from fastmcp.tools.base import ToolResult
from mcp import MCPError
from pydantic import BaseModel, Field

from codecall.calls.broker import Broker
from codecall.calls.failures import MAX_DETAILS_BYTES
from codecall.errors import (
    AccessDeniedError,
    CodeCallError,
    InputRequiredError,
    InvalidInputError,
    RateLimitedError,
    SelfReferenceError,
    TaskStartedError,
    ToolCallError,
    ToolNotFoundError,
    ToolTimeoutError,
)
from codecall.options import SanitizationOptions
from codecall.ratelimit.middleware import RateLimitPlugin
from tests.loop_turns import assert_turns_below


class Only(Middleware):
    """Runs `act` instead of the tool of that name."""

    def __init__(self, name: str, act: Any) -> None:
        self.name, self.act = name, act

    async def on_call_tool(self, context: Any, call_next: Any) -> Any:
        return await (self.act(context, call_next) if context.message.name == self.name else call_next(context))


class Filter(BaseModel):
    """A nested parameter."""

    min_value: int


def raises(failure: Exception) -> Any:
    async def act(context: Any, call_next: Any) -> Any:
        raise failure

    return act


def never(context: AuthContext) -> bool:
    return False


# --- values


async def test_a_value_arrives_as_json(mcp: FastMCP[Any], caller: Any) -> None:
    @mcp.tool(name="users:list")
    def users(limit: int = 2) -> list[dict[str, Any]]:
        return [{"id": n, "name": f"user {n}"} for n in range(limit)]

    assert await caller.call("users:list", {"limit": 1}) == [{"id": 0, "name": "user 0"}]


async def test_a_tool_that_returns_nothing_gives_null(mcp: FastMCP[Any], caller: Any) -> None:
    @mcp.tool
    def none() -> None: ...

    assert await caller.run(lambda broker: broker.call("none", {})) == "null"


async def test_mounted_and_proxied_results_lose_their_wrapper_too(mcp: FastMCP[Any], caller: Any) -> None:
    child, remote = FastMCP[Any]("child"), FastMCP[Any]("remote")
    for server in (child, remote):

        @server.tool
        def numbers() -> list[int]:
            return [1, 2]

    mcp.mount(child, "c")
    mcp.mount(create_proxy(remote), "p")
    assert await caller.call("c_numbers") == [1, 2]
    assert await caller.call("p_numbers") == [1, 2]


async def test_an_unmarked_wrapper_is_taken_off_when_the_schema_declares_it(mcp: FastMCP[Any], caller: Any) -> None:
    async def unmark(context: Any, call_next: Any) -> ToolResult:
        result = await call_next(context)
        result.meta = None
        return result

    mcp.add_middleware(Only("number", unmark))

    @mcp.tool
    def number() -> int:
        return 7

    @mcp.tool
    def honest() -> dict[str, int]:
        return {"result": 7}

    assert await caller.call("number") == 7
    assert await caller.call("honest") == {"result": 7}


async def test_what_json_has_no_text_for(mcp: FastMCP[Any], caller: Any) -> None:
    @mcp.tool(output_schema=None)
    def odd(lone: str) -> ToolResult:
        result = ToolResult(content=[], structured_content={})
        result.structured_content = {"nan": float("nan"), "inf": [float("inf")], "lone": lone, "big": 2**70}
        return result

    for lone in ("a", "a\ud800b"):
        value = await caller.call("odd", {"lone": lone})
        assert value == {"nan": None, "inf": [None], "lone": lone, "big": 2**70}


async def test_what_is_no_json_is_an_error(mcp: FastMCP[Any], caller: Any) -> None:
    @mcp.tool(output_schema=None)
    def odd() -> ToolResult:
        result = ToolResult(content=[], structured_content={})
        result.structured_content = {"x": object()}
        return result

    error = await caller.call("odd")
    assert error.code == "TOOL_EXECUTION_ERROR"
    assert "cannot be sent as JSON" in error.message


async def test_a_value_that_is_too_large_names_the_sizes_and_the_way_out(mcp: FastMCP[Any], caller: Any) -> None:
    @mcp.tool
    def rows(limit: int, cursor: str = "", q: str = "") -> list[int]:
        return [7] * limit

    caller.settings.max_value_bytes = 99
    assert await caller.call("rows", {"limit": 49}) == [7] * 49
    error = await caller.call("rows", {"limit": 50})
    assert (error.code, error.status) == ("MESSAGE_TOO_LARGE", "tool_error")
    assert error.message == "Tool 'rows' returned 101 bytes; one value may have 99"
    assert error.details == {"bytes": 101, "maxBytes": 99}
    assert error.hint == "Ask for less with limit, cursor."


async def test_a_large_value_arrives_whole(mcp: FastMCP[Any], caller: Any) -> None:
    rows = [{"id": n, "name": "x" * 50} for n in range(10_000)]

    @mcp.tool(output_schema=None)
    def as_text() -> ToolResult:
        return ToolResult(content=[mcp_types.TextContent(type="text", text=json.dumps(rows))])

    @mcp.tool
    def as_data() -> list[dict[str, Any]]:
        return rows

    assert await caller.call("as_text") == rows
    assert await caller.call("as_data") == rows


# --- access


async def test_meta_tools_end_the_script(caller: Any) -> None:
    for name in ("codecall:execute", "codecall_execute", " CodeCall:Search "):
        error = await caller.call(name)
        assert isinstance(error, SelfReferenceError)
        assert error.code == "SELF_REFERENCE_BLOCKED"


async def test_a_refused_name_is_never_looked_up_nor_called(mcp: FastMCP[Any], caller: Any) -> None:
    called: list[str] = []

    @mcp.tool(name="system:reset")
    def reset() -> None:
        called.append("reset")

    @mcp.tool
    def secret() -> None:
        called.append("secret")

    caller.settings.allowed_tools = ["users:*", "system:*"]
    for name in ("system:reset", "System:Nothing", "internal:x", "__x", "secret"):
        assert isinstance(await caller.call(name), AccessDeniedError)
        assert caller.view.asked == 0
    assert called == []


async def test_out_of_reach_differs_from_not_there(mcp: FastMCP[Any], caller: Any) -> None:
    @mcp.tool(tags={"hidden"})
    def kept() -> None: ...

    @mcp.tool(name="users:list")
    def users() -> None: ...

    assert isinstance(await caller.call("kept"), AccessDeniedError)
    error = await caller.call("users:lst")
    assert isinstance(error, ToolNotFoundError)
    assert error.message == "Tool 'users:lst' was not found"
    assert error.hint == "Did you mean 'users:list'?"


async def test_a_tool_the_caller_may_not_see_is_not_found(mcp: FastMCP[Any], caller: Any) -> None:
    @mcp.tool(auth=never)
    def payroll() -> str:
        return "secret"

    error = await caller.call("payroll")
    assert isinstance(error, ToolNotFoundError)
    assert "payroll" not in error.hint


async def test_authorization_that_refuses_at_the_call_is_access_denied(mcp: FastMCP[Any], caller: Any) -> None:
    refuse = AuthMiddleware(auth=never)
    mcp.add_middleware(Only("payroll", refuse.on_call_tool))

    @mcp.tool
    def payroll() -> str:
        return "secret"

    error = await caller.call("payroll")
    assert isinstance(error, AccessDeniedError)
    assert error.message == "You may not call tool 'payroll'"


async def test_missing_scopes_are_named(mcp: FastMCP[Any], caller: Any) -> None:
    mcp.add_middleware(Only("payroll", raises(InsufficientScopeError(["pay:read"]))))

    @mcp.tool
    def payroll() -> None: ...

    error = await caller.call("payroll")
    assert isinstance(error, AccessDeniedError)
    assert error.details == {"requiredScopes": ["pay:read"]}


async def test_authorization_errors_of_the_tool_itself(mcp: FastMCP[Any], caller: Any) -> None:
    @mcp.tool
    async def users() -> str:
        raise AuthorizationError("no")

    assert isinstance(await caller.call("users"), AccessDeniedError)


async def test_a_tool_removed_between_listing_and_call_is_not_found(mcp: FastMCP[Any], caller: Any) -> None:
    async def remove(context: Any, call_next: Any) -> Any:
        mcp.local_provider.remove_tool("users")
        return await call_next(context)

    mcp.add_middleware(Only("users", remove))

    @mcp.tool
    def users() -> None: ...

    error = await caller.call("users")
    assert isinstance(error, ToolNotFoundError)
    assert error.message == "Tool 'users' was not found"


async def test_get_tool_sees_what_may_be_called(mcp: FastMCP[Any], caller: Any) -> None:
    @mcp.tool
    def users() -> None: ...

    @mcp.tool
    def orders() -> None: ...

    caller.settings.allowed_tools = ["users"]

    async def ask(broker: Broker) -> list[Any]:
        return [await broker.describe(name) for name in ("users", "orders", "codecall:execute", "__x", "nothing")]

    described = await caller.run(ask)
    assert described[0]["name"] == "users"
    assert described[1:] == [None, None, None, None]


# --- failures


async def test_invalid_input_names_each_field_and_the_parameters(mcp: FastMCP[Any], caller: Any) -> None:
    @mcp.tool
    def deals(
        stage: Literal["open", "won"], owner: Annotated[int, Field(ge=1)], where: Filter | None = None, q: str = ""
    ) -> str:
        return "ok"

    error = await caller.call("deals", {"stage": "closed", "limt": 3, "where": {"min_value": "x"}})
    assert isinstance(error, InvalidInputError)
    fields: dict[str, Any] = {item["field"]: item for item in error.details}
    assert set(fields) == {"stage", "owner", "limt", "where.min_value"}
    assert fields["stage"]["expected"] == "one of 'open', 'won'"
    assert fields["owner"]["expected"] == "integer"
    listed = "stage* ('open' | 'won'), owner* (integer), where (object | null), q (string)."
    assert f"Valid parameters (* = required): {listed}" in error.message
    assert "closed" not in json.dumps(error.details)


class Range(BaseModel):
    size: int = 1
    least: int | None = None


NULL = "; leave it out rather than give null"


@pytest.mark.parametrize("remote", [False, True])
async def test_null_for_what_may_be_left_out_is_said_to_be_left_out(
    mcp: FastMCP[Any], caller: Any, remote: bool
) -> None:
    served = FastMCP[Any]("remote") if remote else mcp

    @served.tool
    def deals(stage: str, limit: int = 10, where: Range | None = None, ranges: list[Range] = []) -> str:  # noqa: B006
        return "ok"

    if remote:
        mcp.mount(create_proxy(served), "p")
    name = "p_deals" if remote else "deals"
    error = await caller.call(name, {"stage": None, "limit": None, "where": None, "ranges": [{"size": None}, None]})
    assert isinstance(error, InvalidInputError)
    advised = {item["field"]: item["message"].endswith(NULL) for item in error.details}
    assert {"stage": False, "limit": True}.items() <= advised.items()
    assert advised.get("ranges.0.size", True)
    assert f"{NULL} (expected integer)" in error.message
    wrong = await caller.call(name, {"stage": "open", "limit": "x"})
    assert NULL not in wrong.message


async def test_invalid_input_of_a_proxied_tool_is_known_by_its_schema(mcp: FastMCP[Any], caller: Any) -> None:
    remote = FastMCP[Any]("remote")

    @remote.tool
    def deals(stage: Literal["open", "won"], owner: int) -> str:
        raise ToolError("the database is closed")

    mcp.mount(create_proxy(remote), "p")
    error = await caller.call("p_deals", {"stage": "lost", "limt": 1})
    assert isinstance(error, InvalidInputError)
    assert {item["field"] for item in error.details} == {"stage", "owner", "limt"}
    fine = await caller.call("p_deals", {"stage": "won", "owner": 1})
    assert type(fine) is ToolCallError
    assert (fine.code, fine.message) == ("TOOL_EXECUTION_ERROR", "the database is closed")


async def test_what_a_tool_raises_is_its_message(mcp: FastMCP[Any], caller: Any) -> None:
    failures = {
        "error": ToolError("Stage: closed"),
        "bug": ValueError("User 42 not found"),
        "empty": KeyError(),
        "late": TimeoutError("upstream said 504"),
        "missing": NotFoundError("User 7 not found"),
    }

    @mcp.tool
    def fails(how: str) -> None:
        raise failures[how]

    for how, message in [
        ("error", "Stage: closed"),
        ("bug", "User 42 not found"),
        ("empty", "KeyError"),
        ("late", "upstream said 504"),
        ("missing", "User 7 not found"),
    ]:
        raised = await caller.call("fails", {"how": how})
        assert type(raised) is ToolCallError
        assert (raised.code, raised.message, raised.tool_name) == ("TOOL_EXECUTION_ERROR", message, "fails")


async def test_secrets_are_looked_for_in_a_large_input_beside_the_loop(
    caller_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DB_PASSWORD", "correct horse battery staple")
    mcp = FastMCP[Any]("files")

    @mcp.tool
    def save(text: str) -> None:
        raise ToolError("no such folder: correct horse battery staple")

    called = caller_of(mcp)
    assert "horse" not in (await called.call("save", {"text": "battery"})).message
    text = "battery" + "\u00e9" * 600_000
    await assert_turns_below(30, lambda: called.call("save", {"text": text}))  # on the loop, 100
    assert "horse" not in (await called.call("save", {"text": text})).message


async def test_masked_details_stay_masked(caller_of: Any) -> None:
    mcp = FastMCP[Any]("crm", mask_error_details=True)

    @mcp.tool
    def bug() -> None:
        raise ValueError("the secret reason")

    error = await caller_of(mcp).call("bug")
    assert error.message == "Error calling tool 'bug'"


@pytest.mark.parametrize("how", ["ToolError", "ValueError", "text", "structured"])
async def test_a_tool_names_its_own_error(mcp: FastMCP[Any], caller: Any, how: str) -> None:
    own = {"code": "STAGE_CLOSED", "message": "The stage is closed", "details": {"stage": 3}, "retryAfterMs": 50}

    @mcp.tool(output_schema=None)
    def deal() -> ToolResult:
        if how == "ToolError":
            raise ToolError(json.dumps(own))
        if how == "ValueError":
            raise ValueError(json.dumps(own))
        if how == "text":
            return ToolResult(content=json.dumps(own), is_error=True)
        return ToolResult(content="failed", structured_content=own, is_error=True)

    error = await caller.call("deal")
    assert type(error) is ToolCallError
    assert error.as_dict() == {**own, "source": "tool", "toolName": "deal"}


@pytest.mark.parametrize(
    "text",
    [
        '{"code": 404, "message": "x"}',
        '{"code": "not a word", "message": "x"}',
        '{"code": "", "message": "x"}',
        '{"code": "' + "A" * 65 + '", "message": "x"}',
        '{"code": "X", "message": 3}',
        '{"message": "x"}',
        '{"code": "X"',
        '{"a":' * 5_00,
    ],
)
async def test_anything_else_stays_text(mcp: FastMCP[Any], caller: Any, text: str) -> None:
    @mcp.tool
    def deal() -> None:
        raise ToolError(text)

    error = await caller.call("deal")
    assert (error.code, error.message) == ("TOOL_EXECUTION_ERROR", text)


async def test_large_details_become_a_mark(mcp: FastMCP[Any], caller: Any) -> None:
    @mcp.tool
    def deal() -> None:
        rows = [f"row {n} " * 10 for n in range(500)]
        raise ToolError(json.dumps({"code": "BAD", "message": "x", "details": rows}))

    error = await caller.call("deal")
    assert error.details["__truncated"]["bytes"] > MAX_DETAILS_BYTES


async def test_an_error_result_without_text_still_says_something(mcp: FastMCP[Any], caller: Any) -> None:
    @mcp.tool(output_schema=None)
    def deal() -> ToolResult:
        return ToolResult(content=[], is_error=True)

    assert (await caller.call("deal")).message == "Tool 'deal' failed without a message"


async def test_messages_and_details_are_sanitized(mcp: FastMCP[Any], caller: Any) -> None:
    text = json.dumps({"code": "X", "message": "cannot open /home/ann/crm.db", "details": {"host": "10.0.0.7"}})

    @mcp.tool
    def deal() -> None:
        raise ToolError(text)

    error = await caller.call("deal")
    assert (error.message, error.details) == ("cannot open [path]", {"host": "[internal address]"})
    caller.settings.sanitization = SanitizationOptions(remove_file_paths=False)
    assert (await caller.call("deal")).message == "cannot open /home/ann/crm.db"


async def test_a_bug_in_middleware_is_named_and_logged_without_its_text(
    mcp: FastMCP[Any], caller: Any, caplog: pytest.LogCaptureFixture
) -> None:
    mcp.add_middleware(Only("users", raises(KeyError("token-8f14e45fceea"))))

    @mcp.tool
    def users() -> None: ...

    with caplog.at_level(logging.ERROR, logger="codecall"):
        error = await caller.call("users")
    assert (error.code, error.message) == ("TOOL_EXECUTION_ERROR", "Tool 'users' failed inside the server (KeyError)")
    records = [record.getMessage() for record in caplog.records if record.name == "codecall"]
    assert len(records) == 1
    assert "in act" in records[0]
    assert "8f14e45fceea" not in records[0]


# --- time


async def test_our_time_limit(mcp: FastMCP[Any], caller: Any) -> None:
    ended: list[str] = []

    @mcp.tool
    async def slow() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cleaned up")

    caller.settings.tool_call_timeout_ms = 30
    error = await caller.call("slow")
    assert isinstance(error, ToolTimeoutError)
    assert error.message == "Tool 'slow' did not answer within 30ms"
    assert ended == ["cleaned up"]


async def test_our_time_limit_holds_for_tools_in_threads(mcp: FastMCP[Any], caller: Any) -> None:
    release = threading.Event()

    @mcp.tool
    def blocking() -> None:
        release.wait()

    caller.settings.tool_call_timeout_ms = 30
    try:
        error = await caller.call("blocking")
    finally:
        release.set()
    assert isinstance(error, ToolTimeoutError)


async def test_a_timeout_of_a_middleware_is_not_ours(mcp: FastMCP[Any], caller: Any) -> None:
    mcp.add_middleware(Only("users", raises(TimeoutError("theirs"))))

    @mcp.tool
    def users() -> None: ...

    assert type(await caller.call("users")) is ToolCallError


async def test_a_tool_that_ignores_its_cancellation_is_left_behind(
    mcp: FastMCP[Any], caller: Any, caplog: pytest.LogCaptureFixture
) -> None:
    release, ended = asyncio.Event(), asyncio.Event()

    @mcp.tool
    async def stubborn() -> None:
        try:
            await release.wait()
        except asyncio.CancelledError:
            await release.wait()
            raise ToolError("too late") from None
        finally:
            ended.set()

    caller.settings.tool_call_timeout_ms = 30
    with caplog.at_level(logging.WARNING, logger="codecall"):
        error = await caller.call("stubborn")
    assert isinstance(error, ToolTimeoutError)
    assert any("ignores its cancellation" in record.getMessage() for record in caplog.records)
    release.set()
    await ended.wait()


async def test_the_tools_own_time_limit(mcp: FastMCP[Any], caller: Any) -> None:
    @mcp.tool(timeout=0.02)
    async def slow() -> None:
        await asyncio.Event().wait()

    error = await caller.call("slow")
    assert isinstance(error, ToolTimeoutError)
    assert "0.02s" in error.message


async def test_a_cancelled_request_cancels_its_call(mcp: FastMCP[Any], caller: Any) -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    @mcp.tool
    async def slow() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async def cancel(broker: Broker) -> object:
        call = asyncio.create_task(broker.call("slow", {}))
        await begun.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        return ended.is_set()

    assert await caller.run(cancel) is True


async def test_a_cancelled_request_does_not_wait_for_a_thread(mcp: FastMCP[Any], caller: Any) -> None:
    begun, release = threading.Event(), threading.Event()

    @mcp.tool
    def blocking() -> None:
        begun.set()
        release.wait(30)

    async def cancel(broker: Broker) -> object:
        async with anyio.create_task_group() as group:
            group.start_soon(broker.call, "blocking", {})
            await asyncio.to_thread(begun.wait)
            group.cancel_scope.cancel()
        return release.is_set()

    try:
        assert await caller.run(cancel) is False
    finally:
        release.set()


async def test_a_tool_that_cancels_itself_fails(mcp: FastMCP[Any], caller: Any) -> None:
    @mcp.tool
    async def quits() -> None:
        raise asyncio.CancelledError

    error = await caller.call("quits")
    assert type(error) is ToolCallError
    assert error.message == "Tool 'quits' was cancelled before it answered"


async def test_calls_run_side_by_side(mcp: FastMCP[Any], caller: Any) -> None:
    arrived: list[int] = []
    all_here = asyncio.Event()

    @mcp.tool
    async def meet(n: int) -> int:
        arrived.append(n)
        if len(arrived) == 5:
            all_here.set()
        await all_here.wait()
        return n

    async def together(broker: Broker) -> object:
        return await asyncio.gather(*(broker.call("meet", {"n": n}) for n in range(5)))

    assert await caller.run(together) == ["0", "1", "2", "3", "4"]


async def test_calls_pass_middleware_and_keep_the_context(mcp: FastMCP[Any], caller: Any) -> None:
    seen: list[str] = []

    class Watch(Middleware):
        async def on_call_tool(self, context: Any, call_next: Any) -> Any:
            seen.append(context.message.name)
            return await call_next(context)

    mcp.add_middleware(Watch())

    @mcp.tool
    async def users(ctx: Context) -> str:
        return ctx.request_id

    assert await caller.call("users") is not None
    assert seen == ["go", "users"]


# --- people, tasks, rates


async def _answer(message: str, response_type: Any, params: Any, context: Any) -> dict[str, str]:
    return {"value": "Ann"}


@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize("handler", [None, _answer], ids=["no handler", "handler"])
async def test_elicitation_works_where_the_client_can_and_is_named_where_not(
    mcp: FastMCP[Any], caller: Any, mode: Any, handler: Any
) -> None:
    @mcp.tool
    async def ask(ctx: Context) -> str:
        answer: Any = await ctx.elicit("Who?", str)
        return answer.data

    async with Client(mcp, mode=mode, elicitation_handler=handler) as client:
        outcome = await caller.call("ask", client=client)
    if mode == "legacy" and handler is not None:
        assert outcome == "Ann"
    else:
        assert isinstance(outcome, InputRequiredError)
        assert outcome.message.startswith("Tool 'ask' asks a person for input")


async def test_a_tool_that_asks_in_a_wrong_way_is_not_taken_for_a_client_that_cannot(
    mcp: FastMCP[Any], caller: Any
) -> None:
    @mcp.tool
    async def ask(ctx: Context) -> str:
        return str(await ctx.elicit("Sure?", cast("Any", None)))

    async with Client(mcp, mode="legacy", elicitation_handler=_answer) as client:
        outcome = await caller.call("ask", client=client)
    assert outcome.code == "TOOL_EXECUTION_ERROR"
    assert "requires a response_type" in outcome.message


async def test_input_required_is_named_with_what_it_asks(mcp: FastMCP[Any], caller: Any) -> None:
    @mcp.tool(output_schema=None)
    async def ask() -> Any:
        params = mcp_types.ElicitRequestFormParams(
            message="Which company?", requested_schema={"type": "object", "properties": {}}
        )
        return mcp_types.InputRequiredResult(
            input_requests={"who": mcp_types.ElicitRequest(params=params), "roots": mcp_types.ListRootsRequest()}
        )

    error = await caller.call("ask")
    assert isinstance(error, InputRequiredError)
    assert error.details == {
        "requests": [
            {"name": "who", "kind": "elicitation/create", "message": "Which company?"},
            {"name": "roots", "kind": "roots/list"},
        ]
    }


async def test_a_missing_client_capability(mcp: FastMCP[Any], caller: Any) -> None:
    @mcp.tool
    async def ask(capability: str) -> None:
        data = {"requiredCapabilities": {capability: {}}}
        raise MCPError(mcp_types.MISSING_REQUIRED_CLIENT_CAPABILITY, "The client lacks it", data)

    assert isinstance(await caller.call("ask", {"capability": "elicitation"}), InputRequiredError)
    other = await caller.call("ask", {"capability": "sampling"})
    assert type(other) is ToolCallError
    assert other.details == {"requiredCapabilities": {"sampling": {}}}


class Tasks(ServerExtension):
    """Answers the call of `task` with a handle, as the tasks extension does."""

    identifier = "io.modelcontextprotocol/tasks"

    async def intercept_tool_call(self, params: Any, context: Any, call_next: Any) -> Any:
        if params.name == "task":
            now = "2026-07-28T00:00:00Z"
            task = mcp_types.Task(task_id="t-1", status="working", created_at=now, last_updated_at=now, ttl=None)
            return mcp_types.CreateTaskResult(task=task)
        if params.name == "odd":
            return mcp_types.EmptyResult()
        return await call_next()


async def test_a_task_handle_is_no_value(mcp: FastMCP[Any], caller: Any) -> None:
    mcp.add_extension(Tasks())

    @mcp.tool
    async def task() -> str:
        return "never"

    @mcp.tool
    async def odd() -> str:
        return "never"

    error = await caller.call("task")
    assert isinstance(error, TaskStartedError)
    assert error.details == {"taskId": "t-1", "status": "working"}
    other = await caller.call("odd")
    assert type(other) is ToolCallError
    assert other.message == "Tool 'odd' answered with EmptyResult, which has no value"


async def test_a_rate_rule_for_a_tool_holds_in_scripts(mcp: FastMCP[Any], caller: Any) -> None:
    RateLimitPlugin.init(rules=[{"tool": "users", "limit": 2, "window": "1h"}]).install(mcp)

    @mcp.tool
    def users() -> int:
        return 1

    async def thrice(broker: Broker) -> list[object]:
        outcomes: list[object] = []
        for _ in range(3):
            try:
                outcomes.append(await broker.call("users", {}))
            except CodeCallError as failure:
                outcomes.append(failure)
        return outcomes

    first, second, third = await caller.run(thrice)
    assert [first, second] == ["1", "1"]
    assert isinstance(third, RateLimitedError)
    assert third.tool_name == "users"
    assert 3_590_000 < (third.retry_after_ms or 0) <= 3_600_000


async def test_fastmcps_own_rate_limit_is_one_too(mcp: FastMCP[Any], caller: Any) -> None:
    child = FastMCP[Any]("child", middleware=[Only("users", raises(RateLimitError()))])

    @child.tool
    def users() -> int:
        return 1

    mcp.mount(child, "c")
    assert isinstance(await caller.call("c_users"), RateLimitedError)
    mcp.add_middleware(Only("c_users", raises(RateLimitError())))
    assert isinstance(await caller.call("c_users"), RateLimitedError)
