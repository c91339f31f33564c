"""What a taken-over worker may write: frames that are nearly right, and bytes that are nothing.

`plan(choices)` gives what it writes at each of its turns. The process that does so is `peer.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeVar

import msgspec

from codecall.sandbox import wire
from tests_security.fuzz.choices import Choices

T = TypeVar("T")

_TEXTS: Final = (
    "",
    "a",
    "echo",
    "secret:read",
    "codecall:execute",
    "[1]",
    "{}",
    "null",
    "{",
    '"x"',
    "\u0000",
    "é" * 40,
    "[" * 400,
)
_NUMBERS: Final = (0, 1, 2, -1, 7, 1000, 2**31, 2**53, 2**63 - 1, 2**64 - 1, -(2**63))
_FLOATS: Final = (0.0, 1.5, -1.0, 1e308, float("inf"), float("nan"))
_JSON: Final = (
    "1",
    "{}",
    "[]",
    "null",
    '{"a":1}',
    "[[[[]]]]",
    "{",
    "",
    "nan",
    '"' + "x" * 3000 + '"',
    "[" * 600 + "]" * 600,
    "1e999",
)
_CODES: Final = ("EXECUTION_ERROR", "TIMEOUT", "TOOL", "SYNTAX_ERROR", "SELF_REFERENCE_BLOCKED", "OUTPUT_LIMIT", "NOPE")
_KINDS: Final = ("tool", "resource", "prompt")
_STATUSES: Final = ("runtime_error", "timeout", "tool_error", "syntax_error", "illegal_access", "ok", "")
MOST_TURNS: Final = 4


def plan(choices: Choices) -> list[bytes]:
    """What the worker writes at its first turns; after the last it waits, or closes the pipe."""
    turns = choices.below(MOST_TURNS)
    messages = [b"".join(_frame(choices, turn * 3 + 1) for _ in range(1 + choices.once_in(9))) for turn in range(turns)]
    return [*messages, _frame(choices, 0)]


def fine() -> list[bytes]:
    """What a worker writes for a script that ends well."""
    return [wire.pack(wire.Done(logs=[], steps=1, script_ms=0.1, value="1"))]


def _frame(choices: Choices, first_call: int) -> bytes:
    """One frame; `first_call` is the number of its first tool call, 0 where the script is to end."""
    body = bytearray(msgspec.msgpack.encode(_message(choices, first_call)))
    if choices.once_in(8):
        for _ in range(1 + choices.below(4)):
            _spoil(body, choices)
    length = len(body)
    if choices.once_in(16):
        length = choices.pick(
            [0, 1, length - 1, length + 1, length * 2, wire.MAX_FRAME_BYTES, wire.MAX_FRAME_BYTES + 1, 2**32 - 1]
        )
    return wire.HEADER.pack(max(0, length)) + bytes(body)


def _spoil(body: bytearray, choices: Choices) -> None:
    at = choices.below(max(1, min(len(body), 65_536)))
    match choices.below(5):
        case 0:
            body[at : at + 1] = bytes([choices.below(256)])
        case 1:
            del body[at : at + 1 + choices.below(8)]
        case 2:
            body[at:at] = bytes(choices.below(256) for _ in range(1 + choices.below(6)))
        case 3:
            body[at:at] = choices.pick(
                [b"\x91" * 2000, b"\x81\xa1a" * 500, b"\xdd\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff", b"\xd9\xff"]
            )
        case _:
            body.extend(body[: 1 + choices.below(40)])


def _sound(choices: Choices, sound: T, others: Sequence[T]) -> T:
    """`sound`, now and then one of `others`."""
    return choices.pick(others) if choices.once_in(9) else sound


def _message(choices: Choices, first_call: int) -> Any:
    usual = _calls if first_call else _done
    kind = _sound(choices, usual, [_done, _calls, _ask, _ready, _other])
    message = kind(choices, first_call)
    if isinstance(message, dict) and choices.once_in(12):
        message[choices.pick([*message, "extra"])] = choices.pick(_WRONG)
    return message


_WRONG: Final = (None, 1, "x", [], {}, True, 2**60, ["x"] * 50, {"a": {"a": {}}})


def _done(choices: Choices, _: int) -> dict[str, Any]:
    message: dict[str, Any] = {"type": "done", **_tail(choices)}
    if choices.below(3):
        message["value"] = _sound(choices, choices.pick(_JSON[:5]), _JSON)
    else:
        message["failure"] = {
            "status": _sound(choices, "runtime_error", _STATUSES),
            "code": _sound(choices, "EXECUTION_ERROR", _CODES),
            "message": choices.pick(_TEXTS),
            "name": choices.pick([None, *_TEXTS]),
            "line": _sound(choices, 1, [None, *_NUMBERS]),
            "column": _sound(choices, 1, [None, *_NUMBERS]),
            "call": _sound(choices, None, [None, *_NUMBERS]),
        }
    message["warnings"] = [choices.pick(_TEXTS) for _ in range(choices.below(3))]
    message["reusable"] = bool(choices.below(2))
    return message


def _calls(choices: Choices, first: int) -> dict[str, Any]:
    count = _sound(choices, 1 + choices.below(3), [0, 25, 1001])
    calls = [
        [
            _sound(choices, first + number, _NUMBERS),
            _sound(choices, choices.pick(["echo", "a"]), _TEXTS),
            _sound(choices, choices.pick(["{}", '{"a":1}']), _JSON),
            *([_sound(choices, choices.pick(_KINDS), [*_TEXTS, None, 1])] if choices.once_in(3) else []),
        ]
        for number in range(count)
    ]
    return {"type": "calls", "calls": calls, **_tail(choices)}


def _ask(choices: Choices, _: int) -> dict[str, Any]:
    return {"type": "ask", "name": choices.pick(_TEXTS)}


def _ready(choices: Choices, _: int) -> dict[str, Any]:
    return {"type": "ready", "layers": [], "failure": choices.pick([None, "x"])}


def _other(choices: Choices, _: int) -> Any:
    return choices.pick(
        [None, 1, "done", [], {}, {"type": "start"}, {"type": "answers", "answers": []}, {"type": "nope"}, ["done"]]
    )


def _tail(choices: Choices) -> dict[str, Any]:
    return {
        "logs": [choices.pick(_TEXTS) for _ in range(_sound(choices, choices.below(3), [0, 300]))],
        "steps": _sound(choices, 1, _NUMBERS),
        "script_ms": _sound(choices, 0.5, _FLOATS),
    }
