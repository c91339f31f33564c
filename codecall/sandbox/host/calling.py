"""The calls of one script: admitted as its worker sends them, performed by its broker, entered in its ledger."""

from __future__ import annotations

import asyncio
from typing import NamedTuple, cast

from codecall.errors import (
    CodeCallError,
    InvalidInputError,
    MessageValidationError,
    ResultNotFoundError,
    ToolCallError,
    TooManyPendingCallsError,
)
from codecall.made_calls import MadeCall
from codecall.sandbox import wire
from codecall.sandbox.broker import ToolBroker
from codecall.sandbox.host.ledger import Ledger
from codecall.sandbox.host.outcomes import told, unexpected
from codecall.sandbox.host.payloads import Bounds, NotJson, TooManyContainers, decode_json, json_text
from codecall.sandbox.host.resolving import Resolving
from codecall.sandbox.host.sidecar import Allowance, Sidecar
from codecall.sandbox.services import Services


class Given(NamedTuple):
    """What came of a call that worked."""

    value: str
    """JSON text."""
    reference: str | None
    """What the script gets in its place; JSON text, too."""


class Calling:
    """Makes the calls of one script.

    Args:
        broker: Performs them.
        limits: Of the run.
        services: Who watches, and what remembers.
        allowance: What of their values may stay outside the engine.
    """

    def __init__(self, broker: ToolBroker, limits: wire.Limits, services: Services, allowance: Allowance) -> None:
        self._broker = broker
        self._limits = limits
        self._services = services
        self.ledger = Ledger()
        """What became of them."""
        self.errors: dict[int, ToolCallError] = {}
        """Of those that failed, by number."""
        self.sidecar = Sidecar(allowance)
        """Their values that the script has references to."""

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
            longest = wire.MAX_URI_LENGTH if call.kind in ("resource", "result") else wire.MAX_NAME_LENGTH
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
        text = await self.sidecar.stable(call.input) if self.sidecar.named(call.input) else call.input
        made.start()
        ended = self._services.watch.calling(made, text)
        given: Given | None = None
        try:
            given = await self._outcome(call, made, text)
        finally:
            if ended is not None:
                ended(None if given is None else given.value)
        if given is not None:
            value, reference = given
            return wire.Answer(call.call, ok=True, payload=reference or value, reference=reference is not None)
        return wire.Answer(call.call, ok=False, payload=json_text(told(self.errors[call.call])))

    async def _outcome(self, call: wire.Call, made: MadeCall, text: str) -> Given | None:
        """What came of a call; None of one that failed, whose error is then in `errors`."""
        try:
            longest = self.sidecar.admit(call) if call.reference else None
            value = await self._remembered(call, made, text, longest)
            given = Given(value, await self.sidecar.keep(call, value) if call.reference else None)
        except ToolCallError as error:
            self.sidecar.advise(call, error)
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
            return given
        made.end(failure.code)
        self.errors[call.call] = failure
        return None

    async def _remembered(self, call: wire.Call, made: MadeCall, text: str, longest: int | None) -> str:
        """The value of a call as JSON text, from where earlier runs are remembered, if it is."""
        memory = self._services.memory
        if memory is None or call.kind == "result":
            return await self._value(call, longest)
        value = await memory.recall(made, text)
        made.reused = value is not None
        if value is None:
            try:
                value = await self._value(call, longest)
            except Exception:
                await memory.keep(made, text, None)
                raise
        await memory.keep(made, text, value)
        return value

    async def _value(self, call: wire.Call, longest: int | None) -> str:
        if call.kind == "resource":
            return await self._broker.read(call.name, max_bytes=longest)
        if call.kind == "result":
            return await self._kept(call, longest)
        perform = self._broker.call if call.kind == "tool" else self._broker.prompt
        arguments = await self._arguments(call)
        if not self.sidecar.named(call.input):
            return await perform(call.name, arguments, max_bytes=longest)
        async with Resolving(self.sidecar, self._limits, call).arguments(arguments) as whole:
            return await perform(call.name, whole, max_bytes=longest)

    async def _kept(self, call: wire.Call, longest: int | None) -> str:
        part = await self._arguments(call)
        if self._services.results is None:
            hint = "No results are kept here: return what a later script needs, and pass it on as `context`."
            message = f"Result '{call.name}' was not found"
            raise ResultNotFoundError(message, tool_name=call.name, called="result", hint=hint)
        return await self._services.results.fetch(call.name, part, max_bytes=longest)

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
