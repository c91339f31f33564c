"""How text fits a terminal: lines are broken at their blanks, never inside a word, and a table that has no room for its
longest words is written as a list."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

HANGING: Final = "    "
"""What the second and further lines of a text begin with: servers write many, and none of them stands where ours do."""

SHORT_CELL: Final = 24
"""Cells that a value of a list may take to stand on one line with others."""

_TYPESCRIPT: Final = re.compile(r"""/\*.*?\*/|"(?:[^"\\]|\\.)*"|[{};]|\s+|[^\s{};"/]+|.""")
"""A comment, a text, a bracket or other part of a declaration."""

_EDGES: Final = 2
_BETWEEN: Final = 3
"""Cells at the edges of a table, and between two of its columns."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table."""

    heading: str
    style: str = ""
    right: bool = False
    """Whether cells are aligned to the right, as numbers are."""


def print_lines(console: Console, text: Text) -> None:
    """Print `text`, broken at its blanks where a terminal is narrower; a pipe gets its lines as they are."""
    if console.is_terminal:
        lines = text.split("\n", allow_blank=True)
        text = Text("\n").join(part for line in lines for part in _break_styled(line, console.width))
    console.print(text, soft_wrap=True)


def _break_styled(line: Text, width: int) -> Iterator[Text]:
    """The parts of a line, each but the first behind the blanks of the line, or `HANGING`."""
    margin, start = max(_leading_blanks(line.plain), HANGING, key=len), 0
    for number, part in enumerate(_break_line(line.plain, width, margin).split("\n")):
        end = start + len(part) - (len(margin) if number else 0)
        yield Text(margin) + line[start:end] if number else line[start:end]
        start = end + 1  # a blank stood there


def break_text(text: str, width: int, *, indent: str = "") -> str:
    """Break the lines of `text` at blanks so that they take up to `width` cells; a longer word stays whole.

    Args:
        text: the text. Without `indent` each blank or line end that is put in takes the place of one blank.
        width: in cells.
        indent: what the second and further parts of a line begin with, behind the blanks that it begins with itself.
    """
    return "\n".join(
        _break_line(line, width, _leading_blanks(line) + indent if indent else "") for line in text.split("\n")
    )


def _leading_blanks(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" "))]


def _break_line(line: str, width: int, margin: str) -> str:
    if cell_len(line) <= width:
        return line
    first, *words = line.split(" ")
    broken, used = first, cell_len(first)
    for word in words:
        cells = cell_len(word)
        # Blanks before the first word indent the line: they are no place to break it.
        if used + 1 + cells <= width or not broken.strip():
            broken, used = f"{broken} {word}", used + 1 + cells
        else:
            broken, used = f"{broken}\n{margin}{word}", cell_len(margin) + cells
    return broken


def break_command(command: str, width: int) -> str:
    """A shell's command on lines of up to `width` cells, each but the last ended by a backslash: no terminal breaks a
    word of it, and a shell takes it as it stands. Windows' shells know no such lines: theirs is given back whole.
    """
    if sys.platform == "win32" or cell_len(command) <= width:
        return command
    lines = [""]
    for word in map(shlex.quote, shlex.split(command)):
        line = f"{lines[-1]} {word}" if lines[-1].strip() else f"{lines[-1]}{word}"
        if lines[-1].strip() and cell_len(line) > width - len(" \\"):
            lines.append(f"  {word}")
        else:
            lines[-1] = line
    return " \\\n".join(lines)


def shorten_words(text: str, width: int) -> str:
    """The first words of `text` that fit `width` cells, and a mark for the others."""
    if cell_len(text) <= width:
        return text
    return f"{break_text(text, max(1, width - 2)).partition(chr(10))[0]} …"


def format_typescript(declarations: str, width: int = 80) -> str:
    """Put each member of an object type that does not fit a line, and each comment before it, on a line of its own."""
    return "\n".join(_format_declaration(line, width) for line in declarations.split("\n"))


def _format_declaration(line: str, width: int) -> str:
    if cell_len(line) <= width or line.lstrip().startswith(("//", "/*", "*")):
        return line
    lines, depth = [""], 0
    for part in _TYPESCRIPT.findall(line):
        opens, closes = part == "{", part == "}"
        depth -= closes
        if closes:
            lines.append("  " * depth)
        lines[-1] += part.lstrip() if not lines[-1].strip() else part
        depth += opens
        if opens or part == ";" or (part.startswith("/*") and depth):
            lines.append("  " * depth)
    return "\n".join(line for line in map(str.rstrip, lines) if line)


def print_table(console: Console, columns: Sequence[Column], rows: Sequence[Sequence[str]], title: str = "") -> None:
    """Print a table for a terminal; as a list, if the longest words of its columns do not fit beside each other."""
    cells = [[column.heading for column in columns], *rows]
    longest_words = [max(max(map(cell_len, row[at].split()), default=0) for row in cells) for at in range(len(columns))]
    whole = [max(max(map(cell_len, row[at].split("\n"))) for row in cells) for at in range(len(columns))]
    room = console.width - _EDGES - _BETWEEN * (len(columns) - 1)
    widths = _share(room, longest_words, whole)
    if title:
        print_lines(console, Text(title, style="italic"))
    if widths is None:
        for row in rows:
            _print_item(console, columns, row)
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column, width in zip(columns, widths, strict=True):
        align = "right" if column.right else "left"
        table.add_column(column.heading, style=column.style, justify=align, overflow="fold", width=width)
    for row in rows:
        table.add_row(*map(Text, row))
    console.print(table)


def _share(room: int, least: Sequence[int], whole: Sequence[int]) -> list[int] | None:
    """The widths of columns within `room`: none below what it needs at least, the rest by what each would take. None if
    there is no room."""
    free = room - sum(least)
    if free < 0:
        return None
    wanted = [most - few for most, few in zip(whole, least, strict=True)]
    part = min(1.0, free / max(1, sum(wanted)))
    return [few + int(want * part) for few, want in zip(least, wanted, strict=True)]


def _print_item(console: Console, columns: Sequence[Column], row: Sequence[str]) -> None:
    """Print one row as an item of a list: its first cell, then short values on one line, and each long one below."""
    print_lines(console, Text(row[0], style=columns[0].style))
    named = [(column.heading, cell) for column, cell in zip(columns[1:], row[1:], strict=True) if cell]
    short = [f"{heading}: {cell}" for heading, cell in named if cell_len(cell) <= SHORT_CELL and "\n" not in cell]
    long = [f"{heading}: {cell}" for heading, cell in named if cell_len(cell) > SHORT_CELL or "\n" in cell]
    for line in ["; ".join(short), *long]:
        if line:
            console.print(Text(break_text(f"  {line}", console.width, indent="  ")), soft_wrap=True)
