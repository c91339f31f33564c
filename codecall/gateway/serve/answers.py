"""Answers of clients to what a server asks them, in the bodies of HTTP requests.

The MCP SDK compares each value in them with every kind of answer there is, and keeps an error for each comparison: 1 MB
of numbers takes five seconds of the event loop and two gigabytes. So they are counted before it reads them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

from codecall.jsonio.decode import JsonBounds, NotJsonError, TooManyContainersError, decode_json, estimate_size

MAX_ANSWER_VALUES: Final = 2_000
"""Values in what a client answers; as many as a server's questions may have."""

_MAX_LEVELS: Final = 256
"""Objects and arrays within each other. The SDK reads 200."""


async def has_long_answer(body: bytes | bytearray, containers: int) -> bool:
    """Whether a body has an answer with more than `MAX_ANSWER_VALUES` values. What is no JSON has none.

    Args:
        body: Of a request.
        containers: The objects and arrays that it has at most.
    """
    try:
        message = await decode_json(body.decode("utf-8-sig"), JsonBounds(_MAX_LEVELS, containers))
    except (NotJsonError, TooManyContainersError, UnicodeDecodeError):
        return False  # it is refused as such
    return any(
        estimate_size(answer, MAX_ANSWER_VALUES, 1, lambda _text: 0) > MAX_ANSWER_VALUES for answer in _answers(message)
    )


def _answers(message: object) -> Iterator[object]:
    """The answer that a message is, or has among its parameters."""
    if isinstance(message, Mapping):
        known = cast("Mapping[str, Any]", message)
        parameters = known.get("params")
        yield known.get("result")
        yield known.get("error")
        if isinstance(parameters, Mapping):
            yield cast("Mapping[str, Any]", parameters).get("inputResponses")
