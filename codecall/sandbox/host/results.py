"""The result a worker sends: within the preset's bounds, and JSON."""

from __future__ import annotations

from codecall.errors import LimitExceeded, MessageValidationError
from codecall.sandbox import wire
from codecall.sandbox.host.payloads import Bounds, NotJson, TooManyContainers, decode_json, utf8_length

MAX_WARNINGS = 50
"""Most warnings of one script; a last one says how many more there were."""


def text_of(done: wire.Done, limits: wire.Limits) -> str:
    """The JSON text of the result.

    Raises:
        MessageValidationError: there is none, or it is larger than the preset allows.
    """
    if done.value is None:
        raise MessageValidationError("The worker ended a script without a result")
    # A compromised worker may send more than the runtime in it would.
    if utf8_length(done.value) > limits.max_result_bytes:
        raise MessageValidationError("The worker sent a result larger than its preset allows")
    return done.value


async def value_of(done: wire.Done, limits: wire.Limits) -> object:
    """The data of the result.

    Raises:
        MessageValidationError: as for `text_of`, or it is not JSON.
        LimitExceeded: it has too many parts.
    """
    bounds = Bounds.of(limits)
    try:
        return await decode_json(text_of(done, limits), bounds)
    except NotJson:
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
