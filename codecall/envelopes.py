"""The one JSON shape: what `codecall:execute` and `codecall:invoke` answer with, told apart by `status`."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Final, Literal

from codecall.errors import Called, CodeCallError, Status

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


MAX_INPUT_SHOWN: Final = 200
"""Characters of a call's input that are kept for the list of calls of a failed run."""

CallOutcome = Literal["ok", "error", "unfinished", "not_started"]
"""What became of a call. `unfinished`: it was given up while it ran, and may have taken effect."""


@dataclass(slots=True)
class MadeCall:
    """One call that a script made. Changes while the script runs, and no more after."""

    number: int
    """Counts from 1 within the script, whatever is called."""
    called: Called
    name: str
    """The tool's or the prompt's name, or the URI of a resource."""
    input: str = "{}"
    """The beginning of its input, as JSON text; `MAX_INPUT_SHOWN` characters."""
    input_chars: int = 2
    """Characters of all of its input."""
    started: float | None = None
    """In seconds of `time.perf_counter`; None before it was."""
    ended: float | None = None
    """The same; None while it runs, and for good of a call that was given up."""
    code: str | None = None
    """The error's code, of a call that failed."""
    result_chars: int = 0
    """Characters of its value, as JSON text."""
    reused: bool = False
    """Answered from the record of an earlier run: nothing was called."""

    def start(self) -> None:
        """It begins."""
        self.started = time.perf_counter()

    def end(self, code: str | None = None) -> None:
        """It has ended: well, or with an error of this code."""
        self.ended, self.code = time.perf_counter(), code

    @property
    def outcome(self) -> CallOutcome:
        """What became of it, so far."""
        if self.started is None:
            return "not_started"
        if self.ended is None:
            return "unfinished"
        return "ok" if self.code is None else "error"

    def as_dict(self) -> JsonObject:
        """Its entry in `calls` of an envelope."""
        key = self.called if self.called != "tool" else "toolName"
        told: JsonObject = {key: self.name, "outcome": self.outcome}
        if self.code is not None:
            told["code"] = self.code
        if self.input != "{}":
            left_out = self.input_chars - len(self.input)
            told["input"] = f"{self.input}…[{left_out} more characters]" if left_out else self.input
        if self.started is not None and self.ended is not None:
            told["durationMs"] = round((self.ended - self.started) * 1000, 3)
        if self.reused:
            told["reused"] = True
        return told


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
    calls: tuple[MadeCall, ...] = ()
    """The calls it made, in order. In the envelope of a run that failed."""

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
        if self.error is None:
            body["result"] = self.value
        else:
            body["error"] = self.error.as_dict()
        ran = self.status not in ("syntax_error", "illegal_access")
        if self.logs:
            body["logs"] = list(self.logs)
        if self.warnings:
            body["warnings"] = list(self.warnings)
        if self.error is not None and self.calls:
            body["calls"] = [call.as_dict() for call in self.calls]
        if ran:
            body["stats"] = self.stats.as_dict()
        if self.run_id:
            body["runId"] = self.run_id
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

EXECUTE_SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "status": {"enum": ["ok", "syntax_error", "illegal_access", "runtime_error", "tool_error", "timeout"]},
        "runId": _TEXT,
        "result": {},
        "error": _ERROR,
        "logs": _LINES,
        "warnings": _LINES,
        "calls": {"type": "array", "items": {"type": "object"}},
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
