"""`codecall:execute` as a background task of FastMCP: a worker runs the script, here or on another machine.

For whom a task is run is recorded when it is asked for, in the store of FastMCP's queue, and read by its worker.

FastMCP hands the token and the headers of whoever asked on to the worker. What CodeCall needs beside them:

    the caller's key      for rate limits, and for owners of results and processes: a worker knows no peer's address
    visibility rules      a request finds them by its user, a task by its session: a tool that is hidden from the user
                          would be back in the task

A note is found by the session and the id of the request, both of which FastMCP hands on, too.

One private name of FastMCP is read here, since there is no public way: `_srctx` of a request, for its method.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from typing import Any, Final, cast

import msgspec
from docket import Docket, Execution
from docket.dependencies import AdmissionBlocked, Runtime
from fastmcp.exceptions import ToolError
from fastmcp.server.context import Context
from fastmcp.server.dependencies import CurrentContext, get_access_token, get_context
from fastmcp.server.transforms.visibility import get_visibility_rules, save_visibility_rules
from fastmcp.tools.base import ToolResult
from fastmcp.utilities.tasks import TASKS_EXTENSION_ID, TaskConfig
from fastmcp_tasks.context import get_task_context
from fastmcp_tasks.dependencies import CurrentDocket
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import Field

from codecall.envelopes import ExecutionResult
from codecall.errors import ExecutionAbortedError, WorkerPoolDisposedError
from codecall.identity import as_submitter, client_key
from codecall.meta_tools.execute import ExecuteTool

SUBMITTER_TTL_S: Final = 900
"""Seconds a note is kept once its task has run: as long as FastMCP keeps the result. Before, as long as FastMCP keeps
what it knows of the request, which is as much longer than Docket keeps a task; without that, no task is run."""

UNKNOWN_SUBMITTER: Final = "it is not known any more who asked for this task, so it was not run; ask for it again"
EXPIRED_CREDENTIALS: Final = (
    "the access token this task was asked for with has expired, so it was not run; ask again with a new one"
)


class _Note(msgspec.Struct, frozen=True):
    caller: str
    """What `client_key` said."""
    token: bool
    """Whether they had a token."""
    rules: list[dict[str, Any]]
    """Their visibility rules, as FastMCP keeps them."""


async def record_submitter() -> None:
    """Note for whom the request in this context may be about to queue a task; without such a request, nothing.

    Raises:
        ToolError: somebody else asked for a task with the same session and request id.
    """
    try:
        context = get_context()
    except RuntimeError:
        return
    if not _asks_for_task(context):
        return
    docket = await _queue()
    if docket is None:
        return
    note = _Note(client_key(context), get_access_token() is not None, await get_visibility_rules(context))
    text = msgspec.json.encode(note)
    key = _key(docket, context)
    seconds = int(docket.execution_ttl.total_seconds()) + SUBMITTER_TTL_S
    async with docket.redis() as redis:
        if await redis.set(key, text, ex=seconds, nx=True):
            return
        earlier = await redis.get(key)
        if earlier is not None and _read(earlier).caller != note.caller:
            raise ToolError("another client asked for a task with this session and request id; use another id")
        await redis.set(key, text, ex=seconds)


async def restore_submitter(context: Context) -> str:
    """The key of the caller for whom a worker runs the task of `context`; from now on it sees what they may see.

    Raises:
        ToolError: nobody knows any more, or their token has expired.
    """
    docket = await _queue()
    text: bytes | None = None
    if docket is not None:
        async with docket.redis() as redis:
            text = await redis.get(_key(docket, context))
    if text is None:
        raise ToolError(UNKNOWN_SUBMITTER)
    note = _read(text)
    token = get_access_token()
    if token is None and note.token:
        raise ToolError(EXPIRED_CREDENTIALS)
    if token is not None and client_key(context) != note.caller:
        raise ToolError(UNKNOWN_SUBMITTER)
    if note.rules:
        await save_visibility_rules(context, note.rules, components=set())
    return note.caller


async def expire_submitter(context: Context) -> None:
    """The task of `context` has run: its note need not be kept for long any more."""
    docket = await _queue()
    if docket is not None:
        async with docket.redis() as redis:
            await redis.expire(_key(docket, context), SUBMITTER_TTL_S)


def _asks_for_task(context: Context) -> bool:
    """Whether FastMCP may make a task of this request: with the extension, on the era that has them."""
    here = context.request_context
    # FastMCP looks the tool up for each poll (`tasks/get`), too, and has no other way to tell them apart.
    return (
        here is not None
        and here._srctx.method == "tools/call"  # pyright: ignore[reportPrivateUsage]
        and here.protocol_version in MODERN_PROTOCOL_VERSIONS
        and context.client_extension_settings(TASKS_EXTENSION_ID) is not None
    )


async def _queue() -> Docket | None:
    """FastMCP's queue; None where it has none, which it tells clients itself."""
    try:
        return await cast("AbstractAsyncContextManager[Docket]", CurrentDocket()).__aenter__()
    except RuntimeError:
        return None


def _key(docket: Docket, context: Context) -> str:
    """Where the note is.

    Raises:
        ToolError: the worker was not told which request asked for the task.
    """
    try:
        named = f"{context.session_id}\x00{context.origin_request_id}"
    except RuntimeError:  # FastMCP found nothing of what it had kept of the request
        raise ToolError(UNKNOWN_SUBMITTER) from None
    digest = hashlib.blake2b(named.encode("utf-8", "replace"), digest_size=16).hexdigest()
    return docket.key(f"codecall:submitter:{digest}")


def _read(text: bytes) -> _Note:
    return msgspec.json.decode(text, type=_Note)


POLL_S: Final = 2
"""Seconds after which clients are told to ask again at the latest."""

RETRY_DELAY_S: Final = 1
"""Seconds after which a task of a server that stops may start elsewhere."""


class _Postponed(ToolResult):
    """Stands for the result of a run that was cut short by the end of its server. Nobody gets it."""


class _Elsewhere(Runtime["_Elsewhere"]):
    """Docket runs the tool through this: a run that was cut short goes back into the queue."""

    async def __aenter__(self) -> _Elsewhere:
        return self

    async def run(
        self,
        execution: Execution,
        function: Callable[..., Awaitable[Any]],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """See Docket's `Runtime`.

        Raises:
            AdmissionBlocked: which has Docket put the task back.
        """
        result = await function(*args, **kwargs)
        if isinstance(result, _Postponed):
            raise AdmissionBlocked(execution, "the end of its server", retry_delay=timedelta(seconds=RETRY_DELAY_S))
        return result


class TaskExecuteTool(ExecuteTool):
    """Runs scripts; as background tasks for clients that ask for it."""

    task_config: TaskConfig = Field(default_factory=lambda: TaskConfig("optional", timedelta(seconds=POLL_S)))

    async def run(
        self,
        arguments: dict[str, Any],
        elsewhere: _Elsewhere = _Elsewhere(),  # noqa: ARG002, B008 - Docket looks for it here
    ) -> ToolResult:
        """FastMCP's entry, and Docket's, which fills in `elsewhere`; see `MetaTool.run`.

        Raises:
            ToolError: also when it is not known for whom a task is to be run, or their token has expired.
        """
        if _called() or get_task_context() is None:
            return await super().run(arguments)
        async with cast("AbstractAsyncContextManager[Context]", CurrentContext()) as context:
            with as_submitter(await restore_submitter(context)):
                answer = await self._in_force().run(arguments)
            if not isinstance(answer, _Postponed):
                await expire_submitter(context)
            return answer

    def _in_force(self) -> ExecuteTool:
        """This tool under the options of now: Docket knows the one with which the server started."""
        runtime = self._runtime.current()
        return self if runtime is self._runtime else TaskExecuteTool.create(runtime)

    def envelope_result(self, result: ExecutionResult) -> ToolResult:
        """See `ExecuteTool.answered`. A run that was cut short by the end of its server has no answer yet."""
        stopped = isinstance(result.error, ExecutionAbortedError | WorkerPoolDisposedError)
        return (
            _Postponed(content=[]) if stopped and get_context().is_background_task else super().envelope_result(result)
        )


def _called() -> bool:
    """Whether somebody calls the tool: a client, or a tool that runs."""
    try:
        get_context()
    except RuntimeError:
        return False
    return True
