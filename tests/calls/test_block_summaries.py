"""What a person is shown in place of the data that a call passes on."""

from __future__ import annotations

import asyncio
import base64
import hashlib

import pytest
from mcp_types import ImageContent

from codecall.calls import blocks
from codecall.calls.blocks import BlockLimits, BlockStore

LIMITS = BlockLimits(max_content_blocks=10, max_content_bytes=10_000_000, passed_bytes=1_000_000_000)
LARGE = bytes(range(256)) * 4_000
"""More than one piece, of a length that base64 pads."""


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


@pytest.mark.parametrize(
    ("data", "content"),
    [
        (encoded(b""), b""),
        (encoded(b"a picture"), b"a picture"),
        (encoded(LARGE), LARGE),
        (encoded(LARGE[:-1]), LARGE[:-1]),
        (encoded(LARGE[: 3 * 64 * 1024]), LARGE[: 3 * 64 * 1024]),
        # What is no base64 is hashed as text.
        (text := "no base64 " * 60_000, text.encode()),
        (text := "\ud800\u00fc" * 60_000, text.encode("utf-8", "surrogatepass")),
        (text := f"{encoded(b'1')}{encoded(LARGE)}", text.encode()),
        (text := f"{encoded(LARGE[: 3 * 64 * 1024 - 1])}{encoded(LARGE)}", text.encode()),
    ],
)
async def test_the_size_and_hash_of_its_bytes(data: str, content: bytes) -> None:
    store = BlockStore(LIMITS, "ann")
    (reference,) = await store.keep([ImageContent(data=data, mime_type="image/png")])
    resolved = await store.resolve({"picture": reference}, {"type": "object"})
    about = f"image/png, {len(content):,} bytes, SHA-256 {hashlib.sha256(content).hexdigest()}"
    assert about in str(resolved.displayed)
    assert resolved.arguments == {"picture": data}


async def test_calls_side_by_side_have_one_block_hashed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[str] = []
    summary = blocks._summary  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(blocks, "_summary", lambda block: hashed.append(block.type) or summary(block))
    store = BlockStore(LIMITS, "ann")
    (reference,) = await store.keep([ImageContent(data=encoded(LARGE), mime_type="image/png")])
    calls = [store.resolve({"picture": reference}, {"type": "object"}) for _ in range(20)]
    assert len({str(resolved.displayed) for resolved in await asyncio.gather(*calls)}) == 1
    assert hashed == ["image"]
