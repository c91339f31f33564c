"""The worker's clock: it measures the script's own time, and ends a script that is stuck in the engine."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Generator

from codecall.sandbox import wire
from codecall.sandbox.agentscript.diagnosis.report import limit_failure
from codecall.sandbox.worker.dialect import Engine
from codecall.sandbox.worker.pipe import HostPipe

WATCHDOG_GRACE_MS = 25.0
"""How long after its deadline a script may still end by itself, in milliseconds."""


NAP_S = 0.02
"""Longest pause between two looks at the clock, in seconds."""

NAPS = 25
"""Naps in which the script waits for the server, after which the watchdog sleeps until the script has a turn again."""

BUILT_IN_HINT = (
    "It stayed in one built-in function to the end: a regular expression with a repetition inside a repetition "
    "(`(a+)+`, `(.*)*`) may try for ever, and so may a function over very many items. Write the one with `split` or "
    "`indexOf`, and give the other less."
)
"""The hint for a script that did not even come to see that its time is over."""


class Watchdog:
    """Ends the process when the script's own time is over and the script is stuck in native code.

    Nothing can interrupt native code safely, so it sends what the script had logged, and ends the process.
    """

    def __init__(self, pipe: HostPipe) -> None:
        self._pipe = pipe
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._deadline: float | None = None
        self._engine: Engine | None = None
        self._limit_ms = 0
        self._timeout_failure: wire.Failure | None = None
        self.used_ms = 0.0
        """Milliseconds that the script has used in the turns that are over."""
        self.checked_ms = 0.0
        """How many of them validation took."""
        self._since = 0.0

    def start(self) -> None:
        """Begin to watch, in a separate thread."""
        threading.Thread(target=self._watch, daemon=True, name="watchdog").start()

    def begin(self, limits: wire.Limits) -> None:
        """Begin with a new script: its own time starts at zero."""
        self.used_ms, self.checked_ms, self._limit_ms, self._engine = 0.0, 0.0, limits.timeout_ms, None
        self._timeout_failure = limit_failure("TIMEOUT", limits, hint=BUILT_IN_HINT)

    def script_ms(self) -> float:
        """The script's own time so far, in milliseconds."""
        return self.used_ms + (time.perf_counter() - self._since) * 1000.0

    def mark_validated(self) -> None:
        """Note that the script has been validated."""
        self.checked_ms = self.script_ms()

    @contextlib.contextmanager
    def turn(self, engine: Engine | None = None) -> Generator[None]:
        """Give the script the turn: its time runs while inside."""
        self._engine = engine or self._engine
        self._since = time.perf_counter()
        self._expect(self._since)
        try:
            yield
        finally:
            # Once the watchdog holds the lock it ends the process: nothing follows its frame.
            with self._lock:
                self._deadline = None
            self.used_ms = self.script_ms()

    @contextlib.contextmanager
    def paused(self) -> Generator[None]:
        """Stop the script's time while inside: within a turn, the server is asked."""
        with self._lock:
            self._deadline = None
        self.used_ms = self.script_ms()
        try:
            yield
        finally:
            self._since = time.perf_counter()
            self._expect(self._since)

    def _expect(self, since: float) -> None:
        """Watch the time that the script has left, from now on."""
        self._deadline = since + (self._limit_ms - self.used_ms + WATCHDOG_GRACE_MS) / 1000.0
        # After the deadline: the watchdog looks at them the other way round before it sleeps.
        if not self._wake.is_set():
            self._wake.set()

    def rest(self) -> None:
        """Rest until the next script."""
        self._wake.clear()
        self._engine = None

    def _watch(self) -> None:
        naps = 0
        while True:
            self._wake.wait()
            deadline = self._deadline
            now = time.perf_counter()
            if deadline is None and naps == NAPS:
                naps = 0
                self._wake.clear()
                if self._deadline is not None:
                    self._wake.set()
                continue
            naps = naps + 1 if deadline is None else 0
            if deadline is None or now < deadline:
                # Deadlines only move while a script runs; a short nap is cheaper than a signal for every turn.
                time.sleep(NAP_S if deadline is None else max(0.001, min(NAP_S, deadline - now)))
                continue
            with self._lock:
                if self._deadline is None or time.perf_counter() < self._deadline:
                    continue
                engine = self._engine
                self._pipe.send(
                    wire.Done(
                        logs=list(engine.console.lines) if engine else [],
                        steps=engine.steps if engine else 0,
                        script_ms=self.script_ms(),
                        failure=self._timeout_failure,
                        lines=list(engine.covered_lines) if engine else [],
                        dropped_lines=engine.console.dropped if engine else 0,
                        reusable=False,
                    )
                )
                os._exit(0)
