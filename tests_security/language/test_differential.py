"""The guard, the engine and the realm take every program for the same thing, shown on generated programs.

What is asked of each program says `tests_security/fuzz/agreement.py`; what programs there are, `programs.py` beside it.
Here a fixed number of them in every run of the tests; `make fuzz` goes on with fresh ones. Hand-made programs at the
places where readers of JavaScript are known to part: tests/sandbox/agentscript/parser/test_engine_agrees.py.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from codecall.sandbox.agentscript.checked import InvalidScriptError
from codecall.sandbox.agentscript.parser.parse import parse
from codecall.sandbox.agentscript.policy import NODES
from codecall.sandbox.agentscript.validate import validate_javascript
from tests_security.fuzz.agreement import (
    DIFFERENCES,
    Difference,
    DisagreementError,
    examine,
    known_difference,
    marks_alike,
    nodes_of,
    reads_alike,
    runs_alike,
)
from tests_security.fuzz.choices import Choices
from tests_security.fuzz.engines import ALL, Ending, compile_error, new_engine, returning, run_plain
from tests_security.fuzz.printing import printed
from tests_security.fuzz.programs import hostile_program, hostile_programs, program, programs

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]
REPOSITORY = Path(__file__).parents[2]


def honest_scripts() -> list[str]:
    """The scripts of the guard's own tests that models might have written."""
    text = (REPOSITORY / "tests/sandbox/agentscript/honest.script.js").read_text(encoding="utf-8")
    return re.split(r"^---\n", text, flags=re.MULTILINE)


# The same programs in every run: `make fuzz` makes others.
@settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=SLOW)
@given(programs())
def test_programs_mean_the_same_to_all(script: str):
    examine(script)


# The same programs in every run: `make fuzz` makes others.
@settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=SLOW)
@given(hostile_programs())
def test_programs_with_hostile_changes_mean_the_same_to_all(script: str):
    examine(script)


@pytest.mark.parametrize("seed", range(5))
def test_more_programs_mean_the_same_to_all(seed: int):
    # Hypothesis favours small bytes; these are evenly spread, and the same in every run
    rng, engine = random.Random(seed), new_engine()
    for _ in range(20):
        data = rng.randbytes(rng.choice([60, 150, 300]))
        script = (hostile_program if rng.random() < 0.5 else program)(Choices(data))
        try:
            examine(script, engine=engine)
        except DisagreementError as disagreement:
            raise AssertionError(f"{disagreement}\n{script}") from None


def test_the_programs_are_worth_it():
    rng = random.Random(1)
    counts: Counter[str] = Counter()
    types: set[str] = set()
    operators: set[str] = set()
    total = 120
    for _ in range(total):
        script = program(Choices(rng.randbytes(400)))
        try:
            checked = validate_javascript(script, ALL)
        except InvalidScriptError:
            continue
        counts["accepted"] += 1
        for node in nodes_of(script):
            types.add(node.type)
            operators.add(getattr(node, "operator", ""))
        counts[run_plain(returning(script, checked), call=checked.form == "function").sort] += 1
    assert counts["accepted"] / total > 0.85, counts
    assert counts["value"] / total > 0.75, counts
    allowed = {name for name, row in NODES.items() if ALL.permit(row.verdict)}
    assert allowed - types <= {"Program", "ClassBody"}, "no program has these"
    assert {"??=", "**", ">>>=", "in", "instanceof", "delete", "&&=", "?? ".strip()} <= operators


def test_hostile_changes_leave_many_programs_whole():
    rng = random.Random(2)
    accepted = 0
    for _ in range(100):
        try:
            validate_javascript(hostile_program(Choices(rng.randbytes(200))), ALL)
        except InvalidScriptError:
            continue
        accepted += 1
    assert accepted > 50


@pytest.mark.parametrize("script", honest_scripts(), ids=range(len(honest_scripts())))
def test_honest_scripts_are_read_alike(script: str):
    assert reads_alike(script)
    marks_alike(script)
    checked = validate_javascript(script, ALL)
    text = returning(script, checked)
    call = checked.form == "function"
    if re.search(r"random|stack", script):
        return  # ends another way each time, or with the places of a text
    # Tools are missing here, so that most end at their first call: alike from the text and from the tree
    assert run_plain(text, call=call) == run_plain(printed(parse(text)[0]), call=call)


@pytest.mark.parametrize(
    "script",
    [
        "const a = [1, 2, 3]; for (let i = 0; i < a.length; i++) { a[i] += 1 } return a",
        "let n = 0; l: for (const x of [1, 2, 3]) { for (;;) { if (x > 1) continue l; n++; break } } return n",
        "try { try { throw new TypeError('inner') } finally { null } } catch ({ name, message }) { return message }",
        "class A { #x = 1; get x() { return this.#x } static of() { return new A() } } return A.of().x",
        "function* g() { try { yield 1; yield 2 } finally { yield 3 } } return [...g()]",
        "return await Promise.all([1, Promise.resolve(2), (async () => 3)()])",
        "return { date: new Date(0), map: new Map([['a', 1n]]), set: new Set([1]), re: /a/g, nan: NaN, f: () => 1 }",
        "const o = {}; o.o = o; return o",
        "return new Promise(() => {})",
        "throw { code: 1 }",
        "throw new RangeError('far')",
        "async () => { return 5 }",
        "1 + 1",
        "const f = x => ({ x }); [1, 2].map(f)",
        "return Promise.reject(new Error('late'))",
        "return [Promise.resolve(1), { a: (async () => 2)() }]",
    ],
)
def test_these_end_alike(script: str):
    runs_alike(script, validate_javascript(script, ALL))


EXAMPLES = [(row, example) for row in DIFFERENCES for example in row.examples]


@pytest.mark.parametrize(("row", "example"), EXAMPLES, ids=[ascii(example) for _, example in EXAMPLES])
def test_every_difference_is_still_one(row: Difference, example: str):
    says: str | None = None
    try:
        parse(example)
    except InvalidScriptError as error:
        says = re.sub(r" at line \d+", "", error.first.message)
    compiled = compile_error(example)
    assert (says is None) == (row.accepted_by == "parser")
    assert (compiled is None) == (row.accepted_by == "engine"), "the two agree now: remove the row"
    assert re.fullmatch(row.message, (compiled if says is None else says or "").removeprefix("SyntaxError: "))
    assert known_difference(row.accepted_by, says or compiled or "") is not None
    assert row.reason


def test_the_questions_find_what_they_ask_for(monkeypatch: pytest.MonkeyPatch):
    # Each question meets readers that do part
    script = "const t = (n, v) => v; return [t(101, 1), t(102, 2)]"
    checked = validate_javascript(script, ALL)
    other = parse("const t = (n, v) => v; return [t(101, 1), 2 /* t(102, 2) */, 3]")
    monkeypatch.setattr("tests_security.fuzz.agreement.parse", lambda _: other)
    with pytest.raises(DisagreementError, match="mark 102 is code only to the engine"):
        marks_alike(script)
    with pytest.raises(DisagreementError, match="tree does something else"):
        runs_alike(script, checked)
    monkeypatch.undo()
    monkeypatch.setattr("tests_security.fuzz.agreement.run_counted", lambda *_: Ending("value", 2))
    with pytest.raises(DisagreementError, match="realm does something else"):
        runs_alike("return 1", validate_javascript("return 1", ALL))
    for reaching in (
        "return [globalThis]",
        "return typeof fetch",
        "return (() => 1).constructor",
        "return ({}).__proto__",
    ):
        with pytest.raises(DisagreementError, match="reached"):
            runs_alike(reaching, replace(checked, functions=[]))
    monkeypatch.setattr("tests_security.fuzz.agreement.DIFFERENCES", ())
    with pytest.raises(DisagreementError, match="only the parser accepts this"):
        reads_alike("let a; let a")
    with pytest.raises(DisagreementError, match="only the engine accepts this"):
        reads_alike("({ i\\u0066: 1 })")
