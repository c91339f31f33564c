"""Several instances behind one address: what they share, and what becomes of tasks when one of them dies."""

from __future__ import annotations

from typing import Any

import anyio
from fastmcp import Client
from fastmcp_tasks import call_tool_task
from redis.asyncio import Redis

from tests.instances.balancer import balanced
from tests.instances.conftest import Instances

HALF_WAY = """
for (const n of [1, 2, 3]) await callTool('append_log', { text: `before ${n}` });
await callTool('pass_gate', {});
await callTool('append_log', { text: 'after' });
return 'done';
"""


async def ran(client: Client[Any], script: str, **options: Any) -> dict[str, Any]:
    """The envelope of a script."""
    answer = await client.call_tool("codecall:execute", {"script": script, **options})
    assert answer.structured_content is not None
    return answer.structured_content


async def test_a_task_whose_process_is_killed_is_ended_by_another_and_repeats_nothing(instances: Instances) -> None:
    redis = Redis.from_url(instances.redis.url, decode_responses=True)
    async with (
        redis,
        balanced([instance.port for instance in instances.both]) as port,
        instances.client(port) as client,
    ):
        with anyio.fail_after(60):
            task = await call_tool_task(client, "codecall:execute", {"script": HALF_WAY})
            _, first = await redis.blpop(["at the gate"])
            print(first)
            next(instance for instance in instances.both if instance.pid == int(first)).kill()
            _, second = await redis.blpop(["at the gate"])
            print(second)
            await redis.rpush("open", 1)
            result = await task.result()
        print(result.structured_content)
        log = await redis.lrange("log", 0, -1)
        assert log == [*(f"{first} before {n}" for n in (1, 2, 3)), f"{second} after"]
    assert result.structured_content["result"] == "done"
    assert first != second
