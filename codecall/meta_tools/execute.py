"""`codecall:execute`: run a script, answer with its envelope."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from fastmcp.exceptions import ValidationError
from fastmcp.tools.base import ToolResult
from mcp_types import ToolAnnotations
from pydantic import Field

from codecall.calls.names import MAX_GLOB_CHARS, is_glob
from codecall.calls.resuming import CannotResume
from codecall.calls.unwrap import exceeds
from codecall.envelopes import EXECUTE_SCHEMA, ExecutionResult
from codecall.meta_tools.base import SENDABLE, Arguments, JsonObject, MetaTool, Wiring, answer, read_arguments
from codecall.meta_tools.running import Asked, run_script
from codecall.meta_tools.wording import describe_execute
from codecall.options import PluginOptions

MAX_CONTEXT_BYTES = 256 * 1024
"""Longest `context`, as JSON. It is input for a script, not a place for data: four times the longest script."""

MAX_ALLOWED_TOOLS = 1_000
"""Most entries of `allowedTools`."""

MAX_ALL_GLOBS_CHARS = 16 * 1024
"""Most characters all globs of `allowedTools` may have together: comparing a name with them takes at most 3 ms."""

Pattern = Annotated[str, Field(max_length=MAX_GLOB_CHARS), SENDABLE]


class ExecuteArguments(Arguments):
    """Arguments of `codecall:execute`."""

    script: str
    context: dict[str, Any] | None = None
    allowed_tools: Annotated[list[Pattern], Field(max_length=MAX_ALLOWED_TOOLS)] | None = None
    dry_run: bool | None = None
    resume_from: Annotated[str, Field(max_length=200), SENDABLE] | None = None


_INPUT: JsonObject = {
    "type": "object",
    "properties": {
        "script": {"type": "string", "description": "AgentScript source, up to 64 KiB"},
        "context": {
            "type": "object",
            "description": "JSON data the script sees as codecallContext, up to 256 KiB",
        },
        "allowedTools": {
            "type": "array",
            "items": {"type": "string", "maxLength": MAX_GLOB_CHARS},
            "maxItems": MAX_ALLOWED_TOOLS,
            "description": "Exact names, URIs or globs; when given, the script may call and read nothing else",
        },
        "dryRun": {
            "type": "boolean",
            "description": "Run nothing; the result is {valid, findings, manifest}: what is wrong, what is called",
        },
    },
    "required": ["script"],
    "additionalProperties": False,
}

_RESUME_FROM: JsonObject = {
    "type": "string",
    "description": "runId of a run of yours that failed: calls it completed are not made again",
}


class ExecuteTool(MetaTool):
    """Runs scripts."""

    @classmethod
    def create(cls, wiring: Wiring) -> ExecuteTool:
        """The tool under the advertised name."""
        return cls.build(
            wiring,
            verb="execute",
            title="Run a script over tools",
            description=describe_execute(wiring.options),
            parameters=_parameters(wiring.options),
            output_schema=EXECUTE_SCHEMA,
            # What a script may do is what the tools it calls may do.
            annotations=ToolAnnotations(
                read_only_hint=False, destructive_hint=True, idempotent_hint=False, open_world_hint=True
            ),
        )

    async def respond(self, arguments: dict[str, Any]) -> ToolResult:
        """Run the script. A script that fails is an envelope; only wrong arguments are an error.

        Raises:
            ValidationError: they are; also when the run they name cannot be taken up.
        """
        given = read_arguments(ExecuteArguments, self.name, arguments)
        context_bytes = self._check_context(given.context)
        self._check_globs(given.allowed_tools or ())
        self._check_resume(given)
        context, view = self._view()
        asked = Asked(
            given.script,
            given.context,
            tuple(given.allowed_tools) if given.allowed_tools is not None else None,
            bool(given.dry_run),
            context_bytes,
            given.resume_from,
        )
        try:
            result = await run_script(self._wiring, context, view, asked)
        except CannotResume as refused:
            raise ValidationError(f"{self.name}: resumeFrom: {refused.message}. {refused.hint}") from None
        return self.answered(result)

    def answered(self, result: ExecutionResult) -> ToolResult:
        """The answer of a run that has ended so."""
        return answer(result.envelope(), is_error=self._wiring.options.mark_errors and not result.success)

    def _check_resume(self, given: ExecuteArguments) -> None:
        if given.resume_from is None:
            return
        if self._wiring.options.resume is None:
            raise ValidationError(
                f"{self.name}: resumeFrom: this server keeps nothing of runs that failed. `calls` of the envelope says "
                "what was done; write a script that does the rest"
            )
        if given.dry_run:
            raise ValidationError(f"{self.name}: resumeFrom: a dry run makes no calls, so there is nothing to take up")

    def _check_context(self, context: JsonObject | None) -> int:
        """Bytes of it as JSON."""
        if not context:
            return 0
        # No JSON is less than a fifth of what `exceeds` takes it for: far too much is refused without being written.
        if exceeds(context, 5 * MAX_CONTEXT_BYTES):
            raise ValidationError(
                f"{self.name}: context: more than {MAX_CONTEXT_BYTES:,} bytes of JSON are not allowed"
            )
        try:
            size = len(msgspec.json.encode(context))
        except UnicodeEncodeError:
            raise ValidationError(f"{self.name}: context: holds text that is not valid Unicode") from None
        except (TypeError, ValueError, RecursionError) as failure:
            raise ValidationError(f"{self.name}: context: not JSON data: {failure}") from None
        if size > MAX_CONTEXT_BYTES:
            raise ValidationError(
                f"{self.name}: context: {size:,} bytes of JSON; at most {MAX_CONTEXT_BYTES:,} are allowed"
            )
        return size

    def _check_globs(self, allowed: Sequence[str]) -> None:
        size = sum(len(pattern) for pattern in allowed if is_glob(pattern))
        if size > MAX_ALL_GLOBS_CHARS:
            raise ValidationError(
                f"{self.name}: allowedTools: the globs have {size:,} characters; at most {MAX_ALL_GLOBS_CHARS:,} are "
                "allowed. Give exact names, of which the length does not count, or fewer globs"
            )


def _parameters(options: PluginOptions) -> JsonObject:
    """The schema of the arguments; `resumeFrom` where runs can be taken up."""
    if options.resume is None:
        return _INPUT
    return {**_INPUT, "properties": {**_INPUT["properties"], "resumeFrom": _RESUME_FROM}}
