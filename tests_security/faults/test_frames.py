"""A fault at frame 1, 2, 3 … until none fires: every one ends in a documented code, and the next script runs."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import anyio
import pytest

from codecall.envelopes import ExecutionResult
from codecall.sandbox.enclave import Enclave
from tests_security.faults import relay
from tests_security.faults.relay import Fault, Line, Plan

SCRIPT = """
console.log("begun");
const known = "echo" in tools;
const one = await callTool("echo", { n: 1 });
const [two, three] = await Promise.all([callTool("echo", { n: 2 }), callTool("echo", { n: 3 })]);
const failed = await callTool("fail", {}, { throwOnError: false });
return [known, one.n, two.n, three.n, failed.error.code];
"""
"""Every kind of message, several turns, calls at the same time, a call that fails."""

VALUE = [True, 1, 2, 3, "TOOL_EXECUTION_ERROR"]

MOST_FRAMES = 30
"""More than the script has."""

GONE = {"WORKER_CRASHED", "WORKER_STARTUP_FAILED"}
SILENT = {"WORKER_TIMEOUT", "WORKER_STARTUP_FAILED"}
BROKEN = GONE | {"MESSAGE_INVALID", "MESSAGE_TOO_LARGE"}

FAULTS: list[tuple[Fault, set[str | None]]] = [
    (relay.kill, GONE),
    (relay.terminate, {"EXECUTION_ABORTED", "WORKER_STARTUP_FAILED"}),
    (relay.cut, GONE),
    (relay.stall, SILENT),
    (relay.lose, SILENT),
    (relay.garble, BROKEN),
    (relay.grow, BROKEN),
    # Some bytes may be others: one of a text, say. What is no message any more is refused. An answer that is no JSON
    # any more is too much for the engine, which then cannot say what is wrong with it.
    (relay.flip, BROKEN | SILENT | {None, "SYNTAX_ERROR", "VALIDATION_ERROR", "EXECUTION_ERROR", "STEP_LIMIT",
                                    "TOOL_EXECUTION_ERROR", "OUTPUT_LIMIT", "ITERATION_LIMIT", "TIMEOUT",
                                    "WORKER_MEMORY_EXCEEDED"}),
    # An answer that comes twice is one too many for the engine, which then cannot say what is wrong with it.
    (relay.duplicate, BROKEN | {None, "WORKER_MEMORY_EXCEEDED"}),
    (relay.delay, {None}),
    (relay.split, {None}),
]  # fmt: skip
"""The fault, and the codes it may end in; None is a script that ends well."""


async def tool(name: str, arguments: dict[str, Any]) -> object:
    """`fail` fails, everything else gives back its input."""
    await asyncio.sleep(0)
    if name == "fail":
        raise ValueError("it failed")
    return arguments


def enclave(timeout_ms: int = 300, startup_timeout_ms: int = 1_000) -> Enclave:
    """One worker at a time."""
    pool = {"min_workers": 0, "max_workers": 1, "startup_timeout_ms": startup_timeout_ms}
    return Enclave("secure", timeout_ms=timeout_ms, require_jail=False, pool=pool)


async def run(enclave: Enclave) -> ExecutionResult:
    """The script's result, soon."""
    with anyio.fail_after(10):
        return await enclave.execute(SCRIPT, tool_handler=tool)


async def whole(enclave: Enclave, *, tries: int = 1) -> None:
    """The pool is as good as new."""
    result: ExecutionResult | None = None
    for _ in range(tries):
        with anyio.fail_after(10):
            # A machine with other things to do may take longer than the patience of these tests.
            result = await enclave.execute("return 1", config={"timeout_ms": 2000})
        if result.success:
            break
    assert result is not None
    assert result.value == 1, result
    assert enclave.pool.size <= 1
    assert enclave.pool.waiting == 0


def has_ended(pid: int) -> bool:
    """Whether no such process is left, not even as a zombie."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


AT_ONCE = 4
"""Frames that are spoiled at the same time, each of an enclave of its own: most of the time is spent waiting."""


@pytest.mark.parametrize(("fault", "codes"), FAULTS, ids=[fault.__name__ for fault, _ in FAULTS])
async def test_a_fault_at_every_frame(plan: Plan, fault: Fault, codes: set[str | None]) -> None:
    del plan
    pids: set[int] = set()
    fired: dict[int, bool] = {}

    async def spoil(frame: int) -> None:
        plan = Plan()
        relay.OWN_PLAN.set(plan)
        plan.arm(frame, fault)
        async with enclave() if codes is SILENT else enclave(1_500, 10_000) as tested:
            result = await run(tested)
            pids.update(tested.pool.pids())
            code = result.error and result.error.code
            fired[frame] = plan.fired
            if not plan.fired:
                assert result.value == VALUE, result
                return
            assert code in codes, (frame, result)
            assert result.logs in ((), ("begun",)) or fault is relay.flip
            if code is None and fault is not relay.flip:
                assert result.value == VALUE
            # What the server says twice, an idle worker takes for a script: it ends when the next one comes.
            await whole(tested, tries=2 if fault is relay.duplicate else 1)
            pids.update(tested.pool.pids())

    first = 1
    while all(fired.values()) and first < MOST_FRAMES:
        async with anyio.create_task_group() as group:
            for frame in range(first, first + AT_ONCE):
                group.start_soon(spoil, frame)
        first += AT_ONCE
    # Prepare, Ready, Start, Ask, Described, Calls, Answers, Calls, Answers, Calls, Answers, Done
    frames = sum(fired.values())
    assert 11 < frames < MOST_FRAMES - 2
    assert [fired[frame] for frame in sorted(fired)] == [frame <= frames for frame in sorted(fired)]
    assert all(has_ended(pid) for pid in pids if pid)


def at_frame(act: Any) -> Fault:
    """Has the event loop do something at the frame, and passes it on."""
    loop = asyncio.get_running_loop()

    def fault(line: Line, other: Any, frame: bytes) -> bool:
        del line
        loop.call_soon_threadsafe(act)
        other.sendall(frame)
        return True

    return fault


async def test_the_client_is_cancelled_at_every_frame(plan: Plan) -> None:
    frame = 0
    for frame in range(1, MOST_FRAMES):
        async with enclave() as tested:
            result: ExecutionResult | None = None
            with anyio.CancelScope() as scope:
                plan.arm(frame, at_frame(scope.cancel))
                result = await run(tested)
            assert plan.fired or (result is not None and result.value == VALUE)
            assert scope.cancelled_caught or result is not None
            await whole(tested)
        if not plan.fired:
            break
    assert 12 < frame < MOST_FRAMES - 1


async def test_the_enclave_is_closed_at_every_frame(plan: Plan) -> None:
    frame = 0
    for frame in range(1, MOST_FRAMES):
        closing = anyio.Event()
        tested = enclave()
        plan.arm(frame, at_frame(closing.set))

        async def close(tested: Enclave = tested, closing: anyio.Event = closing) -> None:
            await closing.wait()
            await tested.aclose()

        async with anyio.create_task_group() as group:
            group.start_soon(close)
            result = await run(tested)
            closing.set()
        assert result.value == VALUE or (result.error is not None and result.error.code == "POOL_DISPOSED"), result
        assert not tested.pool.pids()
        after = await tested.execute("return 1")
        assert after.error is not None
        assert after.error.code == "POOL_DISPOSED"
        if not plan.fired:
            break
    assert 12 < frame < MOST_FRAMES - 1


TROUBLES = [
    ValueError("no"),
    TimeoutError(),
    RecursionError("too deep"),
    MemoryError(),
    KeyError("key"),
    StopAsyncIteration(),
    asyncio.CancelledError("of something of its own"),
    ExceptionGroup("several", [ValueError("one"), KeyError("two")]),
    UnicodeDecodeError("utf-8", b"\xff", 0, 1, "no"),
]


@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda trouble: type(trouble).__name__)
async def test_the_tool_raises_at_every_call(plan: Plan, trouble: BaseException) -> None:
    del plan
    async with enclave() as tested:
        for failing in range(1, 6):
            calls = 0

            async def handler(name: str, arguments: dict[str, Any], failing: int = failing) -> object:
                nonlocal calls
                calls += 1
                if calls == failing:
                    raise trouble
                return await tool(name, arguments)

            with anyio.fail_after(10):
                result = await tested.execute(SCRIPT, tool_handler=handler, config={"timeout_ms": 2000})
            if failing > 3:
                assert result.value == VALUE
            else:
                assert result.status == "tool_error", result
                assert result.error is not None
                assert result.error.code == "TOOL_EXECUTION_ERROR"
            await whole(tested)
