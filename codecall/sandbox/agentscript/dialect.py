"""JavaScript as a dialect of the worker: reads AgentScript, remembers what it has read, and keeps engines ready."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import Final, Generic, NamedTuple, TypeVar

from codecall.sandbox import wire
from codecall.sandbox.agentscript.analysis.calls import build_plan, build_report
from codecall.sandbox.agentscript.checked import Finding, InvalidScriptError, ScriptOutline
from codecall.sandbox.agentscript.engine.realm import Clock, Realm, ScriptOutcome
from codecall.sandbox.agentscript.instrument import InstrumentedScript, instrument
from codecall.sandbox.agentscript.policy import Rules
from codecall.sandbox.agentscript.validate import validate_script
from codecall.sandbox.agentscript.validator.names import AskHost, FindNamespaces, NamespaceInfo, namespace_finder

MAX_SCRIPTS: Final = 64
"""Scripts that are remembered; the one unused for longest goes first."""

MAX_CHARS: Final = 256 * 1024
"""Characters of all of them, and of what the host knew about the names in them. What is remembered takes up to sixty
times the room: 14 MB."""

SPARE_ENGINES = 8
"""Engines that a worker keeps ready at most, each about 0.3 MB."""

REST_S = 0.003
"""How long nothing must arrive before an engine is built ahead of need, in seconds."""


class ReadScript(NamedTuple):
    """A script that has been read and may run."""

    plan: wire.Plan | None
    """The calls that it is certain to make, or all."""
    start: Callable[[], None]
    """Runs it until it waits, settles or is stopped."""


class JavaScript:
    """The dialect of `codecall:execute`; a `worker.dialect.Dialect`.

    Args:
        ask: Asks the host about tools and namespaces.
        clock: Milliseconds of the script's own time so far.
        limits: What engines are built for, until a script comes with other limits.
        runs: Scripts that the worker will be given.
        first: An engine that is ready; without it one is built.
    """

    def __init__(self, ask: AskHost, clock: Clock, limits: wire.Limits, runs: int, first: Realm | None = None) -> None:
        def build(limits: wire.Limits) -> Realm:
            return Realm(limits, ask, clock)

        self._scripts = ScriptCache()
        self._engines = EnginePool(build, first or build(limits), min(SPARE_ENGINES, runs))

    def engine(self, limits: wire.Limits) -> Realm:
        """An engine that no script has used."""
        return self._engines.acquire(limits)

    def read(self, engine: Realm, start: wire.Start) -> ReadScript:
        """Read, validate and instrument the script; it then runs in `engine`.

        Raises:
            InvalidScriptError: it must not run.
        """
        script = self._scripts.prepare(start, namespace_finder(engine.ask, start.context))
        run = partial(engine.start, script.program, context=start.context, namespaces=script.namespaces)
        return ReadScript(script.plan, run)

    def check(self, engine: Realm, start: wire.Start) -> tuple[ScriptOutcome, wire.Plan | None]:
        """What a dry run of the script gives, and the calls that it plans."""
        outline: ScriptOutline | None
        try:
            _, checked = validate_script(
                start.script,
                Rules.from_limits(start.limits),
                find_namespaces=namespace_finder(engine.ask, start.context),
                coverage=start.coverage,
            )
            outline, findings = checked.outline, list[Finding]()
        except InvalidScriptError as refused:
            outline, findings = refused.outline, refused.findings
        plan = None if outline is None else build_plan(outline, dry_run=True)
        return ScriptOutcome(value=build_report(outline, findings)), plan

    def release(self, engine: Realm) -> None:
        """Take back an engine whose script has ended, or did not run: the validator has refused it."""
        if engine.started:
            engine.close()
        else:
            self._engines.release_unused(engine)

    def rest(self, has_work: Callable[[float], bool]) -> None:
        """Build engines until there are enough, or until `has_work(seconds)` reports work within that time."""
        self._engines.refill(has_work)


class PreparedScript(NamedTuple):
    """A script that may run."""

    program: InstrumentedScript
    namespaces: Mapping[str, Mapping[str, str]]
    """The namespaces it uses; see `CheckedScript.namespaces`."""
    plan: wire.Plan | None
    """The calls that it is certain to make."""


class _Entry(NamedTuple):
    script: PreparedScript
    looked_up_namespaces: Mapping[str, NamespaceInfo]
    """What the host knew about the names that were looked up for it."""


class _Key(NamedTuple):
    """What a script is remembered by."""

    script: str
    limits: wire.Limits
    coverage: bool
    foresee: bool
    reader: str


EntryT = TypeVar("EntryT")


class ReadScripts(Generic[EntryT]):
    """What a worker has read last, within `MAX_SCRIPTS` and `MAX_CHARS`."""

    def __init__(self) -> None:
        self._entries: OrderedDict[Hashable, tuple[EntryT, int]] = OrderedDict()
        self._chars = 0

    def get(self, key: Hashable) -> EntryT | None:
        """What was read; None if it is not remembered."""
        known = self._entries.get(key)
        if known is None:
            return None
        self._entries.move_to_end(key)
        return known[0]

    def add(self, key: Hashable, entry: EntryT, chars: int) -> None:
        """Remember it, and forget what has not been used for longest.

        Args:
            key: all that it was read with, and for whom.
            entry: what was read.
            chars: characters of it that count towards `MAX_CHARS`.
        """
        if (replaced := self._entries.pop(key, None)) is not None:
            self._chars -= replaced[1]
        self._entries[key] = entry, chars
        self._chars += chars
        while len(self._entries) > MAX_SCRIPTS or self._chars > MAX_CHARS:
            _, (_, oldest) = self._entries.popitem(last=False)
            self._chars -= oldest


class ScriptCache:
    """Prepares scripts, and remembers them: one that comes again under the same limits is not parsed, validated and
    instrumented again.

    A worker has one owner, or each script names its reader: no caller finds another one's scripts here. What is
    remembered is what the validator and the instrumentation gave for exactly this text; a script that they refused is
    not remembered.
    """

    def __init__(self) -> None:
        self._read = ReadScripts[_Entry]()

    def prepare(self, start: wire.Start, find_namespaces: FindNamespaces) -> PreparedScript:
        """Prepare the script of `start`.

        Args:
            start: the script and its limits.
            find_namespaces: looks up namespaces. It is asked again about those of a remembered script, which is used
                only where the answers are the same.

        Raises:
            InvalidScriptError: the script must not run.
        """
        key = _Key(start.script, start.limits, start.coverage, start.foresee, start.reader)
        found: dict[str, NamespaceInfo] = {}

        def find_once(names: Sequence[str]) -> Mapping[str, NamespaceInfo]:
            if new := [name for name in names if name not in found]:
                found.update(find_namespaces(new))
            return {name: found[name] for name in names if name in found}

        if (entry := self._read.get(key)) is not None:
            names = list(entry.looked_up_namespaces)
            if not names or find_once(names) == entry.looked_up_namespaces:
                return entry.script
        script = _prepare(start, find_once)
        self._read.add(key, _Entry(script, found), len(key.script) + _chars_known(found))
        return script


def _chars_known(found: Mapping[str, NamespaceInfo]) -> int:
    """The characters of what the host knows about names."""
    return sum(
        len(name)
        + sum(len(member) + len(tool) for member, tool in (known.members or {}).items())
        + sum(map(len, known.near))
        + sum(map(len, known.tools))
        for name, known in found.items()
    )


def _prepare(start: wire.Start, find_namespaces: FindNamespaces) -> PreparedScript:
    limits = start.limits
    text, checked = validate_script(
        start.script, Rules.from_limits(limits), coverage=start.coverage, find_namespaces=find_namespaces
    )
    return PreparedScript(
        instrument(text, checked, max_iterations=limits.max_iterations),
        checked.namespaces,
        build_plan(checked.outline, foresee=start.foresee),
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
        self._target = min(1, max_ready)
        self._ready = deque([first])

    def acquire(self, limits: wire.Limits) -> Realm:
        """An engine with these limits that no script has used."""
        if limits != self._limits:
            self._limits = limits
            self._ready.clear()
        elif self._ready:
            return self._ready.popleft()
        else:
            self._target = min(2 * self._target, self._max_ready)
        return self._build(limits)

    def release_unused(self, realm: Realm) -> None:
        """Take back an engine whose script did not run: the guard has refused it."""
        self._ready.appendleft(realm)

    def refill(self, has_work: Callable[[float], bool]) -> None:
        """Build engines until there are enough, or until `has_work(seconds)` reports work within that time."""
        while len(self._ready) < self._target:
            if has_work(REST_S if self._ready else 0.0):
                return
            self._ready.append(self._build(self._limits))
