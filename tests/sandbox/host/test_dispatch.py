"""What a script gives to its calls, and what is said of them when it fails."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from codecall.envelopes import CallRecord
from codecall.errors import CallKind, CodeCallError
from codecall.sandbox import wire
from codecall.sandbox.enclave import Enclave
from codecall.sandbox.host import dispatch
from codecall.sandbox.host.dispatch import MAX_NAMES, MAX_SUMMARY, CallLog


def started(log: CallLog, number: int, called: CallKind, name: str) -> CallRecord:
    log.add(wire.Call(number, name, "{}", called))
    call = log.calls[number]
    call.start()
    return call


def test_nothing_to_tell() -> None:
    assert CallLog().summary() == ""
    log = CallLog()
    started(log, 1, "tool", "a").end("INVALID_INPUT")
    assert log.summary(except_call=1) == ""


def test_each_outcome_is_told_with_its_names() -> None:
    log = CallLog()
    for number, name in enumerate(["users:list", "orders:get", "orders:get"], start=1):
        started(log, number, "tool", name).end()
    started(log, 4, "resource", "data://a").end("TOOL_TIMEOUT")
    running = started(log, 5, "tool", "slow")
    assert running.started is not None
    running.started -= 2.5
    started(log, 6, "tool", "send").is_gated = True
    for number in (7, 8):
        log.add(wire.Call(number, "late", "{}"))
    summary = log.summary()
    assert summary == (
        "3 tool calls had completed and are not undone: users:list, 2 of orders:get; "
        "1 tool call had failed: data://a (TOOL_TIMEOUT); "
        "1 tool call was still running and may have taken effect: slow for 2.5 s; "
        "1 tool call was not made and must be allowed, too: send; 2 tool calls were never started."
    )


def test_a_summary_is_bounded_and_says_how_many_more() -> None:
    log = CallLog()
    for number in range(1, 41):
        started(log, number, "tool", f"tool {number}").end()
    assert f"tool {MAX_NAMES} and {40 - MAX_NAMES} more names." in log.summary()
    for number in range(41, 900):
        started(log, number, "tool", f"{number} {'n' * 300}")
    summary = log.summary()
    assert len(summary) == MAX_SUMMARY
    assert summary.endswith("…")


def one(name: str, value: dict[str, Any]) -> int:
    return 1


async def fails(enclave: Enclave, script: str, handler: Any, **config: Any) -> CodeCallError:
    result = await enclave.execute(script, tool_handler=handler, config=config)
    assert result.error is not None
    return result.error


async def test_a_script_that_fails_after_calls_says_which(enclave: Enclave) -> None:
    script = "await callTool('a'); await callTool('b'); await callTool('b'); throw new Error('x')"
    error = await fails(enclave, script, one)
    assert error.hint
    assert error.hint.endswith("3 tool calls had completed and are not undone: a, 2 of b.")


async def test_the_limit_of_calls_says_how_far_it_came(enclave: Enclave) -> None:
    error = await fails(enclave, "for (const id of [1, 2, 3]) await callTool('a', { id })", one, max_tool_calls=2)
    assert (error.code, error.message) == ("TOOL_CALL_LIMIT", "Script exceeded the limit of 2 tool calls")
    assert error.hint
    assert error.hint.endswith("2 tool calls had completed and are not undone: 2 of a.")
    assert error.location == (1, 35)


async def test_the_total_duration_says_what_was_running() -> None:
    async def handler(name: str, value: dict[str, Any]) -> int:
        if name == "slow":
            await anyio.sleep_forever()
        return 1

    async with Enclave("secure", max_duration_ms=300) as enclave:
        error = await fails(enclave, "await callTool('a'); await callTool('slow')", handler)
    assert error.message == "Script exceeded the total duration limit of 300ms"
    assert error.hint is not None
    assert "1 tool call had completed and is not undone: a; 1 tool call was still running" in error.hint
    assert "may have taken effect: slow for 0." in error.hint


async def test_a_script_that_fails_while_calls_are_pending_says_so(enclave: Enclave) -> None:
    started = anyio.Event()

    async def handler(name: str, value: dict[str, Any]) -> int:
        if name == "slow":
            started.set()
            await anyio.sleep_forever()
        await started.wait()
        return 1

    error = await fails(enclave, "callTool('slow'); await callTool('a'); throw new Error('x')", handler)
    assert error.hint is not None
    assert "1 tool call was still running and may have taken effect: slow for" in error.hint


async def test_a_failed_call_is_not_told_twice(enclave: Enclave) -> None:
    def handler(name: str, value: dict[str, Any]) -> int:
        if name == "bad":
            raise ValueError("no")
        return 1

    error = await fails(enclave, "await callTool('a'); await callTool('bad')", handler)
    assert error.hint
    assert error.hint.endswith("1 tool call had completed and is not undone: a.")
    error = await fails(enclave, "try { await callTool('bad') } catch {} throw new Error('x')", handler)
    assert error.hint
    assert error.hint.endswith("1 tool call had failed: bad (TOOL_EXECUTION_ERROR).")
    both = "const [one] = await Promise.allSettled([callTool('bad'), callTool('bad')]); throw one.reason"
    error = await fails(enclave, both, handler)
    assert error.hint
    assert error.hint.endswith("1 tool call had failed, too: bad (TOOL_EXECUTION_ERROR).")


@pytest.mark.parametrize(
    ("script", "reported"),
    [
        ("return await Promise.all([1, 2, 3].map((id) => callTool('get', { id })))", 2),
        ("return [1, 2, 3].map((id) => callTool('get', { id }))", 2),
        ("return await Promise.all([1, 2, 3].map(async (id) => { return await callTool('get', { id }) }))", 2),
        # What the script has looked at itself, and calls of different places, is told as it came.
        ("try { await Promise.all([1, 2, 3].map((id) => callTool('get', { id }))) } catch (e) { throw e }", 3),
        ("return await Promise.all([callTool('get', { id: 2 }), callTool('get', { id: 3 })])", 3),
    ],
)
async def test_of_calls_side_by_side_the_first_that_failed_is_reported(
    script: str, reported: int, enclave: Enclave, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatch, "EARLIER_S", 60)
    failing = anyio.Event()

    async def handler(name: str, value: dict[str, Any]) -> int:
        if value["id"] == 3:
            failing.set()
            raise ValueError("no 3")
        if value["id"] == 2:
            await failing.wait()
            raise ValueError("no 2")
        return 1

    error = await fails(enclave, script, handler)
    assert error.hint is not None
    assert f', with {{"id":{reported}}}.' in error.hint
    assert "1 tool call had failed, too: get (TOOL_EXECUTION_ERROR)." in error.hint


async def test_of_a_long_input_whole_members_are_named(enclave: Enclave) -> None:
    script = "await callTool('a', { id: 1, text: 'x'.repeat(200) }); await callTool('a', { key: 'x'.repeat(200) })"

    def handler(name: str, value: dict[str, Any]) -> int:
        raise ValueError("no")

    assert "It was call" not in ((await fails(enclave, script, handler)).hint or "")
    caught = script.replace("; await", ".catch(() => 1); await")
    assert "It was call 2 of 2, with {…." in ((await fails(enclave, caught, handler)).hint or "")
    swapped = caught.replace("{ key", "{ id: 7, key")
    assert 'It was call 2 of 2, with {"id":7….' in ((await fails(enclave, swapped, handler)).hint or "")


@pytest.mark.parametrize("script", ["return 1 +", "while (true) {}", "null.x"])
async def test_a_script_without_calls_says_nothing_of_them(script: str, enclave: Enclave) -> None:
    error = await fails(enclave, script, None)
    assert error.hint
    assert "tool call" not in error.hint


EDIT = """
const file = await callTool('read', {});
const text = file.text.replaceAll('old', 'new');
await callTool('write', { text, lines: [...file.lines, -1] });
return [text.length, file.lines.length];
"""


async def test_what_is_read_is_edited_and_written_back_whole(enclave: Enclave) -> None:
    """150,000 characters in one text and 12,000 items in one list: more than a console line would show."""
    file = {"text": "old " * 37_500, "lines": list(range(12_000))}
    written: list[dict[str, Any]] = []

    def handler(name: str, value: dict[str, Any]) -> Any:
        return file if name == "read" else written.append(value)

    result = await enclave.execute(EDIT, tool_handler=handler)
    assert result.value == [150_000, 12_000], result.error
    assert written == [{"text": "new " * 37_500, "lines": [*range(12_000), -1]}]


@pytest.mark.parametrize(("text", "size"), [("'x'.repeat(995)", 1_006), ("'é'.repeat(498)", 1_007)])
async def test_an_input_that_is_too_large_fails_its_call_alone(text: str, size: int, enclave: Enclave) -> None:
    called: list[str] = []

    def handler(name: str, value: dict[str, Any]) -> int:
        called.append(name)
        return len(value.get("text", ""))

    async def run(script: str) -> Any:
        return await enclave.execute(script, tool_handler=handler, config={"max_tool_input_bytes": 1_000})

    message = f"'a' was not called: its input has {size} bytes; one input may have 1000"
    told = (await run(f"return callTool('a', {{ text: {text} }}, {{ throwOnError: false }})")).value
    assert told["success"] is False
    assert (told["error"]["code"], told["error"]["message"]) == ("MESSAGE_TOO_LARGE", message)
    assert told["error"]["details"] == {"bytes": size, "maxBytes": 1_000}
    caught = f"try {{ await callTool('a', {{ text: {text} }}) }} catch (error) {{ return [error.name, error.code] }}"
    assert (await run(caught)).value == ["ToolError", "MESSAGE_TOO_LARGE"]
    both = f"const a = {text}; await callTool('a', {{ text: a.slice(0, 494) }}); return callTool('a', {{ text: a }})"
    ended = await run(both)
    assert ended.error is not None
    assert (ended.status, ended.error.code, ended.error.message) == ("tool_error", "MESSAGE_TOO_LARGE", message)
    assert ended.error.hint is not None
    assert ended.error.hint.startswith("Split the input over several calls.")
    assert called == ["a"]


async def test_an_input_may_have_exactly_the_size_of_the_preset(enclave: Enclave) -> None:
    script = "return callTool('a', { text: 'é'.repeat(494) })"
    config = {"max_tool_input_bytes": 999, "max_result_bytes": 64}
    result = await enclave.execute(script, tool_handler=lambda _, value: len(value["text"]), config=config)
    assert result.value == 494
