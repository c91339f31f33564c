"""Values of a Starlark script and JSON: exact integers, dicts in order, and marks where JSON has no form for one."""

from __future__ import annotations

import json
from collections.abc import Callable
from math import isfinite
from typing import Any, Final, cast

from starlark.eval.errors import EvalError
from starlark.eval.function import StarlarkFunction
from starlark.eval.mutability import Mutability
from starlark.eval.values import (
    BuiltinFunction,
    Dict,
    Range,
    StarlarkList,
    StarlarkSet,
    repr_starlark,  # pyright: ignore[reportUnknownVariableType]
    starlark_type,
    str_starlark,
)

from codecall.sandbox.agentscript.parser.unicode import well_formed
from codecall.sandbox.wire import Limits, utf8_length

MAX_NOTES: Final = 20
"""Most warnings about marks in one result."""

_VISITS: Final = 256
"""Values between two looks at the clock."""

_encode_text = json.JSONEncoder(ensure_ascii=False).encode


def from_json(text: str, mutability: Mutability) -> Any:
    """The value of a JSON text; EvalError where it is none a script can hold."""
    try:
        return _value(json.loads(text), mutability)
    except (ValueError, RecursionError):
        raise EvalError("the value cannot be read") from None


def _value(data: Any, mutability: Mutability) -> Any:
    if isinstance(data, dict):
        items = cast("dict[str, Any]", data)
        return Dict({key: _value(item, mutability) for key, item in items.items()}, mutability)
    if isinstance(data, list):
        return StarlarkList([_value(item, mutability) for item in cast("list[Any]", data)], mutability)
    return data


class Server:
    """A server of a script: its tools are its members, which nothing changes."""

    __slots__ = ("_name", "fields")
    _starlark_type = "server"

    def __init__(self, name: str, tools: dict[str, BuiltinFunction]) -> None:
        self._name = name
        self.fields = tools
        """What the evaluator reads members from."""

    def __repr__(self) -> str:
        return f"<server {self._name}>"


class TooLargeError(Exception):
    """A value has more JSON than may leave."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.size = size


class Encoder:
    """Writes one value as JSON text.

    Args:
        limits: How deep it may be.
        max_bytes: Most bytes of the text.
        tick: Called now and then, to stop what takes too long.
        strict: Whether what JSON has no form for is an error, as in the input of a tool; else a mark stands for it.
    """

    def __init__(self, limits: Limits, max_bytes: int, tick: Callable[[], None], *, strict: bool) -> None:
        self.notes: list[str] = []
        """What marks stand for."""
        self._max_depth = limits.sanitize_max_depth
        self._max_bytes = max_bytes
        self._tick = tick
        self._strict = strict
        self._open: set[int] = set()
        self._parts: list[str] = []
        self._size = 0
        self._visited = 0

    def encode(self, value: Any) -> str:
        """The JSON text of `value`.

        Raises:
            TooLargeError: it is longer than it may be.
            EvalError: with `strict`, JSON has no form for it.
        """
        self._write(value, 1)
        return "".join(self._parts)

    def _add(self, text: str) -> None:
        self._parts.append(text)
        self._size += utf8_length(text)
        if self._size > self._max_bytes:
            raise TooLargeError(self._size)

    def _write(self, value: Any, depth: int) -> None:
        self._visited += 1
        if self._visited % _VISITS == 0:
            self._tick()
        if isinstance(value, str):
            self._add(_encode_text(well_formed(value)))
        elif value is None or isinstance(value, bool):
            self._add("null" if value is None else "true" if value else "false")
        elif isinstance(value, int):
            self._add(str_starlark(value))
        elif isinstance(value, float):
            if isfinite(value):
                self._add(repr(value))
            else:
                self._mark("a number that is not finite", "a number that is not finite", "null")
        elif isinstance(value, (StarlarkFunction, BuiltinFunction)) or hasattr(value, "fields"):
            self._no_data(value)
        elif depth > self._max_depth:
            self._mark(
                f"a value nested deeper than {self._max_depth} levels",
                f"nesting deeper than {self._max_depth} levels",
                f'{{"__truncated":{{"depth":{self._max_depth}}}}}',
            )
        elif id(value) in self._open:
            self._mark("a value that contains itself", "a value that contains itself", '"[Circular]"')
        else:
            self._open.add(id(value))
            try:
                self._compound(value, depth)
            finally:
                self._open.discard(id(value))

    def _compound(self, value: Any, depth: int) -> None:
        if isinstance(value, Dict):
            separator, written = "{", set[str]()
            for key, item in cast("list[tuple[Any, Any]]", value.items()):  # pyright: ignore[reportUnknownMemberType]
                name = well_formed(self._key(key))
                if name in written:
                    self._note(f"Of two keys that both read '{name:.80}' the result has the last")
                written.add(name)
                self._add(f"{separator}{_encode_text(name)}:")
                self._write(item, depth + 1)
                separator = ","
            self._add("{}" if separator == "{" else "}")
        elif isinstance(value, (StarlarkList, StarlarkSet, tuple, Range)):
            separator = "["
            for item in cast("tuple[Any, ...]", value):
                self._add(separator)
                self._write(item, depth + 1)
                separator = ","
            self._add("[]" if separator == "[" else "]")
        else:
            self._no_data(value)

    def _key(self, key: Any) -> str:
        if isinstance(key, str):
            return key
        if self._strict:
            raise EvalError(f"the input has a key that is a {starlark_type(key)}; keys are texts")
        return str_starlark(key)

    def _no_data(self, value: Any) -> None:
        self._mark(f"a {starlark_type(value)}, which is no data", f"a {starlark_type(value)}", "null")

    def _mark(self, problem: str, note: str, mark: str) -> None:
        if self._strict:
            raise EvalError(f"the input holds {problem}")
        self._note(f"{'null' if mark == 'null' else 'A mark'} stands in the result for {note}")
        self._add(mark)

    def _note(self, note: str) -> None:
        if len(self.notes) < MAX_NOTES:
            self.notes.append(note)


def console_text(value: Any, limits: Limits) -> str:
    """How a line of the logs shows a value: whole up to the limit of the preset."""
    text = well_formed(value if isinstance(value, str) else repr_starlark(value))
    if len(text) <= limits.sanitize_max_string:
        return text
    return f"{text[: limits.sanitize_max_string]}…[truncated {len(text) - limits.sanitize_max_string} characters]"
