"""Workers that have been taken over, and the values outside of them: tokens of other runs, tokens in places where none
belongs, bombs. A worker can only name what its own run was given, and never makes the server build what is not allowed.
"""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest

from codecall.envelopes import ExecutionResult
from codecall.errors import InvalidInputError, MessageValidationError
from codecall.sandbox.enclave import Enclave
from tests_security.wire.conftest import ReplaceWorker
from tests_security.wire.hostile import PLAIN

ROWS = [{"id": n, "text": 'a "b" \\ }]'} for n in range(3_000)]

ASK = r"""
def token(frame):
    at = frame.find(b'ref_')
    return frame[at:at + 33].decode()
def reference(n=1): calls([n, 'rows', '{}', 'tool', True]); return token(receive())
def take(n, text): calls([n, 'take', text, 'tool', False]); return receive()
"""


class Tools:
    """One gives rows, the other keeps what it is given."""

    def __init__(self) -> None:
        self.inputs: list[dict[str, Any]] = []

    def __call__(self, name: str, arguments: dict[str, Any]) -> object:
        if name == "rows":
            return ROWS
        self.inputs.append(arguments)
        return 1


async def run_attack(
    replace_worker: ReplaceWorker, program: str, preset: str = "secure", runs: int = 1, **limits: Any
) -> tuple[ExecutionResult, Tools]:
    """The end of the last of so many scripts given to a worker that runs `program`, and what its tools got."""
    replace_worker(ASK + program)
    tools = Tools()
    async with Enclave(preset, pool=PLAIN, **limits) as enclave:
        for _ in range(runs):
            result = await enclave.execute("return 1", tool_handler=tools)
    return result, tools


async def test_a_token_of_another_run_is_a_text(replace_worker: ReplaceWorker) -> None:
    program = (
        "ready(); receive(); t = reference(); done(value='1'); receive()\n"
        "import json; own = reference(); take(2, json.dumps({'old': {'$reference': t}, 'all': t, 'own': own}))\n"
        "done(value='\"' + t + '\"'); wait()"
    )
    result, tools = await run_attack(replace_worker, program, runs=2)
    token = result.value
    assert isinstance(token, str)
    assert tools.inputs == [{"old": {"$reference": token}, "all": token, "own": ROWS}]
    assert result.warnings == ()


@pytest.mark.parametrize("preset", ["secure", "balanced"])
async def test_tokens_in_places_where_none_belongs(replace_worker: ReplaceWorker, preset: str) -> None:
    """Each is refused, or a text, or its own run's value; the JSON that tools get is whole."""
    inputs = [
        ("{'$reference': T, 'more': 1}", "has a reference with other members"),
        ("{T: 1}", "has a reference for a key"),
        ("{'a': [{'x' + T: 1}]}", "has a reference for a key"),
        ("{'a': {'$reference': [T]}}", {"a": {"$reference": [ROWS]}}),
        ("{'a': {'$reference': {'$reference': T}}}", {"a": {"$reference": ROWS}}),
        ("{'a': T[:-1], 'b': T[:-1] + 'g'}", None),
        ("{'a': T[:-5] + 'fffff'}", None),
        ("{'a': T.upper()}", None),
    ]
    literals = ", ".join(text for text, _ in inputs)
    program = (
        "import json; begin(); T = reference()\n"
        f"for n, given in enumerate([{literals}]): take(n + 2, json.dumps(given))\n"
        "done(value='1'); wait()"
    )
    result, tools = await run_attack(replace_worker, program, preset)
    assert result.success, result.error
    refused = [call.code for call in result.calls[1:]]
    assert refused == ["INVALID_INPUT" if isinstance(expected, str) else None for _, expected in inputs]
    received = iter(tools.inputs)
    for _, expected in inputs:
        if isinstance(expected, dict):
            assert next(received) == expected
        elif expected is None:
            assert "ref_" in str(next(received)).lower()


@pytest.mark.parametrize("preset", ["secure", "balanced"])
async def test_a_token_written_otherwise_is_a_text(replace_worker: ReplaceWorker, preset: str) -> None:
    program = (
        "begin(); T = reference(); E = chr(92) + 'u0072' + T[1:]\n"
        'take(2, \'{"a":"\' + E + \'","b":{"$reference":"\' + E + \'"}}\'); done(value=\'1\'); wait()'
    )
    result, tools = await run_attack(replace_worker, program, preset)
    assert result.success, result.error
    # The whole of a text is compared as text: this one names the worker's own value, and nothing else.
    assert tools.inputs in (
        [{"a": ROWS, "b": ROWS}],
        [{"a": tools.inputs[0]["a"], "b": {"$reference": tools.inputs[0]["a"]}}],
    )


@pytest.mark.parametrize("rest", ["", '"c":"\' + T + \'",'], ids=["more than written", "as many as written"])
async def test_tokens_written_otherwise_are_counted(replace_worker: ReplaceWorker, rest: str) -> None:
    """One as it is, so that tokens are looked for, and hundreds in other characters."""
    program = (
        "begin(); T = reference(); E = chr(92) + 'u0072' + T[1:]; n = 400\n"
        f"take(2, '{{' + ('{rest}') * n + '\"c\":\"' + T + '\",\"a\":[' + ','.join(['\"' + E + '\"'] * n) + ']}}')\n"
        "done(value='1'); wait()"
    )
    result, tools = await run_attack(replace_worker, program, "balanced")
    assert result.calls[1].code == InvalidInputError.code
    assert tools.inputs == []


@pytest.mark.parametrize("preset", ["secure", "balanced"])
async def test_one_token_written_as_it_is_does_not_stand_for_another(
    replace_worker: ReplaceWorker, preset: str
) -> None:
    program = (
        "begin(); T = reference(); E = chr(92) + 'u0072' + T[1:]\n"
        'take(2, \'{"a":"\' + T + \'","b":"\' + E + \'"}\'); wait()'
    )
    result, tools = await run_attack(replace_worker, program, preset)
    assert isinstance(result.error, MessageValidationError)
    assert "in other characters" in result.error.message
    assert tools.inputs == []


async def test_a_token_that_is_in_no_text_is_no_json(replace_worker: ReplaceWorker) -> None:
    result, tools = await run_attack(replace_worker, "begin(); T = reference(); take(2, '{\"a\":' + T + '}'); wait()")
    assert isinstance(result.error, MessageValidationError)
    assert tools.inputs == []


RESULTS = [
    ("'\"' + T", 1),
    ("chr(92) * 3 + '\"' + T + chr(92) + '\"'", 1),
    ("{'a' + chr(92): T, T: T, 'b\"' + T: 1}", 2),
    ("[T + chr(92) + '\"', chr(92) * 2, T, {'$reference': T}, {'$reference': [T]}]", 1),
    ("{'$reference': T, 'more': [T]}", 0),
    ("{'{\"$reference\":\"' + T + '\"}': '{\"$reference\":\"' + T + '\"}'}", 2),
]
"""What a result is, and how many tokens stay in it."""


@pytest.mark.parametrize("spaces", ["(',', ':')", "(' , ', ' : ')"])
@pytest.mark.parametrize(("form", "left"), RESULTS)
async def test_results_stay_json_wherever_a_token_stands(
    replace_worker: ReplaceWorker, form: str, left: int, spaces: str
) -> None:
    program = f"import json; begin(); T = reference(); done(value=json.dumps({form}, separators={spaces})); wait()"
    result, _ = await run_attack(replace_worker, program)
    assert result.success, result.error
    assert str(result.value).count("ref_") == left
    assert result.warnings == (
        (f"The result has references inside texts or keys ({left}): they mean nothing after the script",)
        if left
        else ()
    )


async def test_a_result_that_is_no_json_stays_none(replace_worker: ReplaceWorker) -> None:
    result, _ = await run_attack(
        replace_worker, "begin(); T = reference(); done(value='[' + T + ',\"' + T + '\"]'); wait()"
    )
    assert isinstance(result.error, MessageValidationError)


@pytest.mark.parametrize("form", ["T * 10000", "[T] * 10000", "[{'$reference': T}] * 10000"])
async def test_nothing_is_built_of_a_bomb(replace_worker: ReplaceWorker, form: str) -> None:
    """One value of 100 kB, ten thousand times: a gigabyte."""
    program = f"import json; begin(); T = reference(); take(2, json.dumps({{'a': {form}}})); done(value='1'); wait()"
    tracemalloc.start()
    try:
        result, tools = await run_attack(replace_worker, program, "balanced")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert result.calls[1].code == InvalidInputError.code
    assert tools.inputs == []
    assert peak < 20_000_000


async def test_the_server_holds_no_more_than_the_preset_allows(replace_worker: ReplaceWorker) -> None:
    """Sixty references at once, of which five fit."""
    size = len(json.dumps(ROWS, separators=(",", ":")))
    program = (
        "begin(); calls(*[[n + 1, 'rows', '{}', 'tool', True] for n in range(60)]); n = 0\n"
        "while n < 55: n += receive().count(b'MESSAGE_TOO_LARGE'); (calls() if n < 55 else 0)\n"
        "done(value='1'); wait()"
    )
    result, _ = await run_attack(replace_worker, program, reference_total_bytes=5 * size + 10)
    assert [call.code for call in result.calls].count(None) == 5
    assert {call.code for call in result.calls} == {None, "MESSAGE_TOO_LARGE"}
