"""`ScriptFileTool`: a script as a tool of FastMCP. A run of it is one of `codecall:execute`, with checked arguments."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import cast

from fastmcp.exceptions import ValidationError
from fastmcp.server.dependencies import get_context
from fastmcp.tools.base import ToolResult
from mcp_types import ToolAnnotations

from codecall.calls.access import unavailable_error
from codecall.calls.broker import Broker
from codecall.catalog.view import CatalogView
from codecall.composite.arguments import find_problems
from codecall.composite.definition import JsonObject, ScriptDefinition
from codecall.composite.failures import WorkflowError, caller_hint
from codecall.composite.tool import CompositeTool, answer_of
from codecall.envelopes import ExecutionResult
from codecall.errors import IllegalAccess, OptionsError, ToolCallError, ToolNotFoundError
from codecall.meta_tools.base import Runtime
from codecall.meta_tools.execute import checked_context
from codecall.meta_tools.run_request import ExecuteRequest
from codecall.meta_tools.runs import StartedRun, run_observed, start_script
from codecall.meta_tools.starlark.script import ScriptBroker
from codecall.meta_tools.starlark.terms import script_preset, terms_for
from codecall.options import StarlarkOptions


class ScriptFileTool(CompositeTool):
    """A script that is served as a tool."""

    @classmethod
    def create(cls, definition: ScriptDefinition, runtime: Callable[[], Runtime], *, resumes: bool) -> ScriptFileTool:
        """Create the tool of a script; see `build`."""
        return cls.build(definition, runtime, resumes=resumes, output=_structured(definition.output))

    @property
    def script(self) -> ScriptDefinition:
        """What it runs."""
        return cast("ScriptDefinition", self._definition)

    def annotated(self, called: list[ToolAnnotations | None]) -> ScriptFileTool:
        """See `CompositeTool.annotated`; what the header says comes first."""
        derived = super().annotated(called).annotations or ToolAnnotations()
        annotations = ToolAnnotations.model_validate(
            {**derived.model_dump(by_alias=True, exclude_none=True), **self.script.annotations}
        )
        return self if annotations == self.annotations else self.model_copy(update={"annotations": annotations})

    async def perform(self, runtime: Runtime, params: JsonObject, resume_from: str | None) -> ToolResult:
        """See `CompositeTool.perform`."""
        context, definition = get_context(), self.script
        view = runtime.view(context)
        request = ExecuteRequest(
            definition.script,
            params,
            definition.allowed_tools,
            context_bytes=checked_context(self.name, "arguments", params),
            resume_from=resume_from,
            whole_result=True,
            tool=self.name,
            composite=self.name,
        )
        broker_class = Broker
        if definition.language == "starlark":
            request, broker_class = await self._as_starlark(request, view, runtime), ScriptBroker
        begin = start_script(runtime, context, request)
        of_script = set[str]()

        async def checked(running: Awaitable[ExecutionResult]) -> ExecutionResult:
            result = await self._checked(running)
            of_script.update(result.warnings)
            return result

        @asynccontextmanager
        async def start(run: StartedRun) -> AsyncGenerator[Awaitable[ExecutionResult]]:
            async with begin(run) as running:
                yield checked(running)

        result, blocks = await run_observed(runtime, context, view, request, start, broker_class=broker_class)
        # They say to whoever wrote the script what it does, and quote it.
        result = replace(result, warnings=tuple(text for text in result.warnings if text not in of_script))
        about: JsonObject = {"logs": list(result.logs)} if result.logs else {}
        return answer_of(*self._without_script(result), blocks, about, declares_output=definition.output is not None)

    async def _as_starlark(self, request: ExecuteRequest, view: CatalogView, runtime: Runtime) -> ExecuteRequest:
        """The request with what a Starlark script is told: its arguments are variables, None where they are left out.

        Raises:
            ValidationError: an argument cannot be a variable.
        """
        declared = cast("JsonObject", self.script.parameters.get("properties") or {})
        data = {**dict.fromkeys(declared), **(request.context or {})}
        options = runtime.options.starlark or StarlarkOptions()
        try:
            terms = await terms_for(request.script, data, view, runtime.options)
        except OptionsError as refused:
            raise ValidationError(f"{self.name}: {refused.message}") from None
        preset = script_preset(runtime.options.preset, options.code_mode)
        return replace(request, context=data, starlark=terms, preset=preset)

    async def _checked(self, running: Awaitable[ExecutionResult]) -> ExecutionResult:
        """The result of a run; a failure where the value is not what `output` says."""
        result, schema = await running, self.script.output
        if result.error is not None or schema is None:
            return result
        if not (problems := await find_problems(result.value, schema)):
            return result
        listed = "; ".join(": ".join(filter(None, (problem["field"], problem["message"]))) for problem in problems)
        error = WorkflowError(
            f"The result is not what `output` of the tool says: {listed}",
            hint="The script or its `output` has to change; the operator can do that.",
        )
        return replace(result, status=error.status, value=None, error=error)

    def _without_script(self, result: ExecutionResult) -> tuple[ExecutionResult, JsonObject]:
        """A result, and what its answer says of a failure in place of what quotes the script: its caller may not see
        all that it names."""
        error = result.error
        if error is None:
            return result, {}
        is_unknown = isinstance(error, IllegalAccess) and error.kind == "DisallowedGlobal"
        is_missing = isinstance(error, ToolCallError) and error.code == ToolNotFoundError.code
        if is_unknown or (is_missing and getattr(error, "tool_name", "") != self.name):
            # It was checked before it was served: it names what this caller cannot see.
            error = unavailable_error(self.name)
        place = {} if error.location is None else {"location": error.location._asdict()}
        told: JsonObject = {"hint": caller_hint(error), **place}
        return replace(result, status=error.status, error=error), told


def _structured(output: JsonObject | None) -> JsonObject | None:
    """The schema of the structured content that holds values of the schema `output`."""
    if output is None or output.get("type") == "object":
        return output
    return {"type": "object", "properties": {"result": output}, "required": ["result"], "x-fastmcp-wrap-result": True}
