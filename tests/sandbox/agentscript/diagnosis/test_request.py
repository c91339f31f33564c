"""Warnings about properties that a script reads of `codecallContext` and the request has not brought."""

from __future__ import annotations

from typing import Any

import pytest

from codecall.sandbox.enclave import Enclave

BROUGHT = {"minimum": 2, "ward": "A", "user": {"id": 7}}
NONE = "is undefined: the request brought no context."
SOME = "is undefined: the request brought {minimum: number, ward: string, user: {id: number}}."

RIGHT = [
    "return [1, 2].filter((x) => x >= codecallContext.minimum).length",
    "return [1, 2].filter((x) => x >= (codecallContext.min ?? 5)).length",
    "return codecallContext.min || 5",
    "if (codecallContext.min) return codecallContext.min * 2; return 0",
    "return codecallContext.min === undefined ? 0 : codecallContext.min * 2",
    "const { min = 5 } = codecallContext; return min * 2",
    "const { min } = codecallContext; if (min === undefined) return 0; return min * 2",
    "const min = codecallContext.min; return 2 * (min ?? 1)",
    "return codecallContext.filter?.name ?? 'none'",
    "const c = codecallContext; return [c.ward, c.min ?? 1, Object.keys(c).length]",
    "const { ward, ...rest } = codecallContext; return [ward, rest.min ?? 1]",
    "return typeof codecallContext.min",
    "return (await callTool('list', { page: codecallContext.page })).length",
    "const name = 'min'; return codecallContext[name] ?? 1",
    "return { context: codecallContext }",
    # What is never reached, as the request is
    "return codecallContext.minimum ?? codecallContext.least ?? 5",
    "return codecallContext.minimum || codecallContext.least",
    "return (codecallContext.off && codecallContext.least * 2) || 0",
    "if (!codecallContext.ward) return codecallContext.fallback; return codecallContext.ward",
    "const { ward } = codecallContext; if (!ward) { return codecallContext.fallback; } return ward",
    "return codecallContext.ward ? codecallContext.ward : codecallContext.fallback",
    "let w = codecallContext.ward; if (!w) w = codecallContext.fallback; return w",
    "if (codecallContext.mode === 'all') { return codecallContext.everything; } return 1",
    "const all = codecallContext.mode === 'all'; if (all) return codecallContext.everything; return 1",
    "if (!codecallContext.rows) return 'none'; return codecallContext.rows[0] + codecallContext.offset",
    "return main(); function main() { return codecallContext.minimum ?? codecallContext.least }",
    "if (typeof codecallContext.user === 'string') return codecallContext.realm; return 1",
    "if (codecallContext.user.id !== 7) throw new Error(codecallContext.reason); return 1",
    # What is asked for, or given on
    "if (!Array.isArray(codecallContext.rows)) return 'give rows'; return codecallContext.rows.length",
    "return Boolean(codecallContext.debug)",
    "return [Number.isInteger(codecallContext.page), Number.isFinite(codecallContext.page)]",
    "const r = await callTool('list', {}); return r[0] ?? codecallContext.none",
    "const page = codecallContext.page; return (await callTool('list', { page, ward: 'A' })).length",
    "const { page } = codecallContext; return (await callTool('list', { page })).length",
    # Another spelling, where both are read, or the context is used as a whole
    "return codecallContext.wards ?? [codecallContext.ward]",
    "const { wards = [], ward } = codecallContext; return [...wards, ward]",
    "return codecallContext.wards ?? Object.keys(codecallContext).length",
    "const { wards = [], ...rest } = codecallContext; return [wards.length, rest.ward]",
]


@pytest.mark.parametrize("script", RIGHT)
async def test_a_script_that_is_ready_for_it_has_no_warning(enclave: Enclave, script: str) -> None:
    result = await enclave.execute(script, context=BROUGHT, tool_handler=lambda name, arguments: [1])
    assert (result.error, result.warnings) == (None, ())


WRONG = [
    ("return [1].filter((x) => x >= codecallContext.min).length", BROUGHT, "`codecallContext.min`", SOME),
    (
        "return [1].filter((x) => x >= codecallContext.min).length",
        BROUGHT,
        "`codecallContext.min`",
        "Did you mean `codecallContext.minimum`?",
    ),
    ("return [1].filter((x) => x >= codecallContext.min).length", {}, "`codecallContext.min`", NONE),
    ("return [1].filter((x) => x >= codecallContext.min).length", None, "`codecallContext.min`", NONE),
    (
        "const { wards } = codecallContext; return wards === 'A'",
        BROUGHT,
        "`wards`",
        "Did you mean `codecallContext.ward`?",
    ),
    ("const c = codecallContext; return c.limit > 2", BROUGHT, "`c.limit`", SOME),
    (
        "return (await callTool('list', { ward: codecallContext.wards })).length",
        BROUGHT,
        "`codecallContext.wards`",
        "Did you mean `codecallContext.ward`?",
    ),
    ("return (await callTool('list', { ward: codecallContext.ward })).length", None, "`codecallContext.ward`", NONE),
    ("return `${codecallContext.name}`", BROUGHT, "`codecallContext.name`", SOME),
    (
        "if (codecallContext.ward) return `${codecallContext.name}`; return 1",
        BROUGHT,
        "`codecallContext.name`",
        SOME,
    ),
    ("f(); function f() { return `${codecallContext.name}` } return 1", BROUGHT, "`codecallContext.name`", SOME),
    (
        "let w = codecallContext.off; for (const x of [1]) { if (w) return codecallContext.name; w = x; } return 1",
        BROUGHT,
        "`codecallContext.name`",
        SOME,
    ),
    (
        "return codecallContext['wards'] === 'A' ? 1 : 0",
        BROUGHT,
        "`codecallContext['wards']`",
        "Did you mean `codecallContext.ward`?",
    ),
    # Another spelling of what was brought is no optional name
    ("return codecallContext.wards ?? 'A'", BROUGHT, "`codecallContext.wards`", "Did you mean `codecallContext.ward`?"),
    (
        "const { min_imum = 1 } = codecallContext; return min_imum",
        BROUGHT,
        "`min_imum`",
        "Did you mean `codecallContext.minimum`?",
    ),
    (
        "if (codecallContext.Ward) return codecallContext.Ward.length; return 0",
        BROUGHT,
        "`codecallContext.Ward`",
        "Did you mean `codecallContext.ward`?",
    ),
]


@pytest.mark.parametrize(("script", "context", "what", "told"), WRONG)
async def test_what_the_request_has_not_brought_is_warned_of(
    enclave: Enclave, script: str, context: dict[str, Any] | None, what: str, told: str
) -> None:
    result = await enclave.execute(script, context=context, tool_handler=lambda name, arguments: [1])
    assert result.error is None
    assert len([text for text in result.warnings if text.startswith(what) and told in text]) == 1, result.warnings


async def test_a_script_without_a_value_is_told_why_once(enclave: Enclave) -> None:
    result = await enclave.execute("return codecallContext.min", context=BROUGHT)
    [text] = result.warnings
    assert text.startswith(f"Nothing was returned: `codecallContext.min` on line 1 {SOME} Did you mean")


async def test_many_reads_cost_little(enclave: Enclave) -> None:
    script = "let n = 0; " + "".join(f"n += codecallContext.k{number};\n" for number in range(1500)) + "return 1"
    result = await enclave.execute(script, context=BROUGHT)
    assert result.error is None
    assert len(result.warnings) == 3


SOME_BROUGHT = "the request brought {minimum: number, ward: string, user: {id: number}}."
FAILURES = [
    ("return codecallContext.filter.name", "`codecallContext.filter` is undefined", ""),
    ("return codecallContext.users.id", "`codecallContext.users` is undefined", "codecallContext.user`?"),
    ("const c = codecallContext.filters; return c.name", "`c` is undefined", ""),
    ("const { users } = codecallContext; return users.id", "`users` is undefined", "`codecallContext.user`?"),
    ("const { users } = codecallContext; const { id } = users; return id", "`users` is undefined", "Context.user`?"),
    ("const { users: { id } } = codecallContext; return id", "`users` is undefined", "`codecallContext.user`?"),
    ("return codecallContext.user.ids.length", "`codecallContext.user.ids` is undefined", "`codecallContext.user.id`?"),
    ("return Object.keys(codecallContext.users)", "`codecallContext.users` is undefined", "`codecallContext.user`?"),
    ("for (const id of codecallContext.wards) {}", "`codecallContext.wards` is undefined, no list", "Context.ward`?"),
    ("return [...codecallContext.user]", "`codecallContext.user` is an object, no list", ""),
    ("const f = (x) => x.size; return f(codecallContext.wards)", "`x` is undefined", ""),
]


@pytest.mark.parametrize(("script", "what", "meant"), FAILURES)
async def test_a_failure_says_what_the_request_brought(enclave: Enclave, script: str, what: str, meant: str) -> None:
    result = await enclave.execute(script, context=BROUGHT)
    assert result.error is not None
    assert result.error.hint is not None
    assert result.error.hint.startswith(what)
    assert (SOME_BROUGHT in result.error.hint, meant in result.error.hint) == (" is " in what, True)


async def test_a_failure_says_that_the_request_brought_nothing(enclave: Enclave) -> None:
    result = await enclave.execute("return codecallContext.user.id")
    assert result.error is not None
    assert result.error.hint == "`codecallContext.user` is undefined: the request brought no context."


async def test_conditions_cost_little(enclave: Enclave) -> None:
    tests = " || ".join(f"codecallContext.k{number}" for number in range(300))
    script = "".join(f"if ({tests}) {{ return codecallContext.x{number}; }}\n" for number in range(8)) + "return 1"
    result = await enclave.execute(script, context=BROUGHT)
    assert result.error is None
