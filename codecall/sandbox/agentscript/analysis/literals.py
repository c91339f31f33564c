"""What a literal in a script will be as JSON, as far as it can be read: the form is in `sandbox/known.py`.

It follows what the prelude makes of an input: undefined and functions are left out of objects and null in arrays, what
is no finite number is null. Whatever is not sure to be what it looks like is a gap.
"""

from __future__ import annotations

import json
import math
from typing import Final

from codecall.sandbox.agentscript.parser.esprima import Node
from codecall.sandbox.agentscript.validator.names import literal_key, literal_text
from codecall.sandbox.agentscript.validator.walk import PREFIX_LENGTH
from codecall.schema.partial import MAX_VALUES

MAX_TEXT: Final = 10_000
"""Longest text that is known by its characters; what a preset allows is no less."""

PERHAPS: Final[list[object]] = []
PRESENT: Final[list[object]] = [0]

_ABSENT: Final = object()
_OBJECT, _PARTIAL, _ARRAY, _SOME = 1, 2, 3, 4

_MAX_SAFE: Final = 2**53

_FUNCTIONS: Final = frozenset({"ArrowFunctionExpression", "FunctionExpression", "ClassExpression"})
_ALWAYS_PRESENT: Final = frozenset({"BinaryExpression", "NewExpression", "TemplateLiteral", "UpdateExpression"})


class _TooMuchError(Exception):
    """The input has more than `MAX_VALUES`."""


def partial_input(node: Node | None) -> str | None:
    """What is known of the input of a call, as JSON text; None where it is no literal.

    Args:
        node: the expression in the place of the input, None where there is none.
    """
    if node is None or _is_undefined(node) or _is_null(node):
        return f"[{_OBJECT},{{}}]"
    if node.type != "ObjectExpression":
        return None
    try:
        return _written(_Reader().object(node))
    except _TooMuchError:
        return None


def _written(data: list[object]) -> str:
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"))


class _Reader:
    """Reads one input."""

    def __init__(self) -> None:
        self._left = MAX_VALUES

    def object(self, node: Node) -> list[object]:
        """An object literal."""
        members: dict[str, list[object]] = {}
        mark = _OBJECT
        for item in node.properties:
            self._count()
            key = _key(item)
            if key is None or not _sendable(key):
                # It may stand for any of those before it, and for none: `{ limit: 5, ...{ limit: undefined } }`.
                mark = _PARTIAL
                members = {name: [offset, PERHAPS] for name, (offset, _) in members.items()}
                continue
            value = PERHAPS if item.kind != "init" else self._value(item.value)
            members.pop(key, None)
            if value is not _ABSENT:
                members[key] = [item.range[0] - PREFIX_LENGTH, value]
        return [mark, members]

    def _count(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise _TooMuchError

    def _value(self, node: Node) -> object:
        kind: str = node.type
        match kind:
            case "Literal":
                value = _scalar(node)
            case "ObjectExpression":
                value = self.object(node)
            case "ArrayExpression":
                value = self._array(node)
            case "UnaryExpression":
                value = _unary(node)
            case _ if kind in _FUNCTIONS or _is_undefined(node):
                value = _ABSENT
            case _ if (text := literal_text(node)) is not None:
                value = _text(text)
            case _:
                value = PRESENT if kind in _ALWAYS_PRESENT else PERHAPS
        return value

    def _array(self, node: Node) -> list[object]:
        mark, items = _ARRAY, list[object]()
        for item in node.elements:
            self._count()
            if item is not None and item.type == "SpreadElement":
                mark = _SOME
                continue
            value = None if item is None else self._value(item)
            items.append(None if value is _ABSENT else PRESENT if value is PERHAPS else value)
        return [mark, items]


def _key(item: Node) -> str | None:
    """The name of a member; None for a spread and for what is not known."""
    if item.type != "Property":
        return None
    return literal_key(item.key, computed=item.computed)


def _scalar(node: Node) -> object:
    if "regex" in vars(node) or node.raw.endswith("n"):
        return PRESENT  # texts, as the prelude writes them
    value: object = node.value
    if isinstance(value, str):
        return _text(value)
    return _number(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def _number(value: float) -> object:
    if not math.isfinite(value):
        return None
    if abs(value) > _MAX_SAFE:
        return PRESENT
    return int(value) if value == int(value) else value


def _unary(node: Node) -> object:
    argument: Node = node.argument
    if node.operator == "void":
        return _ABSENT
    if node.operator in {"-", "+"} and argument.type == "Literal":
        value: object = argument.value
        if isinstance(value, int | float) and not isinstance(value, bool) and not argument.raw.endswith("n"):
            return _number(-value if node.operator == "-" else value)
    return PRESENT


def _text(text: str) -> object:
    return text if len(text) <= MAX_TEXT and _sendable(text) else PRESENT


def _sendable(text: str) -> bool:
    """Whether it is Unicode text, which half a surrogate pair is not."""
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)


def _is_undefined(node: Node) -> bool:
    return node.type == "Identifier" and node.name == "undefined"


def _is_null(node: Node) -> bool:
    return node.type == "Literal" and node.raw == "null"
