"""What to do about a failure of which nothing nearer is known, by its code. Data: what is nearer, such as the shape of
the value a script misread, is found where the failure is made, and comes first."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from codecall.errors import CodeCallError

MAX_HINT: Final = 800
"""Most characters of any hint, what the calls of the script came to included. Longer ones are cut with a mark."""

_AGAIN = "Send the script again"
_SERVER = "the script is not to blame"

ADVICE: Final[Mapping[str, str]] = MappingProxyType(
    {
        "SYNTAX_ERROR": "Mend the line shown; a script is JavaScript or TypeScript, the body of an async function.",
        "VALIDATION_ERROR": (
            "Say it with what AgentScript has: functions, objects, arrays, and `await callTool(name, input)`."
        ),
        "EXECUTION_ERROR": "Mend the line shown, or catch what may fail there with `try { … } catch (error) { … }`.",
        # Tools
        "TOOL_NOT_FOUND": "codecall:search finds tools by what they do.",
        "RESOURCE_NOT_FOUND": "codecall:search finds resources by what they hold.",
        "PROMPT_NOT_FOUND": "codecall:search finds prompts by what they are for.",
        "RESULT_NOT_FOUND": "Results are kept for a while only; run the script that made it again.",
        "ACCESS_DENIED": "Use another tool, or leave this step to somebody who may take it.",
        "INVALID_INPUT": "Correct the fields named here; `getTool(name).inputSchema` has the whole schema.",
        "TOOL_EXECUTION_ERROR": (
            "The call itself failed: change what its message complains of, or go on without it, with "
            "`try { … } catch (error) { … }` around it."
        ),
        "TOOL_TIMEOUT": (
            "Ask the tool for less, or split the question over several calls. What it was to change may have been "
            "changed all the same."
        ),
        "INPUT_REQUIRED": "Call the tool itself, outside of a script, where a person can answer.",
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
"""By code. A code of a tool's own has the advice of TOOL_EXECUTION_ERROR."""


def advise(error: CodeCallError, calls: str = "") -> None:
    """Give `error` a hint if it has none, add what the script's `calls` came to, and see to it that it is not too long.

    Doing it twice changes nothing more, without `calls`.
    """
    hint = error.hint or ADVICE.get(error.code) or (ADVICE["TOOL_EXECUTION_ERROR"] if error.source == "tool" else "")
    room = MAX_HINT - len(calls) - 1 if calls else MAX_HINT
    error.hint = " ".join(filter(None, (_cut(hint, room), calls))) or None


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"
