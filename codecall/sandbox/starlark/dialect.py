"""Starlark as a dialect of the worker. Importing this module loads all that Starlark will ever need."""

from __future__ import annotations

import decimal as decimal  # noqa: PLC0414 - the evaluator imports it when a number is first formatted
import inspect as inspect  # noqa: PLC0414 - and this when a built-in function gets wrong arguments
import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple, cast

from codecall.sandbox import wire
from codecall.sandbox.agentscript.checked import Finding, InvalidScriptError
from codecall.sandbox.agentscript.dialect import ReadScript, ReadScripts
from codecall.sandbox.agentscript.engine.realm import Clock, ScriptOutcome
from codecall.sandbox.agentscript.validator.names import AskHost, AskTopic
from codecall.sandbox.starlark.engine import StarlarkEngine
from codecall.sandbox.starlark.read import StarlarkProgram, read_script

WARM_UP_SCRIPTS = (
    """
def double(x, y = 1):
    return 2 * x + y

items = [double(i) for i in range(3)] + [len(text)]
print("%f %g %s %r" % (1.5, 2.5, 1e300, "x"), "{} {}".format(items, {"a": (1,)}), sorted(items, key = lambda i: -i))
results = parallel([lambda i=i: try_call("x", at = i) for i in items])
call_tool("x", text = json.encode(results), more = json.decode('{"a": [1, 2.5, null, "é😀"]}'))
return {"items": items, "set": set(items), "range": range(3), "text": text.upper().split(" "), "f": double}
""",
    "return parallel([lambda: fail('x'), 1])",
    "return 1 / 0",
    "return len(1, 2, 3)",
    "return {}.nothing",
    "x = (",
    "open('x')",
    "return [i for i in range(100000)]",
)
"""Everything that a script can do, be refused for and fail with."""


class Starlark:
    """The dialect of `execute_tool_script`; a `worker.dialect.Dialect`.

    Args:
        ask: Asks the host about tools.
        clock: Milliseconds of the script's own time so far.
    """

    def __init__(self, ask: AskHost, clock: Clock) -> None:
        self._ask = ask
        self._clock = clock
        self._programs = ReadScripts[_Entry]()

    def engine(self, limits: wire.Limits) -> StarlarkEngine:
        """An engine that no script has used."""
        return StarlarkEngine(limits, self._ask, self._clock)

    def read(self, engine: StarlarkEngine, start: wire.Start) -> ReadScript:
        """Read and check the script; it then runs in `engine`.

        Raises:
            InvalidScriptError: it must not run.
        """
        terms, data = _terms(start)
        program = self._read(start, terms, data)
        plan = _plan(program) if start.foresee else None
        return ReadScript(plan, partial(engine.start, program, terms, data))

    def check(self, engine: StarlarkEngine, start: wire.Start) -> tuple[ScriptOutcome, wire.Plan | None]:
        """What a dry run of the script gives; it plans no calls."""
        del engine
        terms, data = _terms(start)
        findings: list[Finding] = []
        program: StarlarkProgram | None = None
        try:
            program = self._read(start, terms, data)
        except InvalidScriptError as refused:
            findings = refused.findings
        calls, loops = (program.calls, program.loops) if program is not None else ((), ())
        report = wire.Report(
            findings=[wire.WireFinding(f.code, f.kind, f.message, f.line, f.column, f.hint) for f in findings],
            calls=list(calls[: wire.MAX_LISTED]),
            loops=list(loops[: wire.MAX_LISTED]),
            computed=program is not None and program.computed,
            parsed=program is not None,
            more_calls=max(0, len(calls) - wire.MAX_LISTED),
            more_loops=max(0, len(loops) - wire.MAX_LISTED),
        )
        return ScriptOutcome(value=wire.report_json(report)), None

    def release(self, engine: StarlarkEngine) -> None:
        """Nothing of an engine is used again."""
        engine.close()

    def rest(self, has_work: Callable[[float], bool]) -> None:
        """There is nothing to get ready: an engine takes no time to build."""

    def _read(self, start: wire.Start, terms: wire.StarlarkTerms, data: dict[str, Any]) -> StarlarkProgram:
        """The program of `start`; one that was read before, with the same tools and variables, is not read again. The
        host is asked again whatever it was asked then, and has to give the same answers."""
        key = (start.script, start.limits, start.reader, repr(terms), tuple(data))
        entry = self._programs.get(key)
        if entry is not None and all(self._ask(*question) == answer for question, answer in entry.answers.items()):
            return entry.program
        answers: dict[tuple[str, AskTopic, str], str | None] = {}

        def ask(name: str, about: AskTopic = "tool", member: str = "") -> str | None:
            answer = answers[name, about, member] = self._ask(name, about, member)
            return answer

        program = read_script(start, terms, list(data), ask)
        self._programs.add(key, _Entry(program, answers), len(start.script) + len(key[3]))
        return program


class _Entry(NamedTuple):
    program: StarlarkProgram
    answers: Mapping[tuple[str, AskTopic, str], str | None]
    """What the host said of the names that it was asked about."""


def _terms(start: wire.Start) -> tuple[wire.StarlarkTerms, dict[str, Any]]:
    data = cast("dict[str, Any]", json.loads(start.context)) if start.context else {}
    return start.starlark or wire.StarlarkTerms(), data


def _plan(program: StarlarkProgram) -> wire.Plan:
    """The tools that a program names. Nothing is known of their inputs, nor whether they are called."""
    return wire.Plan([wire.Site(call.name, "", call.start, certain=False) for call in program.calls[: wire.MAX_SITES]])


def warm_up(limits: wire.Limits) -> None:
    """Run scripts through every part, so that all is loaded before the jail is shut."""
    for script in WARM_UP_SCRIPTS:
        start = wire.Start(script, limits, context='{"text": "a b"}', starlark=wire.StarlarkTerms(parallel=2))
        dialect = Starlark(_nobody, lambda: 0.0)
        engine = dialect.engine(limits)
        dialect.check(engine, start)
        try:
            dialect.read(engine, start).start()
        except InvalidScriptError:
            continue
        while engine.outcome is None:
            calls = engine.drain_calls(wire.CALLS_BUDGET)
            engine.resume([wire.Answer(made.call, ok=made.name == "x", payload='{"message": "m"}') for made in calls])


def _nobody(name: str, about: str = "tool", member: str = "") -> str | None:
    del name, about, member
    return "{}"
