"""What the package `starlark` gets wrong, and scripts may rely on; importing this module puts it right.

A list that is extended by itself grows until the memory is full, and a few methods take their own receiver for an
argument of the same name: `"{s}".format(s=1)`. A built-in function that goes through a whole range, list or text is one
step to it, however long that takes; here elements count. And it imports a module whenever it counts bytes, which takes
half of the time of a script that computes.
"""

# pyright: reportPrivateUsage=false, reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sized
from itertools import islice
from typing import Any, Final

from starlark.eval import builtins, evaluator, json_module, values
from starlark.eval.collection_methods import d_update
from starlark.eval.limits import ALLOC_LIST_ELEM, MAX_CONTAINER_ELEMENTS, check_container_size
from starlark.eval.methods import register_dict_method, register_string_method
from starlark.eval.string_methods import _format_impl
from starlark.eval.values import Dict, Range, StarlarkList, StarlarkSet

FEW: Final = 1024
"""Numbers of a range that are counted at once."""


def _extend(items: StarlarkList, more: Iterable[Any]) -> None:
    items.mutability.check("list")
    if isinstance(more, (StarlarkList, Dict, StarlarkSet, Range, tuple)):
        check_container_size(len(items) + len(more))
    room = max(0, MAX_CONTAINER_ELEMENTS - len(items))
    _visit(len(more) if isinstance(more, Sized) and not isinstance(more, Range) else 0)
    added = list(islice(more, room + 1))  # whole before any is added: it may be the list itself
    check_container_size(len(items) + len(added))
    _allocate(ALLOC_LIST_ELEM * len(added))
    items._data.extend(added)


def _allocate(size: int) -> None:
    """Count bytes against the memory of the script that runs."""
    thread = builtins.current_thread()
    if thread is not None:
        thread.meter.allocate(size)


def _visit(elements: int) -> None:
    """Count elements against the steps of the script that runs."""
    thread = builtins.current_thread()
    if thread is not None:
        thread.meter.visit(elements)


def _numbers(numbers: Range) -> Iterator[int]:
    """The numbers of a range, counted as they are taken."""
    counted = range(numbers.start, numbers.stop, numbers.step)
    if counted[FEW:]:
        return _counted(counted)
    _visit(len(counted))
    return iter(counted)


def _counted(numbers: range) -> Iterator[int]:
    while part := numbers[:FEW]:
        _visit(len(part))
        yield from part
        numbers = numbers[FEW:]


def _elements(value: Any) -> Iterator[Any]:
    """What a built-in function iterates over; a range counts for itself."""
    if not isinstance(value, (Range, str)) and isinstance(value, Sized):
        _visit(len(value))
    return _to_iter(value)


def _repr(value: Any, *seen: Any) -> str:
    _visit(1)
    return _repr_starlark(value, *seen)


def _encode(value: Any, *to: Any) -> None:
    _visit(len(value) if isinstance(value, str) else 1)
    _encode_value(value, *to)


def _decode(source: Any) -> Any:
    _visit(len(source) if isinstance(source, str) else 0)
    return _decode_text(source)


def _format(text: str, /, *positional: Any, **named: Any) -> str:
    return _format_impl(text, positional, named)


def _update(target: Dict, /, *positional: Any, **named: Any) -> None:
    d_update(target, *positional)
    target.mutability.check("dict")
    for key, value in named.items():
        target[key] = value


_to_iter, _repr_starlark = builtins._to_iter, values.repr_starlark
_encode_value, _decode_text = json_module._encode_value, json_module.decode
builtins._to_iter, values.repr_starlark = _elements, _repr
json_module._encode_value, json_module.decode = _encode, _decode
values._charge = evaluator._charge_thread_alloc = _allocate
Range.__iter__ = _numbers  # pyright: ignore[reportAttributeAccessIssue]
StarlarkList.extend = _extend  # pyright: ignore[reportAttributeAccessIssue]
register_string_method("format", _format)
register_dict_method("update", _update)
