"""What the record of a run is made of: events, in the order in which things happened.

    codecall.execute.start      a run begins: script hash and size, preset, what it may call
    codecall.execute.tool_call  a call of it has ended: what, hash and size of its input, outcome, size of its value
    codecall.execute.blocked    a script was refused, a call by the rules of access or rates, or a run to take up
    codecall.execute.complete   the run has ended: how, and what it used of which limits
    codecall.invoke.tool_call   a call of `codecall:invoke`; codecall.invoke.blocked: one that was refused
    codecall.audit.lost         a sink missed so many events before this one

For every start there is one complete, whatever becomes of the run, unless the process is killed. No event holds an
input or a value unless the options ask for it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Literal

from codecall.sanitizing import well_formed

EventName = Literal[
    "codecall.execute.start",
    "codecall.execute.tool_call",
    "codecall.execute.blocked",
    "codecall.execute.complete",
    "codecall.invoke.tool_call",
    "codecall.invoke.blocked",
    "codecall.audit.lost",
]


@dataclass(frozen=True, slots=True)
class Trace:
    """Where an event belongs in OpenTelemetry."""

    trace_id: int
    span_id: int
    flags: int


@dataclass(frozen=True, slots=True)
class AuditEvent:
    """One event of the record of a run."""

    name: EventName
    time: float
    """Unix time in seconds."""
    run_id: str = ""
    """Of the run; it is in the envelope, too. Of an invoke: made up for it."""
    caller: str = ""
    """Whose run it is: a hash, the same for the same caller."""
    fields: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))
    """What else there is to say: JSON data, by names in snake_case. None stands for what is not known."""
    trace: Trace | None = None
    """The span it happened in."""
    held: int = field(default=0, repr=False, compare=False)
    """Characters that it keeps in memory, about; not part of what is told."""

    def as_dict(self) -> dict[str, object]:
        """All of it as one flat JSON object."""
        body: dict[str, object] = {
            "event": self.name,
            "time": datetime.fromtimestamp(self.time, UTC).isoformat(timespec="milliseconds"),
        }
        if self.run_id:
            body["run_id"] = self.run_id
            body["caller"] = self.caller
        body.update(self.fields)
        if self.trace is not None:
            body["trace_id"] = f"{self.trace.trace_id:032x}"
            body["span_id"] = f"{self.trace.span_id:016x}"
        return body

    def as_json(self) -> str:
        """The same as one line of JSON, all in ASCII: nothing that a script wrote can end it, or hide in it."""
        # Halves of surrogate pairs, which no UTF-8 reader takes, are replaced while they are still characters.
        text = well_formed(json.dumps(self.as_dict(), ensure_ascii=False, separators=(",", ":")))
        return text.translate(_CONTROL) if text.isascii() else _ascii(text)


_CONTROL = {0x7F: "\\u007f"}


def _ascii(text: str) -> str:
    return json.dumps(json.loads(text), separators=(",", ":")).translate(_CONTROL)
