"""What the server holds for a script: few calls at once, few bytes, and nothing once the worker has gone."""

from __future__ import annotations

import os
import signal
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from codecall.sandbox import wire
from codecall.sandbox.enclave import Enclave
from codecall.sandbox.host import dispatch, pipe
from tests_security.wire.conftest import ReplaceWorker
from tests_security.wire.hostile import PLAIN

MANY = """
const all = await Promise.all(Array.from({ length: 90 }, (_, n) => callTool("echo", { n, text: "i".repeat(500) })));
return all.map((answer) => answer.n);
"""


@pytest.mark.parametrize("answer", [10, 700], ids=["short answers", "long answers"])
async def test_budgets_change_nothing_but_the_order(monkeypatch: pytest.MonkeyPatch, answer: int) -> None:
    monkeypatch.setattr(dispatch, "MAX_BUFFERED_BYTES", 2000)
    monkeypatch.setattr(dispatch, "ANSWERS_BUDGET", 1500)
    frames: list[int] = []
    send = pipe.WorkerPipe.send

    async def sending(self: pipe.WorkerPipe, message: wire.ServerMessage) -> None:
        if isinstance(message, wire.Answers):
            frames.append(sum(len(answer.payload) for answer in message.answers))
        await send(self, message)

    monkeypatch.setattr(pipe.WorkerPipe, "send", sending)
    now = most = 0

    async def echo(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await anyio.lowlevel.checkpoint()
        now -= 1
        return {"n": arguments["n"], "text": "o" * answer}

    async with Enclave("secure", pool={"max_workers": 1}) as enclave:
        result = await enclave.execute(MANY, tool_handler=echo)
    assert result.value == list(range(90)), result
    assert 1 < most <= dispatch.MAX_CALLS_IN_FLIGHT
    assert max(frames) <= max(1500, answer + 50)


async def test_answers_that_do_not_fit_into_one_frame(replace_worker: ReplaceWorker) -> None:
    """Seven answers of 12 MB each, to a worker that takes them: several turns rather than MESSAGE_TOO_LARGE."""
    replace_worker(
        "begin(); calls(*[[i + 1, 'big', '{}'] for i in range(7)]); turns = 0; n = 0\n"
        "while n < 84000000: n += len(receive()); turns += 1; (calls() if n < 84000000 else None)\n"
        "done(value=str(turns))"
    )
    text = "x" * 12_000_000
    async with Enclave("secure", pool=PLAIN) as enclave:
        result = await enclave.execute("return 1", tool_handler=lambda name, arguments: text)
    assert isinstance(result.value, int), result
    assert result.value >= 3


GOING = {
    "one call": "begin(); calls([1, 'a', '{}']); receive()",
    "two calls": "begin(); calls([1, 'a', '{}'], [2, 'a', '{}']); receive()",
}
DURING = {
    "killed": (signal.SIGKILL, "WORKER_CRASHED"),
    "asked to end": (signal.SIGTERM, "EXECUTION_ABORTED"),
    "closed": (None, "POOL_DISPOSED"),
}


@pytest.mark.parametrize("during", DURING)
@pytest.mark.parametrize("program", GOING)
async def test_calls_end_with_their_worker(replace_worker: ReplaceWorker, program: str, during: str) -> None:
    replace_worker(GOING[program])
    number, code = DURING[during]
    called, cancelled = anyio.Event(), 0

    async def never(name: str, arguments: dict[str, Any]) -> None:
        nonlocal cancelled
        called.set()
        try:
            await anyio.sleep_forever()
        finally:
            cancelled += 1

    async with Enclave("secure", pool=PLAIN) as enclave, anyio.create_task_group() as group:

        async def end() -> None:
            await called.wait()
            if number is None:
                await enclave.aclose()
            else:
                os.kill(enclave.pool.pids()[0], number)

        group.start_soon(end)
        with anyio.fail_after(60):
            result = await enclave.execute("return 1", tool_handler=never)
    assert result.error is not None
    assert result.error.code == code
    assert cancelled == 1 + (program == "two calls")


@pytest.mark.parametrize("program", GOING)
async def test_speech_during_a_call_ends_it(replace_worker: ReplaceWorker, program: str) -> None:
    replace_worker(GOING[program].removesuffix("receive()") + "time.sleep(0.1); ask('a'); wait()")
    with anyio.fail_after(10):
        async with Enclave("secure", pool=PLAIN) as enclave:
            result = await enclave.execute("return 1", tool_handler=_never)
    assert result.error is not None
    assert result.error.code == "MESSAGE_INVALID"


async def _never(name: str, arguments: dict[str, Any]) -> None:
    await anyio.sleep_forever()
