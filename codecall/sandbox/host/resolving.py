"""In place of references the values that they stand for: in the input of a call, in the result of a script."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncGenerator
from typing import Final, NamedTuple, cast

from codecall.errors import InvalidInputError, LimitExceeded
from codecall.sandbox import wire
from codecall.sandbox.host import pieces
from codecall.sandbox.host.payloads import Bounds, NotJson, count_containers
from codecall.sandbox.host.results import Sent, large
from codecall.sandbox.host.sidecar import KEY, Kept, Sidecar

LOOKED_AT: Final = 2_000
"""Values of an input that are looked at without a pause: half a millisecond."""

_STANDS_ALONE: Final = re.compile(r'\{"\$reference":"(ref_[0-9a-f]{29})"\}|(?<!\\)"(ref_[0-9a-f]{29})"(?!\s*:)')
"""A token in JSON text that stands for its value: all of a text, with the object around it if there is one."""


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

    @contextlib.asynccontextmanager
    async def arguments(self, given: dict[str, object]) -> AsyncGenerator[dict[str, object]]:
        """The input with values in it, for as long as the call takes. `given` is that of the script, and is changed.

        Raises:
            InvalidInputError: there may not be so much, or not there.
        """
        async with self._sidecar.lent(await self._measured()):
            yield await self._filled(given)

    async def _measured(self) -> int:
        """Bytes of the values that are named."""
        sidecar, allowed = self._sidecar, self._sidecar.allowance
        size, named = 0, list[Kept]()
        for found in sidecar.found(self._call.input):
            size += len(found.kept.data)
            if size > allowed.resolved_bytes:
                raise self._refused(
                    f"refers to more than {allowed.resolved_bytes} bytes, which is the limit of one call",
                    "Pass on fewer or smaller values in one call.",
                )
            named.append(found.kept)
        if sidecar.passed + size > allowed.passed_bytes:
            raise self._refused(
                f"refers to {size} bytes; all calls of a script together may have {allowed.passed_bytes}, of which "
                f"{sidecar.passed} are used",
                "Pass on the rest in another script.",
            )
        sidecar.passed += size
        containers = 0
        for kept in named:
            if kept.containers is None:
                kept.containers = await count_containers(kept.data.decode(), self._bounds.containers)
            containers += kept.containers
        if containers > self._bounds.containers:
            raise self._refused(
                f"refers to {containers} objects and arrays: too many for one call",
                "Pass on less in one call: ask the tool that the values come from for fewer rows.",
            )
        return size

    async def _filled(self, given: dict[str, object]) -> dict[str, object]:
        whole = await self._in_place_of(given)
        if whole is not given:
            if not isinstance(whole, dict):
                raise self._refused("is a reference to what is no object", "Write `{ name: reference }`.")
            return cast("dict[str, object]", whole)
        waiting: list[dict[str, object] | list[object]] = [given]
        looked_at = 0
        while waiting:
            container = waiting.pop()
            for place, item in list(container.items() if isinstance(container, dict) else enumerate(container)):
                if isinstance(place, str) and self._names(place):
                    raise self._refused(
                        "has a reference for a key", "References stand for values, not for their names."
                    )
                value = await self._in_place_of(item)
                if value is not item:
                    cast("dict[str | int, object]", container)[place] = value
                elif isinstance(item, dict | list):
                    waiting.append(cast("dict[str, object] | list[object]", item))
                looked_at += 1
                if looked_at % LOOKED_AT == 0:
                    await asyncio.sleep(0)
        return given

    async def _in_place_of(self, item: object) -> object:
        """What `item` stands for; itself, if it is no reference."""
        if isinstance(item, dict):
            members = cast("dict[str, object]", item)
            if (kept := self._sidecar.of(members.get(KEY))) is None:
                return members
            if len(members) > 1:
                raise self._refused("has a reference with other members", "Pass on the reference as it is.")
            return await self._value(kept)
        if not isinstance(item, str) or not self._names(item):
            return item
        if (kept := self._sidecar.of(item)) is not None:
            return await self._value(kept)
        if not self._sidecar.allowance.composites:
            raise self._refused(
                "has a reference inside a longer text, which is not allowed here",
                "Pass on the reference itself, as a field or an item of its own, without text around it.",
            )
        parts: list[str] = []
        at = 0
        for start, end, kept in self._sidecar.found(item):
            text = await self._value(kept) if kept.is_text else kept.data.decode()
            parts += (item[at:start], cast("str", text))
            at = end
        return "".join((*parts, item[at:]))

    def _names(self, text: str) -> bool:
        return self._sidecar.named(text) and any(True for _ in self._sidecar.found(text))

    async def _value(self, kept: Kept) -> object:
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
    places = [
        (found.start(), found.end(), kept)
        for found in _STANDS_ALONE.finditer(sent.text)
        if (kept := sidecar.of(found[1] or found[2])) is not None
    ]
    size = sent.size + sum(len(kept.data) - (end - start) for start, end, kept in places)
    longest = min(limits.longest_result, sent.size + sidecar.allowance.resolved_bytes)
    if size > longest:
        raise LimitExceeded(
            f"The result is {size} bytes with the values that it refers to; the limit is {longest} bytes",
            code="OUTPUT_LIMIT",
            hint="Return less: a reference in the result stands for all of its value.",
        )
    parts: list[str] = []
    at = 0
    for start, end, kept in places:
        parts += (sent.text[at:start], kept.data.decode())
        at = end
    left = sum(1 for _ in sidecar.found(sent.text)) - len(places)
    warning = f"The result has references inside texts or keys ({left}): they mean nothing after the script"
    return Whole(Sent("".join((*parts, sent.text[at:])), size), (warning,) if left else ())
