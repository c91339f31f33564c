"""`codecall serve`: put CodeCall in front of servers."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal, cast

from cyclopts import Group, Parameter

from codecall.cli.arguments import PresetName, ServerArguments, print_notes

if TYPE_CHECKING:
    from codecall.gateway.config.options import GatewayOptions

_REACHED = Group("How it is reached", sort_key=5)
_SHOWN = Group("What is shown, and what may be used", sort_key=6)

Globs = tuple[str, ...]


def serve(
    *servers: Annotated[str, Parameter(help="More servers: URLs, and command lines in quotes.")],
    server_args: ServerArguments = ServerArguments(),  # noqa: B008 - frozen
    transport: Annotated[
        Literal["stdio", "http"] | None,
        Parameter(group=_REACHED, help="stdio unless the configuration says otherwise."),
    ] = None,
    host: Annotated[str | None, Parameter(group=_REACHED, help="Address for http; 127.0.0.1 if nobody says.")] = None,
    port: Annotated[int | None, Parameter(group=_REACHED, help="Port for http; 8000 if nobody says, 0: any.")] = None,
    insecure: Annotated[
        bool, Parameter(group=_REACHED, negative="", help="Listen where others reach it, though nobody signs in.")
    ] = False,
    expose: Annotated[
        Literal["auto", "always", "never"] | None,
        Parameter(group=_SHOWN, help="The four meta-tools: always, never, or when all tools would take too much room."),
    ] = None,
    preset: PresetName = None,
    allow: Annotated[
        Globs, Parameter(group=_SHOWN, negative="", help="Only these tools: `glob`, `server:glob`. Repeatable.")
    ] = (),
    deny: Annotated[Globs, Parameter(group=_SHOWN, negative="", help="Not these tools. Repeatable.")] = (),
    read_only: Annotated[
        bool, Parameter(group=_SHOWN, negative="", help="Only tools that say they change nothing.")
    ] = False,
    allow_destructive: Annotated[
        bool, Parameter(group=_SHOWN, negative="", help="Also tools that say they may destroy something.")
    ] = False,
    canonical_names: Annotated[
        bool, Parameter(group=_SHOWN, negative="", help="Call the meta-tools codecall:search and so on.")
    ] = False,
    traces: Annotated[
        Path | None, Parameter(group=_REACHED, help="A folder that gets a page of each run of a script.")
    ] = None,
    records: Annotated[
        Path | None,
        Parameter(group=_REACHED, help="A file that gets the record of each run, for `codecall trace` and `promote`."),
    ] = None,
    watch: Annotated[
        bool,
        Parameter(group=_SHOWN, negative="", help="Read definitions of composite tools again when their files change."),
    ] = False,
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"],
        Parameter(group=_REACHED, help="What is logged, to standard error."),
    ] = "warning",
) -> int:
    """Put CodeCall in front of servers: over stdio, or HTTP.

    Ends with 0 when its client has left, and by the signal when SIGTERM or Ctrl-C tells it to end.
    """
    from codecall.cli.output import Output
    from codecall.gateway.config.load import add_access_rules

    output = Output()
    configuration = server_args.configuration(servers)
    print_notes(configuration, output)
    options = add_access_rules(
        configuration.options, allow=allow, deny=deny, read_only=read_only, destructive=allow_destructive
    )
    reached = {"transport": transport, "host": host, "port": port}
    options = _changed(options, reached, expose, preset, canonical=canonical_names)
    if traces is not None or records is not None:
        options = _with_records(options, traces, records)
    if options.serve.transport == "stdio" and (unused := [word for word in ("host", "port") if reached[word]]):
        flags = " and ".join(f"--{word}" for word in unused)
        output.warn(f"warning: {flags}: not used over stdio; --transport http listens there")
    from codecall.gateway.serve.serve import serve

    return serve(options, insecure=insecure, watch=watch, log_level=log_level.upper())


def _changed(
    options: GatewayOptions, reached: Mapping[str, object], expose: str | None, preset: str | None, *, canonical: bool
) -> GatewayOptions:
    """The options with what the command line says instead."""
    from codecall.gateway.config.options import ExposeOptions, ServeOptions

    overrides = {name: value for name, value in reached.items() if value is not None}
    serve = ServeOptions.read({**options.serve.model_dump(), **overrides}, where="serve")
    changed: dict[str, object] = {"serve": serve}
    if expose is not None:
        changed["expose"] = ExposeOptions.read({**options.expose.model_dump(), "mode": expose}, where="expose")
    plugin = dict(options.codecall)
    if preset is not None:
        plugin["vm"] = {"preset": preset}
    if canonical:
        plugin.pop("toolNameSeparator", None)
        plugin["tool_name_separator"] = ":"
    return options.model_copy(update={**changed, "codecall": plugin})


_SHOWN_IN_RECORDS: Final = ("sinks", "include_arguments", "includeArguments", "include_results", "includeResults")
"""Options of the records, in both spellings, that pages and records of runs decide."""


def _with_records(options: GatewayOptions, traces: Path | None, records: Path | None) -> GatewayOptions:
    """The options with records of runs that go to pages in a folder, to a file, or to both, with all values.

    Raises:
        CodeCallError: the folder cannot be created, or the file is a link.
    """
    from codecall.audit.sinks import JsonLinesSink
    from codecall.errors import CodeCallError
    from codecall.files import check_plain_file, check_stays_inside, make_private_folders
    from codecall.traces.records import TraceSink

    sinks: list[object] = []
    folder = (traces or Path()).expanduser().absolute()
    try:
        if traces is not None:
            check_stays_inside(folder)
            make_private_folders(folder)
            sinks.append(TraceSink(folder))
        if records is not None:
            folder = records.expanduser().absolute()
            check_stays_inside(folder.parent)
            if os.path.lexists(folder):
                check_plain_file(folder, status := folder.lstat())
                if status.st_nlink > 1:  # lines are added to it, under all of its names
                    raise OSError(errno.EMLINK, "it has other names, as a hard link")  # noqa: TRY301
            sinks.append(JsonLinesSink(folder, max_bytes=_MAX_RECORDS, backups=1))
    except OSError as failure:
        raise CodeCallError(f"Cannot write to {folder}: {failure.strerror}", code="CANNOT_WRITE") from None
    audit = cast("Mapping[str, object]", options.codecall.get("audit") or {})
    recording = {"sinks": sinks, "include_arguments": True, "include_results": True}
    configured = {name: value for name, value in audit.items() if name not in _SHOWN_IN_RECORDS}
    return options.model_copy(update={"codecall": {**options.codecall, "audit": {**configured, **recording}}})


_MAX_RECORDS: Final = 256 * 1024 * 1024
"""Bytes of the file of records; then it is moved away, and the one before is dropped."""
