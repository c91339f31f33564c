"""A server behind the gateway as it starts, works, idles, fails and ends; with real processes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import sys
from collections import Counter
from pathlib import Path

import pytest

from codecall.errors import ServerTimeoutError, ServerUnavailableError
from codecall.gateway.config.options import AnyServer, HttpServer, OpenApiServer, StdioServer
from codecall.gateway.upstream import listing as pages
from codecall.gateway.upstream import process as processes
from codecall.gateway.upstream import server as backends
from codecall.gateway.upstream import session as sessions
from codecall.gateway.upstream import stdio as pipes
from codecall.gateway.upstream.server import Backend
from tests.gateway.backends import call, calls_in_flight, is_alive, plain_server, wait_until


async def test_a_server_runs_only_while_it_is_used() -> None:
    async with Backend("git", plain_server(idle_s=0.1)) as backend:
        assert backend.health.state == "idle"
        pid = int(await call(backend, "pid"))
        health = backend.health
        assert (health.state, health.pid, health.connections, health.last_error) == ("running", pid, 1, None)
        await wait_until(lambda: not is_alive(pid))
        assert (backend.health.state, backend.health.pid) == ("idle", None)
        assert int(await call(backend, "pid")) != pid
        assert backend.health.restarts == 0


async def test_a_call_under_way_keeps_it() -> None:
    async with Backend("git", plain_server(idle_s=0.05)) as backend:
        assert await call(backend, "sleep", seconds=0.3) == "slept"


async def test_calls_that_come_first_share_one_start() -> None:
    async with Backend("git", plain_server()) as backend:
        pids = await asyncio.gather(*(call(backend, "pid") for _ in range(20)))
        assert len(set(pids)) == 1


async def test_a_caller_that_leaves_does_not_end_the_start_for_others() -> None:
    async with Backend("git", plain_server()) as backend:
        first = asyncio.create_task(call(backend, "pid"))
        second = asyncio.create_task(call(backend, "pid"))
        await wait_until(lambda: backend.health.state == "starting")
        first.cancel()
        assert (await second).isdigit()


async def test_a_start_that_the_end_cuts_short_is_no_failure(caplog: pytest.LogCaptureFixture) -> None:
    async with Backend("git", StdioServer(command="sleep", args=("60",))) as backend:
        starting = asyncio.create_task(call(backend, "pid"))
        await wait_until(lambda: backend.health.state == "starting")
    with pytest.raises(ServerUnavailableError):
        await starting
    assert "failed" not in caplog.text


async def test_a_crash_fails_the_calls_under_way_and_no_other() -> None:
    async with Backend("git", plain_server()) as backend:
        await call(backend, "pid")
        calls = [asyncio.create_task(call(backend, "sleep", seconds=60)) for _ in range(60)]
        await wait_until(lambda: len(calls_in_flight(backend)) == 60)
        with pytest.raises(ServerUnavailableError) as failure:
            await call(backend, "die", code=3)
        others = await asyncio.gather(*calls, return_exceptions=True)
        assert {str(other) for other in others} == {"Server 'git' ended (exit code 3) while the call was under way"}
        assert failure.value.hint is not None
        assert "may have taken effect" in failure.value.hint
        assert backend.health.last_error == "it ended (exit code 3)"
        assert (await call(backend, "pid")).isdigit()
        assert (backend.health.state, backend.health.restarts) == ("running", 1)


async def test_a_killed_server_is_told_by_its_signal_and_the_next_call_works() -> None:
    async with Backend("git", plain_server()) as backend:
        for _ in range(3):
            pid = int(await call(backend, "pid"))
            slow = asyncio.create_task(call(backend, "sleep", seconds=60))
            await wait_until(lambda: calls_in_flight(backend))
            os.kill(pid, 9)
            with pytest.raises(ServerUnavailableError, match=r"killed by SIGKILL"):
                await slow


async def test_a_server_that_does_not_start_is_tried_again_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    mark = tmp_path / "mark"
    async with Backend("git", plain_server("unless", str(mark))) as backend:
        with pytest.raises(ServerUnavailableError, match=r"ended \(exit code 9\) before it answered") as first:
            await call(backend, "pid")
        assert backend.health.state == "backing_off"
        assert first.value.retry_after_ms is not None
        assert 500 < first.value.retry_after_ms <= 1000
        mark.touch()
        with pytest.raises(ServerUnavailableError, match=r"It is tried again in 1 s|in 0\.\d+ s"):
            await call(backend, "pid")
        await wait_until(lambda: backend.health.state == "failed")
        assert (await call(backend, "pid")).isdigit()
    assert "next try in 1 s" in caplog.text


async def test_a_server_that_dies_of_a_question_it_does_not_know_is_started_without_it() -> None:
    async with Backend("git", plain_server("strict")) as backend:
        assert (await call(backend, "pid")).isdigit()
        assert (await backend.fetch_listing()).tools
        assert backend.health.state == "running"


async def test_clients_whose_connections_failed_take_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backends, "MAX_CLIENTS", 2)
    async with Backend("git", plain_server()) as backend:
        for name in ("a", "b"):
            backend._slots[name, "auto"] = backends._Slot(failures=1)
        await backend._ready_connection(("c", "auto"))
        backend._slots["d", "auto"] = backends._Slot(failures=1, not_before=1e12)
        with pytest.raises(ServerUnavailableError, match="has 2 connections, one for each client"):
            await backend._ready_connection(("e", "auto"))


async def test_back_off_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Backend("git", plain_server("exits")) as backend:
        waits: list[int] = []
        for _ in range(9):
            for slot in backend._slots.values():
                slot.not_before = 0
            with pytest.raises(ServerUnavailableError) as failure:
                await call(backend, "pid")
            assert failure.value.retry_after_ms is not None
            waits.append(round(failure.value.retry_after_ms / 1000))
        assert waits == [1, 2, 4, 8, 16, 32, 60, 60, 60]


async def test_what_it_wrote_last_is_for_the_operator(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "codecall.gateway.git"):
        async with Backend("git", plain_server("exits")) as backend:
            with pytest.raises(ServerUnavailableError) as failure:
                await call(backend, "pid")
            assert "hunter2" not in f"{failure.value} {failure.value.hint}"
            assert len(backend.health.stderr) == 1
            assert "hunter2" not in backend.health.stderr[0]
    assert any("cannot start" in record.message for record in caplog.records if record.levelno == logging.DEBUG)


async def test_only_so_much_of_stderr_is_kept() -> None:
    async with Backend("git", plain_server()) as backend:
        await call(backend, "stderr", text="\n".join(f"line {number}" for number in range(500)))
        await call(backend, "stderr", text="x" * 1_000_000)
        await wait_until(lambda: backend.health.stderr[-1:] and backend.health.stderr[-1].startswith("xxx"))
        assert len(backend.health.stderr) == 50
        assert max(map(len, backend.health.stderr)) <= 4096


@pytest.mark.parametrize(
    ("options", "message", "hint"),
    [
        (
            StdioServer(command="no-such-program"),
            "its program was not found",
            "`no-such-program` is not on the PATH; give the whole path.",
        ),
        (
            StdioServer(command="no-such-program --key secret"),
            "its program was not found",
            '`command` is one program, and its arguments stand in `args`: command = "no-such-program", args = […].',
        ),
        (StdioServer(command=sys.executable, cwd="/no/such/folder"), "its folder was not found", "Check its `cwd`."),
        (
            StdioServer(command="/etc/passwd"),
            "its program may not be run",
            "Make it executable, or give another `command`.",
        ),
        (
            StdioServer(command="x", env={"TOKEN": "${CODECALL_NO_SUCH_VARIABLE}"}),
            "CODECALL_NO_SUCH_VARIABLE",
            "Set CODECALL_NO_SUCH_VARIABLE in the environment codecall is started in.",
        ),
        (
            StdioServer(command=sys.executable, args=("-c", "print('ready')")),
            "first request; it wrote what is no MCP to its standard output",
            "Have it print nothing there but MCP: what it logs belongs to its standard error. Or the command is no MCP "
            "server.",
        ),
        (
            HttpServer(url="mcp.example.com/mcp"),
            "its url is no address of HTTP",
            "Write `url` with https:// or http:// before it.",
        ),
        (
            OpenApiServer(openapi="spec.json", base_url="api.example.com"),
            "its base_url is no address of HTTP",
            "Write `base_url` with https:// or http:// before it.",
        ),
        (HttpServer(url="http://127.0.0.1:9/mcp"), "could not be reached", "Is the server up, and the address right?"),
    ],
)
async def test_what_cannot_be_started_is_told(options: AnyServer, message: str, hint: str) -> None:
    async with Backend("git", options) as backend:
        for _ in range(2):
            with pytest.raises(ServerUnavailableError, match=message) as failure:
                await call(backend, "pid")
            assert failure.value.hint == hint


async def test_what_it_was_given_is_not_read_in_what_it_writes(caplog: pytest.LogCaptureFixture) -> None:
    code = "import os, sys; sys.exit(f'no {sys.argv[2]} or {os.environ[\"SHOP\"]} there')"
    server = StdioServer(command=sys.executable, args=("-c", code, "--key", "apple"), env={"SHOP": "melon"})
    with caplog.at_level(logging.DEBUG, "codecall.gateway.git"):
        async with Backend("git", server) as backend:
            with pytest.raises(ServerUnavailableError, match="ended") as failure:
                await call(backend, "pid")
            assert backend.health.stderr == ("no [credential] or [credential] there",)
            assert failure.value.hint == "Call again in 1 s. `codecall doctor` tells what it wrote last."
    assert "melon" not in caplog.text


async def test_nor_in_another_spelling() -> None:
    password = 'mel"on\\4é'
    code = (
        "import json, os, sys; from urllib.parse import quote; p = os.environ['SHOP']\n"
        "sys.exit(f'no {[p]!r}, {json.dumps([p])}, {json.dumps(json.dumps(p))} or {quote(p)}')"
    )
    async with Backend(
        "git", StdioServer(command=sys.executable, args=("-c", code), env={"SHOP": password})
    ) as backend:
        with pytest.raises(ServerUnavailableError, match="ended"):
            await call(backend, "pid")
        shown = 'no [\'[credential]\'], ["[credential]"], "\\"[credential]\\"" or [credential]'
        assert backend.health.stderr == (shown,)


async def test_a_server_that_never_answers_its_first_request_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "GRACE_S", 0.1)
    async with Backend("git", plain_server("hangs", start_timeout_s=0.3)) as backend:
        with pytest.raises(ServerUnavailableError, match=r"did not answer its first request within 0\.3 s"):
            await call(backend, "pid")
        connection = next(iter(backend._slots.values())).connection
        assert connection is not None
        await wait_until(lambda: connection.pid is None)


async def test_a_slow_call_is_cancelled_at_the_server() -> None:
    async with Backend("git", plain_server(call_timeout_s=0.2)) as backend:
        await call(backend, "pid")
        with pytest.raises(ServerTimeoutError, match=r"did not answer within 0\.2 s; the call was cancelled"):
            await call(backend, "sleep", seconds=30)
        assert len(json.loads(await call(backend, "cancelled"))) == 1
        assert backend.health.calls == 0


async def test_progress_gives_a_call_its_time_again() -> None:
    async with Backend("git", plain_server(call_timeout_s=0.6)) as backend:
        assert await call(backend, "steps", count=5, pause=0.2) == "done"


async def test_rubbish_on_its_output_is_passed_over() -> None:
    async with Backend("git", plain_server("noisy")) as backend:
        assert await call(backend, "garbage") == "fine"
        assert await call(backend, "echo", text="on") == "on"


async def test_a_large_answer_passes_and_one_too_large_ends_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipes, "MAX_MESSAGE_BYTES", 2_000_000)
    async with Backend("git", plain_server()) as backend:
        assert len(await call(backend, "large", bytes=1_900_000)) == 1_900_000
        with pytest.raises(ServerUnavailableError, match="sent a message of more than"):
            await call(backend, "large", bytes=2_100_000)
        assert (await call(backend, "pid")).isdigit()


async def test_a_server_that_closes_its_output_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "GRACE_S", 0.1)
    async with Backend("git", plain_server()) as backend:
        pid = int(await call(backend, "pid"))
        with pytest.raises(ServerUnavailableError, match="closed its output while"):
            await call(backend, "mute")
        await wait_until(lambda: not is_alive(pid))
        assert (await call(backend, "pid")).isdigit()


async def test_nothing_outlives_the_gateway(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "GRACE_S", 0.5)
    async with contextlib.AsyncExitStack() as stack:
        made = [await stack.enter_async_context(Backend(f"s{n}", plain_server("deaf"))) for n in range(3)]
        pids = [int(await call(one, what)) for one in made for what in ("pid", "children")]
        assert all(map(is_alive, pids))
        slow = asyncio.create_task(call(made[0], "sleep", seconds=60))
        await wait_until(lambda: calls_in_flight(made[0]))
    assert not any(map(is_alive, pids))
    with pytest.raises(ServerUnavailableError, match="the gateway is ending"):
        await slow
    with pytest.raises(ServerUnavailableError, match="the gateway is ending"):
        await call(made[0], "pid")


async def test_a_server_that_is_being_stopped_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "GRACE_S", 0.2)
    async with Backend("git", plain_server("deaf", idle_s=0.05)) as backend:
        pid = int(await call(backend, "pid"))
        await wait_until(lambda: backend.health.state == "idle")
        assert is_alive(pid)
    assert not is_alive(pid)


async def test_a_gateway_that_ends_during_a_start_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "GRACE_S", 0.1)
    async with Backend("git", plain_server("hangs")) as backend:
        first = asyncio.create_task(call(backend, "pid"))
        await wait_until(lambda: backend.health.pid is not None)
        pid = backend.health.pid
    assert pid is not None
    assert not is_alive(pid)
    with pytest.raises(ServerUnavailableError, match="the gateway is ending"):
        await first


async def test_a_server_gets_few_variables_and_those_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CODECALL_TEST_SECRET", "s3cret")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "not for servers")
    async with Backend("git", plain_server(env={"TOKEN": "${CODECALL_TEST_SECRET}"})) as backend:
        env = json.loads(await call(backend, "env"))
        assert env["TOKEN"] == "s3cret"
        assert set(env) <= {"TOKEN", "HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LC_CTYPE"}
        assert "s3cret" not in repr(backend) + repr(backend.health) + repr(backend.options)


async def test_everything_is_listed_page_by_page() -> None:
    async with Backend("git", plain_server()) as backend:
        listing = await backend.fetch_listing()
        assert len(listing.tools) == len({tool.name for tool in listing.tools}) == 19
        assert [resource.name for resource in listing.resources] == ["one"]
        assert [template.name for template in listing.templates] == ["note"]
        assert [prompt.name for prompt in listing.prompts] == ["greet"]
        assert listing.instructions == "Call what you like."
        assert listing.server_info is not None
        assert listing.server_info == backend.server_info


async def test_a_list_without_end_is_not_read_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "MAX_ITEMS", 100)
    async with Backend("git", plain_server("endless")) as backend:
        with pytest.raises(ServerUnavailableError, match="lists more than 100 tools"):
            await backend.fetch_listing()


async def test_listeners_hear_of_starts_and_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backends, "_CHANGES_S", 0.05)
    heard: Counter[str] = Counter()
    async with Backend("git", plain_server()) as backend:
        backend.on_changed(lambda what: heard.update([what]))
        await backend.fetch_listing()
        assert not heard
        await call(backend, "changed")
        await wait_until(lambda: heard["tools"])
        assert heard == {"tools": 1}
    async with Backend("git", plain_server()) as backend:
        backend.on_changed(lambda what: heard.update([what]))
        await call(backend, "pid")
        assert heard["started"] == 1


async def test_a_flood_of_notifications_is_slowed_down_and_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "_MESSAGES_PER_S", 200)
    heard: Counter[str] = Counter()
    async with Backend("git", plain_server()) as backend:
        await call(backend, "pid")
        backend.on_changed(lambda what: heard.update([what]))
        started = asyncio.get_running_loop().time()
        assert await call(backend, "flood", count=500) == "flooded"
        assert asyncio.get_running_loop().time() - started > 1
        assert heard["resources"] <= 3
