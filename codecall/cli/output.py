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
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TextIO, cast

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

from codecall.cli.layout import HANGING, Column, break_text, print_lines, print_table
from codecall.errors import CodeCallError
from codecall.redaction.clean import escape_invisible, json_escape

if TYPE_CHECKING:
    from codecall.traces.records import TraceRecorder

MAX_COLOURED: Final = 200_000
"""Longest JSON text, in characters, that a terminal gets in colours."""


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
            coloured = JSONHighlighter()(Text(text))
            # With --json it is the answer itself, which has to stay JSON when it is copied.
            if self.as_json:
                self.out.print(coloured, soft_wrap=True)
            else:
                print_lines(self.out, coloured)
        else:
            self.text(text)

    def text(self, text: str) -> None:
        """Print text as it is."""
        self._file.write(f"{text}\n")
        self._file.flush()

    def code(self, text: str) -> None:
        """Print a program for a person to read: on a terminal its long lines are broken at their blanks."""
        text = escape_invisible(text, keep="\n")
        self.text(break_text(text, self.out.width, indent="    ") if self.rich else text)

    def line(self, text: str, style: str = "") -> None:
        """Print one line of the answer, escaped."""
        print_lines(self.out, Text(escape_unprintable(text), style=style))

    def show(self, renderable: RenderableType) -> None:
        """Print a renderable of rich, for a terminal."""
        if isinstance(renderable, Text):
            print_lines(self.out, renderable)
        else:
            self.out.print(renderable)

    def table(self, columns: Sequence[Column], rows: Iterable[Sequence[str]], title: str = "") -> None:
        """Print a table; in a pipe one line for each row, tabs between the cells, and no heading."""
        if not self.rich:
            for row in rows:
                self.row(row)
            return
        escaped = [[escape_unprintable(cell) for cell in row] for row in rows]
        print_table(self.out, columns, escaped, title)

    def row(self, cells: Sequence[str]) -> None:
        """Print one row for a pipe, with tabs between the cells."""
        self._file.write("\t".join(map(one_line, cells)) + "\n")

    def note(self, text: str, style: str = "dim") -> None:
        """Print a note on stderr; nothing with `--json`."""
        if not self.as_json:
            print_lines(self.err, Text(escape_unprintable(text), style=style))

    def warn(self, text: str, style: str = "yellow") -> None:
        """Print a warning on stderr, also with `--json`."""
        print_lines(self.err, Text(escape_unprintable(text), style=style))

    def failure(self, error: CodeCallError) -> None:
        """Print an error: on stderr, or as the JSON document."""
        if self.as_json:
            self.document({"error": error.as_dict()})
            return
        code, message = one_line(error.code), escape_unprintable(error.message)
        print_lines(self.err, Text.assemble(("error: ", "bold red"), (code, "bold"), f": {message}"))
        if error.hint:
            print_lines(self.err, Text.assemble(("hint: ", "bold cyan"), escape_unprintable(error.hint)))

    @contextmanager
    def progress(self, activity: str, *, reports_servers: bool = False) -> Generator[ProgressLine]:
        """Within this context, show progress on stderr if that is a terminal, and print warnings that CodeCall logs.

        Args:
            activity: What is done.
            reports_servers: Whether the command itself says which servers failed.
        """
        with _warnings_to(self.warn, reports_servers), self._progress(activity) as progress:
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


def escape_unprintable(text: str) -> str:
    """Escape the characters of `text` that do not print. Line breaks stay, and what follows one is indented, so that it
    is not taken for a line of ours; tabs become blanks."""
    return escape_invisible(text, keep="\n").replace("\n", f"\n{HANGING}")


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
def _warnings_to(callback: Callable[[str], None], reports_servers: bool) -> Generator[None]:
    """Within this context, warnings that CodeCall logs go to `callback` and nowhere else."""
    logger = logging.getLogger("codecall")
    handler, before = _WarningHandler(callback, reports_servers), logger.propagate
    logger.addHandler(handler)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = before


class _WarningHandler(logging.Handler):
    """Hands warnings on, and the failure of a server once: whether there is a next try matters to who serves."""

    def __init__(self, callback: Callable[[str], None], reports_servers: bool) -> None:
        super().__init__(logging.WARNING)
        self._callback = callback
        self._reports_servers = reports_servers
        self._failed: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        message = str(record.msg)
        if message.startswith("Server %s could not be listed"):  # the next case has said it
            return
        if message.startswith("server %r failed: %s"):
            name, reason, *rest = cast("tuple[object, ...]", record.args)
            if not self._reports_servers and str(name) not in self._failed:
                self._callback(f"warning: server {name!r} is not available: {reason}{''.join(map(str, rest[1:]))}")
            self._failed.add(str(name))
            return
        self._callback(f"{record.levelname.lower()}: {record.getMessage()}")


_done: list[str] = []
"""Sentences of the command that is being interrupted."""


@contextmanager
def reporting_calls_on_interrupt(recorder: TraceRecorder, undecided: Sequence[str] = ()) -> Generator[None]:
    """Within this context the error of an interrupt says what became of the calls of the run that is recorded.

    Args:
        recorder: Has the calls.
        undecided: The tools of those that a person has not allowed yet: they were not made.
    """
    try:
        yield
    except BaseException as ending:
        if isinstance(ending, Exception):
            raise  # an error says so itself; what is none cancels or interrupts
        from codecall.sandbox.host.dispatch import CallLog

        calls, waiting = dict(enumerate(recorder.calls())), list(undecided)
        for number, call in reversed(calls.items()):
            if call.ended is None and call.name in waiting:
                waiting.remove(call.name)
                calls[number] = replace(call, started=None)
        _done.append(CallLog(calls).summary())
        raise


@contextmanager
def reporting_on_interrupt(done: str) -> Generator[None]:
    """Within this context the error of an interrupt says what the command has done."""
    try:
        yield
    except KeyboardInterrupt:
        _done.append(done)
        raise


def drain_interrupt_report() -> str:
    """What the command had done; empty if there is nothing to say."""
    sentences = " ".join(filter(None, _done))
    _done.clear()
    return sentences
