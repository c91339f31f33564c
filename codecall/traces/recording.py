"""Sees runs as they happen, and makes traces of them with all that they called and said."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from codecall.calls.audit_data import Bounds, recorded, recorded_json, recorded_script
from codecall.calls.audit_fields import Fields, Recorded, call_fields, end_fields, start_fields
from codecall.envelopes import ExecutionResult
from codecall.made_calls import MadeCall
from codecall.masking import Masker
from codecall.sandbox.services import Ending, RunWatch
from codecall.traces.building import Parts, build
from codecall.traces.trace import Trace

MAX_HELD: Final = 64 * 1024 * 1024
"""Characters of inputs and values that one run may have kept; of what comes then only the size is known."""

MAX_SHOWN: Final = 4_000_000
"""Characters of inputs and values that go through masking for one trace, in the order of the calls."""

MASKING_SECONDS: Final = 20.0
"""How long masking may take for one trace; of what is left then only the size is told."""

VALUE: Final = Bounds(read=1_000_000, nodes=5_000, chars=100_000, text=32_000)
"""Of each value."""


@dataclass(slots=True)
class _Heard:
    """One call, and what went in and out of it, as JSON text."""

    made: MadeCall
    text: str | None
    value: str | None = None


class _Notes:
    """Takes notes of one run; a `RunWatch`."""

    def __init__(self, run: Recorded) -> None:
        self.run = run
        self.when = time.time()
        self._began = time.perf_counter()
        self._calls: list[_Heard] = []
        self._console: list[tuple[float, str]] = []
        self._held = 0
        self._ending: Fields = {}
        self._result: ExecutionResult | None = None

    def waiting(self) -> None:
        """See `RunWatch.waiting`."""
        self.when, self._began = time.time(), time.perf_counter()

    def running(self) -> None:
        """See `RunWatch.running`."""
        self._ending["queue_ms"] = self._since()

    def checked(self, validation_ms: float) -> None:
        """See `RunWatch.checked`."""
        self._ending["validation_ms"] = validation_ms

    def said(self, lines: Sequence[str]) -> None:
        """See `RunWatch.said`."""
        at_ms = self._since()
        self._console.extend((at_ms, line) for line in lines)

    def calling(self, made: MadeCall, text: str) -> Ending:
        """See `RunWatch.calling`."""
        heard = _Heard(made, self._room(text))
        self._calls.append(heard)

        def end(value: str | None) -> None:
            heard.value = self._room(value)

        return end

    def ended(self, result: ExecutionResult) -> None:
        """See `RunWatch.ended`."""
        self._end(result.status)
        self._result = result

    def cancelled(self) -> None:
        """See `RunWatch.cancelled`."""
        self._end("cancelled")

    def trace(self) -> Trace:
        """What is known by now. Masks all of it: not for the event loop."""
        calls, console, result = list(self._calls), list(self._console), self._result
        masker = Masker()
        left = MAX_SHOWN
        ends = time.monotonic() + MASKING_SECONDS
        left_out = 0

        def told(text: str | None, chars: int) -> object:
            nonlocal left, left_out
            if text is None or len(text) > left or time.monotonic() > ends:
                left_out += 1
                return {"__truncated": {"characters": chars}}
            left -= len(text)
            return recorded_json(text, VALUE, masker)

        parts = Parts(self.run.run_id, self.run.caller, self.when)
        # In the order in which things became known: a token in an answer is known in the inputs after it.
        for heard in calls:
            fields = call_fields(heard.made, self._began, whole=True)
            fields["input"] = told(heard.text, heard.made.input_chars)
            if heard.made.outcome == "ok":
                fields["result"] = told(heard.value, heard.made.result_chars)
            parts.calls.append(fields)
        parts.start = start_fields(self.run, recorded_script(self.run.script, masker))
        if "status" in self._ending:
            lines = [(at_ms, recorded_script(line, masker)) for at_ms, line in console]
            parts.end = dict(self._ending)
            if result is not None:
                values = end_fields(result, self.run.preset, (), lambda data: recorded(data, VALUE, masker))
                parts.end = parts.end | values
            parts.end = parts.end | {"console": lines}
        if left_out:
            parts.notes.append(f"Of {left_out:,} inputs and results only the size is here: together they are too much.")
        return build(parts)

    def _end(self, status: str) -> None:
        self._ending |= {"status": status, "duration_ms": self._since()}

    def _since(self) -> float:
        return (time.perf_counter() - self._began) * 1000

    def _room(self, text: str | None) -> str | None:
        """`text`, if there is room for it."""
        if text is None or self._held + len(text) > MAX_HELD:
            return None
        self._held += len(text)
        return text


class TraceRecorder:
    """Keeps what the latest runs called and said, for traces of them; an entry of `watchers` of the option `audit`.

    Args:
        keep: runs that are kept.
    """

    def __init__(self, keep: int = 1) -> None:
        self._runs: deque[_Notes] = deque(maxlen=keep)
        self._lock = threading.Lock()

    def __call__(self, run: Recorded) -> RunWatch:
        """What watches that run."""
        notes = _Notes(run)
        with self._lock:
            self._runs.append(notes)
        return notes

    def trace(self, run_id: str | None = None) -> Trace | None:
        """The trace of a run, credentials masked; of one that is under way, as far as it has come.

        Masking takes up to some seconds where there is much: call it in a thread.

        Args:
            run_id: of the run; None: the latest.

        Returns:
            None where there is no such run, or none any more.
        """
        with self._lock:
            found = [notes for notes in self._runs if run_id in (None, notes.run.run_id)]
        return found[-1].trace() if found else None
