"""The programs of the document this product was conceived from, run as that document says, to the letter.

They are read from the document (`../shared/seeds`), which is not part of this repository: programs are found by their
first and last line. Elsewhere this test says that it cannot run; `test_language.py` has programs of the same kinds.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from codecall.envelopes import ExecutionResult
from codecall.errors import ToolCallError
from codecall.sandbox.enclave import Enclave

SEEDS = Path(__file__).parents[5] / "shared" / "seeds"
DOCUMENT = next(SEEDS.glob("002_*.txt"), None)

pytestmark = pytest.mark.skipif(DOCUMENT is None, reason="../shared/seeds is not beside this checkout")


class Case(NamedTuple):
    """One program: where it stands, and what must come of it."""

    first: str
    last: str
    expected: object
    """The value, or a mapping that the envelope's error must contain."""
    after: str = ""
    """A heading the program stands behind, where its first line occurs more than once."""
    config: dict[str, object] | None = None


def text() -> str:
    assert DOCUMENT is not None
    return DOCUMENT.read_text(encoding="utf-8")


def program(case: Case) -> str:
    lines = text().split("\n")
    start = next(index for index, line in enumerate(lines) if case.after in line) if case.after else 0
    first = next(index for index in range(start, len(lines)) if lines[index].strip().startswith(case.first))
    # A closing bracket must be the whole line: the program's own, not one inside it.
    is_short = len(case.last) < 4
    last = next(
        index
        for index in range(first, len(lines))
        if (lines[index] == case.last if is_short else lines[index].strip().startswith(case.last))
    )
    return "\n".join(lines[first : last + 1])


class Tools:
    """The tools the document's programs call."""

    def __init__(self) -> None:
        self.attempts = 0

    def __call__(self, name: str, arguments: dict[str, Any]) -> Any:
        users = [
            {"id": f"id-{n}", "email": f"u{n}@example.com", "role": "admin" if n % 2 else "user", "name": f"User {n}"}
            for n in range(1, 5)
        ]
        match name:
            case "users:list":
                return {"users": users, "length": 4}
            case "users:get":
                if arguments["id"] in ("invalid", "maybe-invalid", "id-3"):
                    raise ToolCallError("User not found", tool_name=name, code="NOT_FOUND")
                return {"id": arguments["id"]}
            case "users:listIds":
                return ["id-1", "id-2"]
            case "api:fetch":
                self.attempts += 1
                if self.attempts < 3:
                    raise ToolCallError("try later", tool_name=name, code="UNAVAILABLE")
                return {"attempts": self.attempts}
            case "cache:get":
                raise ToolCallError("miss", tool_name=name, code="NOT_FOUND")
            case _:
                return {"tool": name, "input": arguments}


DESCRIBED = [
    "users:list", "users:get", "users:listIds", "users:getBatch", "orders:list", "analytics:getMetrics",
    "api:fetch", "cache:get", "db:query", "code:run",
]  # fmt: skip
FIVE = [{"id": f"user-{n}"} for n in range(1, 6)]
BLOCKED = {"code": "VALIDATION_ERROR"}

CASES = [
    Case("// Basic call", "const users", None),
    Case("// With error handling option", "}", {"error": "User not found"}, after="// With error handling option"),
    Case("const meta = getTool", "console.log(meta.inputSchema)", None),
    Case("// Access context", "const userId", None),
    Case("// Access context", "codecallContext.tenantId = 'other'", {"name": "TypeError"}),
    Case("// Fetch multiple users in parallel", "return users;", FIVE),
    Case("// If any operation fails", "}", None, after="// If any operation fails"),
    Case("// Batch fetching", ");", None),
    Case("// Parallel aggregation", "]);", None),
    Case("// Default: throws on error", "const users", None),
    Case("// Safe pattern", "}", {"error": "User not found", "fallback": "default-user"}, after="Basic Pattern"),
    Case("async function retryTool", "const data = await retryTool", None),
    Case(
        "// Try primary", "return users;", {"tool": "db:query", "input": {"table": "users"}}, after="Fallback Pattern"
    ),
    Case(
        "// Process items, collect",
        "};",
        {
            "users": [{"id": "id-1"}, {"id": "id-2"}, {"id": "id-4"}],
            "errors": [{"id": "id-3", "error": "User not found"}],
            "successRate": 0.75,
        },
        after="Partial Success Pattern",
    ),
    Case("eval('code');", "eval('code');", BLOCKED),
    Case("require('module');", "require('module');", BLOCKED),
    Case("setTimeout(fn, 100);", "setTimeout(fn, 100);", BLOCKED),
    Case("await callTool('code:run'", "await callTool('code:run'", {"tool": "code:run", "input": {"script": "code"}}),
    Case("return 1 + 1;", "return 1 + 1;", 2),
    Case("const data = await callTool('users:list', {});", "return data.users.length;", 4, after="should call tools"),
    Case("eval('1 + 1');", "eval('1 + 1');", BLOCKED),
    Case("await callTool('codecall:execute'", "await callTool('codecall:execute'", {"code": "SELF_REFERENCE_BLOCKED"}),
    Case(
        "let i = 0;",
        "return i;",
        {"code": "ITERATION_LIMIT", "message": "Loop exceeded the iteration limit of 1000"},
        config={"maxIterations": 1000},
    ),
]


async def run(enclave: Enclave, script: str, config: dict[str, object]) -> ExecutionResult:
    handler: Callable[[str, dict[str, Any]], Any] = Tools()
    tools = [{"name": name, "description": name, "inputSchema": {"type": "object"}} for name in DESCRIBED]
    return await enclave.execute(
        script, tool_handler=handler, tools=tools, context={"tenantId": "t1", "userId": "u1"}, config=config
    )


@pytest.mark.parametrize("case", CASES, ids=[f"{case.first[:40]}" for case in CASES])
async def test_program(enclave: Enclave, case: Case) -> None:
    result = await run(enclave, program(case), case.config or {})
    if isinstance(case.expected, dict) and ({"code", "name"} & case.expected.keys()):
        assert result.error is not None, result.value
        error = result.error.as_dict()
        assert case.expected == {key: error.get(key) for key in case.expected}
    else:
        assert result.error is None, result.error and result.error.as_dict()
        assert result.value == case.expected


async def test_the_script_inside_the_json_example(enclave: Enclave) -> None:
    match = re.search(r'"script": "(const users = .*)"\n', text())
    assert match is not None
    script = match[1].encode().decode("unicode_escape")
    result = await run(enclave, script, {})
    assert result.value == {"adminCount": 2, "admins": ["u1@example.com", "u3@example.com"]}


async def test_the_script_of_the_integration_example(enclave: Enclave) -> None:
    script = program(Case("const users = await callTool('users:list', {});", "return users.map", None))
    result = await enclave.execute(script, tool_handler=lambda name, _: [{"name": "Alice"}, {"name": "Bob"}])
    assert result.value == ["Alice", "Bob"]


async def test_the_loop_that_logs(enclave: Enclave) -> None:
    script = program(
        Case("const users = await callTool('users:list', { limit: 10 });", "}", None, after="// In script")
    )
    result = await enclave.execute(script, tool_handler=lambda name, _: [{"id": 1, "email": "a@b.c"}])
    assert result.logs == ("Fetched users: 1", "Processing: 1 a@b.c")
