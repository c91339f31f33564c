"""`codecall run`: one script over the servers' tools; its result as JSON on stdout, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

from cyclopts import Parameter

from codecall.cli import exit_codes as exits
from codecall.cli.arguments import DEFAULT_SERVERS, AsJson, PresetName, ServerArguments
from codecall.errors import CodeCallError

if TYPE_CHECKING:
    from codecall.cli.gateway import GatewaySession
    from codecall.cli.output import Output
    from codecall.gateway.config.options import GatewayOptions
    from codecall.traces.model import Trace
from collections.abc import Sequence

from codecall.cli.gateway import ClientCallbacks
from codecall.cli.output import ProgressLine

# ----------------------------------------------------------------------------------------------------
# `codecall run`: one script over the servers' tools; its result as JSON on stdout, and nothing else.

JsonObject = dict[str, Any]


async def run(
    script: Annotated[str, Parameter(help="The script's file; - is standard input.", allow_leading_hyphen=True)],
    /,
    *,
    context: Annotated[str | None, Parameter(help="What it sees as codecallContext: a JSON object, or @file.")] = None,
    preset: PresetName = None,
    timeout_s: Annotated[
        float | None, Parameter(name="--timeout", help="Seconds it may take, waiting for tools included.")
    ] = None,
    dry_run: Annotated[bool, Parameter(negative="", help="Run nothing: say what is wrong and what it calls.")] = False,
    trace: Annotated[Path | None, Parameter(help="Write the run as a page to this file, for a browser.")] = None,
    chosen: ServerArguments = DEFAULT_SERVERS,
    as_json: AsJson = False,
) -> int:
    """Run a script over the servers' tools.

    The result goes to stdout as JSON, and nothing else; what the script prints, progress and a timeline of its calls go
    to stderr.
    """
    from codecall.cli.commands.check import read_script, refuse_option
    from codecall.cli.gateway import open_gateway, with_preset

    pass
    from codecall.cli.commands.trace import call_rows
    from codecall.cli.output import Output
    from codecall.traces.records import TraceRecorder

    output = Output(as_json=as_json)
    refuse_option(script)
    source = read_script(script)
    if source.text is None:
        raise CodeCallError(f"{script}: {source.failure}", code="CANNOT_READ")
    if trace is not None and not trace.absolute().parent.is_dir():
        raise CodeCallError(f"Cannot write {trace}: there is no folder {trace.absolute().parent}", code="CANNOT_WRITE")
    arguments: JsonObject = {"script": source.text}
    if context is not None:
        arguments["context"] = parse_context(context)
    if dry_run:
        arguments["dryRun"] = True
    options = with_preset(_options(chosen, output), preset, timeout_s)
    recorder = TraceRecorder()
    with output.progress("starting") as working:
        live = LiveConsole(working)
        async with open_gateway(options, callbacks=live, observers=(recorder,), workers=True) as gateway:
            envelope = await gateway.call("execute", arguments, live)
            whole = await _whole(gateway, envelope)
        live.print_rest(envelope.get("logs", ()))
    seen = await _trace(recorder, envelope.get("runId"))
    calls = call_rows(seen) if seen is not None else []
    untraced = await _write(seen, trace) if trace is not None and seen is not None else None
    if as_json:
        body = {key: value for key, value in envelope.items() if key != "largeResult"}
        body |= {"result": json.loads(whole)} if whole else {}
        body |= {"trace": str(trace) if untraced is None else untraced.as_dict()} if trace is not None else {}
        output.document({**body, "timeline": calls})
    else:
        _show(output, source.name, source.text, envelope, whole, dry_run=dry_run)
        if calls and output.err.is_terminal:
            from codecall.cli.render import timeline

            duration_ms = (seen.duration_ms if seen is not None else None) or 0.0
            output.err.print(timeline(calls, duration_ms, output.err.width), soft_wrap=True)
        if trace is not None and untraced is None:
            output.note(f"trace: {trace}")
        elif untraced is not None:
            output.failure(untraced)
    if "error" in envelope:
        return exits.exit_for(envelope["error"]["code"])
    if dry_run and not envelope["result"]["valid"]:
        return exits.FAILED
    return exits.exit_for(untraced.code if untraced is not None else None)


def parse_context(word: str) -> JsonObject:
    """The object that `--context` gives.

    Raises:
        CodeCallError: it gives none.
    """
    named = f" of {word[1:]}" if word.startswith("@") else ""
    try:
        text = Path(word[1:]).read_text(encoding="utf-8-sig") if named else word
        value: object = json.loads(text)
    except OSError as failure:
        raise CodeCallError(f"--context: cannot read {word[1:]}: {failure.strerror}", code="CANNOT_READ") from None
    except (ValueError, RecursionError) as failure:
        raise CodeCallError(
            f"--context: the text{named} is not JSON: {failure}",
            code="USAGE",
            hint="""Write an object, such as --context '{"user": "ann"}', or --context @file.json.""",
        ) from None
    if not isinstance(value, dict):
        raise CodeCallError(f"--context: the JSON{named} must be an object", code="USAGE")
    return cast("JsonObject", value)


def _options(chosen: ServerArguments, output: Output) -> GatewayOptions:
    """The servers; none, where none are configured: many a script can be tried without tools."""
    from codecall.cli.arguments import gateway_options
    from codecall.gateway.config.options import GatewayOptions

    try:
        return gateway_options(chosen, output)
    except CodeCallError as failure:
        if failure.code != "NO_CONFIGURATION":
            raise
        output.note("no servers are configured: the script has no tools", "yellow")
        return GatewayOptions()


async def _whole(gateway: GatewaySession, envelope: JsonObject) -> str | None:
    """The JSON text of a result that was too large for its envelope."""
    kept = cast("JsonObject | None", envelope.get("largeResult"))
    if kept is None:
        return None
    pages = range(1, int(kept["pages"]) + 1)
    return "".join([await gateway.read(f"{kept['uri']}/pages/{page}") for page in pages])


async def _trace(recorder: Any, run_id: str | None) -> Trace | None:
    import anyio.to_thread

    return await anyio.to_thread.run_sync(recorder.trace, run_id)


async def _write(seen: Trace, path: Path) -> CodeCallError | None:
    """Write the page; why it could not be. The script has run, so its result is told all the same."""
    import anyio.to_thread

    from codecall.cli.render import write_trace_page

    try:
        await anyio.to_thread.run_sync(write_trace_page, seen, path)
    except CodeCallError as failure:
        return failure
    return None


def _show(output: Output, name: str, script: str, envelope: JsonObject, whole: str | None, *, dry_run: bool) -> None:
    for warning in envelope.get("warnings", ()):
        output.note(f"warning: {warning}", "yellow")
    failed = [envelope["error"]] if "error" in envelope else []
    if dry_run and not failed:
        failed = envelope["result"]["findings"]
    for found in failed:
        from codecall.cli.render import render_finding

        output.err.print(render_finding(name, script, found), soft_wrap=True)
    if "error" in envelope:
        return
    if whole is not None:
        from codecall.cli.output import escape_json

        output.text(escape_json(whole))
    else:
        output.document(envelope["result"])


# ----------------------------------------------------------------------------------------------------
# What a run says while it lasts, on stderr: its console, the logs of servers, and how far it is.


class LiveConsole(ClientCallbacks):
    """Shows it.

    Args:
        working: Where.
    """

    def __init__(self, working: ProgressLine) -> None:
        self._working = working
        self._lines = 0

    def on_console(self, line: str) -> None:
        """See `Ear.said`."""
        self._lines += 1
        self._working.print_line(line, "")

    def on_log(self, level: str, server: str, text: str) -> None:
        """See `Ear.logged`. What is less than a warning is the server's own business."""
        if level not in ("debug", "info", "notice"):
            self._working.print_line(f"{server or 'server'}: {level}: {text}", "yellow")

    def on_progress(self, message: str) -> None:
        """See `Ear.progressed`."""
        self._working.update(0, None, message)

    def print_rest(self, lines: Sequence[str]) -> None:
        """What of the script's lines came with its answer only."""
        for line in lines[self._lines :]:
            self._working.print_line(line, "")
