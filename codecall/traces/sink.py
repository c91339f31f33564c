"""A page for every run: a sink of the record."""

from __future__ import annotations

import os
import re
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from codecall.calls.audit_events import AuditEvent
from codecall.errors import OptionsError
from codecall.traces.files import write_page
from codecall.traces.page import render
from codecall.traces.records import Runs
from codecall.traces.trace import Trace

MAX_OPEN: Final = 1_000
"""Runs that are under way at the same time; with more, the oldest gets its page as it is."""

_PAGE: Final = re.compile(r"\d{8}T\d{6}\.\d{3}Z-[\w-]{1,80}\.html")
_ODD: Final = re.compile(r"[^\w-]", re.ASCII)


class TraceSink:
    """Writes a page for each run into a folder, `20261122T093000.125Z-run_….html`; the oldest go.

    With `include_arguments` and `include_results` of the record's options the pages show scripts and values. They are
    made in the record's own thread, some milliseconds each, and can be read by their owner alone.

    Args:
        directory: where; it must exist.
        keep: pages that stay.

    Raises:
        OptionsError: `keep` is less than 1, or the folder does not exist.
    """

    def __init__(self, directory: str | os.PathLike[str], *, keep: int = 200) -> None:
        self._folder = Path(directory)
        if keep < 1:
            raise OptionsError("audit: TraceSink: keep must be 1 or more")
        if not self._folder.is_dir():
            raise OptionsError(f"audit: TraceSink: there is no folder {str(self._folder)!r}")
        self._keep = keep
        self._runs = Runs(MAX_OPEN)
        self._lock = threading.Lock()

    def __call__(self, event: AuditEvent) -> None:
        """Take note of it; at the end of a run, write its page.

        Raises:
            OSError: it cannot be written, or an old one cannot be removed.
        """
        with self._lock:
            for trace in self._runs.add(event.as_dict()):
                write_page(self._folder / _name(trace, event.time), render(trace))
                self._clear()

    def _clear(self) -> None:
        names = sorted(entry.name for entry in os.scandir(self._folder) if _PAGE.fullmatch(entry.name))
        for name in names[: -self._keep]:
            (self._folder / name).unlink(missing_ok=True)


def _name(trace: Trace, ended: float) -> str:
    """The name of a page: they sort by the beginning of their runs."""
    when = datetime.fromtimestamp(ended if trace.when is None else trace.when, UTC)
    return f"{when:%Y%m%dT%H%M%S}.{when.microsecond // 1000:03}Z-{_ODD.sub('_', trace.run_id)[:80] or 'run'}.html"
