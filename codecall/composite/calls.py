"""The calls of one workflow: each numbered, observed, remembered for `resumeFrom`, and made by the broker."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Iterable, Mapping

from codecall.calls.broker import Broker
from codecall.catalog.entries import JsonObject
from codecall.composite.budgets import HeldData
from codecall.envelopes import MAX_STORED_INPUT_CHARS, CallRecord
from codecall.errors import CodeCallError, ToolCallError
from codecall.fastmcp_errors import log_unexpected
from codecall.globs import display_name
from codecall.jsonio.check import well_formed_json
from codecall.sandbox.interfaces import RunHooks


class WorkflowCalls:
    """Makes the calls of one run.

    Args:
        broker: Makes them.
        hooks: Observe and remember them.
        held: Counts their values.
    """

    def __init__(self, broker: Broker, hooks: RunHooks, held: HeldData) -> None:
        self.records: list[CallRecord] = []
        """The calls so far, in the order in which they were made."""
        self.held = held
        self._broker = broker
        self._hooks = hooks
        self._schemas: dict[str, JsonObject | None] = {}

    async def look_up(self, tools: Iterable[str]) -> None:
        """Look these tools up. Steps that begin together then make their calls together, so that whoever is asked about
        one, or told that it has to be allowed, hears of all."""
        for tool in tools:
            with contextlib.suppress(CodeCallError):  # which its step will meet, if it runs
                await self.input_schema(tool)

    async def input_schema(self, tool: str) -> JsonObject | None:
        """The schema of a tool's input; None where the caller has no such tool, which a call will say."""
        if tool not in self._schemas:
            described = await self._broker.describe(tool)
            schema = described["inputSchema"] if described is not None else None
            self._schemas[tool] = schema if isinstance(schema, dict) else None  # pyright: ignore[reportUnknownMemberType]
        return self._schemas[tool]

    async def call(self, tool: str, arguments: Mapping[str, object]) -> str:
        """Call a tool, and give its value as JSON text without half surrogate pairs.

        Raises:
            CodeCallError: the call failed.
        """
        input_json = json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))
        record = CallRecord(len(self.records) + 1, "tool", tool, input_json[:MAX_STORED_INPUT_CHARS], len(input_json))
        self.records.append(record)
        record.start()
        on_end = self._hooks.observer.on_call(record, input_json)
        result: str | None = None
        try:
            result = value = await well_formed_json(await self._value(record, input_json, dict(arguments)))
            record.result_chars = len(value)
            record.end()
        except CodeCallError as error:
            record.end(error.code)
            raise
        except asyncio.CancelledError:
            if (task := asyncio.current_task()) is None or task.cancelling():
                record.was_given_up = True
                raise
            # Nobody has cancelled this step: the tool let through the end of something of its own.
            record.end(ToolCallError.code)
            message = f"Tool '{display_name(tool)}' was cancelled before it answered"
            raise ToolCallError(message, tool_name=tool) from None
        except Exception as failure:
            record.end(ToolCallError.code)
            log_unexpected(f"calling tool {display_name(tool)!r} of a composite tool", failure)
            message = f"Tool '{display_name(tool)}' failed inside the server ({type(failure).__name__})"
            raise ToolCallError(message, tool_name=tool, hint="The server's log says why.") from None
        finally:
            if on_end is not None:
                on_end(result)
        await self.held.add(value)
        return value

    async def _value(self, record: CallRecord, input_json: str, arguments: dict[str, object]) -> str:
        memory = self._hooks.memory
        if memory is None:
            return await self._broker.call(record.name, arguments)
        value = await memory.recall(record, input_json)
        record.reused = value is not None
        if value is None:
            try:
                value = await self._broker.call(record.name, arguments)
            except Exception:
                await memory.keep(record, input_json, None)
                raise
        await memory.keep(record, input_json, value)
        return value
