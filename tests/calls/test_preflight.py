"""Calls looked at beforehand, over real FastMCP servers: what is certain depends on who answers, and on who may see."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, Literal

import httpx2
import pytest
from fastmcp import Context, FastMCP
from fastmcp.server import create_proxy
from fastmcp.server.extensions import ServerExtension
from fastmcp.server.middleware import Middleware
from fastmcp.server.middleware.error_handling import ErrorHandlingMiddleware
from fastmcp.server.middleware.logging import LoggingMiddleware
from fastmcp.server.middleware.timing import TimingMiddleware
from fastmcp.server.middleware.tool_injection import ToolInjectionMiddleware
from fastmcp.tools import FunctionTool, Tool
from fastmcp.tools.base import ToolResult
from pydantic import BaseModel, BeforeValidator, Field

from codecall.calls.preflight import MAX_SUGGESTIONS
from codecall.errors import InvalidInputError
from codecall.ratelimit.middleware import RateLimitPlugin
from codecall.schema.partial import PartialObject, PreflightError, Unknown

Look = Callable[..., Any]


class Item(BaseModel):
    sku: str
    count: Annotated[int, Field(ge=1)] = 1


class And(BaseModel):
    inner: And | Or | None = None
    a: int


class Or(BaseModel):
    inner: And | Or | None = None
    b: int


def order(items: list[Item], stage: Literal["open", "won"] = "open", *, ctx: Context) -> str:
    """A tool with most of what there is."""
    raise AssertionError("nothing runs")


def number(value: int) -> int:
    """A plain tool."""
    return value


BAD: dict[str, object] = {"items": [{"count": 0}], "stag": "won"}


@pytest.fixture
def look(caller: Any) -> Look:
    """Looks at one call."""

    async def look(name: str, known: dict[str, object]) -> PreflightError | None:
        found = await caller.run(lambda broker: broker.preflight(name, known))
        assert found is None or isinstance(found, PreflightError), found
        return found

    return look


async def test_it_says_what_the_call_would_say(mcp: FastMCP[Any], look: Look, caller: Any) -> None:
    mcp.tool(order)
    found = await look("order", BAD)
    error = await caller.call("order", BAD)
    assert isinstance(error, InvalidInputError)
    assert found.code == error.code
    assert [item["field"] for item in found.problems] == [item["field"] for item in error.details]
    assert [item.get("expected") for item in found.problems] == [item.get("expected") for item in error.details]
    assert found.message.rpartition(" Valid parameters")[2] == error.message.rpartition(" Valid parameters")[2]
    assert found.paths == (("items", 0, "sku"), ("items", 0, "count"), ("stag",))


async def test_what_may_be_right_is_left(mcp: FastMCP[Any], look: Look) -> None:
    mcp.tool(order)
    mcp.tool(number)
    assert await look("number", {"value": "5"}) is None
    assert await look("number", {"value": Unknown.MAYBE_ABSENT}) is None
    assert await look("number", PartialObject()) is None
    assert await look("order", {"items": [{"sku": "a", "count": "2"}]}) is None
    assert await look("order", {"items": [PartialObject()]}) is None


def nested(levels: int) -> dict[str, object]:
    """What a recursive union takes long to refuse."""
    inside: dict[str, object] = {}
    for _ in range(levels):
        inside = {"inner": inside}
    return {"chosen": inside}


def choose(chosen: And | Or) -> str:
    """A tool with a recursive union."""
    raise AssertionError("nothing runs")


async def test_finding_out_is_bounded_for_a_call_and_for_a_script(mcp: FastMCP[Any], caller: Any) -> None:
    mcp.tool(choose)

    async def look(broker: Any) -> list[bool]:
        inputs = [nested(1), *[nested(40)] * 3, nested(1), *[nested(40)] * 100, nested(1)]
        return [await broker.preflight("choose", known) is not None for known in inputs]

    # The last is as certain as the first, but all steps of the script are used up.
    found = await caller.run(look)
    assert (found[0], found[4], any(found[1:4]), any(found[5:])) == (True, True, False, False)
    again = await caller.run(look)
    assert again == found


async def test_names_like_those_that_lead_nowhere_are_bounded(mcp: FastMCP[Any], caller: Any) -> None:
    mcp.tool(number)

    async def look(broker: Any) -> list[PreflightError]:
        return [await broker.check_reachable(f"number{n}") for n in range(MAX_SUGGESTIONS + 5)]

    found = await caller.run(look)
    assert {mistake.code for mistake in found} == {"TOOL_NOT_FOUND"}
    assert ["Did you mean" in mistake.hint for mistake in found] == [True] * MAX_SUGGESTIONS + [False] * 5
    assert all(mistake.hint for mistake in found)


async def test_of_a_name_that_may_not_be_called_the_input_says_nothing(
    mcp: FastMCP[Any], look: Look, caller: Any
) -> None:
    mcp.tool(order)
    mcp.tool(order, name="secret", tags={"hidden"})
    mcp.tool(order, name="denied", auth=lambda context: False)
    mcp.tool(order, name="system:order")
    assert await look("order", BAD) is not None
    for name in ("secret", "denied", "system:order", "absent", "", "codecall:execute", "x" * 500):
        refused = await look(name, BAD)
        assert refused is not None
        assert (refused.code == "INVALID_INPUT", refused.problems) == (False, ())
    caller.settings.allowed_tools = ["other*"]
    refused = await look("order", BAD)
    assert refused is not None
    assert (refused.code, refused.problems) == ("ACCESS_DENIED", ())
    caller.settings.allowed_tools = ["ord*"]
    assert await look("order", BAD) is not None


async def test_why_a_name_leads_nowhere(mcp: FastMCP[Any], caller: Any) -> None:
    mcp.tool(order)
    mcp.tool(order, name="secret", tags={"hidden"})

    async def unreachable(name: str) -> PreflightError | None:
        return await caller.run(lambda broker: broker.check_reachable(name))

    assert await unreachable("order") is None
    absent, hidden = await unreachable("ordr"), await unreachable("secret")
    assert absent is not None
    assert hidden is not None
    assert (absent.code, absent.hint) == ("TOOL_NOT_FOUND", "Did you mean 'order'?")
    assert hidden.code == "ACCESS_DENIED"


async def test_mounted_servers_are_looked_through(mcp: FastMCP[Any], look: Look) -> None:
    child, grandchild = FastMCP[Any]("child"), FastMCP[Any]("grandchild")
    grandchild.tool(order)
    child.mount(grandchild, "b")
    mcp.mount(child, "a")
    assert await look("a_b_order", BAD) is not None
    child.add_middleware(Changing())
    assert await look("a_b_order", BAD) is None


async def test_a_proxied_tool_is_compared_with_what_its_server_publishes(mcp: FastMCP[Any], look: Look) -> None:
    remote = FastMCP[Any]("remote")
    remote.tool(order)
    mcp.mount(create_proxy(remote), "p")
    found = await look("p_order", {"stage": "lost"})
    assert [problem["field"] for problem in found.problems] == ["items", "stage"]
    assert await look("p_order", {"items": 5}) is not None
    assert await look("p_order", {"itms": []}) is not None
    assert await look("p_order", {"items": Unknown.PRESENT, "stage": " Won "}) is None
    assert await look("p_order", PartialObject(stage=Unknown.MAYBE_ABSENT)) is None


async def test_a_tool_of_an_openapi_server_is_compared_with_its_schema(caller_of: Any) -> None:
    value = {"name": "value", "in": "query", "required": True, "schema": {"type": "integer"}}
    get = {"operationId": "number", "parameters": [value], "responses": {"200": {"description": "ok"}}}
    spec = {"openapi": "3.1.0", "info": {"title": "n", "version": "1"}, "paths": {"/n": {"get": get}}}
    async with httpx2.AsyncClient(base_url="http://n.example") as client:
        server = FastMCP[Any].from_openapi(spec, client)
        caller = caller_of(server)

        async def fields(arguments: dict[str, object]) -> list[str]:
            found = await caller.run(lambda broker: broker.preflight("number", arguments))
            assert found is None or isinstance(found, PreflightError), found
            return [] if found is None else [problem["field"] for problem in found.problems]

        assert await fields({}) == ["value"]
        assert await fields({"value": []}) == ["value"]
        assert await fields({"value": "7"}) == []
        assert await fields({"value": Unknown.PRESENT}) == []


async def test_other_kinds_of_tools_are_left(mcp: FastMCP[Any], look: Look) -> None:
    class Own(Tool):
        async def run(self, arguments: dict[str, Any]) -> ToolResult:
            return ToolResult(content="ok")

    class Lenient(FunctionTool):
        async def run(self, arguments: dict[str, Any]) -> ToolResult:
            return ToolResult(content="ok")

    schema = {"type": "object", "properties": {"value": {"type": "integer"}}, "required": ["value"]}
    mcp.add_tool(Own(name="own", parameters=schema))
    mcp.add_tool(Lenient.from_function(number, name="lenient"))
    mcp.add_tool(Tool.from_tool(Tool.from_function(number), name="transformed", transform_fn=lambda **kwargs: "ok"))
    odd = Tool.from_function(number, name="odd")
    mcp.add_tool(odd)
    assert await look("odd", {}) is not None
    object.__setattr__(odd, "run", lambda arguments: ToolResult(content="ok"))
    for name in ("own", "lenient", "transformed", "odd"):
        assert await look(name, {}) is None, name


def code(value: object) -> Any:
    raise AssertionError("nothing runs")


def careful(a: Annotated[int, BeforeValidator(code)], b: Annotated[int, Field(default_factory=lambda: code(1))]) -> int:
    """A tool with code of its own in its parameters."""
    return a + b


class Changing(Middleware):
    """May change the arguments."""

    async def on_call_tool(self, context: Any, call_next: Any) -> Any:
        return await call_next(context)


class Listening(Middleware):
    """Sees listings only."""

    async def on_list_tools(self, context: Any, call_next: Any) -> Any:
        return await call_next(context)


class Everything(Middleware):
    """Sees every message."""

    async def on_message(self, context: Any, call_next: Any) -> Any:
        return await call_next(context)


def hooked() -> Middleware:
    middleware = Middleware()
    middleware.on_call_tool = Changing().on_call_tool  # type: ignore[method-assign]
    return middleware


@pytest.mark.parametrize(
    ("middleware", "certain"),
    [
        (Changing, False),
        (Everything, False),
        (hooked, False),
        (partial(ToolInjectionMiddleware, tools=[Tool.from_function(number, name="another")]), True),
        (Listening, True),
        (LoggingMiddleware, True),
        (TimingMiddleware, True),
        (ErrorHandlingMiddleware, True),
        (partial(RateLimitPlugin.init, rules=[{"tool": "*", "limit": 100, "window": "1m"}]), True),
    ],
)
async def test_middleware_that_may_change_the_arguments(
    mcp: FastMCP[Any], look: Look, middleware: Callable[[], Middleware], certain: bool
) -> None:
    mcp.tool(number)
    mcp.add_middleware(middleware())
    assert (await look("number", {}) is not None) is certain


async def test_an_extension_that_sees_calls(mcp: FastMCP[Any], look: Look) -> None:
    class Quiet(ServerExtension):
        identifier = "example.com/quiet"

    class Loud(ServerExtension):
        identifier = "example.com/loud"

        async def intercept_tool_call(self, params: Any, context: Any, call_next: Any) -> Any:
            return await call_next()

    mcp.tool(number)
    mcp.add_extension(Quiet())
    assert await look("number", {}) is not None
    mcp.add_extension(Loud())
    assert await look("number", {}) is None


async def test_a_server_of_another_class(caller_of: Any) -> None:
    class Own(FastMCP[Any]):
        async def call_tool(self, *args: Any, **kwargs: Any) -> Any:
            return await super().call_tool(*args, **kwargs)

    own = Own("own")
    own.tool(number)
    assert await caller_of(own).run(lambda broker: broker.preflight("number", {})) is None


async def test_a_strict_server(caller_of: Any) -> None:
    strict = FastMCP[Any]("strict", strict_input_validation=True)
    strict.tool(number)
    caller = caller_of(strict)
    assert await caller.run(lambda broker: broker.preflight("number", {"value": "5"})) is None
    assert await caller.run(lambda broker: broker.preflight("number", {"value": []})) is not None
    assert isinstance(await caller.call("number", {"value": "5"}), InvalidInputError)


async def test_code_of_a_tool_never_runs(mcp: FastMCP[Any], look: Look) -> None:
    mcp.tool(careful)
    assert await look("careful", {"a": {}, "b": 1}) is None
    found = await look("careful", {"b": "x"})
    assert [problem["field"] for problem in found.problems] == ["a"]


async def test_a_listing_that_fails(mcp: FastMCP[Any], caller: Any) -> None:
    broken: list[bool] = []

    class Broken(Middleware):
        async def on_list_tools(self, context: Any, call_next: Any) -> Any:
            if broken:
                raise RuntimeError("no list today")
            return await call_next(context)

    async def look(broker: Any) -> object:
        broken.append(True)
        try:
            return await broker.preflight("number", {})
        finally:
            broken.clear()

    mcp.add_middleware(Broken())
    assert (await caller.run(look)).code == "TOOL_EXECUTION_ERROR"


async def test_secrets_are_cleaned(mcp: FastMCP[Any], look: Look) -> None:
    mcp.tool(number)
    found = await look("number", {"value": 1, "/home/ann/secret.txt": 2})
    assert "/home/ann" not in f"{found.message}{found.problems}"
