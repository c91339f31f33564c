"""Stubs in the comments of a script file: what answers the calls of a program.

    //@ tool: users:list [{"id": 1}]            gives this JSON
    //@ tool: users:get {"id": 1} -> "Ann"      gives it for input that has these keys with these values
    //@ tool: users:get {"id": 2} -> !TOOL_TIMEOUT
    //@ tool: pay !TOOL_TIMEOUT                 fails with one of CodeCall's codes
    //@ tool: pay !CARD_DECLINED No funds left  fails with a code of its own and a text
    //@ tool: pay ! it broke                    fails with a text
    //@ tool?: pay null                         need not be called
    //@ resource: shop://menu {"dishes": []}    answers `readResource`; the URI may be a glob
    //@ prompt: greeting "Say hello"            answers `getPrompt`
    //@ result: res_1 [1, 2, 3]                 answers `getResult`

Several lines of one name and the same input answer in turn, each once; the only one answers any number of calls.
"""

from __future__ import annotations

import json
import re
from typing import Final, NoReturn, cast

from codecall.errors import Called
from codecall.testing.failures import CODES
from codecall.testing.programs import ProgramStub

_LINE = re.compile(r"(\S+)\s+(\S.*)", re.DOTALL)
_FAILURE = re.compile(r"!(\S*)\s*(.*)", re.DOTALL)
_CODE = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*")
_ARROW: Final = "->"


def read_stub(kind: Called, text: str, line: int, *, optional: bool) -> ProgramStub:
    """The stub that `text` declares: what follows `//@ tool:`.

    Raises:
        ValueError: it is malformed.
    """
    parts = _LINE.fullmatch(text)
    if parts is None:
        raise ValueError(f"`//@ {kind}:` is followed by a name and what it answers, such as `users:list []`")
    name, said = parts.groups()
    when: dict[str, object] | None = None
    if not said.startswith("!"):
        value, rest = _first_value(kind, said)
        if rest.startswith(_ARROW):
            if not isinstance(value, dict) or kind == "resource":
                raise ValueError(f"`//@ {kind}:` before `->` stands the input, a JSON object; resources have none")
            when = cast("dict[str, object]", value)
            said = rest.removeprefix(_ARROW).strip()
        elif rest:
            raise ValueError(f"`//@ {kind}:` after the JSON stands nothing more: {rest!r}")
    if said.startswith("!"):
        return ProgramStub(kind, name, line, when, None, _failure(kind, said), optional)
    return ProgramStub(kind, name, line, when, _only_value(kind, said), None, optional)


def read_value(text: str) -> object:
    """`text` as JSON.

    Raises:
        ValueError: it is not.
    """
    try:
        return cast("object", json.loads(text, parse_constant=_no_json))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _failure(kind: Called, said: str) -> str | dict[str, object]:
    parts = _FAILURE.fullmatch(said)
    code, message = parts.groups() if parts else ("", "")
    if not code and message:
        return message
    if code in CODES and not message:
        return code
    if _CODE.fullmatch(code) and message:
        return {"code": code, "message": message}
    raise ValueError(
        f"`//@ {kind}:` after `!` stands one of {', '.join(CODES)}, or a code of the tool's own and a text, or a "
        f"blank and a text; not {said!r}"
    )


def _first_value(kind: Called, text: str) -> tuple[object, str]:
    """The JSON that `text` begins with, and the rest."""
    try:
        value, end = json.JSONDecoder(parse_constant=_no_json).raw_decode(text)
    except (ValueError, RecursionError) as failure:
        raise ValueError(f"`//@ {kind}:` has no JSON after the name: {failure}") from None
    return cast("object", value), text[end:].strip()


def _only_value(kind: Called, text: str) -> object:
    try:
        return read_value(text)
    except ValueError as failure:
        raise ValueError(f"`//@ {kind}:` has no JSON after `->`: {failure}") from None


def _no_json(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")
