"""What tools held at one moment, to be compared with what they hold now: many at once, and quickly."""

from __future__ import annotations

import marshal
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from operator import is_
from typing import Any, NamedTuple, cast

from fastmcp.tools import Tool

PAGE = 1_000
"""Tools compared before other tasks of the event loop get their turn: about 0.5 ms, 5 ms where one is taken."""

_values = dict[str, object].values


class UnknownError(Exception):
    """Something that cannot be compared."""


class Page(NamedTuple):
    """Some tools with the same fields, and what they held at one moment."""

    tools: list[Tool]
    names: tuple[str, ...]
    """Of their fields, in the order in which each tool holds them."""
    fields: list[object]
    """Of all tools, one after the other."""
    metas: list[dict[str, object] | None]
    tags: list[set[str]]
    exact: list[tuple[Tool, bytes]]
    """Those whose `meta` has numbers in it: 1 and True are equal and yet differ."""

    @classmethod
    def of(cls, tools: list[Tool], names: tuple[str, ...]) -> Page:
        """What these tools hold now."""
        metas: list[dict[str, object] | None] = []
        exact: list[tuple[Tool, bytes]] = []
        for tool in tools:
            if tool.meta is None:
                metas.append(None)
                continue
            written = _written(tool.meta)
            metas.append(marshal.loads(written))  # noqa: S302 - written in the line above
            if _has_numbers(metas[-1]):
                exact.append((tool, written))
        return cls(tools, names, _fields(tools), metas, [set(tool.tags) for tool in tools], exact)

    def holds(self) -> bool:
        """Whether they hold it still. Lists compare their members by identity first, so this is quick."""
        fields = _fields(self.tools)
        return (
            fields == self.fields
            # Equal schemas may still differ, as 1 and True do.
            and same(self._column("parameters", fields), self._column("parameters", self.fields))
            and same(self._column("output_schema", fields), self._column("output_schema", self.fields))
            and self._column("meta", fields) == self.metas
            and self._column("tags", fields) == self.tags
            and all(_written(tool.meta) == written for tool, written in self.exact)
        )

    def _column(self, name: str, fields: list[object]) -> list[object]:
        return fields[self.names.index(name) :: len(self.names)]


def pages_of(tools: list[Tool]) -> Iterator[tuple[list[Tool], tuple[str, ...]]]:
    """Tools that have the same fields, so many at a time, and the names of these."""
    alike: dict[tuple[str, ...], list[Tool]] = {}
    for tool in tools:
        alike.setdefault(tuple(vars(tool)), []).append(tool)
    for names, group in alike.items():
        for start in range(0, len(group), PAGE):
            yield group[start : start + PAGE], names


def _fields(tools: list[Tool]) -> list[object]:
    """Every field of every tool, one after the other."""
    return list(chain.from_iterable(map(_values, map(vars, tools))))


def same(one: Sequence[object], other: Sequence[object]) -> bool:
    """Whether both hold the very same objects."""
    return len(one) == len(other) and all(map(is_, one, other))


def _written(meta: dict[str, Any] | None) -> bytes:
    try:
        return marshal.dumps(meta, 2)  # 2: the last version whose output is decided by the content alone
    except ValueError:
        raise UnknownError from None


def _has_numbers(value: object) -> bool:
    if isinstance(value, dict):
        return any(map(_has_numbers, chain.from_iterable(cast("Mapping[object, object]", value).items())))
    if isinstance(value, (list, tuple, set, frozenset)):
        return any(map(_has_numbers, cast("Sequence[object]", value)))
    return isinstance(value, (int, float, complex))
