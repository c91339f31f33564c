"""The one JSON shape: what `codecall:execute` and `codecall:invoke` answer with, told apart by `status`."""

from __future__ import annotations

from dataclasses import dataclass, field

from codecall.errors import CodeCallError, Status
from codecall.made_calls import MadeCall, resumed, told

JsonObject = dict[str, object]


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

    def as_dict(self) -> JsonObject:
        """The `stats` object of an envelope."""
        return {
            "durationMs": round(self.duration_ms, 3),
            "scriptMs": round(self.script_ms, 3),
            "toolCalls": self.tool_calls,
            "steps": self.steps,
        }


@dataclass(frozen=True, slots=True)
class LargeResult:
    """A result that is too large for an answer, and is kept for later."""

    handle: str
    """What `getResult` takes. Whoever is not its owner can do nothing with it."""
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
        told: JsonObject = {
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
        return {key: value for key, value in told.items() if value is not None}


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
    """What was shortened or lost on the way out; empty for most runs."""
    lines: tuple[int, ...] = ()
    """For a run with `coverage`: the lines of the script that ran, ascending. No part of the envelope."""
    run_id: str = ""
    """Names the run in records and for `resumeFrom`; empty for scripts that no server runs."""
    resumed_from: str = ""
    """Names the run that this one took up."""
    calls: tuple[MadeCall, ...] = ()
    """The calls it made, in order. In the envelope of a run that failed."""
    large: LargeResult | None = None
    """Where the result is kept that is too large to be `value`, which is None then."""

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
        ran = self.status not in ("syntax_error", "illegal_access")
        if self.logs:
            body["logs"] = list(self.logs)
        if self.warnings:
            body["warnings"] = list(self.warnings)
        if self.error is not None and self.calls:
            body.update(told(self.calls))
        if ran:
            body["stats"] = self.stats.as_dict()
        if self.run_id:
            body["runId"] = self.run_id
        if self.resumed_from:
            body["resumed"] = resumed(self.resumed_from, self.calls)
        return body


def invoke_ok(result: object) -> JsonObject:
    """The envelope of a `codecall:invoke` that worked."""
    return {"status": "ok", "result": result}


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

EXECUTE_SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "status": {"enum": ["ok", "syntax_error", "illegal_access", "runtime_error", "tool_error", "timeout"]},
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
"""JSON Schema of `ExecutionResult.envelope()`. One flat object: clients reject a top-level union."""

INVOKE_SCHEMA: JsonObject = {
    "type": "object",
    "properties": {"status": {"enum": ["ok", "error"]}, "result": {}, "error": _ERROR},
    "required": ["status"],
}
"""JSON Schema of the envelopes of `codecall:invoke`."""
