"""YAML 1.2 by its core schema, as data that JSON can have: PyYAML reads YAML 1.1, in which `no` is false and `1:30` 90.

Keys are texts, as they are written: `200:` is "200".
"""

from __future__ import annotations

import math
import re
from collections.abc import Hashable
from typing import Any, Final, cast

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


class CoreDumper(yaml.SafeDumper):
    """Writes texts so that they are texts in YAML 1.1 and 1.2."""

    yaml_implicit_resolvers: Any = {  # noqa: RUF012 - as PyYAML has it
        first: [*yaml.SafeDumper.yaml_implicit_resolvers.get(first, ()), *_RESOLVERS.get(first, ())]
        for first in yaml.SafeDumper.yaml_implicit_resolvers.keys() | _RESOLVERS.keys()
    }
