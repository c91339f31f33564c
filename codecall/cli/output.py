"""How commands answer: one JSON document with `--json`, plain lines in a pipe, tables and colours on a terminal.

The answer goes to stdout, everything else to stderr. Text that servers or scripts wrote may hold what a terminal obeys;
nothing is printed but through `harmless`.
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
from codecall.redaction.invisible import escape_invisible

# ----------------------------------------------------------------------------------------------------
# Log records of this process as remarks on stderr, while a command runs.


class _Remarks(logging.Handler):
    def __init__(self, say: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._say = say

    def emit(self, record: logging.LogRecord) -> None:
        # The command says itself which servers it could not list, and why.
        if not str(record.msg).startswith("Server %s could not be listed"):
            self._say(f"{record.levelname.lower()}: {record.getMessage()}")


@contextmanager
def warnings_to(say: Callable[[str], None]) -> Generator[None]:
    """Within, warnings of CodeCall go to `say`."""
    logger = logging.getLogger("codecall")
    handler, before = _Remarks(say), logger.propagate
    logger.addHandler(handler)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = before


# ----------------------------------------------------------------------------------------------------
# How commands answer: one JSON document with `--json`, plain lines in a pipe, tables and colours on a terminal.

MAX_COLOURED: Final = 200_000
"""Characters of JSON up to which a terminal gets it in colours."""


def escape_unprintable(text: str) -> str:
    """`text` with what does not print written as escapes; lines stay lines, tabs become blanks."""
    return escape_invisible(text, keep="\n")


def one_line(text: str) -> str:
    """The same on one line."""
    return escape_unprintable(" ".join(text.split()))


def json_text(body: object, *, indent: int | None = None, ascii_only: bool = False) -> str:
    """`body` as JSON in which everything prints: the rest is escaped as JSON has it."""
    separators = None if indent else (",", ":")
    return escape_json(json.dumps(body, ensure_ascii=ascii_only, indent=indent, separators=separators))


def escape_json(text: str) -> str:
    """JSON text with what does not print escaped."""
    return escape_invisible(text, keep="\n", escape=lambda character: json.dumps(character)[1:-1])


def count_of(number: int, thing: str) -> str:
    """So many of them: `1 tool`, `2 tools`."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def format_duration(duration_ms: float) -> str:
    """A duration as a person says it."""
    return f"{duration_ms / 1000:.1f} s" if duration_ms >= 1000 else f"{duration_ms:.1f} ms"


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table."""

    heading: str
    style: str = ""
    right: bool = False
    """Whether it is aligned to the right: numbers."""


class Output:
    """Where one command's answer goes, and in which form.

    Args:
        as_json: Whether the answer is one JSON document.
        out: Instead of stdout.
        err: Instead of stderr.
    """

    def __init__(self, *, as_json: bool = False, out: TextIO | None = None, err: TextIO | None = None) -> None:
        self.as_json = as_json
        self._file = out or sys.stdout
        self.out = Console(file=self._file, highlight=False, emoji=False, markup=False)
        self.err = Console(file=err or sys.stderr, highlight=False, emoji=False, markup=False)

    @property
    def rich(self) -> bool:
        """Whether a person reads the answer on a terminal."""
        return self.out.is_terminal and not self.as_json

    def document(self, body: object) -> None:
        """The whole answer, as JSON: over several lines on a terminal, on one in a pipe."""
        encoding = (self._file.encoding or "").lower().replace("-", "")
        text = json_text(
            body, indent=2 if self.out.is_terminal else None, ascii_only=encoding not in ("", "utf8", "utf16", "utf32")
        )
        if self.out.is_terminal and len(text) <= MAX_COLOURED:
            self.out.print(JSONHighlighter()(Text(text)), soft_wrap=True)
        else:
            self.text(text)

    def text(self, text: str) -> None:
        """The answer as it is."""
        self._file.write(f"{text}\n")
        self._file.flush()

    def line(self, text: str, style: str = "") -> None:
        """One line of the answer."""
        self.out.print(Text(escape_unprintable(text), style=style), soft_wrap=True)

    def show(self, renderable: RenderableType) -> None:
        """Something for a terminal."""
        self.out.print(renderable)

    def table(self, columns: Sequence[Column], rows: Iterable[Sequence[str]], title: str = "") -> None:
        """A table; in a pipe one line for each row, tabs between the cells, and no heading."""
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
        """A row in a pipe."""
        self._file.write("\t".join(map(one_line, cells)) + "\n")

    def note(self, text: str, style: str = "dim") -> None:
        """Something beside the answer, on stderr; not with `--json`."""
        if not self.as_json:
            self.err.print(Text(escape_unprintable(text), style=style), soft_wrap=True)

    def warn(self, text: str) -> None:
        """A warning, on stderr, also with `--json`."""
        self.err.print(Text(escape_unprintable(text), style="yellow"), soft_wrap=True)

    def failure(self, error: CodeCallError) -> None:
        """Why there is no answer: on stderr, or as the JSON document."""
        if self.as_json:
            self.document({"error": error.as_dict()})
            return
        self.err.print(
            Text.assemble(
                ("error: ", "bold red"), (one_line(error.code), "bold"), f": {escape_unprintable(error.message)}"
            ),
            soft_wrap=True,
        )
        if error.hint:
            self.err.print(Text.assemble(("hint: ", "bold cyan"), escape_unprintable(error.hint)), soft_wrap=True)

    @contextmanager
    def progress(self, what: str) -> Generator[ProgressLine]:
        """Long work: shown on stderr while it lasts, if that is a terminal. So are warnings of CodeCall."""
        with warnings_to(self.warn), self._progress(what) as progress:
            yield ProgressLine(self, progress)

    @contextmanager
    def _progress(self, what: str) -> Generator[Progress | None]:
        if self.as_json or not self.err.is_terminal:
            yield None
            return
        progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            _Share(),
            TimeElapsedColumn(),
            console=self.err,
            transient=True,
            redirect_stdout=False,
        )
        with progress:
            progress.add_task(escape_unprintable(what), total=None)
            yield progress


class _Share(ProgressColumn):
    """A bar and numbers, where it is known how much there is to do."""

    def __init__(self) -> None:
        super().__init__()
        self._bar = BarColumn(bar_width=24)
        self._count = MofNCompleteColumn()

    def render(self, task: Task) -> RenderableType:
        if task.total is None:
            return Text()
        both = Table.grid(padding=(0, 1))
        both.add_row(self._bar.render(task), self._count.render(task))
        return both


class ProgressLine:
    """Long work that is under way."""

    def __init__(self, output: Output, progress: Progress | None) -> None:
        self._output = output
        self._progress = progress

    def update(self, done: float, total: float | None, what: str) -> None:
        """So much of it is done; now comes `what`."""
        if self._progress is not None:
            task = self._progress.task_ids[0]
            self._progress.update(task, completed=done, total=total, description=one_line(what))

    @contextmanager
    def paused(self) -> Generator[None]:
        """Within, the answer may be written to a terminal that shows this, too."""
        if self._progress is None:
            yield
            return
        self._progress.stop()
        yield
        self._progress.start()

    def print_line(self, line: str, style: str = "") -> None:
        """A line on stderr that stays; not with `--json`."""
        self._output.note(line, style)
