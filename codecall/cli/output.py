"""How commands print: one JSON document with `--json`, plain lines in a pipe, tables and colours on a terminal.

The answer goes to stdout, everything else to stderr. Text that servers or scripts wrote may hold control sequences that
a terminal obeys, so everything is printed through `escape_unprintable`.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, TextIO

from rich import box
from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.highlighter import JSONHighlighter
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table
from rich.text import Text

from codecall.errors import CodeCallError
from codecall.redaction.clean import escape_invisible, json_escape

MAX_COLOURED: Final = 200_000
"""Longest JSON text, in characters, that a terminal gets in colours."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table."""

    heading: str
    style: str = ""
    right: bool = False
    """Whether cells are aligned to the right, as numbers are."""


class Output:
    """Prints what one command has to say.

    Args:
        as_json: Whether the answer is one JSON document.
        out: Used instead of stdout.
        err: Used instead of stderr.
    """

    def __init__(self, *, as_json: bool = False, out: TextIO | None = None, err: TextIO | None = None) -> None:
        self.as_json = as_json
        self._file = out or sys.stdout
        self.out = Console(file=self._file, highlight=False, emoji=False, markup=False)
        self.err = Console(file=err or sys.stderr, highlight=False, emoji=False, markup=False)

    @property
    def rich(self) -> bool:
        """Whether the answer goes to a terminal, for a person to read."""
        return self.out.is_terminal and not self.as_json

    def document(self, body: object) -> None:
        """Print the whole answer as JSON: indented on a terminal, on one line in a pipe."""
        encoding = (self._file.encoding or "").lower().replace("-", "")
        text = json_text(
            body, indent=2 if self.out.is_terminal else None, ascii_only=encoding not in ("", "utf8", "utf16", "utf32")
        )
        if self.out.is_terminal and len(text) <= MAX_COLOURED:
            self.out.print(JSONHighlighter()(Text(text)), soft_wrap=True)
        else:
            self.text(text)

    def text(self, text: str) -> None:
        """Print text as it is."""
        self._file.write(f"{text}\n")
        self._file.flush()

    def line(self, text: str, style: str = "") -> None:
        """Print one line of the answer, escaped."""
        _print(self.out, Text(escape_unprintable(text), style=style))

    def show(self, renderable: RenderableType) -> None:
        """Print a renderable of rich, for a terminal."""
        self.out.print(renderable)

    def table(self, columns: Sequence[Column], rows: Iterable[Sequence[str]], title: str = "") -> None:
        """Print a table; in a pipe one line for each row, tabs between the cells, and no heading."""
        if not self.rich:
            for row in rows:
                self.row(row)
            return
        table = Table(box=box.SIMPLE_HEAD, title=Text(title) if title else None, title_justify="left", pad_edge=False)
        for column in columns:
            table.add_column(
                column.heading, style=column.style, justify="right" if column.right else "left", overflow="fold"
            )
        for row in rows:
            table.add_row(*(Text(escape_unprintable(cell)) for cell in row))
        self.show(table)

    def row(self, cells: Sequence[str]) -> None:
        """Print one row for a pipe, with tabs between the cells."""
        self._file.write("\t".join(map(one_line, cells)) + "\n")

    def note(self, text: str, style: str = "dim") -> None:
        """Print a note on stderr; nothing with `--json`."""
        if not self.as_json:
            _print(self.err, Text(escape_unprintable(text), style=style))

    def warn(self, text: str, style: str = "yellow") -> None:
        """Print a warning on stderr, also with `--json`."""
        _print(self.err, Text(escape_unprintable(text), style=style))

    def failure(self, error: CodeCallError) -> None:
        """Print an error: on stderr, or as the JSON document."""
        if self.as_json:
            self.document({"error": error.as_dict()})
            return
        code, message = one_line(error.code), escape_unprintable(error.message)
        _print(self.err, Text.assemble(("error: ", "bold red"), (code, "bold"), f": {message}"))
        if error.hint:
            _print(self.err, Text.assemble(("hint: ", "bold cyan"), escape_unprintable(error.hint)))

    @contextmanager
    def progress(self, activity: str) -> Generator[ProgressLine]:
        """Within this context, show progress on stderr if that is a terminal, and print warnings that CodeCall logs."""
        with _warnings_to(self.warn), self._progress(activity) as progress:
            yield ProgressLine(self, progress)

    @contextmanager
    def _progress(self, activity: str) -> Generator[Progress | None]:
        if self.as_json or not self.err.is_terminal:
            yield None
            return
        progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            _CountColumn(),
            TimeElapsedColumn(),
            console=self.err,
            transient=True,
            redirect_stdout=False,
        )
        with progress:
            progress.add_task(escape_unprintable(activity), total=None)
            yield progress


class ProgressLine:
    """The progress line of a command on stderr; shows nothing where that is no terminal."""

    def __init__(self, output: Output, progress: Progress | None) -> None:
        self._output = output
        self._progress = progress

    def update(self, done: float, total: float | None, activity: str) -> None:
        """Show that `done` of `total` steps are done and that `activity` comes next."""
        if self._progress is not None:
            task = self._progress.task_ids[0]
            self._progress.update(task, completed=done, total=total, description=one_line(activity))

    @contextmanager
    def paused(self) -> Generator[None]:
        """Within this context the line is hidden, so that the answer can be written to the same terminal."""
        if self._progress is None:
            yield
            return
        self._progress.stop()
        yield
        self._progress.start()

    def print_line(self, line: str, style: str = "") -> None:
        """Print a line on stderr that stays; nothing with `--json`."""
        self._output.note(line, style)


class _CountColumn(ProgressColumn):
    """A bar and a count, shown once the total is known."""

    def __init__(self) -> None:
        super().__init__()
        self._bar = BarColumn(bar_width=24)
        self._count = MofNCompleteColumn()

    def render(self, task: Task) -> RenderableType:
        if task.total is None:
            return Text()
        grid = Table.grid(padding=(0, 1))
        grid.add_row(self._bar.render(task), self._count.render(task))
        return grid


def _print(console: Console, text: Text) -> None:
    """Print `text`, broken at its blanks where a terminal is narrower; a pipe gets its lines as they are."""
    console.print(break_lines(text, console.width) if console.is_terminal else text, soft_wrap=True)


def break_lines(text: Text, width: int) -> Text:
    """Replace blanks of `text` by line ends so that lines take up to `width` cells; a longer word stays whole."""
    lines = text.plain.split("\n")
    for number, line in enumerate(lines):
        words, used = line.split(" "), 0
        broken = words[0]
        used = cell_len(words[0])
        for word in words[1:]:
            cells = cell_len(word)
            # Blanks before the first word indent the line: they are no place to break it.
            fits = used + 1 + cells <= width or not broken.strip()
            broken += (" " if fits else "\n") + word
            used = used + 1 + cells if fits else cells
        lines[number] = broken
    fitted = text.copy()
    fitted.plain = "\n".join(lines)
    return fitted


def escape_unprintable(text: str) -> str:
    """Escape the characters of `text` that do not print. Line breaks stay, tabs become blanks."""
    return escape_invisible(text, keep="\n")


def one_line(text: str) -> str:
    """Escape `text` and put it on one line; runs of white space become one blank."""
    return escape_unprintable(" ".join(text.split()))


def json_text(body: object, *, indent: int | None = None, ascii_only: bool = False) -> str:
    """Write `body` as JSON; characters that do not print are escaped as in JSON strings."""
    separators = None if indent else (",", ":")
    return escape_json(json.dumps(body, ensure_ascii=ascii_only, indent=indent, separators=separators))


def escape_json(text: str) -> str:
    """Escape the characters of a JSON text that do not print, as in JSON strings."""
    return escape_invisible(text, keep="\n", escape=json_escape)


def count_of(number: int, thing: str) -> str:
    """A number with its noun in the right form: `1 tool`, `2 tools`."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def format_duration(duration_ms: float) -> str:
    """A duration for a person to read: `12.5 ms`, `1.2 s`."""
    return f"{duration_ms / 1000:.1f} s" if duration_ms >= 1000 else f"{duration_ms:.1f} ms"


@contextmanager
def _warnings_to(callback: Callable[[str], None]) -> Generator[None]:
    """Within this context, warnings that CodeCall logs go to `callback` and nowhere else."""
    logger = logging.getLogger("codecall")
    handler, before = _WarningHandler(callback), logger.propagate
    logger.addHandler(handler)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = before


class _WarningHandler(logging.Handler):
    def __init__(self, callback: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._callback = callback

    def emit(self, record: logging.LogRecord) -> None:
        # The command itself reports which servers it could not list, and why.
        if not str(record.msg).startswith("Server %s could not be listed"):
            self._callback(f"{record.levelname.lower()}: {record.getMessage()}")
