"""JavaScript of CodeCall's own, compiled once per process tree and loaded into each engine as bytecode.

The binding offers neither, but its shared library exports the engine's C interface, which ctypes calls. Bytecode is as
good as native code to the engine: it is not verified when it is loaded. So what is loaded is what this module compiled
itself, in this process or in the one it was forked from: bytes never come from a file, a pipe or a script. Where
anything is not as expected (another build of the binding, a platform without the exports), each engine compiles the
text.

Text that is loaded here must not call functions of Python: the binding would not know that an engine is running.
"""

from __future__ import annotations

import ctypes
import re
import sys
from collections.abc import Callable
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

import _quickjs as quickjs  # pyright: ignore[reportMissingTypeStubs]

MAX_PROGRAMS: Final = 64
"""Texts whose bytecode is kept; there are three for each set of limits that a worker sees."""

GC_THRESHOLD: Final = 1 << 20
"""Bytes of a heap at which the engine first looks for garbage. While the runtime is put together there is none; at the
engine's own threshold, 256 KiB, it would look twice."""

_FILE: Final = b"<input>"
"""What the binding calls the texts that it compiles; stacks name it."""

_LOADED: Final = b"$loaded"
"""A global that holds a value on its way to Python, for as long as that takes."""

_TAG_EXCEPTION: Final = 6
_COMPILE_ONLY: Final = 1 << 5
_WRITE_BYTECODE: Final = 1 << 0
_STRIP_SOURCE: Final = 1 << 4
_READ_BYTECODE: Final = 1 << 0
"""Values of `quickjs.h`: `JS_TAG_EXCEPTION`, `JS_EVAL_FLAG_COMPILE_ONLY`, `JS_WRITE_OBJ_BYTECODE`,
`JS_WRITE_OBJ_STRIP_SOURCE`, `JS_READ_OBJ_BYTECODE`. A self-check finds out whether they mean what they say here."""

_RUNTIME_OFFSET: Final = 2 * ctypes.sizeof(ctypes.c_void_p)
_CONTEXT_OFFSET: Final = 3 * ctypes.sizeof(ctypes.c_void_p)
"""Where a `Context` of the binding has its two pointers: right after the head of every Python object."""


_new_engine: Final = cast("Callable[[], Any]", quickjs.Context)


class _Value(ctypes.Structure):
    """`JSValue` on machines of 64 bits."""

    _fields_ = [("payload", ctypes.c_int64), ("tag", ctypes.c_int64)]
    tag: int


_POINTER, _SIZE, _INT = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
_SIGNATURES: Final[dict[str, tuple[Any, list[Any]]]] = {
    "JS_GetRuntime": (_POINTER, [_POINTER]),
    "JS_SetGCThreshold": (None, [_POINTER, _SIZE]),
    "JS_Eval": (_Value, [_POINTER, ctypes.c_char_p, _SIZE, ctypes.c_char_p, _INT]),
    "JS_WriteObject": (_POINTER, [_POINTER, ctypes.POINTER(_SIZE), _Value, _INT]),
    "JS_ReadObject": (_Value, [_POINTER, ctypes.c_char_p, _SIZE, _INT]),
    "JS_EvalFunction": (_Value, [_POINTER, _Value]),
    "JS_GetGlobalObject": (_Value, [_POINTER]),
    "JS_SetPropertyStr": (_INT, [_POINTER, _Value, ctypes.c_char_p, _Value]),
    "JS_NewAtom": (ctypes.c_uint32, [_POINTER, ctypes.c_char_p]),
    "JS_DeleteProperty": (_INT, [_POINTER, _Value, ctypes.c_uint32, _INT]),
    "JS_FreeAtom": (None, [_POINTER, ctypes.c_uint32]),
    "JS_FreeValue": (None, [_POINTER, _Value]),
    "js_free": (None, [_POINTER, _POINTER]),
}


class _Pointers(NamedTuple):
    """The C objects behind an engine."""

    runtime: int
    context: int


def load(engine: Any, text: str) -> Any:
    """What `text` evaluates to in `engine`: an object or a function.

    Args:
        engine: a `Context` of the binding.
        text: JavaScript that CodeCall has written. Never that of a script.

    Raises:
        quickjs.JSException: the text throws.
    """
    library = _library()
    code = None if library is None else _compiled(text)
    # A failure here is one of memory, most likely: compiling the text says so in the binding's words.
    return engine.eval(text) if code is None or not _evaluate(library, engine, code) else _take(library, engine)


def defer_collection(engine: Any) -> None:
    """Let `engine` grow to `GC_THRESHOLD` before it looks for garbage."""
    library = _library()
    if library is not None:
        library.JS_SetGCThreshold(_pointers(engine).runtime, GC_THRESHOLD)


@lru_cache(MAX_PROGRAMS)
def _compiled(text: str) -> bytes | None:
    return _compile(_library(), text)


def _compile(library: Any, text: str) -> bytes | None:
    """The bytecode of `text`, without its source; None if the engine refuses."""
    engine = _new_engine()
    context = _pointers(engine).context
    source = text.encode()
    function = library.JS_Eval(context, source, len(source), _FILE, _COMPILE_ONLY)
    if function.tag == _TAG_EXCEPTION:
        return None
    size = _SIZE()
    written = library.JS_WriteObject(context, ctypes.byref(size), function, _WRITE_BYTECODE | _STRIP_SOURCE)
    library.JS_FreeValue(context, function)
    if not written:
        return None
    code = ctypes.string_at(written, size.value)
    library.js_free(context, written)
    return code


def _evaluate(library: Any, engine: Any, code: bytes) -> bool:
    """Evaluate bytecode, and leave its value in the global `_LOADED`; whether that went well."""
    context = _pointers(engine).context
    function = library.JS_ReadObject(context, code, len(code), _READ_BYTECODE)
    value = function if function.tag == _TAG_EXCEPTION else library.JS_EvalFunction(context, function)
    if value.tag == _TAG_EXCEPTION:
        return False
    world = library.JS_GetGlobalObject(context)
    is_set = library.JS_SetPropertyStr(context, world, _LOADED, value) >= 0
    library.JS_FreeValue(context, world)
    return is_set


def _take(library: Any, engine: Any) -> Any:
    """The value of the global `_LOADED`, which is deleted."""
    loaded = engine.get(_LOADED.decode())
    context = _pointers(engine).context
    world, atom = library.JS_GetGlobalObject(context), library.JS_NewAtom(context, _LOADED)
    library.JS_DeleteProperty(context, world, atom, 0)
    library.JS_FreeAtom(context, atom)
    library.JS_FreeValue(context, world)
    return loaded


@cache
def _library() -> Any | None:
    """The functions of the engine; None where they are not as expected."""
    if sys.maxsize < 2**63 - 1 or cast("type", quickjs.Context).__basicsize__ < _CONTEXT_OFFSET + ctypes.sizeof(
        _POINTER
    ):
        return None
    try:
        library = ctypes.PyDLL(quickjs.__file__)
        for name, (result, arguments) in _SIGNATURES.items():
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
    except (AttributeError, OSError):
        return None
    engine = _new_engine()
    runtime, context = _pointers(engine)
    if not (_is_writable(runtime) and _is_writable(context)) or library.JS_GetRuntime(context) != runtime:
        return None
    return library if _is_as_expected(library, engine) else None


def _is_as_expected(library: Any, engine: Any) -> bool:
    """Whether the library does what this module takes it to do: compile, refuse, write without source, read, throw."""
    code = _compile(library, "[6 * 7, () => { throw new Error('checked') }]")
    throws = _compile(library, "null.property")
    if code is None or throws is None or b"checked')" in code or _compile(library, "(") is not None:
        return False
    if not _evaluate(library, engine, code) or _take(library, engine).json() != "[42,null]":
        return False
    return not _evaluate(library, engine, throws) and engine.eval("typeof $loaded") == "undefined"


def _pointers(engine: Any) -> _Pointers:
    at = ctypes.c_void_p.from_address
    return _Pointers(at(id(engine) + _RUNTIME_OFFSET).value or 0, at(id(engine) + _CONTEXT_OFFSET).value or 0)


def _is_writable(address: int) -> bool:
    """Whether this process can read and write there; False where that cannot be found out, as without Linux."""
    try:
        maps = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return any(
        int(start, 16) <= address < int(end, 16) for start, end in re.findall(r"(?m)^([0-9a-f]+)-([0-9a-f]+) rw", maps)
    )
