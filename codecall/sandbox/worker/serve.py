"""The worker: shuts itself in, then one frame in, one turn of one script, one frame out."""

from __future__ import annotations

import gc
import itertools
import os
import signal
import socket
from collections.abc import Sequence
from typing import NamedTuple, NoReturn

from codecall.sandbox import wire
from codecall.sandbox.agentscript.findings import Finding
from codecall.sandbox.agentscript.guard import Refused
from codecall.sandbox.agentscript.instrument import instrument
from codecall.sandbox.agentscript.outlining import plan_of, report_of
from codecall.sandbox.agentscript.policy import Rules
from codecall.sandbox.agentscript.realm import Outcome, Realm
from codecall.sandbox.agentscript.sites import Outline
from codecall.sandbox.agentscript.sources import read
from codecall.sandbox.agentscript.spaces import About, spaces_of
from codecall.sandbox.worker import jail
from codecall.sandbox.worker.engines import REST_S, SPARE_ENGINES, Spares
from codecall.sandbox.worker.pipe import Pipe
from codecall.sandbox.worker.rehearsal import rehearse
from codecall.sandbox.worker.watchdog import Watchdog

NICENESS = 5
"""How far below the server's a worker's priority is, in the units of nice(1)."""


def settle_in() -> jail.Shared:
    """What a worker, or a fork server for its workers, does before anything else: load all that will ever be needed,
    and enter the part of the jail that does not depend on the worker.

    A first script makes every module load what it puts off, since nothing can be loaded once the jail is shut.
    """
    # An interrupt at the terminal is the server's business: it decides when its workers end.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # A script never competes with the server for the processor as an equal.
    os.nice(NICENESS)
    rehearse()
    return jail.enter_shared()


class Engines(NamedTuple):
    """Engines built before the worker was forked."""

    first: Realm
    """For the first script."""
    trial: Realm
    """For a script of our own that comes before it: memory shared with the fork server is copied when it is first
    written to, and that takes longer than a short script."""


def run(shared: jail.Shared, engines: Engines | None = None) -> NoReturn:
    """Serve over descriptor 0 until the server closes it, and end the process.

    Args:
        shared: The part of the jail that is shut already.
        engines: What the fork server has built.
    """
    try:
        _serve(Pipe(socket.socket(fileno=0)), shared, engines)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        os._exit(0)
    except BaseException:
        # There is nobody to tell: no descriptor but the pipe's, and what is said there has to be a frame.
        os._exit(1)


def _serve(pipe: Pipe, shared: jail.Shared, engines: Engines | None) -> NoReturn:
    prepare = pipe.receive()
    if not isinstance(prepare, wire.Prepare):
        os._exit(2)
    if prepare.runs == 1:
        gc.disable()  # the system collects all of it sooner
    watchdog = Watchdog(pipe)
    layers = jail.enter_own(shared, prepare.limits.memory_mb, prepare.cpu_seconds, watchdog.start)
    missing = [f"{layer.name} ({layer.detail})" for layer in layers if not layer.active]
    if prepare.require_jail and missing:
        pipe.send(wire.Ready(layers, failure=", ".join(missing)))
        os._exit(0)

    def ask(name: str, about: About = "tool", member: str = "") -> str | None:
        with watchdog.paused():
            pipe.send(wire.Ask(name, about, member))
            answer = pipe.receive()
        if not isinstance(answer, wire.Described):
            os._exit(2)
        return answer.tool

    def make(limits: wire.Limits) -> Realm:
        return Realm(limits, ask, watchdog.script_ms)

    trial = None
    if engines is None or engines.first.limits != prepare.limits:
        first = make(prepare.limits)
    else:
        first, trial = engines
        first.attend(ask, watchdog.script_ms)
    spares = Spares(make, first, min(SPARE_ENGINES, prepare.runs))
    pipe.send(wire.Ready(layers))
    if trial is not None and not pipe.has_work(REST_S):
        trial.attend(ask, watchdog.script_ms)
        _run(pipe, watchdog, trial, wire.Start("return 1 + 1", prepare.limits))
        watchdog.rest()
    for runs in itertools.count(1):
        start = pipe.receive()
        if not isinstance(start, wire.Start):
            os._exit(2)
        realm = spares.take(start.limits)
        done = _run(pipe, watchdog, realm, start)
        watchdog.rest()
        pipe.send(done)
        if runs == prepare.runs or not done.reusable:
            break
        if realm.begun:
            realm.close()
        else:
            spares.put_back(realm)
        spares.refill(pipe.has_work)
    os._exit(0)


def _run(pipe: Pipe, watchdog: Watchdog, realm: Realm, start: wire.Start) -> wire.Done:
    limits = start.limits
    watchdog.begin(limits)
    with watchdog.turn(realm):
        try:
            text, checked = read(start.script, Rules.of(limits), coverage=start.coverage, spaces=spaces_of(realm.ask))
            watchdog.checked()
        except Refused as refused:
            watchdog.checked()
            if start.dry_run:
                return _reported(pipe, watchdog, realm, refused.outline, refused.findings)
            return _done(watchdog, realm, Outcome(failure=_refusal(refused)))
        if start.dry_run:
            return _reported(pipe, watchdog, realm, checked.outline)
        if not _agreed(pipe, watchdog, plan_of(checked.outline)):
            return _done(watchdog, realm, Outcome())
        program = instrument(text, checked, max_iterations=limits.max_iterations)
        realm.start(program, form=checked.form, context=start.context, spaces=checked.spaces)
        realm.count_steps()
    while realm.pending and (realm.outcome is None or realm.outcome.failure is None):
        calls, logs, lines = realm.take_calls(wire.CALLS_BUDGET), realm.logs, realm.lines
        realm.logs, realm.lines = [], []
        pipe.send(wire.Calls(calls, logs, realm.steps, watchdog.used_ms, lines, watchdog.checked_ms))
        answers = pipe.receive()
        if not isinstance(answers, wire.Answers):
            os._exit(2)
        with watchdog.turn():
            realm.resume(answers.answers)
            realm.count_steps()
    if realm.outcome is None:
        os._exit(3)  # a script without pending calls has ended, or the runtime is broken
    return _done(watchdog, realm, realm.outcome)


def _agreed(pipe: Pipe, watchdog: Watchdog, plan: wire.Plan | None) -> bool:
    """Whether the script may run, after a look at what it will call."""
    if plan is None:
        return True
    with watchdog.paused():
        pipe.send(plan)
        answer = pipe.receive()
    if not isinstance(answer, wire.Planned):
        os._exit(2)
    return answer.go


def _reported(
    pipe: Pipe, watchdog: Watchdog, realm: Realm, outline: Outline | None, findings: Sequence[Finding] = ()
) -> wire.Done:
    """The end of a dry run."""
    if outline is not None:
        _agreed(pipe, watchdog, plan_of(outline, dry_run=True))
    return _done(watchdog, realm, Outcome(value=report_of(outline, findings)))


def _done(watchdog: Watchdog, realm: Realm, outcome: Outcome) -> wire.Done:
    return wire.Done(
        logs=realm.logs,
        steps=realm.steps,
        script_ms=watchdog.used_ms,
        value=outcome.value,
        failure=outcome.failure,
        warnings=outcome.warnings,
        lines=realm.lines,
        checked_ms=watchdog.checked_ms,
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
