"""Values that stay outside the engine: of each the script holds a reference, and passes it on to another tool
(`resolving.py`).

A reference names its value by a token. Tokens are made of chance, anew for every run, so nothing but a script of this
run can write one down: whatever else looks like one, in what a tool returns or a caller sends, is text. A token stands
for its value where it is all of a text, or in an object `{"$reference": token}`; as part of a longer text only where
the preset says so. Sizes are known, and refused, before anything is built.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import re
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple, cast

import anyio
import anyio.to_thread
import msgspec

from codecall.errors import InvalidInputError, ToolCallError
from codecall.options import Preset
from codecall.sandbox import wire
from codecall.sandbox.host import pieces
from codecall.sandbox.host.payloads import NotJson, json_text, utf8_length

KEY: Final = "$reference"
"""The member by which an object is known for a reference."""

MAX_PREVIEW: Final = 200
"""Characters of a value that its reference shows."""

TOO_LARGE: Final = "MESSAGE_TOO_LARGE"
"""The code of a value that is too large, whatever for."""

WINDOW: Final = 64 * 1024
"""Characters that are searched for tokens in one go: a millisecond at most."""

_INSTEAD: Final = "Or call with `{reference: true}` to pass the value on to another tool without reading it."

_TOKEN_LENGTH: Final = 33
_HALF: Final = re.compile(
    rb"\\(?:[^u]|u(?![dD][89a-fA-F])|u[dD][89abAB]..\\u[dD][c-fC-F]..)|(\\u[dD][89a-fA-F]..)", re.DOTALL
)
_is_json = msgspec.json.Decoder(msgspec.Raw).decode


class Allowance(NamedTuple):
    """What one run may have of this; the fields are those of a preset, without `reference_` before them."""

    min_bytes: int = 0
    max_bytes: int = 0
    total_bytes: int = 0
    resolved_bytes: int = 0
    passed_bytes: int = 0
    composites: bool = False

    @classmethod
    def of(cls, preset: Preset) -> Allowance:
        """What a preset allows."""
        return cls(
            preset.reference_min_bytes,
            preset.reference_max_bytes,
            preset.reference_total_bytes,
            preset.reference_resolved_bytes,
            preset.reference_passed_bytes,
            preset.reference_composites,
        )


NO_REFERENCES: Final = Allowance()
"""For a run that may have none."""


@dataclass(slots=True, eq=False)
class Kept:
    """One value."""

    data: bytes
    """Its JSON."""
    containers: int | None = None
    """Objects and arrays in it, once they have been counted."""
    digest: str | None = None
    """What tells it from other values, in every run the same."""

    @property
    def is_text(self) -> bool:
        """Whether it is a text."""
        return self.data.lstrip()[:1] == b'"'


class Found(NamedTuple):
    """A token of this run in a text."""

    start: int
    end: int
    kept: Kept


@dataclass(slots=True, eq=False)
class Sidecar:
    """The values of one script outside its engine.

    Args:
        allowance: How much there may be.
    """

    allowance: Allowance
    size: int = 0
    """Bytes of the values."""
    passed: int = 0
    """Bytes of those that calls were given, each as often as it was."""
    _kept: dict[str, Kept] = field(default_factory=dict[str, Kept])
    _secret: str = ""
    _lent: int = 0
    _room: anyio.Event | None = None

    def close(self) -> None:
        """Forget all values."""
        self._kept.clear()
        self.size = 0

    # ------------------------------------------------------------------------------------------------- keeping

    def admit(self, call: wire.Call) -> int:
        """How many bytes the value of a call may have that is to stay outside.

        Raises:
            ToolCallError: no more of them may. The call has not been made.
        """
        allowed = self.allowance
        if not allowed.max_bytes:
            raise InvalidInputError(
                f"'{call.name}' was not called: references are switched off here",
                tool_name=call.name,
                called=call.kind,
                hint="Call it without `reference: true`, and ask it for less if its value is large.",
            )
        if self.size >= allowed.total_bytes:
            raise self._too_much(call, f"'{call.name}' was not called", self.size)
        return allowed.max_bytes

    async def keep(self, call: wire.Call, value: str) -> str | None:
        """The reference to a value, as JSON text; None of a value that is so small that it is given itself.

        Args:
            call: Whose it is.
            value: JSON text.

        Raises:
            ToolCallError: it is too large, or together with the others.
        """
        size = utf8_length(value)
        allowed = self.allowance
        if size <= allowed.min_bytes:
            return None
        if size > allowed.max_bytes:
            raise ToolCallError(
                f"'{call.name}' returned {size} bytes; a value kept by reference may have {allowed.max_bytes}",
                tool_name=call.name,
                called=call.kind,
                code=TOO_LARGE,
                details={"bytes": size, "maxBytes": allowed.max_bytes},
                hint="Ask for less: fewer rows, fewer fields, or a narrower question.",
            )
        if self.size + size > allowed.total_bytes:
            raise self._too_much(call, f"'{call.name}' returned {size} bytes", self.size + size)
        if not self._secret:
            self._secret = f"ref_{secrets.token_hex(12)}"
        token = f"{self._secret}{len(self._kept):05x}"
        self.size += size
        kept = self._kept[token] = Kept(value.encode())
        kept.data = await _whole(kept.data)
        return json_text(await _described(token, kept.data))

    def _too_much(self, call: wire.Call, what: str, size: int) -> ToolCallError:
        total = self.allowance.total_bytes
        return ToolCallError(
            f"{what}; all values kept by reference together may have {total} bytes",
            tool_name=call.name,
            called=call.kind,
            code=TOO_LARGE,
            details={"bytes": size, "maxBytes": total},
            hint="They are kept until the script ends: keep fewer, or pass them on in several scripts.",
        )

    def advise(self, call: wire.Call, error: ToolCallError) -> None:
        """Tell the script of a call that failed what might have helped."""
        details = cast("dict[str, object]", error.details) if isinstance(error.details, dict) else {}
        size = details.get("bytes")
        if error.code != TOO_LARGE or call.reference or not isinstance(size, int) or size > self.allowance.max_bytes:
            return
        error.hint = f"{error.hint or ''} {_INSTEAD}".lstrip()

    # --------------------------------------------------------------------------------------------------- naming

    def named(self, text: str) -> bool:
        """Whether there may be tokens of this run in `text`."""
        return bool(self._kept) and self._secret in text

    async def found(self, text: str) -> AsyncIterator[Found]:
        """The tokens of this run in `text`, each as often as it is there."""
        for start in range(0, len(text), WINDOW):
            if start:
                await asyncio.sleep(0)
            for found in self._found(text, start):
                yield found

    def _found(self, text: str, start: int) -> Iterator[Found]:
        """Those that begin in one window."""
        stop = start + WINDOW + len(self._secret) - 1
        while self._kept and (start := text.find(self._secret, start, stop)) >= 0:
            end = start + _TOKEN_LENGTH
            if (kept := self._kept.get(text[start:end])) is not None:
                yield Found(start, end, kept)
            start += len(self._secret)

    def of(self, token: object) -> Kept | None:
        """The value that a token stands for; None of what is none."""
        return self._kept.get(token) if isinstance(token, str) else None

    async def stable(self, text: str) -> str:
        """An input with what its references stand for, as a hash of it, in place of their tokens: the same in every run
        that does the same."""
        parts: list[str] = []
        at = 0
        async for start, end, kept in self.found(text):
            if kept.digest is None:
                kept.digest = await anyio.to_thread.run_sync(_digest, kept.data)
            parts += (text[at:start], kept.digest)
            at = end
        return "".join((*parts, text[at:]))

    # ------------------------------------------------------------------------------------------------- lending

    @contextlib.asynccontextmanager
    async def lent(self, size: int) -> AsyncGenerator[None]:
        """So many bytes of values are in use; waits until as many may be. `size` is no more than `resolved_bytes`."""
        while self._lent and self._lent + size > self.allowance.resolved_bytes:
            self._room = self._room or anyio.Event()
            await self._room.wait()
        self._lent += size
        try:
            yield
        finally:
            self._lent -= size
            if self._room is not None:
                self._room.set()
                self._room = None


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


async def _whole(data: bytes) -> bytes:
    """JSON with the replacement character for halves of surrogate pairs, as an engine would pass it on."""
    if b"\\u" not in data:
        return data
    try:
        _is_json(data)
    except (msgspec.DecodeError, RecursionError):
        return await anyio.to_thread.run_sync(_HALF.sub, _replaced, data)
    return data


def _replaced(found: re.Match[bytes]) -> bytes:
    return rb"\ufffd" if found[1] else found[0]


async def _described(token: str, data: bytes) -> dict[str, object]:
    """What a script sees of a value."""
    start = data[: 4 * MAX_PREVIEW].decode(errors="ignore").lstrip()
    told: dict[str, object] = {KEY: token, "type": _kind(start[:1]), "bytes": len(data)}
    try:
        count = await pieces.length(data)
    except NotJson:
        count = None
    if count is not None:
        told["length"] = count
    told["preview"] = start if len(start) <= MAX_PREVIEW and len(start) == len(data) else f"{start[:MAX_PREVIEW]}…"
    return told


def _kind(first: str) -> str:
    return {"{": "object", "[": "array", '"': "string", "t": "boolean", "f": "boolean", "n": "null"}.get(
        first, "number"
    )
