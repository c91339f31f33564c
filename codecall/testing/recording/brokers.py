"""Brokers that record what another broker answers, and that answer from a recording; and how a script differs from its
recording, in words and diffs for a person."""

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
from codecall.wording import nearest

T = TypeVar("T")

NOT_RECORDED = "NOT_RECORDED"
"""The code with which a call fails that is not in the recording. The test fails even if the script catches it."""


class RecordingBroker:
    """Passes everything on to `inner`, and records what it answers.

    Args:
        inner: The broker that performs the calls.
        entries: Receives the calls, in the order in which they started.
    """

    def __init__(self, inner: ToolBroker, entries: list[RecordedCall]) -> None:
        self._inner = inner
        self._entries = entries

    async def prepare(self) -> None:
        """See `ToolBroker.prepare`."""
        await self._inner.prepare()

    async def call(self, name: str, arguments: JsonObject, *, max_bytes: int | None = None) -> str:
        """See `ToolBroker.call`."""
        return await self._record_call("tool", name, arguments, self._inner.call(name, arguments, max_bytes=max_bytes))

    async def read(self, uri: str, *, max_bytes: int | None = None) -> str:
        """See `ToolBroker.read`."""
        return await self._record_call("resource", uri, {}, self._inner.read(uri, max_bytes=max_bytes))

    async def prompt(self, name: str, arguments: JsonObject, *, max_bytes: int | None = None) -> str:
        """See `ToolBroker.prompt`."""
        return await self._record_call(
            "prompt", name, arguments, self._inner.prompt(name, arguments, max_bytes=max_bytes)
        )

    async def preflight(self, name: str, arguments: Mapping[str, object] | None) -> PreflightError | None:
        """Check nothing: a call is recorded as it ends, not as it would. See `ToolBroker.foresee`."""

    async def check_reachable(self, name: str) -> PreflightError | None:
        """Check nothing: that is no part of a recording. See `ToolBroker.unreachable`."""

    async def describe(self, name: str) -> JsonObject | None:
        """See `ToolBroker.describe`."""
        return await self._record_lookup("getTool", name, {}, self._inner.describe(name))

    async def namespace(self, path: str) -> JsonObject:
        """See `ToolBroker.space`."""
        return await self._record_lookup("space", path, {}, self._inner.namespace(path))

    async def member(self, path: str, member: str) -> JsonObject:
        """See `ToolBroker.member`."""
        return await self._record_lookup("member", path, {"member": member}, self._inner.member(path, member))

    async def _record_call(self, kind: RequestKind, name: str, arguments: JsonObject, response: Awaitable[str]) -> str:
        # A copy: the broker that answers may change the arguments.
        entry = RecordedCall(kind, name, cast("JsonObject", json.loads(json.dumps(arguments))), completed=False)
        self._entries.append(entry)
        try:
            text = await response
        except ToolCallError as error:
            entry.error, entry.completed = _error_document(error), True
            raise
        entry.value, entry.completed = msgspec.json.decode(text), True
        return text

    async def _record_lookup(self, kind: RequestKind, name: str, arguments: JsonObject, response: Awaitable[T]) -> T:
        value = await response
        lookup = RecordedCall(kind, name, arguments, value)
        if all(entry.key() != lookup.key() for entry in self._entries):
            self._entries.append(lookup)
        return value


class ReplayBroker:
    """Answers from a recording.

    Args:
        replay: The recording.
        on_unrecorded: Receives each call and lookup that is not in the recording.
    """

    def __init__(self, replay: Replay, on_unrecorded: Callable[[RecordedCall], None]) -> None:
        self._replay = replay
        self._on_unrecorded = on_unrecorded
        self._lookups: dict[str, RecordedCall] = {}

    async def prepare(self) -> None:
        """Do nothing: there is nothing to read ahead."""

    async def call(self, name: str, arguments: JsonObject, *, max_bytes: int | None = None) -> str:  # noqa: ARG002
        """The recorded value as JSON text. See `ToolBroker.call`."""
        return self._answer("tool", name, arguments)

    async def read(self, uri: str, *, max_bytes: int | None = None) -> str:  # noqa: ARG002
        """The recorded value as JSON text. See `ToolBroker.read`."""
        return self._answer("resource", uri, {})

    async def prompt(self, name: str, arguments: JsonObject, *, max_bytes: int | None = None) -> str:  # noqa: ARG002
        """The recorded value as JSON text. See `ToolBroker.prompt`."""
        return self._answer("prompt", name, arguments)

    async def preflight(self, name: str, arguments: Mapping[str, object] | None) -> PreflightError | None:
        """Check nothing: a call ends as it was recorded. See `ToolBroker.foresee`."""

    async def check_reachable(self, name: str) -> PreflightError | None:
        """Check nothing: that is no part of a recording. See `ToolBroker.unreachable`."""

    async def describe(self, name: str) -> JsonObject | None:
        """The recorded answer of `getTool`. See `ToolBroker.describe`."""
        entry = self._lookup(RecordedCall("getTool", name))
        return None if entry is None else cast("JsonObject | None", entry.value)

    async def namespace(self, path: str) -> JsonObject:
        """The recorded answer for a namespace. See `ToolBroker.space`."""
        entry = self._lookup(RecordedCall("space", path))
        return {"near": []} if entry is None else cast("JsonObject", entry.value)

    async def member(self, path: str, member: str) -> JsonObject:
        """The recorded answer for a member. See `ToolBroker.member`."""
        entry = self._lookup(RecordedCall("member", path, {"member": member}))
        return {"missing": f"{path}.{member}"} if entry is None else cast("JsonObject", entry.value)

    def _lookup(self, request: RecordedCall) -> RecordedCall | None:
        """Give the same answer for each lookup of a name: several scripts of a test may make it."""
        key = request.key()
        if key not in self._lookups:
            recorded = self._replay.use(request)
            if recorded is None:
                self._on_unrecorded(request)
                return None
            self._lookups[key] = recorded
        return self._lookups[key]

    def _answer(self, kind: Literal["tool", "resource", "prompt"], name: str, arguments: JsonObject) -> str:
        if is_meta_tool(name):
            raise SelfReferenceError(name.strip())
        request = RecordedCall(kind, name, arguments)
        recorded = self._replay.use(request)
        if recorded is None:
            self._on_unrecorded(request)
            message = f"{kind.capitalize()} '{name}' was not called like this when the recording was made"
            hint = "Make it as it is recorded, or record anew what the script calls now: pytest --codecall-record."
            raise ToolCallError(message, tool_name=name, called=kind, code=NOT_RECORDED, hint=hint)
        if recorded.error is not None:
            raise _tool_call_error(recorded.error, kind, name)
        return msgspec.json.encode(recorded.value).decode()


def _error_document(error: ToolCallError) -> JsonObject:
    document = {
        "code": error.code,
        "message": error.message,
        "details": error.details,
        "hint": error.hint,
        "retryAfterMs": error.retry_after_ms,
    }
    return {key: value for key, value in document.items() if value is not None}


def _tool_call_error(document: JsonObject, kind: CallKind, name: str) -> ToolCallError:
    return ToolCallError(
        str(document["message"]),
        tool_name=name,
        called=kind,
        code=str(document["code"]),
        details=document.get("details"),
        hint=cast("str | None", document.get("hint")),
        retry_after_ms=cast("int | None", document.get("retryAfterMs")),
    )


_MAX_LISTED: Final = 10
"""Most calls that one list shows."""

_MAX_COMPARED: Final = 50
"""Most recorded calls that one is compared with, to find the nearest."""

_MAX_DIFF: Final = 60
"""Most lines of one diff."""


def describe_unrecorded(request: RecordedCall, replay: Replay, *, ordered: bool) -> str:
    """Describe a call that the script made and that is not in the recording, or is not due."""
    unused = [entry for entry in replay.unused if _same_name(entry, request)]
    used = [entry for entry in replay.used if _same_name(entry, request)]
    due = replay.next_call() if ordered and request.is_call else None
    lines = [f"made:     {describe_call(request)}"]
    if due is not None:
        lines += [f"recorded: {describe_call(due)}, which is due", *_diff(due, request)]
    elif unused:
        nearest = max(unused[:_MAX_COMPARED], key=lambda entry: _similarity(entry, request))
        lines += [f"recorded: {describe_call(nearest)}, not made so far", *_diff(nearest, request)]
        lines += titled_list(
            "Others recorded and not made so far:", [entry for entry in unused if entry is not nearest]
        )
    elif any(entry.key() == request.key() for entry in used):
        count = sum(entry.key() == request.key() for entry in used)
        lines.append(f"recorded: {'once' if count == 1 else f'{count} times'}, and made as often before")
    elif used:
        lines += ["recorded: no such call that has not been made", *titled_list("Made before:", used)]
    else:
        lines.append(f"recorded: nothing of that name{_similar_names(request, replay)}")
    return "\n".join(lines)


def describe_unused(entries: Sequence[RecordedCall]) -> str:
    """Describe what was recorded and is no longer requested."""
    return "\n".join(titled_list("Recorded, but the test no longer asks for:", entries))


def titled_list(title: str, entries: Sequence[RecordedCall]) -> list[str]:
    """A titled list of calls; no lines for an empty list."""
    if not entries:
        return []
    lines = [title, *(f"  {describe_call(entry)}" for entry in entries[:_MAX_LISTED])]
    more = len(entries) - _MAX_LISTED
    return [*lines, f"  … {more} more"] if more > 0 else lines


def describe_call(entry: RecordedCall) -> str:
    """Describe a call in one line."""
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


def _same_name(entry: RecordedCall, request: RecordedCall) -> bool:
    return (entry.kind, entry.name) == (request.kind, request.name)


def _diff(recorded: RecordedCall, request: RecordedCall) -> list[str]:
    """The differences between the recorded input and that of the request."""
    if not request.is_call:
        return []
    before, after = _lines(recorded), _lines(request)
    lines = list(difflib.unified_diff(before, after, "recorded", "made", lineterm="", n=2))
    more = len(lines) - _MAX_DIFF
    return [f"  {line}" for line in [*lines[:_MAX_DIFF], *([f"… {more} more lines"] if more > 0 else [])]]


def _lines(entry: RecordedCall) -> list[str]:
    text = json.dumps(entry.input, indent=2, sort_keys=True, ensure_ascii=False)
    return [f"{entry.kind} {entry.name}", *text.split("\n")]


def _similarity(entry: RecordedCall, request: RecordedCall) -> float:
    """How similar two inputs are: 1 for each key with the same value, 0.5 for each other common key."""
    common = entry.input.keys() & request.input.keys()
    return sum(1.0 if entry.input[key] == request.input[key] else 0.5 for key in common)


def _similar_names(request: RecordedCall, replay: Replay) -> str:
    names = {entry.name for entry in (*replay.unused, *replay.used) if entry.kind == request.kind}
    near = nearest(request.name, names, limit=3)
    return f"; there is {', '.join(near)}" if near else ""
