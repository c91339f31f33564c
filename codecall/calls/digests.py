"""Fingerprints of what scripts send: the same for the same input, whatever the order of its keys.

The digest of an input is the SHA-256 of its JSON with sorted keys and no blanks. One longer than `MAX_SORTED` is not
taken apart, which would hold up everybody: its digest is that of the text as the script's engine wrote it, and there
the order of keys does count. The text says nothing of who may read it: few possible inputs can be tried out.
"""

from __future__ import annotations

import hashlib
from typing import Final

import anyio.to_thread
import msgspec

from codecall.decoding import read_json

MAX_SORTED: Final = 64 * 1024
"""Characters of input whose keys are sorted: half a millisecond."""


def digest(text: str) -> str:
    """The digest of an input, given as JSON text; 64 hexadecimal digits."""
    return hashlib.sha256(_canonical(text)).hexdigest()


async def digest_soon(text: str) -> str:
    """The same, off the event loop where it takes long."""
    return digest(text) if len(text) <= MAX_SORTED else await anyio.to_thread.run_sync(digest, text)


def sha256(text: str) -> str:
    """SHA-256 of a text as UTF-8; 64 hexadecimal digits."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _canonical(text: str) -> bytes:
    if len(text) <= MAX_SORTED:
        try:
            return msgspec.json.encode(read_json(text), order="sorted")
        except (ValueError, OverflowError, RecursionError):
            pass  # what cannot be read is compared letter by letter
    return text.encode("utf-8", "surrogatepass")
