"""Every span, attribute and metric, as data. docs/reference/telemetry.md shows these tables; a test compares the two.

Names that the semantic conventions for GenAI and MCP have are theirs (`gen_ai.*`, `error.type`); the rest begins with
`codecall.`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Final, Literal, NamedTuple, get_args

from codecall.errors import CodeCallError, LimitCode

SCOPE: Final = "codecall"
"""The instrumentation scope of everything below."""

OPERATION: Final = "codecall.operation"
STATUS: Final = "codecall.status"
ERROR: Final = "error.type"
DRY_RUN: Final = "codecall.dry_run"
RUN_ID: Final = "codecall.run.id"
PRESET: Final = "codecall.preset"
SCRIPT_SIZE: Final = "codecall.script.size"
SCRIPT_DURATION: Final = "codecall.script.duration"
STEPS: Final = "codecall.script.steps"
CALLS: Final = "codecall.run.calls"
ANSWER_SIZE: Final = "codecall.answer.size"
FOUND: Final = "codecall.answer.tools"
GEN_AI_OPERATION: Final = "gen_ai.operation.name"
TOOL: Final = "gen_ai.tool.name"
PROMPT: Final = "gen_ai.prompt.name"
CALL_NUMBER: Final = "codecall.call.number"
CALL_KIND: Final = "codecall.call.kind"
CALL_OUTCOME: Final = "codecall.call.outcome"
INPUT_SIZE: Final = "codecall.call.input.size"
OUTPUT_SIZE: Final = "codecall.call.output.size"
DIRECTION: Final = "codecall.io.direction"
WORKER_STATE: Final = "codecall.worker.state"
WORKER_ENDING: Final = "codecall.worker.ending"
RULE: Final = "codecall.rate.rule"
REASON: Final = "codecall.rate.reason"
SAVING: Final = "codecall.tokens.kind"

ATTRIBUTES: Final[dict[str, str]] = {
    OPERATION: "`search`, `describe`, `invoke`, `execute`, `execute_tool_script` or `composite`",
    STATUS: "`status` of the envelope; `ok` of an answer that has none; `error`: no answer; `cancelled`",
    ERROR: "the error's code; `_OTHER` for one that a tool made up; left out where all went well",
    DRY_RUN: "whether the script was only looked at",
    RUN_ID: "`runId` of the envelope",
    PRESET: "the preset's name; `custom` for a file",
    SCRIPT_SIZE: "bytes of the script",
    SCRIPT_DURATION: "seconds the script itself had the processor",
    STEPS: "loop turns and function entries",
    CALLS: "calls the script made",
    ANSWER_SIZE: "bytes of the answer",
    FOUND: "tools in the answer",
    GEN_AI_OPERATION: "`execute_tool`",
    TOOL: "the tool; left out where the call reached none",
    PROMPT: "the prompt; left out where the call reached none",
    CALL_NUMBER: "which call of the script, from 1",
    CALL_KIND: "`tool`, `resource`, `prompt` or `result`",
    CALL_OUTCOME: "`ok`, `error`, `unfinished` (given up while it ran) or `reused` (answered by an earlier run's)",
    INPUT_SIZE: "bytes of the input",
    OUTPUT_SIZE: "bytes of the value; 0 of a call that failed",
    DIRECTION: "`scripts`: from clients, with `context`; `to_tools`, `from_tools`: calls of scripts; `answers`",
    WORKER_STATE: "`busy` or `idle`",
    WORKER_ENDING: "`recycled` (its scripts are used up), `killed` (a script left it unusable), `died`, `replaced` "
    "(made room for another caller), `closed`",
    RULE: "the rule's name, else its `tool`",
    REASON: "`limit`, or `unchecked`: the store of the counts is away",
    SAVING: "`definitions`: tools a client was not listed; `results`: values that stayed in a script",
}
"""What each attribute says."""


class SpanSpec(NamedTuple):
    """One kind of span. All are INTERNAL."""

    name: str
    parent: str
    """Name of the parent."""
    description: str
    attributes: tuple[str, ...]


SEARCH: Final = "codecall.search"
DESCRIBE: Final = "codecall.describe"
INVOKE: Final = "codecall.invoke"
EXECUTE: Final = "codecall.execute"
EXECUTE_TOOL_SCRIPT: Final = "codecall.execute_tool_script"
QUEUE: Final = "codecall.queue"
VALIDATE: Final = "codecall.validate"
RUN: Final = "codecall.run"
EXECUTE_TOOL: Final = "execute_tool"
READ_RESOURCE: Final = "read_resource"
GET_PROMPT: Final = "get_prompt"
GET_RESULT: Final = "get_result"
EXTRACT: Final = "extract"

_REQUEST: Final = (STATUS, ERROR, ANSWER_SIZE)
_CALL: Final = (CALL_NUMBER, CALL_KIND, CALL_OUTCOME, ERROR, INPUT_SIZE, OUTPUT_SIZE)

SPANS: Final[tuple[SpanSpec, ...]] = (
    SpanSpec(SEARCH, "FastMCP's", "one search", (*_REQUEST, FOUND)),
    SpanSpec(DESCRIBE, "FastMCP's", "one description", (*_REQUEST, FOUND)),
    SpanSpec(INVOKE, "FastMCP's", "one direct call", _REQUEST),
    SpanSpec(
        EXECUTE,
        "FastMCP's",
        "one script, from its arguments to its envelope",
        (*_REQUEST, RUN_ID, PRESET, DRY_RUN, SCRIPT_SIZE, SCRIPT_DURATION, STEPS, CALLS),
    ),
    SpanSpec(
        EXECUTE_TOOL_SCRIPT,
        "FastMCP's",
        "one Starlark script, from its arguments to its answer; what is below a script's span is below this one, too",
        (*_REQUEST, RUN_ID, PRESET, DRY_RUN, SCRIPT_SIZE, SCRIPT_DURATION, STEPS, CALLS),
    ),
    SpanSpec(QUEUE, EXECUTE, "waiting for a worker", (ERROR,)),
    SpanSpec(VALIDATE, EXECUTE, "the worker checks the script", (ERROR,)),
    SpanSpec(RUN, EXECUTE, "the script runs; left out where it was refused before", (ERROR,)),
    SpanSpec(
        EXECUTE_TOOL,
        f"{EXECUTE}, {INVOKE}",
        "one call of a tool, whose name follows; FastMCP's own spans are below it",
        (GEN_AI_OPERATION, TOOL, *_CALL),
    ),
    SpanSpec(READ_RESOURCE, EXECUTE, "one read of a resource", _CALL),
    SpanSpec(GET_PROMPT, EXECUTE, "one prompt, whose name follows", (PROMPT, *_CALL)),
    SpanSpec(GET_RESULT, EXECUTE, "one read of an earlier script's result", _CALL),
    SpanSpec(EXTRACT, EXECUTE, "one value that a model reads into a type", _CALL),
)
"""Every span."""


class MetricSpec(NamedTuple):
    """One metric."""

    name: str
    kind: Literal["counter", "histogram", "gauge"]
    """`gauge` is an observable up-down counter: instances add up."""
    unit: str
    description: str
    attributes: tuple[str, ...] = ()


REQUEST_DURATION: Final = MetricSpec(
    "codecall.request.duration", "histogram", "s", "Time of one call of a meta-tool", (OPERATION, STATUS)
)
EXECUTIONS: Final = MetricSpec(
    "codecall.executions", "counter", "{execution}", "Scripts that ended", (STATUS, ERROR, DRY_RUN)
)
SCRIPT_TIME: Final = MetricSpec(
    "codecall.script.duration", "histogram", "s", "Time a script itself had the processor", (STATUS,)
)
QUEUE_TIME: Final = MetricSpec(
    "codecall.queue.duration", "histogram", "s", "Time a script waited for a worker", (ERROR,)
)
QUEUE_DEPTH: Final = MetricSpec("codecall.queue.depth", "gauge", "{execution}", "Scripts that wait for a worker")
WORKERS: Final = MetricSpec("codecall.worker.count", "gauge", "{worker}", "Worker processes alive", (WORKER_STATE,))
WORKER_LIMIT: Final = MetricSpec("codecall.worker.limit", "gauge", "{worker}", "Worker processes there may be")
WORKERS_ENDED: Final = MetricSpec(
    "codecall.worker.ended", "counter", "{worker}", "Worker processes that ended", (WORKER_ENDING,)
)
TOOL_CALLS: Final = MetricSpec(
    "codecall.tool.calls",
    "counter",
    "{call}",
    "Calls of tools, reads of resources and results, prompts",
    (OPERATION, CALL_KIND, CALL_OUTCOME, ERROR, TOOL),
)
TOOL_TIME: Final = MetricSpec(
    "codecall.tool.duration", "histogram", "s", "Time of one such call", (CALL_KIND, CALL_OUTCOME)
)
REFUSALS: Final = MetricSpec(
    "codecall.rate.refusals", "counter", "{call}", "Calls that a rate rule refused", (CALL_KIND, RULE, REASON)
)
IO: Final = MetricSpec("codecall.io", "counter", "By", "Bytes that went through CodeCall", (DIRECTION,))
TOKENS_SAVED: Final = MetricSpec(
    "codecall.tokens.saved", "counter", "{token}", "Tokens a model need not read, an estimate", (SAVING,)
)
TOKENS_SPENT: Final = MetricSpec(
    "codecall.tokens.spent", "counter", "{token}", "Tokens of answers of search and describe, an estimate"
)

METRICS: Final[tuple[MetricSpec, ...]] = (
    REQUEST_DURATION,
    EXECUTIONS,
    SCRIPT_TIME,
    QUEUE_TIME,
    QUEUE_DEPTH,
    WORKERS,
    WORKER_LIMIT,
    WORKERS_ENDED,
    TOOL_CALLS,
    TOOL_TIME,
    REFUSALS,
    IO,
    TOKENS_SAVED,
    TOKENS_SPENT,
)
"""Every metric."""

SECONDS: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300)
"""Bounds of the buckets of histograms: those of the conventions for MCP, with shorter ones before."""

OTHER: Final = "_OTHER"
"""The conventions' word for an error that has no name here."""


def error_type(code: object) -> str | None:
    """`error.type` for an error of that code; None for None."""
    if code is None:
        return None
    return code if isinstance(code, str) and code in _known() else OTHER


@cache
def _known() -> frozenset[str]:
    return frozenset((*get_args(LimitCode), *(kind.code for kind in _kinds(CodeCallError))))


def _kinds(root: type[CodeCallError]) -> Iterator[type[CodeCallError]]:
    yield root
    for kind in root.__subclasses__():
        yield from _kinds(kind)
