"""Brokers that record what another answers, and that answer from a recording."""

from __future__ import annotations

import difflib
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, Literal, TypeVar, cast

import msgspec

from codecall.errors import CallKind, SelfReferenceError, ToolCallError
from codecall.sandbox.agentscript.policy import is_meta_tool
from codecall.sandbox.interfaces import ToolBroker
from codecall.schema.partial import PreflightError
from codecall.testing.calls import abbreviate
from codecall.testing.recording.cassette import JsonObject, RecordedCall, Replay, RequestKind

# ----------------------------------------------------------------------------------------------------
# Brokers that record what another answers, and that answer from a recording.

T = TypeVar("T")

NOT_RECORDED = "NOT_RECORDED"
"""The code with which a call fails that the recording does not have. The test fails whatever the script makes of it."""


class RecordingBroker:
    """Passes everything on to `inner`, and keeps what it answers.

    Args:
        inner: Performs the calls.
        entries: Where they go, in the order in which they began.
    """

    def __init__(self, inner: ToolBroker, entries: list[RecordedCall]) -> None:
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

    async def preflight(self, name: str, arguments: Mapping[str, object]) -> PreflightError | None:
        """Nothing: a call is recorded as it ends, not as it would. See `ToolBroker.foresee`."""

    async def check_reachable(self, name: str) -> PreflightError | None:
        """Nothing: that is no part of a recording. See `ToolBroker.unreachable`."""

    async def describe(self, name: str) -> JsonObject | None:
        """See `ToolBroker.describe`."""
        return await self._looked_up("getTool", name, {}, self._inner.describe(name))

    async def namespace(self, path: str) -> JsonObject:
        """See `ToolBroker.space`."""
        return await self._looked_up("space", path, {}, self._inner.namespace(path))

    async def member(self, path: str, member: str) -> JsonObject:
        """See `ToolBroker.member`."""
        return await self._looked_up("member", path, {"member": member}, self._inner.member(path, member))

    async def _text(self, kind: RequestKind, name: str, given: JsonObject, answer: Awaitable[str]) -> str:
        # What the script gave may be changed by whoever answers.
        entry = RecordedCall(kind, name, cast("JsonObject", json.loads(json.dumps(given))), ended=False)
        self._entries.append(entry)
        try:
            text = await answer
        except ToolCallError as error:
            entry.error, entry.ended = _failure(error), True
            raise
        entry.value, entry.ended = msgspec.json.decode(text), True
        return text

    async def _looked_up(self, kind: RequestKind, name: str, given: JsonObject, answer: Awaitable[T]) -> T:
        value = await answer
        known = RecordedCall(kind, name, given, value)
        if all(entry.key() != known.key() for entry in self._entries):
            self._entries.append(known)
        return value


class ReplayBroker:
    """Answers from a recording.

    Args:
        replay: The recording.
        surplus: Told of each call and lookup that the recording does not have.
    """

    def __init__(self, replay: Replay, surplus: Callable[[RecordedCall], None]) -> None:
        self._replay = replay
        self._surplus = surplus
        self._lookups: dict[str, RecordedCall] = {}

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

    async def preflight(self, name: str, arguments: Mapping[str, object]) -> PreflightError | None:
        """Nothing: a call ends as it was recorded. See `ToolBroker.foresee`."""

    async def check_reachable(self, name: str) -> PreflightError | None:
        """Nothing: that is no part of a recording. See `ToolBroker.unreachable`."""

    async def describe(self, name: str) -> JsonObject | None:
        """What was recorded of `getTool`. See `ToolBroker.describe`."""
        entry = self._lookup(RecordedCall("getTool", name))
        return None if entry is None else cast("JsonObject | None", entry.value)

    async def namespace(self, path: str) -> JsonObject:
        """What was recorded of a namespace. See `ToolBroker.space`."""
        entry = self._lookup(RecordedCall("space", path))
        return {"near": []} if entry is None else cast("JsonObject", entry.value)

    async def member(self, path: str, member: str) -> JsonObject:
        """What was recorded of a member. See `ToolBroker.member`."""
        entry = self._lookup(RecordedCall("member", path, {"member": member}))
        return {"missing": f"{path}.{member}"} if entry is None else cast("JsonObject", entry.value)

    def _lookup(self, made: RecordedCall) -> RecordedCall | None:
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
        made = RecordedCall(kind, name, given)
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


def _error(told: JsonObject, kind: CallKind, name: str) -> ToolCallError:
    return ToolCallError(
        str(told["message"]),
        tool_name=name,
        called=kind,
        code=str(told["code"]),
        details=told.get("details"),
        hint=cast("str | None", told.get("hint")),
        retry_after_ms=cast("int | None", told.get("retryAfterMs")),
    )


# ----------------------------------------------------------------------------------------------------
# How a script differs from its recording, in words and diffs for a person.

_MAX_LISTED: Final = 10
"""Most calls that one list shows."""

_MAX_COMPARED: Final = 50
"""Most recorded calls that one is compared with, to find the nearest."""

_MAX_DIFF: Final = 60
"""Most lines of one diff."""


def describe_unrecorded(made: RecordedCall, replay: Replay, *, ordered: bool) -> str:
    """What to say of a call that was made and was not recorded, or is not due."""
    left, used = ([entry for entry in entries if _alike(entry, made)] for entries in (replay.unused, replay.used))
    due = replay.next_call() if ordered and made.is_call else None
    lines = [f"made:     {describe_call(made)}"]
    if due is not None:
        lines += [f"recorded: {describe_call(due)}, which is due", *_diff(due, made)]
    elif left:
        nearest = max(left[:_MAX_COMPARED], key=lambda entry: _likeness(entry, made))
        lines += [f"recorded: {describe_call(nearest)}, not made so far", *_diff(nearest, made)]
        lines += titled_list("Others recorded and not made so far:", [entry for entry in left if entry is not nearest])
    elif any(entry.key() == made.key() for entry in used):
        count = sum(entry.key() == made.key() for entry in used)
        lines.append(f"recorded: {'once' if count == 1 else f'{count} times'}, and made as often before")
    elif used:
        lines += ["recorded: no such call that has not been made", *titled_list("Made before:", used)]
    else:
        lines.append(f"recorded: nothing of that name{_names(made, replay)}")
    return "\n".join(lines)


def describe_unused(entries: Sequence[RecordedCall]) -> str:
    """What to say of what was recorded and is no longer asked for."""
    return "\n".join(titled_list("Recorded, but the test no longer asks for:", entries))


def titled_list(title: str, entries: Sequence[RecordedCall]) -> list[str]:
    """A titled list of calls; nothing for none."""
    if not entries:
        return []
    lines = [title, *(f"  {describe_call(entry)}" for entry in entries[:_MAX_LISTED])]
    more = len(entries) - _MAX_LISTED
    return [*lines, f"  … {more} more"] if more > 0 else lines


def describe_call(entry: RecordedCall) -> str:
    """A call in one line."""
    match entry.kind:
        case "tool":
            return f"{entry.name}({abbreviate(entry.input)})"
        case "resource":
            return f"readResource({entry.name!r})"
        case "prompt":
            return f"getPrompt({entry.name!r}, {abbreviate(entry.input)})"
        case "getTool":
            return f"getTool({entry.name!r})"
        case "space":
            return f"the namespace {entry.name}"
        case "member":
            return f"the member {entry.name}.{entry.input.get('member')}"


def _alike(entry: RecordedCall, made: RecordedCall) -> bool:
    return (entry.kind, entry.name) == (made.kind, made.name)


def _diff(recorded: RecordedCall, made: RecordedCall) -> list[str]:
    """What changes from the recorded input to the one made."""
    if not made.is_call:
        return []
    before, after = _lines(recorded), _lines(made)
    lines = list(difflib.unified_diff(before, after, "recorded", "made", lineterm="", n=2))
    more = len(lines) - _MAX_DIFF
    return [f"  {line}" for line in [*lines[:_MAX_DIFF], *([f"… {more} more lines"] if more > 0 else [])]]


def _lines(entry: RecordedCall) -> list[str]:
    text = json.dumps(entry.input, indent=2, sort_keys=True, ensure_ascii=False)
    return [f"{entry.kind} {entry.name}", *text.split("\n")]


def _likeness(entry: RecordedCall, made: RecordedCall) -> float:
    """How alike two inputs are: keys with the same value count, then keys."""
    return sum(1.0 if entry.input[key] == made.input[key] else 0.5 for key in _common(entry.input, made.input))


def _common(left: JsonObject, right: JsonObject) -> set[str]:
    return left.keys() & right.keys()


def _names(made: RecordedCall, replay: Replay) -> str:
    names = {entry.name for entry in (*replay.unused, *replay.used) if entry.kind == made.kind}
    near = difflib.get_close_matches(made.name, names, n=3)
    return f"; there is {', '.join(near)}" if near else ""
