"""Traces of runs and the pages that show them: what a script called and when, its console, its limits, its end."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from codecall.files import write_private_file as write_page
    from codecall.traces.model import Trace
    from codecall.traces.page import render
    from codecall.traces.records import TraceRecorder, TraceSink, traces_of

__all__ = ["Trace", "TraceRecorder", "TraceSink", "render", "traces_of", "write_page"]

_HOMES = {
    "Trace": ("codecall.traces.model", "Trace"),
    "TraceRecorder": ("codecall.traces.records", "TraceRecorder"),
    "TraceSink": ("codecall.traces.records", "TraceSink"),
    "render": ("codecall.traces.page", "render"),
    "traces_of": ("codecall.traces.records", "traces_of"),
    "write_page": ("codecall.files", "write_private_file"),
}
"""Module and name behind each public name; a module is loaded when one of its names is first used."""


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'codecall.traces' has no attribute {name!r}")
    module, attribute = _HOMES[name]
    value = getattr(import_module(module), attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
