"""The worker: load everything, shut the jail; then one frame in, one turn of one script, one frame out."""

from __future__ import annotations

import gc
import itertools
import os
import signal
import socket
from collections import deque
from collections.abc import Callable
from typing import NamedTuple, NoReturn

from codecall.sandbox import wire
from codecall.sandbox.agentscript.analysis.calls import build_plan, build_report
from codecall.sandbox.agentscript.checked import Finding, InvalidScript, ScriptOutline
from codecall.sandbox.agentscript.engine.realm import Realm, ScriptOutcome
from codecall.sandbox.agentscript.instrument import instrument
from codecall.sandbox.agentscript.policy import Rules
from codecall.sandbox.agentscript.validate import validate_script
from codecall.sandbox.agentscript.validator.names import AskTopic, FindNamespaces, namespace_finder
from codecall.sandbox.worker import jail
from codecall.sandbox.worker.pipe import HostPipe
from codecall.sandbox.worker.script_cache import ScriptCache
from codecall.sandbox.worker.watchdog import Watchdog

NICENESS = 5
"""How far below the server's a worker's priority is, in the units of nice(1)."""

SPARE_ENGINES = 8
"""Engines that a worker keeps ready at most, each about 0.3 MB."""

REST_S = 0.003
"""How long nothing must arrive before an engine is built ahead of need, in seconds."""

WARM_UP_LIMITS = wire.Limits(
    timeout_ms=10_000,
    max_iterations=100,
    max_steps=10_000,
    max_tool_calls=10,
    memory_mb=16,
    max_result_bytes=65_536,
    allow_console=True,
    max_console_calls=10,
    max_console_bytes=1_000,
    allow_loops=True,
    allow_regex=True,
    allow_clock=True,
    sanitize_max_depth=10,
    sanitize_max_properties=100,
    sanitize_max_string=1_000,
    sanitize_max_array=100,
)
"""Everything switched on, everything small."""

WARM_UP_SCRIPTS = (
    """
    const { a = 1, ...rest } = codecallContext;
    class Point { x = a; get twice() { return this.x * 2 } }
    console.log(`point ${new Point().twice}`, /\\d+/.exec('12')?.[0], getTool('t'), rest);
    for (const name of ['x', 'y']) { try { await callTool(name, { at: new Date(0) }) } catch (e) { console.warn(e) } }
    return { items: [1, 2.5, 'é😀'].map((item) => item), map: new Map([[1, 2]]) };
    """,
    "return [await things.list({}), 'x' in things, await tools.x({ at: 1 })]",
    """```ts
    interface Item<T> { value?: T }
    const items: Item<number>[] = [<Item<number>>{ value: 1 }];
    return items.map((item): number => item.value!) as readonly unknown[];
    ```""",
    "enum Color { Red }",
    "throw new TypeError('thrown')",
    "const x = {",
    "eval('1'); while (true) {}",
    "return (() => { for (;;) {} })()",
    "const dive = () => dive(); return dive()",
)
"""Everything that a script can do, be refused for and fail with."""


_WARM_UP_ANSWERS: dict[AskTopic, str] = {
    "tool": '{"name": "t"}',
    "space": '{"members": {"list": "x"}}',
    "member": '{"tool": "x"}',
}


def load_and_jail() -> jail.Shared:
    """Load everything that will ever be needed, and enter the part of the jail that does not depend on the worker: the
    first thing a worker does, or a fork server for its workers.

    Nothing can be loaded once the jail is shut, so a warm-up makes every module load what it puts off.
    """
    # An interrupt at the terminal is the server's business: it decides when its workers end.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # A script never competes with the server for the processor as an equal.
    os.nice(NICENESS)
    warm_up()
    return jail.enter_shared()


def warm_up() -> None:
    """Run scripts through every part of a worker, and pack and decode their messages; the outcomes do not matter."""
    for script in WARM_UP_SCRIPTS:
        try:
            text, checked = validate_script(
                script, Rules.from_limits(WARM_UP_LIMITS), find_namespaces=namespace_finder(_warm_up_answer)
            )
        except InvalidScript as refused:
            build_report(refused.outline, refused.findings)
            continue
        build_report(checked.outline)
        plan = build_plan(checked.outline, dry_run=True)
        realm = Realm(WARM_UP_LIMITS, _warm_up_answer, lambda: 0.0)
        program = instrument(text, checked, max_iterations=100)
        realm.start(program, form=checked.form, context='{"b": 1}', namespaces=checked.namespaces)
        while realm.outcome is None and realm.pending_calls:
            calls = realm.take_calls(1)
            wire.pack(wire.Calls(calls, realm.logs, realm.count_steps(), 0.0, plan=plan))
            answers = [wire.Answer(call.call, ok=call.name == "x", payload='{"message": "m"}') for call in calls]
            body = wire.pack(wire.Answers(answers))[wire.HEADER.size :]
            message = wire.decode_server_message(body)
            if isinstance(message, wire.Answers):
                realm.resume(message.answers)
        if realm.outcome is not None:
            outcome = realm.outcome
            wire.pack(wire.Done(realm.logs, realm.steps, 0.0, outcome.value, outcome.failure, outcome.warnings))
        realm.close()


def _warm_up_answer(name: str, about: AskTopic = "tool", member: str = "") -> str:
    del name, member
    return _WARM_UP_ANSWERS[about]


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

    def build(limits: wire.Limits) -> Realm:
        return Realm(limits, ask, watchdog.script_ms)

    scripts = ScriptCache()
    trial = None
    if engines is None or engines.first.limits != prepare.limits:
        first = build(prepare.limits)
    else:
        first, trial = engines
        first.rebind(ask, watchdog.script_ms)
    spares = EnginePool(build, first, min(SPARE_ENGINES, prepare.runs))
    pipe.send(wire.Ready(layers))
    if trial is not None and not pipe.has_work(REST_S):
        trial.rebind(ask, watchdog.script_ms)
        _run(pipe, watchdog, trial, wire.Start("return 1 + 1", prepare.limits), scripts)
        watchdog.rest()
    for runs in itertools.count(1):
        start = pipe.receive()
        if not isinstance(start, wire.Start):
            os._exit(2)
        realm = spares.take(start.limits)
        done = _run(pipe, watchdog, realm, start, scripts)
        watchdog.rest()
        pipe.send(done)
        if runs == prepare.runs or not done.reusable:
            break
        if realm.started:
            realm.close()
        else:
            spares.put_back(realm)
        spares.refill(pipe.has_work)
    os._exit(0)


def _run(pipe: HostPipe, watchdog: Watchdog, realm: Realm, start: wire.Start, scripts: ScriptCache) -> wire.Done:
    limits = start.limits
    watchdog.begin(limits)
    with watchdog.turn(realm):
        find_namespaces = namespace_finder(realm.ask)
        if start.dry_run:
            return _dry_run(watchdog, realm, start, find_namespaces)
        try:
            script = scripts.prepare(start, find_namespaces)
            watchdog.mark_validated()
        except InvalidScript as refused:
            watchdog.mark_validated()
            return _done(watchdog, realm, ScriptOutcome(failure=_refusal_failure(refused)))
        realm.start(script.program, form=script.form, context=start.context, namespaces=script.namespaces)
        realm.count_steps()
    plan = script.plan
    while realm.pending_calls and (realm.outcome is None or realm.outcome.failure is None):
        calls, logs, lines = realm.take_calls(wire.CALLS_BUDGET), realm.logs, realm.covered_lines
        realm.logs, realm.covered_lines = [], []
        pipe.send(wire.Calls(calls, logs, realm.steps, watchdog.used_ms, lines, watchdog.checked_ms, plan))
        plan = None
        match pipe.receive():
            case wire.Answers(answers):
                with watchdog.turn():
                    realm.resume(answers)
                    realm.count_steps()
            case wire.Abandon():
                return _done(watchdog, realm, ScriptOutcome())
            case _:
                os._exit(2)
    if realm.outcome is None:
        os._exit(3)  # a script without pending calls has ended, or the runtime is broken
    return _done(watchdog, realm, realm.outcome, plan)


def _dry_run(watchdog: Watchdog, realm: Realm, start: wire.Start, find_namespaces: FindNamespaces) -> wire.Done:
    outline: ScriptOutline | None
    try:
        _, checked = validate_script(
            start.script, Rules.from_limits(start.limits), find_namespaces=find_namespaces, coverage=start.coverage
        )
        outline, findings = checked.outline, list[Finding]()
    except InvalidScript as refused:
        outline, findings = refused.outline, refused.findings
    watchdog.mark_validated()
    plan = None if outline is None else build_plan(outline, dry_run=True)
    return _done(watchdog, realm, ScriptOutcome(value=build_report(outline, findings)), plan)


def _done(watchdog: Watchdog, realm: Realm, outcome: ScriptOutcome, plan: wire.Plan | None = None) -> wire.Done:
    return wire.Done(
        logs=realm.logs,
        steps=realm.steps,
        script_ms=watchdog.used_ms,
        value=outcome.value,
        failure=outcome.failure,
        warnings=outcome.warnings,
        lines=realm.covered_lines,
        checked_ms=watchdog.checked_ms,
        plan=plan,
        reusable=outcome.reusable,
    )


def _refusal_failure(refused: InvalidScript) -> wire.Failure:
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


class EnginePool:
    """Engines that no script has used, built ahead of need: building one takes longer than running a short script.

    They are built while the worker has nothing else to do, so that scripts that follow one another closely find one
    ready and do not wait for the building in between. One at first: many a worker sees no more than a few scripts. Each
    script that finds none ready doubles how many there will be.

    Args:
        build: Builds one.
        first: One that is ready; others are built for its limits until a script comes with other ones.
        max_ready: Most engines to keep ready.
    """

    def __init__(self, build: Callable[[wire.Limits], Realm], first: Realm, max_ready: int) -> None:
        self._build = build
        self._limits = first.limits
        self._max_ready = max_ready
        self._wanted = min(1, max_ready)
        self._ready = deque([first])

    def take(self, limits: wire.Limits) -> Realm:
        """An engine with these limits that no script has used."""
        if limits != self._limits:
            self._limits = limits
            self._ready.clear()
        elif self._ready:
            return self._ready.popleft()
        else:
            self._wanted = min(2 * self._wanted, self._max_ready)
        return self._build(limits)

    def put_back(self, realm: Realm) -> None:
        """Take back an engine whose script did not run: the guard has refused it."""
        self._ready.appendleft(realm)

    def refill(self, has_work: Callable[[float], bool]) -> None:
        """Build engines until there are enough, or until `has_work(seconds)` reports work within that time."""
        while len(self._ready) < self._wanted:
            if has_work(REST_S if self._ready else 0.0):
                return
            self._ready.append(self._build(self._limits))
