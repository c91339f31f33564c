"""The worker: one frame in, one turn of one script, one frame out, with the scripts and the engines it has ready."""

from __future__ import annotations

import gc
import itertools
import os
import socket
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from codecall.sandbox import wire
from codecall.sandbox.agentscript.checked import InvalidScriptError
from codecall.sandbox.agentscript.dialect import REST_S, JavaScript
from codecall.sandbox.agentscript.engine.realm import Realm, ScriptOutcome
from codecall.sandbox.agentscript.validator.names import AskHost, AskTopic
from codecall.sandbox.worker import jail
from codecall.sandbox.worker.dialect import Dialect, Engine, EngineT
from codecall.sandbox.worker.pipe import HostPipe
from codecall.sandbox.worker.watchdog import Watchdog

if TYPE_CHECKING:
    from codecall.sandbox.starlark.engine import StarlarkEngine


class PrebuiltEngines(NamedTuple):
    """Engines built before the worker was forked."""

    first: Realm
    """For the first script."""
    trial: Realm
    """For a script of our own before that one: memory shared with the fork server is copied when it is first written
    to, and that takes longer than a short script."""


def run(shared: jail.Shared, engines: PrebuiltEngines | None = None) -> NoReturn:
    """Serve over descriptor 0 until the server closes it, and end the process.

    Args:
        shared: The part of the jail that is shut already.
        engines: Engines that the fork server has built.
    """
    try:
        _serve(HostPipe(socket.socket(fileno=0)), shared, engines)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        os._exit(0)
    except BaseException:
        # There is no other descriptor than the pipe's, and only frames may be written to that.
        os._exit(1)


def _serve(pipe: HostPipe, shared: jail.Shared, engines: PrebuiltEngines | None) -> NoReturn:
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

    def ask(name: str, about: AskTopic = "tool", member: str = "") -> str | None:
        with watchdog.paused():
            pipe.send(wire.Ask(name, about, member))
            answer = pipe.receive()
        if not isinstance(answer, wire.Described):
            os._exit(2)
        return answer.tool

    first, trial = None, None
    if engines is not None and engines.first.limits == prepare.limits:
        first, trial = engines
        first.rebind(ask, watchdog.script_ms)
    dialect = JavaScript(ask, watchdog.script_ms, prepare.limits, prepare.runs, first)
    starlark = _starlark(ask, watchdog) if prepare.starlark else None
    pipe.send(wire.Ready(layers))
    if trial is not None and not pipe.has_work(REST_S):
        trial.rebind(ask, watchdog.script_ms)
        _run(pipe, watchdog, dialect, trial, wire.Start("return 1 + 1", prepare.limits))
        watchdog.rest()
    for runs in itertools.count(1):
        start = pipe.receive()
        if not isinstance(start, wire.Start):
            os._exit(2)
        last = runs == prepare.runs
        if start.starlark is None:
            _serve_one(pipe, watchdog, dialect, start, last=last)
        elif starlark is not None:
            _serve_one(pipe, watchdog, starlark, start, last=last)
        else:
            os._exit(2)
        dialect.rest(pipe.has_work)
    os._exit(0)


def _starlark(ask: AskHost, watchdog: Watchdog) -> Dialect[StarlarkEngine]:
    from codecall.sandbox.starlark.dialect import Starlark  # loaded before the jail was shut, where a server wants it

    return Starlark(ask, watchdog.script_ms)


def _serve_one(pipe: HostPipe, watchdog: Watchdog, dialect: Dialect[EngineT], start: wire.Start, *, last: bool) -> None:
    """Run one script and send its end; end the process after the last one, and where it wants to be replaced."""
    engine = dialect.engine(start.limits)
    done = _run(pipe, watchdog, dialect, engine, start)
    watchdog.rest()
    pipe.send(done)
    if last or not done.reusable:
        os._exit(0)
    dialect.release(engine)


def _run(
    pipe: HostPipe, watchdog: Watchdog, dialect: Dialect[EngineT], engine: EngineT, start: wire.Start
) -> wire.Done:
    watchdog.begin(start.limits)
    with watchdog.turn(engine):
        if start.dry_run:
            outcome, plan = dialect.check(engine, start)
            watchdog.mark_validated()
        else:
            try:
                script = dialect.read(engine, start)
            except InvalidScriptError as refused:
                watchdog.mark_validated()
                return _done(watchdog, engine, ScriptOutcome(failure=_refusal_failure(refused)))  # it has not run
            watchdog.mark_validated()
            script.start()
            engine.count_steps()
            outcome, plan = None, script.plan
    if outcome is not None:
        return _done(watchdog, engine, outcome, plan)
    while engine.pending_calls and (engine.outcome is None or engine.outcome.failure is None):
        calls, logs, lines = engine.drain_calls(wire.CALLS_BUDGET), engine.console.drain(), engine.covered_lines
        engine.covered_lines = []
        counters = engine.steps, watchdog.used_ms, lines, watchdog.checked_ms
        pipe.send(wire.Calls(calls, logs, *counters, plan, engine.console.dropped))
        plan = None
        match pipe.receive():
            case wire.Answers(answers):
                with watchdog.turn():
                    engine.resume(answers)
                    engine.count_steps()
            case wire.Abandon():
                return _done(watchdog, engine, ScriptOutcome())
            case _:
                os._exit(2)
    if engine.outcome is None:
        os._exit(3)  # a script without pending calls has ended, or the runtime is broken
    return _done(watchdog, engine, engine.outcome, plan)


def _done(watchdog: Watchdog, engine: Engine, outcome: ScriptOutcome, plan: wire.Plan | None = None) -> wire.Done:
    return wire.Done(
        logs=engine.console.drain(),
        steps=engine.steps,
        script_ms=watchdog.used_ms,
        value=outcome.value,
        failure=outcome.failure,
        warnings=outcome.warnings,
        lines=engine.covered_lines,
        checked_ms=watchdog.checked_ms,
        plan=plan,
        dropped_lines=engine.console.dropped,
        reusable=outcome.reusable,
    )


def _refusal_failure(refused: InvalidScriptError) -> wire.Failure:
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
