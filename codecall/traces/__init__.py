"""Pages that show one run of a script: what it called and when, what it said, what it used, and how it ended."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from codecall.files import write_private_file
    from codecall.traces.model import Trace
    from codecall.traces.page import render
    from codecall.traces.records import TraceRecorder, TraceSink, traces_of

__all__ = ["Trace", "TraceRecorder", "TraceSink", "render", "traces_of", "write_private_file"]

_HOMES = {
    "Trace": "model",
    "TraceRecorder": "records",
    "TraceSink": "records",
    "render": "page",
    "traces_of": "records",
    "write_page": "files",
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'codecall.traces' has no attribute {name!r}")
    value = getattr(
        import_module("codecall.files" if _HOMES[name] == "files" else f"codecall.traces.{_HOMES[name]}"), name
    )
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
