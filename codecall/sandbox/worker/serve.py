"""The worker: one frame in, one turn of one script, one frame out, with the scripts and the engines it has ready."""

from __future__ import annotations

import gc
import itertools
import os
import socket
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, NoReturn

from codecall.sandbox import wire
from codecall.sandbox.agentscript.analysis.calls import build_plan, build_report
from codecall.sandbox.agentscript.checked import Finding, InvalidScript, ScriptOutline
from codecall.sandbox.agentscript.engine.realm import Realm, ScriptOutcome
from codecall.sandbox.agentscript.instrument import InstrumentedScript, instrument
from codecall.sandbox.agentscript.policy import Rules
from codecall.sandbox.agentscript.validate import validate_script
from codecall.sandbox.agentscript.validator.names import AskTopic, FindNamespaces, NamespaceInfo, namespace_finder
from codecall.sandbox.worker import jail
from codecall.sandbox.worker.pipe import HostPipe
from codecall.sandbox.worker.watchdog import Watchdog

MAX_SCRIPTS: Final = 64
"""Scripts that are remembered; the one unused for longest goes first."""

MAX_CHARS: Final = 256 * 1024
"""Characters of all of them. What is remembered takes some ten times the room."""

SPARE_ENGINES = 8
"""Engines that a worker keeps ready at most, each about 0.3 MB."""

REST_S = 0.003
"""How long nothing must arrive before an engine is built ahead of need, in seconds."""


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
            outcome, plan = _check(watchdog, start, find_namespaces)
        else:
            try:
                script = scripts.prepare(start, find_namespaces)
            except InvalidScript as refused:
                watchdog.mark_validated()
                return _done(watchdog, realm, ScriptOutcome(failure=_refusal_failure(refused)))  # it has not run
            watchdog.mark_validated()
            realm.start(script.program, context=start.context, namespaces=script.namespaces)
            realm.count_steps()
            outcome, plan = None, script.plan
    if outcome is not None:
        return _done(watchdog, realm, outcome, plan)
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


def _check(
    watchdog: Watchdog, start: wire.Start, find_namespaces: FindNamespaces
) -> tuple[ScriptOutcome, wire.Plan | None]:
    """What a dry run of the script gives, and the calls that it plans."""
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
    return ScriptOutcome(value=build_report(outline, findings)), plan


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


class PreparedScript(NamedTuple):
    """A script that may run."""

    program: InstrumentedScript
    namespaces: Mapping[str, Mapping[str, str]]
    """The namespaces it uses; see `CheckedScript.namespaces`."""
    plan: wire.Plan | None
    """The calls that it is certain to make."""


class _Entry(NamedTuple):
    script: PreparedScript
    found_namespaces: Mapping[str, NamespaceInfo]
    """What the host knew about the names that were looked up for it."""


class ScriptCache:
    """Prepares scripts, and remembers them: one that comes again under the same limits is not parsed, validated and
    instrumented again.

    A worker has one owner, so no caller finds another one's scripts here. What is remembered is what the validator and
    the instrumentation gave for exactly this text; a script that they refused is not remembered.
    """

    def __init__(self) -> None:
        self._entries: OrderedDict[tuple[str, wire.Limits, bool], _Entry] = OrderedDict()
        self._chars = 0

    def prepare(self, start: wire.Start, find_namespaces: FindNamespaces) -> PreparedScript:
        """Prepare the script of `start`.

        Args:
            start: the script and its limits.
            find_namespaces: looks up namespaces. It is asked again about those of a remembered script, which is used
                only where the answers are the same.

        Raises:
            InvalidScript: the script must not run.
        """
        key = (start.script, start.limits, start.coverage)
        found: dict[str, NamespaceInfo] = {}

        def find_once(names: Sequence[str]) -> Mapping[str, NamespaceInfo]:
            if new := [name for name in names if name not in found]:
                found.update(find_namespaces(new))
            return {name: found[name] for name in names if name in found}

        if (entry := self._entries.get(key)) is not None:
            names = list(entry.found_namespaces)
            if not names or find_once(names) == entry.found_namespaces:
                self._entries.move_to_end(key)
                return entry.script
        script = _prepare(start, find_once)
        self._add(key, _Entry(script, found))
        return script

    def _add(self, key: tuple[str, wire.Limits, bool], entry: _Entry) -> None:
        if key not in self._entries:
            self._chars += len(key[0])
        self._entries[key] = entry
        while len(self._entries) > MAX_SCRIPTS or self._chars > MAX_CHARS:
            (text, _, _), _ = self._entries.popitem(last=False)
            self._chars -= len(text)


def _prepare(start: wire.Start, find_namespaces: FindNamespaces) -> PreparedScript:
    limits = start.limits
    text, checked = validate_script(
        start.script, Rules.from_limits(limits), coverage=start.coverage, find_namespaces=find_namespaces
    )
    return PreparedScript(
        instrument(text, checked, max_iterations=limits.max_iterations),
        checked.namespaces,
        build_plan(checked.outline),
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
