"""The descriptions a model reads, printed from the policy and the limits in force, so that they cannot disagree."""

from __future__ import annotations

from codecall.meta_tools.base import separator_for
from codecall.options import PluginOptions
from codecall.sandbox.agentscript.policy import Rules, language_summary

_RESUMING = (
    " After a failure send the mended script with resumeFrom: <runId>: completed calls are answered from the record of "
    "that run while each tool is called with the same inputs in the same order."
)


def describe_search(options: PluginOptions) -> str:
    """The description of `codecall:search`."""
    _, describe, *_ = _names(options)
    return (
        "Find this server's tools by what they do: say the task in a few words, or several tasks in an array; '' gives "
        "an overview of the apps. Returns names, best first, with a score from 0 to 1; where nothing fits, what there "
        "is and what to try instead. detail 'typescript' adds declarations to write calls from; else read schemas with "
        f"{describe} first."
    )


def describe_describe(options: PluginOptions) -> str:
    """The description of `codecall:describe`."""
    search, *_ = _names(options)
    return (
        f"Schemas, hints and usage examples of tools, resources, templates and prompts by exact name, as {search} "
        "returns it. outputSchema is of the value a script gets; observedOutput was seen, where none is declared. "
        "Unknown names are in notFound, near ones in suggestions."
    )


def describe_invoke(options: PluginOptions) -> str:
    """The description of `codecall:invoke`."""
    _, describe, _, execute = _names(options)
    return (
        "Call one tool, without a script. Answers {status: 'ok', result} or {status: 'error', error: {code, "
        f"message}}}}.{_large_result(options, execute)} Read its schema with {describe} first; for several calls, or "
        f"to filter and join, use {execute}."
    )


def describe_execute(options: PluginOptions) -> str:
    """The description of `codecall:execute`: the API, the language, the limits."""
    search, describe, *_ = _names(options)
    preset = options.preset
    console = " console.log lines come in logs." if preset.allow_console else ""
    return (
        "Run one script over this server's tools that returns JSON: chain, filter, join, aggregate.\n"
        "await callTool(name, input) gives the tool's value or throws; so do users_list(input), tools['any name']("
        "input), and users.list(input) for users:list or the list of a server users. A last argument {throwOnError: "
        "false} gives {success, data | error: {code, message, toolName}}, {reference: true} a large value to pass on "
        "unread. getTool(name): its schemas. "
        f"{_others(options)} work likewise. "
        "__safe_parallel([() => callTool(…), …], {maxConcurrency: 10}) runs up to 100 functions to their end and gives "
        "their values in order, or throws one Error that names all failures. "
        f"Return, pass on or emit(block) pictures and files.{describe_extract(options)} "
        f"codecallContext is `context`, read-only.{console}\n"
        f"{language_summary(Rules.from_limits(preset))}\n"
        f"Limits: {_limits(options)}.\n"
        f"Never guess names ({search}) or schemas ({describe}). "
        f"Answers {{status, {_result(options)} | error}}; error.hint says how to mend it."
        f"{_RESUMING if options.resume is not None else ''}"
    )


def describe_extract(options: PluginOptions, *, await_it: bool = True) -> str:
    """What a script may have a model do; empty where it may not."""
    if options.extract is None:
        return ""
    wait = "await " if await_it else ""
    return (
        f" {wait}extract(value, '{{total: number}}') has a model read text into a TypeScript type or JSON Schema, "
        f"{options.extract.max_requests} times at most: for single values, not in loops."
    )


def _others(options: PluginOptions) -> str:
    """What a script may ask for besides tools."""
    if not options.results.enabled:
        return "readResource(uri) and getPrompt(name, args)"
    return "readResource(uri), getPrompt(name, args) and getResult(largeResult.handle)"


def _names(options: PluginOptions) -> tuple[str, str, str, str]:
    separator = separator_for(options, None)
    return (
        f"codecall{separator}search",
        f"codecall{separator}describe",
        f"codecall{separator}invoke",
        f"codecall{separator}execute",
    )


def _inline_size(options: PluginOptions) -> str:
    return _size(min(options.inline_result_bytes, options.preset.max_result_bytes))


def _result(options: PluginOptions) -> str:
    """Where the answer of execute has its result. Where none is kept, its size is a limit."""
    if not options.results.enabled:
        return "result"
    return f"result | largeResult {{handle, preview, shape}} if over {_inline_size(options)}"


def _large_result(options: PluginOptions, execute: str) -> str:
    """What becomes of a result of invoke that is too large for an answer; empty where it fails."""
    if not options.results.enabled:
        return ""
    return (
        f" A result over {_inline_size(options)} is kept: largeResult {{handle, preview, shape}}, "
        f"for getResult(handle) in {execute}."
    )


def describe_large_result(options: PluginOptions) -> str:
    """What a tool that runs Starlark says of a result that is too large for its answer."""
    if not options.results.enabled:
        return f"A result over {_size(options.preset.max_result_bytes)} is an error: return less."
    inline = _inline_size(options)
    return (
        f"A result over {inline} is kept, and the answer has largeResult {{handle, preview, hint}}: get_result(handle) "
        "reads it in a later script."
    )


def _limits(options: PluginOptions) -> str:
    preset = options.preset
    result = () if options.results.enabled else (f"result {_size(preset.max_result_bytes)}",)
    return ", ".join(
        (
            f"{_seconds(preset.timeout_ms)} of script time (tools excluded)",
            f"{_seconds(preset.max_duration_ms)} in all",
            f"{_seconds(preset.tool_call_timeout_ms)} a tool call",
            f"{preset.max_tool_calls:,} tool calls",
            f"{preset.max_iterations:,} turns of a loop (not callbacks)",
            f"{preset.max_steps:,} steps (turns and callbacks)",
            *result,
        )
    )


def _seconds(milliseconds: int) -> str:
    return f"{milliseconds / 1000:g} s"


def _size(count: int) -> str:
    for unit, name in ((1024 * 1024, "MiB"), (1024, "KiB")):
        if count % unit == 0:
            return f"{count // unit} {name}"
    return f"{count:,} bytes"
