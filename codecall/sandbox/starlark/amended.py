"""What the package `starlark` gets wrong, and scripts may rely on; importing this module puts it right.

A list that is extended by itself grows until the memory is full, and a few methods take their own receiver for an
argument of the same name: `"{s}".format(s=1)`.
"""

# pyright: reportPrivateUsage=false, reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any

from starlark.eval.collection_methods import d_update
from starlark.eval.limits import ALLOC_LIST_ELEM, MAX_CONTAINER_ELEMENTS, check_container_size
from starlark.eval.methods import register_dict_method, register_string_method
from starlark.eval.string_methods import _format_impl
from starlark.eval.values import Dict, Range, StarlarkList, StarlarkSet, _charge


def _extend(items: StarlarkList, more: Iterable[Any]) -> None:
    items.mutability.check("list")
    if isinstance(more, (StarlarkList, Dict, StarlarkSet, Range, tuple)):
        check_container_size(len(items) + len(more))
    room = max(0, MAX_CONTAINER_ELEMENTS - len(items))
    added = list(islice(more, room + 1))  # whole before any is added: it may be the list itself
    check_container_size(len(items) + len(added))
    _charge(ALLOC_LIST_ELEM * len(added))
    items._data.extend(added)


def _format(text: str, /, *positional: Any, **named: Any) -> str:
    return _format_impl(text, positional, named)


def _update(target: Dict, /, *positional: Any, **named: Any) -> None:
    d_update(target, *positional)
    target.mutability.check("dict")
    for key, value in named.items():
        target[key] = value


StarlarkList.extend = _extend  # pyright: ignore[reportAttributeAccessIssue]
register_string_method("format", _format)
register_dict_method("update", _update)
