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
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple, cast

import anyio
import anyio.to_thread
import msgspec

from codecall.errors import InvalidInputError, LimitExceeded, MessageValidationError, ToolCallError
from codecall.jsonio import incremental as pieces
from codecall.jsonio.decode import JsonBounds, NotJson, count_containers, encode_json, utf8_length
from codecall.presets import Preset
from codecall.sandbox import wire
from codecall.sandbox.host.outcomes import RawResult, check_large_result

# ----------------------------------------------------------------------------------------------------
# Values that stay outside the engine: of each the script holds a reference, and passes it on to another tool

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


class ReferenceLimits(NamedTuple):
    """What one run may have of this; the fields are those of a preset, without `reference_` before them."""

    min_bytes: int = 0
    max_bytes: int = 0
    total_bytes: int = 0
    resolved_bytes: int = 0
    passed_bytes: int = 0
    composites: bool = False

    @classmethod
    def from_preset(cls, preset: Preset) -> ReferenceLimits:
        """What a preset allows."""
        return cls(
            preset.reference_min_bytes,
            preset.reference_max_bytes,
            preset.reference_total_bytes,
            preset.reference_resolved_bytes,
            preset.reference_passed_bytes,
            preset.reference_composites,
        )


NO_REFERENCES: Final = ReferenceLimits()
"""For a run that may have none."""


@dataclass(slots=True, eq=False)
class StoredValue:
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


class ReferenceMatch(NamedTuple):
    """A token of this run in a text."""

    start: int
    end: int
    stored: StoredValue


@dataclass(slots=True, eq=False)
class ReferenceStore:
    """The values of one script outside its engine.

    Args:
        allowance: How much there may be.
    """

    limits: ReferenceLimits
    size: int = 0
    """Bytes of the values."""
    passed_bytes: int = 0
    """Bytes of those that calls were given, each as often as it was."""
    _kept: dict[str, StoredValue] = field(default_factory=dict[str, StoredValue])
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
        allowed = self.limits
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
        allowed = self.limits
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
        kept = self._kept[token] = StoredValue(value.encode())
        kept.data = await _whole(kept.data)
        return encode_json(await _described(token, kept.data))

    def _too_much(self, call: wire.Call, what: str, size: int) -> ToolCallError:
        total = self.limits.total_bytes
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
        if error.code != TOO_LARGE or call.reference or not isinstance(size, int) or size > self.limits.max_bytes:
            return
        error.hint = f"{error.hint or ''} {_INSTEAD}".lstrip()

    # --------------------------------------------------------------------------------------------------- naming

    def may_contain(self, text: str) -> bool:
        """Whether there may be tokens of this run in `text`."""
        return bool(self._kept) and self._secret in text

    async def find(self, text: str) -> AsyncIterator[ReferenceMatch]:
        """The tokens of this run in `text`, each as often as it is there."""
        for start in range(0, len(text), WINDOW):
            if start:
                await asyncio.sleep(0)
            for found in self._found(text, start):
                yield found

    def _found(self, text: str, start: int) -> Iterator[ReferenceMatch]:
        """Those that begin in one window."""
        stop = start + WINDOW + len(self._secret) - 1
        while self._kept and (start := text.find(self._secret, start, stop)) >= 0:
            end = start + _TOKEN_LENGTH
            if (kept := self._kept.get(text[start:end])) is not None:
                yield ReferenceMatch(start, end, kept)
            start += len(self._secret)

    def get(self, token: object) -> StoredValue | None:
        """The value that a token stands for; None of what is none."""
        return self._kept.get(token) if isinstance(token, str) else None

    async def replace_with_digests(self, text: str) -> str:
        """An input with what its references stand for, as a hash of it, in place of their tokens: the same in every run
        that does the same."""
        parts: list[str] = []
        at = 0
        async for start, end, kept in self.find(text):
            if kept.digest is None:
                kept.digest = await anyio.to_thread.run_sync(_digest, kept.data)
            parts += (text[at:start], kept.digest)
            at = end
        return "".join((*parts, text[at:]))

    # ------------------------------------------------------------------------------------------------- lending

    @contextlib.asynccontextmanager
    async def lend(self, size: int) -> AsyncGenerator[None]:
        """So many bytes of values are in use; waits until as many may be. `size` is no more than `resolved_bytes`."""
        while self._lent and self._lent + size > self.limits.resolved_bytes:
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


# ----------------------------------------------------------------------------------------------------
# In place of references the values that they stand for: in the input of a call, in the result of a script.

VALUES_PER_PAUSE: Final = 2_000
"""Values of an input that are looked at without a pause: half a millisecond."""

MAX_RESULT_REFERENCES: Final = 100_000
"""References in a result."""

_BEFORE: Final = f'{{"{KEY}":"'
_NAME: Final = re.compile(r"\s*+:")


class _Place(NamedTuple):
    """Where references stand."""

    container: dict[str | int, object]
    """An array is written to by number as an object is by name."""
    key: str | int


class ReferenceResolver:
    """What the references in the input of one call stand for.

    Args:
        sidecar: Has the values.
        limits: Of the run.
        call: Whose input it is.
    """

    def __init__(self, store: ReferenceStore, limits: wire.Limits, call: wire.Call) -> None:
        self._sidecar = store
        self._call = call
        self._bounds = JsonBounds.from_limits(limits, store.limits.resolved_bytes)
        self._size = 0
        self._named: list[StoredValue] = []
        self._read = 0

    @contextlib.asynccontextmanager
    async def arguments(self, given: dict[str, object]) -> AsyncGenerator[dict[str, object]]:
        """The input with values in it, for as long as the call takes. `given` is that of the script, and is changed.

        Raises:
            InvalidInputError: there may not be so much, or not there.
            MessageValidationError: no engine writes a reference like that.
        """
        holder: list[object] = [given]
        places = await self._places(holder)
        await self._admit()
        async with self._sidecar.lend(self._size):
            for container, place in places:
                container[place] = await self._in_place_of(container[place])
            if not isinstance(holder[0], dict):
                raise self._refused("is a reference to what is no object", "Write `{ name: reference }`.")
            yield cast("dict[str, object]", holder[0])

    async def _places(self, holder: list[object]) -> list[_Place]:
        """Where references stand. Nothing is built yet."""
        places: list[_Place] = []
        waiting: list[dict[str, object] | list[object]] = [holder]
        looked_at = 0
        while waiting:
            container = waiting.pop()
            for place, item in container.items() if isinstance(container, dict) else enumerate(container):
                if isinstance(place, str) and await self._names(place):
                    raise self._refused(
                        "has a reference for a key", "References stand for values, not for their names."
                    )
                if await self._refers(item):
                    places.append(_Place(cast("dict[str | int, object]", container), place))
                elif isinstance(item, dict | list):
                    waiting.append(cast("dict[str, object] | list[object]", item))
                looked_at += 1
                if looked_at % VALUES_PER_PAUSE == 0:
                    await asyncio.sleep(0)
        return places

    async def _refers(self, item: object) -> bool:
        """Whether there are references in a text, or `item` is one; what they stand for is counted."""
        if isinstance(item, dict):
            members = cast("dict[str, object]", item)
            if (kept := self._sidecar.get(members.get(KEY))) is None:
                return False
            if len(members) > 1:
                raise self._refused("has a reference with other members", "Pass on the reference as it is.")
            self._add(kept)
            return True
        if not isinstance(item, str) or not self._sidecar.may_contain(item):
            return False
        before = len(self._named)
        async for found in self._sidecar.find(item):
            self._add(found.stored)
        if len(self._named) == before:
            return False
        if not self._sidecar.limits.composites and self._sidecar.get(item) is None:
            raise self._refused(
                "has a reference inside a longer text, which is not allowed here",
                "Pass on the reference itself, as a field or an item of its own, without text around it.",
            )
        return True

    def _add(self, kept: StoredValue) -> None:
        allowed = self._sidecar.limits.resolved_bytes
        self._size += len(kept.data)
        if self._size > allowed:
            raise self._refused(
                f"refers to more than {allowed} bytes, which is the limit of one call",
                "Pass on fewer or smaller values in one call.",
            )
        self._named.append(kept)

    async def _admit(self) -> None:
        """Count the values that are named against what all calls of the script may be given."""
        sidecar, size = self._sidecar, self._size
        # Engines write tokens as they are. What is read of an input must be what its digest is made of.
        if not Counter(self._named) <= Counter([found.stored async for found in sidecar.find(self._call.input)]):
            raise MessageValidationError("The worker sent a reference in other characters than it was given")
        if sidecar.passed_bytes + size > sidecar.limits.passed_bytes:
            raise self._refused(
                f"refers to {size} bytes; all calls of a script together may have {sidecar.limits.passed_bytes}, "
                f"of which {sidecar.passed_bytes} are used",
                "Pass on the rest in another script.",
            )
        sidecar.passed_bytes += size
        containers = 0
        for kept in self._named:
            if kept.containers is None:
                kept.containers = await count_containers(kept.data.decode(), self._bounds.containers)
            containers += kept.containers
        if containers > self._bounds.containers:
            raise self._refused(
                f"refers to {containers} objects and arrays: too many for one call",
                "Pass on less in one call: ask the tool that the values come from for fewer rows.",
            )

    async def _in_place_of(self, item: object) -> object:
        """What `item`, in which there are references, stands for."""
        token = cast("dict[str, object]", item)[KEY] if isinstance(item, dict) else item
        if (kept := self._sidecar.get(token)) is not None:
            return await self._value(kept)
        text = cast("str", item)
        parts: list[str] = []
        at = 0
        async for start, end, kept in self._sidecar.find(text):
            shown = await self._value(kept) if kept.is_text else kept.data.decode()
            parts += (text[at:start], cast("str", shown))
            at = end
        return "".join((*parts, text[at:]))

    async def _names(self, text: str) -> bool:
        if self._sidecar.may_contain(text):
            async for _ in self._sidecar.find(text):
                return True
        return False

    async def _value(self, kept: StoredValue) -> object:
        self._read += len(kept.data)
        if self._read > pieces.PIECE:
            self._read = 0
            await asyncio.sleep(0)
        try:
            return await pieces.read(kept.data, self._bounds.depth)
        except NotJson:
            raise self._refused(
                f"refers to a value nested deeper than {self._bounds.depth} levels",
                "Call without `reference: true`, and pick what is needed.",
            ) from None

    def _refused(self, what: str, hint: str) -> InvalidInputError:
        call = self._call
        return InvalidInputError(f"The input of '{call.name}' {what}", tool_name=call.name, called=call.kind, hint=hint)


class ResolvedResult(NamedTuple):
    """A result with values in place of references."""

    result: RawResult
    warnings: tuple[str, ...] = ()
    """What is to be said of references that remain."""


async def resolve_result(sent: RawResult, sidecar: ReferenceStore, limits: wire.Limits) -> ResolvedResult:
    """The result of a script with values in place of references.

    Raises:
        LimitExceeded: it would be too large.
        MessageValidationError: it is no JSON.
    """
    if not sidecar.may_contain(sent.text):
        return ResolvedResult(sent)
    await check_large_result(sent)
    places: list[tuple[int, int, StoredValue]] = []
    size, left = sent.size, 0
    longest = min(limits.longest_result, sent.size + sidecar.limits.resolved_bytes)
    async for found in sidecar.find(sent.text):
        if (place := _alone(sent.text, found)) is None:
            left += 1
            continue
        places.append(place)
        size += len(found.stored.data) - (place[1] - place[0])
        if size > longest:
            raise _too_much(f"is more than {longest} bytes with the values that it refers to")
        if len(places) > MAX_RESULT_REFERENCES:
            raise _too_much(f"has more than {MAX_RESULT_REFERENCES} references")
    parts: list[str] = []
    at = read = 0
    for start, end, kept in places:
        parts += (sent.text[at:start], kept.data.decode())
        at = end
        read += len(kept.data)
        if read > 8 * pieces.PIECE:
            read = 0
            await asyncio.sleep(0)
    warning = f"The result has references inside texts or keys ({left}): they mean nothing after the script"
    return ResolvedResult(RawResult("".join((*parts, sent.text[at:])), size), (warning,) if left else ())


def _too_much(what: str) -> LimitExceeded:
    return LimitExceeded(
        f"The result {what}",
        code="OUTPUT_LIMIT",
        hint="Return less: a reference in the result stands for all of its value.",
    )


def _alone(text: str, found: ReferenceMatch) -> tuple[int, int, StoredValue] | None:
    """Where a token in JSON text stands that is all of a text: with the quotes around it, and with the object around
    those if there is one. None of one within a text, and of a name."""
    start, end, kept = found
    if text[start - 1 : end + 1] != f'"{text[start:end]}"':
        return None
    before = start - len(_BEFORE)
    if before >= 0 and text.startswith(_BEFORE, before) and text.startswith("}", end + 1):
        return before, end + 2, kept
    if text[max(0, start - 2) : start - 1] == "\\" or _NAME.match(text, end + 1):
        return None
    return start - 1, end + 1, kept
