"""Pass by reference: values that stay in the server process while the script holds references to them, and the values
put back in place of references, in the input of a call and in the result.

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

from codecall.concurrency import Pauses
from codecall.errors import InvalidInputError, LimitExceeded, MessageValidationError, ToolCallError
from codecall.jsonio import incremental
from codecall.jsonio.check import well_formed_json
from codecall.jsonio.decode import JsonBounds, NotJsonError, count_containers, encode_json, utf8_length
from codecall.presets import Preset
from codecall.sandbox import wire
from codecall.sandbox.host.outcomes import RawResult, check_large_result

KEY: Final = "$reference"
"""The member by which an object is known for a reference."""

MAX_PREVIEW: Final = 200
"""Characters of a value that its reference shows."""

MAX_RESULT_REFERENCES: Final = 100_000
"""References in a result."""

TOO_LARGE: Final = "MESSAGE_TOO_LARGE"
"""The code of a value that is too large, whatever for."""

WINDOW: Final = 64 * 1024
"""Characters that are searched for tokens in one go: a millisecond at most."""

_TOKEN_LENGTH: Final = 33
_OBJECT_START: Final = f'{{"{KEY}":"'
_NAME_END: Final = re.compile(r"\s*+:")
_JSON_TYPES: Final = {"{": "object", "[": "array", '"': "string", "t": "boolean", "f": "boolean", "n": "null"}


class ReferenceLimits(NamedTuple):
    """How much one run may pass by reference; the fields are those of a preset, without `reference_` before them."""

    min_bytes: int = 0
    max_bytes: int = 0
    total_bytes: int = 0
    resolved_bytes: int = 0
    passed_bytes: int = 0
    composites: bool = False

    @classmethod
    def from_preset(cls, preset: Preset) -> ReferenceLimits:
        """The limits that a preset states."""
        return cls(
            preset.reference_min_bytes,
            preset.reference_max_bytes,
            preset.reference_total_bytes,
            preset.reference_resolved_bytes,
            preset.reference_passed_bytes,
            preset.reference_composites,
        )


NO_REFERENCES: Final = ReferenceLimits()
"""For a run that may have no references."""


@dataclass(slots=True, eq=False)
class StoredValue:
    """One value outside the engine."""

    data: bytes
    """Its JSON."""
    containers: int | None = None
    """Objects and arrays in it, once they have been counted."""
    digest: str | None = None
    """A hash that tells it from other values, the same in every run."""

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
    """The values of one script outside its engine, by token.

    Args:
        limits: How much there may be.
    """

    limits: ReferenceLimits
    size: int = 0
    """Bytes of the values."""
    passed_bytes: int = 0
    """Bytes of the values that calls were given, each as often as it was."""
    _values: dict[str, StoredValue] = field(default_factory=dict[str, StoredValue])
    _secret: str = ""
    _lent_bytes: int = 0
    _returned: anyio.Event | None = None

    def close(self) -> None:
        """Forget all values."""
        self._values.clear()
        self.size = 0

    # ------------------------------------------------------------------------------------------------- storing

    def admit(self, call: wire.Call) -> int:
        """How many bytes the value of a call may have that is to stay outside.

        Raises:
            ToolCallError: no further value may. The call has not been made.
        """
        if not self.limits.max_bytes:
            raise InvalidInputError(
                f"'{call.name}' was not called: references are switched off here",
                tool_name=call.name,
                called=call.kind,
                hint="Call it without `reference: true`, and ask it for less if its value is large.",
            )
        if self.size >= self.limits.total_bytes:
            raise self._total_exceeded(call, f"'{call.name}' was not called", self.size)
        return self.limits.max_bytes

    async def keep(self, call: wire.Call, value: str) -> str | None:
        """Store the value of a call, and give the reference to it as JSON text; None for a value so small that the
        script gets the value itself.

        Args:
            call: The call that returned it.
            value: JSON text.

        Raises:
            ToolCallError: it is too large, or together with the others.
        """
        size = utf8_length(value)
        limits = self.limits
        if size <= limits.min_bytes:
            return None
        if size > limits.max_bytes:
            raise ToolCallError(
                f"'{call.name}' returned {size} bytes; a value kept by reference may have {limits.max_bytes}",
                tool_name=call.name,
                called=call.kind,
                code=TOO_LARGE,
                details={"bytes": size, "maxBytes": limits.max_bytes},
                hint="Ask for less: fewer rows, fewer fields, or a narrower question.",
            )
        if self.size + size > limits.total_bytes:
            raise self._total_exceeded(call, f"'{call.name}' returned {size} bytes", self.size + size)
        if not self._secret:
            self._secret = f"ref_{secrets.token_hex(12)}"
        token = f"{self._secret}{len(self._values):05x}"
        self.size += size
        stored = self._values[token] = StoredValue(b"")
        stored.data = (await well_formed_json(value)).encode()
        return encode_json(await _reference(token, stored.data))

    def _total_exceeded(self, call: wire.Call, what: str, size: int) -> ToolCallError:
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
        """Add to the hint of a call that failed because its value is too large that a reference would help."""
        details = cast("dict[str, object]", error.details) if isinstance(error.details, dict) else {}
        size = details.get("bytes")
        if error.code != TOO_LARGE or call.reference or call.oversize or not isinstance(size, int):
            return
        if size > self.limits.max_bytes:
            return
        advice = "Or call with `{reference: true}` to pass the value on to another tool without reading it."
        error.hint = f"{error.hint or ''} {advice}".lstrip()

    # ------------------------------------------------------------------------------------------------- looking up

    def get(self, token: object) -> StoredValue | None:
        """The value that a token stands for; None if it is no token of this run."""
        return self._values.get(token) if isinstance(token, str) else None

    def may_contain(self, text: str) -> bool:
        """Whether there may be tokens of this run in `text`."""
        return bool(self._values) and self._secret in text

    async def find(self, text: str) -> AsyncIterator[ReferenceMatch]:
        """The tokens of this run in `text`, each as often as it is there."""
        for start in range(0, len(text), WINDOW):
            if start:
                await asyncio.sleep(0)
            for match in self._find_in_window(text, start):
                yield match

    def _find_in_window(self, text: str, start: int) -> Iterator[ReferenceMatch]:
        """The tokens that begin in the window at `start`."""
        stop = start + WINDOW + len(self._secret) - 1
        while self._values and (start := text.find(self._secret, start, stop)) >= 0:
            end = start + _TOKEN_LENGTH
            if (stored := self._values.get(text[start:end])) is not None:
                yield ReferenceMatch(start, end, stored)
            start += len(self._secret)

    async def replace_with_digests(self, text: str) -> str:
        """`text` with a hash of each value in place of its token: the same in every run that does the same."""
        parts: list[str] = []
        at = 0
        async for start, end, stored in self.find(text):
            if stored.digest is None:
                stored.digest = await anyio.to_thread.run_sync(_digest, stored.data)
            parts += (text[at:start], stored.digest)
            at = end
        return "".join((*parts, text[at:]))

    # ------------------------------------------------------------------------------------------------- lending

    @contextlib.asynccontextmanager
    async def lend(self, size: int) -> AsyncGenerator[None]:
        """Count `size` bytes of values as in use while inside; waits until so many may be. `size` is no more than
        `resolved_bytes`."""
        while self._lent_bytes and self._lent_bytes + size > self.limits.resolved_bytes:
            self._returned = self._returned or anyio.Event()
            await self._returned.wait()
        self._lent_bytes += size
        try:
            yield
        finally:
            self._lent_bytes -= size
            if self._returned is not None:
                self._returned.set()
                self._returned = None


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


async def _reference(token: str, data: bytes) -> dict[str, object]:
    """The reference that a script sees of a value."""
    start = data[: 4 * MAX_PREVIEW].decode(errors="ignore").lstrip()
    reference: dict[str, object] = {KEY: token, "type": _JSON_TYPES.get(start[:1], "number"), "bytes": len(data)}
    try:
        count = await incremental.length(data)
    except NotJsonError:
        count = None
    if count is not None:
        reference["length"] = count
    complete = len(start) <= MAX_PREVIEW and len(start) == len(data)
    reference["preview"] = start if complete else f"{start[:MAX_PREVIEW]}…"
    return reference


class _Slot(NamedTuple):
    """Where references stand in an input."""

    container: dict[str | int, object]
    """An array is written to by number as an object is by name."""
    key: str | int


class ReferenceResolver:
    """Puts values in place of the references in the input of one call.

    Args:
        store: Has the values.
        limits: Limits of the run.
        call: The call.
    """

    def __init__(self, store: ReferenceStore, limits: wire.Limits, call: wire.Call) -> None:
        self._store = store
        self._call = call
        self._bounds = JsonBounds.from_limits(limits, store.limits.resolved_bytes)
        self._size = 0
        self._values: list[StoredValue] = []
        """The values that the input refers to, each as often as it does."""
        self._decoded_bytes = 0
        """Bytes decoded since the last pause."""

    @contextlib.asynccontextmanager
    async def arguments(self, arguments: dict[str, object]) -> AsyncGenerator[dict[str, object]]:
        """The input with values in place of references, for as long as the call takes. `arguments` is that of the
        script, and is changed.

        Raises:
            InvalidInputError: there may not be so much, or not there.
            MessageValidationError: no engine writes a reference like that.
        """
        root: list[object] = [arguments]
        slots = await self._slots(root)
        await self._admit()
        async with self._store.lend(self._size):
            for container, key in slots:
                container[key] = await self._resolve(container[key])
            if not isinstance(root[0], dict):
                raise self._refusal("is a reference to what is no object", "Write `{ name: reference }`.")
            yield cast("dict[str, object]", root[0])

    async def _slots(self, root: list[object]) -> list[_Slot]:
        """Where references stand. No value is built yet."""
        slots: list[_Slot] = []
        pending: list[dict[str, object] | list[object]] = [root]
        pauses = Pauses()
        while pending:
            container = pending.pop()
            for key, item in container.items() if isinstance(container, dict) else enumerate(container):
                if isinstance(key, str) and await self._has_token(key):
                    raise self._refusal(
                        "has a reference for a key", "References stand for values, not for their names."
                    )
                if await self._refers(item):
                    slots.append(_Slot(cast("dict[str | int, object]", container), key))
                elif isinstance(item, dict | list):
                    pending.append(cast("dict[str, object] | list[object]", item))
                await pauses.count()
        return slots

    async def _has_token(self, text: str) -> bool:
        if self._store.may_contain(text):
            async for _ in self._store.find(text):
                return True
        return False

    async def _refers(self, item: object) -> bool:
        """Whether `item` is a reference, or a text with references in it; their values are counted."""
        if isinstance(item, dict):
            members = cast("dict[str, object]", item)
            if (stored := self._store.get(members.get(KEY))) is None:
                return False
            if len(members) > 1:
                raise self._refusal("has a reference with other members", "Pass on the reference as it is.")
            self._count(stored)
            return True
        if not isinstance(item, str) or not self._store.may_contain(item):
            return False
        before = len(self._values)
        async for match in self._store.find(item):
            self._count(match.stored)
        if len(self._values) == before:
            return False
        if not self._store.limits.composites and self._store.get(item) is None:
            raise self._refusal(
                "has a reference inside a longer text, which is not allowed here",
                "Pass on the reference itself, as a field or an item of its own, without text around it.",
            )
        return True

    def _count(self, stored: StoredValue) -> None:
        allowed = self._store.limits.resolved_bytes
        self._size += len(stored.data)
        if self._size > allowed:
            raise self._refusal(
                f"refers to more than {allowed} bytes, which is the limit of one call",
                "Pass on fewer or smaller values in one call.",
            )
        self._values.append(stored)

    async def _admit(self) -> None:
        """Count the values against what all calls of the script may be given."""
        store, size = self._store, self._size
        # Engines write tokens as they are. What is read of an input must be what its digest is made of.
        if not Counter(self._values) <= Counter([match.stored async for match in store.find(self._call.input)]):
            raise MessageValidationError("The worker sent a reference in other characters than it was given")
        if store.passed_bytes + size > store.limits.passed_bytes:
            raise self._refusal(
                f"refers to {size} bytes; all calls of a script together may have {store.limits.passed_bytes}, "
                f"of which {store.passed_bytes} are used",
                "Pass on the rest in another script.",
            )
        store.passed_bytes += size
        containers = 0
        for stored in self._values:
            if stored.containers is None:
                stored.containers = await count_containers(stored.data.decode(), self._bounds.containers)
            containers += stored.containers
        if containers > self._bounds.containers:
            raise self._refusal(
                f"refers to {containers} objects and arrays: too many for one call",
                "Pass on less in one call: ask the tool that the values come from for fewer rows.",
            )

    async def _resolve(self, item: object) -> object:
        """What `item`, which is a reference or a text with references in it, stands for."""
        token = cast("dict[str, object]", item)[KEY] if isinstance(item, dict) else item
        if (stored := self._store.get(token)) is not None:
            return await self._decode(stored)
        text = cast("str", item)
        parts: list[str] = []
        at = 0
        async for start, end, stored in self._store.find(text):
            value = await self._decode(stored) if stored.is_text else stored.data.decode()
            parts += (text[at:start], cast("str", value))
            at = end
        return "".join((*parts, text[at:]))

    async def _decode(self, stored: StoredValue) -> object:
        self._decoded_bytes += len(stored.data)
        if self._decoded_bytes > incremental.PIECE:
            self._decoded_bytes = 0
            await asyncio.sleep(0)
        try:
            return await incremental.read(stored.data, self._bounds.depth)
        except NotJsonError:
            raise self._refusal(
                f"refers to a value nested deeper than {self._bounds.depth} levels",
                "Call without `reference: true`, and pick what is needed.",
            ) from None

    def _refusal(self, what: str, hint: str) -> InvalidInputError:
        call = self._call
        return InvalidInputError(f"The input of '{call.name}' {what}", tool_name=call.name, called=call.kind, hint=hint)


class ResolvedResult(NamedTuple):
    """A result with values in place of references."""

    result: RawResult
    warnings: tuple[str, ...] = ()
    """A warning of references that remain."""


async def resolve_result(raw: RawResult, store: ReferenceStore, limits: wire.Limits) -> ResolvedResult:
    """The result of a script with values in place of references.

    Raises:
        LimitExceeded: it would be too large.
        MessageValidationError: it is no JSON.
    """
    if not store.may_contain(raw.text):
        return ResolvedResult(raw)
    await check_large_result(raw)
    matches: list[ReferenceMatch] = []
    size, remaining = raw.size, 0
    longest = min(limits.longest_result, raw.size + store.limits.resolved_bytes)
    async for found in store.find(raw.text):
        if (match := _whole_reference(raw.text, found)) is None:
            remaining += 1
            continue
        matches.append(match)
        size += len(match.stored.data) - (match.end - match.start)
        if size > longest:
            raise _result_error(f"is more than {longest} bytes with the values that it refers to")
        if len(matches) > MAX_RESULT_REFERENCES:
            raise _result_error(f"has more than {MAX_RESULT_REFERENCES} references")
    parts: list[str] = []
    at = decoded_bytes = 0
    for start, end, stored in matches:
        parts += (raw.text[at:start], stored.data.decode())
        at = end
        decoded_bytes += len(stored.data)
        if decoded_bytes > 8 * incremental.PIECE:
            decoded_bytes = 0
            await asyncio.sleep(0)
    warning = f"The result has references inside texts or keys ({remaining}): they mean nothing after the script"
    return ResolvedResult(RawResult("".join((*parts, raw.text[at:])), size), (warning,) if remaining else ())


def _result_error(what: str) -> LimitExceeded:
    return LimitExceeded(
        f"The result {what}",
        code="OUTPUT_LIMIT",
        hint="Return less: a reference in the result stands for all of its value.",
    )


def _whole_reference(text: str, match: ReferenceMatch) -> ReferenceMatch | None:
    """A token in JSON text that is all of a text, with the quotes around it, and with the object around those if there
    is one. None for a token within a longer text, and for a name."""
    start, end, stored = match
    if text[start - 1 : end + 1] != f'"{text[start:end]}"':
        return None
    before = start - len(_OBJECT_START)
    if before >= 0 and text.startswith(_OBJECT_START, before) and text.startswith("}", end + 1):
        return ReferenceMatch(before, end + 2, stored)
    if text[max(0, start - 2) : start - 1] == "\\" or _NAME_END.match(text, end + 1):
        return None
    return ReferenceMatch(start - 1, end + 1, stored)
