"""The shape of a value that a script misread: names and types, never what stands in it. Only for hints."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, TypeAlias, cast

from codecall.sandbox.agentscript.diagnosis.dataflow import AnswerTrace, CallHistory, DataFlow, Observation, ValuePath
from codecall.sandbox.agentscript.parser.esprima import Node

# ----------------------------------------------------------------------------------------------------
# One failure of one script, as its symptoms are looked for: where it was, and what is left to look at.

MAX_WHAT: Final = 80
"""Most characters of an expression, a key or a tool's name in a hint."""

HintFields: TypeAlias = Mapping[str, str]
"""What a hint's template names."""

_ENDING: Final = re.compile("[\x00-\x1f\x7f-\x9f`\u2028\u2029]+")
"""What would end a line, or a piece of code in a hint."""
_PLAIN: Final = frozenset({"Identifier", "MemberExpression", "CallExpression", "ThisExpression"})


@dataclass(frozen=True)
class FailureContext:
    """One failure of one script.

    Args:
        reading: The script, where there was time to read it again.
        offset: Where it failed, in characters of the script; None when nobody knows.
        journal: The script's calls.
        offsets: Where each of them was made, by number.
    """

    dataflow: DataFlow | None
    offset: int | None
    calls: CallHistory
    offsets: Mapping[int, int]

    @cached_property
    def answers(self) -> AnswerTrace | None:
        """Its answers."""
        return None if self.dataflow is None else AnswerTrace(self.dataflow, self.calls, self.offsets)

    def observations(self, node: Node, further: ValuePath = ()) -> Iterator[Observation]:
        """What an expression was, or is some steps further; see there."""
        return iter(()) if self.answers is None else self.answers.observations(node, further)

    def enclosing(self, *types: str) -> list[Node]:
        """The nodes of these types over the place, the innermost first."""
        return [] if self.offset is None or self.dataflow is None else self.dataflow.enclosing(self.offset, *types)

    def text(self, node: Node) -> str:
        """An expression as a hint shows it."""
        return short(self.dataflow.text(node)) if self.dataflow is not None else ""

    def owner_text(self, node: Node) -> str:
        """An expression as it stands before a member's name, the dot with it."""
        return f"{self.text(node)}." if node.type in _PLAIN else f"({self.text(node)})."


MessageMatch: TypeAlias = "re.Match[str]"
"""The message, as the table's row found it."""

Cause: TypeAlias = Callable[[FailureContext, MessageMatch], HintFields | None]


def short(text: str) -> str:
    """`text`, or its beginning and a mark."""
    return text if len(text) <= MAX_WHAT else f"{text[:MAX_WHAT]}…"


def message_fields(case: FailureContext, said: MessageMatch) -> HintFields:
    """What the message itself says, in one line: what it names may be a key of an answer."""
    del case
    return {name: short(_ENDING.sub(" ", text or "")) for name, text in said.groupdict().items()}


# ----------------------------------------------------------------------------------------------------
# The shape of a value that a script misread: names and types, never what stands in it. Only for hints.

MAX_SHAPE: Final = 260
"""Most characters of a shape."""

MAX_KEYS: Final = 12
"""Most keys of one object that are named; it says how many more there are."""

_MAX_DEPTH: Final = 5
_MAX_READ: Final = 50
"""Items of one list, and keys of one object, that are looked at."""
_MAX_VALUES: Final = 5_000
"""Values that are looked at in all: 5 ms."""
_MAX_KEY: Final = 40
_PLAIN_KEY = re.compile(r"[A-Za-z_$][\w$]*")
_DECEIVING = re.compile("[\x00-\x1f\x7f-\x9f`\u2028-\u202e\u2066-\u2069]")
_KINDS: Final[tuple[tuple[type, str], ...]] = (
    (dict, "object"),
    (list, "array"),
    (bool, "boolean"),
    (int, "number"),
    (float, "number"),
    (str, "string"),
)


@dataclass(slots=True)
class _Shape:
    """What the values at one place are."""

    kinds: dict[str, int] = field(default_factory=dict[str, int])
    """How many there are of each kind."""
    keys: dict[str, _Shape] = field(default_factory=dict[str, "_Shape"])
    """Of all objects together."""
    more: int = 0
    """Keys that were not looked at, of the object that has most of them."""
    items: _Shape | None = None
    """Of all lists together."""

    def take(self, value: object, depth: int, left: list[None]) -> None:
        """One more value; `depth` levels of it are looked at, and in all as many values as `left` has items."""
        if not left:
            return
        left.pop()
        kind = kind_of(value)
        self.kinds[kind] = self.kinds.get(kind, 0) + 1
        if not depth:
            return
        if kind == "object":
            named = cast("dict[str, object]", value)
            for key in list(named)[:_MAX_READ]:
                self.keys.setdefault(key, _Shape()).take(named[key], depth - 1, left)
            self.more = max(self.more, len(named) - _MAX_READ)
        elif kind == "array" and value:
            self.items = self.items or _Shape()
            for item in cast("list[object]", value)[:_MAX_READ]:
                self.items.take(item, depth - 1, left)

    def written(self, depth: int) -> str:
        """As a type, `depth` levels of it."""
        return " | ".join(self._written(kind, depth) for kind in self.kinds)

    def _written(self, kind: str, depth: int) -> str:
        if kind == "array":
            return "[]" if self.items is None else f"[{self.items.written(depth - 1)}]" if depth else "[…]"
        if kind != "object":
            return kind
        if not self.keys:
            return "{}"
        if not depth:
            return "{…}"
        shown = list(self.keys.items())[:MAX_KEYS]
        said = [f"{_key(key)}{self._mark(item)}: {item.written(depth - 1)}" for key, item in shown]
        if rest := len(self.keys) - len(shown) + self.more:
            said.append(f"… {rest} more")
        return f"{{{', '.join(said)}}}"

    def _mark(self, item: _Shape) -> str:
        return "" if sum(item.kinds.values()) == self.kinds["object"] else "?"


def shape_of(values: Sequence[object]) -> str:
    """The shape that `values`, decoded JSON, have together: `{users: [{id: number, name?: string}], next: null}`.

    A `?` stands behind a key that not every object there has. At most `MAX_SHAPE` characters: as many levels as fit.
    """
    shape = _Shape()
    left: list[None] = [None] * _MAX_VALUES
    for value in values[:_MAX_READ]:
        shape.take(value, _MAX_DEPTH, left)
    for depth in range(_MAX_DEPTH, 0, -1):
        text = shape.written(depth)
        if len(text) <= MAX_SHAPE:
            return text
    return f"{shape.written(1)[: MAX_SHAPE - 1]}…"


def kind_of(value: object) -> str:
    """The kind of a decoded JSON value: `object`, `array`, `string`, `number`, `boolean` or `null`."""
    return next((name for kind, name in _KINDS if isinstance(value, kind)), "null")


def member_text(owner: str, key: str) -> str | None:
    """What a script writes for `key` of an object: `r.users`, or `r["user list"]`.

    `owner` is what stands before a plain name, the dot with it; empty for the key alone. None: the key is long, or
    would pass for more than a key.
    """
    if len(key) > _MAX_KEY or _DECEIVING.search(key):
        return None
    if _PLAIN_KEY.fullmatch(key):
        return f"{owner}{key}"
    quoted = json.dumps(key, ensure_ascii=False)
    return f"{owner.removesuffix('.')}[{quoted}]" if owner else quoted


def _key(key: str) -> str:
    if not _PLAIN_KEY.fullmatch(key):
        key = json.dumps(key, ensure_ascii=False)
    return key if len(key) <= _MAX_KEY else f"{key[:_MAX_KEY]}…"
