"""`codecall promote`: a script that did its job becomes a composite tool, with a test that replays it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from codecall.cli.arguments import AsJson
from codecall.errors import CodeCallError

if TYPE_CHECKING:
    from codecall.traces.model import Trace

JsonObject = dict[str, Any]


async def promote(
    run: Annotated[str, Parameter(help="The id of the run, as its envelope has it.")],
    /,
    *,
    name: Annotated[str, Parameter(help="The name of the tool.")],
    records: Annotated[
        Path, Parameter(help="The record of the run: a file of JSON lines, as JsonLinesSink writes it.")
    ],
    description: Annotated[str | None, Parameter(help="What the tool does; it can be written later.")] = None,
    parameter: Annotated[
        tuple[str, ...],
        Parameter(negative="", help="A literal that becomes a parameter, key=value; a value may be JSON. Repeatable."),
    ] = (),
    to: Annotated[Path, Parameter(help="The folder for the files; the current one if nobody says.")] = Path(),
    as_json: AsJson = False,
) -> None:
    """Write a recorded run as a composite tool: its script with a header, and a test that replays the calls it made.

    The context of the run becomes parameters, and so does each literal that --parameter names. Nothing is served before
    the script stands where definitions are read.
    """
    from codecall.cli.output import Output
    from codecall.cli.promotion import promote_run
    from codecall.composite.definition import NAME

    output = Output(as_json=as_json)
    if NAME.fullmatch(name) is None:
        raise CodeCallError(f"--name {name!r:.80}: letters, digits, _ and -, at most 64 of them", code="USAGE")
    with output.progress("promoting"):
        promoted = await promote_run(
            _find(records, run), name, description or f"What run {run} did", _literals(parameter)
        )
    written = _write(to, promoted.files)
    if as_json:
        output.document({"files": written, "parameters": list(promoted.parameters), "tools": list(promoted.tools)})
        return
    for file in written:
        output.line(file)
    if description is None:
        output.note("Say in `description` what it does: models read that")
    output.note("Move the script to where composite tools are read; pytest runs the test")


def _find(records: Path, run: str) -> Trace:
    from codecall.traces.records import traces_of

    try:
        with records.open(encoding="utf-8", errors="replace") as lines:
            found = [trace for trace in traces_of(lines, []) if trace.run_id == run]
    except OSError as failure:
        raise CodeCallError(f"Cannot read {records}: {failure.strerror}", code="CANNOT_READ") from None
    if not found:
        hint = f"`codecall trace {records}` shows those that there are."
        raise CodeCallError(f"There is no run {run!r:.80} in {records}", code="NOT_FOUND", hint=hint)
    return found[-1]


def _literals(words: Sequence[str]) -> JsonObject:
    found: JsonObject = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise CodeCallError(f"--parameter {word!r:.80}: key=value is needed", code="USAGE")
        try:
            found[key] = json.loads(value)
        except ValueError:
            found[key] = value
    return found


def _write(folder: Path, files: Mapping[str, str]) -> list[str]:
    """Write the files, or none of them.

    Raises:
        CodeCallError: one is there already, or cannot be written.
    """
    paths = {folder / name: text for name, text in files.items()}
    if there := [path for path in paths if path.exists()]:
        raise CodeCallError(f"{there[0]} exists already", code="EXISTS_ALREADY", hint="Give another --name, or --to.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, text in paths.items():
            path.write_text(text, encoding="utf-8", newline="\n")
    except OSError as failure:
        raise CodeCallError(f"Cannot write to {folder}: {failure.strerror}", code="CANNOT_WRITE") from None
    return [str(path) for path in paths]
