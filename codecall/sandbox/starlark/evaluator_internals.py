"""What the package `starlark` gets wrong, and scripts may rely on; importing this module puts it right. And the places
of a script in the evaluator's stack.

A list that is extended by itself grows until the memory is full, and a few methods take their own receiver for an
argument of the same name: `"{s}".format(s=1)`. A built-in function that goes through a whole range, list or text is one
step to it, however long that takes; here elements count. And it imports a module whenever it counts bytes, which takes
half of the time of a script that computes.

Private names of starlark 0.6 that this file uses, since there is no public way: `_format_impl`, `_to_iter` and
`_encode_value`, which are called with other arguments or count elements first; `_data`, the items of a list; `_charge`
and `_charge_thread_alloc`, which are replaced; `_eval_expr` and `_exec_stmt`, whose frames hold the node that is
evaluated as `expr` and `stmt`, with its place; the local variables `self` and `key` of methods of dicts; and `obj` and
`idx` of `_index_get`, which reads `value[key]`.
"""

# pyright: reportPrivateUsage=false, reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping, Sized
from itertools import islice
from types import CodeType, FrameType, TracebackType
from typing import Any, Final

from starlark.eval import builtins, evaluator, json_module, values
from starlark.eval.collection_methods import d_update
from starlark.eval.limits import ALLOC_LIST_ELEM, MAX_CONTAINER_ELEMENTS, check_container_size
from starlark.eval.methods import register_dict_method, register_string_method
from starlark.eval.string_methods import _format_impl
from starlark.eval.values import Dict, Range, StarlarkList, StarlarkSet

FEW: Final = 1024
"""Numbers of a range that are counted at once."""

_NODES: Final[Mapping[CodeType, str]] = {evaluator._eval_expr.__code__: "expr", evaluator._exec_stmt.__code__: "stmt"}
"""Functions of the evaluator that stand for a place in the script, and their variable that holds the node."""


_INDEX: Final = evaluator._index_get.__code__
"""The function that reads `value[key]`."""


def innermost_offset(trace: TracebackType | None) -> int | None:
    """The offset in the script of the innermost expression or statement in a traceback."""
    offset: int | None = None
    while trace is not None:
        offset = _offset(trace.tb_frame, offset)
        trace = trace.tb_next
    return offset


def calling_offset() -> int | None:
    """The offset of the call that the script is in."""
    frame: FrameType | None = inspect.currentframe()
    while frame is not None:
        if _NODES.get(frame.f_code) == "expr":
            return _offset(frame, None)
        frame = frame.f_back
    return None


def _offset(frame: FrameType, default: int | None) -> int | None:
    name = _NODES.get(frame.f_code)
    node = frame.f_locals.get(name) if name is not None else None
    start = getattr(node, "start", None)
    # The function around the script has no place in it.
    return start if isinstance(start, int) and node is not None else default


def dict_and_key(trace: TracebackType | None) -> tuple[Dict, object] | None:
    """The dict of whose method the innermost frame of a traceback is, and the key that the method looks up."""
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    values = trace.tb_frame.f_locals if trace is not None else {}
    owner = values.get("self")
    return (owner, values.get("key")) if isinstance(owner, Dict) else None


def list_and_index(trace: TracebackType | None) -> tuple[StarlarkList, object] | None:
    """The list of which the innermost frame of a traceback reads an item, and by what."""
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    values = trace.tb_frame.f_locals if trace is not None and trace.tb_frame.f_code is _INDEX else {}
    owner = values.get("obj")
    return (owner, values.get("idx")) if isinstance(owner, StarlarkList) else None


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
    return _plain_iter(value)


def _repr(value: Any, *seen: Any) -> str:
    _visit(1)
    return _plain_repr(value, *seen)


def _encode(value: Any, *to: Any) -> None:
    _visit(len(value) if isinstance(value, str) else 1)
    _plain_encode(value, *to)


def _decode(source: Any) -> Any:
    _visit(len(source) if isinstance(source, str) else 0)
    return _plain_decode(source)


def _format(text: str, /, *positional: Any, **named: Any) -> str:
    return _format_impl(text, positional, named)


def _update(target: Dict, /, *positional: Any, **named: Any) -> None:
    d_update(target, *positional)
    target.mutability.check("dict")
    for key, value in named.items():
        target[key] = value


_plain_iter, _plain_repr = builtins._to_iter, values.repr_starlark
_plain_encode, _plain_decode = json_module._encode_value, json_module.decode
builtins._to_iter, values.repr_starlark = _elements, _repr
json_module._encode_value, json_module.decode = _encode, _decode
values._charge = evaluator._charge_thread_alloc = _allocate
Range.__iter__ = _numbers  # pyright: ignore[reportAttributeAccessIssue]
StarlarkList.extend = _extend  # pyright: ignore[reportAttributeAccessIssue]
register_string_method("format", _format)
register_dict_method("update", _update)
