"""Hints for scripts that throw an error of their own: what they read of answers that have none of that name."""

from __future__ import annotations

import pytest

from codecall.sandbox.agentscript.diagnosis.hints import NOT_AN_ERROR_HINT
from codecall.sandbox.enclave import Enclave

ANSWERS: dict[str, object] = {
    "refund": {"refund": {"id": 1, "status": "refunded"}},
    "list": {"data": [{"no": 1, "name": "Hall"}], "page": 1},
    "venues": {"data": [{"venue": {"name": "Opera", "id": 1}}, {"venue": {"name": "Arena", "id": 2}}], "total": 2},
    "empty": {"data": [], "page": 1},
    "optional": {"data": [{"venue": {"name": "Opera"}}], "page": 1},
}
VENUE: dict[str, object] = {"properties": {"name": {}, "venue": {"properties": {"name": {}}}}}
TOOLS: list[dict[str, object]] = [
    *({"name": name} for name in ("refund", "list", "venues", "empty")),
    {"name": "optional", "outputSchema": {"properties": {"data": {"items": VENUE}, "success": {}, "page": {}}}},
]


def answer(name: str, _arguments: dict[str, object]) -> object:
    """The tools of these scripts."""
    return ANSWERS[name]


async def hint_of(enclave: Enclave, script: str) -> str:
    result = await enclave.execute(script, tool_handler=answer, tools=TOOLS)
    assert result.error is not None, result.value
    assert (result.status, result.error.code) == ("runtime_error", "EXECUTION_ERROR")
    return result.error.hint or ""


OWN = "The script threw this itself, on the line shown"
PLAIN = f"{OWN}: mend what leads there, or return a value instead."
REFUND = "const r = await callTool('refund', {}); "
LIST = "const r = await callTool('list', {}); "
VENUES = "const r = await callTool('venues', {}); "
THROW = "throw new Error('no')"
NOTHING_TO_TEST = "A call that fails throws: there is nothing to test."
WRAPPED = (
    f"const call = async (name) => {{\n  const r = await callTool(name, {{}});\n  if (!r.success) {THROW};\n"
    "  return r.data;\n};\nreturn await call('refund');"
)


@pytest.mark.parametrize(
    ("script", "read", "advice"),
    [
        (f"{REFUND}if (!r.success) {THROW}; return r", "`r.success` on line 1", NOTHING_TO_TEST),
        (f"{REFUND}if (!r.ok) {THROW}; return r", "`r.ok` on line 1", NOTHING_TO_TEST),
        (f"{REFUND}if (r.status !== 'refunded') {THROW}", "`r.status` on line 1", "Did you mean `r.refund.status`?"),
        (f"{LIST}if (!r.events || !r.events.length) {THROW}", "`r.events` on line 1", "The list is `r.data`."),
        (f"{LIST}if (!r.length) {{\n  {THROW};\n}}", "`r.length` on line 1", "The list is `r.data`."),
        (
            f"{VENUES}const o = r.data.find(x => x.name === 'Opera');\nif (!o) {THROW};\nreturn o.venue.id",
            "`x.name` on line 1",
            "Did you mean `x.venue.name`?",
        ),
        (WRAPPED, "`r.success` on line 3", NOTHING_TO_TEST),
        (
            f"const must = (x) => {{ if (!x) {THROW}; return x; }};\n{VENUES}\n"
            "return must(r.data.find(x => x.name === 'Opera'))",
            "`x.name` on line 3",
            "Did you mean `x.venue.name`?",
        ),
    ],
)
async def test_a_misread_property_is_named_where_the_script_throws(
    enclave: Enclave, script: str, read: str, advice: str
) -> None:
    hint = await hint_of(enclave, script)
    assert hint.startswith(f"{OWN}. {read} is undefined: "), hint
    assert advice in hint


async def test_a_misread_property_is_named_where_a_text_is_thrown(enclave: Enclave) -> None:
    hint = await hint_of(enclave, f"{REFUND}if (!r.success) throw 'no'")
    assert hint.startswith(f"{NOT_AN_ERROR_HINT} `r.success` on line 1 is undefined: ")
    assert NOTHING_TO_TEST in hint


async def test_what_a_message_shows_as_undefined_is_named(enclave: Enclave) -> None:
    hint = await hint_of(enclave, f"{REFUND}throw new Error(`ended as ${{r.state}}`)")
    assert hint.startswith(f"{OWN}. `r.state` on line 1 is undefined: "), hint


@pytest.mark.parametrize(
    "script",
    [
        THROW,
        f"{VENUES}const o = r.data.find(x => x.venue.name === 'Odeon'); if (!o) {THROW}; return o",
        f"{LIST}const o = r.data.find(x => x.name === 'Opera'); if (!o) {THROW}; return o",
        f"const r = await callTool('empty', {{}}); if (!r.data.length) {THROW}; return r.data[0].name",
        f"const r = await callTool('optional', {{}}); if (!r.data.some(x => x.name === 'Opera')) {THROW}; return 1",
        f"const r = await callTool('optional', {{}}); if (!r.success) {THROW}; return r",
        f"{REFUND}if (r.refund.status !== 'paid') {THROW}; return r.refund",
        f"const r = await callTool('refund', {{}}, {{ throwOnError: false }}); if (r.success) {THROW}; return r.error",
        # Not reached
        f"{VENUES}if (r.total < 3) {THROW}; return r.data.filter(x => x.name === 'Opera').length",
    ],
)
async def test_a_script_that_throws_on_purpose_has_the_plain_hint(enclave: Enclave, script: str) -> None:
    hint = await hint_of(enclave, script)
    assert hint.startswith(PLAIN), hint
