"""The default hints of errors: what a script's author does next."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from codecall.errors import CodeCallError
from codecall.wording import cut

LISTING_WORDS: Final = frozenset(
    {"list", "search", "find", "describe", "names", "all", "help", "map", "filter", "forEach", "some", "reduce", "get"}
    | {"listTools", "list_tools", "searchTools", "search_tools", "getTools", "get_tools", "findTools", "find_tools"}
    | {"describeTools", "describe_tools", "tools", "tools/list", "search_docs", "discover"}
)
"""Names of tools that no tool has, by which scripts look for tools as other code modes have them."""

_FUNCTIONS: Final = {
    "JavaScript": {
        "callTool": "await callTool('name', { … })",
        "readResource": "await readResource('uri')",
        "getPrompt": "await getPrompt('name', { … })",
        "getTool": "getTool('name')",
        "getResult": "await getResult('res_…')",
        "extract": "await extract(text, '{ total: number }')",
        "emit": "emit(block)",
        "__safe_parallel": "await __safe_parallel([() => …])",
    },
    "Starlark": {
        "call_tool": 'call_tool("name", key=value)',
        "try_call": 'try_call("name", key=value)',
        "parallel": "parallel([lambda: …])",
        "get_result": 'get_result("res_…")',
    },
}
"""Functions that scripts have by themselves, and how they are called, by language."""


def function_hint(name: str) -> str | None:
    """The hint for a script that calls one of its own functions as if it were a tool; None for other names."""
    for language, forms in _FUNCTIONS.items():
        if name in forms:
            return f"In {language} it is a function of the script, not a tool: write `{forms[name]}`."
    return None


MAX_NAMED_CHARS: Final = 400
"""Most characters of the names that `listing_hint` has."""


def listing_hint(names: Sequence[str], display: Callable[[str], str] = str) -> str:
    """The hint for a script that calls one of `LISTING_WORDS`.

    Args:
        names: what it may call.
        display: gives the form in which a message shows a name.
    """
    named: list[str] = []
    size = 0
    for name in map(display, names):
        size += len(name) + 2
        if size > MAX_NAMED_CHARS:
            break
        named.append(name)
    rest = f" and {len(names) - len(named)} more" if len(named) < len(names) else ""
    listed = f" There are {', '.join(named)}{rest}." if named else ""
    return f"Scripts do not look for tools; `Object.keys(tools)` gives their names.{listed}"


MAX_HINT: Final = 800
"""Most characters of a hint, the summary of the script's calls included. Longer ones are cut with a mark."""

_AGAIN = "Send the script again"
_SERVER = "the script is not to blame"

DEFAULT_HINTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "SYNTAX_ERROR": "Mend the line shown; a script is JavaScript or TypeScript, the body of an async function.",
        "VALIDATION_ERROR": (
            "Say it with what AgentScript has: functions, objects, arrays, and `await callTool(name, input)`."
        ),
        "EXECUTION_ERROR": "Mend the line shown, or catch what may fail there with `try { … } catch (error) { … }`.",
        # Tools
        "TOOL_NOT_FOUND": "codecall:search finds tools by what they do.",
        "RESOURCE_NOT_FOUND": "codecall:search with `filter.kinds` `resource` and `template` finds resources.",
        "PROMPT_NOT_FOUND": "codecall:search with `filter.kinds` `prompt` finds prompts by what they are for.",
        "RESULT_NOT_FOUND": "Results are kept for a while only; run the script that made it again.",
        "ACCESS_DENIED": "Use another tool, or leave this step to somebody who may take it.",
        "EXTRACTION_FAILED": "Read the value in the script itself, or return it and read it yourself.",
        "RUN_DIVERGED": "Run the script again without requestState; pass times and random values in as `context`.",
        "FLOW_DENIED": "Do not pass these values on, nor in another form; call it without them, or tell the person.",
        "APPROVAL_DENIED": "Do not make the call again, nor by another tool; go on without it, or ask the person.",
        "APPROVAL_REQUIRED": (
            "A person has to allow the calls in `details`, and nobody has: tell the person, whose client must support "
            "elicitation, or do the rest without them."
        ),
        "INVALID_INPUT": "Correct the fields named here; of a tool `getTool(name).inputSchema` has the whole schema.",
        "TOOL_EXECUTION_ERROR": (
            "The call itself failed: change what its message complains of, or go on without it, with "
            "`try { … } catch (error) { … }` around it."
        ),
        "TOOL_TIMEOUT": (
            "Ask the tool for less, or split the question over several calls. What it was to change may have been "
            "changed all the same."
        ),
        "INPUT_REQUIRED": "Call the tool itself, not through CodeCall, where a person can answer.",
        "TASK_STARTED": "The work goes on without the script; ask for its result later, by `details.taskId`.",
        "SERVER_UNAVAILABLE": (
            "The server that has the tool is down: call again after `retryAfterMs`, or go on without it; tools of "
            "other servers work."
        ),
        "SERVER_TIMEOUT": "Ask for less at once. What the call was to change may have been changed all the same.",
        "RATE_LIMIT": "Wait as long as `retryAfterMs` says, where it says so, then call again, less often.",
        "MESSAGE_TOO_LARGE": "Move less data at once: ask for fewer rows or fields, or split the input.",
        # Time
        "TIMEOUT": "Do less in one script: page, filter with the tools' own parameters, or split the work.",
        "WORKER_TIMEOUT": (
            "The script was stuck in one long operation, such as a regular expression or a sort of very much data: use "
            "smaller pieces, or a simpler pattern."
        ),
        # Limits
        "OUTPUT_LIMIT": "Return less: filter, aggregate, or select the fields that are needed.",
        "WORKER_MEMORY_EXCEEDED": (
            "Keep less data at once: work page by page and keep only the fields that are needed."
        ),
        "TOO_MANY_PENDING_CALLS": "Make fewer calls at once: await each batch before starting the next.",
        # Workers
        "WORKER_CRASHED": f"{_AGAIN}; if it ends so once more, work on less data at once.",
        "WORKER_STARTUP_FAILED": f"{_AGAIN} in a moment; {_SERVER}.",
        "POOL_DISPOSED": f"The server is closing; {_SERVER}. {_AGAIN} when it is back.",
        "QUEUE_FULL": f"{_AGAIN} in a moment; other scripts are running.",
        "QUEUE_TIMEOUT": f"{_AGAIN} in a moment; other scripts are running.",
        "EXECUTION_ABORTED": f"{_AGAIN} in a moment, after a look at what its calls have done already.",
        "MESSAGE_FLOOD": "Write less to the console; return the data instead.",
        "MESSAGE_INVALID": f"{_AGAIN}; if it ends so once more, say it in another way.",
    }
)
"""The default hint of each code. Codes that tools define get the hint of TOOL_EXECUTION_ERROR."""

_OF_SCRIPTS: Final = frozenset({"SYNTAX_ERROR", "VALIDATION_ERROR", "EXECUTION_ERROR", "TIMEOUT", "OUTPUT_LIMIT"})
"""Codes whose hint is about the script that failed: from a tool, it is one that the caller has not written."""


def add_default_hint(error: CodeCallError, calls: str = "", hints: Mapping[str, str] = MappingProxyType({})) -> None:
    """Sets a default hint if `error` has none, appends the summary of the script's `calls`, and cuts it to `MAX_HINT`.

    Without `calls`, a second call changes nothing. `hints` go before `DEFAULT_HINTS`.
    """
    known = {**DEFAULT_HINTS, **hints}
    of_tool = error.source == "tool"
    default = None if of_tool and error.code in _OF_SCRIPTS else known.get(error.code)
    hint = error.hint or default or (known["TOOL_EXECUTION_ERROR"] if of_tool else "")
    room = MAX_HINT - len(calls) - 1 if calls else MAX_HINT
    error.hint = " ".join(filter(None, (cut(hint, room), calls))) or None
