"""In place of references the values that they stand for: in the input of a call, in the result of a script."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections import Counter
from collections.abc import AsyncGenerator
from typing import Final, NamedTuple, cast

from codecall.errors import InvalidInputError, LimitExceeded, MessageValidationError
from codecall.sandbox import wire
from codecall.sandbox.host import pieces
from codecall.sandbox.host.payloads import Bounds, NotJson, count_containers
from codecall.sandbox.host.results import Sent, large
from codecall.sandbox.host.sidecar import KEY, Found, Kept, Sidecar

LOOKED_AT: Final = 2_000
"""Values of an input that are looked at without a pause: half a millisecond."""

MAX_PLACES: Final = 100_000
"""References in a result."""

_BEFORE: Final = f'{{"{KEY}":"'
_NAME: Final = re.compile(r"\s*+:")


class _Place(NamedTuple):
    """Where references stand."""

    container: dict[str | int, object]
    """An array is written to by number as an object is by name."""
    key: str | int


class Resolving:
    """What the references in the input of one call stand for.

    Args:
        sidecar: Has the values.
        limits: Of the run.
        call: Whose input it is.
    """

    def __init__(self, sidecar: Sidecar, limits: wire.Limits, call: wire.Call) -> None:
        self._sidecar = sidecar
        self._call = call
        self._bounds = Bounds.of(limits, sidecar.allowance.resolved_bytes)
        self._size = 0
        self._named: list[Kept] = []
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
        async with self._sidecar.lent(self._size):
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
                if looked_at % LOOKED_AT == 0:
                    await asyncio.sleep(0)
        return places

    async def _refers(self, item: object) -> bool:
        """Whether there are references in a text, or `item` is one; what they stand for is counted."""
        if isinstance(item, dict):
            members = cast("dict[str, object]", item)
            if (kept := self._sidecar.of(members.get(KEY))) is None:
                return False
            if len(members) > 1:
                raise self._refused("has a reference with other members", "Pass on the reference as it is.")
            self._add(kept)
            return True
        if not isinstance(item, str) or not self._sidecar.named(item):
            return False
        before = len(self._named)
        async for found in self._sidecar.found(item):
            self._add(found.kept)
        if len(self._named) == before:
            return False
        if not self._sidecar.allowance.composites and self._sidecar.of(item) is None:
            raise self._refused(
                "has a reference inside a longer text, which is not allowed here",
                "Pass on the reference itself, as a field or an item of its own, without text around it.",
            )
        return True

    def _add(self, kept: Kept) -> None:
        allowed = self._sidecar.allowance.resolved_bytes
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
        if not Counter(self._named) <= Counter([found.kept async for found in sidecar.found(self._call.input)]):
            raise MessageValidationError("The worker sent a reference in other characters than it was given")
        if sidecar.passed + size > sidecar.allowance.passed_bytes:
            raise self._refused(
                f"refers to {size} bytes; all calls of a script together may have {sidecar.allowance.passed_bytes}, "
                f"of which {sidecar.passed} are used",
                "Pass on the rest in another script.",
            )
        sidecar.passed += size
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
        if (kept := self._sidecar.of(token)) is not None:
            return await self._value(kept)
        text = cast("str", item)
        parts: list[str] = []
        at = 0
        async for start, end, kept in self._sidecar.found(text):
            shown = await self._value(kept) if kept.is_text else kept.data.decode()
            parts += (text[at:start], cast("str", shown))
            at = end
        return "".join((*parts, text[at:]))

    async def _names(self, text: str) -> bool:
        if self._sidecar.named(text):
            async for _ in self._sidecar.found(text):
                return True
        return False

    async def _value(self, kept: Kept) -> object:
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


class Whole(NamedTuple):
    """A result with values in place of references."""

    result: Sent
    warnings: tuple[str, ...] = ()
    """What is to be said of references that remain."""


async def whole(sent: Sent, sidecar: Sidecar, limits: wire.Limits) -> Whole:
    """The result of a script with values in place of references.

    Raises:
        LimitExceeded: it would be too large.
        MessageValidationError: it is no JSON.
    """
    if not sidecar.named(sent.text):
        return Whole(sent)
    await large(sent)
    places: list[tuple[int, int, Kept]] = []
    size, left = sent.size, 0
    longest = min(limits.longest_result, sent.size + sidecar.allowance.resolved_bytes)
    async for found in sidecar.found(sent.text):
        if (place := _alone(sent.text, found)) is None:
            left += 1
            continue
        places.append(place)
        size += len(found.kept.data) - (place[1] - place[0])
        if size > longest:
            raise _too_much(f"is more than {longest} bytes with the values that it refers to")
        if len(places) > MAX_PLACES:
            raise _too_much(f"has more than {MAX_PLACES} references")
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
    return Whole(Sent("".join((*parts, sent.text[at:])), size), (warning,) if left else ())


def _too_much(what: str) -> LimitExceeded:
    return LimitExceeded(
        f"The result {what}",
        code="OUTPUT_LIMIT",
        hint="Return less: a reference in the result stands for all of its value.",
    )


def _alone(text: str, found: Found) -> tuple[int, int, Kept] | None:
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
