"""`codecall trace`: runs from the records that a server keeps, as a list, a timeline, or a page."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from codecall.cli.arguments import AsJson
from codecall.errors import CodeCallError

if TYPE_CHECKING:
    from codecall.cli.output import Output
    from codecall.traces.model import Trace

JsonObject = dict[str, Any]


def trace(
    records: Annotated[Path, Parameter(help="A file of JSON lines, as JsonLinesSink writes it.")],
    /,
    *,
    run: Annotated[str | None, Parameter(help="Only this run, by its id.")] = None,
    page: Annotated[
        Path | None, Parameter(name=("--output", "-o"), help="Write it as a page to this file, for a browser.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show the runs in a server's records: all as a list, one as a timeline, or as a page for a browser.

    With --output and no --run, the page is of the run that ended last.
    """
    from codecall.cli.output import Output

    output = Output(as_json=as_json)
    with output.progress("reading"):
        traces, skipped = _read(records)
    if skipped:
        output.note(f"{records}: {len(skipped)} lines are no events, the first is line {skipped[0]}", "yellow")
    if run is not None:
        traces = [each for each in traces if each.run_id == run]
    if not traces:
        what = f"no run {run}" if run is not None else "no runs"
        raise CodeCallError(f"There is {what} in {records}", code="NOT_FOUND")
    if page is not None:
        from codecall.cli.render import write_trace_page

        write_trace_page(traces[-1], page)
    if as_json:
        output.document(
            {"runs": [run_document(each) for each in traces], **({"page": str(page)} if page is not None else {})}
        )
    elif page is not None:
        output.note(f"{page}: run {traces[-1].run_id}")
    elif run is not None and output.rich:
        _draw(output, traces[-1])
    else:
        _list(output, traces)


def _read(records: Path) -> tuple[list[Trace], list[int]]:
    from codecall.traces.records import traces_of

    skipped: list[int] = []
    try:
        with records.open(encoding="utf-8", errors="replace") as lines:
            return list(traces_of(lines, skipped)), skipped
    except OSError as failure:
        raise CodeCallError(f"Cannot read {records}: {failure.strerror}", code="CANNOT_READ") from None


def call_rows(seen: Trace) -> list[JsonObject]:
    """Its calls as `timeline` takes them, and `--json` shows them."""
    return [
        {
            "number": call.number,
            "called": call.called,
            "name": call.name,
            "outcome": call.outcome,
            "startMs": _rounded(call.start_ms),
            "durationMs": _rounded(
                None if call.end_ms is None or call.start_ms is None else call.end_ms - call.start_ms
            ),
            **({"code": call.code} if call.code else {}),
            **({"line": call.line} if call.line else {}),
            **({"reused": True} if call.reused else {}),
        }
        for call in seen.calls
    ]


def run_document(seen: Trace) -> JsonObject:
    """A run as `--json` shows it."""
    body: JsonObject = {
        "runId": seen.run_id,
        "when": _when(seen),
        "caller": seen.caller,
        "preset": seen.preset,
        "status": seen.status,
        "durationMs": _rounded(seen.duration_ms),
        "timeline": call_rows(seen),
    }
    if seen.error is not None:
        body["error"] = {"code": seen.error.code, "message": seen.error.message, "hint": seen.error.hint}
    return body


def _rounded(duration_ms: float | None) -> float | None:
    return None if duration_ms is None else round(duration_ms, 3)


def _when(seen: Trace) -> str | None:
    return None if seen.when is None else datetime.fromtimestamp(seen.when, UTC).isoformat(timespec="seconds")


def _list(output: Output, traces: list[Trace]) -> None:
    from codecall.cli.output import Column, format_duration

    columns = [
        Column("when"),
        Column("run", "bold"),
        Column("status"),
        Column("took", right=True),
        Column("calls", right=True),
    ]
    rows = [
        [
            _when(each) or "",
            each.run_id,
            each.status if each.error is None else f"{each.status} {each.error.code}",
            "" if each.duration_ms is None else format_duration(each.duration_ms),
            str(len(each.calls)),
        ]
        for each in traces
    ]
    output.table(columns, rows)


def _draw(output: Output, seen: Trace) -> None:
    from codecall.cli.render import timeline

    _list(output, [seen])
    if seen.calls:
        output.show(timeline(call_rows(seen), seen.duration_ms or 0.0, output.out.width))
    if seen.error is not None and seen.error.message:
        output.line(f"{seen.error.code}: {seen.error.message}", "red")
