"""The calls of a run as bars on a time axis, for a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, cast

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from codecall.cli.output import escape_unprintable, format_duration, one_line
from codecall.errors import CodeCallError
from codecall.files import write_private_file
from codecall.sandbox.host.outcomes import LineIndex
from codecall.traces.model import Trace
from codecall.traces.page import render

# ----------------------------------------------------------------------------------------------------
# A place in a script as a person wants to see it: the line, and a mark below the column.

BEFORE: Final = 60
"""Characters of a long line that are shown before the place."""
BEHIND: Final = 60
"""And behind it."""


def source_excerpt(script: str, line: int, column: int) -> Text:
    """That line of `script` with its number, and below it a mark; empty where there is no such line.

    Args:
        script: As it was sent.
        line: From 1.
        column: From 1, in characters.
    """
    text, at = LineIndex(script).text(line), column - 1
    if not text.strip():
        return Text()
    start, end = max(0, at - BEFORE), at + BEHIND
    before = ("…" if start else "") + escape_unprintable(text[start:at])
    behind = escape_unprintable(text[at:end]) + ("…" if end < len(text) else "")
    margin = f"{line:>5} "
    return Text.assemble(
        (f"{margin}│ ", "dim"),
        before + behind,
        "\n",
        (f"{' ' * len(margin)}│ ", "dim"),
        " " * cell_len(before),
        ("^", "bold red"),
    )


def render_finding(name: str, script: str, found: Mapping[str, object]) -> Text:
    """One finding of a dry run, or the error of a run: where it is, what it is, the line, what to do.

    Args:
        name: Of the script.
        script: Its text.
        found: With `code` and `message`; `location` and `hint` where they are known.
    """
    where = cast("Mapping[str, int]", found.get("location") or {})
    place = f"{name}:{where['line']}:{where['column']}" if where else name
    parts: list[Text | str | tuple[str, str]] = [
        (escape_unprintable(place), "bold"),
        ": ",
        (one_line(str(found["code"])), "bold red"),
        f" {escape_unprintable(str(found['message']))}",
    ]
    if where and (seen := source_excerpt(script, where["line"], where["column"])):
        parts += ["\n", seen]
    if hint := found.get("hint"):
        parts += ["\n", ("  hint: ", "bold cyan"), escape_unprintable(str(hint))]
    return Text.assemble(*parts)


# ----------------------------------------------------------------------------------------------------
# The calls of a run as bars on a time axis, for a terminal.

MAX_CALLS: Final = 50
"""Calls that are drawn; of the others their number is told."""

MAX_NAME: Final = 36
"""Cells a name may take."""

STYLES: Final = {"ok": "green", "error": "red", "unfinished": "yellow", "not_started": "dim"}
"""By what became of a call."""

_EIGHTHS: Final = " ▏▎▍▌▋▊▉█"

JsonObject = Mapping[str, Any]


def timeline(calls: Sequence[JsonObject], duration_ms: float, width: int) -> Text:
    """One line for each call: when it ran, for how long, what became of it.

    Args:
        calls: With `number`, `name`, `startMs`, `durationMs`, `outcome`, and `code` of those that failed.
        duration_ms: Of the whole run.
        width: Cells there are.
    """
    drawn = calls[:MAX_CALLS]
    ends = [call["startMs"] + call["durationMs"] for call in drawn if call["durationMs"] is not None]
    total = max([duration_ms, *ends, 0.001])
    names = [set_cell_size(name, min(cell_len(name), MAX_NAME)) for name in (one_line(call["name"]) for call in drawn)]
    left = max(map(cell_len, names), default=0)
    cells = max(10, width - left - 34)
    text = Text()
    axis = format_duration(total)
    text.append(f"{'':>5}{'':<{left}} 0{' ' * (cells - len(axis) - 1)}{axis}\n", "dim")
    for call, name in zip(drawn, names, strict=True):
        style = STYLES.get(call["outcome"], "")
        text.append(f"{call['number']:>4} ", "dim")
        text.append(set_cell_size(name, left) + " ")
        text.append(_bar(call, total, cells), style)
        text.append(f" {_ending(call)}\n", style if call["outcome"] != "ok" else "dim")
    if len(calls) > len(drawn):
        text.append(f"     and {len(calls) - len(drawn)} more calls; --trace shows all of them\n", "dim")
    text.right_crop(1)
    return text


def _bar(call: JsonObject, total: float, cells: int) -> str:
    if call["startMs"] is None:
        return " " * cells
    start = min(call["startMs"] / total, 1.0) * cells
    duration = call["durationMs"]
    long = cells - start if duration is None else duration / total * cells
    first = min(int(start), cells - 1)
    eighths = max(1, min(round(long * 8), (cells - first) * 8))
    bar = "█" * (eighths // 8) + (_EIGHTHS[eighths % 8] if eighths % 8 else "")
    return f"{' ' * first}{bar}".ljust(cells)


def _ending(call: JsonObject) -> str:
    took = "" if call["durationMs"] is None else format_duration(call["durationMs"])
    said = {"ok": "reused" if call.get("reused") else "", "error": one_line(str(call.get("code") or "failed"))}
    return " ".join(filter(None, (took, said.get(call["outcome"], call["outcome"].replace("_", " ")))))


# ----------------------------------------------------------------------------------------------------
# A trace as a page in a file.


def write_trace_page(trace: Trace, path: Path) -> None:
    """Write it; takes long for large runs.

    Raises:
        CodeCallError: the file cannot be written.
    """
    try:
        write_private_file(path, render(trace))
    except OSError as failure:
        raise CodeCallError(f"Cannot write {path}: {failure.strerror}", code="CANNOT_WRITE") from None
