"""The gateway in this process, asked through a client of its own: commands have the answers a model would have."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from fastmcp import Client
from fastmcp.client.logging import LogMessage

from codecall.errors import CodeCallError
from codecall.gateway.gateway import Gateway
from codecall.gateway.options import ExposeOptions, GatewayOptions

if TYPE_CHECKING:
    from codecall.sandbox.services import RunWatch

JsonObject = dict[str, Any]
Verb = Literal["search", "describe", "execute"]

CONSOLE: Final = "codecall.console"
"""Logger of what scripts say, among those of servers."""

LOG_LEVEL: Final = "io.modelcontextprotocol/logLevel"


class Ear:
    """Hears what a run says of itself; this one ignores it."""

    def said(self, line: str) -> None:
        """The script wrote a line."""

    def logged(self, level: str, server: str, text: str) -> None:
        """A server logged something."""

    def progressed(self, message: str) -> None:
        """How far it is."""


class Opened:
    """A gateway that is open, and a client of it."""

    def __init__(self, gateway: Gateway, client: Client[Any]) -> None:
        self.gateway = gateway
        self._client = client

    async def ask(self, verb: Verb, arguments: Mapping[str, object], ear: Ear | None = None) -> JsonObject:
        """What the meta-tool answers.

        Raises:
            CodeCallError: it refuses the arguments.
        """

        async def progressed(progress: float, total: float | None, message: str | None) -> None:  # noqa: ARG001
            if ear is not None and message:
                ear.progressed(message)

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


def under_preset(options: GatewayOptions, preset: str | None, timeout_s: float | None = None) -> GatewayOptions:
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
async def opened(
    options: GatewayOptions,
    *,
    ear: Ear | None = None,
    watchers: Sequence[Callable[[Any], RunWatch]] = (),
    workers: bool = False,
) -> AsyncGenerator[Opened]:
    """A gateway over these servers, whatever it would expose to others.

    Args:
        options: The servers.
        ear: Told what runs say.
        watchers: Of runs, as `AuditOptions.watchers` takes them.
        workers: Whether a worker for scripts is started at once.
    """

    async def logged(message: LogMessage) -> None:
        if ear is None:
            return
        data: object = message.data
        text = str(cast("JsonObject", data).get("msg", data)) if isinstance(data, dict) else str(data)
        if message.logger == CONSOLE:
            ear.said(text)
        else:
            ear.logged(str(message.level), str(message.logger or ""), text)

    plugin = dict(options.codecall)
    # A command that is to end ends at once: nobody waits for an answer of it.
    plugin["shutdown"] = {**cast("JsonObject", plugin.get("shutdown") or {}), "on_sigterm": False}
    if not workers:
        plugin["pool"] = {**cast("JsonObject", plugin.get("pool") or {}), "min_workers": 0}
    if watchers:
        plugin["audit"] = {**cast("JsonObject", plugin.get("audit") or {}), "watchers": watchers}
    asked = options.model_copy(update={"codecall": plugin, "expose": ExposeOptions(mode="always")})
    gateway = Gateway(asked)
    async with gateway, Client(gateway.server, log_handler=logged) as client:
        yield Opened(gateway, client)
