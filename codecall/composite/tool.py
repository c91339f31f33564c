"""`CompositeTool`: a workflow as a tool of FastMCP. A run of it is a run as a script's is, without a script."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, cast

import msgspec
from fastmcp.exceptions import ToolError, ValidationError
from fastmcp.server.context import Context
from fastmcp.server.dependencies import get_context
from fastmcp.tools import Tool
from fastmcp.tools.base import InputRequiredToolResult, ToolResult
from mcp_types import ContentBlock, TextContent, ToolAnnotations
from pydantic import PrivateAttr

from codecall.calls.blocks import BlockStore
from codecall.catalog.entries import META_KEY, tool_metadata
from codecall.composite.arguments import argument_problems, with_defaults
from codecall.composite.calls import WorkflowCalls
from codecall.composite.definition import JsonObject, Workflow
from codecall.composite.elicitation import ClientAsker, answers_of, ask_with_result, late_answer
from codecall.composite.failures import WorkflowError
from codecall.composite.outputs import output_schema
from codecall.composite.paused import PAUSED_RUNS, PausedRun
from codecall.composite.run import LARGE_CHARS, Paused, RunState, WorkflowRun
from codecall.envelopes import ExecutionResult, Stats
from codecall.errors import CodeCallError, LimitExceeded, add_default_hint
from codecall.fastmcp_errors import client_message, log_unexpected
from codecall.identity import client_key
from codecall.meta_tools.base import Runtime
from codecall.meta_tools.runs import ExecuteRequest, RunLimits, StartedRun, max_value_bytes, run_observed
from codecall.redaction.clean import ThreadedCleaner
from codecall.resume.refusal import ResumeError
from codecall.schema.validation import invalid_input_message

APP_ID: Final = "composite"
"""The app of composite tools."""
RESUME_PARAMETER: Final = "resumeFrom"
"""The argument that every composite tool has where runs are kept."""

_RESUME_SCHEMA: Final[JsonObject] = {
    "type": "string",
    "maxLength": 200,
    "description": "runId of a run of this tool that failed: calls it completed are not made again",
}


class CompositeTool(Tool):
    """A workflow that is served as a tool."""

    _workflow: Workflow = PrivateAttr()
    _runtime: Callable[[], Runtime] = PrivateAttr()

    @classmethod
    def create(cls, workflow: Workflow, runtime: Callable[[], Runtime], *, resumes: bool) -> CompositeTool:
        """Create the tool of a workflow.

        Args:
            workflow: What it runs.
            runtime: Returns the services of its runs.
            resumes: Whether runs can be resumed.
        """
        metadata = tool_metadata(enabled_in_codecall=True, visible_in_list_tools=True, app_id=APP_ID)
        tool = cls(
            name=workflow.name,
            description=workflow.description,
            parameters=_parameters(workflow, resumes=resumes),
            output_schema=None if workflow.output is None else output_schema(workflow.output),
            # What its tools may do is not known here.
            annotations=derived_annotations([]),
            meta=metadata,
        )
        tool._workflow = workflow
        tool._runtime = runtime
        return tool

    @property
    def workflow(self) -> Workflow:
        """What it runs."""
        return self._workflow

    def with_annotations(self, annotations: ToolAnnotations) -> CompositeTool:
        """This tool with those annotations; itself where it has them."""
        return self if annotations == self.annotations else self.model_copy(update={"annotations": annotations})

    async def run(self, arguments: dict[str, Any]) -> ToolResult:
        """Run the workflow; FastMCP calls this.

        Raises:
            ValidationError: the arguments are wrong, or the run they name cannot be resumed.
            CodeCallError: CodeCall itself cannot work on this server.
            ToolError: the server failed. FastMCP would send the text of any other exception as it is.
        """
        runtime = self._runtime()
        try:
            request = runtime.telemetry.request("composite")
            if request is None:
                return (await self._respond(runtime, arguments))[0]
            with request:
                answer, result = await self._respond(runtime, arguments)
                error = result.error.as_dict() if result.error is not None else None
                text = next((block.text for block in answer.content if isinstance(block, TextContent)), "")
                request.on_answer({"status": result.status, "error": error}, text)
                return answer
        except (CodeCallError, ValidationError):
            raise
        except Exception as failure:
            log_unexpected(self.name, failure)
            raise ToolError(f"{self.name}: {client_message(failure, runtime.options.sanitization)}") from None

    async def _respond(self, runtime: Runtime, arguments: Mapping[str, object]) -> tuple[ToolResult, ExecutionResult]:
        workflow = self._workflow
        values = dict(arguments)
        resume_from = None if _declares_resume(workflow) else cast("str | None", values.pop(RESUME_PARAMETER, None))
        if resume_from is not None and runtime.options.resume is None:
            raise ValidationError(f"{self.name}: {RESUME_PARAMETER}: this server keeps nothing of runs that failed")
        params = with_defaults(values, workflow.parameters)
        if problems := argument_problems(params, workflow.parameters):
            raise ValidationError(invalid_input_message(self.name, problems, workflow.parameters))
        context = get_context()
        leg = _Leg(self.name, workflow, runtime, context, params)
        try:
            return await leg.respond(resume_from)
        except ResumeError as refused:
            raise ValidationError(f"{self.name}: {RESUME_PARAMETER}: {refused.message}. {refused.hint}") from None


class _Leg:
    """One request to a composite tool: a run, or the part of one that answers of a person begin."""

    def __init__(self, name: str, workflow: Workflow, runtime: Runtime, context: Context, params: JsonObject) -> None:
        self._name = name
        self._workflow = workflow
        self._runtime = runtime
        self._context = context
        self._arguments = json.dumps(params, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
        self._state = RunState(params)
        self._run: WorkflowRun | None = None
        self._paused: Paused | None = None

    async def respond(self, resume_from: str | None) -> tuple[ToolResult, ExecutionResult]:
        """Answer the request."""
        caller = client_key(self._context)
        answers = answers_of(self._context)
        token = self._context.request_state if self._context.request_context is not None else None
        before = PAUSED_RUNS.take(token, caller, self._workflow.source, self._arguments)
        late: CodeCallError | None = None
        if before is not None:
            self._state = before.state
            if self._runtime.options.resume is not None:
                resume_from = before.run_id
            if time.monotonic() > before.expires:
                late = late_answer(before.expires - before.asked)
        else:
            answers = {}

        @asynccontextmanager
        async def start(started: StartedRun) -> AsyncGenerator[Awaitable[ExecutionResult]]:
            calls = WorkflowCalls(started.broker, started.hooks, max_value_bytes(self._runtime.options.preset))
            asker = ClientAsker(self._context, answers)
            self._state.run_id = self._state.run_id or started.info.run_id
            self._run = WorkflowRun(self._workflow, self._state, calls, asker)
            yield self._execute(started, self._run, calls, late)

        request = ExecuteRequest(
            self._workflow.source,
            allowed_tools=self._workflow.tools(),
            context_bytes=len(self._arguments),
            resume_from=resume_from,
        )
        limit_ms = int(self._workflow.timeout_s * 1000) + 1
        view = self._runtime.view(self._context)
        result, blocks = await run_observed(
            self._runtime, self._context, view, request, start, limits=RunLimits(limit_ms, limit_ms)
        )
        if self._paused is not None:
            state = PausedRun(
                result.run_id,
                caller,
                self._workflow.source,
                self._arguments,
                self._state,
                self._paused.questions,
                sum(call.result_chars for call in result.calls) + len(self._arguments),
                time.monotonic(),
            )
            asked = ask_with_result(self._paused.questions, PAUSED_RUNS.keep(state))
            return InputRequiredToolResult(asked), result
        return self._answer(result, blocks), result

    async def _execute(
        self, started: StartedRun, run: WorkflowRun, calls: WorkflowCalls, late: CodeCallError | None
    ) -> ExecutionResult:
        """Run the workflow. A run that fails is a result."""
        began = time.perf_counter()
        started.hooks.observer.on_started()
        value: object = None
        references: tuple[str, ...] = ()
        error: CodeCallError | None = late
        try:
            if late is None:
                value = await run.execute()
                text = await _encoded(value, calls.chars)
                limit = max_value_bytes(self._runtime.options.preset)
                if len(text) > limit:
                    raise LimitExceeded(f"The result is {len(text)} bytes; the limit is {limit}", code="OUTPUT_LIMIT")
                if isinstance(started.broker.blocks, BlockStore):
                    references = tuple(await started.broker.blocks.in_result(text.decode()))
        except Paused as paused:
            self._paused = paused
            error = WorkflowError("The run waits for the answer of a person", code="INPUT_REQUIRED")
        except CodeCallError as failure:
            error = failure
        if error is not None:
            add_default_hint(error)
            await ThreadedCleaner().clean_error(error, self._runtime.options.sanitization)
        return ExecutionResult(
            "ok" if error is None else error.status,
            value=value if error is None else None,
            error=error,
            stats=Stats((time.perf_counter() - began) * 1000, tool_calls=len(calls.records)),
            warnings=tuple(run.warnings),
            calls=tuple(calls.records),
            blocks=references,
        )

    def _answer(self, result: ExecutionResult, blocks: list[ContentBlock]) -> ToolResult:
        run = self._run
        about: JsonObject = {"runId": result.run_id, "steps": run.statuses if run is not None else {}}
        if result.warnings:
            about["warnings"] = list(result.warnings)
        if result.resumed_from:
            about["resumedFrom"] = result.resumed_from
        if result.error is not None:
            failed = {"step": run.failed_step} if run is not None and run.failed_step else {}
            body = {**result.error.as_dict(), **failed, **about}
            text = msgspec.json.encode(body).decode()
            return ToolResult(content=[_text(text)], structured_content=body, is_error=True)
        meta: JsonObject = {META_KEY: about}
        value = result.value
        if isinstance(value, dict):
            structured = cast("JsonObject", value)
        elif value is None and self._workflow.output is None:
            return ToolResult(content=[*blocks], meta=meta)
        else:
            # As FastMCP wraps what is no object; scripts get the value alone.
            structured, meta["fastmcp"] = {"result": value}, {"wrap_result": True}
        shown = value if isinstance(value, str) else msgspec.json.encode(value).decode()
        return ToolResult.model_construct(
            content=[_text(shown), *blocks], structured_content=structured, meta=meta, is_error=False
        )


def _text(text: str) -> TextContent:
    return TextContent(type="text", text=text)


async def _encoded(value: object, chars: int) -> bytes:
    """The JSON of a result that is made of so many characters of outputs."""
    return await asyncio.to_thread(msgspec.json.encode, value) if chars > LARGE_CHARS else msgspec.json.encode(value)


def _parameters(workflow: Workflow, *, resumes: bool) -> JsonObject:
    """The schema of the arguments, with `resumeFrom` where runs can be resumed."""
    if not resumes or _declares_resume(workflow):
        return workflow.parameters
    properties = cast("JsonObject", workflow.parameters.get("properties") or {})
    return {**workflow.parameters, "properties": {**properties, RESUME_PARAMETER: _RESUME_SCHEMA}}


def _declares_resume(workflow: Workflow) -> bool:
    """Whether `resumeFrom` is a parameter of the workflow's own."""
    return RESUME_PARAMETER in cast("JsonObject", workflow.parameters.get("properties") or {})


def derived_annotations(steps: list[ToolAnnotations | None]) -> ToolAnnotations:
    """The annotations of a workflow over tools with these; what a tool does not say counts as the worst."""
    known = [annotations or ToolAnnotations() for annotations in steps]
    read_only = bool(known) and all(item.read_only_hint is True for item in known)
    return ToolAnnotations(
        read_only_hint=read_only,
        destructive_hint=not read_only
        and not (known and all(item.read_only_hint is True or item.destructive_hint is False for item in known)),
        idempotent_hint=bool(known) and all(item.read_only_hint or item.idempotent_hint for item in known),
        open_world_hint=not (known and all(item.open_world_hint is False for item in known)),
    )
