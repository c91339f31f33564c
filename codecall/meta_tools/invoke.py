"""`codecall:invoke`: call one tool with no script and no worker, under the same rules as a script's call."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from typing import Annotated, Any, Final

from fastmcp.server.context import Context
from fastmcp.tools.base import ToolResult
from mcp_types import ToolAnnotations

from codecall.audit.recorder import new_call_id
from codecall.calls.blocks import BlockKeeper, BlockLimits
from codecall.calls.broker import Broker
from codecall.envelopes import INVOKE_SCHEMA, CallRecord, invoke_error, invoke_large, invoke_ok
from codecall.errors import AccessDeniedError, CodeCallError, LimitExceeded, SelfReferenceError, ToolCallError
from codecall.errors.hints import add_default_hint
from codecall.globs import Patterns, display_name
from codecall.identity import client_key
from codecall.jsonio.check import well_formed_json
from codecall.jsonio.decode import (
    BYTES_PER_CONTAINER,
    FEWEST_CONTAINERS,
    JsonBounds,
    NotJsonError,
    TooManyContainersError,
    decode_json,
    utf8_length,
)
from codecall.meta_tools.base import (
    WELL_FORMED,
    Arguments,
    JsonObject,
    MetaTool,
    Runtime,
    observed_output_schema,
    parse_arguments,
    result_observer,
    tool_result,
)
from codecall.meta_tools.descriptions import describe_invoke
from codecall.meta_tools.runs import caller_results, max_value_bytes
from codecall.sandbox.clock import RunClock
from codecall.sandbox.interfaces import ResultPlace
from codecall.telemetry.spans import trace_invoke

MAX_DEPTH: Final = 100
"""Objects and arrays within each other in a value. Clients stop reading an answer at 128 or 200, and the call would
wait for ever."""

INVOKE_HINTS: Final = {
    "INVALID_INPUT": "Correct the fields named here; codecall:describe gives the whole schema.",
    "TOOL_EXECUTION_ERROR": "The call itself failed: change what its message complains of, or go on without it.",
    "INPUT_REQUIRED": "A person has to answer: call the tool where its server can ask one.",
    "TASK_STARTED": "The work goes on; ask for its result later, by `details.taskId`.",
}
"""Default hints where no script makes the call; of the other codes those of scripts hold."""

_LESS: Final = "Ask the tool for less, or take what is needed of it in a script."


class InvokeArguments(Arguments):
    """Arguments of `codecall:invoke`."""

    tool: Annotated[str, WELL_FORMED]
    input: dict[str, Any]


_INPUT: JsonObject = {
    "type": "object",
    "properties": {
        "tool": {"type": "string", "description": "Exact name of the tool"},
        "input": {"type": "object", "description": "What its inputSchema asks"},
    },
    "required": ["tool", "input"],
    "additionalProperties": False,
}


class InvokeTool(MetaTool):
    """Calls one tool."""

    calls_tools = True

    @classmethod
    def create(cls, runtime: Runtime) -> InvokeTool:
        """Create the tool under the advertised name."""
        return cls.build(
            runtime,
            verb="invoke",
            title="Call one tool",
            description=describe_invoke(runtime.options),
            parameters=_INPUT,
            output_schema=INVOKE_SCHEMA,
            annotations=ToolAnnotations(
                read_only_hint=False, destructive_hint=True, idempotent_hint=False, open_world_hint=True
            ),
        )

    async def respond(self, arguments: dict[str, Any]) -> ToolResult:
        """Call the tool; pictures, sounds, files and links that it returns follow the envelope as they are. A tool that
        fails is an envelope; only wrong arguments are an error."""
        parsed = parse_arguments(InvokeArguments, self.name, arguments)
        options = self._runtime.options
        context, view = self._view()
        relay = self._runtime.relay(context)
        gate = await relay.gate(context, new_call_id(), RunClock()) if relay is not None else None
        broker = Broker(
            context,
            view,
            allowed_tools=None,  # `direct_calls` is looked at first, for an error of its own
            tool_call_timeout_ms=options.preset.tool_call_timeout_ms,
            max_value_bytes=max_value_bytes(options.preset),
            sanitization=options.sanitization,
            on_result=result_observer(self._runtime, context),
            observed_schema=partial(observed_output_schema, self._runtime, context),
            create_blocks=lambda: BlockKeeper(BlockLimits.from_preset(options.preset)),
            gate=gate.admit if gate is not None else None,
            questions=gate.questions.pass_on if gate is not None and options.approvals is not None else None,
        )
        try:
            with (
                trace_invoke(parsed.tool, broker.used_components) as trace_value,
                self._record(context, parsed) as record_value,
            ):
                await self._check_direct(broker, parsed.tool)
                text = await well_formed_json(await broker.call(parsed.tool, parsed.input))
                place = ResultPlace(caller_results(self._runtime, client_key(context)), options.preset.max_result_bytes)
                inline = place.is_inline(utf8_length(text))
                value = await _decode(text, parsed.tool, place.max_result_bytes) if inline else None
                trace_value(text)
                record_value(text)
            answer = _answer(value, text) if inline else await _keep(place, text, parsed.tool)
        except CodeCallError as error:
            if isinstance(error, SelfReferenceError):
                error.message = f"No tool of CodeCall is called through another: {display_name(parsed.tool)}"
                error.hint = "Call it itself, or give the name of a tool that codecall:search finds."
            add_default_hint(error, hints=INVOKE_HINTS)
            self.spell_hint(error)
            return tool_result(invoke_error(error), is_error=options.mark_errors)
        finally:
            if gate is not None:
                gate.end()
        if broker.blocks is not None:
            answer.content += broker.blocks.blocks
        return answer

    async def _check_direct(self, broker: Broker, tool: str) -> None:
        """Raise the error for a tool that `direct_calls` leaves to scripts. What nothing may call has the error that it
        has without that option."""
        allowed = self._runtime.options.direct_calls.allowed_tools
        if allowed is None or Patterns(allowed).matches(tool):
            return
        await broker.admit("tool", tool)
        raise AccessDeniedError(
            f"Tool '{display_name(tool)}' may not be called directly",
            tool_name=display_name(tool),
            hint="Call it in a script, with codecall:execute.",
        )

    @contextmanager
    def _record(self, context: Context, arguments: InvokeArguments) -> Generator[Callable[[str], None]]:
        """Put the call into the audit record; yields the callback that takes the JSON text of the value."""
        audit = self._runtime.audit
        if not audit.enabled:
            yield lambda _: None
            return
        # What cannot be written as JSON, no tool takes.
        text = json.dumps(arguments.input, separators=(",", ":"), ensure_ascii=False)
        call = CallRecord(1, "tool", arguments.tool, input_chars=len(text))
        values: list[str] = []
        call.start()
        try:
            yield values.append
            call.result_chars = len(values[0])
            call.end()
        except CodeCallError as error:
            call.end(error.code)
            raise
        finally:
            audit.record_invoke(client_key(context), call, text, values[0] if values else None)


def _answer(value: object, text: str) -> ToolResult:
    return tool_result(invoke_ok(value), text=f'{{"status":"ok","result":{text}}}')


async def _keep(place: ResultPlace, text: str, tool: str) -> ToolResult:
    """The answer with the handle of a value that is kept, or with all of it and a warning where there is no room.

    Raises:
        CodeCallError: it can neither be kept nor be in an answer.
    """
    stored = await place.keep(text, utf8_length(text))
    if not isinstance(stored, str):
        return tool_result(invoke_large(stored))
    return tool_result(invoke_ok(await _decode(text, tool, place.max_result_bytes), [stored]))


async def _decode(text: str, tool: str, max_bytes: int) -> object:
    """The value of a tool that is in an answer of at most `max_bytes`.

    Raises:
        ToolCallError: clients cannot read it.
        LimitExceeded: it has too many parts.
    """
    bounds = JsonBounds(MAX_DEPTH, FEWEST_CONTAINERS + max_bytes // BYTES_PER_CONTAINER)
    try:
        return await decode_json(text, bounds)
    except TooManyContainersError as failure:
        raise LimitExceeded(
            f"The result has {failure.count} objects and arrays; the limit is {bounds.containers}",
            code="OUTPUT_LIMIT",
            hint=_LESS,
        ) from None
    except NotJsonError:
        raise ToolCallError(
            f"Tool '{display_name(tool)}' returned a value that is nested more than {MAX_DEPTH} deep, or has a number "
            "out of range",
            tool_name=tool,
            hint=_LESS,
        ) from None
