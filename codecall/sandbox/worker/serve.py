"""The worker's loop: one frame in, one turn of one script, one frame out.

Runs single-threaded but for the watchdog, which speaks for a script that is stuck inside the engine: it sends what
the script had logged, and ends the process, because nothing can interrupt native code safely.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Generator

from codecall.sandbox import wire
from codecall.sandbox.agentscript.guard import Refused, check
from codecall.sandbox.agentscript.instrument import instrument
from codecall.sandbox.agentscript.policy import Rules
from codecall.sandbox.agentscript.realm import Outcome, Realm
from codecall.sandbox.agentscript.stops import stop_failure

WATCHDOG_GRACE_MS = 25.0
"""How long after its deadline a script may still end by itself, in milliseconds."""

SPARE_ENGINES = 8
"""Engines a worker keeps ready, each about 0.3 MB."""

FRAME_BUDGET = wire.MAX_FRAME_BYTES // 2
"""Bytes of tool input sent in one frame; what is beyond waits for the next, in which answers have come."""

REST_S = 0.003
"""How long nothing must arrive before a further engine is built, in seconds."""


class _Pipe:
    """Blocking frames over the one descriptor the worker has."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def send(self, message: wire.WorkerMessage) -> None:
        self._connection.sendall(wire.pack(message))

    def receive(self) -> wire.ServerMessage:
        (length,) = wire.HEADER.unpack(self._read(wire.HEADER.size))
        if length > wire.MAX_FRAME_BYTES:
            raise SystemExit(2)
        return wire.decode_server_message(self._read(length))

    def has_work(self, seconds: float) -> bool:
        """Whether something arrives within `seconds`."""
        return bool(select.select([self._connection], [], [], seconds)[0])

    def _read(self, count: int) -> bytes | bytearray:
        data = self._connection.recv(count)
        if len(data) == count:
            return data
        buffer = bytearray(data)
        while len(buffer) < count:
            data = self._connection.recv(min(count - len(buffer), 1 << 20))
            if not data:
                raise EOFError
            buffer += data
        return buffer


class _Watchdog:
    """Ends the process when the script's own time is over and the script is stuck in native code."""

    def __init__(self, pipe: _Pipe) -> None:
        self._pipe = pipe
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._deadline: float | None = None
        self._realm: Realm | None = None
        self._limit = 0
        self._verdict: wire.Failure | None = None
        self.used_ms = 0.0
        self._since = 0.0
        threading.Thread(target=self._watch, daemon=True, name="watchdog").start()

    def begin(self, limits: wire.Limits) -> None:
        """A new script: its own time starts at zero."""
        self.used_ms, self._limit, self._realm = 0.0, limits.timeout_ms, None
        self._verdict = stop_failure("TIMEOUT", limits)

    def script_ms(self) -> float:
        """The script's own time so far, in milliseconds."""
        return self.used_ms + (time.perf_counter() - self._since) * 1000.0

    @contextlib.contextmanager
    def turn(self, realm: Realm | None = None) -> Generator[None]:
        """The script has the turn: its time runs."""
        self._realm = realm or self._realm
        self._since = time.perf_counter()
        self._deadline = self._since + (self._limit - self.used_ms + WATCHDOG_GRACE_MS) / 1000.0
        if not self._wake.is_set():
            self._wake.set()
        try:
            yield
        finally:
            # Once the watchdog holds the lock it ends the process: nothing follows its frame.
            with self._lock:
                self._deadline = None
            self.used_ms = self.script_ms()

    @contextlib.contextmanager
    def paused(self) -> Generator[None]:
        """Within a turn, the server is asked: the script's time stands still."""
        with self._lock:
            self._deadline = None
        self.used_ms = self.script_ms()
        try:
            yield
        finally:
            self._since = time.perf_counter()
            self._deadline = self._since + (self._limit - self.used_ms + WATCHDOG_GRACE_MS) / 1000.0

    def rest(self) -> None:
        """No script runs until further notice."""
        self._wake.clear()
        self._realm = None

    def _watch(self) -> None:
        while True:
            self._wake.wait()
            deadline = self._deadline
            now = time.perf_counter()
            if deadline is None or now < deadline:
                # Deadlines only move while a script runs; a short nap is cheaper than a signal for every turn.
                time.sleep(0.02 if deadline is None else max(0.001, min(0.02, deadline - now)))
                continue
            with self._lock:
                if self._deadline is None or time.perf_counter() < self._deadline:
                    continue
                realm = self._realm
                self._pipe.send(
                    wire.Done(
                        logs=list(realm.logs) if realm else [],
                        steps=realm.steps if realm else 0,
                        script_ms=self.script_ms(),
                        failure=self._verdict,
                        reusable=False,
                    )
                )
                os._exit(0)


class _Spares:
    """Engines built ahead of need: building one takes longer than running a short script.

    They are built while the worker has nothing else to do, so that scripts that follow one another closely find one
    ready and do not wait for the building in between.
    """

    def __init__(self, make: Callable[[wire.Limits], Realm]) -> None:
        self._make = make
        self._limits: wire.Limits | None = None
        self._ready: deque[Realm] = deque()

    def take(self, limits: wire.Limits) -> Realm:
        """An engine with these limits that no script has seen."""
        if limits != self._limits:
            self._limits = limits
            self._ready.clear()
        return self._ready.popleft() if self._ready else self._make(limits)

    def refill(self, busy: Callable[[float], bool]) -> None:
        """Build until there are enough, or until `busy(seconds)` says within that time that there is work."""
        while self._limits is not None and len(self._ready) < SPARE_ENGINES:
            if busy(REST_S if self._ready else 0.0):
                return
            self._ready.append(self._make(self._limits))


def serve(connection: socket.socket) -> None:
    """Serve scripts over `connection` until the server closes it."""
    pipe = _Pipe(connection)
    watchdog = _Watchdog(pipe)

    def ask(name: str) -> str | None:
        with watchdog.paused():
            pipe.send(wire.Ask(name))
            answer = pipe.receive()
        if not isinstance(answer, wire.Described):
            os._exit(2)
        return answer.tool

    spares = _Spares(lambda limits: Realm(limits, ask, watchdog.script_ms))
    pipe.send(wire.Ready(os.getpid()))
    while True:
        try:
            start = pipe.receive()
        except EOFError:
            return
        if not isinstance(start, wire.Start):
            raise SystemExit(2)
        realm = spares.take(start.limits)
        done = _run(pipe, watchdog, realm, start)
        watchdog.rest()
        pipe.send(done)
        realm.close()
        if done.reusable:
            spares.refill(pipe.has_work)


def _run(pipe: _Pipe, watchdog: _Watchdog, realm: Realm, start: wire.Start) -> wire.Done:
    limits = start.limits
    watchdog.begin(limits)
    with watchdog.turn(realm):
        try:
            checked = check(start.script, Rules.of(limits))
        except Refused as refused:
            return _done(watchdog, realm, Outcome(failure=_refusal(refused)))
        program = instrument(start.script, checked, max_iterations=limits.max_iterations)
        realm.start(program, form=checked.form, context=start.context)
        realm.count_steps()
    while realm.pending and (realm.outcome is None or realm.outcome.failure is None):
        calls, logs = realm.take_calls(FRAME_BUDGET), realm.logs
        realm.logs = []
        pipe.send(wire.Calls(calls, logs, realm.steps, watchdog.used_ms))
        answers = pipe.receive()
        if not isinstance(answers, wire.Answers):
            raise SystemExit(2)
        with watchdog.turn():
            realm.resume(answers.answers)
            realm.count_steps()
    if realm.outcome is None:
        raise SystemExit(3)  # a script without pending calls has ended, or the runtime is broken
    return _done(watchdog, realm, realm.outcome)


def _done(watchdog: _Watchdog, realm: Realm, outcome: Outcome) -> wire.Done:
    return wire.Done(
        logs=realm.logs,
        steps=realm.steps,
        script_ms=watchdog.used_ms,
        value=outcome.value,
        failure=outcome.failure,
        warnings=outcome.warnings,
        reusable=outcome.reusable,
    )


def _refusal(refused: Refused) -> wire.Failure:
    finding = refused.findings[0]
    more = len(refused.findings) - 1
    hint = finding.hint
    if more:
        others = "; ".join(f"line {item.line}: {item.message}" for item in refused.findings[1:4])
        hint = f"{hint or ''} {more} more finding{'s' if more > 1 else ''}: {others}".strip()
    syntax = finding.code == "SYNTAX_ERROR"
    return wire.Failure(
        status="syntax_error" if syntax else "illegal_access",
        code=finding.code,
        message=finding.message,
        kind=None if syntax else finding.kind,
        line=finding.line,
        column=finding.column,
        hint=hint,
    )
