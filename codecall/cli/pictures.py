"""A place in a script as a person wants to see it: the line, and a mark below the column."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, cast

from rich.cells import cell_len
from rich.text import Text

from codecall.cli.printing import harmless, one_line

BEFORE: Final = 60
"""Characters of a long line that are shown before the place."""
BEHIND: Final = 60
"""And behind it."""


def picture(script: str, line: int, column: int) -> Text:
    """That line of `script` with its number, and below it a mark; empty where there is no such line.

    Args:
        script: As it was sent.
        line: From 1.
        column: From 1, in characters.
    """
    lines = script.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    if not 1 <= line <= len(lines) or not lines[line - 1].strip():
        return Text()
    text, at = lines[line - 1], column - 1
    start, end = max(0, at - BEFORE), at + BEHIND
    before = ("…" if start else "") + harmless(text[start:at])
    behind = harmless(text[at:end]) + ("…" if end < len(text) else "")
    margin = f"{line:>5} "
    return Text.assemble(
        (f"{margin}│ ", "dim"),
        before + behind,
        "\n",
        (f"{' ' * len(margin)}│ ", "dim"),
        " " * cell_len(before),
        ("^", "bold red"),
    )


def finding(name: str, script: str, found: Mapping[str, object]) -> Text:
    """One finding of a dry run, or the error of a run: where it is, what it is, the line, what to do.

    Args:
        name: Of the script.
        script: Its text.
        found: With `code` and `message`; `location` and `hint` where they are known.
    """
    where = cast("Mapping[str, int]", found.get("location") or {})
    place = f"{name}:{where['line']}:{where['column']}" if where else name
    parts: list[Text | str | tuple[str, str]] = [
        (harmless(place), "bold"),
        ": ",
        (one_line(str(found["code"])), "bold red"),
        f" {harmless(str(found['message']))}",
    ]
    if where and (seen := picture(script, where["line"], where["column"])):
        parts += ["\n", seen]
    if hint := found.get("hint"):
        parts += ["\n", ("  hint: ", "bold cyan"), harmless(str(hint))]
    return Text.assemble(*parts)
