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
    run: Annotated[str | None, Parameter(help="Only this run, by its id or how it begins.")] = None,
    page: Annotated[
        Path | None, Parameter(name=("--output", "-o"), help="Write it as a page to this file, for a browser.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show the runs in a server's records: all as a list, one as a timeline, or as a page for a browser.

    With --output and no --run, the page is of the run that ended last.
    """
    from codecall.cli.output import Output
    from codecall.traces.records import named_run, skipped_lines

    output = Output(as_json=as_json)
    with output.progress("reading"):
        traces, skipped = _read(records)
    if skipped:
        output.note(f"{records}: {skipped_lines(skipped)}", "yellow")
    if run is not None:
        traces = named_run(traces, run)
    if not traces:
        what = f"There is no run {run}" if run is not None else "There are no runs"
        raise CodeCallError(f"{what} in {records}", code="NOT_FOUND")
    if page is not None:
        from codecall.cli.render import write_trace_page

        write_trace_page(traces[-1], page)
    if as_json:
        output.document(
            {
                "runs": [run_document(run_trace) for run_trace in traces],
                **({"page": str(page)} if page is not None else {}),
            }
        )
    elif page is not None:
        output.note(f"{page}: run {traces[-1].run_id}")
    elif run is not None and output.rich:
        _print_timeline(output, traces[-1])
    else:
        _print_list(output, traces)


def _read(records: Path) -> tuple[list[Trace], list[int]]:
    from codecall.traces.records import traces_of

    skipped: list[int] = []
    try:
        with records.open(encoding="utf-8", errors="replace") as lines:
            return list(traces_of(lines, skipped)), skipped
    except OSError as failure:
        raise CodeCallError(f"Cannot read {records}: {failure.strerror}", code="CANNOT_READ") from None


def call_rows(run_trace: Trace) -> list[JsonObject]:
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
        for call in run_trace.calls
    ]


def run_document(run_trace: Trace) -> JsonObject:
    """A run as `--json` shows it."""
    body: JsonObject = {
        "runId": run_trace.run_id,
        "when": _when(run_trace),
        "caller": run_trace.caller,
        "tool": run_trace.tool,
        "language": run_trace.language,
        "preset": run_trace.preset,
        "status": run_trace.status,
        "durationMs": _rounded(run_trace.duration_ms),
        "timeline": call_rows(run_trace),
    }
    if run_trace.error is not None:
        body["error"] = {"code": run_trace.error.code, "message": run_trace.error.message, "hint": run_trace.error.hint}
    return body


def _rounded(duration_ms: float | None) -> float | None:
    return None if duration_ms is None else round(duration_ms, 3)


def _when(run_trace: Trace) -> str | None:
    return None if run_trace.when is None else datetime.fromtimestamp(run_trace.when, UTC).isoformat(timespec="seconds")


def _print_list(output: Output, traces: list[Trace]) -> None:
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
            _when(run_trace) or "",
            run_trace.run_id,
            run_trace.status if run_trace.error is None else f"{run_trace.status} {run_trace.error.code}",
            "" if run_trace.duration_ms is None else format_duration(run_trace.duration_ms),
            str(len(run_trace.calls)),
        ]
        for run_trace in traces
    ]
    output.table(columns, rows)


def _print_timeline(output: Output, run_trace: Trace) -> None:
    from codecall.cli.render import timeline

    _print_list(output, [run_trace])
    if run_trace.calls:
        output.show(timeline(call_rows(run_trace), run_trace.duration_ms or 0.0, output.out.width))
    if run_trace.error is not None and run_trace.error.message:
        output.line(f"{run_trace.error.code}: {run_trace.error.message}", "red")
