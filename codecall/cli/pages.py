"""A trace as a page in a file."""

from __future__ import annotations

from pathlib import Path

from codecall.errors import CodeCallError
from codecall.traces.files import write_page
from codecall.traces.page import render
from codecall.traces.trace import Trace


def write(trace: Trace, path: Path) -> None:
    """Write it; takes long for large runs.

    Raises:
        CodeCallError: the file cannot be written.
    """
    try:
        write_page(path, render(trace))
    except OSError as failure:
        raise CodeCallError(f"Cannot write {path}: {failure.strerror}", code="CANNOT_WRITE") from None
