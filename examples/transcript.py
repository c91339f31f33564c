"""How the demo writes: numbered sections, scripts, small tables. Colour and terminal width only on a terminal."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.padding import Padding
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

PIPE_WIDTH = 100
"""Columns of a transcript that goes into a file or a pipe."""

TERMINAL_WIDTH = 110
"""Columns at most on a terminal: longer lines are hard to read."""


class Transcript:
    """What the demo prints, section by section, to standard output."""

    def __init__(self) -> None:
        terminal = sys.stdout.isatty()
        width = min(shutil.get_terminal_size().columns, TERMINAL_WIDTH) if terminal else PIPE_WIDTH
        self._console = Console(force_terminal=terminal, highlight=False, width=width)
        self._number = 0

    def _print(self, text: Text, indent: int = 3) -> None:
        """Wrapped at the width, indented, and without the blanks that would fill each line up to the width."""
        for line in text.wrap(self._console, self._console.width - indent):
            line.rstrip()
            self._console.print(Text(" " * indent) + line, soft_wrap=True)

    def title(self, text: str) -> None:
        """The first line of a part."""
        self._console.print()
        self._console.print(Text(text, style="bold"))
        self._console.print(Text("─" * min(len(text), self._console.width), style="dim"))

    def end(self, text: str) -> None:
        """The last line."""
        self._console.print()
        self._console.print(Text(text, style="bold"))

    def section(self, text: str) -> None:
        """A numbered heading."""
        self._number += 1
        self._console.print()
        self._print(Text(f"{self._number}. {text}", style="bold cyan"), indent=0)

    def say(self, text: str) -> None:
        """A sentence to the reader."""
        self._print(Text(text))

    def call(self, tool: str, arguments: str, seconds: float) -> None:
        """A call that was made, and how long its answer took."""
        line = Text.assemble((f"→ {tool}", "bold"), f" {arguments}", ("  ", ""), (_time(seconds), "green"))
        self._print(line)

    def script(self, code: str) -> None:
        """An AgentScript program, with a bar at its left."""
        lines = Syntax(code, "javascript", theme="ansi_dark", background_color="default").highlight(code)
        for line in lines.split("\n"):
            line.rstrip()
            bar = Text("   │", style="dim")
            self._console.print(bar + Text(" ") + line if line else bar, soft_wrap=True)

    def answer(self, text: str, *, good: bool = True) -> None:
        """What came back."""
        self._print(Text(text, style="" if good else "yellow"), indent=5)

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        """A table; columns of numbers are set flush right."""
        filled = [[_cell(value) for value in row] for row in rows]
        table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 3, 0, 0))
        for number, column in enumerate(columns):
            numeric = all(row[number][:1] in "0123456789~-" for row in filled)
            table.add_column(column, justify="right" if numeric else "left", overflow="fold")
        for row in filled:
            table.add_row(*row)
        with self._console.capture() as captured:
            self._console.print(Padding(table, (0, 0, 0, 5), expand=False))
        # The lines are styled already; only the blanks that fill them up are taken off.
        for line in captured.get().splitlines():
            self._console.file.write(line.rstrip() + "\n")


def _cell(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def _time(seconds: float) -> str:
    if seconds >= 1:
        return f"{seconds:.2f} s"
    return f"{seconds * 1000:.{0 if seconds >= 0.01 else 1}f} ms"
