"""`codecall run`: one script over the servers' tools; its result as JSON on stdout, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

from cyclopts import Parameter

from codecall.cli import exit_codes as exits
from codecall.cli.arguments import DEFAULT_SERVERS, AllowedCalls, AsJson, LanguageName, PresetName, ServerArguments
from codecall.errors import CodeCallError

if TYPE_CHECKING:
    from codecall.cli.commands.check import ScriptSource
    from codecall.cli.gateway import GatewaySession
    from codecall.cli.output import Output, ProgressLine
    from codecall.gateway.config.options import GatewayOptions
    from codecall.sandbox.languages import Language
    from codecall.traces.model import Trace
    from codecall.traces.records import TraceRecorder


JsonObject = dict[str, Any]


async def run(
    script: Annotated[str, Parameter(help="The script's file; - is standard input.", allow_leading_hyphen=True)],
    /,
    *,
    context: Annotated[
        str | None, Parameter(help="Its codecallContext, or variables in Starlark: a JSON object, or @file.")
    ] = None,
    language: LanguageName = None,
    preset: PresetName = None,
    timeout_s: Annotated[
        float | None, Parameter(name="--timeout", help="Seconds it may take, waiting for tools included.")
    ] = None,
    dry_run: Annotated[bool, Parameter(negative="", help="Run nothing: say what is wrong and what it calls.")] = False,
    trace: Annotated[Path | None, Parameter(help="Write the run as a page to this file, for a browser.")] = None,
    content: Annotated[
        Path | None, Parameter(help="Write the pictures, sounds and files that it shows to this folder.")
    ] = None,
    allow: AllowedCalls = (),
    server_args: ServerArguments = DEFAULT_SERVERS,
    as_json: AsJson = False,
) -> int:
    """Run a script over the servers' tools; a file that ends in .star is Starlark, all others JavaScript or TypeScript.

    The result goes to stdout as JSON, and nothing else; what the script prints, progress and a timeline of its calls go
    to stderr.
    """
    from codecall.cli.commands.check import parse_context, refuse_option
    from codecall.cli.commands.trace import call_rows
    from codecall.cli.content import check_page_path, write_page
    from codecall.cli.gateway import open_gateway, with_preset, with_starlark
    from codecall.cli.literals import needed_servers
    from codecall.cli.output import Output, reporting_calls_on_interrupt
    from codecall.cli.terminal_prompts import TerminalPerson, explain_unasked
    from codecall.traces.records import TraceRecorder

    output = Output(as_json=as_json)
    refuse_option(script)
    source, text = await _read(script, language)
    check_page_path(trace)
    arguments: JsonObject = {"script": text, "context": context and parse_context(context), "dryRun": dry_run}
    options = with_preset(_options(server_args, output), preset, timeout_s)
    if source.language == "starlark":
        arguments["language"] = "starlark"
        options = with_starlark(options)
    recorder = TraceRecorder()
    with (
        output.progress("starting") as progress,
        reporting_calls_on_interrupt(recorder, (person := TerminalPerson(allow, output, progress)).undecided),
    ):
        console = LiveConsole(progress)
        async with open_gateway(
            options,
            callbacks=console,
            observers=(recorder,),
            workers=True,
            person=person,
            needed=needed_servers([(text, source.language)], options),
        ) as gateway:
            sent = {name: value for name, value in arguments.items() if value or name == "script"}
            envelope, blocks = await gateway.call_with_content("execute", sent, console)
            # A terminal shows a preview, not megabytes.
            large_result = None if output.rich else await _read_large_result(gateway, envelope)
        console.print_rest(envelope.get("logs", ()))
    envelope |= {"error": explain_unasked(envelope["error"], output, person)} if "error" in envelope else {}
    run_trace = await _recorded_trace(recorder, envelope.get("runId"))
    calls = call_rows(run_trace) if run_trace is not None else []
    run_trace = run_trace and replace(run_trace, name=Path(source.name).name)
    page_error = await write_page(run_trace, trace)
    written = await _write_content(blocks, content)
    if as_json:
        body = {key: value for key, value in envelope.items() if key != "largeResult"}
        body |= {"result": json.loads(large_result)} if large_result else {}
        body |= {"trace": str(trace) if page_error is None else page_error.as_dict()} if trace is not None else {}
        output.document({**body, "timeline": calls, **({"content": written} if written else {})})
    else:
        _print_result(output, source.name, text, envelope, large_result, dry_run=dry_run)
        if calls and output.err.is_terminal:
            from codecall.cli.render import timeline

            duration_ms = (run_trace.duration_ms if run_trace is not None else None) or 0.0
            output.err.print(timeline(calls, duration_ms, output.err.width), soft_wrap=True)
        _print_notes(output, written, content, trace if page_error is None else None)
        if page_error is not None:
            output.failure(page_error)
    if "error" in envelope:
        return exits.exit_for(envelope["error"]["code"])
    if dry_run and not envelope["result"]["valid"]:
        return exits.FAILED
    return exits.exit_for("CANNOT_WRITE" if page_error or any("error" in block for block in written) else None)


async def _read(script: str, language: Language | None) -> tuple[ScriptSource, str]:
    """The script, and its text; read in a thread, so that Ctrl-C ends it: somebody may be typing.

    Raises:
        CodeCallError: it cannot be read.
    """
    import anyio.to_thread

    from codecall.cli.commands.check import read_script

    source = await anyio.to_thread.run_sync(read_script, script, language, abandon_on_cancel=True)
    if source.text is None:
        raise CodeCallError(f"{script}: {source.failure}", code="CANNOT_READ")
    return source, source.text


def _options(server_args: ServerArguments, output: Output) -> GatewayOptions:
    """The options of the gateway. Without a configuration there are no servers: some scripts need no tools."""
    from codecall.cli.arguments import gateway_options
    from codecall.gateway.config.options import GatewayOptions

    try:
        return gateway_options(server_args, output)
    except CodeCallError as failure:
        if failure.code != "NO_CONFIGURATION":
            raise
        output.note("no servers are configured: the script has no tools", "yellow")
        return GatewayOptions()


async def _read_large_result(gateway: GatewaySession, envelope: JsonObject) -> str | None:
    """Read the JSON text of a result that was too large for its envelope, page by page."""
    large_result = cast("JsonObject | None", envelope.get("largeResult"))
    if large_result is None:
        return None
    pages = range(1, int(large_result["pages"]) + 1)
    return "".join([await gateway.read(f"{large_result['uri']}/pages/{page}") for page in pages])


def _print_notes(output: Output, shown: Sequence[JsonObject], content: Path | None, trace: Path | None) -> None:
    """Say where content blocks and the page of the run are."""
    from codecall.cli.content import block_note

    for block in shown:
        output.note(f"content: {block_note(block)}")
    if shown and content is None:
        output.note("--content FOLDER writes it to files")
    if trace is not None:
        output.note(f"trace: {trace}")


async def _write_content(blocks: Sequence[Any], folder: Path | None) -> list[JsonObject]:
    """What the content blocks of an answer are; written to `folder` if there is one."""
    import anyio.to_thread

    from codecall.cli.content import describe_blocks, write_blocks

    if folder is None or not blocks:
        return describe_blocks(blocks)
    return await anyio.to_thread.run_sync(write_blocks, blocks, folder)


async def _recorded_trace(recorder: TraceRecorder, run_id: str | None) -> Trace | None:
    import anyio.to_thread

    return await anyio.to_thread.run_sync(recorder.trace, run_id)


def _print_result(
    output: Output, name: str, script: str, envelope: JsonObject, large_result: str | None, *, dry_run: bool
) -> None:
    from codecall.cli.layout import print_lines
    from codecall.cli.output import escape_json
    from codecall.cli.render import render_finding

    for warning in envelope.get("warnings", ()):
        output.note(f"warning: {warning}", "yellow")
    findings = [envelope["error"]] if "error" in envelope else []
    if dry_run and not findings:
        findings = envelope["result"]["findings"]
    for finding in findings:
        print_lines(output.err, render_finding(name, script, finding))
    if "error" in envelope:
        return
    if large_result is not None:
        output.text(escape_json(large_result))
    elif (large := envelope.get("largeResult")) is not None:
        output.line(large["preview"])
        output.note(f"the result has {large['bytes']:,} bytes; this is its beginning. Its shape:")
        output.note(json.dumps(large.get("shape"), ensure_ascii=False))
        output.note("all of it: send the output to a file or a pipe, `codecall run … > result.json`, or add --json")
    else:
        output.document(envelope["result"])


class LiveConsole:
    """Prints on stderr what a run reports while it lasts; a `ClientCallbacks`.

    Args:
        progress: The progress line of the command.
    """

    def __init__(self, progress: ProgressLine) -> None:
        self._progress = progress
        self._printed = 0

    def on_console(self, line: str) -> None:
        """Print a console line of the script."""
        self._printed += 1
        self._progress.print_line(line, "")

    def on_log(self, level: str, server: str, text: str) -> None:
        """Print a log message of a server from warnings on; lesser ones are the server's own business."""
        if level not in ("debug", "info", "notice"):
            self._progress.print_line(f"{server or 'server'}: {level}: {text}", "yellow")

    def on_progress(self, message: str) -> None:
        """Show a progress message of the run."""
        self._progress.update(0, None, message)

    def print_rest(self, lines: Sequence[str]) -> None:
        """Print those of the script's console lines that came with its result only."""
        for line in lines[self._printed :]:
            self._progress.print_line(line, "")
