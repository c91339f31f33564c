"""What one answer of a server may ask, and notifications that are none; with real processes."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import pytest
from fastmcp import Client
from mcp import MCPError

from codecall.gateway.upstream.messages import Throttle
from codecall.gateway.upstream.questions import MAX_QUESTIONS
from codecall.gateway.upstream.server import Backend
from codecall.redaction.questions import MAX_SHOWN_CHARS
from tests.gateway.backends import MODERN_RAW, RAW, result_text, serve_components, wait_until
from tests.loop_turns import assert_turns_below

MODERN = "2026-07-28"
FINE = '{"jsonrpc":"2.0","id":%ID%,"result":{"resultType":"complete","content":[{"type":"text","text":"fine"}]}}'


def form(message: str, **fields: Any) -> dict[str, Any]:
    """A question to a person."""
    schema = {"type": "object", "properties": fields}
    return {"method": "elicitation/create", "params": {"mode": "form", "message": message, "requestedSchema": schema}}


def asking(*requests: dict[str, Any], **more: Any) -> str:
    """The line of an answer that asks this."""
    named = {str(number): request for number, request in enumerate(requests)}
    result = {"resultType": "input_required", "inputRequests": named, **more}
    return '{"jsonrpc":"2.0","id":%ID%,"result":' + json.dumps(result) + "}"


async def ask(client: Client[Any], line: str) -> Any:
    """What a client gets whose tool answers with this."""
    return await client.session.call_tool("write", {"lines": [[line, 1]]}, allow_input_required=True)


@pytest.mark.parametrize(
    ("line", "excess"),
    [
        (asking(*[{}] * 40_000), "20 questions"),
        (asking(*[form("\n" * 15_000)] * 200), "20 questions"),
        (asking(form("Who?"), requestState="s" * 2_000_000), "1 MiB of state"),
        (asking(requestState="é" * 600_000), "1 MiB of state"),
        (asking(form("x" * (4 * 1024 * 1024))), "4 MiB of questions"),
        (
            asking({"method": "sampling/createMessage", "params": {"maxTokens": 1, "messages": [{}] * 60_000}}),
            "2,000 values of questions",
        ),
    ],
    ids=["empty", "lines", "state", "state in another script", "long", "messages"],
)
async def test_an_answer_that_asks_too_much_is_not_read(line: str, excess: str) -> None:
    async with (
        serve_components(Backend("raw", MODERN_RAW)) as server,
        Client(server, mode=MODERN) as client,
    ):
        assert f"answer that cannot be read: it has more than {excess}" in result_text(await ask(client, line))
        assert result_text(await ask(client, FINE)) == "fine"


async def test_an_answer_with_very_many_questions_holds_nobody_up() -> None:
    async with Backend("raw", MODERN_RAW) as backend:

        async def refused() -> None:
            lines = [[asking(*[{}] * 40_000), 1]]
            async with backend.use(None) as call:
                with pytest.raises(MCPError, match="was not read"):
                    await call.session.call_tool("write", {"lines": lines}, allow_input_required=True)

        await assert_turns_below(10, refused)


async def test_the_questions_of_one_answer_are_no_longer_than_a_person_can_judge() -> None:
    async with (
        serve_components(Backend("raw", MODERN_RAW)) as server,
        Client(server, mode=MODERN) as client,
    ):
        passed: Any = await ask(client, asking(*[form("Who?")] * MAX_QUESTIONS, requestState="s" * 1000))
        assert [each.params.message for each in passed.input_requests.values()] == ["[raw] Who?"] * 20
        half = form("\n" * (MAX_SHOWN_CHARS // 2))
        refused = await ask(client, asking(half, half, requestState="s"))
        assert "the 2 questions have 16,456 characters, and a person is shown at most 16,384" in result_text(refused)


@pytest.mark.parametrize("number", ["NaN", "-Infinity", "1e400", "1" + "0" * 399])
@pytest.mark.parametrize("field", ["progress", "total"])
async def test_progress_that_is_no_number_is_left_out_and_logged(
    caplog: pytest.LogCaptureFixture, field: str, number: str
) -> None:
    told: list[float | None] = []

    async def note(progress: float, total: float | None, _message: str | None) -> None:
        told.append(progress if field == "progress" else total)

    def progress(value: str) -> str:
        params = '"progressToken":%ID%,' + ('"progress":1,' if field == "total" else "") + f'"{field}":{value}'
        return f'{{"jsonrpc":"2.0","method":"notifications/progress","params":{{{params}}}}}'

    fine = FINE.replace('"resultType":"complete",', "")
    with caplog.at_level(logging.WARNING):
        async with Backend("raw", RAW) as backend, backend.use() as call:
            lines = [[progress(number), 1], [progress("2"), 1], [fine, 1]]
            done = await call.session.call_tool("write", {"lines": lines}, progress_callback=note)
    assert result_text(done) == "fine"
    assert told == [2.0]
    expected = ["1 invalid notifications were left out, the last a 'notifications/progress'"]
    assert [record.getMessage() for record in caplog.records] == expected


async def test_invalid_notifications_are_left_out_and_logged_ever_more_rarely(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bad: dict[str, Any] = {
        "jsonrpc": "2.0",
        "method": "notifications/progress",
        "params": {"progressToken": {}, "progress": "z"},
    }
    unknown = {"jsonrpc": "2.0", "method": "notifications/of_its_own", "params": {"a": 1}}
    fine = FINE.replace('"resultType":"complete",', "")
    with caplog.at_level(logging.WARNING):
        async with Backend("raw", RAW) as backend, backend.use() as call:
            lines = [[json.dumps(bad), 100], [json.dumps(unknown), 10], [fine, 1]]
            assert result_text(await call.session.call_tool("write", {"lines": lines})) == "fine"
    assert [record.getMessage() for record in caplog.records] == [
        f"{count} invalid notifications were left out, the last a 'notifications/progress'"
        for count in (1, 2, 4, 8, 16, 32, 64)
    ]


def sampling(parts: int) -> str:
    """The line of a request for the client's model whose message has so many parts, none of which is valid."""
    content: list[dict[str, Any]] = [{"type": "tool_result", "toolUseId": "x", "content": [{}] * parts}]
    params: dict[str, Any] = {"maxTokens": 1, "messages": [{"role": "user", "content": content}]}
    return json.dumps({"jsonrpc": "2.0", "id": "q", "method": "sampling/createMessage", "params": params})


async def test_a_request_of_very_many_values_is_refused_before_it_is_read() -> None:
    fine = FINE.replace('"resultType":"complete",', "")
    async with Backend("raw", RAW) as backend:

        async def refused() -> None:
            async with backend.use() as call:
                lines = [[sampling(24_300), 1], [fine, 1]]
                assert result_text(await call.session.call_tool("write", {"lines": lines})) == "fine"
                answers = json.loads(result_text(await call.session.call_tool("answers", {})))
                assert answers[-1]["error"]["message"] == "Refused by the gateway: it has more than 2,000 values"

        await assert_turns_below(20, refused)


async def test_requests_are_read_the_slower_the_more_values_they_have(monkeypatch: pytest.MonkeyPatch) -> None:
    amounts: list[int] = []
    wait = Throttle.wait

    async def counting(throttle: Throttle, amount: int = 1) -> bool:
        amounts.append(amount)
        return await wait(throttle, amount)

    fine = FINE.replace('"resultType":"complete",', "")
    async with Backend("raw", RAW) as backend, backend.use() as call:
        monkeypatch.setattr(Throttle, "wait", counting)
        for parts in (0, 900):
            lines = [[sampling(parts), 1], [fine, 1]]
            assert result_text(await call.session.call_tool("write", {"lines": lines})) == "fine"
    assert 181 in amounts, amounts


async def test_a_result_is_kept_for_a_request_that_waits_and_no_longer() -> None:
    async with Backend("raw", RAW) as backend, backend.use() as call:
        session: Any = call.session
        assert not session.keep_result(99, {"large": True})
        unanswered = asyncio.create_task(call.session.call_tool("write", {"lines": []}))
        await wait_until(lambda: session._requests.sent_requests)
        (request_id,) = session._requests.sent_requests
        assert session.keep_result(request_id, {"large": True})
        unanswered.cancel()
        await wait_until(lambda: not session._requests.kept_results)
        answered = asyncio.create_task(call.session.call_tool("write", {"lines": [[FINE, 0]]}))
        await wait_until(lambda: len(session._requests.sent_requests) > 1)
        (request_id,) = {*session._requests.sent_requests} - {request_id}
        kept = {"content": [{"type": "text", "text": "kept"}]}
        assert session.keep_result(str(request_id), kept)
        stub = json.dumps({"jsonrpc": "2.0", "id": request_id, "result": {}})
        fine = FINE.replace('"resultType":"complete",', "")
        assert result_text(await call.session.call_tool("write", {"lines": [[stub, 1], [fine, 1]]})) == "fine"
        assert result_text(await answered) == "kept"
        assert not session._requests.kept_results
