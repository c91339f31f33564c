"""The table of commands, and how each one ends: with an exit code, and without a traceback for expected errors.

A command is imported when it is called, so that `codecall --help` loads nothing but its line of help.
"""

from __future__ import annotations

import errno
import os
import sys
import traceback
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Final

from cyclopts import App, CycloptsError, Group, Parameter, UnknownOptionError, UnusedCliTokensError

from codecall.cli import exit_codes as exits
from codecall.server.shutdown import sigterm_as_interrupt
from codecall.wording import join_names

SERVERS: Final = Group("Servers and tools", sort_key=1)
SCRIPTS: Final = Group("Scripts", sort_key=2)
SETUP: Final = Group("Setting up", sort_key=3)

COMMANDS: Final = (
    ("serve", SERVERS, "Put CodeCall in front of servers: over stdio, or HTTP."),
    ("tools", SERVERS, "Show the servers and their tools, with what each costs in tokens."),
    ("search", SERVERS, "Find tools by what they do, as a model finds them."),
    ("describe", SERVERS, "Show schemas and examples of tools."),
    ("savings", SERVERS, "Count the tokens of listing all tools against those of CodeCall."),
    ("refresh", SERVERS, "List the servers' tools anew, and say what has changed."),
    ("approvals", SERVERS, "Decide about calls that wait for a person, and withdraw what was allowed."),
    ("run", SCRIPTS, "Run a script over the servers' tools."),
    ("check", SCRIPTS, "Say what is wrong with scripts or composite tools, without running them."),
    ("composite", SCRIPTS, "List, check or run composite tools: workflows that are served as tools."),
    ("promote", SCRIPTS, "Make a composite tool of a recorded run, with a test that replays it."),
    ("trace", SCRIPTS, "Show the runs in a server's records, or turn one into a page."),
    ("policy", SCRIPTS, "Print the language: what scripts may use, what not, and the limits."),
    ("presets", SCRIPTS, "Compare presets: limits and language, side by side."),
    ("init", SETUP, "Write a configuration from what other clients have."),
    ("add", SETUP, "Add a server to the configuration."),
    ("remove", SETUP, "Take a server out of the configuration."),
    ("clients", SETUP, "Show other clients, or write the gateway into their configurations."),
    ("trust", SETUP, "Trust the configuration of a folder, so that it counts without being named."),
    ("doctor", SETUP, "Say whether everything works here, and what to do if not."),
)
"""Every command: its name, which is also that of its module and function; its group in `--help`; what it does. Those
of `SETUP` have a folder of their own."""


def _version() -> str:
    from importlib.metadata import version

    return f"codecall {version('codecall')}"


def _epilogue() -> str:
    return "Exit codes: " + "; ".join(f"{code} {meaning}" for code, meaning in exits.MEANINGS.items())


WRITE_ERRORS: Final = frozenset({errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EIO})
"""Error numbers with which writing to stdout may fail."""

app: Final = App(
    name="codecall",
    help="CodeCall in front of MCP servers: four tools for a model instead of hundreds, and scripts that chain them.",
    help_epilogue=_epilogue(),
    help_format="plaintext",
    default_parameter=Parameter(show_default=False),
    version=_version,
    suppress_keyboard_interrupt=False,
)

_MAX_LEFT_OVER: Final = 5
"""Most words that are named of those that a command does not take."""

for _name, _group, _help in COMMANDS:
    _module = f"setup.{_name}" if _group is SETUP else _name
    app.command(f"codecall.cli.commands.{_module}:{_name}", name=_name, help=_help, group=_group)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        arguments: The command line after `codecall`; None uses that of this process.

    Returns:
        The exit code; see `codecall.cli.exit_codes`.
    """
    command_line = sys.argv[1:] if arguments is None else list(arguments)
    for stream in (sys.stdout, sys.stderr):
        if (reconfigure := getattr(stream, "reconfigure", None)) is not None:
            # A terminal that cannot show a character gets its escape instead of a traceback.
            reconfigure(errors="backslashreplace")
    try:
        with nullcontext([]) if command_line[:1] == ["serve"] else sigterm_as_interrupt() as signals:
            code = _run_command(command_line)
    except OSError as failure:
        # What is left is written again at the end, which would fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(failure, BrokenPipeError):
            return exits.NO_READER
        sys.stderr.write(f"error: CANNOT_WRITE: Cannot write the answer: {failure.strerror}\n")
        return exits.exit_for("CANNOT_WRITE")
    return exits.TERMINATED if signals and code == exits.INTERRUPTED else code


def _run_command(arguments: list[str]) -> int:
    if arguments[:1] != ["serve"]:
        # FastMCP reads it when it is imported. What concerns a command, the command itself reports.
        os.environ.setdefault("FASTMCP_LOG_LEVEL", "CRITICAL")
    try:
        result = app(arguments, exit_on_error=False, print_error=False, result_action="return_value")
        sys.stdout.flush()
    except (Exception, KeyboardInterrupt) as failure:
        if isinstance(failure, OSError) and failure.errno in WRITE_ERRORS:
            raise
        return _report(failure, as_json="--json" in arguments)
    return result if isinstance(result, int) else exits.OK


def _left_over(words: Sequence[str], command: str) -> str:
    """What is said of words that a command does not take."""
    listed = join_names(words, _MAX_LEFT_OVER, lambda word: f"{word!r:.80}")
    return f"{command} takes fewer arguments: {listed} {'is' if len(words) == 1 else 'are'} left over"


def _report(failure: BaseException, *, as_json: bool) -> int:
    """Say what went wrong; the exit code."""
    # Loaded where there is something to say: `--help` does without.
    from codecall.cli.output import Output, drain_interrupt_report, escape_unprintable
    from codecall.errors import CodeCallError

    match failure:
        case CodeCallError():
            error = failure
        case CycloptsError():
            failure.verbose = False
            command = " ".join(["codecall", *(failure.command_chain or ())])
            message = (
                _left_over(failure.unused_tokens or (), command) if isinstance(failure, UnusedCliTokensError) else ""
            )
            hint = f"{command} --help shows what there is."
            if isinstance(failure, UnknownOptionError) and command == "codecall add":
                hint = f"Options of the server's command stand behind --: {command} NAME -- COMMAND…"
            error = CodeCallError(message or str(failure).strip(), code="USAGE", hint=hint)
        case KeyboardInterrupt():
            error = CodeCallError("Interrupted", code="INTERRUPTED", hint=drain_interrupt_report() or None)
        case _:
            sys.stderr.write(escape_unprintable("".join(traceback.format_exception(failure))))
            message = f"{type(failure).__name__}, which should not happen"
            hint = "This is a fault of CodeCall: please report it, with the traceback and the command."
            error = CodeCallError(message, code="BUG", hint=hint)
    Output(as_json=as_json).failure(error)
    return exits.exit_for(error.code)
