"""The result a worker sends: within the preset's bounds, and JSON; one that is too large for an answer is put away."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

import msgspec

from codecall.envelopes import LargeResult
from codecall.errors import LimitExceeded, MessageValidationError
from codecall.sandbox import wire
from codecall.sandbox.host.payloads import Bounds, NotJson, TooManyContainers, decode_json, utf8_length
from codecall.sandbox.services import ResultVault

MAX_WARNINGS = 50
"""Most warnings of one script; a last one says how many more there were."""

_check = msgspec.json.Decoder(msgspec.Raw).decode


class Sent(NamedTuple):
    """A result as its worker sent it."""

    text: str
    """JSON, or so the worker says."""
    size: int
    """Bytes of it, as UTF-8."""


def sent(done: wire.Done, limits: wire.Limits) -> Sent:
    """The text of the result.

    Raises:
        MessageValidationError: there is none, or it is larger than it may be.
    """
    if done.value is None:
        raise MessageValidationError("The worker ended a script without a result")
    # A compromised worker may send more than the runtime in it would.
    size = utf8_length(done.value)
    if size > limits.longest_result:
        raise MessageValidationError("The worker sent a result larger than its preset allows")
    return Sent(done.value, size)


async def large(result: Sent) -> Sent:
    """A result that is too large for an answer, if it is JSON. A megabyte takes 1.5 ms: no objects are made of it.

    Raises:
        MessageValidationError: it is not.
    """
    await asyncio.sleep(0)  # its frame has just been decoded
    try:
        _check(result.text)
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
        raise MessageValidationError("The worker sent a result that is not JSON") from None
    return result


async def kept(result: Sent, limits: wire.Limits, results: ResultVault | None) -> LargeResult:
    """Where a result is kept that is too large for an answer.

    Raises:
        LimitExceeded: it is not kept.
    """
    if results is None:
        raise LimitExceeded(
            f"The result is {result.size} bytes; the limit is {limits.max_result_bytes} bytes", code="OUTPUT_LIMIT"
        )
    return await results.keep(result.text, result.size)


async def value_of(text: str, limits: wire.Limits, *, referring: bool = False) -> object:
    """The data of the result.

    Args:
        text: JSON, or so the worker says.
        limits: Of the run.
        referring: Values stand in it in place of references, which are as deep as tools made them.

    Raises:
        MessageValidationError: it is not JSON.
        LimitExceeded: it has too many parts, or such a value is too deep.
    """
    bounds = Bounds.of(limits)
    try:
        return await decode_json(text, bounds)
    except NotJson:
        if referring:
            raise LimitExceeded(
                f"The result refers to values nested deeper than {bounds.depth} levels",
                code="OUTPUT_LIMIT",
                hint="Call without `reference: true`, and pick what is needed.",
            ) from None
        raise MessageValidationError("The worker sent a result that is not JSON") from None
    except TooManyContainers as failure:
        raise LimitExceeded(
            f"The result has {failure.count} objects and arrays; the limit is {bounds.containers}",
            code="OUTPUT_LIMIT",
            hint="Return less: filter, aggregate, or return rows as text.",
        ) from None


def warnings_of(done: wire.Done) -> tuple[str, ...]:
    """What was shortened on the way out, as far as it is told."""
    warnings = tuple(done.warnings[:MAX_WARNINGS])
    more = len(done.warnings) - len(warnings)
    return (*warnings, f"{more} more warnings were left out") if more else warnings
