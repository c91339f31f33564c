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
