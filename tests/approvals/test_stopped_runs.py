"""A run that stops because a call waits in the operator's folder goes on when the same request comes again: what has
been allowed is made once."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from fastmcp import Client
from fastmcp.exceptions import ToolError
from key_value.aio.stores.memory import MemoryStore
from mcp_types import ToolAnnotations

from codecall.approvals.folder import ApprovalFolder
from codecall.resume import stopped_runs
from tests.approvals.conftest import Answer, Office, run

pytestmark = pytest.mark.anyio

TWO = "const number = await callTool('read', {}); await send({to: 'ann'}); await send({to: 'ben'}); return number"
BOTH = "return Promise.all(['ann', 'ben'].map(to => send({to})))"

COMPOSITE = """
name: letters
description: Send two letters.
parameters: {}
steps:
  - {id: first, tool: send, arguments: {to: ann}}
  - {id: second, tool: send, arguments: {to: ben}, dependsOn: [first]}
"""


class Folder(ApprovalFolder):
    """The operator's folder."""

    def allow(self, *to: str) -> None:
        """Allow the waiting calls that send to these, or all."""
        for call in self.pending():
            if not to or call["input"]["to"] in to:
                assert self.decide(call["id"], "once")


@asynccontextmanager
async def office(path: Path, **options: Any) -> AsyncGenerator[tuple[Office, Folder, Client[Any]]]:
    folder = path / "desk"
    served = Office({"rules": "writes", "folder": str(folder)}, **options)
    async with served.client() as client:
        yield served, Folder(folder), client


def error_of(answer: Answer) -> str:
    return answer["error"]["code"]


def records_of(served: Office) -> tuple[int, int]:
    """How many runs can be gone on with, and how many have a record in memory."""
    runs = served.plugin.asking.stopped_runs()
    return len(runs._runs), len(runs._records._runs)  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize("resume", [None, {"store": MemoryStore()}], ids=["in memory", "in a store"])
async def test_each_allowed_call_is_made_once(tmp_path: Path, resume: Any):
    async with office(tmp_path, resume=resume) as (served, folder, client):
        assert error_of(await run(client, TWO)) == "APPROVAL_REQUIRED"
        folder.allow()
        second = await run(client, TWO)
        assert error_of(second) == "APPROVAL_REQUIRED"
        assert "calls that have completed are not made again" in second["error"]["hint"]
        folder.allow()
        third = await run(client, TWO)
        assert third["result"] == "letter 1"
        assert [call["toolName"] for call in third["resumed"]["calls"]] == ["read", "send"]
        assert served.done == ["read 1", "send ann", "send ben"]
        assert records_of(served) == (0, 0)
        # The run has ended: the next one begins anew.
        assert error_of(await run(client, TWO)) == "APPROVAL_REQUIRED"
        assert served.done[3:] == ["read 1"]


async def test_all_calls_that_wait_are_decided_at_once(tmp_path: Path):
    async with office(tmp_path) as (served, folder, client):
        first = await run(client, BOTH)
        ids = [call["id"] for call in folder.pending()]
        assert len(ids) == len(first["error"]["details"]["calls"]) == 2
        assert all(call_id in first["error"]["hint"] for call_id in ids)
        assert "may have taken effect" not in first["error"]["hint"]
        # The other one is asked for, too, or the run ends before.
        assert all(call["outcome"] == "not_started" or "code" in call for call in first["calls"])
        folder.allow()
        assert (await run(client, BOTH))["result"] == ["sent to ann", "sent to ben"]
        assert sorted(served.done) == ["send ann", "send ben"]


async def test_a_call_that_stops_the_run_while_the_script_has_its_turn(tmp_path: Path):
    """The script has then an answer, and waits for the other call, which has ended without one."""
    async with office(tmp_path) as (_, folder, client):
        for number in range(30):
            script = BOTH.replace("ben", f"ben {number}")
            assert error_of(await run(client, script)) == "APPROVAL_REQUIRED"
            for call in folder.pending():
                if call["input"]["to"] == "ann":
                    assert folder.decide(call["id"], "session")
            assert error_of(await run(client, script)) == "APPROVAL_REQUIRED"


async def test_a_call_under_way_ends_before_the_run_stops(tmp_path: Path):
    """It has been allowed and takes effect: given up, it would be made, and asked for, again."""
    async with office(tmp_path) as (served, folder, client):

        async def slow(to: str) -> str:
            """Send a letter slowly: when the other call waits for the operator."""
            while not folder.pending():  # noqa: ASYNC110 - files set no event
                await anyio.sleep(0.001)
            served.done.append(f"slow {to}")
            return to

        served.server.tool(slow)
        script = "return Promise.all(['ann', 'ben'].map(to => slow({to})))"
        assert error_of(await run(client, script)) == "APPROVAL_REQUIRED"
        folder.allow("ann")
        for file in (tmp_path / "desk" / "pending").iterdir():
            file.unlink()
        stopped_run = await run(client, script)
        assert error_of(stopped_run) == "APPROVAL_REQUIRED"
        assert [call["outcome"] for call in stopped_run["calls"]] == ["ok", "error"]
        folder.allow()
        # Now nothing waits, and the tool would wait for ever.
        (tmp_path / "desk" / "pending" / "call_aaaaaaaaaaaaaaaaaaaa.json").write_text("{}", encoding="utf-8")
        (tmp_path / "desk" / "pending" / "call_aaaaaaaaaaaaaaaaaaaa.json").chmod(0o600)
        assert (await run(client, script))["result"] == ["ann", "ben"]
        assert served.done == ["slow ann", "slow ben"]


async def test_steps_of_a_composite_tool_are_made_once(tmp_path: Path):
    (tmp_path / "letters.yaml").write_text(COMPOSITE, encoding="utf-8")
    async with office(tmp_path, composite_tools=[str(tmp_path / "letters.yaml")]) as (served, folder, client):
        for script in ("return letters({})", None):
            served.done.clear()
            answers: list[Any] = []
            for _ in range(3):
                call = ("codecall:execute", {"script": script}) if script else ("letters", {})
                answers.append(await client.call_tool(*call, raise_on_error=False))
                folder.allow()
            assert served.done == ["send ann", "send ben"]
            assert "sent to ben" in str(answers[-1].content)


LETTERS_SCRIPT = """
/*
---
name: letters
description: Send two letters.
parameters: {}
allowedTools: [send]
---
*/
await send({to: 'ann'})
return await send({to: 'ben'})
"""


@pytest.mark.parametrize("kind", ["steps", "script"])
@pytest.mark.parametrize(
    "script",
    [
        "const number = await read({}); return [number, await letters({})]",
        "const number = await read({}); await send({to: 'cy'}); return [number, await letters({})]",
        "const number = await read({}); return [number, await Promise.all([send({to: 'cy'}), letters({})])]",
        "const number = await read({}); try { await letters({}) } catch (e) { await read({number: 7}) } return number",
        "const number = await read({}); await callTool('letters', {}, {throwOnError: false}); return number",
    ],
)
async def test_calls_beside_a_composite_tool_are_made_once(tmp_path: Path, script: str, kind: str):
    file = tmp_path / ("letters.yaml" if kind == "steps" else "letters.js")
    file.write_text(COMPOSITE if kind == "steps" else LETTERS_SCRIPT, encoding="utf-8")
    async with office(tmp_path, composite_tools=[str(file)]) as (served, folder, client):
        for _ in range(6):
            answer = await run(client, script)
            if answer["status"] == "ok":
                break
            assert error_of(answer) == "APPROVAL_REQUIRED"
            assert folder.pending()
            folder.allow()
        assert "letter 1" in str(answer["result"])
        assert answer["resumed"]["calls"][0]["toolName"] == "read"
        assert sorted(served.done) == sorted(["read 1", "send ann", "send ben", *["send cy"] * ("cy" in script)])
        assert records_of(served) == (0, 0)


async def test_only_the_same_request_of_the_same_caller_goes_on(tmp_path: Path):
    async with office(tmp_path) as (served, folder, client), served.client() as other:
        assert error_of(await run(client, TWO)) == "APPROVAL_REQUIRED"
        folder.allow()
        assert error_of(await run(other, TWO)) == "APPROVAL_REQUIRED"
        assert error_of(await run(client, f"{TWO};")) == "APPROVAL_REQUIRED"
        assert error_of(await run(client, TWO, context={"a": 1})) == "APPROVAL_REQUIRED"
        assert error_of(await run(client, TWO, allowedTools=["*"])) == "APPROVAL_REQUIRED"
        assert served.done.count("read 1") == 5
        assert "resumed" not in await run(client, TWO, dryRun=True)


async def test_a_run_that_went_on_and_failed_goes_on_again(tmp_path: Path):
    """What was allowed is made, and not asked for again."""
    script = "await send({to: 'ann'}); throw new Error('no')"
    async with office(tmp_path) as (served, folder, client):
        assert error_of(await run(client, script)) == "APPROVAL_REQUIRED"
        folder.allow()
        failed = [await run(client, script) for _ in range(3)]
        assert [each["status"] for each in failed] == ["runtime_error"] * 3
        assert served.done == ["send ann"]


async def stop(client: Client[Any], folder: Folder, *, number: int = 0) -> str:
    """A script with one call that completes and one that waits, which has been sent."""
    script = f"await read({{number: {number}}}); return send({{to: 'ann {number}'}})"
    assert error_of(await run(client, script)) == "APPROVAL_REQUIRED"
    folder.allow()
    return script


REPEATED = "its record is gone"


def warns(answer: Answer) -> bool:
    return any(REPEATED in warning for warning in answer.get("warnings", ()))


async def test_no_caller_takes_the_room_of_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Who sends more than they may loses their own, and is told."""
    monkeypatch.setattr(stopped_runs, "MAX_RUNS_OF_CALLER", 3)
    async with office(tmp_path) as (served, folder, client), served.client() as other:
        script = await stop(client, folder)
        theirs = [await stop(other, folder, number=number) for number in range(1, 6)]
        assert records_of(served) == (4, 4)
        assert (await run(client, script))["result"] == "sent to ann 0"
        answers = [await run(other, each) for each in theirs]
        assert [warns(answer) for answer in answers] == [True, True, False, False, False]
        assert [answer["status"] for answer in answers] == ["ok"] * 5
        assert [served.done.count(f"read {number}") for number in range(6)] == [1, 2, 2, 1, 1, 1]
        assert records_of(served) == (0, 0)


@pytest.mark.parametrize(("limit", "value"), [("MAX_RUNS", 2), ("MAX_BYTES", 10_000)])
async def test_the_caller_with_the_most_loses_the_oldest(
    tmp_path: Path, limit: str, value: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(stopped_runs, limit, value)
    async with office(tmp_path) as (served, folder, client), served.client() as other:
        script = await stop(client, folder)
        theirs = [await stop(other, folder, number=number) for number in (1, 2)]
        assert records_of(served) == (2, 2)
        answers = [await run(client, script), await run(other, theirs[0]), await run(other, theirs[1])]
        assert [warns(answer) for answer in answers] == [False, True, False]


async def test_records_count_the_memory_that_they_take() -> None:
    records = stopped_runs.StoppedRuns()._records  # pyright: ignore[reportPrivateUsage]
    await records.put("a.0.1", {"value": "x" * 1_000})
    await records.put("b.0.1", {"value": "x" * 1_000 + "😀"})
    assert records.size_of("b") - records.size_of("a") > 3_000


async def test_what_is_under_way_is_bounded_and_costs_nobody_their_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    async with office(tmp_path) as (_, folder, client):
        script = await stop(client, folder)
        monkeypatch.setattr(stopped_runs, "MAX_RUNNING_BYTES", 0)
        unrecorded = await run(client, TWO)
        assert error_of(unrecorded) == "APPROVAL_REQUIRED"
        assert [warning for warning in unrecorded["warnings"] if "makes calls again" in warning]
        monkeypatch.undo()
        assert (await run(client, script))["result"] == "sent to ann 0"


async def test_a_record_ends_and_is_not_renewed_by_asking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    now = 0.0
    monkeypatch.setattr(stopped_runs, "monotonic", lambda: now)
    async with office(tmp_path) as (served, folder, client):
        assert error_of(await run(client, TWO)) == "APPROVAL_REQUIRED"
        now = stopped_runs.TTL_S - 1
        assert error_of(await run(client, TWO)) == "APPROVAL_REQUIRED"
        assert served.done == ["read 1"]
        now = stopped_runs.TTL_S + 1
        assert warns(await run(client, TWO))
        assert served.done == ["read 1", "read 1"]
        folder.allow("ann")
        assert error_of(await run(client, TWO)) == "APPROVAL_REQUIRED"
        # What has been made since counts from then.
        now = 2 * stopped_runs.TTL_S
        folder.allow("ben")
        assert (await run(client, TWO))["result"] == "letter 1"
        assert served.done == ["read 1", "read 1", "send ann", "send ben"]


async def test_a_client_that_gives_up_while_a_run_goes_on_makes_nothing_twice(tmp_path: Path):
    async with office(tmp_path) as (served, folder, client):
        began, end = anyio.Event(), anyio.Event()

        async def slow() -> str:
            """Take long."""
            began.set()
            await end.wait()
            return "slow"

        served.server.tool(slow, annotations=ToolAnnotations(read_only_hint=True))
        script = "await send({to: 'ann'}); await slow({}); return send({to: 'ben'})"
        assert error_of(await run(client, script)) == "APPROVAL_REQUIRED"
        folder.allow()
        async with anyio.create_task_group() as group:
            group.start_soon(run, client, script)
            await began.wait()
            group.cancel_scope.cancel()
        end.set()
        assert error_of(await run(client, script)) == "APPROVAL_REQUIRED"
        folder.allow()
        assert (await run(client, script))["result"] == "sent to ben"
        assert served.done == ["send ann", "send ben"]


async def test_equal_requests_at_once_go_on_one_after_the_other(tmp_path: Path):
    script = "await read({}); return send({to: 'ann'})"
    async with office(tmp_path) as (served, folder, client):
        assert error_of(await run(client, script)) == "APPROVAL_REQUIRED"
        folder.allow()
        answers: list[Answer] = []

        async def again() -> None:
            answers.append(await run(client, script))

        async with anyio.create_task_group() as group:
            for _ in range(5):
                group.start_soon(again)
        assert sorted(answer["status"] for answer in answers) == ["ok", *["tool_error"] * 4]
        # The first has ended the run that stopped, and the others, which have waited for it, begin another one.
        assert served.done == ["read 1", "send ann", *["read 1"] * 4]
        folder.allow()
        assert (await run(client, script))["status"] == "ok"
        assert served.done == ["read 1", "send ann", *["read 1"] * 4, "send ann"]
        assert records_of(served) == (0, 0)


async def test_a_request_that_is_refused_or_given_up_holds_no_later_one_up(tmp_path: Path):
    async with office(tmp_path, resume={"store": MemoryStore()}) as (served, folder, client):
        assert error_of(await run(client, TWO)) == "APPROVAL_REQUIRED"
        folder.allow()
        with pytest.raises(ToolError, match="there is no run"):
            await run(client, TWO, resumeFrom=f"run_{'a' * 32}")
        assert error_of(await run(client, TWO)) == "APPROVAL_REQUIRED"
        folder.allow()
        assert (await run(client, TWO))["result"] == "letter 1"
        assert served.done == ["read 1", "send ann", "send ben"]


async def test_an_equal_request_that_fails_costs_no_record(tmp_path: Path):
    async with office(tmp_path) as (served, folder, client):
        second, stopped_one = anyio.Event(), anyio.Event()
        calls = 0

        async def flaky() -> str:
            """Answer the first call once there is a second, and fail the second once the first run has stopped."""
            nonlocal calls
            calls += 1
            if calls == 1:
                await second.wait()
                return "ok"
            second.set()
            await stopped_one.wait()
            raise ToolError("no")

        served.server.tool(flaky, annotations=ToolAnnotations(read_only_hint=True))
        script = "await read({}); await flaky({}); return send({to: 'ann'})"
        answers: list[str] = []

        async def send() -> None:
            answers.append(error_of(await run(client, script)))
            stopped_one.set()

        async with anyio.create_task_group() as group:
            group.start_soon(send)
            group.start_soon(send)
        assert sorted(answers) == ["APPROVAL_REQUIRED", "TOOL_EXECUTION_ERROR"]
        folder.allow()
        answer = await run(client, script)
        assert answer["result"] == "sent to ann"
        assert [call["toolName"] for call in answer["resumed"]["calls"]] == ["read", "flaky"]


async def test_what_is_made_again_is_said_even_after_a_request_that_was_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    now = 0.0
    monkeypatch.setattr(stopped_runs, "monotonic", lambda: now)
    async with office(tmp_path) as (served, folder, client):
        script = "await read({}); await hold({}); return send({to: 'ann'})"
        began, end = anyio.Event(), anyio.Event()
        end.set()

        async def hold() -> str:
            """Wait."""
            began.set()
            await end.wait()
            return "held"

        served.server.tool(hold, annotations=ToolAnnotations(read_only_hint=True))
        assert error_of(await run(client, script)) == "APPROVAL_REQUIRED"
        folder.allow()
        now = stopped_runs.TTL_S + 1
        began, end = anyio.Event(), anyio.Event()
        async with anyio.create_task_group() as group:
            group.start_soon(run, client, script)
            await began.wait()
            group.cancel_scope.cancel()
        end.set()
        assert warns(await run(client, script))


async def test_what_cannot_be_kept_is_said_to_be_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    async with office(tmp_path) as (served, _, client):
        runs = served.plugin.asking.stopped_runs()
        small = runs._options.model_copy(update={"max_caller_chars": 700})  # pyright: ignore[reportPrivateUsage]
        monkeypatch.setattr(runs, "_options", small)
        script = f"await read({{}}); {TWO}"
        first = await run(client, script)
        assert error_of(first) == "APPROVAL_REQUIRED"
        assert [warning for warning in first["warnings"] if "makes calls again" in warning and "'read'" in warning]
        assert records_of(served) == (0, 0)
        assert "warnings" not in await run(client, "await read({}); await read({}); throw new Error('no')")


async def test_a_run_that_ends_well_leaves_no_record(tmp_path: Path):
    async with office(tmp_path) as (served, _, client):
        assert (await run(client, "return read({})"))["result"] == "letter 1"
        assert (await run(client, "await read({}); throw new Error('no')"))["status"] == "runtime_error"
        assert records_of(served) == (0, 0)
