"""`codecall promote`: a script that did its job becomes a composite tool, with a test that replays it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from codecall.cli.arguments import AsJson
from codecall.errors import CodeCallError
from codecall.files import check_stays_inside

if TYPE_CHECKING:
    from codecall.cli.output import Output
    from codecall.traces.model import Trace


async def promote(
    run: Annotated[str, Parameter(help="The id of the run, as its envelope has it, or how it begins.")],
    /,
    *,
    name: Annotated[str, Parameter(help="The name of the tool.")],
    records: Annotated[
        Path, Parameter(help="The record of the run: a file of JSON lines, as JsonLinesSink writes it.")
    ],
    description: Annotated[str | None, Parameter(help="What the tool does; it can be written later.")] = None,
    parameter: Annotated[
        tuple[str, ...],
        Parameter(
            negative="",
            help="A literal that becomes a parameter, key=value; a value may be JSON. Where it stands in several "
            "places, key=value@LINE, @LINE:COLUMN, several with commas, or @all. Repeatable.",
        ),
    ] = (),
    to: Annotated[Path, Parameter(help="The folder for the files; the current one if nobody says.")] = Path(),
    as_json: AsJson = False,
) -> None:
    """Write a recorded run as a composite tool: its script with a header, and a test that replays the calls it made.

    The context of the run becomes parameters, and so does each literal that --parameter names. Nothing is served before
    the script stands where definitions are read.
    """
    from codecall.cli.literals import read_parameters
    from codecall.cli.output import Output
    from codecall.cli.promotion import promote_run
    from codecall.composite.definition import NAME

    output = Output(as_json=as_json)
    if NAME.fullmatch(name) is None:
        raise CodeCallError(f"--name {name!r:.80}: letters, digits, _ and -, at most 64 of them", code="USAGE")
    found = _find(records, run, output)
    with output.progress("promoting"):
        promoted = await promote_run(
            found, name, description or f"What run {found.run_id} did", read_parameters(parameter)
        )
    written = _write(to, promoted.files)
    if as_json:
        literals = {key: {"replaced": each.replaced, "left": each.left} for key, each in promoted.literals.items()}
        body = {"files": written, "parameters": list(promoted.parameters), "tools": list(promoted.tools)}
        output.document({**body, "literals": literals})
        return
    for file in written:
        output.line(file)
    for key, literal in promoted.literals.items():
        left = f"; the same value stays as it is at {', '.join(literal.left)}" if literal.left else ""
        output.note(f"{key} stands at {', '.join(literal.replaced)} of the script (line:column) now{left}")
    if description is None:
        output.note("Say in `description` what it does: models read that")
    output.note("Move the script to where composite tools are read; pytest runs the test")


def _find(records: Path, run: str, output: Output) -> Trace:
    from codecall.traces.records import named_run, skipped_lines, traces_of

    skipped: list[int] = []
    try:
        with records.open(encoding="utf-8", errors="replace") as lines:
            found = named_run(traces_of(lines, skipped), run)
    except OSError as failure:
        raise CodeCallError(f"Cannot read {records}: {failure.strerror}", code="CANNOT_READ") from None
    if skipped:
        output.note(f"{records}: {skipped_lines(skipped)}", "yellow")
    if not found:
        hint = f"`codecall trace {records}` shows those that there are."
        raise CodeCallError(f"There is no run {run!r:.80} in {records}", code="NOT_FOUND", hint=hint)
    return found[-1]


def _write(folder: Path, files: Mapping[str, str]) -> list[str]:
    """Write the files, or none of them.

    Raises:
        CodeCallError: one is there already, or cannot be written.
    """
    paths = {folder / name: text for name, text in files.items()}
    # A link that leads nowhere is a file, too: nothing is written through it.
    if there := [path for path in paths if os.path.lexists(path)]:
        raise CodeCallError(f"{there[0]} exists already", code="EXISTS_ALREADY", hint="Give another --name, or --to.")
    try:
        check_stays_inside(folder)
        folder.mkdir(parents=True, exist_ok=True)
        for path, text in paths.items():
            with path.open("x", encoding="utf-8", newline="\n") as file:
                file.write(text)
    except OSError as failure:
        raise CodeCallError(f"Cannot write to {folder}: {failure.strerror}", code="CANNOT_WRITE") from None
    return [str(path) for path in paths]
