"""What is wrong with definitions of composite tools, for `composite check`, `check` and `doctor`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from codecall.cli import exit_codes as exits
from codecall.errors import CodeCallError

if TYPE_CHECKING:
    from codecall.cli.arguments import ServerArguments
    from codecall.cli.gateway import ServerInventory
    from codecall.cli.output import Output
    from codecall.composite.checks import KnownTool
    from codecall.composite.definition import Finding, ScriptDefinition
    from codecall.composite.reading import ReadDefinitions
    from codecall.gateway.config.options import GatewayOptions
    from codecall.sandbox.enclave import Enclave

JsonObject = dict[str, Any]


async def check_definitions(names: Sequence[str], server_args: ServerArguments, output: Output) -> int:
    """Say what is wrong with definitions; the exit code.

    Args:
        names: Files and folders; none stands for those of the configuration.
        server_args: Servers whose tools the steps are compared with.
        output: Where the findings go.
    """
    from codecall.cli.arguments import configured_servers, gateway_options

    options = configured_servers(server_args, output)
    if not names and options is None:
        options = gateway_options(server_args, output)
    verdict = await definitions_verdict(list(names) or configured_sources(options), options, output)
    if output.as_json:
        output.document(verdict)
    return exits.OK if verdict["valid"] else exits.FAILED


async def definitions_verdict(sources: Sequence[str], options: GatewayOptions | None, output: Output) -> JsonObject:
    """What is wrong with definitions, as `--json` shows it; printed where the output is no JSON.

    Args:
        sources: Files and folders.
        options: The servers whose tools the steps are compared with, and the limits of scripts; None: no servers.
        output: Where the findings go.
    """
    from codecall.cli.output import count_of
    from codecall.composite.reading import read_definitions

    read = read_definitions(sources)
    if options is not None:
        read = read.served(starlark=options.starlark is not None)
    known = None
    if options is not None and options.servers and (read.tools or read.wrong):
        known = await server_tools(options, output)
    refused, contradicted = await find_all(read, known, options)
    findings = [*read.findings, *refused, *contradicted]
    for failure in known.failures if known is not None else ():
        output.warn(failure)
    body = [
        {"file": each.place.file, "line": each.place.line, "path": each.place.path, "message": each.message}
        for each in findings
    ]
    if not output.as_json:
        for finding in findings:
            output.line(str(finding))
        compared = known.server_count if known is not None else 0
        against = f"against the tools of {count_of(compared, 'server')}" if compared else "without the tools of servers"
        checked = f"{count_of(len(read.tools) + len(read.wrong), 'definition')} checked {against}"
        if findings:
            output.note(f"{checked}, {count_of(len(findings), 'finding')}", "bold red")
        else:
            output.note(f"{checked}, nothing found", "green")
    return {"valid": not findings, "findings": body, "tools": [tool.name for tool in read.tools]}


class ServerTools(NamedTuple):
    """What servers list."""

    tools: Mapping[str, KnownTool]
    """Their tools by the names that steps and scripts call."""
    server_count: int
    """How many servers have listed them."""
    failures: Sequence[str]
    """Which servers cannot be asked."""
    hidden: Mapping[str, str]
    """Why tools are hidden that servers list, by the same names."""
    unlisted: Mapping[str, str]
    """Why nothing is known of the tools of servers, by their names."""

    def why_missing(self, name: str) -> str | None:
        """Why a definition has no tool of that name, as a finding says it; None where no server lists it."""
        if (reason := self.hidden.get(name)) is not None:
            return f"the tool {name!r} is hidden: {reason}"
        server = max((each for each in self.unlisted if name.startswith(f"{each}_")), key=len, default=None)
        if server is None:
            return None
        return f"it is not known whether there is a tool {name!r:.80}: {self.unlisted[server]}"


def listed_tools(servers: Sequence[ServerInventory], options: GatewayOptions) -> ServerTools:
    """What servers list that have been asked.

    Args:
        servers: They, with what each lists.
        options: All servers, also those that are switched off.
    """
    from codecall.composite.checks import KnownTool

    tools = {
        f"{server.name}_{tool.name}": KnownTool(tool.parameters, tool.output_schema, server.name)
        for server in servers
        for tool in (*server.tools, *server.asked)
    }
    hidden = {
        f"{server.name}_{item.name}": item.reason for server in servers for item in server.hidden if item.kind == "tool"
    }
    down = {each.name: each.failure.message for each in servers if each.failure is not None}
    off = {name: f"the server {name} is switched off" for name, each in options.servers.items() if not each.enabled}
    # What a server listed before it failed is known all the same.
    unlisted = {each.name: down[each.name] for each in servers if each.name in down and not each.listing.tools}
    return ServerTools(
        tools,
        len(servers) - len(unlisted),
        [f"{name} cannot be asked: {message}" for name, message in down.items()],
        {name: reason for name, reason in hidden.items() if name not in tools},
        {**off, **unlisted},
    )


async def server_tools(options: GatewayOptions, output: Output) -> ServerTools:
    """What these servers list, which are asked."""
    from codecall.cli.gateway import list_servers
    from codecall.gateway.config.options import ExposeOptions
    from codecall.gateway.gateway import Gateway

    # Without the tools that are to be checked, and with what asks for calls as where they are served.
    changes = {"composite_tools": type(options.composite_tools)(), "expose": ExposeOptions(mode="always")}
    gateway = Gateway(options.model_copy(update=changes))
    with output.progress("servers", reports_servers=True) as progress:
        async with gateway:
            return listed_tools(await list_servers(gateway, progress), options)


async def find_all(
    read: ReadDefinitions, known: ServerTools | None, options: GatewayOptions | None
) -> tuple[list[Finding], list[Finding]]:
    """What is wrong with definitions that were read: what the language refuses of scripts, which are not served then;
    and what the servers' tools contradict, or what names there are.

    Args:
        read: The definitions.
        known: What the servers list; None: they are not asked.
        options: See `checking_enclave`.
    """
    from codecall.composite.checks import KnownTool, check_tools
    from codecall.composite.definition import ScriptDefinition
    from codecall.composite.scripts.checking import check_script

    refused: list[Finding] = []
    contradicted: list[Finding] = []
    definitions = [*((tool, read.places[tool.name]) for tool in read.tools), *read.wrong]
    own = {tool.name: KnownTool(tool.parameters) for tool, _ in definitions}
    async with checking_enclave(read.scripts, options) as enclave:
        for tool, findings in definitions:
            sound = not findings.found
            if sound and isinstance(tool, ScriptDefinition):
                refused += await check_script(tool, findings, enclave)
            before = len(findings.found)
            if known is not None:
                check_tools(tool, findings, {**known.tools, **own}, known.why_missing)
            if sound and isinstance(tool, ScriptDefinition) and not findings.found:
                if known is None or known.failures:
                    await check_script(tool, findings, enclave, guesses=True)
                else:
                    tools = {**known.tools, **own}
                    await check_script(tool, findings, enclave, tools, guesses=True, why_missing=known.why_missing)
            contradicted += findings.found[before:]
    return refused, contradicted


def checking_enclave(scripts: Sequence[ScriptDefinition], options: GatewayOptions | None) -> Enclave:
    """What checks these scripts; it starts nothing before the first.

    Args:
        scripts: All that it will check.
        options: The limits that they run with; None: the usual ones.

    Raises:
        OptionsError: the limits are wrong.
    """
    from codecall.gateway.config.variables import resolve_values
    from codecall.presets import read_vm
    from codecall.sandbox.enclave import Enclave

    starlark = any(tool.language == "starlark" for tool in scripts)
    limits = None
    if options is not None:
        with options.naming("codecall"):
            limits, _ = read_vm(resolve_values({"vm": options.codecall.get("vm")}, where="codecall")["vm"])
    return Enclave(limits, pool={"min_workers": 0, "max_workers": 1}, starlark=starlark)


def configured_sources(options: GatewayOptions | None) -> list[str]:
    """The files and folders of definitions that a configuration names.

    Raises:
        CodeCallError: it names none.
    """
    paths = list(options.composite_tools.paths) if options is not None else []
    if not paths:
        raise CodeCallError(
            "No composite tools are configured",
            code="NO_CONFIGURATION",
            hint='Name their files under [composite_tools] as paths = ["workflows"], or after `composite check`.',
        )
    return paths
