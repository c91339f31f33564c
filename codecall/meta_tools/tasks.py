"""`codecall:execute` as a background task of FastMCP: a worker runs the script, here or on another machine.

The request that submits a task records its submitter in the store of FastMCP's queue, and the worker reads the record.

FastMCP hands the submitter's token and headers on to the worker. CodeCall needs beside them:

    the caller's key      for rate limits, and for owners of results and processes: a worker knows no peer's address
    visibility rules      a request finds them by its user, a task by its session: a tool that is hidden from the user
                          would be back in the task

The key of a record is made of the session and the id of the request, both of which FastMCP hands on, too.

This module reads one private name of FastMCP, since there is no public way: `_srctx` of a request, for its method.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from typing import Any, Final, cast

import msgspec
from docket import Docket, Execution
from docket.dependencies import AdmissionBlocked, Runtime
from fastmcp.dependencies import Shared
from fastmcp.exceptions import ToolError
from fastmcp.server.context import Context
from fastmcp.server.dependencies import CurrentContext, get_access_token, get_context, get_server
from fastmcp.server.transforms.visibility import get_visibility_rules, save_visibility_rules
from fastmcp.tools.base import ToolResult
from fastmcp.utilities.tasks import TASKS_EXTENSION_ID, TaskConfig
from fastmcp_tasks.context import get_task_context
from fastmcp_tasks.dependencies import CurrentDocket
from mcp_types import ContentBlock
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import Field
from uncalled_for import SharedContext

from codecall.catalog.apps import FastMCPServer
from codecall.envelopes import ExecutionResult
from codecall.errors import ExecutionAbortedError, WorkerPoolDisposedError
from codecall.identity import as_submitter, client_key
from codecall.meta_tools.execute import ExecuteTool

POLL_S: Final = 2
"""Longest time between two polls of a client, in seconds, as the server advises it."""

RETRY_DELAY_S: Final = 1
"""Seconds after which a task of a server that stops may start on another server."""

SUBMITTER_TTL_S: Final = 900
"""Seconds for which the record of a submitter is kept once its task has run: as long as FastMCP keeps the result.
Before, as long as FastMCP keeps what it knows of the request, which is as much longer than Docket keeps a task; without
that, no task is run."""

UNKNOWN_SUBMITTER: Final = "it is not known any more who asked for this task, so it was not run; ask for it again"
EXPIRED_CREDENTIALS: Final = (
    "the access token this task was asked for with has expired, so it was not run; ask again with a new one"
)


class _Postponed(ToolResult):
    """Stands for the result of a run that the end of its server cut short. No client receives it."""


class _RequeueRuntime(Runtime["_RequeueRuntime"]):
    """Docket runs the tool through this: a run that the end of its server cut short goes back into the queue."""

    async def __aenter__(self) -> _RequeueRuntime:
        return self

    async def run(
        self,
        execution: Execution,
        function: Callable[..., Awaitable[Any]],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """Run the tool; see Docket's `Runtime`.

        Raises:
            AdmissionBlocked: the run was cut short; Docket puts the task back into the queue.
        """
        result = await function(*args, **kwargs)
        if isinstance(result, _Postponed):
            raise AdmissionBlocked(execution, "the end of its server", retry_delay=timedelta(seconds=RETRY_DELAY_S))
        return result


class TaskExecuteTool(ExecuteTool):
    """Runs scripts, as background tasks where a client requests one."""

    task_config: TaskConfig = Field(default_factory=lambda: TaskConfig("optional", timedelta(seconds=POLL_S)))

    async def run(
        self,
        arguments: dict[str, Any],
        requeue: _RequeueRuntime = _RequeueRuntime(),  # noqa: ARG002, B008 - Docket looks for it here
    ) -> ToolResult:
        """Answer a call of FastMCP, or of Docket, which fills in `requeue`; see `MetaTool.run`.

        Raises:
            ToolError: also when the submitter of a task is unknown, or their token has expired.
        """
        if _in_request() or get_task_context() is None:
            return await super().run(arguments)
        async with cast("AbstractAsyncContextManager[Context]", CurrentContext()) as context:
            with as_submitter(await restore_submitter(context)):
                result = await self._current_tool().run(arguments)
            if not isinstance(result, _Postponed):
                await expire_submitter(context)
            return result

    def _current_tool(self) -> ExecuteTool:
        """This tool under the current options: Docket knows the one with which the server started."""
        runtime = self._runtime.current()
        if runtime.enclaves is self._runtime.enclaves:  # a reload has made others
            return self
        return TaskExecuteTool.create(runtime.with_separator(self._runtime.separator))

    def envelope_result(self, result: ExecutionResult, blocks: Sequence[ContentBlock]) -> ToolResult:
        """See `ExecuteTool.envelope_result`. A run that the end of its server cut short has no answer yet."""
        stopped = isinstance(result.error, ExecutionAbortedError | WorkerPoolDisposedError)
        if stopped and get_context().is_background_task:
            return _Postponed(content=[])
        return super().envelope_result(result, blocks)


def _in_request() -> bool:
    """Whether a client or a running tool calls the tool, and not Docket."""
    try:
        get_context()
    except RuntimeError:
        return False
    return True


class _Submitter(msgspec.Struct, frozen=True):
    caller: str
    """Key of the caller, from `client_key`."""
    token: bool
    """Whether the request had a token."""
    rules: list[dict[str, Any]]
    """The caller's visibility rules, as FastMCP stores them."""


async def record_submitter() -> None:
    """Record the caller of the request in this context, if it may be about to queue a task.

    Raises:
        ToolError: another caller requested a task with the same session and request id.
    """
    try:
        context = get_context()
    except RuntimeError:
        return
    if not _may_queue_task(context):
        return
    docket = await _queue()
    if docket is None:
        return
    submitter = _Submitter(client_key(context), get_access_token() is not None, await get_visibility_rules(context))
    text = msgspec.json.encode(submitter)
    key = _key(docket, context)
    seconds = int(docket.execution_ttl.total_seconds()) + SUBMITTER_TTL_S
    async with docket.redis() as redis:
        if await redis.set(key, text, ex=seconds, nx=True):
            return
        earlier = await redis.get(key)
        if earlier is not None and _decode(earlier).caller != submitter.caller:
            raise ToolError("another client asked for a task with this session and request id; use another id")
        await redis.set(key, text, ex=seconds)


async def restore_submitter(context: Context) -> str:
    """Return the key of the caller for whom a worker runs the task of `context`; the task then sees what they may see.

    Raises:
        ToolError: the submitter is not known any more, or their token has expired.
    """
    docket = await _queue()
    text: bytes | None = None
    if docket is not None:
        async with docket.redis() as redis:
            text = await redis.get(_key(docket, context))
    if text is None:
        raise ToolError(UNKNOWN_SUBMITTER)
    submitter = _decode(text)
    token = get_access_token()
    if token is None and submitter.token:
        raise ToolError(EXPIRED_CREDENTIALS)
    if token is not None and client_key(context) != submitter.caller:
        raise ToolError(UNKNOWN_SUBMITTER)
    if submitter.rules:
        await save_visibility_rules(context, submitter.rules, components=set())
    return submitter.caller


async def expire_submitter(context: Context) -> None:
    """Shorten the life of the submitter's record, since the task of `context` has run."""
    docket = await _queue()
    if docket is not None:
        async with docket.redis() as redis:
            await redis.expire(_key(docket, context), SUBMITTER_TTL_S)


def _may_queue_task(context: Context) -> bool:
    """Whether FastMCP may make a task of this request: it needs the extension and a protocol that has tasks."""
    request = context.request_context
    # FastMCP looks the tool up for each poll (`tasks/get`), too, and has no other way to tell them apart.
    return (
        request is not None
        and request._srctx.method == "tools/call"  # pyright: ignore[reportPrivateUsage]
        and request.protocol_version in MODERN_PROTOCOL_VERSIONS
        and context.client_extension_settings(TASKS_EXTENSION_ID) is not None
    )


async def remember_root() -> None:
    """Keep for the requests of the lifespan that begins which server it is of, the one that has the queue: a request to
    a server that is mounted on it knows the mounted one alone."""
    if SharedContext.resolved.get(None) is not None:
        await _root()


async def _root() -> FastMCPServer:
    """The server whose lifespan this context belongs to, or that of the request.

    Raises:
        RuntimeError: this is neither in a lifespan nor in a request.
    """
    return await cast("AbstractAsyncContextManager[FastMCPServer]", Shared(_current_server)).__aenter__()


async def _current_server() -> FastMCPServer:
    return cast("FastMCPServer", get_server())


async def _queue() -> Docket | None:
    """FastMCP's queue; None where it has none, of which FastMCP itself informs clients."""
    try:
        return await cast("AbstractAsyncContextManager[Docket]", CurrentDocket()).__aenter__()
    except RuntimeError:
        return None if SharedContext.resolved.get(None) is None else (await _root()).docket


def _key(docket: Docket, context: Context) -> str:
    """The key of the submitter's record.

    Raises:
        ToolError: FastMCP does not know any more which request submitted the task.
    """
    try:
        request_name = f"{context.session_id}\x00{context.origin_request_id}"
    except RuntimeError:  # FastMCP found nothing of what it had kept of the request
        raise ToolError(UNKNOWN_SUBMITTER) from None
    digest = hashlib.blake2b(request_name.encode("utf-8", "replace"), digest_size=16).hexdigest()
    return docket.key(f"codecall:submitter:{digest}")


def _decode(text: bytes) -> _Submitter:
    return msgspec.json.decode(text, type=_Submitter)
