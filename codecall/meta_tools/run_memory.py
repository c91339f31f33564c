"""The records of a run's calls: for `resumeFrom`, and for runs that stop until the operator has allowed a call."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from fastmcp.server.context import Context

from codecall.calls.broker import Broker
from codecall.jsonio.decode import canonical_digest_async
from codecall.meta_tools.requests import RunInfo, RunLimits
from codecall.options import PluginOptions
from codecall.resume.refusal import ResumeError

if TYPE_CHECKING:
    from codecall.approvals.gate.gate import CallGate
    from codecall.approvals.handover import EarlierAnswers
    from codecall.meta_tools.base import Runtime
    from codecall.resume.replay import RunMemory
    from codecall.resume.stopped import StoppableRun


async def create_memory(
    options: PluginOptions,
    context: Context,
    info: RunInfo,
    broker: Broker,
    limits: RunLimits,
    *,
    stoppable: StoppableRun | None,
    earlier: EarlierAnswers | None,
) -> RunMemory | None:
    """Create the memory of the run's calls; it holds those of the run that is resumed, or that another instance began
    and left with `earlier`."""
    resume = options.resume if stoppable is None else stoppable.options
    if resume is None or info.request.dry_run:
        return None
    from codecall.resume.replay import RunMemory  # few servers keep runs

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
    restarted = context.task_id is not None and await memory.resume(info.run_id, already_ended=True)
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


async def stoppable_run(runtime: Runtime, info: RunInfo, gate: CallGate | None) -> StoppableRun | None:
    """What records the run so that it can be gone on with when the operator has allowed a call; None where no call
    waits for them."""
    request = info.request
    if runtime.asking is None or gate is None or not gate.questions.leaves_to_operator or request.dry_run:
        return None
    parts = [info.caller, request.tool, request.language, request.script, request.context, request.allowed_tools]
    digest = await canonical_digest_async(json.dumps(parts))
    return await runtime.asking.stopped_runs().begin(digest, info.caller, info.run_id, runtime.options.resume)
