"""A pattern that takes nothing apart is reported where it stands, with what the answer has instead."""

from __future__ import annotations

from typing import Any

import pytest

from codecall.envelopes import ExecutionResult
from codecall.sandbox.enclave import Enclave

STATIONS = {"items": [{"id": 1, "location": None}], "alerts": []}
SHAPE = "{items: [{id: number, location: null}], alerts: []}"
CALL = "const r = await callTool('list_stations', { limit: 5 });\n"


async def fails(enclave: Enclave, script: str, **options: Any) -> dict[str, Any]:
    """The `error` of the envelope that a script ends in."""
    result: ExecutionResult = await enclave.execute(script, tool_handler=lambda name, _: STATIONS, **options)
    assert result.error is not None, result.value
    return result.error.as_dict()


PATTERNS = [
    # The statements after the call, the line that fails, and what is missing
    ("const { items } = r.result;\nreturn items.length;", "const { items } = r.result;", "`r.result` is undefined"),
    ("console.log(r.length);\nconst { items } = r.result;", "const { items } = r.result;", "`r.result` is undefined"),
    ("const [a] = r.rows;\nreturn a;", "const [a] = r.rows;", "`r.rows` is undefined, no list"),
    ("const [a] = r;\nreturn a;", "const [a] = r;", "`r` is an object, no list"),
    ("let n = 1;\nvar { id } = r.data;", "var { id } = r.data;", "`r.data` is undefined"),
    ("const [s] = r.items;\nconst { lat } = s.location;", "const { lat } = s.location;", "`s.location` is null"),
    ("const al = r.alerts;\nconst { id } = al[0];", "const { id } = al[0];", "`al[0]` is undefined"),
    (
        "const al = r.alerts;\nconst { id } = al.find((x) => x.id);",
        "const { id } = al.find((x) => x.id);",
        "`al.find((x) => x.id)` is undefined",
    ),
    ("let n = 1;\nconst { address: { page } } = r;", "const { address: { page } } = r;", "`address` is undefined"),
    ("if (r) {\n  const { id } = r.data;\n}", "const { id } = r.data;", "`r.data` is undefined"),
    ("let n = 1;\nif (r)\n  var { id } = r.data;", "var { id } = r.data;", "`r.data` is undefined"),
    ("for (const s of r.items) {\n  const { a } = s.b;\n}", "const { a } = s.b;", "`s.b` is undefined"),
    ("function f(x) {\n  const { a } = x.b;\n}\nreturn f(r);", "const { a } = x.b;", "`x.b` is undefined"),
    ("const f = (x) => {\n  const { a } = x.b;\n};\nreturn f(r);", "const { a } = x.b;", "`x.b` is undefined"),
    ("let a;\n({ a } = r.data);", "({ a } = r.data);", "`r.data` is undefined"),
    ("let a;\n[a] = r.rows;", "[a] = r.rows;", "`r.rows` is undefined, no list"),
    ("function f({ a }) {\n  return a;\n}\nreturn f(r.data);", "function f({ a }) {", "`r.data` is undefined"),
    ("let n;\nconst f = ({ a }) => a;\nreturn f(r.data);", "const f = ({ a }) => a;", "`r.data` is undefined"),
    ("return r.items.map(\n({ location: { lat } }) =>\nlat);", "({ location: { lat } }) =>", "`location` is null"),
    (
        "for (const { location: { lat } } of r.items) {\n  console.log(lat);\n}",
        "for (const { location: { lat } } of r.items) {",
        "`location` is null",
    ),
    ("let n;\nfor (const { a } of [r.data]) {}", "for (const { a } of [r.data]) {}", "`[r.data][i]` is undefined"),
]


@pytest.mark.parametrize(("statements", "text", "hint"), PATTERNS)
async def test_the_line_and_the_hint_are_those_of_the_pattern(
    statements: str, text: str, hint: str, enclave: Enclave
) -> None:
    error = await fails(enclave, CALL + statements)
    line = 2 + [each.strip() for each in statements.splitlines()].index(text)
    assert (error["location"]["line"], error["location"]["text"]) == (line, text)
    assert error["hint"].startswith(hint)
    assert f"list_stations returned {SHAPE}." in error["hint"]


async def test_the_column_is_that_of_the_declaration(enclave: Enclave) -> None:
    error = await fails(enclave, f"{CALL}if (r) {{ const {{ a }} = r.data; }}")
    assert error["location"] == {"line": 2, "column": 10, "text": "if (r) { const { a } = r.data; }"}


async def test_after_calls_made_together(enclave: Enclave) -> None:
    calls = "const [a, b] = await Promise.all([\n  callTool('stations'),\n  callTool('alerts'),\n]);\n"
    error = await fails(enclave, f"{calls}const {{ alerts }} = b.data;\nreturn alerts;")
    assert (error["location"]["line"], error["location"]["column"]) == (5, 1)
    assert error["hint"].startswith(f"`b.data` is undefined: alerts returned {SHAPE}.")


async def test_what_the_request_has_not_brought(enclave: Enclave) -> None:
    error = await fails(enclave, "let n = 1;\nconst { a } = codecallContext.user;\nreturn a;", context={"users": {}})
    assert error["location"]["line"] == 2
    assert error["hint"].startswith("`codecallContext.user` is undefined")


async def test_a_pattern_around_a_function_is_not_taken_for_one_inside(enclave: Enclave) -> None:
    script = f"{CALL}const {{ a: {{ b }} }} = r.items.map((s) => {{\n  return Object.keys(null);\n}});"
    error = await fails(enclave, script)
    assert error["location"]["line"] == 3
    assert "list_stations returned" not in error["hint"]
