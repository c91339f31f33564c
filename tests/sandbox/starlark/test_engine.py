"""The Starlark engine on its own: no process, no server; the host is a dictionary."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from codecall.presets import load_preset
from codecall.sandbox import wire
from codecall.sandbox.agentscript.checked import InvalidScriptError
from codecall.sandbox.agentscript.engine.console import Console
from codecall.sandbox.agentscript.validator.names import AskTopic
from codecall.sandbox.enclave import LimitsCache
from codecall.sandbox.languages import starlark_terms
from codecall.sandbox.starlark.dialect import Starlark
from codecall.sandbox.starlark.engine import StarlarkEngine


class Host:
    """Knows tools by name, answers calls with what they return, and notes what it is asked."""

    def __init__(self, **tools: Any) -> None:
        self.tools = tools
        self.asked: list[str] = []
        self.clock_ms = 0.0
        self.dialect = Starlark(self.ask, lambda: self.clock_ms)

    def ask(self, name: str, about: AskTopic = "tool", member: str = "") -> str | None:
        self.asked.append(f"{about} {name}{member}")
        if about == "member":
            return json.dumps({"tool": member} if member in self.tools else {"missing": "x"})
        return json.dumps({"tools": []})

    def start(self, script: str, *, data: dict[str, Any] | None = None, **limits: Any) -> wire.Start:
        preset = load_preset("secure").model_copy(update=limits)
        terms = starlark_terms(script, {name: {} for name in self.tools})
        context = None if data is None else json.dumps(data)
        return wire.Start(script, LimitsCache(0).limits(preset), context=context, starlark=terms)

    def run(self, script: str, **options: Any) -> StarlarkEngine:
        """The engine with its outcome; calls are answered in the order in which they come."""
        start = self.start(script, **options)
        engine = self.dialect.engine(start.limits)
        self.dialect.read(engine, start).start()
        while engine.outcome is None:
            calls = engine.drain_calls(wire.CALLS_BUDGET)
            engine.resume([self._answer(call) for call in calls])
        return engine

    def _answer(self, call: wire.Call) -> wire.Answer:
        if call.name not in self.tools:
            return wire.Answer(call.call, ok=False, payload=json.dumps({"message": f"no {call.name}"}))
        return wire.Answer(call.call, ok=True, payload=json.dumps(self.tools[call.name](**json.loads(call.input))))


def value(engine: StarlarkEngine) -> object:
    assert engine.outcome is not None
    assert engine.outcome.failure is None, engine.outcome.failure
    return json.loads(engine.outcome.value or "null")


def code(engine: StarlarkEngine) -> str:
    assert engine.outcome is not None
    assert engine.outcome.failure is not None, engine.outcome.value
    return engine.outcome.failure.code


def test_a_script_calls_its_tools_and_ends_with_a_value():
    host = Host(double=lambda x: 2 * x)
    engine = host.run(
        "a = double(x=n)\nb = parallel([lambda i=i: double(x=i) for i in range(3)])\nreturn [a, b]", data={"n": 5}
    )
    assert value(engine) == [10, [0, 2, 4]]
    assert engine.pending_calls == 0


def test_a_failed_call_has_the_place_of_the_call():
    engine = Host().run("x = 'none'\n\ny = try_call('no')\nreturn [y['ok'], call_tool(x)]")
    assert engine.outcome is not None
    assert engine.outcome.failure is not None
    assert (engine.outcome.failure.code, engine.outcome.failure.call) == ("TOOL", 2)
    assert (engine.outcome.failure.line, engine.outcome.failure.column) == (4, 18)


@pytest.mark.parametrize(
    "script",
    [
        "return all(range(1, 1000000000))",
        "return sum([x for x in [range(100000000)]][0])",
        "return sorted(range(16000000))",
        "return len(list(range(16000000)))",
        "return len(zip(range(16000000), range(16000000)))",
        "return len(str([0] * 16000000))",
        "return len(json.encode([0] * 16000000))",
        "return len(json.encode('x' * 16000000))",
        "return len(json.decode('[' + '1,' * 5000000 + '1]'))",
        "x = [0] * 1000000\nfor i in range(1000):\n  sum(x)",
        "x = []\nfor i in range(1000):\n  x.extend(range(1000000))",
        "for i in range(10 * 100):\n  any([0] * 1000000)",
        "for i in range(" + "9" * 30 + "):\n  pass",
    ],
)
def test_what_a_builtin_function_goes_through_counts_as_steps(script: str):
    assert code(Host().run(script, max_steps=2_000)) == "STEP_LIMIT"


@pytest.mark.parametrize(
    "script",
    ["return len(list(range(10000000000)))", "return len('a' * 10000000000)", "return len([0] * 10000000000)"],
)
def test_what_is_certain_to_be_too_large_is_not_begun(script: str):
    assert code(Host().run(script)) == "EXECUTION_ERROR"


def test_ranges_are_what_they_were():
    script = """
return [list(range(5, 0, -2)), list(range(3, 3)), [i for i in range(3000)][2999], max(range(5)), min(range(1, 4)),
        sum(range(3000)), 7 in range(0, 10, 2), len(range(10)), sorted(range(3), reverse = True), [0] + list(range(1)),
        any(range(3)), dict(zip(["a"], range(1))), [i for i in range(1024)][-1], [i for i in range(1025)][-1]]
"""
    assert value(Host().run(script)) == [
        *([5, 3, 1], [], 2999, 4, 1, 4498500, False, 10, [2, 1, 0], [0, 0], True, {"a": 0}, 1023, 1024),
    ]


def test_time_is_looked_at_between_few_steps():
    host = Host()

    def tick(**_: Any) -> int:
        host.clock_ms = 10_000
        return 1

    host.tools["late"] = tick
    engine = host.run("late()\nx = 0\nfor i in range(20):\n  x += 1\nreturn x")
    assert code(engine) == "TIMEOUT"


def test_the_console_cuts_a_line_that_is_too_long_and_says_how_many_were_lost():
    engine = Host().run("print('a')\nprint('b' * 100)\nprint('c')", max_console_bytes=60)
    limits = Host().start("", max_console_bytes=60).limits
    console = Console(limits)
    for line in ("a", "b" * 100, "c"):
        console.add(line)
    assert (engine.console.lines, engine.console.dropped) == (console.lines, console.dropped)
    assert console.lines == ["a", "b" * 29 + "… [a line of 100 bytes, cut]"]
    assert sum(len(line.encode()) for line in console.lines) == 60
    assert console.dropped == 1
    assert console.drain() == engine.console.drain()
    assert console.lines == []


def test_a_script_that_was_read_before_is_not_read_again():
    host = Host(one=lambda: 1)
    script = "items = [1]\nitems.append(one() + n)\nreturn items"

    def read(**options: Any) -> object:
        start = host.start(script, **options)
        ready = host.dialect.read(host.dialect.engine(start.limits), start)
        return ready.start.args[0]  # type: ignore[attr-defined]

    first = read(data={"n": 1})
    assert [value(host.run(script, data={"n": n})) for n in (1, 2, 2)] == [[1, 2], [1, 3], [1, 3]]
    assert read(data={"n": 2}) is first
    assert read(data={"n": 1, "m": 2}) is not first
    assert read(data={"n": 1}, max_steps=10) is not first
    start = host.start(script, data={"n": 1})
    other = msgspec.structs.replace(start, reader="another")
    assert host.dialect.read(host.dialect.engine(start.limits), other).start.args[0] is not first  # type: ignore[attr-defined]
    host.tools["other"] = lambda: 2
    assert read(data={"n": 1}) is first  # a tool that it does not name
    host.tools = {"one": lambda: 1, "items": lambda: 2}
    assert read(data={"n": 1}) is not first


def test_what_the_host_said_of_names_is_asked_again():
    host = Host(there=lambda: 1)
    script = "return call_tool('there')"
    assert value(host.run(script)) == 1
    assert value(host.run(script)) == 1
    assert host.asked == ["member there"] * 2
    host.tools.clear()
    with pytest.raises(InvalidScriptError, match="Tool 'there' was not found") as refused:
        host.run(script)
    assert refused.value.first.hint == "codecall:search finds tools by what they do."
