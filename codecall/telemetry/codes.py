"""Error codes as OpenTelemetry is told them: those that CodeCall has. A tool may give any text for its code."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Final, get_args

from codecall.errors import CodeCallError, LimitCode

OTHER: Final = "_OTHER"
"""The conventions' word for an error that has no name here."""


def error_type(code: object) -> str | None:
    """`error.type` for an error of that code; None for None."""
    if code is None:
        return None
    return code if isinstance(code, str) and code in _known() else OTHER


@cache
def _known() -> frozenset[str]:
    return frozenset((*get_args(LimitCode), *(kind.code for kind in _kinds(CodeCallError))))


def _kinds(root: type[CodeCallError]) -> Iterator[type[CodeCallError]]:
    yield root
    for kind in root.__subclasses__():
        yield from _kinds(kind)
