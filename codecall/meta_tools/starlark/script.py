"""`execute_tool_script`: runs one Starlark script over the tools of its caller, and answers with its value."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final

from anyio import to_thread
from fastmcp.tools.base import ToolResult
from mcp_types import ContentBlock, TextContent, ToolAnnotations
from pydantic import PrivateAttr

from codecall.catalog.entries import META_KEY, CatalogEntry
from codecall.catalog.view import CatalogView
from codecall.concurrency import CHUNK
from codecall.envelopes import ExecutionResult
from codecall.errors import OptionsError
from codecall.globs import display_name
from codecall.meta_tools.base import Arguments, JsonObject, MetaTool, Runtime, parse_arguments, tool_result
from codecall.meta_tools.descriptions import describe_extract, describe_large_result
from codecall.meta_tools.execute import checked_context
from codecall.meta_tools.run_request import ExecuteRequest
from codecall.meta_tools.runs import run_script
from codecall.meta_tools.starlark.auto_execution import ScriptBroker
from codecall.meta_tools.starlark.lookup import MAX_LISTED
from codecall.meta_tools.starlark.terms import call_form, function_tools, script_preset, terms_for
from codecall.options import StarlarkOptions
from codecall.sandbox.starlark.policy import function_names
from codecall.telemetry.tokens import estimate_tokens
from codecall.wording import cut, join_names

logger = logging.getLogger("codecall")

NAME: Final = "execute_tool_script"

MAX_LINE: Final = 200
"""Most characters of the line about one tool."""


MAX_WARNED: Final = 1_000
"""Most tools without a function that are logged."""


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


def output_schema(value: str) -> JsonObject:
    """The schema of what `answer_body` gives, with this description of the value."""
    texts = {"type": "array", "items": {"type": "string"}}
    return {
        "type": "object",
        "properties": {
            "result": {"description": value},
            "largeResult": {
                "type": "object",
                "description": "In place of `result` where that is too large: its handle, preview and shape, and how "
                "the rest is read",
            },
            "logs": {**texts, "description": "What it printed"},
            "warnings": texts,
        },
    }


def answer_body(result: ExecutionResult, warnings: Sequence[str]) -> JsonObject:
    """What a script that ended well answers, with these warnings."""
    body: JsonObject = {"result": result.value}
    if result.large is not None:
        body = {"largeResult": result.large.as_dict()}
    body |= {"logs": list(result.logs)} if result.logs else {}
    return body | ({"warnings": list(warnings)} if warnings else {})


_OUTPUT: Final = output_schema("What the script returned")

_ABOUT: Final = """\
Run one Starlark script that calls several tools and returns one value: loops, conditions, comprehensions.
Tools are functions with keyword arguments: tool(key=value); what is listed as [key=…] may be left out.
call_tool("any name", key=value) calls one by its own name;
try_call(...) gives {"ok", "value" | "error"} instead of failing. parallel([lambda: a(), lambda: b()]) runs them at
once, results in order; in a loop bind the variable: lambda x=x: a(id=x). `return` any value; the keys of `data`
are variables; print(...) writes logs. No import, while, try, class or recursion."""
"""What the description says of the language."""


SCRIPT_ENTRY: Final = CatalogEntry(NAME, "codecall", _ABOUT, _INPUT, _OUTPUT)
"""What `find_tool` finds of it."""


class ScriptTool(MetaTool):
    """Runs Starlark scripts."""

    calls_tools = True
    _warned: set[str] = PrivateAttr(default_factory=set[str])
    """The tools without a function that were logged."""

    @classmethod
    def create(cls, runtime: Runtime) -> ScriptTool:
        """Create the tool; `runtime` has the option `starlark`."""
        return cls.build(
            runtime,
            verb="execute_tool_script",
            title="Run a Starlark script over tools",
            description=f"{_ABOUT} {describe_large_result(runtime.options)}"
            f"{describe_extract(runtime.options, await_it=False)}",
            parameters=_INPUT,
            output_schema=_OUTPUT,
            annotations=ToolAnnotations(
                read_only_hint=False, destructive_hint=True, idempotent_hint=False, open_world_hint=True
            ),
        ).called(NAME)

    async def for_caller(self, view: CatalogView, options: StarlarkOptions) -> ScriptTool:
        """The tool with those of this caller in its description."""
        entries, tools = await view.entries(), await function_tools(view)

        def describe() -> str:
            functions = function_names(tools)
            self._warn_of_taken({entry.name for entry in entries}.difference(functions.values()))
            finder = "find_tool" if options.optimizer else self.respell("codecall:search")
            return f"{self.description}\n{list_tools(entries, functions, options, finder)}"

        # In a thread: a server may have thousands of tools.
        description = describe() if len(entries) <= CHUNK else await to_thread.run_sync(describe)
        return self.model_copy(update={"description": description})

    def _warn_of_taken(self, names: set[str]) -> None:
        """Log which tools have no function, each once: clients list tools often, and servers may rename theirs."""
        new = sorted(names - self._warned)
        if not new or len(self._warned) >= MAX_WARNED:
            return
        self._warned.update(new[: MAX_WARNED - len(self._warned)])
        logger.warning(
            "%d tools have no function in Starlark scripts, since its name is taken; call_tool(…) calls them: %s%s",
            len(new),
            join_names(new, MAX_LISTED, lambda name: repr(display_name(name))),
            "" if len(self._warned) < MAX_WARNED else "; no others are logged",
        )

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
            terms = await terms_for(parsed.script, parsed.data or {}, view, options)
        except OptionsError as refused:
            hint = f". Hint: {refused.hint}" if refused.hint else ""
            return _failed(f"{refused.message}{hint}", {"status": "error", "error": refused.as_dict()})
        request = ExecuteRequest(
            parsed.script,
            parsed.data,
            context_bytes=size,
            starlark=terms,
            tool=self.name,
            preset=script_preset(options.preset, starlark.code_mode),
        )
        result, blocks = await run_script(self._runtime, context, view, request, broker_class=ScriptBroker)
        if result.error is not None:
            self.spell_hint(result.error)
            return _failed(_error_text(result), result.envelope(), result.logs)
        body = answer_body(result, result.warnings)
        answer = tool_result(
            body, blocks=[*_text_blocks("logs", result.logs), *_text_blocks("warnings", result.warnings), *blocks]
        )
        first = "result" if "result" in body else "largeResult"
        text = tool_result({first: body[first]}).content[0]
        if isinstance(text, TextContent):
            value = text.text if result.large is not None else text.text.removeprefix('{"result":').removesuffix("}")
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
    return failure([text, *_text_blocks("logs", logs)], envelope)


def failure(content: Sequence[ContentBlock], envelope: JsonObject) -> ToolResult:
    """An error result whose envelope, which has a code, is for programs alone."""
    envelope = {key: value for key, value in envelope.items() if key in ("status", "runId", "error", "stats")}
    return ToolResult.model_construct(
        content=list(content), structured_content=None, meta={META_KEY: envelope}, is_error=True
    )


def _text_blocks(title: str, lines: Sequence[str]) -> list[TextContent]:
    return [TextContent(type="text", text=f"{title}:\n" + "\n".join(lines))] if lines else []


async def describe_script_tool(
    tools: Sequence[MetaTool], view: CatalogView, options: StarlarkOptions
) -> tuple[MetaTool, ...]:
    """The meta-tools with the tools of this caller in the description of `execute_tool_script`."""
    return tuple([await tool.for_caller(view, options) if isinstance(tool, ScriptTool) else tool for tool in tools])


def list_tools(
    entries: Sequence[CatalogEntry], functions: Mapping[str, str], options: StarlarkOptions, finder: str
) -> str:
    """The tools of one caller, as many as the budget has room for: a line each, else names alone, and the `finder`."""
    if not entries:
        return "There are no tools."
    lines, used = ["Tools:"], len("Tools:")
    for entry in entries:
        about = " ".join((entry.description or entry.title or "").split())
        line = f"- {call_form(entry, functions)}{': ' if about else ''}{about}"
        lines.append(cut(line, MAX_LINE))
        used += len(lines[-1]) + 1
        if estimate_tokens(used) > options.description_tokens:
            break
    else:
        return "\n".join(lines)
    names, used = list[str](), 0
    for entry in entries:
        used += len(entry.name) + 2
        if estimate_tokens(used) > options.description_tokens - 50:
            break
        names.append(display_name(entry.name))
    more = f" and {len(entries) - len(names)} more" if len(names) < len(entries) else ""
    return f"Tools: {', '.join(names)}{more}. {finder} finds tools and says how they are called."
