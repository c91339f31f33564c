"""What a template reads of its data, by the parser of gotpl, which is not documented: its fields, by name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import lru_cache
from typing import NamedTuple, cast

from gotpl import TemplateError as EngineError
from gotpl.parse.nodes import (
    ActionNode,
    CommandNode,
    DefinitionNode,
    FieldNode,
    IdentifierNode,
    RangeNode,
    StringNode,
    TextNode,
    VariableNode,
    WithNode,
)
from gotpl.parse.parser import parse_template

from codecall.composite.definition import MISSING
from codecall.composite.templates.functions import FUNCTIONS


def is_template(text: str) -> bool:
    """Whether a text has anything to render."""
    return "{{" in text


def find_field(data: Mapping[str, object], fields: Iterable[str]) -> object:
    """The value of a field of the data; `MISSING` where it is not there."""
    value: object = data
    for name in fields:
        if not isinstance(value, Mapping) or name not in value:
            return MISSING
        value = value[name]  # pyright: ignore[reportUnknownVariableType]
    return value  # pyright: ignore[reportUnknownVariableType]


@lru_cache(maxsize=4_096)
def only_field(text: str) -> tuple[str, ...] | None:
    """The field that a template is and nothing else, as `{{.params.name}}` or `{{json .params.name}}`."""
    try:
        nodes = parse_template(text, functions=FUNCTIONS).root.nodes
    except (EngineError, RecursionError):
        return None
    actions = [node for node in nodes if not (isinstance(node, TextNode) and not node.text.strip())]
    if len(actions) != 1 or not isinstance(node := actions[0], ActionNode) or node.pipeline.declarations:
        return None
    match node.pipeline.commands:
        case (CommandNode(arguments=(FieldNode(fields=names),)),):
            return names
        case (CommandNode(arguments=(IdentifierNode(name="json"), FieldNode(fields=names))),):
            return names
        case (CommandNode(arguments=(IdentifierNode(name="index"), FieldNode(), *keys)) as command,) if all(
            isinstance(key, StringNode) for key in keys
        ):
            return next(_walk(command, _Scope())).fields
        case _:
            return None


class Reference(NamedTuple):
    """A field that a template reads."""

    fields: tuple[str, ...]
    """Such as `("steps", "fetch", "output", "data")`."""


@lru_cache(maxsize=4_096)
def references(text: str) -> tuple[Reference, ...]:
    """The fields of the data that a template reads, as far as they are written out; none where it is no template."""
    if not is_template(text):
        return ()
    try:
        parsed = parse_template(text, functions=FUNCTIONS)
    except (EngineError, RecursionError):
        return ()
    return tuple(dict.fromkeys(_walk(parsed, _Scope())))


@dataclass(frozen=True, slots=True)
class _Scope:
    """What the dot stands for at a place of a template."""

    at_root: bool = True


def _walk(node: object, scope: _Scope) -> Iterator[Reference]:
    match node:
        case FieldNode(fields=names) if scope.at_root:
            yield Reference(names)
        case VariableNode(name="$", fields=names):
            yield Reference(names)
        case CommandNode(arguments=(IdentifierNode(name="index"), first, *keys)):
            base = next(iter(_walk(first, scope)), None) if isinstance(first, (FieldNode, VariableNode)) else None
            if base is None:
                yield from _walk_all(node, scope)
                return
            names = list(base.fields)
            for key in keys:
                if not isinstance(key, StringNode):
                    break
                names.append(key.value)
            yield Reference(tuple(names))
            for key in keys:
                yield from _walk(key, scope)
        case WithNode() | RangeNode():
            yield from _walk(node.pipeline, scope)
            yield from _walk(node.body, _Scope(at_root=False))
            yield from _walk(node.else_body, scope)
        case DefinitionNode():
            yield from _walk(node.body, _Scope(at_root=False))
        case _:
            yield from _walk_all(node, scope)


def _walk_all(node: object, scope: _Scope) -> Iterator[Reference]:
    if isinstance(node, tuple):
        for item in cast("tuple[object, ...]", node):
            yield from _walk(item, scope)
    elif is_dataclass(node):
        for each in fields(node):
            value = getattr(node, each.name)
            if isinstance(value, tuple) or is_dataclass(value):
                yield from _walk(cast("object", value), scope)
