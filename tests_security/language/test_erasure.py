"""What the guard judges is what runs: taking types out of a script hides no code from it, and makes none."""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from codecall.sandbox.agentscript.checked import InvalidScriptError
from codecall.sandbox.agentscript.instrument import instrument
from codecall.sandbox.agentscript.policy import Rules
from codecall.sandbox.agentscript.typescript.strip import strip_types
from codecall.sandbox.agentscript.validate import ValidatedScript, validate_javascript, validate_script
from codecall.sandbox.enclave import Enclave
from tests.sandbox.agentscript.typescript.typed_programs import TypedPrograms
from tests_security.fuzz.engines import ALL
from tests_security.fuzz.tokens import HOSTILE

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]
TYPES = ["as any", "!", ": any", "<any>", "<T>", "type A = ", "interface A {", "declare ", "?: ", "satisfies ", "enum "]


def accepted(script: str) -> ValidatedScript | None:
    """What would run of `script`, if anything would."""
    try:
        return validate_script(script, ALL)
    except InvalidScriptError:
        return None


def judged_as_it_runs(script: str) -> None:
    """If `script` may run, then what runs has been judged as it is, and each character of it is as sent or erased."""
    source = accepted(script)
    if source is None:
        return
    assert validate_javascript(source.text, ALL) == source.checked
    assert len(source.text) == len(script)
    for sent, runs in zip(script, source.text, strict=True):
        assert runs == sent or (runs in " ;()" and sent not in "\r\n")
    # Read again it is JavaScript, and nothing more is taken out of it
    assert validate_script(source.text, ALL) == source
    program = instrument(source.text, source.checked, max_iterations=1)
    assert "eval" not in program.text or "eval" in source.text


@settings(max_examples=150, deadline=None, suppress_health_check=SLOW)
@given(
    st.lists(st.sampled_from([*HOSTILE, *TYPES, " ", "\n", "a", "=", ";", "(", ")", "{", "}", "return "]), max_size=40)
)
def test_any_text_is_judged_as_it_runs(tokens: list[str]):
    judged_as_it_runs("".join(tokens))


@settings(max_examples=150, deadline=None, suppress_health_check=SLOW)
@given(st.integers(0, 2**64), st.sampled_from(["eval('1')", "callTool('codecall:execute')", "x.constructor"]))
def test_no_type_hides_code(seed: int, payload: str):
    # Whatever takes the place of an expression in a program full of types is found, or was taken out: it never runs
    script = TypedPrograms(random.Random(seed)).program().replace("b", f"({payload})", 3)
    source = accepted(script)
    assert source is None or payload not in source.text
    judged_as_it_runs(script)


@settings(max_examples=50, deadline=None, suppress_health_check=SLOW)
@given(st.text(max_size=200))
def test_types_never_come_of_texts(text: str):
    # What stands in a text, a template or a comment is nobody's type
    quoted = (
        text.replace("\\", "").replace("`", "").replace("${", "").replace("*/", "").replace("\n", "").replace("\r", "")
    )
    script = f"const a = `{quoted}` as string; /*{quoted}*/ type B = 1"
    stripped = strip_types(script)
    if stripped is not None and stripped.complete and not stripped.violations:
        assert stripped.text == f"const a = `{quoted}`          ; /*{quoted}*/ ;         "


@pytest.mark.parametrize("rules", [Rules(), ALL], ids=["strictest", "everything"])
@pytest.mark.parametrize(
    "typed",
    [
        "{}: any",
        "({} as any)",
        "<any>{}",
        "{}!",
        "f<any>({})",
        "new A<any>({})",
        "`${{{}}}` as string",
        "[{}] satisfies any",
    ],
)
def test_refused_names_stay_refused_beside_types(typed: str, rules: Rules):
    for name in ("eval", "globalThis", "x.__proto__", "x['constructor']", "process", "__ag_s"):
        script = f"const y: any = 1, z: any = {typed.format(name)}"
        with pytest.raises(InvalidScriptError) as error:
            validate_script(script, rules)
        assert error.value.findings


MANY = [
    "f<a,\n" * 12_000,
    "(& let = \n" * 6_000,
    "async <a>\n" * 6_000,
    "a!\n" * 20_000,
    "type A = " + "{ a: \n" * 8_000,
    "let a: " + "(b: \n" * 10_000,
    "(" + ";~\n" * 20_000,
]


@pytest.mark.parametrize("script", MANY, ids=lambda script: script[:8].strip())
async def test_what_costs_too_much_is_refused_in_good_order(enclave: Enclave, script: str):
    result = await enclave.execute(script[: 64 * 1024], config={"timeout_ms": 30_000})
    assert result.status in {"syntax_error", "illegal_access"}, result.error
    after = await enclave.execute("const a: number = 1; return a")
    assert after.value == 1
