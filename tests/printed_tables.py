"""Tables of the documentation that come from the code.

A table stands between `<!-- printed: name -->` and `<!-- end of name -->`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

TABLE = re.compile(r"<!-- printed: ([\w -]+) -->\n\n(.*?)\n<!-- end of \1 -->\n", re.DOTALL)

Printers = Mapping[str, Callable[[], str]]
"""What prints each table of a page, by the table's name."""


def table(head: Sequence[str], rows: Iterable[Sequence[object]], *, numbers: bool = False) -> str:
    """A table as a page has it; with `numbers`, all columns but the first two hold some."""
    rule = ["---:" if numbers and column > 1 else "---" for column in range(len(head))]
    body = "".join(f"| {' | '.join(map(_cell, row))} |\n" for row in rows)
    return f"| {' | '.join(head)} |\n|{'|'.join(rule)}|\n{body}"


def _cell(value: object) -> str:
    return str(value).replace("|", r"\|")


def words(names: Iterable[str]) -> str:
    """Join names, each as code."""
    return ", ".join(f"`{name}`" for name in names)


def read_tables(page: Path) -> list[tuple[str, str]]:
    """Read the tables of a page: name and text, in their order."""
    return TABLE.findall(page.read_text(encoding="utf-8"))


def write_tables(page: Path, printers: Printers) -> None:
    """Print the tables of a page again."""

    def print_table(match: re.Match[str]) -> str:
        return f"<!-- printed: {match[1]} -->\n\n{printers[match[1]]()}\n<!-- end of {match[1]} -->\n"

    page.write_text(TABLE.sub(print_table, page.read_text(encoding="utf-8")), encoding="utf-8")
