"""From the record of many runs, as `JsonLinesSink` writes it, to their traces."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Final, cast

from codecall.traces.building import Parts, build
from codecall.traces.trace import Trace

MAX_OPEN: Final = 10_000
"""Runs that may be under way at the same time; the oldest is told as unfinished when there are more."""

_START: Final = "codecall.execute.start"
_CALL: Final = "codecall.execute.tool_call"
_END: Final = "codecall.execute.complete"
_LOST: Final = "codecall.audit.lost"


class Runs:
    """Runs whose events come one after the other.

    Args:
        max_open: runs that may be under way at the same time.
    """

    def __init__(self, max_open: int = MAX_OPEN) -> None:
        self._max_open = max_open
        self._open: dict[str, Parts] = {}

    def add(self, event: Mapping[str, object]) -> list[Trace]:
        """Take in an event, as `AuditEvent.as_dict` gives it.

        Returns:
            The runs that are told now: one that has ended, or one that is given up for want of room.
        """
        name = event.get("event")
        if name == _LOST:
            for parts in self._open.values():
                parts.notes.append(f"While it ran, {_count(event)} events of all runs did not get into the record.")
            return []
        run_id = event.get("run_id")
        if name not in (_START, _CALL, _END) or not isinstance(run_id, str):
            return []
        told: list[Trace] = []
        if name == _START and run_id in self._open:
            told.append(build(self._open.pop(run_id)))  # a background task whose first server was killed
        if run_id not in self._open:
            if len(self._open) >= self._max_open:
                told.append(build(self._open.pop(next(iter(self._open)))))
            caller = event.get("caller")
            self._open[run_id] = Parts(run_id, caller if isinstance(caller, str) else "")
        parts = self._open[run_id]
        if name == _START:
            parts.start, parts.when = event, _when(event)
        elif name == _CALL:
            parts.calls.append(event)
        else:
            parts.end = event
            told.append(build(self._open.pop(run_id)))
        return told

    def rest(self) -> list[Trace]:
        """Those of which no end has come; they are forgotten."""
        told = [build(parts) for parts in self._open.values()]
        self._open.clear()
        return told


def traces_of(lines: Iterable[str], skipped: list[int] | None = None) -> Iterator[Trace]:
    """The runs of a record, in the order in which they ended; those without an end come last.

    Args:
        lines: JSON, an event each; a file that is open.
        skipped: gets the numbers, from 1, of lines that are no events, such as one that a killed process left torn.

    Raises:
        ValueError: a line is no event, and there is no `skipped`.
    """
    runs = Runs()
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            event: object = json.loads(line)
        except (ValueError, RecursionError):
            event = None
        if not isinstance(event, dict) or "event" not in event:
            if skipped is None:
                raise ValueError(f"line {number} is no event of a record of runs")
            skipped.append(number)
            continue
        yield from runs.add(cast("dict[str, object]", event))
    yield from runs.rest()


def _count(event: Mapping[str, object]) -> str:
    events = event.get("events")
    return f"{events:,}" if isinstance(events, int) else "some"


def _when(event: Mapping[str, object]) -> float | None:
    told = event.get("time")
    try:
        return datetime.fromisoformat(told).timestamp() if isinstance(told, str) else None
    except (ValueError, OverflowError, OSError):
        return None
