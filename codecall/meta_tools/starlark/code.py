"""`executeToolCode`: runs code whose tools are members of servers (`youtube.search(query="…")`), and answers with the
value of its variable `result`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from anyio import to_thread
from fastmcp.tools.base import ToolResult
from mcp_types import ContentBlock, TextContent, ToolAnnotations
from pydantic import PrivateAttr

from codecall.concurrency import CHUNK
from codecall.envelopes import ExecutionResult
from codecall.errors import CodeCallError
from codecall.globs import display_name
from codecall.meta_tools.base import Arguments, JsonObject, MetaTool, Runtime, parse_arguments, tool_result
from codecall.meta_tools.descriptions import describe_extract, describe_large_result
from codecall.meta_tools.run_request import ExecuteRequest
from codecall.meta_tools.runs import run_observed, start_script
from codecall.meta_tools.starlark.auto_execution import CodeBroker, check_code
from codecall.meta_tools.starlark.lookup import MAX_LISTED
from codecall.meta_tools.starlark.options import EXECUTE_CODE, GET_DOCS, LIST_FILES, READ_FILE, ToolFilesOptions
from codecall.meta_tools.starlark.script import answer_body, failure, output_schema
from codecall.meta_tools.starlark.servers import VALUE, ServerRules, ToolServer
from codecall.meta_tools.starlark.terms import MAX_DURATION_MS
from codecall.option_base import parse_duration
from codecall.presets import Preset
from codecall.sandbox.languages import server_terms
from codecall.wording import join_names


class CodeArguments(Arguments):
    """Arguments of `executeToolCode`."""

    code: str


_INPUT: JsonObject = {
    "type": "object",
    "properties": {"code": {"type": "string", "description": "Python (Starlark) code to execute, up to 64 KiB"}},
    "required": ["code"],
    "additionalProperties": False,
}

_ABOUT: Final = f"""\
Execute Python code in a sandboxed Starlark interpreter (a Python subset) with access to the tools of all servers.
Servers are global objects: value = youtube.search(query="x"). Workflow: {LIST_FILES} -> {READ_FILE} -> \
(optional) {GET_DOCS} -> {EXECUTE_CODE}; never guess names.
- Use keyword arguments: server.tool(param="value")
- Access dict values with brackets: value["key"] NOT value.key; value.get("key", default)
- Calls are synchronous, no async/await; parallel([lambda: a.x(), lambda: b.y()]) runs several at once
- print(...) writes logs; assign to `result` to return a value. Nothing is kept for the next call
- No import, class, while, try, f-strings or recursion; try_call(server.tool, param="value") gives {{"ok", "value" | \
"error"}} instead of failing"""


class CodeTool(MetaTool):
    """Runs code over servers."""

    calls_tools = True
    _preset: Preset = PrivateAttr()
    _rules: ServerRules = PrivateAttr()

    @classmethod
    def create(cls, runtime: Runtime) -> CodeTool:
        """Create the tool; `runtime` has the option `tool_files`."""
        tool = cls.build(
            runtime,
            verb="execute",
            title="Execute code over tools",
            description=f"{_ABOUT}\n- {describe_large_result(runtime.options)}"
            f"{describe_extract(runtime.options, await_it=False)}",
            parameters=_INPUT,
            output_schema=output_schema("The value of the variable `result`"),
            annotations=ToolAnnotations(
                read_only_hint=False, destructive_hint=True, idempotent_hint=False, open_world_hint=True
            ),
        ).called(EXECUTE_CODE)
        options, preset = runtime.options.tool_files or ToolFilesOptions(), runtime.options.preset
        timeout_ms = max(1, int((parse_duration(options.tool_execution_timeout) or 0) * 1000))
        limits = {
            "tool_call_timeout_ms": min(preset.tool_call_timeout_ms, timeout_ms),
            "max_duration_ms": min(preset.max_duration_ms, MAX_DURATION_MS),
        }
        tool._preset = preset.model_copy(update=limits)
        tool._rules = ServerRules(options)
        return tool

    async def respond(self, arguments: dict[str, Any]) -> ToolResult:
        """Run the code. Whatever is wrong with it is a result that says so.

        Raises:
            ValidationError: the arguments are wrong.
        """
        parsed = parse_arguments(CodeArguments, self.name, arguments)
        context, view = self._view()
        servers = await self._rules.of_caller(context, view)
        self._rules.warn_of_unseen()
        tools = {
            key: {function: (entry.name, entry.input_schema) for function, entry in server.tools.items()}
            for key, server in servers.items()
        }
        options = self._runtime.options
        terms = partial(
            server_terms,
            parsed.code,
            tools,
            value=VALUE,
            extracts=options.extract is not None,
            results=options.results.enabled,
        )
        many = sum(map(len, tools.values())) > CHUNK
        request = ExecuteRequest(
            parsed.code,
            starlark=await to_thread.run_sync(terms) if many else terms(),
            tool=self.name,
            preset=self._preset,
        )
        check = partial(
            check_code,
            servers=list(servers.values()),
            list_servers=lambda: self._rules.of_caller(*self._view()),
            code=parsed.code,
            automatic=self._rules.automatic,
        )
        start = start_script(self._runtime, context, request, check=check)
        files = view.only(frozenset(entry.name for server in servers.values() for entry in server.tools.values()))
        result, blocks = await run_observed(self._runtime, context, files, request, start, broker_class=CodeBroker)
        if result.error is None:
            return self._answer(result, blocks)
        self.spell_hint(result.error)
        return _failed(result, result.error, servers)

    def _answer(self, result: ExecutionResult, blocks: Sequence[ContentBlock]) -> ToolResult:
        """One text, the JSON of what is structured content, too."""
        warnings = list(result.warnings)
        if result.value is None and result.large is None and not result.logs and not warnings:
            what = f"The code gave no value and printed nothing: assign what it is for to `{VALUE}`, or print it."
            warnings.append(what)
        return tool_result(answer_body(result, warnings), blocks=blocks)


def _failed(result: ExecutionResult, error: CodeCallError, servers: dict[str, ToolServer]) -> ToolResult:
    """An error with its hints, the first of them about itself, the next what servers there are."""
    hints = (error.hint or "").splitlines() or ["Look at the line shown."]
    hints.insert(1, f"Available server keys: {join_names(servers, MAX_LISTED, display_name) or '(none)'}")
    lines = [f"Error: {error.message}", "Hints:", *(f"- {hint}" for hint in hints)]
    if error.location is not None:
        lines.append(f"Place: line {error.location.line}, column {error.location.column}")
    lines += ["Logs:", *result.logs] if result.logs else []
    text = "\n".join(f"# {line}" for part in lines for line in part.splitlines() or [""])
    return failure([TextContent(type="text", text=text)], result.envelope())
