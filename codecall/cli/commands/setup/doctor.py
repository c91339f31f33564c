"""`codecall doctor`: whether everything works here, and what to do if not.

Checks this machine, the sandbox, the configured servers and the configurations of other clients, one check at a time.
"""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import Parameter

from codecall.cli import exit_codes as exits
from codecall.cli.arguments import DEFAULT_SERVERS, AsJson, PresetName, ServerArguments
from codecall.cli.commands.setup.machine import Check, Verdict, machine_checks, sandbox_checks

if TYPE_CHECKING:
    from codecall.cli.commands.setup.client_files import ClientFiles
    from codecall.cli.output import Output, ProgressLine
    from codecall.errors import CodeCallError
    from codecall.gateway.config.load import Configuration
    from codecall.gateway.gateway import Gateway

MARKS: Final[dict[Verdict, tuple[str, str]]] = {
    "ok": ("✓", "green"),
    "warn": ("!", "yellow"),
    "fail": ("✗", "bold red"),
}
"""Mark and style of each verdict on a terminal."""

SERVERS: Final = "Servers"
CLIENTS: Final = "Clients"


async def doctor(
    names: Annotated[tuple[str, ...], Parameter(help="Only these servers, by name, and nothing else.")] = (),
    /,
    *,
    preset: PresetName = None,
    server_args: ServerArguments = DEFAULT_SERVERS,
    as_json: AsJson = False,
) -> int:
    """Say whether everything works here, and what to do if not.

    Looks at Python and packages, the layers of the jail, the engine, the cache, every configured server (which it
    starts), and the configurations of other clients.
    """
    from codecall.cli.output import Output

    output = Output(as_json=as_json)
    checks: list[Check] = []
    with output.progress("looking", reports_servers=True) as progress:
        async for check in _run_checks(preset, names, server_args, progress):
            checks.append(check)
            if not as_json:
                with progress.paused():
                    _print(output, check, new_section=len(checks) == 1 or checks[-2].section != check.section)
    failures = sum(check.verdict == "fail" for check in checks)
    warnings = sum(check.verdict == "warn" for check in checks)
    if as_json:
        output.document({"ok": not failures, "checks": [check.document() for check in checks]})
    elif output.rich:
        summary = f"{failures} failed, {warnings} to look at" if failures or warnings else "everything works"
        output.line(f"\n{summary}", "bold red" if failures else "bold yellow" if warnings else "bold green")
    return exits.FAILED if failures else exits.OK


async def _run_checks(
    preset: str | None, names: Sequence[str], server_args: ServerArguments, progress: ProgressLine
) -> AsyncIterator[Check]:
    if not names:
        progress.update(0, None, "this machine")
        for check in machine_checks():
            yield check
        progress.update(0, None, "jail and engine")
        for check in await sandbox_checks(preset):
            yield check
    configuration, checks = configuration_checks(server_args)
    if configuration is not None and names:
        from codecall.cli.gateway import select_servers

        configuration = configuration._replace(options=select_servers(configuration.options, names))
    for check in checks:
        yield check
    if configuration is not None:
        async for check in server_checks(configuration, progress, names):
            yield check
    for check in client_checks() if not names else ():
        yield check


def _print(output: Output, check: Check, *, new_section: bool) -> None:
    if not output.rich:
        output.row([check.verdict, check.section, check.name, check.detail, check.advice])
        return
    from rich.text import Text

    from codecall.cli.output import escape_unprintable, one_line

    if new_section:
        output.show(Text(f"\n{check.section}", style="bold"))
    mark, style = MARKS[check.verdict]
    name, detail = one_line(check.name), one_line(check.detail)
    output.show(Text.assemble((f" {mark} ", style), (f"{name}: ", "bold"), detail))
    if check.advice:
        output.show(Text.assemble(("   → ", "cyan"), escape_unprintable(check.advice)))


def configuration_checks(server_args: ServerArguments) -> tuple[Configuration | None, list[Check]]:
    """Check the configuration, and return it; None where there is none, or it is wrong."""
    from codecall.cli.output import count_of
    from codecall.errors import CodeCallError

    name = "configuration"
    try:
        configuration = server_args.configuration()
    except CodeCallError as failure:
        verdict = "warn" if failure.code == "NO_CONFIGURATION" else "fail"
        advice = failure.hint or "Mend the file that is named."
        return None, [Check(SERVERS, name, verdict, failure.message, advice)]
    files = ", ".join(map(str, configuration.files)) or "the command line"
    detail = f"{count_of(len(configuration.options.servers), 'server')} in {files}"
    notes = [Check(SERVERS, name, "warn", note) for note in configuration.notes]
    return configuration, [Check(SERVERS, name, "ok", detail), *notes]


async def server_checks(
    configuration: Configuration, progress: ProgressLine, names: Sequence[str]
) -> AsyncIterator[Check]:
    """Check whether the servers start and list their tools, all at the same time; and the composite tools, if not only
    these servers are to be checked."""
    from codecall.errors import CodeCallError
    from codecall.gateway.gateway import Gateway
    from codecall.gateway.tools.disk_cache import cache_folder

    options = configuration.options
    yield cache_check(cache_folder(options.cache_dir))
    for name, server in options.servers.items():
        if not server.enabled and (not names or name in names):
            yield Check(SERVERS, name, "ok", "is switched off")
    try:
        # Without what is in the cache: the question is whether they work now.
        gateway = Gateway(options.model_copy(update={"cache_dir": False}))
    except CodeCallError as failure:
        yield Check(SERVERS, "options", "fail", failure.message, failure.hint or "Mend the configuration.")
        if not names:
            async for check in composite_checks(configuration, None, {}):
                yield check
        return
    start, elapsed_s = time.perf_counter(), dict[str, float]()

    def on_listed(name: str, done: int, total: int) -> None:
        elapsed_s[name] = time.perf_counter() - start
        progress.update(done, total, name)

    progress.update(0, len(gateway.providers), "starting servers")
    async with gateway:
        failures = await gateway.refresh(None, on_listed)
        for name in gateway.providers:
            yield _server_check(
                name, gateway, failures.get(name), elapsed_s[name], gateway.backends[name].health.stderr
            )
        for warning in gateway.rule_warnings.current():
            advice = "`codecall tools --all` prints the names that there are, `codecall describe NAME` parameters."
            yield Check(SERVERS, "rules", "warn", warning, advice)
        if not names:
            async for check in composite_checks(configuration, gateway, failures):
                yield check


async def composite_checks(
    configuration: Configuration, gateway: Gateway | None, failures: Mapping[str, CodeCallError]
) -> AsyncIterator[Check]:
    """Whether the composite tools that the configuration names are served, and what the servers' tools contradict.

    Args:
        configuration: Names them.
        gateway: Has asked the servers; None: they could not be.
        failures: Which of them did not answer.
    """
    paths = configuration.options.composite_tools.paths
    if not paths:
        return
    from codecall.cli.commands.definitions import find_all, listed_tools
    from codecall.cli.gateway import ServerInventory
    from codecall.composite.reading import read_definitions
    from codecall.errors import CodeCallError

    name, known = "composite tools", None
    if gateway is not None:
        servers = [ServerInventory.of(each, gateway, failures.get(each)) for each in gateway.providers]
        known = listed_tools(servers, configuration.options)
    try:
        read = read_definitions(paths).served(starlark=configuration.options.starlark is not None)
        refused, contradicted = await find_all(read, known, configuration.options)
    except CodeCallError as failure:
        yield Check(SERVERS, name, "fail", failure.message, failure.hint or "")
        return
    wrong = {finding.tool for finding in (*refused, *contradicted)}
    if served := [tool.name for tool in read.tools if tool.name not in wrong]:
        yield Check(SERVERS, name, "ok", ", ".join(served))
    for finding in (*read.findings, *refused):
        yield Check(SERVERS, finding.tool or name, "fail", f"is not served: {finding}", "Mend its definition.")
    for finding in contradicted:
        advice = "Mend its definition."
        if finding.by_server:
            advice = "Have its server offer the tool, or mend the definition."
        yield Check(SERVERS, finding.tool or name, "fail", str(finding), advice)


def cache_check(folder: Path | None) -> Check:
    """Check the folder in which catalogs are cached."""
    from codecall.cli.output import count_of

    name = "cache"
    if folder is None:
        return Check(SERVERS, name, "ok", "is switched off: every start asks all servers")
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    if not os.access(existing, os.W_OK | os.X_OK):
        return Check(SERVERS, name, "warn", f"{existing} cannot be written to", "Name another folder with cache_dir.")
    if (
        hasattr(os, "getuid")
        and existing == folder
        and (folder.stat().st_uid != os.getuid() or folder.stat().st_mode & 0o022)
    ):
        return Check(SERVERS, name, "warn", f"{folder} is not yours alone, so it is not used", f"chmod 700 {folder}")
    files = list(folder.glob("*.listing")) if existing == folder else []
    size = sum(file.stat().st_size for file in files)
    return Check(SERVERS, name, "ok", f"{folder}: {count_of(len(files), 'catalog')}, {size / 1024:,.0f} KiB")


def _server_check(
    name: str, gateway: Gateway, failure: CodeCallError | None, elapsed_s: float, stderr: Sequence[str]
) -> Check:
    from codecall.cli.output import count_of
    from codecall.gateway.config.names import describe_server
    from codecall.gateway.config.options import StdioServer
    from codecall.gateway.upstream.errors import repair_advice
    from codecall.globs import display_name

    provider, options = gateway.providers[name], gateway.options.servers[name]
    server = describe_server(options)
    if failure is not None:
        output = "\n     ".join(("It wrote:", *stderr)) if stderr else ""
        silent = "It wrote nothing to its standard error." if isinstance(options, StdioServer) else ""
        advice = output or repair_advice(failure) or silent
        message = failure.message.removeprefix(f"Server '{name}' ")
        return Check(SERVERS, name, "fail", f"{message} ({server})", advice)
    info = provider.listing.server_info
    reported = f"{display_name(info.name)} {display_name(info.version)}, " if info is not None else ""
    codes = [item.code for item in provider.hidden if item.kind == "tool"]
    asked, hidden = codes.count("asked"), len(codes) - codes.count("asked")
    tools = count_of(len(provider.tools), "tool")
    tools += f", {asked} asked for" if asked else ""
    tools += f" and {hidden} hidden" if hidden else ""
    usable = bool(provider.tools_with_approvals)
    advice = "codecall tools --all says why they are hidden." if codes and not usable else ""
    detail = f"{reported}{tools}, started and listed in {elapsed_s:.1f} s ({server})"
    if provider.foreign:
        names = f"{display_name(provider.foreign[0])}{' and others' if len(provider.foreign) > 1 else ''}"
        advice = f"{names}: reads as a tool of another server; scripts call it by its full name only."
    return Check(SERVERS, name, "ok" if usable and not provider.foreign else "warn", detail, advice)


def client_checks() -> Iterator[Check]:
    """Check each client that has a configuration: whether it uses the gateway, and which servers it has besides."""
    from codecall.cli.commands.setup.client_files import find_clients

    clients = list(find_clients())
    if not clients:
        detail = "no configuration of a client was found"
        yield Check(CLIENTS, "none", "ok", detail, "codecall init says what to paste.")
    for client in clients:
        yield _client_check(client)


def _client_check(client: ClientFiles) -> Check:
    from codecall.cli.output import count_of
    from codecall.gateway.config.mcp_clients import TITLES

    name = client.name if client.client is None else TITLES[client.client]
    files = ", ".join(map(str, client.files))
    if client.configuration is None:
        advice = "Mend that file; the client may not start its servers either."
        return Check(CLIENTS, name, "warn", client.error, advice)
    count = len(client.servers)
    detail = f"{count_of(count, 'server')}{' and the gateway' if client.has_gateway else ''} in {files}"
    if client.has_gateway and count:
        advice = (
            f"Its model sees the tools of {', '.join(client.servers)} directly: put them behind the gateway, and take "
            "them out there."
        )
        return Check(CLIENTS, name, "warn", detail, advice)
    if client.has_gateway:
        return Check(CLIENTS, name, "ok", detail)
    return Check(CLIENTS, name, "ok", detail, f"codecall init prints what makes {name} use the gateway.")
