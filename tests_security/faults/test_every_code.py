"""Every error code of the contract, produced by making the real thing happen: a real server, client, worker, signal."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import typing
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import mcp_types
import pytest
from fastmcp import Client, Context, FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.server.extensions import ServerExtension

from codecall import ApprovalRequest, CodeCallPlugin, Decision, RateLimitPlugin, errors
from codecall.cli.exit_codes import BY_CODE, COMMAND_CODES
from codecall.envelopes import ExecutionResult
from codecall.errors import (
    CodeCallError,
    LimitCode,
    OptionsError,
    ServerTimeoutError,
    ServerUnavailableError,
    ToolCallError,
)
from codecall.sandbox.enclave import Enclave
from codecall.sandbox.host import process
from tests_security.wire.hostile import PLAIN, command

Made = Awaitable[ExecutionResult]
ONE = {"max_workers": 1, "min_workers": 0}


class Tasks(ServerExtension):
    """Answers the call of `export` with a handle, as the tasks extension does."""

    identifier = "io.modelcontextprotocol/tasks"

    async def intercept_tool_call(self, params: Any, context: Any, call_next: Any) -> Any:
        if params.name == "export":
            now = "2026-07-28T00:00:00Z"
            task = mcp_types.Task(task_id="t-1", status="working", created_at=now, last_updated_at=now, ttl=None)
            return mcp_types.CreateTaskResult(task=task)
        return await call_next()


@pytest.fixture(scope="module")
async def client() -> AsyncIterator[Client[Any]]:
    """A client of a server whose tools fail in every way."""
    mcp = FastMCP("faults")

    @mcp.tool
    def double(number: int) -> int:
        return 2 * number

    @mcp.tool
    def fail() -> None:
        raise ToolError("it failed")

    @mcp.tool
    def behind(slow: bool) -> None:
        # As the gateway's tools do (codecall/gateway/tools/components.py).
        kind = ServerTimeoutError if slow else ServerUnavailableError
        raise ToolError("it is down") from kind("it is down", tool_name="git")

    @mcp.tool
    async def never() -> None:
        await anyio.sleep_forever()

    @mcp.tool
    async def ask(ctx: Context) -> str:
        answer: Any = await ctx.elicit("Who?", str)
        return answer.data

    @mcp.tool
    def export() -> str:
        return "never"

    @mcp.tool
    def big() -> str:
        return "x" * (20 << 20)

    mcp.add_extension(Tasks())
    RateLimitPlugin.init(rules=[{"tool": "double", "limit": 5, "window": "1h"}]).install(mcp)
    CodeCallPlugin.init(vm={"preset": "secure", "tool_call_timeout_ms": 200}, pool=ONE).install(mcp)
    async with Client(mcp) as client:
        yield client


SERVED: list[tuple[str, str, dict[str, Any]]] = [
    ("SYNTAX_ERROR", "return (", {}),
    ("VALIDATION_ERROR", "return eval('1')", {}),
    ("SELF_REFERENCE_BLOCKED", "return callTool('codecall:execute', {})", {}),
    ("SELF_REFERENCE_BLOCKED", "return callTool(['codecall', 'execute'].join(':'), {})", {}),
    ("TOOL_NOT_FOUND", "return callTool('dubble', {})", {}),
    ("RESOURCE_NOT_FOUND", "return readResource('data://nothing')", {}),
    ("PROMPT_NOT_FOUND", "return getPrompt('nothing')", {}),
    ("EXTRACTION_FAILED", "return extract('one', 'number')", {}),
    ("RESULT_NOT_FOUND", "return getResult('nothing')", {}),
    ("ACCESS_DENIED", "return callTool('double', {number: 1})", {"allowedTools": ["fail"]}),
    ("ACCESS_DENIED", "return readResource('data://nothing')", {"allowedTools": ["fail"]}),
    ("INVALID_INPUT", "return callTool('double', {number: 'one'})", {}),
    ("TOOL_EXECUTION_ERROR", "return callTool('fail', {})", {}),
    ("TOOL_TIMEOUT", "return callTool('never', {})", {}),
    ("INPUT_REQUIRED", "return callTool('ask', {})", {}),
    ("TASK_STARTED", "return callTool('export', {})", {}),
    ("SERVER_UNAVAILABLE", "return callTool('behind', {slow: false})", {}),
    ("SERVER_TIMEOUT", "return callTool('behind', {slow: true})", {}),
    ("RATE_LIMIT", "for (let i = 0; i < 9; i++) await callTool('double', {number: i})", {}),
    ("MESSAGE_TOO_LARGE", "return callTool('big', {})", {}),
    ("EXECUTION_ERROR", "throw new Error('no')", {}),
    ("ITERATION_LIMIT", "for (let i = 0; i < 5001; i++) {}", {}),
    ("OUTPUT_LIMIT", "const text = 'x'.repeat(99000); return Array.from({length: 200}, () => text)", {}),
    ("STACK_OVERFLOW", "const dive = () => 1 + dive(); return dive()", {}),
    ("DEADLOCK", "await new Promise(() => {})", {}),
    ("WORKER_MEMORY_EXCEEDED", "const all = []; for (let i = 0; i < 5000; i++) all.push('x'.repeat(99999) + i)", {}),
    ("TOOL_CALL_LIMIT", "for (let i = 0; i < 101; i++) await callTool('missing', {}, {throwOnError: false})", {}),
]
"""Through a FastMCP server and client: code, script, further arguments."""


async def test_codes_of_approvals() -> None:
    """`read` is denied by a person; nobody can be asked about `write`; `look` may not be given what it has returned."""

    async def approver(request: ApprovalRequest) -> Decision | None:
        return Decision.deny() if request.tool == "read" else None

    mcp = FastMCP("office")
    mcp.tool(lambda: 1, name="read")
    mcp.tool(lambda: 1, name="write")
    mcp.tool(lambda text="": f"something {text}", name="look")
    rules = [{"tools": ["read", "write"], "action": "ask"}]
    flows = [{"from": "look", "to": "look", "action": "deny"}]
    CodeCallPlugin.init(approvals={"rules": rules, "approver": approver}, flows=flows, pool=ONE).install(mcp)
    async with Client(mcp) as client:
        for code, script in APPROVALS.items():
            answer = await client.call_tool("codecall:execute", {"script": script})
            envelope = typing.cast("dict[str, Any]", answer.structured_content)
            assert envelope["error"]["code"] == code, envelope
            assert envelope["status"] == CONTRACT[code]


APPROVALS = {
    "APPROVAL_DENIED": "return callTool('read', {})",
    "APPROVAL_REQUIRED": "return callTool('write', {})",
    "FLOW_DENIED": "return callTool('look', {text: await callTool('look', {text: 'x'.repeat(12)})})",
}
"""The script that ends with each."""


@pytest.mark.parametrize(("code", "script", "arguments"), SERVED, ids=[f"{row[0]}: {row[1]:.30}" for row in SERVED])
async def test_codes_a_client_sees(client: Client[Any], code: str, script: str, arguments: dict[str, Any]) -> None:
    answer = await client.call_tool("codecall:execute", {"script": script} | arguments)
    envelope = typing.cast("dict[str, Any]", answer.structured_content)
    assert envelope["error"]["code"] == code, envelope
    assert envelope["status"] == CONTRACT[code] or code == "MESSAGE_TOO_LARGE"


async def _waiting(enclave: Enclave, gate: anyio.Event) -> tuple[asyncio.Task[ExecutionResult], ...]:
    """Two scripts, of which one runs and one waits."""
    called = anyio.Event()

    async def hold(name: str, arguments: dict[str, Any]) -> int:
        called.set()
        await gate.wait()
        return 1

    first = asyncio.create_task(enclave.execute("return callTool('hold', {})", tool_handler=hold))
    await called.wait()
    second = asyncio.create_task(enclave.execute("return 2"))
    while not enclave.pool.waiting:
        await anyio.lowlevel.checkpoint()
    return first, second


async def queue_full(_: pytest.MonkeyPatch) -> ExecutionResult:
    gate = anyio.Event()
    async with Enclave("secure", pool=ONE | {"max_queue": 1}) as enclave:
        tasks = await _waiting(enclave, gate)
        refused = await enclave.execute("return 3")
        gate.set()
        assert [result.value for result in await asyncio.gather(*tasks)] == [1, 2]
    return refused


async def queue_timeout(_: pytest.MonkeyPatch) -> ExecutionResult:
    gate = anyio.Event()
    async with Enclave("secure", pool=ONE | {"queue_timeout_ms": 50}) as enclave:
        first, second = await _waiting(enclave, gate)
        late = await second
        gate.set()
        assert (await first).value == 1
    return late


async def pool_disposed(_: pytest.MonkeyPatch) -> ExecutionResult:
    enclave = Enclave("secure", pool=ONE)
    first, second = await _waiting(enclave, anyio.Event())
    await enclave.aclose()
    assert (await first).error.code == "POOL_DISPOSED"  # type: ignore[union-attr]
    return await second


async def startup_failed(patch: pytest.MonkeyPatch) -> ExecutionResult:
    patch.setattr(process, "WORKER_COMMAND", ("/nonexistent/python",))
    async with Enclave("secure", pool=PLAIN) as enclave:
        return await enclave.execute("return 1")


def signalled(number: signal.Signals) -> Callable[[pytest.MonkeyPatch], Made]:
    """The worker gets a signal while it waits for a tool, and the script then goes on."""

    async def make(_: pytest.MonkeyPatch) -> ExecutionResult:
        async with Enclave("secure", timeout_ms=200, pool=ONE) as enclave:

            def send(name: str, arguments: dict[str, Any]) -> None:
                os.kill(enclave.pool.pids()[0], number)

            result = await enclave.execute("await callTool('signal', {}); return 1", tool_handler=send)
            assert (await enclave.execute("return 1", config={"timeout_ms": 2000})).value == 1
        return result

    return make


def scripted(script: str, **options: Any) -> Callable[[pytest.MonkeyPatch], Made]:
    """A script under a preset with some values replaced."""

    async def make(_: pytest.MonkeyPatch) -> ExecutionResult:
        async with Enclave("secure", pool=ONE, **options) as enclave:
            return await enclave.execute(script, tool_handler=lambda name, arguments: "x" * (65 << 20))

    return make


def taken_over(program: str) -> Callable[[pytest.MonkeyPatch], Made]:
    """A worker that runs another program."""

    async def make(patch: pytest.MonkeyPatch) -> ExecutionResult:
        patch.setattr(process, "WORKER_COMMAND", command(program))
        async with Enclave("secure", pool=PLAIN) as enclave:
            return await enclave.execute("return 1")

    return make


ASKING = "for (let i = 0; i < 110; i++) for (let j = 0; j < 100; j++) getTool(`tool ${i} ${j}`)"
LOOPING = "for (let i = 0; i < 4000; i++) for (let j = 0; j < 4000; j++) {}"

MADE: dict[str, Callable[[pytest.MonkeyPatch], Made]] = {
    "STEP_LIMIT": scripted("for (let i = 0; i < 99; i++) for (let j = 0; j < 99; j++) {}", max_steps=1000),
    "TIMEOUT": scripted(LOOPING, timeout_ms=20, max_steps=2**31 - 1),
    "WORKER_TIMEOUT": signalled(signal.SIGSTOP),
    "WORKER_CRASHED": signalled(signal.SIGKILL),
    "EXECUTION_ABORTED": signalled(signal.SIGTERM),
    "WORKER_STARTUP_FAILED": startup_failed,
    "POOL_DISPOSED": pool_disposed,
    "QUEUE_FULL": queue_full,
    "QUEUE_TIMEOUT": queue_timeout,
    "MESSAGE_FLOOD": scripted(ASKING, max_iterations=20_000),
    "MESSAGE_INVALID": taken_over("begin(); send({'type': 'nonsense'}); wait()"),
    "MESSAGE_TOO_LARGE": scripted("return callTool('big', {})"),
    "TOO_MANY_PENDING_CALLS": taken_over("begin(); calls(*[[i + 1, 'a', '{}'] for i in range(1001)]); wait()"),
}
"""What happens to the pool and the workers, by code."""


@pytest.mark.parametrize("code", MADE)
async def test_codes_of_the_pool(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with anyio.fail_after(20):
        result = await MADE[code](monkeypatch)
    assert result.error is not None, result
    assert result.error.code == code, result
    assert result.status == CONTRACT[code]
    with pytest.raises(type(result.error)):
        result.raise_for_status()


async def test_the_code_of_a_wrong_option() -> None:
    with pytest.raises(OptionsError) as caught:
        Enclave("secure", timeout=1)
    assert caught.value.code == "INVALID_OPTIONS"


def codes_below(kind: type[CodeCallError]) -> set[str]:
    """The codes of `kind` and what is derived from it."""
    return {kind.code}.union(*(codes_below(derived) for derived in kind.__subclasses__()))


def codes_of_the_tree() -> set[str]:
    """The codes of all error classes, but of those that only group others."""
    codes: set[str] = set(typing.get_args(LimitCode))
    for kind in vars(errors).values():
        if isinstance(kind, type) and issubclass(kind, CodeCallError) and "code" in vars(kind):
            codes.add(kind.code)
    return codes - {CodeCallError.code}


CONTRACT = {
    **dict.fromkeys(codes_of_the_tree(), "runtime_error"),
    **dict.fromkeys(["TIMEOUT", "WORKER_TIMEOUT"], "timeout"),
    "SYNTAX_ERROR": "syntax_error",
    "VALIDATION_ERROR": "illegal_access",
    "SELF_REFERENCE_BLOCKED": "illegal_access",
    **dict.fromkeys(codes_below(ToolCallError), "tool_error"),
}
"""The status each code comes with."""


def test_no_code_is_left_out() -> None:
    # It takes two instances to have a run diverge: tests/approvals/test_handover.py.
    produced = {code for code, _, _ in SERVED} | set(MADE) | set(APPROVALS) | {"INVALID_OPTIONS", "RUN_DIVERGED"}
    assert produced == codes_of_the_tree()


def test_no_code_is_made_up_elsewhere() -> None:
    """Codes stand in errors.py, those of commands with their exit codes; the rest of the package names only those."""
    codes = codes_of_the_tree() | set(errors.FURTHER_CODES) | set(BY_CODE) | set(COMMAND_CODES)
    for path in Path(errors.__file__).parent.rglob("*.py"):
        for code in re.findall(r'\bcode="([A-Z_]{4,})"', path.read_text(encoding="utf-8")):
            assert code in codes | {"TOOL"}, (path, code)
