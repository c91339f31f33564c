"""Runs one workflow: each step as soon as those it depends on have ended, and what follows when one fails."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Final, Literal, NamedTuple, TypeVar

import anyio
from mcp_types import ElicitResult

from codecall.composite.arguments import find_problems, render_arguments
from codecall.composite.budgets import TemplateBudget, limit_keys
from codecall.composite.calls import WorkflowCalls
from codecall.composite.definition import (
    MAX_PARALLEL_STEPS,
    MISSING,
    AnyStep,
    ElicitationStep,
    ForEachStep,
    JsonObject,
    ToolStep,
    Workflow,
)
from codecall.composite.elicitation import StepQuestions
from codecall.composite.failures import WorkflowError, delay_s, ends_run, may_pass
from codecall.composite.outputs import StepOutput, build_output, decode_output, read_collection
from codecall.composite.templates.rendering import may_be_slow, render
from codecall.concurrency import release_frames
from codecall.envelopes import wait_for_calls
from codecall.errors import (
    ApprovalRequiredError,
    CodeCallError,
    ScriptTimeoutError,
    ToolCallError,
    ToolTimeoutError,
)
from codecall.jsonio.decode import exceeds_chars
from codecall.option_base import go_duration
from codecall.sandbox.clock import RunClock

T = TypeVar("T")

Status = Literal["completed", "failed", "skipped"]

_LEFT: Final = "left_s"
"""The note of the seconds that a run has left."""

LARGE_CHARS: Final = 32 * 1024
"""Characters of arguments or outputs above which templates are rendered off the event loop."""


class StepOutcome(NamedTuple):
    """How a step ended."""

    status: Status
    value: object = MISSING
    """Its output as JSON data; `MISSING` where it has none."""
    error: CodeCallError | None = None
    json_text: str | None = None
    """The JSON of `value`, where it is at hand."""
    skips_rest: bool = False
    """Whether no further step begins."""


class WorkflowRun:
    """One run of a workflow.

    Args:
        workflow: What runs.
        params: Its arguments.
        began: What templates read of the run itself: its `id` and its `start`.
        calls: Make the calls of its steps.
        questions: Asks the questions of its steps.
        clock: Its limits of time stand still while a person is asked.
        notes: Go with it to whatever instance it goes on on.
    """

    def __init__(
        self,
        workflow: Workflow,
        params: JsonObject,
        began: Mapping[str, str],
        calls: WorkflowCalls,
        *,
        questions: StepQuestions,
        clock: RunClock,
        notes: dict[str, str],
    ) -> None:
        self.warnings: list[str] = []
        self.failed_step = ""
        """Id of the step that ended the run."""
        self._workflow = workflow
        self._calls = calls
        self._questions = questions
        self._clock = clock
        self._notes = notes
        clock.most_in_flight = math.inf
        self._outcomes: dict[str, StepOutcome] = {}
        self._skips_rest = False
        self._scope = anyio.CancelScope()
        self._abort_error: CodeCallError | None = None
        self._budget = TemplateBudget(held=calls.held)
        self._steps_data: dict[str, dict[str, object]] = {}
        self._data: dict[str, object] = {
            "params": params,
            "steps": self._steps_data,
            "workflow": {**began, "name": workflow.name},
        }
        self._has_large = exceeds_chars(params, LARGE_CHARS)
        """Whether its arguments, or a collection, are large."""
        self._ended_early: dict[str, str] = {}
        self.iterations: dict[str, JsonObject] = {}
        """By the id of each `forEach` step that has ended: how many iterations there are, completed and failed."""
        """What became of the steps that the end of the run has ended."""

    @property
    def statuses(self) -> dict[str, str]:
        """What became of each step so far."""
        return {step.id: self._status(step.id) for step in self._workflow.steps}

    def _status(self, step_id: str) -> str:
        outcome = self._outcomes.get(step_id)
        return outcome.status if outcome is not None else self._ended_early.get(step_id, "not_run")

    async def execute(self) -> object:
        """Run it to its end, and give its result as JSON data.

        Raises:
            CodeCallError: a step failed, or the workflow.
        """
        limit_s = self._workflow.timeout_s
        left_s = float(self._notes.get(_LEFT, limit_s))
        try:
            with self._scope:
                async with self._limit(left_s) as limit:
                    self._clock.on_wait = partial(self._note_time, limit)
                    if self._has_large:
                        self._data["params"] = await limit_keys(self._data["params"])
                    await self._calls.look_up(self._workflow.tools())
                    await self._drive()
            if self._abort_error is not None and self._scope.cancelled_caught:
                raise self._abort_error
        except TimeoutError:
            raise ScriptTimeoutError(
                f"The workflow '{self._workflow.name}' did not end within {go_duration(limit_s)}",
                hint="Calls that were under way may have taken effect. Its `timeout` says how long it may take.",
            ) from None
        finally:
            self._clock.on_wait = None  # it refers to the run, and the run to its clock
        if self._workflow.output is None:
            last = self._outcomes[self._workflow.steps[-1].id]
            return None if last.value is MISSING else last.value
        build = partial(build_output, self._workflow.output, self._data, self._budget)
        value, warnings = await self._off_loop(build, self._workflow.output.templates())
        self.warnings += warnings
        return value

    def _note_time(self, limit: asyncio.Timeout, change: int) -> None:
        """The run begins to wait for a person, with 1, and may go on elsewhere, in the time that it has left."""
        if change > 0:
            self._notes[_LEFT] = str(self._clock.left_s(limit))

    def abort(self, error: CodeCallError) -> None:
        """End it with `error`, whatever it waits for."""
        self._abort_error = error
        self._scope.cancel()

    @asynccontextmanager
    async def _limit(self, seconds: float) -> AsyncGenerator[asyncio.Timeout]:
        """A limit of time that stands still while a person is asked."""
        async with asyncio.timeout(seconds) as limit:
            self._clock.attach(limit)
            try:
                yield limit
            finally:
                self._clock.detach(limit)

    async def _drive(self) -> None:
        waits_for = {step.id: {*step.depends_on} for step in self._workflow.steps}
        followers: dict[str, list[AnyStep]] = {}
        for step in self._workflow.steps:
            for name in waits_for[step.id]:
                followers.setdefault(name, []).append(step)
        ready = deque(step for step in self._workflow.steps if not waits_for[step.id])
        running: dict[asyncio.Task[StepOutcome], AnyStep] = {}
        try:
            while ready or running:
                while ready and len(running) < MAX_PARALLEL_STEPS:
                    step = ready.popleft()
                    running[asyncio.create_task(self._perform(step))] = step
                    self._clock.count_calls(1)
                await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                failures: dict[str, BaseException] = {}
                for task in [task for task in running if task.done()]:
                    step = running.pop(task)
                    self._clock.count_calls(-1)
                    if (failure := task.exception()) is not None:
                        failures[step.id] = failure
                        continue
                    outcome = task.result()
                    self._outcomes[step.id] = outcome
                    self._skips_rest = self._skips_rest or outcome.skips_rest
                    await self._publish(step.id, outcome)
                    for follower in followers.get(step.id, ()):
                        waits_for[follower.id].discard(step.id)
                        if not waits_for[follower.id]:
                            ready.append(follower)
                if failures:
                    raise await self._first_failure(failures)
        finally:
            for task, step in running.items():
                task.cancel()
                self._ended_early.setdefault(step.id, "cancelled")
            if running:
                await asyncio.gather(*running, return_exceptions=True)

    async def _first_failure(self, failures: Mapping[str, BaseException]) -> BaseException:
        """Of the failures of steps side by side, by their ids, the one that ends the run: the first, which names the
        calls of the others that a person has to allow, too."""
        if any(isinstance(failure, ApprovalRequiredError) for failure in failures.values()):
            await wait_for_calls(self._calls.records)
        return failures.get(self.failed_step) or next(iter(failures.values()))

    async def _publish(self, step_id: str, outcome: StepOutcome) -> None:
        """Let templates read the outcome of a step."""
        entry: dict[str, object] = {"status": outcome.status}
        if outcome.value is not MISSING:
            text = outcome.json_text
            value = await limit_keys(outcome.value, self._calls.held.chars if text is None else len(text))
            entry["output"] = StepOutput(value, text)
            if text is not None and not isinstance(value, str):
                self._budget.add_decoded(text, value)
        if outcome.error is not None:
            entry["error"] = outcome.error.message
        self._steps_data[step_id] = entry

    async def _perform(self, step: AnyStep) -> StepOutcome:
        """Run one step.

        Raises:
            CodeCallError: it failed, and so does the run.
        """
        if self._skips_rest:
            return StepOutcome("skipped", step.default_results)
        try:
            if step.condition is not None and not await self._condition(step.condition):
                return StepOutcome("skipped", step.default_results)
            match step:
                case ToolStep():
                    return await self._tool_step(step)
                case ForEachStep():
                    return await self._for_each_step(step)
                case ElicitationStep():
                    return await self._elicitation_step(step)
        except CodeCallError as error:
            if self._workflow.continues_after(step) and not ends_run(error):
                release_frames(error)
                return StepOutcome("failed", step.default_results, error)
            self.failed_step = self.failed_step or step.id
            self._ended_early[step.id] = "failed"
            raise

    async def _condition(self, text: str) -> bool:
        value = (await self._render(text)).strip()
        if value not in ("true", "false"):
            raise WorkflowError(
                f"The condition gave {value[:60]!r}; true or false is needed",
                hint='Compare in the template, as in {{eq .params.mode "full"}}.',
            )
        return value == "true"

    async def _tool_step(self, step: ToolStep) -> StepOutcome:
        schema = await self._calls.input_schema(step.tool)
        text = ""
        render_all = partial(render_arguments, step.arguments, schema, self._data, self._budget)
        arguments = await self._off_loop(render_all, step.templates())
        attempts = 1 + step.on_error.retry_count
        for attempt in range(1, attempts + 1):
            try:
                text = await self._call(step, arguments)
                break
            except ToolCallError as error:
                if attempt == attempts or not may_pass(error):
                    raise
                await asyncio.sleep(delay_s(step.on_error.retry_delay_s, attempt, error))
        return StepOutcome("completed", await decode_output(text), json_text=text)

    async def _call(self, step: ToolStep, arguments: JsonObject) -> str:
        try:
            async with self._limit(step.timeout_s):
                return await self._calls.call(step.tool, arguments)
        except TimeoutError:
            raise ToolTimeoutError(
                f"Tool '{step.tool}' did not answer within {go_duration(step.timeout_s)}",
                tool_name=step.tool,
                hint="It may still have taken effect. The `timeout` of the step says how long it may take.",
            ) from None

    async def _for_each_step(self, step: ForEachStep) -> StepOutcome:
        items = await self._collection(step)
        schema = await self._calls.input_schema(step.step.tool)
        iterations: list[JsonObject] = [
            {"index": index, "item": item, "status": "not_run"} for index, item in enumerate(items)
        ]
        queue = iter(iterations)
        is_ending = False
        working = max(1, min(step.max_parallel, len(iterations)))

        async def work() -> None:
            nonlocal working, is_ending
            for entry in queue:
                if is_ending:
                    break
                data = {**self._data, "forEach": {step.item_var: entry["item"], "index": entry["index"]}}
                render_all = partial(render_arguments, step.step.arguments, schema, data, self._budget)
                try:
                    text = await self._call(step.step, await self._off_loop(render_all, step.step.templates()))
                    output = await decode_output(text)
                except CodeCallError as error:
                    entry.update(status="failed", error=error.message)
                    if step.on_error.action != "continue" or ends_run(error):
                        is_ending = True
                        if isinstance(error, ApprovalRequiredError):
                            await wait_for_calls(self._calls.records)
                        raise
                else:
                    entry.update(status="completed", output=output)
            if working > 1:  # the step itself counts as the last one
                working -= 1
                self._clock.count_calls(-1)

        self._clock.count_calls(working - 1)
        group = asyncio.TaskGroup()
        try:
            async with self._limit(step.timeout_s), group:
                for _ in range(working):
                    group.create_task(work())
        except TimeoutError:
            raise WorkflowError(
                f"The iterations did not end within {go_duration(step.timeout_s)}", code="TIMEOUT"
            ) from None
        except BaseExceptionGroup as failures:
            raise failures.with_traceback(None).exceptions[0] from None
        finally:
            statuses = [str(entry["status"]) for entry in iterations]
            counts = {status: statuses.count(status) for status in ("completed", "failed")}
            self.iterations[step.id] = {"count": len(iterations), **counts}
            # What it raised, and the task of this step, keep the frames of their tracebacks, and those keep the run.
            del group
            self._clock.count_calls(1 - working)
        return StepOutcome("completed", {"iterations": iterations, **self.iterations[step.id]})

    async def _collection(self, step: ForEachStep) -> list[object]:
        text = await self._render(step.collection)
        self._has_large = self._has_large or len(text) > LARGE_CHARS
        found = await read_collection(text, step.collection, self._data)
        if len(found) > step.max_iterations:
            raise WorkflowError(
                f"The collection has {len(found):,} items; maxIterations allows {step.max_iterations:,}",
                hint="Ask for fewer items, or raise `maxIterations`, which may be 1,000.",
            )
        return found

    async def _elicitation_step(self, step: ElicitationStep) -> StepOutcome:
        return await _answered(step, await self._questions.ask(step, await self._render(step.message)))

    async def _render(self, text: str) -> str:
        return await self._off_loop(partial(render, text, self._data, self._budget), [("", text)])

    async def _off_loop(self, work: Callable[[], T], templates: Iterable[tuple[str, str]]) -> T:
        """The result of `work`, which renders these templates: in a thread where there is much to render."""
        if self._has_large or self._calls.held.chars > LARGE_CHARS or any(may_be_slow(text) for _, text in templates):
            return await asyncio.to_thread(work)
        return work()


async def _answered(step: ElicitationStep, answer: ElicitResult) -> StepOutcome:
    """What an answer makes of its step.

    Raises:
        WorkflowError: it ends the workflow, or does not fit the schema of the question.
    """
    value: JsonObject = {"action": answer.action, "content": dict(answer.content or {})}
    if answer.action == "accept":
        if problems := await find_problems(value["content"], step.schema):
            listed = "; ".join(f"{problem['field']}: {problem['message']}" for problem in problems)
            raise WorkflowError(f"The answer does not fit the question: {listed}", code="INVALID_INPUT")
        return StepOutcome("completed", value)
    follows = step.on_decline if answer.action == "decline" else step.on_cancel
    if follows == "abort":
        verb = "declined" if answer.action == "decline" else "cancelled"
        raise WorkflowError(
            f"The person {verb} the question of step '{step.id}'",
            code="ELICITATION_DECLINED" if answer.action == "decline" else "ELICITATION_CANCELLED",
            hint="Nothing after that step was done. Run the tool again if the person has changed their mind.",
        )
    return StepOutcome("completed", value, skips_rest=follows == "skip_remaining")
