"""Names, inputs, texts and errors of absurd size or form, from scripts and from tools."""

from __future__ import annotations

import os
from typing import Any

import anyio
import pytest

from codecall.errors import ToolCallError
from codecall.sandbox.enclave import Enclave


@pytest.mark.parametrize("length", [257, 1_000_000, 80_000_000])
async def test_a_tool_name_of_any_length(enclave: Enclave, length: int):
    script = f"try {{ await callTool('x'.repeat({length})) }} catch (e) {{ return e.message.slice(0, 60) }}"
    result = await enclave.execute(script, tool_handler=lambda name, arguments: 1, config={"memory_mb": 256})
    assert result.value == "callTool needs a tool name of at most 256 characters"
    lookup = await enclave.execute(f"return getTool('x'.repeat({length})) === undefined", config={"memory_mb": 256})
    assert lookup.value is True


async def test_an_input_beyond_the_limit(enclave: Enclave):
    script = "try { await callTool('x', {s: Array(20).fill('a'.repeat(99999))}) } catch (e) { return e.message }"
    result = await enclave.execute(script, tool_handler=lambda name, arguments: 1)
    assert "has 2000" in str(result.value)
    assert "one input may have 1048576" in str(result.value)


async def test_many_large_inputs_at_once(enclave: Enclave):
    script = """
    const block = 'a'.repeat(99999);
    const all = await Promise.all(Array.from({length: 100}, () => callTool('x', {s: Array(9).fill(block)})));
    return all.length;
    """
    result = await enclave.execute(script, tool_handler=lambda name, arguments: 1, config={"memory_mb": 512})
    assert result.value == 100, result.error


class OddError(Exception):
    """An error whose text is not valid Unicode, as names of files can be."""


async def test_text_that_is_not_unicode(enclave: Enclave):
    def handler(name: str, arguments: dict[str, Any]) -> Any:
        raise OddError(os.fsdecode(b"no such file: x\x80.txt"))

    result = await enclave.execute("return await callTool('x')", tool_handler=handler)
    assert isinstance(result.error, ToolCallError)
    both = "return (await Promise.allSettled([callTool('x'), callTool('x')])).map(r => r.status)"
    assert (await enclave.execute(both, tool_handler=handler)).value == ["rejected", "rejected"]

    def surrogate(name: str, arguments: dict[str, Any]) -> Any:
        return "\ud800"

    assert isinstance((await enclave.execute("return callTool('x')", tool_handler=surrogate)).error, ToolCallError)


SECRET = "-".join(["not", "for", "logs"])


class BrokenBroker:
    """A broker that breaks its promise to raise named errors only."""

    async def prepare(self) -> None:
        raise KeyError(SECRET)

    async def call(self, name: str, arguments: dict[str, object], *, max_bytes: int | None = None) -> str:
        raise KeyError(SECRET)

    async def read(self, uri: str, *, max_bytes: int | None = None) -> str:
        raise KeyError(SECRET)

    async def prompt(self, name: str, arguments: dict[str, object], *, max_bytes: int | None = None) -> str:
        raise KeyError(SECRET)

    async def describe(self, name: str) -> dict[str, object] | None:
        raise KeyError(SECRET)


@pytest.mark.parametrize(
    "script",
    [
        "return callTool('a')",
        "return Promise.all([callTool('a'), callTool('b')])",
        "const n = 'a'; getTool(n)",
        "return readResource('data://a')",
        "return Promise.all([getPrompt('a'), readResource('b')])",
    ],
)
async def test_unexpected_errors_are_named_and_tell_nothing(
    enclave: Enclave, script: str, caplog: pytest.LogCaptureFixture
):
    result = await enclave.run(script, BrokenBroker())
    assert isinstance(result.error, ToolCallError)
    assert SECRET not in result.error.message
    assert SECRET not in caplog.text
    assert "KeyError" in caplog.text


async def test_error_texts_are_cleaned_before_a_script_sees_them(enclave: Enclave):
    def handler(name: str, arguments: dict[str, Any]) -> Any:
        raise ValueError("cannot open /srv/secret/db.sqlite with password=hunter2")

    caught = await enclave.execute("try { await callTool('a') } catch (e) { return e.message }", tool_handler=handler)
    unawaited = await enclave.execute("callTool('a'); return 1", tool_handler=handler)
    for text in (str(caught.value), *unawaited.warnings):
        assert "hunter2" not in text
        assert "/srv/secret" not in text


async def test_a_huge_error_text_is_bounded(enclave: Enclave):
    def handler(name: str, arguments: dict[str, Any]) -> Any:
        raise ValueError("x" * 12_000_000)

    script = "return (await Promise.allSettled(Array.from({length: 50}, () => callTool('a')))).length"
    assert (await enclave.execute(script, tool_handler=handler)).value == 50


async def test_answering_a_question_is_not_the_scripts_time():
    class Slow:
        async def prepare(self) -> None:
            pass

        async def call(self, name: str, arguments: dict[str, object], *, max_bytes: int | None = None) -> str:
            return "1"

        async def describe(self, name: str) -> dict[str, object] | None:
            await anyio.sleep(0.15)
            return {"name": name}

    async with Enclave("secure", timeout_ms=200) as enclave:
        result = await enclave.run("return ['a', 'b', 'c'].map((n) => getTool(n).name)", Slow())
    assert result.value == ["a", "b", "c"]


async def test_a_synchronous_tool_cannot_outlast_the_run():
    release = anyio.Event()

    def blocking(name: str, arguments: dict[str, Any]) -> None:
        anyio.from_thread.run(release.wait)

    async with Enclave("secure", max_duration_ms=300) as enclave:
        with anyio.fail_after(60):
            result = await enclave.execute("return await callTool('a')", tool_handler=blocking)
        release.set()
    assert result.error is not None
    assert result.error.code == "TIMEOUT"
