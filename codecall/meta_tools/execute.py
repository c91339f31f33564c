"""`codecall:execute`: runs one script for a request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal, cast

import msgspec
from fastmcp.exceptions import ValidationError
from fastmcp.tools.base import ToolResult
from mcp_types import ContentBlock, ToolAnnotations
from pydantic import Field

from codecall.catalog.view import CatalogView
from codecall.envelopes import EXECUTE_OUTPUT_SCHEMA, ExecutionResult
from codecall.errors import OptionsError
from codecall.errors.hints import MAX_HINT
from codecall.globs import MAX_GLOB_CHARS, is_glob
from codecall.jsonio.decode import exceeds_chars
from codecall.meta_tools.base import (
    WELL_FORMED,
    Arguments,
    JsonObject,
    MetaTool,
    Runtime,
    parse_arguments,
    tool_result,
)
from codecall.meta_tools.descriptions import describe_execute
from codecall.meta_tools.run_request import ExecuteRequest
from codecall.meta_tools.runs import run_script
from codecall.meta_tools.starlark.terms import script_preset, terms_for
from codecall.options import PluginOptions, StarlarkOptions
from codecall.resume.refusal import ResumeError
from codecall.sandbox.starlark.policy import reads_as_starlark
from codecall.wording import cut

MAX_CONTEXT_BYTES = 256 * 1024
"""Longest `context`, as JSON. It is input for a script, not a place for data: four times the longest script."""

MAX_ALLOWED_TOOLS = 1_000
"""Most entries of `allowedTools`."""

MAX_ALL_GLOBS_CHARS = 16 * 1024
"""Most characters all globs of `allowedTools` may have together: comparing a name with them takes at most 3 ms."""

ToolPattern = Annotated[str, Field(max_length=MAX_GLOB_CHARS), WELL_FORMED]


class ExecuteArguments(Arguments):
    """Arguments of `codecall:execute`."""

    script: str
    context: dict[str, Any] | None = None
    allowed_tools: Annotated[list[ToolPattern], Field(max_length=MAX_ALLOWED_TOOLS)] | None = None
    dry_run: bool | None = None
    resume_from: Annotated[str, Field(max_length=200), WELL_FORMED] | None = None
    language: Literal["javascript", "starlark"] | None = None


_INPUT: JsonObject = {
    "type": "object",
    "properties": {
        "script": {"type": "string", "description": "AgentScript source, up to 64 KiB"},
        "context": {
            "type": "object",
            "description": "JSON data for codecallContext, up to 256 KiB",
        },
        "allowedTools": {
            "type": "array",
            "items": {"type": "string", "maxLength": MAX_GLOB_CHARS},
            "maxItems": MAX_ALLOWED_TOOLS,
            "description": "Names, URIs or globs; the script may use nothing else",
        },
        "dryRun": {
            "type": "boolean",
            "description": "Run nothing; the result is {valid, findings, manifest}",
        },
    },
    "required": ["script"],
    "additionalProperties": False,
}

_RESUME_FROM: JsonObject = {
    "type": "string",
    "description": "runId of a run of yours that failed: calls it completed are not made again",
}

_LANGUAGE: JsonObject = {
    "enum": ["javascript", "starlark"],
    "description": "starlark: tools are functions, keys of context variables",
}


_REFUSED = frozenset({"syntax_error", "illegal_access"})
_STARLARK_SENT = 'This reads as Starlark: send it with `language: "starlark"`.'


class ExecuteTool(MetaTool):
    """Runs scripts."""

    calls_tools = True

    @classmethod
    def create(cls, runtime: Runtime) -> ExecuteTool:
        """Create the tool under the advertised name."""
        return cls.build(
            runtime,
            verb="execute",
            title="Run a script over tools",
            description=describe_execute(runtime.options),
            parameters=_parameters(runtime.options),
            output_schema=EXECUTE_OUTPUT_SCHEMA,
            # What a script may do is what the tools it calls may do.
            annotations=ToolAnnotations(
                read_only_hint=False, destructive_hint=True, idempotent_hint=False, open_world_hint=True
            ),
        )

    async def respond(self, arguments: dict[str, Any]) -> ToolResult:
        """Run the script. A script that fails is an envelope; only wrong arguments are an error.

        Raises:
            ValidationError: the arguments are wrong, or the run they name cannot be resumed.
        """
        parsed = parse_arguments(ExecuteArguments, self.name, arguments)
        context_bytes = checked_context(self.name, "context", parsed.context)
        self._check_globs(parsed.allowed_tools or ())
        self._check_resume(parsed)
        context, view = self._view()
        request = ExecuteRequest(
            parsed.script,
            parsed.context,
            tuple(parsed.allowed_tools) if parsed.allowed_tools is not None else None,
            bool(parsed.dry_run),
            context_bytes,
            parsed.resume_from,
        )
        if parsed.language == "starlark":
            request = await self._in_starlark(request, view)
        try:
            result, blocks = await run_script(self._runtime, context, view, request)
        except ResumeError as refused:
            where = "" if parsed.resume_from is None else "resumeFrom: "
            raise ValidationError(f"{self.name}: {where}{refused.message}. {refused.hint}") from None
        offer = result.error is not None or request.dry_run
        offer = offer and request.starlark is None and self._runtime.options.runs_starlark
        if offer and result.error is not None and result.status in _REFUSED:
            result.error.hint = _with_language(parsed.script, result.error.hint)
        if parsed.dry_run and isinstance(result.value, dict):
            for index, finding in enumerate(cast("list[dict[str, str]]", result.value["findings"])):
                if offer and index == 0:
                    finding["hint"] = _with_language(parsed.script, finding.get("hint")) or ""
                if "hint" in finding:
                    finding["hint"] = self.respell(finding["hint"])
        return self.envelope_result(result, blocks)

    async def _in_starlark(self, request: ExecuteRequest, view: CatalogView) -> ExecuteRequest:
        """The same for a script in Starlark.

        Raises:
            ValidationError: the server runs none, or a key of `context` cannot be a variable.
        """
        options = self._runtime.options
        if not options.runs_starlark:
            raise ValidationError(f"{self.name}: language: this server runs no Starlark; write JavaScript")
        starlark = options.starlark or StarlarkOptions()
        try:
            terms = await terms_for(request.script, request.context or {}, view, options)
        except OptionsError as refused:
            raise ValidationError(f"{self.name}: context: {refused.message}") from None
        return replace(request, starlark=terms, preset=script_preset(options.preset, starlark.code_mode))

    def envelope_result(self, result: ExecutionResult, blocks: Sequence[ContentBlock]) -> ToolResult:
        """Turn the result of a run into the answer of the tool, with the content blocks that it shows."""
        if result.error is not None:
            self.spell_hint(result.error)
        is_error = self._runtime.options.mark_errors and not result.success
        return tool_result(result.envelope(), blocks=blocks, is_error=is_error)

    def _check_resume(self, arguments: ExecuteArguments) -> None:
        if arguments.resume_from is None:
            return
        if self._runtime.options.resume is None:
            raise ValidationError(
                f"{self.name}: resumeFrom: this server keeps nothing of runs that failed. `calls` of the envelope says "
                "what was done; write a script that does the rest"
            )
        if arguments.dry_run:
            raise ValidationError(f"{self.name}: resumeFrom: a dry run makes no calls, so there is nothing to take up")

    def _check_globs(self, allowed: Sequence[str]) -> None:
        size = sum(len(pattern) for pattern in allowed if is_glob(pattern))
        if size > MAX_ALL_GLOBS_CHARS:
            raise ValidationError(
                f"{self.name}: allowedTools: the globs have {size:,} characters; at most {MAX_ALL_GLOBS_CHARS:,} are "
                "allowed. Give exact names, of which the length does not count, or fewer globs"
            )


def _with_language(script: str, hint: str | None) -> str | None:
    """The hint of a script that is refused as JavaScript, with the other language where it is in that."""
    return cut(f"{_STARLARK_SENT} {hint or ''}".rstrip(), MAX_HINT) if reads_as_starlark(script) else hint


def checked_context(tool: str, argument: str, context: JsonObject | None) -> int:
    """Check that an argument is JSON data of a size that is allowed; returns its bytes as JSON.

    Raises:
        ValidationError: it is not.
    """
    if not context:
        return 0
    # No JSON is less than a fifth of what `exceeds_chars` takes it for: far too much is refused without being written.
    if exceeds_chars(context, 5 * MAX_CONTEXT_BYTES):
        raise ValidationError(f"{tool}: {argument}: more than {MAX_CONTEXT_BYTES:,} bytes of JSON are not allowed")
    try:
        size = len(msgspec.json.encode(context))
    except UnicodeEncodeError:
        raise ValidationError(f"{tool}: {argument}: holds text that is not valid Unicode") from None
    except (TypeError, ValueError, RecursionError) as failure:
        raise ValidationError(f"{tool}: {argument}: not JSON data: {failure}") from None
    if size > MAX_CONTEXT_BYTES:
        raise ValidationError(f"{tool}: {argument}: {size:,} bytes of JSON; at most {MAX_CONTEXT_BYTES:,} are allowed")
    return size


def _parameters(options: PluginOptions) -> JsonObject:
    """The schema of the arguments, with `resumeFrom` where runs can be resumed and `language` where there are two."""
    more: JsonObject = {"resumeFrom": _RESUME_FROM} if options.resume is not None else {}
    more |= {"language": _LANGUAGE} if options.runs_starlark else {}
    return {**_INPUT, "properties": {**_INPUT["properties"], **more}} if more else _INPUT
