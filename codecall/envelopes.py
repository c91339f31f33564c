"""The answers of `codecall:execute` and `codecall:invoke`, told apart by `status`; records of a script's calls."""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from codecall.errors import CallKind, CodeCallError, Location, Status

JsonObject = dict[str, object]

RUN_ID: Final = re.compile(r"run_[A-Za-z0-9_-]{16,64}", re.ASCII)
"""The form of the ids of runs."""

MAX_INPUT_CHARS: Final = 200
"""Characters of a call's input in the list of calls of a failed run."""

MAX_STORED_INPUT_CHARS: Final = 2 * MAX_INPUT_CHARS
"""Characters that are stored for it: credentials are looked for in them, so that half of one is not shown."""

MAX_LISTED_CALLS: Final = 100
"""Calls that such a list has one by one; of the others it has the number."""

MAX_FULL_INPUTS: Final = 20
"""Calls beyond which less of their input is shown."""

SHORT_INPUT_CHARS: Final = 80
"""Characters of each input then."""

MAX_SOURCES: Final = 1_000
"""Names that `Sources` holds."""

MAX_SOURCES_CHARS: Final = 64 * 1024
"""Characters of all of them."""

_POLL_S: Final = 0.02
"""Seconds between two looks at calls under way, whose end sets no event."""

CallOutcome = Literal["ok", "error", "unfinished", "not_started"]
"""What became of a call. `unfinished`: it was given up while it ran, and may have taken effect."""


@dataclass(slots=True)
class Sources:
    """Whose values something may be made of: the names of what was called, or its URIs."""

    names: set[str] = field(default_factory=set[str])
    is_complete: bool = True
    """False: it may be made of others, too."""
    _chars: int = 0

    def add(self, other: Sources | None) -> None:
        """Add these; None: they are not known."""
        if other is None:
            self.is_complete = False
            return
        self.is_complete = self.is_complete and other.is_complete
        for name in other.names - self.names:
            self._chars += len(name)
            if len(self.names) >= MAX_SOURCES or self._chars > MAX_SOURCES_CHARS:
                self.is_complete = False
                return
            self.names.add(name)


@dataclass(slots=True)
class CallRecord:
    """One call that a script made. Changes while the script runs, and no more after."""

    number: int
    """Counts from 1 within the script, whatever is called."""
    called: CallKind
    name: str
    """The tool's or the prompt's name, or the URI of a resource, as the script wrote it."""
    input: str = "{}"
    """The beginning of its input, as JSON text; `MAX_STORED_INPUT_CHARS` characters."""
    input_chars: int = 2
    """Characters of all of its input."""
    started: float | None = None
    """In seconds of `time.perf_counter`; None before it was."""
    ended: float | None = None
    """The same; None while it runs, and for good of a call that was given up."""
    was_given_up: bool = False
    """Nobody waits for its answer any more, in a run that goes on."""
    code: str | None = None
    """The error's code, of a call that failed."""
    result_chars: int = 0
    """Characters of its value, as JSON text."""
    reused: bool = False
    """Answered from the record of an earlier run: nothing was called."""
    is_gated: bool = False
    """A person has to allow it, and has not yet: it has not been made."""
    kept: bool = True
    """False: its value could not be kept, so that `resumeFrom` makes it again. Says nothing where nothing is kept."""
    read_as: str | None = None
    """The URI under which a resource is read; None before that is known, and for all that is no resource."""
    made_of: Sources | None = None
    """What was called within it, of whose values its own may be made, as may that of `extract` of all before it; None:
    that is not known."""

    epoch: int = 0
    """How often, until it was made, the script had made calls while it waited for no other: calls of the same epoch ran
    side by side."""
    line: int | None = None
    """Where in the script it was made, from 1, by what its worker says; None where that is not known."""
    column: int | None = None
    """The same, in characters of that line."""

    def start(self) -> None:
        """Mark the call as started now."""
        self.started = time.perf_counter()

    def end(self, code: str | None = None) -> None:
        """Mark the call as ended now: well, or with an error of this code."""
        self.ended, self.code = time.perf_counter(), code

    @property
    def is_under_way(self) -> bool:
        """Whether it may be taking effect now."""
        return self.started is not None and self.ended is None and not self.is_gated and not self.was_given_up

    @property
    def outcome(self) -> CallOutcome:
        """What became of the call, so far."""
        if self.ended is None:
            return "not_started" if self.started is None or self.is_gated else "unfinished"
        return "ok" if self.code is None else "error"

    @property
    def duration_ms(self) -> float | None:
        """Milliseconds that the call took; None while it runs, and of one that was given up."""
        if self.started is None or self.ended is None:
            return None
        return round((self.ended - self.started) * 1000, 3)

    def named(self) -> JsonObject:
        """The number of the call, and what it called."""
        return {"number": self.number, self.called if self.called != "tool" else "toolName": self.name}

    @property
    def location(self) -> Location | None:
        """Where in the script it was made, as far as that is known."""
        return Location(self.line, self.column) if self.line is not None and self.column is not None else None

    def as_dict(self, input_chars: int = MAX_INPUT_CHARS) -> JsonObject:
        """Its entry in `calls` of an envelope, with so many characters of its input."""
        body: JsonObject = {**self.named(), "outcome": self.outcome}
        if self.code is not None:
            body["code"] = self.code
        if self.input != "{}":
            left_out = self.input_chars - input_chars
            body["input"] = self.input if left_out <= 0 else f"{self.input[:input_chars]}…[{left_out} more characters]"
        if self.duration_ms is not None:
            body["durationMs"] = self.duration_ms
        if self.reused:
            body["reused"] = True
        if not self.kept and self.outcome == "ok":
            body["kept"] = False
        return body


async def wait_for_calls(calls: Iterable[CallRecord]) -> None:
    """Wait for those of these calls that are under way. A run that ends because another call has to be allowed is
    resumed from its record, which must have their outcomes."""
    waiting = [call for call in calls if call.is_under_way]
    while any(call.is_under_way for call in waiting):  # noqa: ASYNC110 - nobody sets an event
        await asyncio.sleep(_POLL_S)


def select_calls(calls: Sequence[CallRecord]) -> list[CallRecord]:
    """Those that are told one by one, by their numbers: those that failed or were given up, then the latest that went
    well, up to `MAX_TOLD`."""
    if len(calls) <= MAX_LISTED_CALLS:
        return list(calls)
    urgency = {"error": 0, "unfinished": 0, "ok": 1, "not_started": 2}
    ranked = sorted(calls, key=lambda call: (urgency[call.outcome], -call.number))
    return sorted(ranked[:MAX_LISTED_CALLS], key=lambda call: call.number)


def calls_body(calls: Sequence[CallRecord]) -> JsonObject:
    """`calls` of the envelope of a run that failed, and `callsLeftOut` where there are more than `MAX_TOLD`."""
    listed = select_calls(calls)
    numbers = {call.number for call in listed}
    left_out = [call for call in calls if call.number not in numbers]
    input_chars = MAX_INPUT_CHARS if len(listed) <= MAX_FULL_INPUTS else SHORT_INPUT_CHARS
    body: JsonObject = {"calls": [call.as_dict(input_chars) for call in listed]}
    if left_out:
        body["callsLeftOut"] = dict(Counter(call.outcome for call in left_out))
    return body


def resumed_body(run_id: str, calls: Sequence[CallRecord]) -> JsonObject:
    """`resumed_body` of the envelope of a run that took up another: which, and which calls were not made again."""
    reused = [call for call in calls if call.reused]
    body: JsonObject = {"from": run_id, "calls": [call.named() for call in reused[:MAX_LISTED_CALLS]]}
    if len(reused) > MAX_LISTED_CALLS:
        body["callsLeftOut"] = len(reused) - MAX_LISTED_CALLS
    return body


@dataclass(frozen=True, slots=True)
class Stats:
    """What a run used."""

    duration_ms: float = 0.0
    """Milliseconds from checkout of a worker to the end, waiting for tools included."""
    script_ms: float = 0.0
    """Milliseconds the script itself had the processor: validation, running, no waiting."""
    tool_calls: int = 0
    """Tool calls made."""
    steps: int = 0
    """Loop turns and function entries."""
    model_requests: int = 0
    """Requests to a model that `extract` made."""
    model_tokens: int = 0
    """Tokens of them and of their answers, as estimated."""

    def as_dict(self) -> JsonObject:
        """The `stats` object of an envelope."""
        body: JsonObject = {
            "durationMs": round(self.duration_ms, 3),
            "scriptMs": round(self.script_ms, 3),
            "toolCalls": self.tool_calls,
            "steps": self.steps,
        }
        if self.model_requests:
            body |= {"modelRequests": self.model_requests, "modelTokens": self.model_tokens}
        return body


@dataclass(frozen=True, slots=True)
class LargeResult:
    """A result that is too large for an answer, and is kept for later."""

    handle: str
    """What `getResult` takes. It works for its owner only."""
    uri: str
    """The MCP resource that is its whole JSON text, if it has no more than 2 MiB; longer ones have pages only."""
    size: int
    """Bytes of that text, as UTF-8."""
    pages: int
    """Parts in which the text can be read, too; counted from 1."""
    expires: str
    """When it will be gone: ISO 8601, UTC."""
    preview: str
    """The beginning of the text, with a mark where it ends."""
    shape: JsonObject | None = None
    """JSON Schema of what its beginning looks like; None where that says nothing."""
    items: int | None = None
    """Items of a result that is an array."""
    members: JsonObject | None = None
    """Of a result that is an object: how large the values of its first properties are."""
    hint: str = ""
    """How a script reads it."""

    def as_dict(self) -> JsonObject:
        """The `largeResult` object of an envelope."""
        body: JsonObject = {
            "handle": self.handle,
            "uri": self.uri,
            "bytes": self.size,
            "pages": self.pages,
            "items": self.items,
            "members": self.members,
            "expires": self.expires,
            "shape": self.shape,
            "preview": self.preview,
            "hint": self.hint,
        }
        return {key: value for key, value in body.items() if value is not None}


@dataclass(frozen=True, slots=True)
class ExecutionResult:
    """How one script ended. Falsy questions are answered by `success`, never by the truth of `value`."""

    status: Status
    """`ok`, or the family of the error."""
    value: object = None
    """What the script returned, as JSON data; None when it returned nothing or failed."""
    error: CodeCallError | None = None
    """Why it failed; None exactly when `status` is `ok`."""
    logs: tuple[str, ...] = ()
    """Console lines in order; also those of a script that failed or was killed."""
    stats: Stats = field(default_factory=Stats)
    """What it used."""
    warnings: tuple[str, ...] = ()
    """What was replaced by a mark on the way out, and what was forgotten; empty for most runs."""
    lines: tuple[int, ...] = ()
    """For a run with `coverage`: the lines of the script that ran, ascending. No part of the envelope."""
    run_id: str = ""
    """Names the run in records and for `resumeFrom`; empty for scripts that no server runs."""
    resumed_from: str = ""
    """Names the run that this one resumed."""
    calls: tuple[CallRecord, ...] = ()
    """The calls it made, in order. In the envelope of a run that failed."""
    large: LargeResult | None = None
    """Where the result is kept that is too large to be `value`, which is None then."""
    steps: Mapping[str, str] = field(default_factory=dict[str, str])
    """What became of each step of a composite tool, by its id. No part of the envelope."""
    blocks: tuple[str, ...] = ()
    """References of the content blocks that its answer shows: those it has returned, or passed to `emit`."""
    value_bytes: int = field(default=0, repr=False, compare=False)
    """Bytes of `value` as JSON, where that is known. No part of the envelope."""

    @property
    def success(self) -> bool:
        """True exactly when `status` is `ok`."""
        return self.error is None

    def raise_for_status(self) -> ExecutionResult:
        """Raise `error` if there is one, else return self."""
        if self.error is not None:
            raise self.error
        return self

    def envelope(self) -> JsonObject:
        """The JSON object a client of `codecall:execute` receives."""
        body: JsonObject = {"status": self.status}
        if self.large is not None:
            body["largeResult"] = self.large.as_dict()
        elif self.error is None:
            body["result"] = self.value
        else:
            body["error"] = self.error.as_dict()
        was_run = self.status not in ("syntax_error", "illegal_access")
        if self.logs:
            body["logs"] = list(self.logs)
        if self.warnings:
            body["warnings"] = list(self.warnings)
        if self.error is not None and self.calls:
            body.update(calls_body(self.calls))
        if was_run:
            body["stats"] = self.stats.as_dict()
        if self.run_id:
            body["runId"] = self.run_id
        if self.resumed_from:
            body["resumed"] = resumed_body(self.resumed_from, self.calls)
        return body


def invoke_ok(result: object, warnings: Sequence[str] = ()) -> JsonObject:
    """The envelope of a `codecall:invoke` that worked."""
    return {"status": "ok", "result": result, **({"warnings": list(warnings)} if warnings else {})}


def invoke_large(large: LargeResult) -> JsonObject:
    """The envelope of a `codecall:invoke` that worked and whose result is kept, because it is too large."""
    return {"status": "ok", "largeResult": large.as_dict()}


def invoke_error(error: CodeCallError) -> JsonObject:
    """The envelope of a `codecall:invoke` that failed."""
    return {"status": "error", "error": error.as_dict()}


_TEXT: JsonObject = {"type": "string"}
_LOCATION: JsonObject = {
    "type": "object",
    "properties": {
        "line": {"type": "integer", "minimum": 1},
        "column": {"type": "integer", "minimum": 1},
        "text": _TEXT,
    },
    "required": ["line", "column"],
}
_ERROR: JsonObject = {
    "type": "object",
    "properties": {
        "code": _TEXT,
        "message": _TEXT,
        "hint": _TEXT,
        "kind": _TEXT,
        "name": _TEXT,
        "source": {"enum": ["script", "worker", "limit", "tool"]},
        "toolName": _TEXT,
        "resource": _TEXT,
        "prompt": _TEXT,
        "result": _TEXT,
        "extract": _TEXT,
        "details": {},
        "retryAfterMs": {"type": "integer"},
        "location": _LOCATION,
    },
    "required": ["code", "message"],
}
_STATS: JsonObject = {
    "type": "object",
    "properties": {
        "durationMs": {"type": "number"},
        "scriptMs": {"type": "number"},
        "toolCalls": {"type": "integer"},
        "steps": {"type": "integer"},
        "modelRequests": {"type": "integer"},
        "modelTokens": {"type": "integer"},
    },
    "required": ["durationMs", "scriptMs", "toolCalls", "steps"],
}
_LINES: JsonObject = {"type": "array", "items": _TEXT}
_NAMED: JsonObject = {
    "number": {"type": "integer"},
    "toolName": _TEXT,
    "resource": _TEXT,
    "prompt": _TEXT,
    "result": _TEXT,
    "extract": _TEXT,
}
_CALL: JsonObject = {
    "type": "object",
    "properties": {
        **_NAMED,
        "outcome": {"enum": ["ok", "error", "unfinished", "not_started"]},
        "code": _TEXT,
        "input": _TEXT,
        "durationMs": {"type": "number"},
        "reused": {"type": "boolean"},
        "kept": {"type": "boolean"},
    },
    "required": ["number", "outcome"],
}
_RESUMED: JsonObject = {
    "type": "object",
    "properties": {
        "from": _TEXT,
        "calls": {"type": "array", "items": {"type": "object", "properties": _NAMED, "required": ["number"]}},
        "callsLeftOut": {"type": "integer"},
    },
    "required": ["from", "calls"],
}
_LARGE: JsonObject = {
    "type": "object",
    "properties": {
        "handle": _TEXT,
        "uri": _TEXT,
        "bytes": {"type": "integer"},
        "pages": {"type": "integer"},
        "items": {"type": "integer"},
        "members": {"type": "object"},
        "expires": _TEXT,
        "shape": {"type": "object"},
        "preview": _TEXT,
        "hint": _TEXT,
    },
    "required": ["handle", "uri", "bytes", "pages", "expires", "preview", "hint"],
}

_STATUS: JsonObject = {"enum": ["ok", "syntax_error", "illegal_access", "runtime_error", "tool_error", "timeout"]}

EXECUTE_SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "status": _STATUS,
        "runId": _TEXT,
        "result": {},
        "largeResult": _LARGE,
        "error": _ERROR,
        "logs": _LINES,
        "warnings": _LINES,
        "calls": {"type": "array", "items": _CALL},
        "callsLeftOut": {"type": "object", "additionalProperties": {"type": "integer"}},
        "resumed": _RESUMED,
        "stats": _STATS,
    },
    "required": ["status"],
}
"""The envelope of execute, whole, for documentation and tests. One flat object: clients reject a top-level union."""

_SHORT: JsonObject = {"status": _STATUS, "result": {}, "error": {}}
EXECUTE_OUTPUT_SCHEMA: JsonObject = {"type": "object", "properties": _SHORT, "required": ["status"]}
"""What execute advertises: clients check each answer against it, which takes 0.15 ms with the whole schema."""

INVOKE_SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "status": {"enum": ["ok", "error"]},
        "result": {},
        "largeResult": _LARGE,
        "error": _ERROR,
        "warnings": _LINES,
    },
    "required": ["status"],
}
"""JSON Schema of the envelopes of `codecall:invoke`."""
