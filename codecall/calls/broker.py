"""The only code that calls a tool: access -> rate -> FastMCP's `call_tool` -> unwrap.

Every call re-enters FastMCP with its middleware and authorization, so a script can do nothing its caller could not do
one call at a time. Rate rules are FastMCP middleware (`calls/rates.py`), so they apply here too. Every outcome that is
not a success is raised as a `ToolCallError` under its own code; none ever turns into an empty value.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Final

import anyio
from fastmcp.tools.base import InputRequiredToolResult, ToolResult
from fastmcp.utilities.versions import VersionSpec
from mcp import MCPError

from codecall.calls.access import AccessPolicy, View
from codecall.calls.failures import Failures
from codecall.calls.inputs import parameter_names
from codecall.calls.names import shown
from codecall.calls.unexpected import log_unexpected
from codecall.calls.unwrap import ValueTooLarge, is_wrapped, looks_wrapped, to_json
from codecall.catalog.entries import CatalogEntry, JsonObject
from codecall.errors import CodeCallError, ToolCallError, ToolTimeoutError
from codecall.options import SanitizationOptions
from codecall.sanitizing import MAX_QUICK_CHARS, Turns

if TYPE_CHECKING:
    from fastmcp import Context

logger = logging.getLogger("codecall")

STOP_GRACE_S: Final = 0.25
"""Seconds a cancelled tool has for its clean-up before the broker goes on without it."""

MAX_NESTING: Final = 3
"""Calls within calls: a tool that a script calls may itself have a script run, and so on. Each level holds a worker, so
a tool that ends up at itself would take them all."""

_nesting: Final = contextvars.ContextVar("codecall_nesting", default=0)
"""How many calls of brokers this task is inside of. Tasks and threads that a tool starts take it along."""

_NARROWING: Final = (
    "limit",
    "page",
    "per_page",
    "page_size",
    "pagesize",
    "fields",
    "columns",
    "cursor",
    "offset",
    "top",
    "max",
)
"""Parameter names by which tools let callers ask for less."""

_left_behind: set[asyncio.Task[ToolResult]] = set()
"""Stopped calls that are still ending; kept here so that they are not collected half-way."""


class Broker:
    """Performs the tool calls of one request, for `codecall:execute` and `codecall:invoke` alike.

    Args:
        context: FastMCP's context of the request.
        view: what this caller can see of the catalogue.
        allowed_tools: names or globs that may be called; None allows every tool of the view.
        tool_call_timeout_ms: milliseconds each call may take.
        max_value_bytes: bytes one tool's value may have as JSON.
        sanitization: what error messages lose.
    """

    def __init__(
        self,
        context: Context,
        view: View,
        *,
        allowed_tools: Sequence[str] | None,
        tool_call_timeout_ms: int,
        max_value_bytes: int,
        sanitization: SanitizationOptions,
    ) -> None:
        self._server = context.fastmcp
        self._access = AccessPolicy(view, allowed_tools)
        self._timeout_ms = tool_call_timeout_ms
        self._max_value_bytes = max_value_bytes
        self._failures = Failures(sanitization)
        self._turns = Turns()
        self._wraps: dict[str, bool] = {}

    async def prepare(self) -> None:
        """Read ahead what this caller can see, which the first call asks for."""
        await self._access.prepare()

    async def call(self, name: str, arguments: dict[str, object]) -> str:
        """Perform one call and give the tool's value as JSON text; `null` for a tool that returns nothing.

        Raises:
            ToolCallError: every outcome that is not a success, under its own code.
            SelfReferenceError: `name` is a meta-tool.
        """
        try:
            return await self._call(name, arguments)
        except CodeCallError:
            raise
        except Exception as failure:
            raise await self._lookup_failed(failure, name) from None

    async def describe(self, name: str) -> JsonObject | None:
        """What `getTool(name)` sees: name, description, inputSchema, outputSchema; None when it may not be called.

        Raises:
            ToolCallError: the server could not be asked.
        """
        try:
            return await self._access.describe(name)
        except CodeCallError:
            raise
        except Exception as failure:
            raise await self._lookup_failed(failure, name) from None

    async def _call(self, name: str, arguments: dict[str, object]) -> str:
        entry = await self._access.admit(name)
        if _nesting.get() >= MAX_NESTING:
            raise ToolCallError(
                f"Tool '{entry.name}' was not called: scripts and tools call one another more than {MAX_NESTING} deep",
                tool_name=entry.name,
                hint="A tool that this script calls runs scripts itself; call what they do directly.",
            )
        result = await self._result(entry, arguments)
        wrapped = is_wrapped(result) or (looks_wrapped(result) and await self._declares_wrapper(entry.name))
        try:
            return await to_json(result, wrapped=wrapped, max_bytes=self._max_value_bytes)
        except ValueTooLarge as failure:
            raise self._too_large(entry, failure.size) from None
        except ValueError:
            raise ToolCallError(
                f"Tool '{entry.name}' returned a value that cannot be sent as JSON",
                tool_name=entry.name,
                hint="It is nested too deeply, or holds what JSON has no form for; ask the tool for less.",
            ) from None

    async def _lookup_failed(self, failure: Exception, name: str) -> ToolCallError:
        """Middleware, providers and transforms of the server may raise anything while they are asked for tools."""
        log_unexpected(f"looking up tool {shown(name)!r}", failure)
        return await self._turns.of(self._failures.of_lookup, failure, shown(name))

    async def _result(self, entry: CatalogEntry, arguments: dict[str, object]) -> ToolResult:
        """FastMCP's result when it is a success."""
        try:
            result = await self._perform(entry, arguments)
        except CodeCallError:
            raise
        except Exception as failure:
            if isinstance(failure, ToolExit):
                log_unexpected(f"calling tool {entry.name!r}", failure)
                raise ToolCallError(f"Tool '{entry.name}' ended with {failure.kind}", tool_name=entry.name) from None
            error = await self._named(failure, entry)
            if error is None:
                raise await self._access.not_found(entry.name) from None
            log_unexpected(f"calling tool {entry.name!r}", failure)
            raise error from None
        if _is_plain_success(result):
            return result
        refused = await self._turns.of(self._failures.of_result, result, entry, arguments)
        if refused is not None:
            raise refused
        return result

    async def _named(self, failure: Exception, entry: CatalogEntry) -> ToolCallError | None:
        """The error for what a call raised. Naming one takes long when a hostile tool has seen to it."""
        if isinstance(failure, MCPError) or len(str(failure)) > MAX_QUICK_CHARS:
            return await self._turns.of(self._failures.of_exception, failure, entry)
        return self._failures.of_exception(failure, entry)

    async def _perform(self, entry: CatalogEntry, arguments: dict[str, object]) -> ToolResult:
        """FastMCP's answer, within the time limit.

        The call runs as a task of its own, because a synchronous tool runs in a thread that no cancel scope of anyio
        can interrupt: without the task, neither the time limit nor a cancelled request would end the wait for it.
        """
        # The version that was shown is the one that is called: left open, FastMCP looks for another where the highest
        # is disabled, and finds the listing in which this plugin hides the tools.
        version = VersionSpec(eq=entry.version) if entry.version else None
        within = contextvars.copy_context()
        within.run(_nesting.set, _nesting.get() + 1)
        call = self._server.call_tool(entry.name, arguments, version=version)
        task = asyncio.create_task(_contained(call), context=within)
        try:
            done, _ = await asyncio.wait({task}, timeout=self._timeout_ms / 1000)
        except asyncio.CancelledError:
            await _stop(task, entry.name)
            raise
        if not done:
            await _stop(task, entry.name)
            raise ToolTimeoutError(
                f"Tool '{entry.name}' did not answer within {self._timeout_ms}ms",
                tool_name=entry.name,
                hint="It may still have taken effect. Ask it for less work per call, or make fewer calls at once.",
            )
        if task.cancelled():
            raise ToolCallError(f"Tool '{entry.name}' was cancelled before it answered", tool_name=entry.name)
        return task.result()

    async def _declares_wrapper(self, name: str) -> bool:
        """Whether the tool's schema says that its results are wrapped, as servers do whose results carry no mark."""
        if name not in self._wraps:
            tool = await self._server.get_tool(name)
            schema = tool.output_schema if tool is not None else None
            self._wraps[name] = bool(schema and schema.get("x-fastmcp-wrap-result"))
        return self._wraps[name]

    def _too_large(self, entry: CatalogEntry, size: int) -> ToolCallError:
        narrowing = [name for name in parameter_names(entry.input_schema) if name.lower() in _NARROWING]
        advice = f" with {', '.join(narrowing)}" if narrowing else ": fewer rows, fewer fields, or a narrower question"
        return ToolCallError(
            f"Tool '{entry.name}' returned {size} bytes; one value may have {self._max_value_bytes}",
            tool_name=entry.name,
            code="MESSAGE_TOO_LARGE",
            details={"bytes": size, "maxBytes": self._max_value_bytes},
            hint=f"Ask for less{advice}.",
        )


class ToolExit(Exception):  # noqa: N818 - named for what the tool did
    """A tool raised what is meant to end the process, or is no `Exception`; `kind` says which."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


async def _contained(call: Coroutine[Any, Any, ToolResult]) -> ToolResult:
    """The answer to `call`. What a tool raises to leave the program (`sys.exit`, as of a command-line parser) would
    leave the event loop through this task, and so end the server for everybody.

    Raises:
        ToolExit: instead of that. Not instead of KeyboardInterrupt, which is an operator's wish.
    """
    try:
        return await call
    except (Exception, asyncio.CancelledError, KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as failure:
        raise ToolExit(type(failure).__name__).with_traceback(failure.__traceback__) from failure


def _is_plain_success(returned: object) -> bool:
    """Whether it is an ordinary result, as nearly all are. Middleware may make anything of one."""
    if not isinstance(returned, ToolResult) or isinstance(returned, InputRequiredToolResult):
        return False
    return not returned.is_error


async def _stop(task: asyncio.Task[ToolResult], name: str) -> None:
    """Cancel `task` and wait briefly for its clean-up; a tool that does not let go is left behind, and logged."""
    task.cancel()
    _left_behind.add(task)
    task.add_done_callback(_forget)
    with anyio.CancelScope(shield=True):
        await asyncio.wait({task}, timeout=STOP_GRACE_S)
    if not task.done():
        logger.warning("tool %r ignores its cancellation; its result will be dropped", name)


def _forget(task: asyncio.Task[ToolResult]) -> None:
    _left_behind.discard(task)
    if not task.cancelled():
        task.exception()  # retrieved, so that asyncio does not report what nobody waits for any more
