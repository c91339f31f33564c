"""The gateway in this process, asked through a client of its own: commands have the answers a model would have."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from fastmcp import Client
from fastmcp.client.logging import LogMessage

from codecall.errors import CodeCallError
from codecall.gateway.config.options import ExposeOptions, GatewayOptions
from codecall.gateway.gateway import Gateway

if TYPE_CHECKING:
    from codecall.sandbox.interfaces import RunObserver
from dataclasses import dataclass

from fastmcp.tools import Tool

from codecall.cli.output import ProgressLine
from codecall.errors import OptionsError
from codecall.gateway.tools.filter import HiddenComponent
from codecall.gateway.upstream.listing import Listing
from codecall.telemetry.tokens import estimate_characters, estimate_tokens

# ----------------------------------------------------------------------------------------------------
# The gateway in this process, asked through a client of its own: commands have the answers a model would have.

JsonObject = dict[str, Any]
Verb = Literal["search", "describe", "execute"]

CONSOLE: Final = "codecall.console"
"""Logger of what scripts say, among those of servers."""

LOG_LEVEL: Final = "io.modelcontextprotocol/logLevel"


class ClientCallbacks:
    """Hears what a run says of itself; this one ignores it."""

    def on_console(self, line: str) -> None:
        """The script wrote a line."""

    def on_log(self, level: str, server: str, text: str) -> None:
        """A server logged something."""

    def on_progress(self, message: str) -> None:
        """How far it is."""


class GatewaySession:
    """A gateway that is open, and a client of it."""

    def __init__(self, gateway: Gateway, client: Client[Any]) -> None:
        self.gateway = gateway
        self._client = client

    async def call(self, verb: Verb, arguments: Mapping[str, object], ear: ClientCallbacks | None = None) -> JsonObject:
        """What the meta-tool answers.

        Raises:
            CodeCallError: it refuses the arguments.
        """

        async def progressed(progress: float, total: float | None, message: str | None) -> None:  # noqa: ARG001
            if ear is not None and message:
                ear.on_progress(message)

        answer = await self._client.call_tool(
            f"codecall_{verb}",
            dict(arguments),
            progress_handler=progressed if ear is not None else None,
            meta={LOG_LEVEL: "info"} if ear is not None else None,
            raise_on_error=False,
        )
        if answer.structured_content is None:
            said = " ".join(getattr(block, "text", "") for block in answer.content)
            raise CodeCallError(said or f"codecall_{verb} gave no answer", code="USAGE")
        return answer.structured_content

    async def read(self, uri: str) -> str:
        """The text of a resource."""
        contents = await self._client.read_resource(uri)
        return "".join(getattr(content, "text", "") for content in contents)


def with_preset(options: GatewayOptions, preset: str | None, timeout_s: float | None = None) -> GatewayOptions:
    """The same with other limits for scripts.

    Args:
        options: As configured.
        preset: Instead of the configured limits; None keeps them.
        timeout_s: Seconds a whole run may take; None as the limits say.
    """
    vm: JsonObject = (
        dict(cast("Mapping[str, object]", options.codecall.get("vm") or {})) if preset is None else {"preset": preset}
    )
    if timeout_s is not None:
        vm.pop("maxDurationMs", None)
        vm["max_duration_ms"] = max(1, round(timeout_s * 1000))
    return options.model_copy(update={"codecall": {**options.codecall, "vm": vm}}) if vm else options


@asynccontextmanager
async def open_gateway(
    options: GatewayOptions,
    *,
    callbacks: ClientCallbacks | None = None,
    observers: Sequence[Callable[[Any], RunObserver]] = (),
    workers: bool = False,
) -> AsyncGenerator[GatewaySession]:
    """A gateway over these servers, whatever it would expose to others.

    Args:
        options: The servers.
        callbacks: Receives the progress and console lines of runs.
        observers: Observers of runs, as `AuditOptions.watchers` takes them.
        workers: Whether a worker for scripts is started at once.
    """

    async def logged(message: LogMessage) -> None:
        if callbacks is None:
            return
        data: object = message.data
        text = str(cast("JsonObject", data).get("msg", data)) if isinstance(data, dict) else str(data)
        if message.logger == CONSOLE:
            callbacks.on_console(text)
        else:
            callbacks.on_log(str(message.level), str(message.logger or ""), text)

    plugin = dict(options.codecall)
    # A command that is to end ends at once: nobody waits for an answer of it.
    plugin["shutdown"] = {**cast("JsonObject", plugin.get("shutdown") or {}), "on_sigterm": False}
    if not workers:
        plugin["pool"] = {**cast("JsonObject", plugin.get("pool") or {}), "min_workers": 0}
    if observers:
        plugin["audit"] = {**cast("JsonObject", plugin.get("audit") or {}), "watchers": observers}
    asked = options.model_copy(update={"codecall": plugin, "expose": ExposeOptions(mode="always")})
    gateway = Gateway(asked)
    async with gateway, Client(gateway.server, log_handler=logged) as client:
        yield GatewaySession(gateway, client)


# ----------------------------------------------------------------------------------------------------
# What is behind a gateway: its servers, their tools, what each costs, what is hidden.


@dataclass(frozen=True, slots=True)
class ServerInventory:
    """One server."""

    name: str
    listing: Listing
    tools: Sequence[Tool]
    """Those that may be used."""
    hidden: Sequence[HiddenComponent]
    tokens: int
    """What the definitions of its tools cost a model that lists them, about."""
    failure: CodeCallError | None = None
    """Why it could not be listed."""

    @property
    def version(self) -> str:
        """What it says it is; empty where it does not say."""
        said = self.listing.server_info
        return f"{said.name} {said.version}".strip() if said is not None else ""


def token_cost(tool: Tool) -> int:
    """Tokens that the definition of a tool costs a model that lists it, about."""
    return estimate_tokens(estimate_characters([tool]))


def select_servers(options: GatewayOptions, names: Sequence[str]) -> GatewayOptions:
    """The same with these servers alone; all, where none is named.

    Raises:
        OptionsError: there is no such server.
    """
    for name in names:
        if name not in options.servers:
            there = ", ".join(options.servers) or "none"
            raise OptionsError(f"There is no server {name!r}; configured: {there}")
    if not names:
        return options
    return options.model_copy(update={"servers": {name: options.servers[name] for name in names}})


async def list_servers(gateway: Gateway, progress: ProgressLine, *, refresh_all: bool = False) -> list[ServerInventory]:
    """All servers, in the order in which they are configured. What is in the cache is taken from there.

    Args:
        gateway: Entered.
        working: Told of servers that have to be asked.
        anew: Whether all are asked, also those that are in the cache.
    """
    wanted = [name for name, provider in gateway.providers.items() if refresh_all or not provider.is_listed]
    failures: Mapping[str, CodeCallError] = {}
    if wanted:
        progress.update(0, len(wanted), "asking servers")
        failures = await gateway.refresh(wanted, lambda name, done, total: progress.update(done, total, name))
    return [
        ServerInventory(name, provider.listing, provider.tools, provider.hidden, provider.tokens, failures.get(name))
        for name, provider in gateway.providers.items()
    ]
