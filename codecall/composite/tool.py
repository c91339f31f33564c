"""`CompositeTool`: a composite tool as a tool of FastMCP; and `WorkflowTool`, whose runs are runs as a script's are,
without a script."""

from __future__ import annotations

import asyncio
import json
import time
from abc import abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, Self, cast

import msgspec
from fastmcp.exceptions import ToolError, ValidationError
from fastmcp.server.context import Context
from fastmcp.server.dependencies import get_context
from fastmcp.tools import Tool
from fastmcp.tools.base import InputRequiredToolResult, ToolResult
from mcp_types import ContentBlock, TextContent, ToolAnnotations
from pydantic import PrivateAttr

from codecall.calls.blocks import BlockStore
from codecall.calls.interfaces import FailedRunResult, InvalidArgumentsError
from codecall.calls.task import is_nested
from codecall.catalog.entries import COMPOSITE_APP, META_KEY, tool_metadata
from codecall.composite.arguments import read_arguments
from codecall.composite.budgets import HeldData
from codecall.composite.calls import WorkflowCalls
from codecall.composite.definition import Definition, ElicitationStep, JsonObject, Workflow
from codecall.composite.elicitation import StepQuestions
from codecall.composite.failures import CALLER_HINTS
from codecall.composite.outputs import output_schema
from codecall.composite.run import LARGE_CHARS, WorkflowRun
from codecall.concurrency import release_frames
from codecall.envelopes import ExecutionResult, LargeResult, Stats
from codecall.errors import CodeCallError, LimitExceeded
from codecall.errors.hints import add_default_hint
from codecall.fastmcp_errors import client_message, log_unexpected
from codecall.globs import escape_glob
from codecall.jsonio.decode import exceeds_chars
from codecall.meta_tools.base import Runtime
from codecall.meta_tools.run_request import ExecuteRequest, RunLimits
from codecall.meta_tools.runs import StartedRun, max_value_bytes, run_observed
from codecall.redaction.threaded import MAX_QUICK_GIVEN, ThreadedCleaner
from codecall.resume.refusal import ResumeError
from codecall.sandbox.clock import RunClock

RESUME_PARAMETER: Final = "resumeFrom"
"""The argument that every composite tool has where runs are kept."""

_RESUME_SCHEMA: Final[JsonObject] = {
    "type": "string",
    "maxLength": 200,
    "description": "runId of a run of this tool that failed: calls it completed are not made again",
}


class CompositeTool(Tool):
    """A workflow or a script that is served as a tool."""

    _definition: Definition = PrivateAttr()
    _runtime: Callable[[], Runtime] = PrivateAttr()

    @classmethod
    def build(
        cls,
        definition: Definition,
        runtime: Callable[[], Runtime],
        *,
        resumes: bool,
        output: JsonObject | None,
    ) -> Self:
        """Create the tool of a definition.

        Args:
            definition: What it runs.
            runtime: Returns the services of its runs.
            resumes: Whether runs can be resumed.
            output: JSON Schema of its structured content; None where nothing is known of it.
        """
        metadata = tool_metadata(enabled_in_codecall=True, visible_in_list_tools=True, app_id=COMPOSITE_APP)
        tool = cls(
            name=definition.name,
            description=definition.description,
            parameters=_parameters(definition, resumes=resumes),
            output_schema=output,
            # What its tools may do is not known here.
            annotations=derived_annotations([]),
            meta=metadata,
        )
        tool._definition = definition
        tool._runtime = runtime
        return tool

    @property
    def definition(self) -> Definition:
        """What it runs."""
        return self._definition

    def annotated(self, called: list[ToolAnnotations | None]) -> Self:
        """This tool annotated by what the tools it calls say; itself where that changes nothing."""
        annotations = derived_annotations(called)
        return self if annotations == self.annotations else self.model_copy(update={"annotations": annotations})

    async def run(self, arguments: dict[str, Any]) -> ToolResult:
        """Run the workflow or the script; FastMCP calls this.

        Raises:
            ValidationError: the arguments are wrong, or the run they name cannot be resumed.
            CodeCallError: CodeCall itself cannot work on this server.
            ToolError: the server failed. FastMCP would send the text of any other exception as it is.
        """
        runtime = self._runtime()
        try:
            request = runtime.telemetry.request("composite")
            if request is None:
                return await self._respond(runtime, arguments)
            with request:
                answer = await self._respond(runtime, arguments)
                text = next((block.text for block in answer.content if isinstance(block, TextContent)), "")
                request.on_answer(_told(answer), text)
                return answer
        except (CodeCallError, ValidationError):
            raise
        except Exception as failure:
            log_unexpected(self.name, failure)
            raise ToolError(f"{self.name}: {client_message(failure, runtime.options.sanitization)}") from None

    async def _respond(self, runtime: Runtime, arguments: Mapping[str, object]) -> ToolResult:
        definition = self._definition
        values = dict(arguments)
        resume_from = None if _declares_resume(definition) else cast("str | None", values.pop(RESUME_PARAMETER, None))
        if resume_from is not None and runtime.options.resume is None:
            raise ValidationError(f"{self.name}: {RESUME_PARAMETER}: this server keeps nothing of runs that failed")
        params, problems = await read_arguments(values, definition.parameters)
        if problems:
            raise InvalidArgumentsError(self.name, problems, params, definition.parameters)
        perform = partial(self.perform, runtime, params, resume_from)
        try:
            # A call of a run asks as that run does, or not at all.
            if (relay := runtime.relay(get_context())) is None or is_nested():
                return await perform()
            watch = runtime.options.shutdown.end_abandoned
            return await relay.respond(get_context(), self.name, arguments, perform, watch=watch)
        except ResumeError as refused:
            raise ValidationError(f"{self.name}: {RESUME_PARAMETER}: {refused.message}. {refused.hint}") from None

    @abstractmethod
    async def perform(self, runtime: Runtime, params: JsonObject, resume_from: str | None) -> ToolResult:
        """Make a run, and give its answer.

        Args:
            runtime: The services of the run.
            params: Its arguments, checked, with their defaults.
            resume_from: Id of the run that it resumes.

        Raises:
            ResumeError: that run cannot be resumed.
        """
        ...


class WorkflowTool(CompositeTool):
    """A workflow that is served as a tool."""

    @classmethod
    def create(cls, workflow: Workflow, runtime: Callable[[], Runtime], *, resumes: bool) -> WorkflowTool:
        """Create the tool of a workflow; see `build`."""
        output = None if workflow.output is None else output_schema(workflow.output)
        return cls.build(workflow, runtime, resumes=resumes, output=output)

    async def perform(self, runtime: Runtime, params: JsonObject, resume_from: str | None) -> ToolResult:
        """See `CompositeTool.perform`."""
        workflow = cast("Workflow", self._definition)
        return await _Run(workflow, runtime, get_context(), params).respond(resume_from)


class _Run:
    """One call of a workflow: its run, and the answer."""

    def __init__(self, workflow: Workflow, runtime: Runtime, context: Context, params: JsonObject) -> None:
        self._workflow = workflow
        self._runtime = runtime
        self._context = context
        self._params = params
        self._run: WorkflowRun | None = None

    async def respond(self, resume_from: str | None) -> ToolResult:
        """Run it, and give the answer."""
        workflow = self._workflow

        @asynccontextmanager
        async def start(started: StartedRun) -> AsyncGenerator[Awaitable[ExecutionResult]]:
            limit = max_value_bytes(self._runtime.options.preset)
            with HeldData.of_run(limit, started.info.caller) as held:
                calls = WorkflowCalls(started.broker, started.hooks, held)
                questions = StepQuestions(started.gate, workflow.source)
                clock = started.hooks.clock or RunClock()
                notes = started.gate.notes if started.gate is not None else {}
                self._run = WorkflowRun(
                    workflow, self._params, _began(started), calls, questions=questions, clock=clock, notes=notes
                )
                yield self._execute(started, self._run, calls)

        arguments = json.dumps(self._params, ensure_ascii=False, separators=(",", ":"))
        request = ExecuteRequest(
            workflow.source,
            allowed_tools=tuple(map(escape_glob, workflow.tools())),
            context_bytes=len(arguments),
            resume_from=resume_from,
            tool=workflow.name,
            workflow=True,
            composite=workflow.name,
            context=self._params,
        )
        limit_ms = int(workflow.timeout_s * 1000) + 1
        # Its time stands still while a person is asked.
        asked_s = sum(step.timeout_s for step in workflow.steps if isinstance(step, ElicitationStep))
        view, limits = self._runtime.view(self._context), RunLimits(limit_ms, limit_ms + int(asked_s * 1000))
        result, blocks = await run_observed(self._runtime, self._context, view, request, start, limits=limits)
        return self._answer(result, blocks)

    async def _execute(self, started: StartedRun, run: WorkflowRun, calls: WorkflowCalls) -> ExecutionResult:
        """Run the workflow. A run that fails is a result."""
        began = time.perf_counter()
        started.hooks.observer.on_started()
        value: object = None
        large: LargeResult | None = None
        references: tuple[str, ...] = ()
        size = 0
        error: CodeCallError | None = None
        try:
            async with self._runtime.enclaves.hold(self._context, run, nested=is_nested()):
                value = await run.execute()
            text = await _encoded(value, calls.held.chars)
            limit = max_value_bytes(self._runtime.options.preset)
            if (size := len(text)) > limit:
                raise LimitExceeded(f"The result is {size} bytes; the limit is {limit}", code="OUTPUT_LIMIT")
            if size > self._runtime.options.preset.max_result_bytes and not is_nested():
                large, value = await self._keep(started, text.decode(), size), None
            if isinstance(started.broker.blocks, BlockStore):
                references = tuple(await started.broker.blocks.in_result(text.decode()))
        except CodeCallError as failure:
            release_frames(error := failure)
        if error is not None:
            add_default_hint(error, hints=CALLER_HINTS)
            cleaner = ThreadedCleaner()
            is_large = exceeds_chars(self._params, MAX_QUICK_GIVEN)
            secrets = await cleaner.secrets_not_in(self._params, is_large=is_large)
            await cleaner.clean_error(error, self._runtime.options.sanitization, secrets)
        return ExecutionResult(
            "ok" if error is None else error.status,
            value=value if error is None else None,
            error=error,
            stats=Stats((time.perf_counter() - began) * 1000, tool_calls=len(calls.records)),
            warnings=tuple(run.warnings),
            calls=tuple(calls.records),
            steps=run.statuses,
            blocks=references,
            value_bytes=size if error is None else 0,
            large=large if error is None else None,
        )

    async def _keep(self, started: StartedRun, text: str, size: int) -> LargeResult:
        """Keep a result that a client gets no answer with: one of megabytes holds up all others while it is sent.

        Raises:
            LimitExceeded: it cannot be kept, or the tool says what its result looks like.
        """
        results = started.hooks.results
        if results is not None and self._workflow.output is None:
            return await results.keep(text, size)
        limit = self._runtime.options.preset.max_result_bytes
        raise LimitExceeded(
            f"The result is {size} bytes; the limit is {limit}",
            code="OUTPUT_LIMIT",
            hint="Call the tool with codecall:invoke or in a script: what is too large for an answer is kept there.",
        )

    def _answer(self, result: ExecutionResult, blocks: list[ContentBlock]) -> ToolResult:
        run = self._run
        about: JsonObject = {"steps": run.statuses if run is not None else {}}
        failed: JsonObject = {"step": run.failed_step} if run is not None and run.failed_step else {}
        if run is not None and run.iterations:
            failed["iterations"] = run.iterations
        return answer_of(result, failed, blocks, about, declares_output=self._workflow.output is not None)


def _began(started: StartedRun) -> Mapping[str, str]:
    """The `id` and the `start` of a run: those that it began with, on whatever instance."""
    start = datetime.now(UTC).isoformat(timespec="milliseconds")
    mine = json.dumps({"id": started.info.run_id, "start": start})
    return json.loads(started.gate.notes.setdefault("workflow", mine) if started.gate is not None else mine)


def answer_of(
    result: ExecutionResult,
    failed: Mapping[str, object],
    blocks: list[ContentBlock],
    about: JsonObject,
    *,
    declares_output: bool,
) -> ToolResult:
    """The answer of a composite tool.

    Args:
        result: The result of the run.
        failed: What it says of a failure besides the error, or in place of a part of it.
        blocks: The content blocks that it shows.
        about: What the answer says of the run besides its id and its warnings.
        declares_output: Whether the tool has an output schema.
    """
    about = {"runId": result.run_id, **about}
    if result.warnings:
        about["warnings"] = list(result.warnings)
    if result.resumed_from:
        about["resumedFrom"] = result.resumed_from
    if result.error is not None:
        body = {**result.error.as_dict(), "status": result.status, **failed, **about}
        return FailedRunResult(msgspec.json.encode(body).decode(), body, result.error)
    meta: JsonObject = {META_KEY: about}
    value = result.value if result.large is None else {"largeResult": result.large.as_dict()}
    if isinstance(value, dict):
        structured = cast("JsonObject", value)
    elif value is None and not declares_output:
        return ToolResult(content=[*blocks], meta=meta)
    else:
        # As FastMCP wraps what is no object; scripts get the value alone.
        structured, meta["fastmcp"] = {"result": value}, {"wrap_result": True}
    shown = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return ToolResult.model_construct(
        content=[_text(shown), *blocks], structured_content=structured, meta=meta, is_error=False
    )


def _told(answer: ToolResult) -> JsonObject:
    """What telemetry records of an answer."""
    if isinstance(answer, InputRequiredToolResult):
        return {"status": "input_required"}
    error = answer.structured_content if answer.is_error else None
    return {"status": "ok"} if error is None else {"status": error["status"], "error": error}


def _text(text: str) -> TextContent:
    return TextContent(type="text", text=text)


async def _encoded(value: object, chars: int) -> bytes:
    """The JSON of a result that is made of so many characters of outputs."""
    return await asyncio.to_thread(msgspec.json.encode, value) if chars > LARGE_CHARS else msgspec.json.encode(value)


def _parameters(definition: Definition, *, resumes: bool) -> JsonObject:
    """The schema of the arguments, with `resumeFrom` where runs can be resumed."""
    if not resumes or _declares_resume(definition):
        return definition.parameters
    properties = cast("JsonObject", definition.parameters.get("properties") or {})
    return {**definition.parameters, "properties": {**properties, RESUME_PARAMETER: _RESUME_SCHEMA}}


def _declares_resume(definition: Definition) -> bool:
    """Whether `resumeFrom` is a parameter of the definition's own."""
    return RESUME_PARAMETER in cast("JsonObject", definition.parameters.get("properties") or {})


def derived_annotations(steps: list[ToolAnnotations | None]) -> ToolAnnotations:
    """The annotations of a composite tool over tools with these; what a tool does not say counts as the worst."""
    known = [annotations or ToolAnnotations() for annotations in steps]
    read_only = bool(known) and all(item.read_only_hint is True for item in known)
    return ToolAnnotations(
        read_only_hint=read_only,
        destructive_hint=not read_only
        and not (known and all(item.read_only_hint is True or item.destructive_hint is False for item in known)),
        idempotent_hint=bool(known) and all(item.read_only_hint or item.idempotent_hint for item in known),
        open_world_hint=not (known and all(item.open_world_hint is False for item in known)),
    )
