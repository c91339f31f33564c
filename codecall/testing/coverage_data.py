"""Which lines of script files ran, for a coverage.py that measures this process with our plugin.

This module does not load coverage.py: unless something else has loaded it, nothing is measured.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import warnings
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

if TYPE_CHECKING:
    from coverage import Coverage, CoverageData

PLUGIN: Final = "codecall.testing.coverage"
"""The module that `plugins` of coverage.py's configuration names."""
_TRACER: Final = f"{PLUGIN}.AgentScripts"


def is_measured(path: str | os.PathLike[str]) -> bool:
    """Whether the script file at `path` is measured, by the settings `source`, `include` and `omit` of coverage.py."""
    measurement = _current_measurement()
    return measurement is not None and measurement.covers(_absolute(path))


def add_lines(path: str | os.PathLike[str], lines: Collection[int], first_line: int = 1) -> None:
    """Report that `lines` ran, of a script that begins at `first_line` of the file at `path`.

    Does nothing if the file is not measured. Called in the thread that runs the tests.
    """
    measurement, file = _current_measurement(), _absolute(path)
    if measurement is not None and measurement.covers(file):
        measurement.add(file, [first_line - 1 + line for line in lines])


class _Measurement:
    """A running coverage.py with our plugin."""

    def __init__(self, coverage: Coverage) -> None:
        self.coverage = coverage
        self._covers: dict[str, bool] = {}
        self._data: CoverageData | None = None
        source: list[str] = [*_option(coverage, "run:source"), *_option(coverage, "run:source_dirs")]
        self._folders = [folder for item in source if (folder := _folder(item)) is not None] if source else None
        self._include = _option(coverage, "run:include")
        self._omit = _option(coverage, "run:omit")
        self._relative = bool(coverage.get_option("run:relative_files"))
        self._root = os.path.realpath(Path.cwd())

    def covers(self, file: str) -> bool:
        """Whether the file at this absolute path is measured."""
        if file not in self._covers:
            self._covers[file] = self._decide(file)
        return self._covers[file]

    def _decide(self, file: str) -> bool:
        if self._omit and _matches(file, self._omit):
            return False
        if self._folders is not None:
            return any(Path(file).is_relative_to(folder) for folder in self._folders)
        if self._include:
            return _matches(file, self._include)
        return Path(file).is_relative_to(self._root)

    def add(self, file: str, lines: Sequence[int]) -> None:
        """Report that these lines of the file ran."""
        if self._data is None:
            with warnings.catch_warnings():
                # Asked for in the middle of a run it says that nothing was collected; it will ask again at the end.
                warnings.simplefilter("ignore")
                self._data = self.coverage.get_data()
        name = os.path.relpath(file, self._root) if self._relative else file
        if self.coverage.get_option("run:branch"):
            # Where branches are measured coverage.py takes pairs of lines only; that a line was entered tells it ran.
            self._data.add_arcs({name: [(-1, line) for line in lines]})
        else:
            self._data.add_lines({name: lines})
        self._data.add_file_tracers({name: _TRACER})


_measurement: _Measurement | None = None


def _current_measurement() -> _Measurement | None:
    global _measurement  # noqa: PLW0603 - as many as there are running: at most one
    module = sys.modules.get("coverage")
    if module is None:
        return None
    running: Coverage | None = module.Coverage.current()
    if running is None or PLUGIN not in _option(running, "run:plugins"):
        return None
    if _measurement is None or _measurement.coverage is not running:
        _measurement = _Measurement(running)
    return _measurement


def _option(coverage: Coverage, name: str) -> list[str]:
    """A list of coverage.py's configuration; empty where it is not set, or unknown to this version."""
    try:
        value = coverage.get_option(name)
    except Exception as failure:
        from coverage.exceptions import ConfigError

        if isinstance(failure, ConfigError):
            return []
        raise
    return [str(item) for item in cast("Iterable[object]", value or ())]


def _folder(source: str) -> Path | None:
    """The folder that an item of `source` names: itself, or the folder of a package."""
    if Path(source).is_dir():
        return Path(os.path.realpath(source))
    try:
        spec = importlib.util.find_spec(source)
    except (ImportError, ValueError, AttributeError):
        return None
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(os.path.realpath(next(iter(spec.submodule_search_locations))))


def _matches(file: str, patterns: Sequence[str]) -> bool:
    from coverage.files import GlobMatcher, prep_patterns  # what coverage.py itself compares with

    return GlobMatcher(prep_patterns(patterns)).match(file)


def _absolute(path: str | os.PathLike[str]) -> str:
    return os.path.realpath(path)
