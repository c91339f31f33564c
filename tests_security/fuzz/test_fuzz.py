"""The fuzz targets. `make fuzz` runs them for `FUZZ_MINUTES` (30); see `campaigns.py` for what else can be set.

    language   guard, engine and realm on generated programs, in processes of their own    agreement.py
    realm      hostile programs through a whole enclave, with secrets around them           seams.py
    wire       a taken-over worker in a real worker's place                                 frames.py, peer.py

Programs come from a grammar that knows the language, so that nearly all of them get past the guard; a run guided by
coverage (atheris) was left out: the engine is native code that it cannot see into, and the guard is the smaller half.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from codecall.envelopes import ExecutionResult
from codecall.errors import Status
from codecall.sandbox import wire
from codecall.sandbox.enclave import Enclave
from codecall.sandbox.host import process
from tests_security.attacking import Canaries, attacked
from tests_security.fuzz.agreement import DisagreementError, examine
from tests_security.fuzz.campaigns import Campaign, Finding
from tests_security.fuzz.choices import Choices
from tests_security.fuzz.engines import new_engine
from tests_security.fuzz.frames import fine, plan
from tests_security.fuzz.programs import hostile_program, program
from tests_security.fuzz.seams import FOUND, HEAD, hostile_script

pytestmark = pytest.mark.fuzz

Make = Callable[[str], Campaign]
PEER = Path(__file__).parent / "peer.py"
AT_ONCE = max(2, os.cpu_count() or 2)
SIZES = (40, 80, 150, 300, 600)

# ---------------------------------------------------------------------------------------------------------------------
# language


def wrong_with_program(script: str, engine: Any = None) -> tuple[str | None, str]:
    """What is wrong with how a program is taken, and how it ended."""
    try:
        verdict = examine(script, engine=engine)
    except DisagreementError as disagreement:
        return str(disagreement), "disagreed"
    except Exception as crash:
        return f"{type(crash).__name__}: {crash}", "crashed"
    if not verdict.accepted:
        return None, "refused"
    return None, "accepted, not compiled" if verdict.ending is None else f"ended with {verdict.ending.sort}"


def examine_for(seed: str, seconds: float) -> tuple[Counter[str], list[tuple[str, str]]]:
    """Examine programs for some seconds: how many ended how, and what is wrong with which."""
    rng, counts, wrong = random.Random(seed), Counter[str](), list[tuple[str, str]]()
    until, engine = time.monotonic() + seconds, new_engine()
    while time.monotonic() < until and len(wrong) < 20:
        data = rng.randbytes(rng.choice(SIZES))
        script = (hostile_program if rng.random() < 0.6 else program)(Choices(data))
        what, ending = wrong_with_program(script, engine)
        counts["programs"] += 1
        counts["accepted"] += what is None and ending != "refused"
        counts[ending] += 1
        if what is not None:
            wrong.append((what, script))
        if counts["programs"] % 500 == 0:
            engine = new_engine()
    return counts, wrong


async def test_language(campaign: Make):
    run = campaign("language")

    async def again(script: str) -> str | None:
        return wrong_with_program(script)[0]

    loop, batch = asyncio.get_running_loop(), 0
    with ProcessPoolExecutor(AT_ONCE, mp_context=get_context("spawn")) as processes:
        while run.left > 0:
            seconds = min(15.0, run.left)
            batches = [
                loop.run_in_executor(processes, examine_for, f"{run.seed}/{batch + number}", seconds)
                for number in range(AT_ONCE)
            ]
            batch += AT_ONCE
            for counts, wrong in await asyncio.gather(*batches):
                run.counts.update(counts)
                for what, script in wrong:
                    await run.found(Finding(what, script, run.seed), again)
    assert run.counts["accepted"] > run.counts["programs"] / 2, run.report()
    run.check()


# ---------------------------------------------------------------------------------------------------------------------
# realm

# A script may end in any of the documented ways but in these: they say that the worker fell over
UNWANTED = {
    "WORKER_CRASHED",
    "WORKER_STARTUP_FAILED",
    "MESSAGE_INVALID",
    "MESSAGE_FLOOD",
    "POOL_DISPOSED",
    "QUEUE_FULL",
}


def wrong_with_result(result: ExecutionResult) -> str | None:
    """What is wrong with how a run ended, whatever ran."""
    if result.status not in get_args(Status):
        return f"status {result.status!r}"
    try:
        text = json.dumps(result.envelope(), allow_nan=False)
        text.encode()
    except (TypeError, ValueError) as error:
        return f"the envelope is not JSON: {error}"
    if (result.error is None) != (result.status == "ok"):
        return "the status does not fit the error"
    return None


async def wrong_with_script(enclave: Enclave, script: str, canaries: Canaries) -> tuple[str | None, str]:
    """What is wrong with how a hostile script ended, and how that was."""
    try:
        async with asyncio.timeout(20):
            result = await attacked(enclave, script, canaries)
    except Exception as crash:
        return f"{type(crash).__name__}: {crash}", "crashed"
    code = result.error.code if result.error is not None else "ok"
    what = wrong_with_result(result)
    if code in UNWANTED:
        what = f"{code}: {result.error}"
    if leaked := canaries.leaked(result):
        what = f"the secret of {leaked} leaked"
    if FOUND in json.dumps(result.envelope()):
        what = f"a way out: {[line for line in json.dumps(result.envelope()).split(chr(34)) if FOUND in line][:2]}"
    return what, code


async def test_realm(campaign: Make, canaries: Canaries):
    run = campaign("realm")
    limits = {"timeout_ms": 1_500, "memory_mb": 32, "max_duration_ms": 5_000, "max_tool_calls": 40}
    async with Enclave(preset="balanced", pool={"max_workers": AT_ONCE}, **limits) as enclave:

        async def again(script: str) -> str | None:
            return (await wrong_with_script(enclave, HEAD + script, canaries))[0]

        async def lane(number: int) -> None:
            rng = run.random(number)
            while run.left > 0:
                script = hostile_script(Choices(rng.randbytes(rng.choice(SIZES))))
                what, code = await wrong_with_script(enclave, HEAD + script, canaries)
                run.counts["programs"] += 1
                run.counts["accepted"] += code not in {"SYNTAX_ERROR", "VALIDATION_ERROR"}
                run.counts[f"ended {code}"] += 1
                if what is not None:
                    await run.found(Finding(what, script, run.seed), again)

        await asyncio.gather(*(lane(number) for number in range(AT_ONCE)))
        assert (await enclave.execute("return 1")).value == 1
    assert run.counts["accepted"] > run.counts["programs"] / 2, run.report()
    run.check()


# ---------------------------------------------------------------------------------------------------------------------
# wire


def as_script(chunks: list[bytes]) -> str:
    """The script that tells the peer to write `chunks`."""
    return f"PLAN:{','.join(chunk.hex() for chunk in chunks)}:END callTool"


async def wrong_with_plan(enclave: Enclave, script: str) -> tuple[str | None, str]:
    """What is wrong with how the host takes what a worker writes."""
    called: list[tuple[object, object]] = []

    def handler(name: str, arguments: dict[str, Any]) -> Any:
        called.append((name, arguments))
        return {"called": name}

    began = time.monotonic()
    try:
        async with asyncio.timeout(10):
            result = await enclave.execute(script, tool_handler=handler, allowed_tools=["echo", "a"])
    except Exception as crash:
        return f"{type(crash).__name__}: {crash}", "crashed"
    code = result.error.code if result.error is not None else "ok"
    what = wrong_with_result(result)
    if any(name not in ("echo", "a") or not isinstance(arguments, dict) for name, arguments in called):
        what = f"a tool was called that may not be: {called[:3]}"
    if time.monotonic() - began > 5:
        what = f"it took {time.monotonic() - began:.1f} s"
    return what, code


def wrong_with_decoding(chunks: list[bytes]) -> str | None:
    """What is wrong with how frames are decoded: anything but a message, or the one refusal."""
    for chunk in chunks:
        try:
            wire.decode_worker_message(chunk[wire.HEADER.size :])
        except (wire.InvalidMessage, RecursionError):
            continue
        except Exception as crash:
            return f"decoding: {type(crash).__name__}: {crash}"
    return None


async def test_wire(campaign: Make, monkeypatch: pytest.MonkeyPatch):
    run = campaign("wire")
    ready = msgspec.msgpack.encode(wire.Ready(layers=[]))
    monkeypatch.setattr(process, "WORKER_COMMAND", (sys.executable, "-I", "-S", str(PEER), ready.hex()))
    pool = {"fork_server": False, "max_workers": AT_ONCE, "startup_timeout_ms": 5_000}
    limits = {"timeout_ms": 200, "max_duration_ms": 1_000, "tool_call_timeout_ms": 500}
    async with Enclave(preset="balanced", pool=pool, **limits) as enclave:

        async def again(script: str) -> str | None:
            return (await wrong_with_plan(enclave, script))[0]

        async def lane(number: int) -> None:
            rng = run.random(number)
            while run.left > 0:
                chunks = plan(Choices(rng.randbytes(rng.choice(SIZES))))
                for _ in range(20):
                    others = plan(Choices(rng.randbytes(60)))
                    run.counts["frames decoded"] += len(others)
                    if (what := wrong_with_decoding(others)) is not None:
                        run.findings.setdefault(what, Finding(what, as_script(others), run.seed))
                script = as_script(chunks)
                what, code = await wrong_with_plan(enclave, script)
                run.counts["plans"] += 1
                run.counts[f"ended {code}"] += 1
                if what is not None:
                    await run.found(Finding(what, script, run.seed), again)

        await asyncio.gather(*(lane(number) for number in range(AT_ONCE)))
        result = await enclave.execute(as_script(fine()))
        assert result.value == 1, result.error
    run.check()
