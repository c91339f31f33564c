"""Resources and prompts through a Broker: a real server, its middleware and its failures."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from fastmcp import Client, Context, FastMCP
from fastmcp.exceptions import AuthorizationError, NotFoundError, ResourceError
from fastmcp.resources.types import TextResource
from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
from mcp_types import InputRequiredResult

from codecall import tool_metadata
from codecall.calls.broker import Broker
from codecall.catalog.components import component_view
from codecall.errors import CodeCallError, SelfReferenceError, ToolCallError
from codecall.globs import MAX_URI_CHARS
from codecall.options import PluginOptions, SanitizationOptions
from codecall.ratelimit.middleware import RateLimitPlugin
from codecall.sandbox import wire

OPTIONS = PluginOptions.build(vm={"preset": "secure"})


class NoTools:
    """A view without tools."""

    async def find(self, name: str) -> None:
        return None

    async def exists(self, name: str) -> bool:
        return False

    async def suggest(self, name: str) -> list[str]:
        return []

    async def describe(self, name: str) -> None:
        return None


class Reader:
    """Asks a Broker within a request to a server."""

    def __init__(self, server: FastMCP[Any]) -> None:
        self.server = server
        self.allowed: list[str] | None = None
        self.timeout_ms = 10_000
        self.max_bytes = 1_000_000
        self._ask: Callable[[Broker], Awaitable[str]] | None = None
        self._outcome: Any = None

        @server.tool
        async def go(ctx: Context) -> str:
            broker = Broker(
                ctx,
                NoTools(),
                allowed_tools=self.allowed,
                tool_call_timeout_ms=self.timeout_ms,
                max_value_bytes=self.max_bytes,
                sanitization=SanitizationOptions(),
                components=component_view(ctx, OPTIONS),
            )
            assert self._ask is not None
            try:
                self._outcome = json.loads(await self._ask(broker))
            except CodeCallError as failure:
                self._outcome = failure
            return "done"

    async def _do(self, ask: Callable[[Broker], Awaitable[str]]) -> Any:
        self._ask = ask
        async with Client(self.server) as client:
            await client.call_tool("go", {})
        return self._outcome

    async def read(self, uri: str) -> Any:
        """The value, or the error."""
        return await self._do(lambda broker: broker.read(uri))

    async def prompt(self, name: str, **arguments: object) -> Any:
        return await self._do(lambda broker: broker.prompt(name, arguments))


@pytest.fixture
def server() -> FastMCP[Any]:
    return FastMCP("library")


@pytest.fixture
def reader(server: FastMCP[Any]) -> Reader:
    return Reader(server)


def told(error: ToolCallError) -> dict[str, object]:
    assert isinstance(error, ToolCallError), error
    return error.as_dict()


# ------------------------------------------------------------------------------------------------------------- values


async def test_a_resource_and_one_of_a_template(server: FastMCP[Any], reader: Reader) -> None:
    server.resource("data://hours")(lambda: {"monday": "9-17"})

    @server.resource("books://{isbn}/page{?number}")
    def page(isbn: str, number: int = 1) -> str:
        return f"{isbn}/{number}"

    assert await reader.read("data://hours") == {"monday": "9-17"}
    assert await reader.read("books://a%20b/page?number=3") == "a b/3"
    assert await reader.read("books://a b/page") == "a b/1"


async def test_a_prompt_with_values_that_are_no_texts(server: FastMCP[Any], reader: Reader) -> None:
    @server.prompt
    def review(title: str, stars: int, words: list[str], note: str | None = "none") -> str:
        """Write a review."""
        return f"{title} {stars + 1} {'+'.join(words)} {note}"

    assert await reader.prompt("review", title="Dune", stars=4, words=["a", "é"]) == {
        "description": "Write a review.",
        "messages": [{"role": "user", "content": "Dune 5 a+é none"}],
    }


async def test_the_middleware_sees_each_read_under_its_one_spelling(server: FastMCP[Any], reader: Reader) -> None:
    seen: list[str] = []

    class Watching(Middleware):
        async def on_read_resource(self, context: MiddlewareContext[Any], call_next: CallNext[Any, Any]) -> Any:
            seen.append(context.message.uri)
            if context.message.uri == "data://b%20c":
                raise AuthorizationError("not this one")
            return await call_next(context)

        async def on_get_prompt(self, context: MiddlewareContext[Any], call_next: CallNext[Any, Any]) -> Any:
            seen.append(context.message.name)
            return await call_next(context)

    server.resource("data://{x}", name="any")(lambda x: x)
    server.prompt(name="hello")(lambda: "hello")
    server.add_middleware(Watching())
    assert await reader.read("data://%61") == "a"
    refused = await reader.read("data://b c")
    assert told(refused)["code"] == "ACCESS_DENIED"
    assert refused.message == "You may not read resource 'data://b%20c'"
    await reader.prompt("hello")
    assert seen == ["data://a", "data://b%20c", "hello"]


async def test_the_listed_version_is_read() -> None:
    server: FastMCP[Any] = FastMCP("versions")
    for version in ("1.0", "2.0"):
        server.add_resource(TextResource(uri="data://v", text=version, version=version))  # type: ignore[arg-type]

        @server.prompt(name="v", version=version)
        def named(ctx: Context, said: str = version) -> str:
            return said

    reader = Reader(server)
    assert await reader.read("data://v") == "2.0"
    assert (await reader.prompt("v"))["messages"][0]["content"] == "2.0"


# ------------------------------------------------------------------------------------------------------------- access


async def test_allowed_tools_are_about_everything(server: FastMCP[Any], reader: Reader) -> None:
    server.resource("data://a")(lambda: "a")
    server.resource("users://{id}", name="any")(lambda id: id)  # noqa: A006
    server.prompt(name="hello")(lambda: "hello")
    reader.allowed = ["users:list"]
    for error in (await reader.read("data://a"), await reader.read("users://1"), await reader.prompt("hello")):
        assert told(error)["code"] == "ACCESS_DENIED"
        assert error.hint == "Allowed here: users:list."
    assert told(await reader.read("data://a"))["resource"] == "data://a"
    assert told(await reader.prompt("hello"))["prompt"] == "hello"
    reader.allowed = ["data://*", "hel*"]
    assert await reader.read("data://a") == "a"
    assert (await reader.prompt("hello"))["messages"]
    assert told(await reader.read("users://1"))["code"] == "ACCESS_DENIED"
    reader.allowed = []
    assert (await reader.read("data://a")).hint == "allowedTools is empty: no resource may be called here."


async def test_a_templates_own_name_allows_what_fits_it(server: FastMCP[Any], reader: Reader) -> None:
    server.resource("users://{id}", name="any")(lambda id: id)  # noqa: A006
    server.resource("users://admin", meta=tool_metadata(enabled_in_codecall=False))(lambda: "SECRET")
    server.resource("users://all")(lambda: "all")
    server.resource("data://{x}", name="any")(lambda x: x)
    reader.allowed = ["users://{id}"]
    assert await reader.read("users://1") == "1"
    for uri in ("data://1", "users://admin", "users://adm%69n", "users://all", "nothing://1", "system://1"):
        assert told(await reader.read(uri))["code"] == "ACCESS_DENIED", uri
    assert isinstance(await reader.read("codecall:execute"), SelfReferenceError)
    assert told(await reader.read("users://" + "1" * MAX_URI_CHARS))["code"] == "RESOURCE_NOT_FOUND"


async def test_a_pattern_is_compared_with_both_spellings(server: FastMCP[Any], reader: Reader) -> None:
    server.resource("data://{x}", name="any")(lambda x: x)
    reader.allowed = ["data://%61*"]
    assert told(await reader.read("data://%61bc"))["code"] == "ACCESS_DENIED"
    reader.allowed = ["data://%61*", "data://a*"]
    assert await reader.read("data://%61bc") == "abc"


async def test_what_is_not_there(server: FastMCP[Any], reader: Reader) -> None:
    server.resource("data://hours")(lambda: "x")
    server.prompt(name="review")(lambda: "x")
    missing = await reader.read("data://horus")
    assert told(missing) == {
        "code": "RESOURCE_NOT_FOUND",
        "source": "tool",
        "message": "Resource 'data://horus' was not found",
        "toolName": "data://horus",
        "resource": "data://horus",
        "hint": "Did you mean 'data://hours'?",
    }
    assert told(await reader.prompt("reveiw")) == {
        "code": "PROMPT_NOT_FOUND",
        "source": "tool",
        "message": "Prompt 'reveiw' was not found",
        "toolName": "reveiw",
        "prompt": "reveiw",
        "hint": "Did you mean 'review'?",
    }
    assert (await reader.prompt("zzz")).hint == (
        "codecall:search with `filter.kinds` `prompt` finds prompts by what they are for."
    )
    # A resource is no prompt, and neither is a tool.
    assert told(await reader.prompt("data://hours"))["code"] == "PROMPT_NOT_FOUND"
    assert told(await reader.read("review"))["code"] == "RESOURCE_NOT_FOUND"
    assert told(await reader.prompt("go"))["code"] == "PROMPT_NOT_FOUND"


async def test_what_disappears_between_listing_and_reading(server: FastMCP[Any], reader: Reader) -> None:
    class Vanishing(Middleware):
        async def on_read_resource(self, context: MiddlewareContext[Any], call_next: CallNext[Any, Any]) -> Any:
            raise NotFoundError("gone")

        async def on_get_prompt(self, context: MiddlewareContext[Any], call_next: CallNext[Any, Any]) -> Any:
            raise NotFoundError("gone")

    server.resource("data://a")(lambda: "a")
    server.prompt(name="hello")(lambda: "hello")
    server.add_middleware(Vanishing())
    assert told(await reader.read("data://a"))["code"] == "RESOURCE_NOT_FOUND"
    assert told(await reader.prompt("hello"))["code"] == "PROMPT_NOT_FOUND"


def test_one_longest_uri() -> None:
    assert MAX_URI_CHARS == wire.MAX_URI_LENGTH


# ------------------------------------------------------------------------------------------------------------ failures


async def test_failures_are_named_and_cleaned(server: FastMCP[Any], reader: Reader) -> None:
    @server.resource("data://fails")
    def fails() -> str:
        raise ValueError("cannot open /srv/private/key.pem")

    @server.resource("data://own")
    def own() -> str:
        raise ResourceError('{"code": "CLOSED", "message": "We are closed", "details": {"until": "9"}}')

    @server.resource("data://exits")
    def exits() -> str:
        sys.exit("bye")

    @server.prompt(name="fails")
    def failing() -> str:
        raise ValueError("cannot open /srv/private/key.pem")

    for error in (await reader.read("data://fails"), await reader.prompt("fails")):
        assert told(error)["code"] == "TOOL_EXECUTION_ERROR"
        assert error.message == "cannot open [path]"
    closed = await reader.read("data://own")
    assert (closed.code, closed.message, closed.details) == ("CLOSED", "We are closed", {"until": "9"})
    assert (await reader.read("data://exits")).message == "Resource 'data://exits' ended with SystemExit"


async def test_arguments_a_prompt_refuses(server: FastMCP[Any], reader: Reader) -> None:
    @server.prompt
    def review(title: str, stars: int = 3) -> str:
        return f"{title} {stars}"

    missing = await reader.prompt("review", stars=1)
    assert missing.code == "INVALID_INPUT"
    assert missing.message.startswith("Invalid input for 'review': title: Field required")
    assert missing.details[0]["field"] == "title"
    assert told(await reader.prompt("review", title="Dune", stars="many"))["code"] in (
        "INVALID_INPUT",
        "TOOL_EXECUTION_ERROR",
    )


async def test_time_runs_out(server: FastMCP[Any], reader: Reader) -> None:
    stopped: list[str] = []

    @server.resource("data://slow")
    async def slow() -> str:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.append("slow")
        return ""

    reader.timeout_ms = 20
    error = await reader.read("data://slow")
    assert told(error)["code"] == "TOOL_TIMEOUT"
    assert error.message == "Resource 'data://slow' did not answer within 20ms"
    assert stopped == ["slow"]


async def test_values_that_are_too_large(server: FastMCP[Any], reader: Reader) -> None:
    server.resource("data://large")(lambda: "x" * 2000)
    server.prompt(name="large")(lambda: "x" * 2000)
    reader.max_bytes = 1000
    for error in (await reader.read("data://large"), await reader.prompt("large")):
        assert told(error)["code"] == "MESSAGE_TOO_LARGE"
        assert error.details["maxBytes"] == 1000


async def test_what_asks_a_person(server: FastMCP[Any], reader: Reader) -> None:
    server.resource("data://asks")(lambda: InputRequiredResult(request_state="x"))
    server.prompt(name="asks")(lambda: InputRequiredResult(request_state="x"))
    for error in (await reader.read("data://asks"), await reader.prompt("asks")):
        assert told(error)["code"] == "INPUT_REQUIRED"


async def test_rates_hold_for_reads_and_prompts(server: FastMCP[Any], reader: Reader) -> None:
    server.resource("data://a")(lambda: "a")
    server.prompt(name="hello")(lambda: "hello")
    rules = [{"tool": "data://*", "limit": 1, "window": "1h"}, {"tool": "hello", "limit": 1, "window": "1h"}]
    RateLimitPlugin.init(rules=rules).install(server)
    assert await reader.read("data://a") == "a"
    error = await reader.read("data://a")
    assert told(error)["code"] == "RATE_LIMIT"
    assert told(error)["resource"] == "data://a"
    assert error.retry_after_ms > 0
    assert (await reader.prompt("hello"))["messages"]
    assert told(await reader.prompt("hello"))["prompt"] == "hello"
    async with Client(server) as client:
        with pytest.raises(Exception, match="RATE_LIMIT"):
            await client.read_resource("data://a")
        with pytest.raises(Exception, match="RATE_LIMIT"):
            await client.get_prompt("hello")
        with pytest.raises(Exception, match="not found"):
            await client.read_resource("data://" + "a" * 9000)


async def test_a_broken_listing_is_a_named_error(server: FastMCP[Any], reader: Reader) -> None:
    class Broken(Middleware):
        async def on_list_resources(self, context: MiddlewareContext[Any], call_next: CallNext[Any, Any]) -> Any:
            raise RuntimeError("password=hunter2")

    server.add_middleware(Broken())
    error = await reader.read("data://a")
    assert told(error)["code"] == "TOOL_EXECUTION_ERROR"
    assert error.message == "Resource 'data://a' could not be looked up: the server failed (RuntimeError)"


async def test_without_offers_there_is_nothing(server: FastMCP[Any]) -> None:
    server.resource("data://a")(lambda: "a")
    outcomes: list[str] = []

    @server.tool
    async def bare(ctx: Context) -> None:
        broker = Broker(
            ctx,
            NoTools(),
            allowed_tools=None,
            tool_call_timeout_ms=1000,
            max_value_bytes=1000,
            sanitization=SanitizationOptions(),
        )
        for work in (broker.read("data://a"), broker.prompt("x", {})):
            try:
                await work
            except ToolCallError as error:
                outcomes.append(error.code)

    async with Client(server) as client:
        await client.call_tool("bare", {})
    assert outcomes == ["RESOURCE_NOT_FOUND", "PROMPT_NOT_FOUND"]
