"""The plugin for coverage.py, which reports scripts like Python files. Only coverage.py loads it:

    [tool.coverage.run]
    plugins = ["codecall.testing.coverage"]

Which lines ran is reported by the worker that ran them (`coverage_data.py`); nothing is traced here. Scripts that never
ran are reported too if they are named, with patterns below each directory that is measured:

    [tool.coverage."codecall.testing.coverage"]
    scripts = ["scripts/*.js"]

Which lines count is decided in `sandbox/agentscript/instrument.py`. `// pragma: no cover` leaves out the
statement that begins on its line, or the block, branch or loop body that does. Branches are not measured.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, cast

from coverage.plugin import CoveragePlugin, FileReporter
from coverage.plugin_support import Plugins

from codecall.sandbox.agentscript.checked import InvalidScriptError
from codecall.sandbox.agentscript.instrument import runnable_lines
from codecall.sandbox.agentscript.parser.esprima import Node
from codecall.sandbox.agentscript.parser.parse import LOOP_TYPES, PREFIX_LENGTH, children, parse
from codecall.sandbox.agentscript.policy import Rules
from codecall.sandbox.agentscript.validate import validate_script
from codecall.sandbox.agentscript.validator.names import NamespaceInfo
from codecall.sandbox.lines import LineTable
from codecall.testing.scripts.parser import ScriptFileError, parse_programs

PROGRAMS_SUFFIX: Final = ".script.js"
"""How the names of files end that hold programs (`scripts/parser.py`)."""

_EVERYTHING = Rules(allow_loops=True, allow_regex=True, allow_console=True, allow_clock=True)
_PRAGMA = re.compile(r"//\s*pragma[:\s]?\s*no\s*cover\b", re.IGNORECASE)
_BLOCKS: Final = frozenset({"BlockStatement", "ClassBody", "SwitchCase"})
_SIMPLE: Final = frozenset(
    {
        "BreakStatement",
        "ContinueStatement",
        "ExpressionStatement",
        "ReturnStatement",
        "ThrowStatement",
        "VariableDeclaration",
    }
)


def coverage_init(registry: Plugins, options: Mapping[str, object]) -> None:
    """Called by coverage.py when it loads this plugin."""
    patterns = options.get("scripts") or ()
    if isinstance(patterns, str):
        patterns = patterns.split()
    registry.add_file_tracer(AgentScripts(tuple(str(pattern) for pattern in cast("Iterable[object]", patterns))))


class AgentScripts(CoveragePlugin):
    """Reports AgentScript files.

    Args:
        patterns: Which files are reported even when they never ran, below each directory that is measured.
    """

    def __init__(self, patterns: tuple[str, ...]) -> None:
        self._patterns = patterns

    def file_reporter(self, filename: str) -> FileReporter:
        """Give the reporter of one file."""
        return ScriptReporter(filename)

    def find_executable_files(self, src_dir: str) -> Iterable[str]:
        """Find the scripts below `src_dir` that are reported even when they never ran."""
        root = Path(src_dir)
        for pattern in self._patterns:
            # A pattern starts at the project's root, as paths in its configuration do, or stands for names anywhere.
            files = root.rglob(pattern) if "/" not in pattern else Path.cwd().glob(pattern)
            yield from (str(file) for file in files if file.is_relative_to(root) and file.is_file())


class ScriptReporter(FileReporter):
    """Answers what coverage.py asks about one script, or one file of programs."""

    def __init__(self, filename: str) -> None:
        super().__init__(filename)
        self._lines: set[int] | None = None
        self._excluded: set[int] = set()

    def lines(self) -> set[int]:
        """The lines that can run."""
        if self._lines is None:
            lines: set[int] = set()
            for first_line, text in sources(Path(self.filename).name, self.source()):
                runnable_here, excluded = runnable(text)
                lines.update(first_line - 1 + line for line in runnable_here)
                self._excluded.update(first_line - 1 + line for line in excluded)
            self._excluded &= lines
            self._lines = lines - self._excluded
        return self._lines

    def excluded_lines(self) -> set[int]:
        """The lines that can run and are left out by `// pragma: no matches`."""
        self.lines()
        return self._excluded


def sources(name: str, text: str) -> list[tuple[int, str]]:
    """The scripts in a file, each with its first line: the file itself, or the programs that its name says it holds."""
    if not name.endswith(PROGRAMS_SUFFIX):
        return [(1, text)]
    try:
        return [(program.line + 1, program.source) for program in parse_programs(text, name)]
    except ScriptFileError:
        return []


def runnable(script: str) -> tuple[frozenset[int], set[int]]:
    """The lines of `script` that can run, none of a script that is refused whatever the preset; and those that
    `// pragma: no matches` leaves out."""
    try:
        text, checked = validate_script(script, _EVERYTHING, coverage=True, find_namespaces=_any_space)
    except InvalidScriptError:
        return frozenset(), set()
    marked = {number for number, line in enumerate(script.split("\n"), 1) if _PRAGMA.search(line)}
    return runnable_lines(text, checked), _excluded_lines(text, marked) if marked else set()


def _any_space(names: Sequence[str]) -> dict[str, NamespaceInfo]:
    """Which tools and namespaces there are depends on the server; here any name may be one."""
    return {name: NamespaceInfo(members={"": name}, listed=False) for name in names}


def _excluded_lines(text: str, marked: set[int]) -> set[int]:
    """The lines of what begins on a line of `marked`."""
    statements, _ = parse(text)
    lines = LineTable(text)
    excluded = set(marked)
    for start, end in _spans(statements, marked, lines):
        excluded.update(range(lines.line(start), lines.line(end - 1) + 1))
    return excluded


def _spans(statements: list[Node], marked: set[int], lines: LineTable) -> Iterator[tuple[int, int]]:
    """What begins on a line of `marked` and goes with it."""
    pending = list(statements)
    while pending:
        node = pending.pop()
        is_marked = lines.line(node.range[0] - PREFIX_LENGTH) in marked
        if is_marked and (node.type in _BLOCKS or node.type in _SIMPLE):
            yield _span(node)
        elif is_marked and (node.type == "IfStatement" or node.type in LOOP_TYPES):
            yield _span(node.consequent if node.type == "IfStatement" else node.body)
        pending.extend(children(node))


def _span(node: Node) -> tuple[int, int]:
    start, end = node.range
    return start - PREFIX_LENGTH, end - PREFIX_LENGTH
