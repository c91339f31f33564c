"""The records of a run's calls: for `resumeFrom`, and for runs that stop until the operator has allowed a call."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from codecall.calls.broker import Broker
from codecall.jsonio.decode import canonical_digest_async
from codecall.meta_tools.run_request import RunInfo, RunLimits
from codecall.options import PluginOptions, ResumeOptions
from codecall.resume.refusal import ResumeError
from codecall.resume.replay import RunMemory

if TYPE_CHECKING:
    from codecall.approvals.handover import EarlierAnswers
    from codecall.resume.stopped_runs import StoppableRun, StoppedRuns


async def create_memory(
    resume: ResumeOptions,
    options: PluginOptions,
    info: RunInfo,
    broker: Broker,
    limits: RunLimits,
    *,
    is_task: bool,
    stoppable: StoppableRun | None,
    earlier: EarlierAnswers | None,
) -> RunMemory:
    """Create the memory of a run's calls; it holds those of the run that is resumed, or that another instance began and
    left with `earlier`.

    Args:
        resume: How calls are recorded.
        options: The options of the plugin.
        info: The run.
        broker: Makes its calls.
        limits: Its times.
        is_task: Whether it is a background task, which starts again where its server was killed.
        stoppable: Resumes the run that the same request has made before, where there is one.
        earlier: What another instance has kept of the run.

    Raises:
        ResumeError: the run to resume cannot be.
    """
    lasts_s = limits.max_duration_ms / 1000
    if (asking := options.approvals) is not None:
        # Its time stands still while a person is asked.
        lasts_s += asking.max_questions * asking.wait_s
    memory = RunMemory(
        resume,
        run_id=info.run_id,
        owner=info.caller,
        lasts_s=lasts_s,
        admit=broker.admit,
        resumable=options.resume is not None,
    )
    if earlier is not None and earlier.run.run_id:
        await memory.resume(earlier.run.run_id, already_ended=True, expects=earlier.expects, at_least=earlier.run.calls)
        return memory
    # A task whose server was killed starts again under the same id; what it had resumed itself is in its own record.
    restarted = is_task and await memory.resume(info.run_id, already_ended=True)
    previous = info.request.resume_from
    if stoppable is not None:
        stoppable.memory, previous = memory, previous or stoppable.previous
    if previous is not None and not restarted:
        try:
            await memory.resume(previous)
        except ResumeError as refused:
            if info.request.resume_from is None:
                refused.hint = "Send it again later. Changed by as little as a comment, it runs from its beginning."
            raise
    return memory


async def begin_stoppable(stopped: StoppedRuns, info: RunInfo, resume: ResumeOptions | None) -> StoppableRun:
    """Begin a run that stops where a call waits for the operator.

    Args:
        stopped: The runs of the plugin that have stopped.
        info: The run.
        resume: The option `resume`.
    """
    request = info.request
    parts = [info.caller, request.tool, request.language, request.script, request.context, request.allowed_tools]
    digest = await canonical_digest_async(json.dumps(parts))
    return await stopped.begin(digest, info.caller, info.run_id, resume)
