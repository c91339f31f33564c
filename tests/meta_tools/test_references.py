"""References in scripts that a client sends, to tools of a FastMCP server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Self

import pytest
from fastmcp import Client, FastMCP
from fastmcp.exceptions import ToolError
from key_value.aio.stores.memory import MemoryStore

from codecall import CodeCallPlugin

ROWS = [{"id": number, "text": "x" * 1_000} for number in range(1_500)]
"""1.5 MB as JSON."""

ASK = "{ reference: true }"


class Reports:
    """One tool gives rows, two take them; CodeCall for scripts with engines of 4 MiB, which take 1 MiB as one value."""

    def __init__(self, options: dict[str, Any] | None = None, **limits: Any) -> None:
        self.server = FastMCP("reports")
        self.received: list[Any] = []
        self.server.tool(self.rows, name="reports:rows")
        self.server.tool(self.take, name="reports:take")
        self.server.tool(self.text, name="reports:text")
        self.server.resource("reports://{name}", mime_type="application/json")(self.read)
        vm = {"preset": "secure", "memory_mb": 4, "max_result_bytes": 4096} | limits
        pool = {"min_workers": 0, "max_workers": 1}
        CodeCallPlugin.init(vm=vm, pool=pool, **options or {}).install(self.server)

    def rows(self) -> list[dict[str, Any]]:
        """All rows."""
        return ROWS

    def take(self, rows: list[dict[str, Any]], note: str = "") -> int:
        """How many rows there are."""
        self.received.append(rows)
        if note == "fail" and len(self.received) == 2:
            raise ToolError("not now")
        return len(rows)

    def text(self, body: str) -> int:
        """How long a text is."""
        self.received.append(body)
        return len(body)

    def read(self, name: str) -> str:
        """Rows as text."""
        return f'{{"name": "{name}", "rows": [{", ".join(["1"] * 2_000)}]}}'

    async def run(self, script: str, **arguments: Any) -> dict[str, Any]:
        """The envelope of a script."""
        answer = await self.client.call_tool("codecall:execute", {"script": script, **arguments})
        assert isinstance(answer.structured_content, dict)
        return answer.structured_content

    async def __aenter__(self) -> Self:
        self.client = await Client(self.server).__aenter__()
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.client.__aexit__(None, None, None)


@pytest.fixture(scope="module")
async def server() -> AsyncIterator[Reports]:
    """One for all tests that need no other limits."""
    async with Reports() as shared:
        yield shared


@pytest.fixture
def reports(server: Reports) -> Reports:
    """The same, whose tools have not been called."""
    server.received.clear()
    return server


async def test_a_value_too_large_for_the_engine_gets_to_another_tool(reports: Reports) -> None:
    plain = await reports.run("return (await callTool('reports:rows')).length")
    assert plain["error"]["code"] == "MESSAGE_TOO_LARGE"
    assert "{reference: true}" in plain["error"]["hint"]
    script = f"""
    const rows = await callTool('reports:rows', {{}}, {ASK});
    const first = await callTool('reports:take', {{ rows }});
    return [first, await tools.reports.take({{ rows, note: rows.type }}), rows.length];
    """
    passed = await reports.run(script)
    assert passed["result"] == [1_500] * 3, passed
    assert reports.received == [ROWS, ROWS]


async def test_the_tool_checks_the_value(reports: Reports) -> None:
    script = f"return callTool('reports:text', {{ body: await callTool('reports:rows', {{}}, {ASK}) }})"
    refused = await reports.run(script)
    assert refused["error"]["code"] == "INVALID_INPUT"
    assert refused["calls"][1]["input"].startswith('{"body":{"$reference":"ref_')
    assert reports.received == []


async def test_too_large_even_so() -> None:
    async with Reports(reference_max_bytes=1_200_000) as reports:
        for options, limit in (("{}", 1_048_576), (ASK, 1_200_000)):
            failed = await reports.run(f"return callTool('reports:rows', {{}}, {options})")
            assert failed["error"]["code"] == "MESSAGE_TOO_LARGE"
            assert failed["error"]["details"]["maxBytes"] == limit
            assert "reference: true" not in failed["error"]["hint"]


async def test_resources_go_by_reference_too(reports: Reports) -> None:
    script = f"""
    const read = await readResource('reports://a', {ASK});
    const failed = await callTool('reports:text', {{ body: read }}, {{ throwOnError: false }});
    return [read.type, failed.error.code];
    """
    assert (await reports.run(script))["result"] == ["object", "INVALID_INPUT"]


async def test_a_result_is_put_away_when_its_values_are_large() -> None:
    async with Reports(memory_mb=64) as reports:
        envelope = await reports.run(f"return {{ rows: await callTool('reports:rows', {{}}, {ASK}) }}")
        large = envelope["largeResult"]
        assert large["bytes"] > 1_000_000
        assert large["preview"].startswith('{"rows":[{"id":0,"text":"xxx')
        again = await reports.run(
            f"const rows = await getResult('{large['handle']}', {{ at: 'rows', from: 5, count: 2 }}); return rows"
        )
        assert again["result"] == ROWS[5:7]
        passed = await reports.run(
            f"const r = await getResult('{large['handle']}', {{ at: 'rows' }}, {ASK}); "
            "return callTool('reports:take', { rows: r, note: r.type })"
        )
        assert passed["result"] == 1_500, passed


async def test_a_run_is_taken_up_though_its_tokens_are_others() -> None:
    script = f"""
    const rows = await callTool('reports:rows', {{}}, {ASK});
    const first = await callTool('reports:take', {{ rows }});
    return [first, await callTool('reports:take', {{ rows, note: 'fail' }}), rows.length];
    """
    async with Reports({"resume": {"store": MemoryStore()}}, memory_mb=64) as reports:
        failed = await reports.run(script)
        assert [call["outcome"] for call in failed["calls"]] == ["ok", "ok", "error"], failed
        again = await reports.run(script, resumeFrom=failed["runId"])
        assert again["result"] == [1_500] * 3
    # The second call was not made again, and the third had the rows that the first gave in the run before.
    assert reports.received == [ROWS] * 3
