"""What a hint about one failure is made from: the script, the answers of its calls, and the shape of a value."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, TypeAlias, cast

import msgspec

from codecall.sandbox.agentscript.diagnosis.calls import CallEntry, CallHistory, shorten
from codecall.sandbox.agentscript.diagnosis.flow.dataflow import (
    DataFlow,
    is_server_call,
    possible_values,
    returned_expression,
)
from codecall.sandbox.agentscript.diagnosis.flow.paths import UNDEFINED, ValuePath, follow, path_in_answer
from codecall.sandbox.agentscript.parser.esprima import Node
from codecall.sandbox.agentscript.parser.unicode import BREAKS_CODE, DECEIVES_IN_CODE

MAX_SHAPE: Final = 260
"""Most characters of a shape."""

MAX_KEYS: Final = 12
"""Most keys of one object that are named; the shape says how many more there are."""

_MAX_DEPTH: Final = 5
_MAX_ITEMS: Final = 50
"""Items of one list, and keys of one object, that are looked at."""
_MAX_SHAPE_VALUES: Final = 5_000
"""Values that are looked at in all: 5 ms."""
_MAX_KEY: Final = 40
_MAX_SOURCES: Final = 40
"""Expressions that are looked at among those that one may have its value from."""

_CHOICES: Final = frozenset({"LogicalExpression", "ConditionalExpression"})
_COMPOUND: Final = _CHOICES | {"AwaitExpression", "ChainExpression"}
_PLAIN_OWNERS: Final = frozenset({"Identifier", "MemberExpression", "CallExpression", "ThisExpression"})
_PLAIN_KEY = re.compile(r"[A-Za-z_$][\w$]*")
_KINDS: Final[tuple[tuple[type, str], ...]] = (
    (dict, "object"),
    (list, "array"),
    (bool, "boolean"),
    (int, "number"),
    (float, "number"),
    (str, "string"),
)

HintFields: TypeAlias = Mapping[str, str]
"""Values for the fields of a hint's template."""

MessageMatch: TypeAlias = "re.Match[str]"
"""The error's message, as the pattern of a hint rule matched it."""


@dataclass(frozen=True, slots=True)
class Observation:
    """What an expression was, if it came from this answer."""

    tool: str
    """The name that was called."""
    answer: object
    """What the call returned, as decoded JSON."""
    values: list[object]
    """What the expression may have been: more than one where the path leads to some item of a list."""
    parents: list[object]
    """What the last step was taken from; empty where there was none."""
    path: ValuePath
    """From the answer to the value."""
    wrapped: bool = False
    """Whether the answer is `{success: true, data}`, of a call with `throwOnError: false`."""

    @property
    def of_wrapper(self) -> bool:
        """Whether the value is a property of `{success: true, data}`."""
        return self.wrapped and len(self.path) == 1

    @property
    def of_answer(self) -> bool:
        """Whether the value is a property of what the tool returned."""
        return len(self.path) == (2 if self.wrapped and self.path[0] == "data" else 1) and not self.of_wrapper


FindMisread: TypeAlias = Callable[[str, int], str | None]
"""Says what a script misread of its answers before it failed, by what it threw itself and where; None: nothing."""

FindMeantTool: TypeAlias = Callable[[str | None], str | None]
"""Gives the tool that is meant by a name that `getTool` has not found; None stands for the only such name."""


@dataclass(frozen=True)
class FailureContext:
    """One failure of one script.

    Args:
        dataflow: The script, where there was time to parse it again.
        offset: Where it failed, in characters of the script; None where that is not known.
        calls: The script's calls.
        offsets: Where each of them was made, by number.
        brought: `codecallContext`.
        misread: Finds what the script misread before it failed.
        meant_tool: Finds the tool that was meant by a name that `getTool` has not found.
    """

    dataflow: DataFlow | None
    offset: int | None
    calls: CallHistory
    offsets: Mapping[int, int]
    brought: Mapping[str, object] = field(default_factory=dict[str, object])
    misread: FindMisread | None = None
    meant_tool: FindMeantTool | None = None

    def observations(self, node: Node, further: ValuePath = ()) -> Iterator[Observation]:
        """What an expression was, or is some steps further; see `AnswerTrace.observations`."""
        return iter(()) if self._answers is None else self._answers.observations(node, further)

    def sees_all(self, node: Node) -> bool:
        """Whether what `node` reads a property of was seen in the answers of all tools that it comes from."""
        return self._answers is not None and self._answers.sees_all(node)

    def observations_of(self, source: Node) -> Iterator[Observation]:
        """What one of the `sources` of an expression was; nothing of one whose operands are sources themselves."""
        is_choice = any(node.type in _CHOICES for node in self._all_sources(source))
        return iter(()) if is_choice else self.observations(source)

    def sources(self, node: Node) -> Iterator[Node]:
        """An expression, and those whose value it may have: the operands of `??`, `||` and `? :`, the last first, those
        of what its variable was given, and what a function of the script returns."""
        yield from (source for source in self._all_sources(node) if source is node or source.type not in _COMPOUND)

    def _all_sources(self, node: Node) -> Iterator[Node]:
        pending, seen = [node], set[int]()
        while pending and len(seen) < _MAX_SOURCES:
            source = pending.pop()
            if id(source) in seen:
                continue
            seen.add(id(source))
            yield source
            match source.type:
                case "AwaitExpression":
                    pending.append(source.argument)
                case "ChainExpression":
                    pending.append(source.expression)
                case "LogicalExpression" | "ConditionalExpression":
                    pending += possible_values(source)
                case "Identifier" if self.dataflow is not None:
                    pending += self.dataflow.values_of(source)
                case "CallExpression" if self.dataflow is not None and source.callee.type == "Identifier":
                    returned = map(returned_expression, self.dataflow.values_of(source.callee))
                    pending += [value for value in returned if value is not None]
                case _:
                    pass

    def enclosing(self, *types: str) -> list[Node]:
        """The nodes of these types that contain the place of the failure, the innermost first."""
        return [] if self.offset is None or self.dataflow is None else self.dataflow.enclosing(self.offset, *types)

    def text(self, node: Node) -> str:
        """An expression as a hint shows it."""
        return shorten(self.dataflow.text(node)) if self.dataflow is not None else ""

    def owner_text(self, node: Node) -> str:
        """An expression as it stands before a member's name, with the dot."""
        return f"{self.text(node)}." if node.type in _PLAIN_OWNERS else f"({self.text(node)})."

    @cached_property
    def _answers(self) -> AnswerTrace | None:
        return None if self.dataflow is None else AnswerTrace(self.dataflow, self.calls, self.offsets)


Cause: TypeAlias = Callable[[FailureContext, MessageMatch], HintFields | None]
"""Looks for one cause of a failure; gives the fields of its hint, or None where this is not the cause."""


def message_fields(context: FailureContext, match: MessageMatch) -> HintFields:
    """The named groups of the message, each in one line: they may be keys of an answer."""
    del context
    return {name: shorten(BREAKS_CODE.sub(" ", text or "")) for name, text in match.groupdict().items()}


class AnswerTrace:
    """Finds the values of a script's expressions in the answers of its calls.

    Args:
        dataflow: The script.
        calls: Its calls.
        offsets: Where each call was made, as characters of the script, by number; where that is known.
    """

    def __init__(self, dataflow: DataFlow, calls: CallHistory, offsets: Mapping[int, int]) -> None:
        self._dataflow = dataflow
        self._entries: list[tuple[CallEntry, Node]] = []
        for entry in reversed(calls.last_answers.values()):
            if (offset := offsets.get(entry.number)) is not None and (call := self._call_at(offset)) is not None:
                self._entries.append((entry, call))
        self._values: dict[int, object] = {}

    def observations(self, node: Node | None, further: ValuePath = ()) -> Iterator[Observation]:
        """What an expression was, or is some steps further, for each answer it may have come from; the newest first."""
        seen = set[tuple[int, ValuePath]]()
        for origin in self._dataflow.origins(node):
            path = path_in_answer(origin.path + further)
            if path is None or (id(origin.call), path) in seen:
                continue
            seen.add((id(origin.call), path))
            for entry, call in self._entries:
                answer = self._value(entry) if call is origin.call else UNDEFINED
                if answer is not UNDEFINED and (ends := follow(answer, path)) is not None:
                    yield Observation(entry.name, answer, *ends, path, entry.wrapped)

    def sees_all(self, node: Node) -> bool:
        """Whether there is a value that `node` reads a property of in an answer of each call and tool that it may come
        from: what is in an empty list is not known."""
        seen: dict[tuple[int, str], bool] = {}
        places = {(id(origin.call), path_in_answer(origin.path)) for origin in self._dataflow.origins(node)}
        for origin, path in places:
            for entry, call in self._entries:
                if path is not None and id(call) == origin:
                    known = id(call), entry.name
                    seen[known] = seen.get(known, False) or bool(follow(self._value(entry), path))
        return all(seen.values())

    def _call_at(self, offset: int) -> Node | None:
        """The call of a tool in the script that contains this offset."""
        calls = self._dataflow.enclosing(offset, "CallExpression")
        return next((call for call in calls if is_server_call(self._dataflow, call.callee)), None)

    def _value(self, entry: CallEntry) -> object:
        """The decoded answer; `UNDEFINED` where it cannot be decoded."""
        if entry.number not in self._values:
            try:
                self._values[entry.number] = entry.value()
            except (msgspec.MsgspecError, RecursionError):
                self._values[entry.number] = UNDEFINED
        return self._values[entry.number]


def shape_of(values: Sequence[object]) -> str:
    """The shape that `values`, decoded JSON, have together: `{users: [{id: number, name?: string}], next: null}`.

    It has names and types, never the values themselves. A `?` stands behind a key that not every object there has. At
    most `MAX_SHAPE` characters: as many levels as fit.
    """
    shape = _Shape()
    budget: list[None] = [None] * _MAX_SHAPE_VALUES
    for value in values[:_MAX_ITEMS]:
        shape.add(value, _MAX_DEPTH, budget)
    for depth in range(_MAX_DEPTH, 0, -1):
        text = shape.as_type(depth)
        if len(text) <= MAX_SHAPE:
            return text
    return f"{shape.as_type(1)[: MAX_SHAPE - 1]}…"


def kind_of(value: object) -> str:
    """The kind of a decoded JSON value: `object`, `array`, `string`, `number`, `boolean` or `null`."""
    return next((name for kind, name in _KINDS if isinstance(value, kind)), "null")


def member_text(owner: str, key: str) -> str | None:
    """What a script writes for `key` of an object: `r.users`, or `r["user list"]`.

    `owner` is what stands before a plain name, with the dot; empty for the key alone. None: the key is long, or has
    characters that would deceive the reader.
    """
    if len(key) > _MAX_KEY or DECEIVES_IN_CODE.search(key):
        return None
    if _PLAIN_KEY.fullmatch(key):
        return f"{owner}{key}"
    quoted = json.dumps(key, ensure_ascii=False)
    return f"{owner.removesuffix('.')}[{quoted}]" if owner else quoted


@dataclass(slots=True)
class _Shape:
    """What the values at one place are."""

    kinds: dict[str, int] = field(default_factory=dict[str, int])
    """How many there are of each kind."""
    keys: dict[str, _Shape] = field(default_factory=dict[str, "_Shape"])
    """The keys of all objects together."""
    omitted_keys: int = 0
    """Keys that were not looked at, of the object that has most of them."""
    items: _Shape | None = None
    """The items of all lists together."""

    def add(self, value: object, depth: int, budget: list[None]) -> None:
        """Add a value: `depth` levels of it, and in all as many values as `budget` has items."""
        if not budget:
            return
        budget.pop()
        kind = kind_of(value)
        self.kinds[kind] = self.kinds.get(kind, 0) + 1
        if not depth:
            return
        if kind == "object":
            members = cast("dict[str, object]", value)
            for key in list(members)[:_MAX_ITEMS]:
                self.keys.setdefault(key, _Shape()).add(members[key], depth - 1, budget)
            self.omitted_keys = max(self.omitted_keys, len(members) - _MAX_ITEMS)
        elif kind == "array" and value:
            self.items = self.items or _Shape()
            for item in cast("list[object]", value)[:_MAX_ITEMS]:
                self.items.add(item, depth - 1, budget)

    def as_type(self, depth: int) -> str:
        """The shape written as a type, `depth` levels of it."""
        return " | ".join(self._kind_as_type(kind, depth) for kind in self.kinds)

    def _kind_as_type(self, kind: str, depth: int) -> str:
        if kind == "array":
            return "[]" if self.items is None else f"[{self.items.as_type(depth - 1)}]" if depth else "[…]"
        if kind != "object":
            return kind
        if not self.keys:
            return "{}"
        if not depth:
            return "{…}"
        named = list(self.keys.items())[:MAX_KEYS]
        members = [f"{_key_text(key)}{self._optional_mark(item)}: {item.as_type(depth - 1)}" for key, item in named]
        if rest := len(self.keys) - len(named) + self.omitted_keys:
            members.append(f"… {rest} more")
        return f"{{{', '.join(members)}}}"

    def _optional_mark(self, item: _Shape) -> str:
        return "" if sum(item.kinds.values()) == self.kinds["object"] else "?"


def _key_text(key: str) -> str:
    if not _PLAIN_KEY.fullmatch(key):
        key = json.dumps(key, ensure_ascii=False)
    return key if len(key) <= _MAX_KEY else f"{key[:_MAX_KEY]}…"
