"""A gateway in this process with a client of its own, so that commands get the answers a model would get; and the tools
of its servers, with what each costs."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, cast

from fastmcp import Client
from fastmcp.client.client import CallToolResult
from fastmcp.client.logging import LogMessage
from fastmcp.tools import Tool

from codecall.approvals.request import ApprovalRequest
from codecall.cli.arguments import whole_command
from codecall.cli.output import ProgressLine
from codecall.cli.terminal_prompts import TerminalPerson
from codecall.errors import CodeCallError, OptionsError, ServerUnavailableError
from codecall.gateway.config.options import AnyServer, ExposeOptions, GatewayOptions, HttpServer
from codecall.gateway.gateway import Gateway
from codecall.gateway.tools.filter import HiddenComponent
from codecall.gateway.upstream.errors import last_words, repair_advice
from codecall.gateway.upstream.listing import Listing
from codecall.options import StarlarkOptions
from codecall.presets import load_preset
from codecall.telemetry.tokens import estimate_characters, estimate_tokens

if TYPE_CHECKING:
    from codecall.sandbox.interfaces import RunObserver


JsonObject = dict[str, Any]
Verb = Literal["search", "describe", "execute"]

logger = logging.getLogger("codecall")

CONSOLE: Final = "codecall.console"
"""Name of the logger that carries the console lines of scripts."""

MAX_ROUNDS: Final = 10_000
"""How often one call may be answered with questions; the options say how many one run may ask."""

PATIENCE_S: Final = 8.0
"""Seconds after the answer of another server in which one answers whose options do not say `start_timeout_s`."""

_KINDS: Final = re.compile(r"(codecall[:_]search with )?`?filter\.kinds`? (\[[^\]]*\]|`\w+`(?: and `\w+`)*)")
_KIND: Final = re.compile(r"tool|resource|template|prompt")
_META_TOOL: Final = re.compile(r"`?codecall[:_](search|describe|invoke|execute)\b`?")
_COMMANDS: Final = {"search": "search", "describe": "describe", "invoke": "run", "execute": "run"}
"""The commands that do what the meta-tools do."""
_NO_CONTEXT: Final = "the request brought no context"

_NO_WORD: Final = re.compile(r"\W")

LOG_LEVEL: Final = "io.modelcontextprotocol/logLevel"


class ClientCallbacks(Protocol):
    """Receives what a run reports while it lasts."""

    def on_console(self, line: str) -> None:
        """Called for each console line of the script."""

    def on_log(self, level: str, server: str, text: str) -> None:
        """Called for each log message of a server."""

    def on_progress(self, message: str) -> None:
        """Called for each progress message of the run."""


class GatewaySession:
    """An open gateway and a client connected to it."""

    def __init__(self, gateway: Gateway, client: Client[Any]) -> None:
        self.gateway = gateway
        self._client = client

    async def call(
        self, verb: Verb, arguments: Mapping[str, object], callbacks: ClientCallbacks | None = None
    ) -> JsonObject:
        """Call a meta-tool and return its structured result.

        Raises:
            CodeCallError: the meta-tool refuses the arguments.
        """
        return (await self.call_with_content(verb, arguments, callbacks))[0]

    async def call_with_content(
        self, verb: Verb, arguments: Mapping[str, object], callbacks: ClientCallbacks | None = None
    ) -> tuple[JsonObject, list[Any]]:
        """Call a meta-tool; its structured result, and the content blocks behind it.

        Raises:
            CodeCallError: the meta-tool refuses the arguments.
        """

        async def on_progress(progress: float, total: float | None, message: str | None) -> None:  # noqa: ARG001
            if callbacks is not None and message:
                callbacks.on_progress(message)

        result = await self._client.call_tool(
            f"codecall_{verb}",
            dict(arguments),
            progress_handler=on_progress if callbacks is not None else None,
            meta={LOG_LEVEL: "info"} if callbacks is not None else None,
            raise_on_error=False,
        )
        if result.structured_content is None:
            text = " ".join(getattr(block, "text", "") for block in result.content)
            raise CodeCallError(text or f"codecall_{verb} gave no answer", code="USAGE")
        return name_commands(result.structured_content), result.content[1:]

    async def call_tool(self, name: str, arguments: Mapping[str, object]) -> CallToolResult:
        """Call a tool itself, as a client does that lists it."""
        return await self._client.call_tool(name, dict(arguments), raise_on_error=False)

    def asked_tools(self) -> frozenset[str]:
        """Names of the tools that may destroy something, for each call of which somebody is asked."""
        providers = self.gateway.providers.items()
        return frozenset(f"{server}_{tool.name}" for server, provider in providers for tool in provider.asked_tools)

    async def read(self, uri: str) -> str:
        """Read the text of a resource."""
        contents = await self._client.read_resource(uri)
        return "".join(getattr(content, "text", "") for content in contents)


def name_commands(body: JsonObject) -> JsonObject:
    """An answer of a meta-tool whose hints and warnings name commands in place of meta-tools."""
    named: JsonObject = {
        key: name_commands(cast("JsonObject", body[key])) for key in ("error",) if isinstance(body.get(key), dict)
    }
    if isinstance(hint := body.get("hint"), str):
        named["hint"] = _command(hint)
    if isinstance(warnings := body.get("warnings"), list):
        named["warnings"] = [_command(str(warning)) for warning in cast("list[object]", warnings)]
    result: object = body.get("result")
    if isinstance(result, dict) and {"valid", "findings", "manifest"} <= cast("JsonObject", result).keys():
        report = cast("JsonObject", result)
        named["result"] = {**report, "findings": [name_commands(each) for each in report["findings"]]}
    return {**body, **named}


def _command(text: str) -> str:
    def with_kinds(match: re.Match[str]) -> str:
        words = ["codecall search"] if match[1] else []
        return f"`{' '.join([*words, *(f'--kind {kind}' for kind in _KIND.findall(match[2]))])}`"

    text = _META_TOOL.sub(lambda match: f"`codecall {_COMMANDS[match[1]]}`", _KINDS.sub(with_kinds, text))
    text = text.replace(_NO_CONTEXT, f"""{_NO_CONTEXT}: give it as `--context '{{"…": …}}'`""")
    return text.replace("filter.appIds", "--app").replace("filter.kinds", "--kind")


def with_preset(options: GatewayOptions, preset: str | None, timeout_s: float | None = None) -> GatewayOptions:
    """Return `options` with other limits for scripts.

    Args:
        options: The options as configured.
        preset: Replaces the configured limits; None keeps them.
        timeout_s: Seconds a whole run may take; None keeps the limit of the preset.

    Raises:
        CodeCallError: there is no such preset, or no time at all.
    """
    if preset is not None:
        load_preset(preset)  # here: no file is to blame for it
    if timeout_s is not None and timeout_s <= 0:
        raise CodeCallError("--timeout: more than 0 seconds are needed", code="USAGE")
    vm: JsonObject = (
        dict(cast("Mapping[str, object]", options.codecall.get("vm") or {})) if preset is None else {"preset": preset}
    )
    if timeout_s is not None:
        vm.pop("maxDurationMs", None)
        vm["max_duration_ms"] = max(1, round(timeout_s * 1000))
    return options.model_copy(update={"codecall": {**options.codecall, "vm": vm}}) if vm else options


def with_starlark(options: GatewayOptions) -> GatewayOptions:
    """Return `options` with Starlark switched on; as configured where it is already."""
    configured = options.starlark is not None or options.codecall.get("starlark")
    return options if configured else options.model_copy(update={"starlark": StarlarkOptions()})


@asynccontextmanager
async def open_gateway(
    options: GatewayOptions,
    *,
    callbacks: ClientCallbacks | None = None,
    observers: Sequence[Callable[[Any], RunObserver]] = (),
    workers: bool = False,
    person: TerminalPerson | None = None,
    needed: Collection[str] | None = None,
) -> AsyncGenerator[GatewaySession]:
    """Open a gateway that exposes the meta-tools, whatever the options would expose to other clients.

    Args:
        options: The servers, and the options of the gateway.
        callbacks: Receives console lines and log messages of runs.
        observers: Observers of runs, as `AuditOptions.watchers` takes them.
        workers: Whether a worker for scripts is started at once.
        person: Allows calls that rules ask a person for, and answers questions of tools; None: nobody does. Tools that
            are asked for are there in any case, as for a client whose person can be asked.
        needed: The servers that are started, and waited for, where nothing is known of them; None: all.
    """

    async def on_log(message: LogMessage) -> None:
        if callbacks is None:
            return
        data: object = message.data
        text = str(cast("JsonObject", data).get("msg", data)) if isinstance(data, dict) else str(data)
        if message.logger == CONSOLE:
            callbacks.on_console(text)
        else:
            callbacks.on_log(str(message.level), str(message.logger or ""), text)

    plugin = dict(options.codecall)
    # A command that is stopped ends at once, without a result.
    plugin["shutdown"] = {**cast("JsonObject", plugin.get("shutdown") or {}), "on_sigterm": False}
    if not workers:
        plugin["pool"] = {**cast("JsonObject", plugin.get("pool") or {}), "min_workers": 0}
    if observers:
        plugin["audit"] = {**cast("JsonObject", plugin.get("audit") or {}), "watchers": observers}
    configured = plugin.get("approvals")
    is_group = isinstance(configured, Mapping)
    rules = cast("Mapping[str, object]", configured) if is_group else {"rules": configured or ()}
    approver = person.approve if person is not None else _allow_nothing
    plugin["approvals"] = {**rules, "approver": approver, "max_rounds": MAX_ROUNDS}
    gateway = Gateway(
        options.model_copy(update={"codecall": plugin, "expose": ExposeOptions(mode="always")}),
        for_operator=True,
        needed=needed,
    )
    client = Client(
        gateway.server,
        log_handler=on_log,
        elicitation_handler=person.answer if person is not None and person.is_there else None,
        input_required_max_rounds=MAX_ROUNDS,
    )
    async with gateway, client:
        await wait_for_listings(gateway)
        all_known = all(provider.tools_with_approvals for provider in gateway.providers.values())
        if person is not None and all_known and not options.composite_tools.paths:
            known = ((name, provider.tools_with_approvals) for name, provider in gateway.providers.items())
            person.warn_of_unmatched(f"{name}_{tool.name}" for name, tools in known for tool in tools)
        yield GatewaySession(gateway, client)


async def wait_for_listings(gateway: Gateway, progress: ProgressLine | None = None) -> None:
    """Wait until it is known what each server lists that is being asked, or why not. Where one has answered, the others
    are given up that take much longer.

    Args:
        gateway: The gateway, which is open.
        progress: Shows which servers have answered.
    """
    missing = [name for name, provider in gateway.providers.items() if provider.is_missing]
    waiting = {asyncio.create_task(gateway.providers[name].wait_until_listed()): name for name in missing}
    answered_at = time.monotonic()
    while waiting:
        late = [name for name in waiting.values() if not _is_waited_for(gateway.options.servers[name])]
        others = any(provider.is_listed for provider in gateway.providers.values())
        timeout_s = max(0.0, answered_at + PATIENCE_S - time.monotonic()) if late and others else None
        done, _ = await asyncio.wait(waiting, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        if not done:
            await asyncio.gather(*(gateway.providers[name].give_up(_late_error(name)) for name in late))
        answered_at = time.monotonic()
        for task in done:
            name = waiting.pop(task)
            if progress is not None:
                progress.update(len(missing) - len(waiting), len(missing), name)


def _is_waited_for(server: AnyServer) -> bool:
    """Whether its options say how long it may take; where somebody signs in, that may be long."""
    return "start_timeout_s" in server.model_fields_set or (isinstance(server, HttpServer) and server.auth == "oauth")


def _late_error(name: str) -> CodeCallError:
    reason = f"it has not answered {PATIENCE_S:g} s after the others"
    # In the words of a server that failed: a command says so once.
    logger.warning("server %r failed: %s", name, f"{reason}; commands wait longer if its `start_timeout_s` is set")
    return ServerUnavailableError(
        f"Server '{name}' is not available: {reason}",
        tool_name=name,
        hint=f"`{whole_command('refresh', name)}` waits longer, as does every command if its `start_timeout_s` is set; "
        f"`{whole_command('doctor', name)}` says more.",
    )


def _allow_nothing(_: ApprovalRequest) -> None:
    """The approver of commands that make no calls."""


@dataclass(frozen=True, slots=True)
class ServerInventory:
    """One server: its listing, its tools, and what they cost."""

    name: str
    listing: Listing
    tools: Sequence[Tool]
    """The tools that any client may use."""
    hidden: Sequence[HiddenComponent]
    tokens: int
    """Estimate of the tokens that the definitions of its tools cost a model that lists them."""
    failure: CodeCallError | None = None
    """Why the server could not be listed; None if it was."""
    asked: Sequence[Tool] = ()
    """The tools that clients see whose person can be asked for each call."""

    @classmethod
    def of(cls, name: str, gateway: Gateway, failure: CodeCallError | None = None) -> ServerInventory:
        """One server of a gateway that has asked it."""
        known = gateway.providers[name]
        return cls(name, known.listing, known.tools, known.hidden, known.tokens, failure, known.asked_tools)

    @property
    def version(self) -> str:
        """Name and version that the server reports; empty where it reports none."""
        info = self.listing.server_info
        return f"{info.name} {info.version}".strip() if info is not None else ""


def token_cost(tool: Tool) -> int:
    """Estimate the tokens that the definition of a tool costs a model that lists it."""
    return estimate_tokens(estimate_characters([tool]))


def select_servers(options: GatewayOptions, names: Sequence[str]) -> GatewayOptions:
    """Return `options` with only these servers switched on; as they are if no name is given.

    Raises:
        OptionsError: a name is not configured.
    """
    for name in names:
        if name not in options.servers:
            configured = ", ".join(options.servers) or "none"
            raise OptionsError(f"There is no server {name!r}; configured: {configured}")
    if not names:
        return options
    others = {name: server.model_copy(update={"enabled": False}) for name, server in options.servers.items()}
    return options.model_copy(update={"servers": {**others, **{name: options.servers[name] for name in names}}})


def servers_of(names: Iterable[str], servers: Collection[str]) -> frozenset[str] | None:
    """The servers that these are names of tools of, by how they begin; None if one may be of any."""
    found: set[str] = set()
    for name in names:
        of = [server for server in servers if begins_with_server(name, server)]
        if not of:
            return None
        found.update(of)
    return frozenset(found)


def begins_with_server(name: str, server: str) -> bool:
    """Whether a name may be of a tool of that server, however a script writes it: `my_shop.send`, `my-shop_send`."""
    written, beginning = _NO_WORD.sub("_", name), _NO_WORD.sub("_", server)
    return written == beginning or written.startswith(f"{beginning}_")


def listing_failures(gateway: Gateway) -> dict[str, CodeCallError]:
    """Why servers could not be listed when they were asked last, by their names."""
    return {name: provider.error for name, provider in gateway.providers.items() if provider.error is not None}


def failure_advice(gateway: Gateway, name: str, failure: CodeCallError) -> str:
    """What to do about a server that could not be listed, and what it wrote last. When the next try may be made matters
    to nobody here: the command has ended by then."""
    wrote = last_words(gateway.backends[name].health.stderr).removeprefix("; it wrote last: ")
    more = f"`{whole_command('doctor', name)}` says more."
    return repair_advice(failure) or (f"It wrote last: {wrote}\n{more}" if wrote else more)


async def list_servers(gateway: Gateway, progress: ProgressLine, *, refresh_all: bool = False) -> list[ServerInventory]:
    """List all servers, in the order in which they are configured. Cached listings are used.

    Args:
        gateway: The gateway, which is open.
        progress: Shows which servers are asked.
        refresh_all: Whether all servers are asked, also those whose listing is cached.
    """
    progress.update(0, None, "asking servers")
    failures: Mapping[str, CodeCallError] = {}
    if refresh_all:
        failures = await gateway.refresh(None, lambda name, done, total: progress.update(done, total, name))
    else:
        await wait_for_listings(gateway, progress)
        failures = listing_failures(gateway)
    for name, failure in failures.items():
        failure.hint = failure_advice(gateway, name, failure)
    return [ServerInventory.of(name, gateway, failures.get(name)) for name in gateway.providers]
