"""YAML 1.2 by its core schema, as data that JSON can have: PyYAML reads YAML 1.1, in which `no` is false and `1:30` 90.

Keys are texts, as they are written: `200:` is "200".
"""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, cast

import yaml

MAX_DIGITS: Final = 100
"""Characters of a number; a longer one stays a text. Python has no limit for hexadecimal numbers, and cannot write all
of them down."""

FAST_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""PyYAML's loader in C; builds of PyYAML without libyaml have none."""

_TAG: Final = "tag:yaml.org,2002:"
_INT: Final = r"[-+]?[0-9]++|0o[0-7]++|0x[0-9a-fA-F]++"
_FLOAT: Final = r"[-+]?(?:\.[0-9]++|[0-9]++(?:\.[0-9]*+)?+)(?:[eE][-+]?[0-9]++)?+"
_SCALARS: Final = (
    ("null", r"null|Null|NULL|~|", ["n", "N", "~", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", [*"tTfF"]),
    ("int", _INT, [*"-+0123456789"]),
    ("float", _FLOAT, [*"-+.0123456789"]),
    ("merge", r"<<", ["<"]),
)
"""The plain scalars that are no texts: their tags, patterns, and first characters. Merges are not of the core schema,
and many people write them all the same; infinity and NaN are, and JSON has neither."""

_SCALAR_TAGS: Final = {f"{_TAG}{tag}" for tag in ("null", "bool", "int", "float")}

_RESOLVERS: Final = {
    first: [
        (f"{_TAG}{tag}", re.compile(rf"(?:{pattern})\Z"))
        for tag, pattern, characters in _SCALARS
        if first in characters
    ]
    for _, _, firsts in _SCALARS
    for first in firsts
}


def _null(_loader: yaml.SafeLoader, _node: yaml.Node) -> None:
    return None


def _bool(_loader: yaml.SafeLoader, node: yaml.ScalarNode) -> bool:
    return str(node.value).lower() == "true"


def _number(_loader: yaml.SafeLoader, node: yaml.ScalarNode) -> int | float | str:
    text = str(node.value)
    if len(text) > MAX_DIGITS:
        return text
    if node.tag == f"{_TAG}int":
        return int(text, {"0o": 8, "0x": 16}.get(text[:2], 10))
    return number if math.isfinite(number := float(text)) else text


class _CoreSchema:
    """What makes a loader of PyYAML one of YAML 1.2."""

    yaml_implicit_resolvers: Any = _RESOLVERS
    yaml_constructors: Any = {  # noqa: RUF012 - as PyYAML has it
        **{tag: yaml.SafeLoader.yaml_constructors[tag] for tag in (f"{_TAG}map", f"{_TAG}seq", f"{_TAG}str", None)},
        f"{_TAG}null": _null,
        f"{_TAG}bool": _bool,
        f"{_TAG}int": _number,
        f"{_TAG}float": _number,
    }

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Hashable, Any]:
        """See `SafeConstructor.construct_mapping`."""
        if not isinstance(node, yaml.MappingNode):
            raise yaml.constructor.ConstructorError(
                problem="what is no mapping is said to be one", problem_mark=node.start_mark
            )
        loader = cast("yaml.constructor.SafeConstructor", self)
        loader.flatten_mapping(node)
        node.value = [(_text(key) if isinstance(key, yaml.ScalarNode) else key, value) for key, value in node.value]
        return yaml.constructor.SafeConstructor.construct_mapping(loader, node, deep=deep)


class CoreLoader(_CoreSchema, yaml.SafeLoader):
    """Loads YAML 1.2, and says of mistakes what a person can mend."""


class FastCoreLoader(_CoreSchema, FAST_LOADER):
    """Loads YAML 1.2 by libyaml, where PyYAML has it: several times faster."""


def _text(node: yaml.ScalarNode) -> yaml.ScalarNode:
    """A scalar as a text; the node itself may be a value elsewhere."""
    return yaml.ScalarNode(f"{_TAG}str", node.value, node.start_mark)


def read_quickly(text: str, *, as_text: Sequence[str] = ()) -> object:
    """What one document of YAML holds, as `FastCoreLoader` reads it.

    It is made right from the events: PyYAML makes a tree of nodes first, which take many times the memory and the time,
    and hold the interpreter for seconds each time that garbage is collected.

    Args:
        text: of the document.
        as_text: names of members, each within the one before, of which the last is a text as it is written.

    Raises:
        YAMLError, ValueError: it is no YAML, or more than JSON can have.
    """
    return _EventReader(text, as_text).read()


class _Scalar(NamedTuple):
    text: str
    tag: str


@dataclass
class _Open:
    """A collection that has not ended."""

    items: Any
    """A list or a dictionary."""
    is_mapping: bool
    anchor: str | None
    key: _Scalar | None = None
    """In a dictionary, of the value that comes next."""
    merged: list[dict[str, Any]] = field(default_factory=list)


class _EventReader:
    """Makes the data of a document from its events."""

    def __init__(self, text: str, as_text: Sequence[str]) -> None:
        self._loader = cast("Any", FastCoreLoader)(text)
        self._as_text = list(as_text)
        self._anchors: dict[str, Any] = {}
        """Scalars as `_Scalar`, collections as they are."""
        self._anchor_names: set[str] = set()
        """Those too of collections that have not ended."""
        self._open: list[_Open] = []
        self._root: object = None

    def read(self) -> object:
        documents = 0
        while not isinstance(event := self._loader.get_event(), yaml.StreamEndEvent):
            if isinstance(event, yaml.ScalarEvent):
                self._add_scalar(event)
            elif isinstance(event, yaml.CollectionStartEvent):
                is_list = isinstance(event, yaml.SequenceStartEvent)
                if event.tag not in (None, "!", f"{_TAG}seq" if is_list else f"{_TAG}map"):
                    raise _refusal("a list or a mapping has another tag", event)
                self._open.append(_Open([] if is_list else {}, not is_list, self._new_anchor(event)))
            elif isinstance(event, yaml.CollectionEndEvent):
                self._end_collection(event)
            elif isinstance(event, yaml.AliasEvent):
                if event.anchor not in self._anchors:
                    raise _refusal("found undefined alias", event)
                self._add(self._anchors[event.anchor], event)
            elif isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise _refusal("expected a single document", event)
        return self._root

    def _new_anchor(self, event: Any) -> str | None:
        anchor: str | None = event.anchor
        if anchor is not None:
            if anchor in self._anchor_names:
                raise _refusal("found duplicate anchor", event)
            self._anchor_names.add(anchor)
        return anchor

    def _add_scalar(self, event: Any) -> None:
        tag = event.tag
        if tag is None or tag == "!":
            tag = self._loader.resolve(yaml.ScalarNode, event.value, event.implicit)
        scalar = _Scalar(event.value, tag)
        if (anchor := self._new_anchor(event)) is not None:
            self._anchors[anchor] = scalar
        self._add(scalar, event)

    def _end_collection(self, event: Any) -> None:
        ended = self._open.pop()
        merged: dict[str, Any] = {}
        for each in ended.merged:
            merged = {**merged, **{key: value for key, value in each.items() if key not in merged}}
        items = {**merged, **ended.items} if merged else ended.items
        if ended.anchor is not None:
            self._anchors[ended.anchor] = items
        self._add(items, event)

    def _add(self, found: Any, event: Any) -> None:
        """Add a scalar or a collection to the one that it stands in."""
        around = self._open[-1] if self._open else None
        if around is not None and around.is_mapping and around.key is None:
            if not isinstance(found, _Scalar):
                raise _refusal("found unhashable key", event)
            around.key = found
            return
        value = self._value(found, event) if isinstance(found, _Scalar) else found
        if around is None:
            self._root = value
        elif around.key is None:
            around.items.append(value)
        else:
            if around.key.tag == f"{_TAG}merge":
                each = cast("list[Any]", value if isinstance(value, list) else [value])
                if not all(isinstance(mapping, dict) for mapping in each):
                    raise _refusal("expected a mapping or a list of mappings for merging", event)
                around.merged += each
            else:
                around.items[around.key.text] = value
            around.key = None

    def _value(self, scalar: _Scalar, event: Any) -> object:
        text, tag = scalar
        if tag == f"{_TAG}str" or (tag != f"{_TAG}null" and self._is_as_text()):
            return text
        if tag not in _SCALAR_TAGS:
            raise _refusal("a value has a tag that JSON has no type for", event)
        node = yaml.ScalarNode(tag, text)
        return _CoreSchema.yaml_constructors[tag](self._loader, node)

    def _is_as_text(self) -> bool:
        if not self._open or len(self._open) != len(self._as_text):
            return False
        return [around.key and around.key.text for around in self._open] == self._as_text


def _refusal(problem: str, event: Any) -> yaml.constructor.ConstructorError:
    return yaml.constructor.ConstructorError(problem=problem, problem_mark=event.start_mark)


class CoreDumper(yaml.SafeDumper):
    """Writes texts so that they are texts in YAML 1.1 and 1.2."""

    yaml_implicit_resolvers: Any = {  # noqa: RUF012 - as PyYAML has it
        first: [*yaml.SafeDumper.yaml_implicit_resolvers.get(first, ()), *_RESOLVERS.get(first, ())]
        for first in yaml.SafeDumper.yaml_implicit_resolvers.keys() | _RESOLVERS.keys()
    }
