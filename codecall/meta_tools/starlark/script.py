"""`execute_tool_script`: runs one Starlark script over the tools of its caller, and answers with its value."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Final

from fastmcp.tools.base import ToolResult
from mcp_types import ContentBlock, TextContent, ToolAnnotations

from codecall.catalog.entries import META_KEY, CatalogEntry
from codecall.catalog.view import CatalogView
from codecall.envelopes import ExecutionResult
from codecall.errors import OptionsError
from codecall.globs import display_name
from codecall.meta_tools.base import Arguments, JsonObject, MetaTool, Runtime, parse_arguments, tool_result
from codecall.meta_tools.execute import checked_context
from codecall.meta_tools.runs import ExecuteRequest, run_script
from codecall.meta_tools.starlark.auto_execution import ScriptBroker
from codecall.meta_tools.starlark.terms import call_form, script_preset, terms_for
from codecall.options import StarlarkOptions
from codecall.sandbox.starlark.policy import function_name, function_names
from codecall.telemetry.tokens import estimate_tokens

logger = logging.getLogger("codecall")

NAME: Final = "execute_tool_script"

MAX_LINE: Final = 200
"""Most characters of the line about one tool."""


class ScriptArguments(Arguments):
    """Arguments of `execute_tool_script`."""

    script: str
    data: dict[str, Any] | None = None


_INPUT: JsonObject = {
    "type": "object",
    "properties": {
        "script": {"type": "string", "description": "Starlark source, up to 64 KiB"},
        "data": {"type": "object", "description": "Each key is a top-level variable of the script"},
    },
    "required": ["script"],
    "additionalProperties": False,
}

_OUTPUT: JsonObject = {
    "type": "object",
    "properties": {
        "result": {"description": "What the script returned"},
        "logs": {"type": "array", "items": {"type": "string"}, "description": "What it printed"},
        "warnings": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["result"],
}

_ABOUT: Final = """\
Run one Starlark script that calls several tools and returns one value: loops, conditions, comprehensions.
Tools are functions with keyword arguments: tool(key=value). call_tool("any name", key=value) calls one by its own name;
try_call(...) gives {"ok", "value" | "error"} instead of failing. parallel([lambda: a(), lambda: b()]) runs them at
once, results in order; in a loop bind the variable: lambda x=x: a(id=x). `return` any value; the keys of `data`
are variables; print(...) writes logs. No import, while, try, class or recursion."""
"""What the description says of the language."""


SCRIPT_ENTRY: Final = CatalogEntry(NAME, "codecall", _ABOUT, _INPUT, _OUTPUT)
"""What `find_tool` finds of it."""


class ScriptTool(MetaTool):
    """Runs Starlark scripts."""

    calls_tools = True

    @classmethod
    def create(cls, runtime: Runtime) -> ScriptTool:
        """Create the tool; `runtime` has the option `starlark`."""
        return cls.build(
            runtime,
            verb="execute_tool_script",
            title="Run a Starlark script over tools",
            description=_ABOUT,
            parameters=_INPUT,
            output_schema=_OUTPUT,
            annotations=ToolAnnotations(
                read_only_hint=False, destructive_hint=True, idempotent_hint=False, open_world_hint=True
            ),
        ).called(NAME)

    async def respond(self, arguments: dict[str, Any]) -> ToolResult:
        """Run the script. Whatever is wrong with it is a result that says so.

        Raises:
            ValidationError: the arguments are wrong.
        """
        parsed = parse_arguments(ScriptArguments, self.name, arguments)
        size = checked_context(self.name, "data", parsed.data)
        context, view = self._view()
        options = self._runtime.options
        starlark = options.starlark or StarlarkOptions()
        try:
            terms = await terms_for(parsed.script, parsed.data or {}, view, starlark)
        except OptionsError as refused:
            return _failed(refused.message, {"status": "error", "error": refused.as_dict()})
        request = ExecuteRequest(
            parsed.script,
            parsed.data,
            context_bytes=size,
            starlark=terms,
            whole_result=True,
            tool=self.name,
            preset=script_preset(options.preset, starlark.code_mode),
        )
        result, blocks = await run_script(self._runtime, context, view, request, broker_class=ScriptBroker)
        if result.error is not None:
            return _failed(_error_text(result), result.envelope(), result.logs)
        body: JsonObject = {"result": result.value}
        body |= {"logs": list(result.logs)} if result.logs else {}
        body |= {"warnings": list(result.warnings)} if result.warnings else {}
        answer = tool_result(body, blocks=[*_log_blocks(result.logs), *blocks])
        text = tool_result({"result": result.value}).content[0]
        if isinstance(text, TextContent):
            value = text.text.removeprefix('{"result":').removesuffix("}")
            answer.content[0] = TextContent(type="text", text=value)
        return answer


def _error_text(result: ExecutionResult) -> str:
    error = result.error
    if error is None:
        return ""
    place = f" (line {error.location.line}, column {error.location.column})" if error.location is not None else ""
    hint = f" Hint: {error.hint}" if error.hint else ""
    return f"{error.message.rstrip('.')}{place}.{hint}"


def _failed(message: str, envelope: JsonObject, logs: Sequence[str] = ()) -> ToolResult:
    """An error result with the text of the document; the envelope, which has a code, is for programs alone."""
    text = TextContent(type="text", text=f"script execution failed: {message}")
    return failure([text, *_log_blocks(logs)], envelope)


def failure(content: Sequence[ContentBlock], envelope: JsonObject) -> ToolResult:
    """An error result whose envelope, which has a code, is for programs alone."""
    envelope = {key: value for key, value in envelope.items() if key in ("status", "runId", "error", "stats")}
    return ToolResult.model_construct(
        content=list(content), structured_content=None, meta={META_KEY: envelope}, is_error=True
    )


def _log_blocks(logs: Sequence[str]) -> list[TextContent]:
    return [TextContent(type="text", text="logs:\n" + "\n".join(logs))] if logs else []


async def describe_script_tool(
    tools: Sequence[MetaTool], view: CatalogView, options: StarlarkOptions
) -> tuple[MetaTool, ...]:
    """The meta-tools with the tools of this caller in the description of `execute_tool_script`."""
    described: list[MetaTool] = []
    for tool in tools:
        if isinstance(tool, ScriptTool):
            listed = list_tools(await view.entries(), options)
            described.append(tool.model_copy(update={"description": f"{_ABOUT}\n{listed}"}))
        else:
            described.append(tool)
    return tuple(described)


def list_tools(entries: Sequence[CatalogEntry], options: StarlarkOptions) -> str:
    """The tools of one caller, as many as the budget has room for: a line each, else names alone."""
    if not entries:
        return "There are no tools."
    functions = function_names(entry.name for entry in entries)
    lines: list[str] = []
    for entry in entries:
        call, name = call_form(entry, functions), function_name(entry.name)
        if functions.get(name) != entry.name:
            logger.warning("tool %r has no function in Starlark scripts: %r is taken", entry.name, name)
        about = " ".join((entry.description or entry.title or "").split())
        lines.append(f"- {call}: {about}"[:MAX_LINE] if about else f"- {call}"[:MAX_LINE])
    text = "Tools:\n" + "\n".join(lines)
    if estimate_tokens(len(text)) <= options.description_tokens:
        return text
    finder = "find_tool" if options.optimizer else "codecall:search"
    names: list[str] = []
    used = 0
    for entry in entries:
        used += len(entry.name) + 2
        if estimate_tokens(used) > options.description_tokens - 50:
            break
        names.append(display_name(entry.name))
    more = f" and {len(entries) - len(names)} more" if len(names) < len(entries) else ""
    return f"Tools: {', '.join(names)}{more}. {finder} finds tools and says how they are called."
