"""JSON text from a worker, decoded without holding up the event loop."""

from __future__ import annotations

import anyio.to_thread
import msgspec

LARGE_JSON_BYTES = 256 * 1024
"""JSON text above this size is decoded in a thread: about a millisecond of event loop."""

_decode_json = msgspec.json.decode


async def decode_json(text: str) -> object:
    """Parse JSON text; a large one in a thread.

    Raises:
        msgspec.DecodeError, RecursionError: not JSON, or nested deeper than the interpreter allows.
    """
    if len(text) > LARGE_JSON_BYTES:
        return await anyio.to_thread.run_sync(_decode_json, text)
    return _decode_json(text)
