"""The calls of one script: admitted as its worker sends them, performed by its broker, entered in its ledger."""

from __future__ import annotations

import asyncio
from typing import cast

from codecall.envelopes import MadeCall
from codecall.errors import (
    CodeCallError,
    InvalidInputError,
    MessageValidationError,
    ToolCallError,
    TooManyPendingCallsError,
)
from codecall.sandbox import wire
from codecall.sandbox.broker import ToolBroker
from codecall.sandbox.host.ledger import Ledger
from codecall.sandbox.host.outcomes import told, unexpected
from codecall.sandbox.host.payloads import Bounds, NotJson, TooManyContainers, decode_json, json_text
from codecall.sandbox.services import Services


class Calling:
    """Makes the calls of one script.

    Args:
        broker: Performs them.
        limits: Of the run.
        services: Who watches, and what remembers.
    """

    def __init__(self, broker: ToolBroker, limits: wire.Limits, services: Services) -> None:
        self._broker = broker
        self._limits = limits
        self._services = services
        self.ledger = Ledger()
        """What became of them."""
        self.errors: dict[int, ToolCallError] = {}
        """Of those that failed, by number."""

    def admit(self, frame: wire.Calls) -> list[wire.Call]:
        """The calls of a frame, if the worker may make them; they are in the ledger then.

        Raises:
            WorkerError: it may not.
        """
        if len(frame.calls) > wire.MAX_CALLS_PER_FRAME:
            raise TooManyPendingCallsError(
                f"The script has more than {wire.MAX_CALLS_PER_FRAME} tool calls pending",
                hint="Make fewer calls at once: await each batch before starting the next.",
            )
        for call in frame.calls:
            longest = wire.MAX_URI_LENGTH if call.kind == "resource" else wire.MAX_NAME_LENGTH
            if call.call != len(self.ledger.calls) + 1 or len(call.name) > longest:
                raise MessageValidationError("The worker numbered or named its tool calls wrongly")
            if call.kind == "resource" and call.input != "{}":
                raise MessageValidationError("The worker sent input with the URI of a resource")
            if len(call.input) > self._limits.max_result_bytes:
                raise MessageValidationError("The worker sent a tool input larger than its preset allows")
            self.ledger.add(call)
        if len(self.ledger.calls) > self._limits.max_tool_calls:
            raise MessageValidationError("The worker made more tool calls than its preset allows")
        return frame.calls

    async def perform(self, call: wire.Call) -> wire.Answer:
        """Make one call that was admitted.

        Raises:
            CodeCallError: it ends the script.
        """
        made = self.ledger.calls[call.call]
        made.start()
        ended = self._services.watch.calling(made, call.input)
        value: str | None = None
        try:
            value = await self._outcome(call, made)
        finally:
            if ended is not None:
                ended(value)
        if value is not None:
            return wire.Answer(call.call, ok=True, payload=value)
        return wire.Answer(call.call, ok=False, payload=json_text(told(self.errors[call.call])))

    async def _outcome(self, call: wire.Call, made: MadeCall) -> str | None:
        """The value of a call as JSON text; None of one that failed, whose error is then in `tool_errors`."""
        try:
            value = await self._remembered(call, made)
        except ToolCallError as error:
            failure = error
        except CodeCallError as error:
            made.end(error.code)
            raise
        except asyncio.CancelledError:
            if (task := asyncio.current_task()) is None or task.cancelling():
                raise
            # Nobody has cancelled this run: the tool let through the end of something of its own.
            message = f"{call.kind.capitalize()} '{call.name}' was cancelled before it answered"
            failure = ToolCallError(message, tool_name=call.name, called=call.kind)
        except Exception as error:
            failure = unexpected(call.name, error, call.kind)
        else:
            made.result_chars = len(value)
            made.end()
            return value
        made.end(failure.code)
        self.errors[call.call] = failure
        return None

    async def _remembered(self, call: wire.Call, made: MadeCall) -> str:
        """The value of a call as JSON text, from where earlier runs are remembered, if it is."""
        memory = self._services.memory
        if memory is None:
            return await self._value(call)
        value = await memory.recall(made, call.input)
        made.reused = value is not None
        if value is None:
            try:
                value = await self._value(call)
            except BaseException:
                await memory.keep(made, call.input, None)
                raise
        await memory.keep(made, call.input, value)
        return value

    async def _value(self, call: wire.Call) -> str:
        if call.kind == "resource":
            return await self._broker.read(call.name)
        perform = self._broker.call if call.kind == "tool" else self._broker.prompt
        return await perform(call.name, await self._arguments(call))

    async def _arguments(self, call: wire.Call) -> dict[str, object]:
        try:
            arguments = await decode_json(call.input, Bounds.of(self._limits))
        except NotJson:
            raise MessageValidationError("The worker sent tool input that is not JSON") from None
        except TooManyContainers as failure:
            raise InvalidInputError(
                f"The input of '{call.name}' has {failure.count} objects and arrays: too many for one call",
                tool_name=call.name,
                called=call.kind,
                hint="Split the input over several calls.",
            ) from None
        if not isinstance(arguments, dict):
            raise MessageValidationError("The worker sent tool input that is not an object")
        return cast("dict[str, object]", arguments)
