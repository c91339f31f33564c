"""Messages as servers should not write them: too many values, halves of characters, floods; with real processes."""

from __future__ import annotations

import asyncio
import json
from decimal import Decimal
from typing import Any

import pytest
from fastmcp import Client
from fastmcp.client.elicitation import ElicitResult
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp import MCPError
from mcp_types import JSONRPCError, JSONRPCResponse

from codecall.errors import ServerUnavailableError
from codecall.gateway.upstream import messages, relay
from codecall.gateway.upstream import session as sessions
from codecall.gateway.upstream import stdio as pipes
from codecall.gateway.upstream.messages import (
    MAX_DIGITS,
    MAX_MESSAGE_LEVELS,
    MAX_MESSAGE_VALUES,
    Throttle,
    TooLargeError,
    count_levels,
    count_values,
    find_excess,
    find_long_number,
    is_within_value_limit,
    outside_strings,
    parse_message,
)
from codecall.gateway.upstream.server import Backend
from tests.gateway.backends import RAW, result_text, serve_components, wait_until
from tests.loop_turns import assert_turns_below, count_loop_turns

FINE = '{"jsonrpc":"2.0","id":%ID%,"result":{"content":[{"type":"text","text":"fine"}]}}'
MANY = ",".join(["[]"] * (MAX_MESSAGE_VALUES // 2 + 1))


async def write(backend: Backend, *lines: tuple[str, int]) -> Any:
    async with backend.use() as line:
        return await line.session.call_tool("write", {"lines": lines})


@pytest.mark.parametrize(
    "message",
    [
        b'{"jsonrpc":"2.0","id":7,"result":{"a":[%s]}}',
        b'{"jsonrpc":"2.0","id":"7","error":{"code":1,"message":"no","data":[%s]}}',
        b'{"result":{"id":1,"a":[%s]},"id":7,"jsonrpc":"2.0"}',
    ],
)
def test_an_answer_of_too_many_values_is_answered_in_its_place(message: bytes) -> None:
    read = parse_message(message % MANY.encode())
    assert isinstance(read, JSONRPCError)
    assert (str(read.id), read.error.message) == (
        "7",
        "The server's answer was not read: it has more than 200,000 values",
    )


def test_nobody_waits_for_what_is_no_answer() -> None:
    for start in (
        b'{"jsonrpc":"2.0","id":7,"method":"x","params":{"a":[',
        b'{"id":7,"result":1,"method":"x","a":[',
        b"[",
    ):
        message = start + MANY.encode()
        if b'"result"' in start:
            assert isinstance(parse_message(message), JSONRPCError)
            continue
        with pytest.raises(TooLargeError):
            parse_message(message)


def test_what_stands_in_texts_counts_as_one_value() -> None:
    table = json.dumps({"text": 'a,"b\\",[{:\n' * 100_000})
    assert is_within_value_limit(table.encode())
    assert not is_within_value_limit(b"[" + b'"",' * MAX_MESSAGE_VALUES + b"0]")


@pytest.mark.parametrize("piece", [1, 2, 3, 7, 1_000])
def test_strings_are_left_out_a_piece_at_a_time(monkeypatch: pytest.MonkeyPatch, piece: int) -> None:
    monkeypatch.setattr(messages, "_PIECE", piece)
    data = rb'{"a,\\":[12,"\"[[,",""],"":"{:"}'
    assert outside_strings(data) == b'{"":[12,"",""],"":""}'
    assert (count_values(data), is_within_value_limit(data, 7), is_within_value_limit(data, 6)) == (7, True, False)


def nested(depth: int, levels: int, start: str = "[", end: str = "]") -> str:
    """A list of values that are nested so deep, which have so many levels together."""
    return "[" + ",".join([start * depth + end * depth] * (levels // (depth * (depth + 1) // 2))) + "]"


@pytest.mark.parametrize(
    ("json_text", "levels"),
    [
        ("1", 0),
        ("[]", 1),
        ('{"a":[]}', 3),
        ('[{"a":1},{"b":[2]}]', 3 + 1 + 2 + 1),
        ('["[[[", "{", "\\"[[]]", "\\\\"]', 1),
        ("[[[[]]]]", 4 + 3 + 2 + 1),
    ],
)
def test_levels_of_nesting_are_counted_outside_of_texts(json_text: str, levels: int) -> None:
    json.loads(json_text)
    assert count_levels(json_text.encode(), 100) == levels


@pytest.mark.parametrize("depth", [5, 10, 50, 180])
def test_an_answer_of_deep_values_is_answered_in_its_place(depth: int) -> None:
    answer = '{"jsonrpc":"2.0","id":7,"result":{"content":[],"_meta":{"a":%s}}}'
    few, many = (answer % nested(depth, levels) for levels in (MAX_MESSAGE_LEVELS - 1_000, MAX_MESSAGE_LEVELS + 20_000))
    assert is_within_value_limit(many.encode())
    read = parse_message(many.encode())
    assert isinstance(read, JSONRPCError)
    assert read.error.message == (
        "The server's answer was not read: it has more than 300,000 levels of nesting, added up"
    )
    assert isinstance(parse_message(few.encode()), JSONRPCResponse)
    with pytest.raises(TooLargeError, match="300,000 levels"):
        parse_message(b'{"jsonrpc":"2.0","method":"x","params":{"a":%s}}' % nested(depth, 400_000).encode())


def test_large_answers_as_tools_give_them_are_not_deep() -> None:
    points = "[" + ",".join(["[12.5,47.25]"] * 60_000) + "]"
    rows = "[" + ",".join(['{"id":1,"at":{"x":1,"tags":["a"]}}'] * 20_000) + "]"
    for answer in (points, rows, f'{{"features":[{{"geometry":{{"coordinates":[{points}]}}}}]}}'):
        assert find_excess(answer.encode()) is None


async def test_what_may_be_nested_holds_nobody_up() -> None:
    text = nested(5, MAX_MESSAGE_LEVELS - 1_000)
    line = '{"jsonrpc":"2.0","id":%ID%,"result":{"content":[],"_meta":{"a":' + text + "}}}"
    async with Backend("raw", RAW) as backend:

        async def read() -> None:
            result = await write(backend, (line, 1))
            result.model_dump(mode="json", by_alias=True, exclude_none=True)

        await assert_turns_below(65, read)  # 16; of 195,000 values 180 deep, 195


LONG = "9" * (MAX_DIGITS + 1)


@pytest.mark.parametrize("number", [LONG, f"-{LONG}", f"{LONG}.5", f"0.{LONG}", f"1e{LONG}", f"1E-{LONG}", f"{LONG}e1"])
def test_an_answer_with_a_long_number_is_answered_in_its_place(number: str) -> None:
    read = parse_message(b'{"jsonrpc":"2.0","id":7,"result":{"a":["\\"",%s]}}' % number.encode())
    assert isinstance(read, JSONRPCError)
    assert read.error.message == "The server's answer was not read: it has more than 400 digits in a number"
    assert parse_message(b'{"jsonrpc":"2.0","method":"x","params":{"a":%s}}' % number.encode()) is None


DIGITS = st.integers(1, 2 * MAX_DIGITS).map("7".__mul__)
TEXTS = st.one_of(DIGITS, st.text(max_size=3), st.tuples(st.text('"\\,:[', max_size=3), DIGITS).map("".join))
NUMBERS = st.integers(0, MAX_DIGITS).map(lambda digits: int("0" + "7" * digits)) | st.floats(allow_nan=False)


@settings(max_examples=200, deadline=None)
@given(
    st.recursive(
        TEXTS | NUMBERS,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
        max_leaves=20,
    ),
    st.integers(1, 300),
    st.booleans(),
)
def test_digits_count_in_numbers_alone(value: object, more: int, ascii_only: bool) -> None:
    long = int("7" * (MAX_DIGITS + more))
    assert find_long_number(json.dumps(value, ensure_ascii=ascii_only).encode()) is None
    for each in (long, [value, -long], {"a": [long], "b": value}):
        written = json.dumps(each, ensure_ascii=ascii_only, separators=(",", ":"))
        assert find_long_number(written.encode()) == "400 digits in a number"


@pytest.mark.parametrize("double", [1.7976931348623157e308, 2.2250738585072014e-308, 5e-324])
def test_every_double_may_be_written_out_in_full(double: float) -> None:
    written = format(Decimal(repr(double)), "f")
    assert len(written) > 300
    read = parse_message(b'{"jsonrpc":"2.0","id":7,"result":{"a":%s}}' % written.encode())
    assert isinstance(read, JSONRPCResponse)
    assert float(read.result["a"]) == double


def test_what_is_no_answer_is_not_taken_for_one() -> None:
    for line in (b'{"id":7,"result":"a line of a log', b'{"level":"info","id":7}', b"{", b"[1,2]", b'{"jsonrpc": 1}'):
        assert parse_message(line) is None
    half = parse_message(rb'{"jsonrpc":"2.0","id":7,"result":{"a":"' + b"\xff" + rb'\ud800"}}')
    assert isinstance(half, JSONRPCResponse)
    assert half.result == {"a": "\ufffd\ufffd"}


LISTS = ",".join(["[]"] * 60_000)


@pytest.mark.parametrize(
    "line",
    [
        f'{{"a":[{LISTS}]}}',
        f"[{LISTS}]",
        f'{{"jsonrpc":"2.0","method":5,"params":[{LISTS}]}}',
        f'{{"jsonrpc":"2.0","id":1,"error":{{"code":"x","message":1,"data":[{LISTS}]}}}}',
        '{"jsonrpc":"2.0",' + ",".join(f'"{number}":[]' for number in range(20_000)) + "}",
    ],
    ids=["no version", "several", "method", "error", "keys"],
)
async def test_what_is_no_message_is_found_at_once(line: str) -> None:
    async def parse() -> None:
        await asyncio.sleep(0)
        parse_message(line.encode())
        await asyncio.sleep(0)

    await assert_turns_below(30, parse)


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ('{"jsonrpc":"2.0","id":1,"result":{"a":NaN},"error":null}', "JSONRPCResponse"),
        ('{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":"no"}}', "JSONRPCError"),
        ('{"jsonrpc":"2.0","id":null,"method":"x","params":null,"more":1}', "JSONRPCNotification"),
        ('{"jsonrpc":"2.0","id":"a","method":"x"}', "JSONRPCRequest"),
    ],
)
def test_messages_are_read_as_generously_as_the_sdk_reads_them(line: str, kind: str) -> None:
    assert type(parse_message(line.encode())).__name__ == kind


async def test_an_answer_that_cannot_be_read_fails_its_call_alone() -> None:
    def answer(value: str) -> tuple[str, int]:
        return f'{{"jsonrpc":"2.0","id":%ID%,"result":{{"content":[],"structuredContent":{{"a":{value}}}}}}}', 1

    async with Backend("raw", RAW) as backend:
        assert (await write(backend, answer(r'"\ud800"'))).structured_content == {"a": "\ufffd"}
        pid = backend.health.pid
        for value, why in ((LONG, "more than 400 digits in a number"), (f"[{MANY}]", "more than 200,000 values")):
            with pytest.raises(ServerUnavailableError, match=f"cannot be read: .*{why}"):
                await write(backend, answer(value))
        unasked = f'{{"jsonrpc":"2.0","method":"notifications/message","params":{{"level":"info","data":{LONG}}}}}'
        assert result_text(await write(backend, (unasked, 1), (FINE, 1))) == "fine"
        assert backend.health.pid == pid


@pytest.mark.parametrize(
    ("values", "limit"),
    [
        (MANY, "200,000 values"),
        (LISTS, "50,000 values that is no answer"),
        (f'"{"x" * 4 * 2**20}"', "4 MiB that is no answer"),
    ],
    ids=["values", "unasked values", "unasked bytes"],
)
async def test_a_program_that_sends_a_large_message_unasked_is_ended(values: str, limit: str) -> None:
    async with Backend("raw", RAW) as backend:
        with pytest.raises(ServerUnavailableError, match=f"sent a message of more than {limit} and was ended"):
            await write(backend, (f'{{"jsonrpc":"2.0","method":"x","params":{{"a":[{values}]}}}}', 1))


async def test_a_program_that_writes_large_lines_that_are_no_messages_is_ended() -> None:
    small, large = '{"a":[]}', f'{{"a":[{LISTS[:18_000]}]}}'
    async with Backend("raw", RAW) as backend:
        assert result_text(await write(backend, (small, 100), (large, 19), (FINE, 1))) == "fine"
        with pytest.raises(ServerUnavailableError, match="sent 20 large lines that are no messages and was ended"):
            await write(backend, (large, 1))


async def test_only_what_nobody_waits_for_is_slowed_down_by_what_it_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[int] = []

    async def wait(_throttle: Throttle, amount: int = 1) -> bool:
        waited.append(amount)
        return False

    monkeypatch.setattr(Throttle, "wait", wait)
    array = LISTS[:8_999]
    answer = f'{{"jsonrpc":"2.0","id":%ID%,"result":{{"content":[],"structuredContent":{{"a":[{array}]}}}}}}'
    async with Backend("raw", RAW) as backend:
        await write(backend, (answer, 1))
        assert max(waited, default=0) < 1_000
        for line in (
            answer.replace("%ID%", '"x"'),
            answer.replace('"result"', '"x"'),
            f'{{"jsonrpc":"2.0","method":"x","params":{{"a":[{array}]}}}}',
        ):
            waited.clear()
            assert result_text(await write(backend, (line, 1), (FINE, 1))) == "fine"
            assert max(waited) > 5_000, line[:50]


async def test_what_costs_much_waits_as_long() -> None:
    throttle = Throttle(1000)
    began = asyncio.get_running_loop().time()
    assert not await throttle.wait(999)
    assert await throttle.wait(501)
    assert asyncio.get_running_loop().time() - began > 1.4
    assert not await throttle.wait(999)


async def test_the_text_of_an_error_is_bounded() -> None:
    error = '{"jsonrpc":"2.0","id":%ID%,"error":{"code":-5,"message":"' + "x" * 100_000 + '"}}'
    async with Backend("raw", RAW) as backend:
        with pytest.raises(MCPError, match=r"x…\[truncated 34464 characters\]$") as failure:
            await write(backend, (error, 1))
    assert len(failure.value.error.message) < 66_000


@pytest.mark.parametrize("line", ["", "rubbish", "{rubbish"])
async def test_a_flood_of_rubbish_is_slowed_down(monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    monkeypatch.setattr(pipes, "MAX_LINES_PER_S", 100)
    monkeypatch.setattr(pipes, "_MALFORMED_PER_S", 100)
    async with Backend("raw", RAW) as backend:
        started = asyncio.get_running_loop().time()
        assert result_text(await write(backend, (line, 150), (FINE, 1))) == "fine"
        assert asyncio.get_running_loop().time() - started > 1


async def test_others_have_a_turn_meanwhile() -> None:
    pace = Throttle(100_000)
    with count_loop_turns() as turns:
        for _ in range(1000):
            await pace.wait()
    assert turns.count >= 8


@pytest.mark.parametrize("message", ['"id":1,"method":"ping"', '"id":987654,"result":{}', '"id":"x","result":{}'])
async def test_a_flood_of_requests_and_of_answers_to_nothing_is_slowed_down(
    monkeypatch: pytest.MonkeyPatch, message: str
) -> None:
    monkeypatch.setattr(sessions, "_MESSAGES_PER_S", 20)
    async with Backend("raw", RAW) as backend:
        started = asyncio.get_running_loop().time()
        assert result_text(await write(backend, (f'{{"jsonrpc":"2.0",{message}}}', 30), (FINE, 1))) == "fine"
        assert asyncio.get_running_loop().time() - started > 1


async def test_only_so_many_questions_of_a_server_are_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay, "MAX_QUESTIONS", 100)
    may_answer = asyncio.Event()

    async def elicit(*_what: Any) -> Any:
        await may_answer.wait()
        return ElicitResult(action="decline")

    def question(number: int) -> tuple[str, int]:
        params = {"message": "Who?", "requestedSchema": {"type": "object", "properties": {}}}
        return json.dumps({"jsonrpc": "2.0", "id": number, "method": "elicitation/create", "params": params}), 1

    async with (
        serve_components(Backend("raw", RAW)) as server,
        Client(server, mode="legacy", elicitation_handler=elicit) as client,
    ):

        async def answers() -> list[dict[str, Any]]:
            return json.loads(result_text(await client.call_tool("answers", {})))

        asking = asyncio.create_task(
            client.call_tool("write", {"lines": [question(1), *(question(number) for number in range(1, 36))]})
        )
        while len(refused := await answers()) < 4:  # noqa: ASYNC110 - the server tells nobody
            await asyncio.sleep(0.01)
        assert [answer["id"] for answer in refused] == [1, 33, 34, 35], refused
        assert "a request with this id waits" in refused[0]["error"]["message"]
        assert "32 requests wait for their answers" in refused[1]["error"]["message"]
        may_answer.set()
        while len(answered := await answers()) < 36:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        assert sum("result" in answer for answer in answered) == 32
        asking.cancel()
        await wait_until(asking.done)
