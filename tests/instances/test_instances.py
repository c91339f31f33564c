"""Several instances behind one address: what they share, and what becomes of tasks when one of them dies."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from fastmcp import Client
from fastmcp_tasks import call_tool_task
from mcp.shared.exceptions import MCPError
from redis.asyncio import Redis

from examples.production import client as example
from tests.instances.balancer import balanced
from tests.instances.conftest import AUDIENCE, ISSUER, Instances

HALF_WAY = """
for (const n of [1, 2, 3]) await callTool('append_log', { text: `before ${n}` });
await callTool('pass_gate', {});
await callTool('append_log', { text: 'after' });
return 'done';
"""


async def run_script(client: Client[Any], script: str, **options: Any) -> dict[str, Any]:
    """The envelope of a script."""
    answer = await client.call_tool("codecall:execute", {"script": script, **options})
    assert answer.structured_content is not None
    return answer.structured_content


async def test_the_client_of_the_example_asks_both(
    instances: Instances, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ISSUER", ISSUER)
    monkeypatch.setenv("AUDIENCE", AUDIENCE)
    example.make_keys()
    (tmp_path / "private.pem").write_text(instances.keys.private_key.get_secret_value())
    (tmp_path / "public.pem").write_text(instances.keys.public_key)
    urls = [f"http://127.0.0.1:{port}/mcp" for port in instances.ports]
    await example.main(urls)
    assert capsys.readouterr().out.splitlines() == [f"{url} ok 50500" for url in urls]
    events: set[str] = set()
    with anyio.fail_after(20):  # no run waits for its record
        while not {"codecall.execute.start", "codecall.execute.complete"} <= events:
            await anyio.lowlevel.checkpoint()
            logs = [audit.read_text() for audit in instances.audits if audit.exists()]
            events = {
                json.loads(line)["event"]
                for text in logs
                for line in text.splitlines(keepends=True)
                if line.endswith("\n")
            }


async def test_what_one_instance_knows_the_other_knows(instances: Instances) -> None:
    one, two = instances.both
    fail = (
        "const first = await callTool('append_log', { text: 'once' }); return [first, await callTool('fail_once', {})]"
    )
    large = "return Array.from({ length: 9000 }, (_, n) => `line ${n}` + '-'.repeat(150))"
    # Not who asked just before: there is a limit on scripts in a second.
    async with instances.client(one.port, "gus") as first, instances.client(two.port, "gus") as second:
        # A run that failed here is resumed there.
        failed = await run_script(first, fail)
        assert failed["error"]["code"] == "TOOL_EXECUTION_ERROR"
        again = await run_script(second, fail, resumeFrom=failed["runId"])
        assert again["result"] == [1, "worked"]
        # A large result that is kept here is read there, by its owner only.
        envelope = await run_script(first, large)
        large_result = envelope.get("largeResult")
        assert large_result, str(envelope)[:2000]
        there = f"const all = await getResult('{large_result['handle']}'); return [all.length, all[8999]]"
        assert (await run_script(second, there))["result"] == [9_000, "line 8999" + "-" * 150]
        (page,) = await second.read_resource(f"{large_result['uri']}/pages/1")
        assert page.text.startswith('["line 0')
        async with instances.client(two.port, "ben") as other:
            assert (await run_script(other, there))["error"]["code"] == "RESULT_NOT_FOUND"
            with pytest.raises(MCPError):
                await other.read_resource(large_result["uri"])


async def test_a_limit_counts_on_both(instances: Instances) -> None:
    async with balanced(instances.ports) as port, instances.client(port, "fay") as client:
        ends = [await run_script(client, "return await callTool('whoami', {})") for _ in range(5)]
    assert [end["status"] for end in ends] == ["ok"] * 4 + ["tool_error"]
    assert ends[-1]["error"]["code"] == "RATE_LIMIT"
    assert {end["result"] for end in ends[:-1]} == {instance.pid for instance in instances.both}


async def test_a_task_sees_what_its_caller_may_wherever_it_runs(instances: Instances) -> None:
    script = "return getTool('see_secrets') !== undefined"
    async with balanced(instances.ports) as port:
        for subject, scopes in {"cat": ["admin"], "dan": []}.items():
            async with instances.client(port, subject, *scopes, tasks=True) as client:
                task = await call_tool_task(client, "codecall:execute", {"script": script})
                with anyio.fail_after(30):
                    result = await task.result()
                assert result.structured_content["result"] == (subject == "cat")


async def test_a_task_whose_process_is_killed_is_ended_by_another_and_repeats_nothing(instances: Instances) -> None:
    redis = Redis.from_url(instances.redis.url, decode_responses=True)
    async with (
        redis,
        balanced(instances.ports) as port,
        instances.client(port, "eve", tasks=True) as client,
    ):
        with anyio.fail_after(60):
            await redis.delete("log")
            task = await call_tool_task(client, "codecall:execute", {"script": HALF_WAY})
            _, first = await redis.blpop(["at the gate"])
            next(instance for instance in instances.both if instance.pid == int(first)).kill()
            _, second = await redis.blpop(["at the gate"])
            await redis.rpush("open", 1)
            result = await task.result()
        log = await redis.lrange("log", 0, -1)
    envelope = result.structured_content
    assert envelope["result"] == "done"
    assert first != second
    assert log == [*(f"{first} before {n}" for n in (1, 2, 3)), f"{second} after"]
    assert envelope["resumed"]["from"] == envelope["runId"]
    assert [call["toolName"] for call in envelope["resumed"]["calls"]] == ["append_log"] * 3
