"""Brokers that record what another answers, and that answer from a recording."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Literal, TypeVar, cast

import msgspec

from codecall.errors import Called, SelfReferenceError, ToolCallError
from codecall.sandbox.agentscript.policy import is_meta_tool
from codecall.sandbox.broker import ToolBroker
from codecall.sandbox.known import Mistake
from codecall.testing.recording import Entry, JsonObject, Kind, Replay

T = TypeVar("T")

NOT_RECORDED = "NOT_RECORDED"
"""The code with which a call fails that the recording does not have. The test fails whatever the script makes of it."""


class RecordingBroker:
    """Passes everything on to `inner`, and keeps what it answers.

    Args:
        inner: Performs the calls.
        entries: Where they go, in the order in which they began.
    """

    def __init__(self, inner: ToolBroker, entries: list[Entry]) -> None:
        self._inner = inner
        self._entries = entries

    async def prepare(self) -> None:
        """See `ToolBroker.prepare`."""
        await self._inner.prepare()

    async def call(self, name: str, arguments: JsonObject, *, max_bytes: int | None = None) -> str:
        """See `ToolBroker.call`."""
        return await self._text("tool", name, arguments, self._inner.call(name, arguments, max_bytes=max_bytes))

    async def read(self, uri: str, *, max_bytes: int | None = None) -> str:
        """See `ToolBroker.read`."""
        return await self._text("resource", uri, {}, self._inner.read(uri, max_bytes=max_bytes))

    async def prompt(self, name: str, arguments: JsonObject, *, max_bytes: int | None = None) -> str:
        """See `ToolBroker.prompt`."""
        return await self._text("prompt", name, arguments, self._inner.prompt(name, arguments, max_bytes=max_bytes))

    async def foresee(self, name: str, known: Mapping[str, object]) -> Mistake | None:
        """Nothing: a call is recorded as it ends, not as it would. See `ToolBroker.foresee`."""

    async def unreachable(self, name: str) -> Mistake | None:
        """Nothing: that is no part of a recording. See `ToolBroker.unreachable`."""

    async def describe(self, name: str) -> JsonObject | None:
        """See `ToolBroker.describe`."""
        return await self._looked_up("getTool", name, {}, self._inner.describe(name))

    async def space(self, path: str) -> JsonObject:
        """See `ToolBroker.space`."""
        return await self._looked_up("space", path, {}, self._inner.space(path))

    async def member(self, path: str, member: str) -> JsonObject:
        """See `ToolBroker.member`."""
        return await self._looked_up("member", path, {"member": member}, self._inner.member(path, member))

    async def _text(self, kind: Kind, name: str, given: JsonObject, answer: Awaitable[str]) -> str:
        # What the script gave may be changed by whoever answers.
        entry = Entry(kind, name, cast("JsonObject", json.loads(json.dumps(given))), ended=False)
        self._entries.append(entry)
        try:
            text = await answer
        except ToolCallError as error:
            entry.error, entry.ended = _failure(error), True
            raise
        entry.value, entry.ended = msgspec.json.decode(text), True
        return text

    async def _looked_up(self, kind: Kind, name: str, given: JsonObject, answer: Awaitable[T]) -> T:
        value = await answer
        known = Entry(kind, name, given, value)
        if all(entry.key() != known.key() for entry in self._entries):
            self._entries.append(known)
        return value


class ReplayBroker:
    """Answers from a recording.

    Args:
        replay: The recording.
        surplus: Told of each call and lookup that the recording does not have.
    """

    def __init__(self, replay: Replay, surplus: Callable[[Entry], None]) -> None:
        self._replay = replay
        self._surplus = surplus
        self._lookups: dict[str, Entry] = {}

    async def prepare(self) -> None:
        """Nothing to read ahead."""

    async def call(self, name: str, arguments: JsonObject, *, max_bytes: int | None = None) -> str:  # noqa: ARG002
        """The recorded value as JSON text. See `ToolBroker.call`."""
        return self._answer("tool", name, arguments)

    async def read(self, uri: str, *, max_bytes: int | None = None) -> str:  # noqa: ARG002
        """The recorded value as JSON text. See `ToolBroker.read`."""
        return self._answer("resource", uri, {})

    async def prompt(self, name: str, arguments: JsonObject, *, max_bytes: int | None = None) -> str:  # noqa: ARG002
        """The recorded value as JSON text. See `ToolBroker.prompt`."""
        return self._answer("prompt", name, arguments)

    async def foresee(self, name: str, known: Mapping[str, object]) -> Mistake | None:
        """Nothing: a call ends as it was recorded. See `ToolBroker.foresee`."""

    async def unreachable(self, name: str) -> Mistake | None:
        """Nothing: that is no part of a recording. See `ToolBroker.unreachable`."""

    async def describe(self, name: str) -> JsonObject | None:
        """What was recorded of `getTool`. See `ToolBroker.describe`."""
        entry = self._lookup(Entry("getTool", name))
        return None if entry is None else cast("JsonObject | None", entry.value)

    async def space(self, path: str) -> JsonObject:
        """What was recorded of a namespace. See `ToolBroker.space`."""
        entry = self._lookup(Entry("space", path))
        return {"near": []} if entry is None else cast("JsonObject", entry.value)

    async def member(self, path: str, member: str) -> JsonObject:
        """What was recorded of a member. See `ToolBroker.member`."""
        entry = self._lookup(Entry("member", path, {"member": member}))
        return {"missing": f"{path}.{member}"} if entry is None else cast("JsonObject", entry.value)

    def _lookup(self, made: Entry) -> Entry | None:
        """The same each time it is looked up: several scripts of a test may ask."""
        key = made.key()
        if key not in self._lookups:
            found = self._replay.take(made)
            if found is None:
                self._surplus(made)
                return None
            self._lookups[key] = found
        return self._lookups[key]

    def _answer(self, kind: Literal["tool", "resource", "prompt"], name: str, given: JsonObject) -> str:
        if is_meta_tool(name):
            raise SelfReferenceError(name.strip())
        made = Entry(kind, name, given)
        found = self._replay.take(made)
        if found is None:
            self._surplus(made)
            message = f"{kind.capitalize()} '{name}' was not called like this when the recording was made"
            raise ToolCallError(message, tool_name=name, called=kind, code=NOT_RECORDED)
        if found.error is not None:
            raise _error(found.error, kind, name)
        return msgspec.json.encode(found.value).decode()


def _failure(error: ToolCallError) -> JsonObject:
    told = {
        "code": error.code,
        "message": error.message,
        "details": error.details,
        "hint": error.hint,
        "retryAfterMs": error.retry_after_ms,
    }
    return {key: value for key, value in told.items() if value is not None}


def _error(told: JsonObject, kind: Called, name: str) -> ToolCallError:
    return ToolCallError(
        str(told["message"]),
        tool_name=name,
        called=kind,
        code=str(told["code"]),
        details=told.get("details"),
        hint=cast("str | None", told.get("hint")),
        retry_after_ms=cast("int | None", told.get("retryAfterMs")),
    )
