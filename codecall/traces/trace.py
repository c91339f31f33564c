"""One run as data: what a page shows of it. Times are milliseconds since the run began, lines and columns from 1."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Value:
    """JSON data, or what is known of it where the record has none."""

    data: object = None
    """Without credentials, and within bounds: what is missing has a mark that says so."""
    known: bool = False
    """Whether there is `data`."""
    chars: int | None = None
    """Characters of all of it as JSON."""


@dataclass(frozen=True, slots=True)
class TracedCall:
    """One call that the script made."""

    number: int
    """Counts from 1."""
    called: str
    """`tool`, `resource`, `prompt` or `result`."""
    name: str
    start_ms: float | None = None
    end_ms: float | None = None
    """None of a call that was given up."""
    outcome: str = "ok"
    """`ok`, `error`, `unfinished` or `not_started`."""
    code: str | None = None
    """Of the error."""
    line: int | None = None
    """Where in the script it was made."""
    column: int | None = None
    reused: bool = False
    """Answered from the record of an earlier run."""
    input: Value = Value()
    result: Value = Value()


@dataclass(frozen=True, slots=True)
class Said:
    """One line of the console."""

    text: str
    at_ms: float | None = None
    """When the server heard of it; it was said between the call before and then."""


@dataclass(frozen=True, slots=True)
class Limit:
    """What a run used, and how much of it was allowed."""

    name: str
    unit: str
    """`ms`, `bytes`, or nothing for what is counted."""
    used: float | None
    """None where nobody measured it."""
    allowed: float | None


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a run failed."""

    code: str
    message: str | None = None
    """None where the record has no texts."""
    hint: str | None = None
    name: str | None = None
    """What it concerns: the name of the thrown error, or of the tool."""
    line: int | None = None
    column: int | None = None


@dataclass(frozen=True, slots=True)
class Trace:
    """One run of a script."""

    run_id: str
    when: float | None = None
    """When it began, in Unix time; None where the record has no beginning."""
    caller: str = ""
    """A hash."""
    preset: str | None = None
    status: str = "unfinished"
    """As in the envelope, or `cancelled`; `unfinished` while it runs, and where the record ends before the run."""
    script: str | None = None
    """Without credentials; None where the record has only its hash."""
    script_sha256: str | None = None
    script_chars: int | None = None
    duration_ms: float | None = None
    queue_ms: float | None = None
    """How long it waited for a worker, from its beginning."""
    validation_ms: float | None = None
    """How long the script was checked after that."""
    calls: tuple[TracedCall, ...] = ()
    """By number."""
    console: tuple[Said, ...] = ()
    result: Value = Value()
    result_kept: bool = False
    """Whether the result was too large for the answer, and kept for later."""
    error: Problem | None = None
    warnings: tuple[str, ...] = ()
    limits: tuple[Limit, ...] = ()
    dry_run: bool = False
    resumed_from: str | None = None
    notes: tuple[str, ...] = ()
    """What there is no record of, and why."""
