"""`codecall:execute` as a background task of FastMCP: a worker runs the script, here or on another machine, and the
client polls.

FastMCP's tasks (`fastmcp-tasks`, on Docket) queue the call, hand on the token of whoever asked, and run the tool
outside of any request; `submitters.py` sees to it that the run is theirs all the same. A task whose worker dies goes
to another after the queue's redelivery timeout, under the same run id (`running.py`); one whose server is told to stop
goes back into the queue.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from typing import Any, Final, cast

from docket import Execution
from docket.dependencies import AdmissionBlocked, Runtime
from fastmcp.server.context import Context
from fastmcp.server.dependencies import CurrentContext, get_context
from fastmcp.tools.base import ToolResult
from fastmcp.utilities.tasks import TaskConfig
from fastmcp_tasks.context import get_task_context
from pydantic import Field

from codecall.calls.callers import counted_as
from codecall.envelopes import ExecutionResult
from codecall.errors import ExecutionAbortedError, WorkerPoolDisposedError
from codecall.meta_tools.execute import ExecuteTool
from codecall.meta_tools.submitters import release, submitter

POLL_S: Final = 2
"""Seconds after which clients are told to ask again at the latest."""

AGAIN_S: Final = 1
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
            raise AdmissionBlocked(execution, "the end of its server", retry_delay=timedelta(seconds=AGAIN_S))
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
            with counted_as(await submitter(context)):
                answer = await self._in_force().run(arguments)
            if not isinstance(answer, _Postponed):
                await release(context)
            return answer

    def _in_force(self) -> ExecuteTool:
        """This tool under the options of now: Docket knows the one with which the server started."""
        wiring = self._wiring.now()
        return self if wiring is self._wiring else TaskExecuteTool.create(wiring)

    def answered(self, result: ExecutionResult) -> ToolResult:
        """See `ExecuteTool.answered`. A run that was cut short by the end of its server has no answer yet."""
        stopped = isinstance(result.error, ExecutionAbortedError | WorkerPoolDisposedError)
        return _Postponed(content=[]) if stopped and get_context().is_background_task else super().answered(result)


def _called() -> bool:
    """Whether somebody calls the tool: a client, or a tool that runs."""
    try:
        get_context()
    except RuntimeError:
        return False
    return True
