"""`codecall init`: a configuration from what other clients have, and the lines that make them use the gateway."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from codecall.cli import exit_codes as exits
from codecall.cli.arguments import CONFIG_FILES, AsJson, project_files
from codecall.errors import CodeCallError

if TYPE_CHECKING:
    from codecall.cli.commands.setup.client_files import ClientFiles, MergedServers
    from codecall.cli.hidden import HiddenTools
    from codecall.cli.output import Output
    from codecall.gateway.config.codecall_toml import TomlDocument
    from codecall.gateway.config.mcp_clients import Snippet

JsonObject = dict[str, Any]


def init(
    *,
    from_: Annotated[
        tuple[str, ...], Parameter(name="--from", negative="", help="Only these clients. Repeatable.")
    ] = (),
    config: Annotated[
        tuple[Path, ...],
        Parameter(name=("--config", "-c"), negative="", help="The servers of this file, not all clients'. Repeatable."),
    ] = (),
    output_file: Annotated[
        Path, Parameter(name=("--output", "-o"), help="The .toml file that is written; codecall.toml in this folder.")
    ] = Path(CONFIG_FILES[0]),
    force: Annotated[
        bool, Parameter(negative="", help="Write over a file that is there; what it was is kept beside it.")
    ] = False,
    yes: Annotated[bool, Parameter(name=("--yes", "-y"), negative="", help="Ask nothing.")] = False,
    dry_run: Annotated[bool, Parameter(negative="", help="Print what would be written, and write nothing.")] = False,
    no_start: Annotated[
        bool, Parameter(negative="", help="Start no server to say which of its tools stay hidden.")
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Write a configuration from what other clients have, and print what makes each of them use the gateway.

    Secrets are not copied: they become ${NAME}, and what to export is printed.
    """
    from codecall.cli.commands.setup.client_files import merge_servers
    from codecall.cli.commands.setup.config_file import replace_file
    from codecall.cli.hidden import print_hidden
    from codecall.cli.output import Output, reporting_on_interrupt
    from codecall.cli.prompts import confirm
    from codecall.gateway.config.codecall_toml import TomlDocument, write_template, write_toml

    output = Output(as_json=as_json)
    path = output_file.expanduser().absolute()
    if path.suffix.lower() != ".toml":
        raise CodeCallError(
            f"{path} is not called .toml, and TOML is what is written", code="USAGE", hint=f"--output {path.stem}.toml"
        )
    backup: Path | None = None
    clients = _select_clients(from_, config)
    merged = merge_servers(clients)
    if not merged.options.servers and (clients or from_ or config):
        raise _nothing_found(clients)
    none_yet = ("there are no servers yet: `codecall add NAME -- COMMAND…` adds one",)
    template = TomlDocument(write_template(), none_yet)
    configuration = write_toml(merged.options) if merged.options.servers else template
    untrusted_file = _find_untrusted(clients)
    if not dry_run:
        _check_destination(path, untrusted_file, force=force)
    if not as_json:
        _print_servers(output, clients, merged, untrusted_file)
    if dry_run:
        if not as_json:
            output.text(configuration.text)
    elif yes or confirm(output, f"Write {path}?", hint="Say --yes, or --dry-run to see it first."):
        backup = replace_file(path, configuration.text, private=True)  # it may say where internal servers are
    else:
        output.note("nothing was written")
        return exits.FAILED
    variables = _variables(path, configuration.text)
    users = clients if from_ or not config else _select_clients((), ())
    snippets = gateway_snippets([client.client for client in users if client.client], path, configuration.text)
    untrusted = [] if dry_run else _trust_written(path, untrusted_file)
    replaced = [f"what {path} was is in {backup}"] if backup else []
    notes = [*replaced, *merged.notes, *configuration.notes, *untrusted]
    if not as_json:  # before servers are asked, which may take long and be interrupted
        _print_next_steps(output, path, snippets, notes, variables, dry_run=dry_run)
    hidden: list[HiddenTools] | None = None
    unknown: list[str] = []
    if merged.options.servers and not (
        dry_run or no_start or untrusted
    ):  # servers that somebody else may have written are not started
        with reporting_on_interrupt(f"{path} is written; `codecall tools --all` says which tools are hidden."):
            hidden, unknown = asyncio.run(_hidden(output, merged))
    if as_json:
        document = _document(path, configuration, merged, snippets, [*notes, *unknown], dry_run=dry_run)
        output.document(document | ({} if hidden is None else {"hidden": [each.as_dict() for each in hidden]}))
    else:
        _print_notes(output, unknown)
        print_hidden(output, hidden or ())
    return exits.OK


async def _hidden(output: Output, merged: MergedServers) -> tuple[list[HiddenTools], list[str]]:
    """The tools that access rules hide; and notes on the servers of which that cannot be said."""
    from codecall.cli.gateway import list_servers
    from codecall.cli.hidden import hidden_tools
    from codecall.gateway.gateway import Gateway

    gateway = Gateway(merged.options.model_copy(update={"cache_dir": False}))
    with output.progress("asking servers what they have", reports_servers=True) as progress:
        async with gateway:
            servers = await list_servers(gateway, progress)
    unknown = [
        f"{server.name} could not be asked for its tools ({server.failure.message}): `codecall tools --all` shows "
        "later which of them are hidden"
        for server in servers
        if server.failure is not None
    ]
    return hidden_tools(servers), unknown


def _select_clients(names: tuple[str, ...], files: tuple[Path, ...]) -> list[ClientFiles]:
    """The clients and files that were named; all clients if nothing was."""
    from codecall.cli.commands.setup.client_files import find_clients, read_client_file
    from codecall.gateway.config.mcp_clients import parse_client

    selected = [parse_client(name) for name in names]
    clients = (
        [client for client in find_clients() if client.client in selected] if names or files else [*find_clients()]
    )
    return [*clients, *(read_client_file(file.expanduser().absolute()) for file in files)]


def _nothing_found(clients: list[ClientFiles]) -> CodeCallError:
    from codecall.gateway.config.mcp_clients import CLIENTS, client_files

    if clients:
        reasons = "; ".join(f"{client.name}: {client.error or 'no servers but the gateway'}" for client in clients)
        return CodeCallError(f"There are no servers to take over. {reasons}", code="NOTHING_FOUND")
    paths = ", ".join(str(place.path) for client in CLIENTS for place in client_files(client))
    return CodeCallError(
        "No other client keeps servers here",
        code="NOTHING_FOUND",
        hint=f"Looked for {paths}. `codecall init` alone writes a template.",
    )


def _find_untrusted(clients: list[ClientFiles]) -> Path | None:
    """A project's file among those of clients that is not trusted: somebody else may have written it."""
    from codecall.cli.trust import require_trust
    from codecall.errors import OptionsError
    from codecall.gateway.config.load import read_config

    for file in (file for client in clients if client.client for file in project_files(client.client)):
        try:
            require_trust(file, read_config(file, discovered=True))
        except OptionsError:
            return file
    return None


def _check_destination(path: Path, untrusted: Path | None, *, force: bool) -> None:
    """Refuse to write over a file unless told, through a link, and what is untrusted to where it would count everywhere
    without being looked at.

    Raises:
        CodeCallError: `path` is one of these.
    """
    from codecall.cli.commands.setup.config_file import counts_everywhere, written_file

    if written_file(path).exists() and not force:
        raise CodeCallError(
            f"{path} exists already", code="EXISTS_ALREADY", hint="--force writes over it; --output names another file."
        )
    if untrusted is not None and counts_everywhere(path):
        raise CodeCallError(
            f"{path} counts in every folder, and would have the servers of {untrusted}, which is not trusted",
            code="UNTRUSTED_CONFIGURATION",
            hint=f"Look at it; then say `codecall trust {untrusted}`. --from takes the servers of other clients alone.",
        )


def _trust_written(path: Path, untrusted: Path | None) -> list[str]:
    """Trust the file that was written, whose servers its user's own clients have; what to know where some come from an
    untrusted file."""
    from codecall.cli.trust import trust
    from codecall.gateway.config.load import read_config

    is_found = path.name in CONFIG_FILES  # else it counts only where it is named
    then = f"then say `codecall trust {path}`" if is_found else "before you use it"
    if untrusted is not None:
        return [f"{path} has the servers of {untrusted}: look at them, {then}"]
    if not is_found:
        return []
    try:
        trust(path, read_config(path))
    except OSError as failure:
        return [f"{path} could not be trusted ({failure.strerror or failure}): say `codecall trust {path}`"]
    return []


def _variables(path: Path, text: str) -> list[str]:
    """The environment variables that a written configuration refers to."""
    import tomllib

    from codecall.gateway.config.codecall_toml import parse_own_options
    from codecall.gateway.config.variables import required_variables

    servers = parse_own_options(path, tomllib.loads(text)).servers.values()
    return sorted({name for server in servers for name in required_variables(server)})


def gateway_snippets(names: Sequence[str], path: Path, text: str) -> list[Snippet]:
    """What makes each of these clients start the gateway with the configuration at `path`, whose text that is."""
    from codecall.gateway.config.load import scope_of_servers
    from codecall.gateway.config.mcp_clients import build_snippet, parse_client

    arguments, program, variables = ["serve", "--config", str(path)], _program(), _variables(path, text)
    return [
        build_snippet(parse_client(name), arguments, program=program, variables=variables, scope=scope_of_servers(name))
        for name in names
    ]


def _program() -> str:
    """The path of the `codecall` command: clients with windows do not look where a shell does."""
    import shutil

    scripts = Path(sys.executable).parent
    return shutil.which("codecall", path=str(scripts)) or shutil.which("codecall") or "codecall"


def _document(
    path: Path,
    configuration: TomlDocument,
    merged: MergedServers,
    snippets: list[Snippet],
    notes: list[str],
    *,
    dry_run: bool,
) -> JsonObject:
    from codecall.gateway.config.names import describe_server

    servers = [
        {"name": name, "from": merged.origins[name], "what": describe_server(server)}
        for name, server in merged.options.servers.items()
    ]
    clients = [
        {"client": snippet.client, "path": str(snippet.path), "text": snippet.text, "command": snippet.command}
        for snippet in snippets
    ]
    body: JsonObject = {
        "path": str(path),
        "written": not dry_run,
        "servers": servers,
        "clients": clients,
        "notes": notes,
    }
    return {**body, "text": configuration.text} if dry_run else body


def _print_servers(output: Output, clients: list[ClientFiles], merged: MergedServers, untrusted: Path | None) -> None:
    from codecall.cli.trust import describe_started
    from codecall.gateway.config.mcp_clients import TITLES
    from codecall.gateway.config.options import GatewayOptions

    if not output.err.is_terminal:
        return
    for client in clients:
        title = TITLES[client.client] if client.client else "Named"
        output.note(f"{title}: {', '.join(map(str, client.files))}", "bold")
        for name, server in merged.options.servers.items():
            if merged.origins[name] == client.name:
                output.note(f"  {describe_started(GatewayOptions(servers={name: server}))}", "")
    if untrusted is not None:
        output.note(f"{untrusted} is not trusted: somebody else may have written it", "yellow")


def _print_notes(output: Output, notes: Sequence[str]) -> None:
    for note in notes:
        output.note(note, "yellow")


def _print_next_steps(
    output: Output, path: Path, snippets: list[Snippet], notes: list[str], variables: list[str], *, dry_run: bool
) -> None:
    from codecall.cli.layout import break_command
    from codecall.gateway.config.mcp_clients import TITLES

    _print_notes(output, notes)
    if dry_run:
        return
    output.note(f"wrote {path}; codecall doctor tries it", "green")
    for snippet in snippets:
        output.line(f"{TITLES[snippet.client]}, {snippet.path}:", "bold")
        output.text(snippet.text)
        if snippet.command is not None:
            output.line("or run:", "bold")
            output.text(break_command(snippet.command, output.out.width) if output.rich else snippet.command)
    if not snippets:
        return
    named, clients = ", ".join(variables), {snippet.client for snippet in snippets}
    if variables and clients != {"claude-code"}:
        output.note(f"In place of … write the value: {named}")
    if variables and "claude-code" in clients:
        output.note(f"Claude Code must be started with it in its environment: {named}")
    output.note("Take the servers out there that are behind the gateway now, or models see them twice.")
