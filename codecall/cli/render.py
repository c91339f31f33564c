"""What commands draw on a terminal: findings with the line of the script they are about, and the timeline of a run; and
the file to which a trace is written as a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, cast

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from codecall.cli.output import escape_unprintable, format_duration, one_line
from codecall.errors import CodeCallError
from codecall.files import check_stays_inside, write_private_file
from codecall.sandbox.lines import LineTable
from codecall.traces.model import Trace
from codecall.traces.page import render

EXCERPT: Final = 66
"""Characters of a long line that are shown around the column: what fits a terminal of 80."""

MAX_CALLS: Final = 50
"""Most calls that a timeline shows; of the others it gives the number."""

MAX_NAME: Final = 36
"""Most cells that a name may take."""

STYLES: Final = {"ok": "green", "error": "red", "unfinished": "yellow", "not_started": "dim"}
"""Styles of bars by the outcome of the call."""

_EIGHTHS: Final = " ▏▎▍▌▋▊▉█"

JsonObject = Mapping[str, Any]


def render_finding(name: str, script: str, finding: Mapping[str, object]) -> Text:
    """Show a finding of a dry run, or the error of a run: its place, its message, the line of the script, the hint.

    Args:
        name: The name of the script.
        script: The text of the script.
        finding: A mapping with `code` and `message`, and with `location` and `hint` if they are known.
    """
    location = cast("Mapping[str, int]", finding.get("location") or {})
    place = f"{name}:{location['line']}:{location['column']}" if location else name
    parts: list[Text | str | tuple[str, str]] = [
        (escape_unprintable(place), "bold"),
        ": ",
        (one_line(str(finding["code"])), "bold red"),
        f" {escape_unprintable(str(finding['message']))}",
    ]
    if location and (excerpt := source_excerpt(script, location["line"], location["column"])):
        parts += ["\n", excerpt]
    if hint := finding.get("hint"):
        parts += ["\n", ("  hint: ", "bold cyan"), escape_unprintable(str(hint))]
    return Text.assemble(*parts)


def source_excerpt(script: str, line: int, column: int) -> Text:
    """Show one line of a script with its number, and a mark below the column. Empty if there is no such line.

    Args:
        script: The text of the script as it was sent.
        line: The number of the line, from 1.
        column: The column in characters, from 1.
    """
    text, at = LineTable(script).text(line), column - 1
    if not text.strip():
        return Text()
    start = max(0, min(at - EXCERPT // 2, len(text) - EXCERPT))
    end = start + EXCERPT
    before = ("…" if start else "") + escape_unprintable(text[start:at])
    after = escape_unprintable(text[at:end]) + ("…" if end < len(text) else "")
    margin = f"{line:>5} "
    return Text.assemble(
        (f"{margin}│ ", "dim"),
        before + after,
        "\n",
        (f"{' ' * len(margin)}│ ", "dim"),
        " " * cell_len(before),
        ("^", "bold red"),
    )


def timeline(calls: Sequence[JsonObject], duration_ms: float, width: int) -> Text:
    """Draw the calls of a run as bars on a time axis, one line for each call.

    Args:
        calls: Mappings with `number`, `name`, `startMs`, `durationMs`, `outcome`, and `code` if the call failed.
        duration_ms: Milliseconds that the whole run took.
        width: Cells that a line may take.
    """
    drawn = calls[:MAX_CALLS]
    ends = [call["startMs"] + call["durationMs"] for call in drawn if call["durationMs"] is not None]
    total = max([duration_ms, *ends, 0.001])
    names = [set_cell_size(name, min(cell_len(name), MAX_NAME)) for name in (one_line(call["name"]) for call in drawn)]
    name_width = max(map(cell_len, names), default=0)
    cells = max(10, width - name_width - 34)
    text = Text()
    axis = format_duration(total)
    text.append(f"{'':>5}{'':<{name_width}} 0{' ' * (cells - len(axis) - 1)}{axis}\n", "dim")
    for call, name in zip(drawn, names, strict=True):
        style = STYLES.get(call["outcome"], "")
        text.append(f"{call['number']:>4} ", "dim")
        text.append(set_cell_size(name, name_width) + " ")
        text.append(_bar(call, total, cells), style)
        text.append(f" {_call_end(call)}\n", style if call["outcome"] != "ok" else "dim")
    if len(calls) > len(drawn):
        text.append(f"     and {len(calls) - len(drawn)} more calls; --trace shows all of them\n", "dim")
    text.right_crop(1)
    return text


def write_trace_page(trace: Trace, path: Path) -> None:
    """Write a trace as an HTML page to `path`. Takes long for large runs.

    Raises:
        CodeCallError: the file cannot be written.
    """
    try:
        check_stays_inside(path.parent)
        write_private_file(path, render(trace))
    except OSError as failure:
        raise CodeCallError(f"Cannot write {path}: {failure.strerror}", code="CANNOT_WRITE") from None


def _bar(call: JsonObject, total: float, cells: int) -> str:
    if call["startMs"] is None:
        return " " * cells
    start = min(call["startMs"] / total, 1.0) * cells
    duration = call["durationMs"]
    length = cells - start if duration is None else duration / total * cells
    first = min(int(start), cells - 1)
    eighths = max(1, min(round(length * 8), (cells - first) * 8))
    bar = "█" * (eighths // 8) + (_EIGHTHS[eighths % 8] if eighths % 8 else "")
    return f"{' ' * first}{bar}".ljust(cells)


def _call_end(call: JsonObject) -> str:
    duration = "" if call["durationMs"] is None else format_duration(call["durationMs"])
    outcomes = {"ok": "reused" if call.get("reused") else "", "error": one_line(str(call.get("code") or "failed"))}
    return " ".join(filter(None, (duration, outcomes.get(call["outcome"], call["outcome"].replace("_", " ")))))
