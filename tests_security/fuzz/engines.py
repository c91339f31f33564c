"""Three ways of running a program: as it is in a plain engine, instrumented in the realm, and as the guard's tree says.

The first knows nothing of CodeCall but the contract: a bare engine, and `plain.js` for telling the result.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

import quickjs  # pyright: ignore[reportMissingTypeStubs]

from codecall.presets import resolve_preset
from codecall.sandbox import wire
from codecall.sandbox.agentscript.checked import CheckedScript
from codecall.sandbox.agentscript.engine.realm import Realm
from codecall.sandbox.agentscript.instrument import instrument
from codecall.sandbox.agentscript.policy import Rules

ALL: Final = Rules(allow_loops=True, allow_regex=True, allow_console=True, allow_clock=True)
PRESET: Final = resolve_preset("experimental", {"timeout_ms": 2_000, "memory_mb": 64})
LIMITS: Final = wire.Limits(**{name: getattr(PRESET, name) for name in wire.PRESET_FIELDS})

_ENGINE = cast("Any", quickjs)  # it has no types
_PLAIN: Final = (Path(__file__).parent / "plain.js").read_text(encoding="utf-8")
_SECONDS: Final = 2
TAMED: Final = "Function.prototype.toString = function toString() { return 'function () { [native code] }' }"
"""What the realm does on purpose and no program can miss: a function does not tell its source."""
LIMIT_CODES: Final = frozenset(
    {"ITERATION_LIMIT", "STEP_LIMIT", "STACK_OVERFLOW", "WORKER_MEMORY_EXCEEDED", "TIMEOUT", "OUTPUT_LIMIT"}
)


@dataclass(frozen=True)
class Ending:
    """How a program ended: `value` (its JSON), `error` (name and message), `never`, `limit`, `syntax` or `odd`."""

    sort: str
    what: object = None
    reached: tuple[str, ...] = field(default=(), compare=False)
    """The traps of `agreement.TRAPS` that it ran into."""


def new_engine() -> Any:
    """A bare engine."""
    engine = _ENGINE.Context()
    engine.set_memory_limit(256 * 1024 * 1024)
    engine.set_max_stack_size(4 * 1024 * 1024)
    return engine


def compile_error(script: str, engine: Any = None) -> str | None:
    """What the engine has against `script` as the body of an async function in strict mode; None when it compiles."""
    try:
        (engine or new_engine()).eval(f'(function(){{"use strict";return async()=>{{{script}\n}}}})')
    except _ENGINE.JSException as error:
        return str(error).partition("\n")[0]
    return None


def returning(script: str, checked: CheckedScript) -> str:
    """`script` with the `return` that the contract lets it leave out, and a look at what it spreads or tests."""
    inserts = [(site.start, -site.end, "data((") for site in checked.data_sites]
    inserts += [(site.end, -site.start - 2**30, f"), '{site.use}')") for site in checked.data_sites]
    if checked.last_start is not None:
        inserts.append((checked.last_start, -(2**31), "return "))
    text, end = "", len(script)
    for offset, _, inserted in sorted(inserts, reverse=True):
        text, end = f"{inserted}{script[offset:end]}{text}", offset
    return script[:end] + text


def run_plain(script: str, *, call: bool, before: str = "") -> Ending:
    """Run `script` in a bare engine. `call`: its value is a function to be called; `before`: run first."""
    engine = new_engine()
    run = engine.eval(_PLAIN)
    engine.eval(before or "0")
    engine.set_time_limit(_SECONDS)
    began = time.process_time()
    try:
        main = engine.eval(f'(function(){{"use strict";return async()=>{{{script}\n}}}})()')
        run(main, call)
        while engine.execute_pending_job():
            if time.process_time() - began > _SECONDS:
                return Ending("limit")
    except _ENGINE.StackOverflow:
        return Ending("limit")
    except _ENGINE.JSException as error:
        text = str(error)
        return Ending("limit") if "interrupted" in text or "memory" in text else Ending("syntax", text)
    settled = engine.get("settled")
    reached = tuple(engine.eval("typeof reached === 'object' ? reached.join(' ') : ''").split())
    if settled is None:
        return Ending("limit" if time.process_time() - began > _SECONDS else "never", None, reached)
    sort, *what = json.loads(settled)
    if sort == "error":
        name, message = what
        limit = name == "InternalError" or "call stack" in str(message)
        return Ending("limit") if limit else Ending("error", (name, message), reached)
    return Ending(sort, what[0], reached)


def run_counted(script: str, checked: CheckedScript) -> Ending:
    """Run `script` as a worker would: instrumented, in a fresh realm; without tools."""
    began = time.perf_counter()
    realm = Realm(LIMITS, lambda _: None, lambda: (time.perf_counter() - began) * 1000)
    try:
        program = instrument(script, checked, max_iterations=LIMITS.max_iterations)
        realm.start(program, context=None)
        outcome = realm.outcome
        if outcome is None:
            return Ending("odd", "no outcome")
        if outcome.value is not None:
            return Ending("value", json.loads(outcome.value))
        failure = outcome.failure
        if failure is None:
            return Ending("odd", "neither value nor failure")
        if failure.code == "EXECUTION_ERROR":
            return Ending("error", (failure.name, failure.message))
        if failure.code == "DEADLOCK":
            return Ending("never")
        return Ending("limit" if failure.code in LIMIT_CODES else "odd", failure.code)
    finally:
        realm.close()
