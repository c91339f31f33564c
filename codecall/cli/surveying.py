"""What is behind a gateway: its servers, their tools, what each costs, what is hidden."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fastmcp.tools import Tool

from codecall.cli.printing import Working
from codecall.errors import CodeCallError, OptionsError
from codecall.gateway.access import Hidden
from codecall.gateway.gateway import Gateway
from codecall.gateway.listing import Listing
from codecall.gateway.options import GatewayOptions
from codecall.telemetry.sizes import characters_of, tokens

JsonObject = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Surveyed:
    """One server."""

    name: str
    listing: Listing
    tools: Sequence[Tool]
    """Those that may be used."""
    hidden: Sequence[Hidden]
    tokens: int
    """What the definitions of its tools cost a model that lists them, about."""
    failure: CodeCallError | None = None
    """Why it could not be listed."""

    @property
    def version(self) -> str:
        """What it says it is; empty where it does not say."""
        said = self.listing.server_info
        return f"{said.name} {said.version}".strip() if said is not None else ""


def cost(tool: Tool) -> int:
    """Tokens that the definition of a tool costs a model that lists it, about."""
    return tokens(characters_of([tool]))


def only(options: GatewayOptions, names: Sequence[str]) -> GatewayOptions:
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


async def survey(gateway: Gateway, working: Working, *, anew: bool = False) -> list[Surveyed]:
    """All servers, in the order in which they are configured. What is in the cache is taken from there.

    Args:
        gateway: Entered.
        working: Told of servers that have to be asked.
        anew: Whether all are asked, also those that are in the cache.
    """
    wanted = [name for name, provider in gateway.providers.items() if anew or not provider.listed]
    failures: Mapping[str, CodeCallError] = {}
    if wanted:
        working.at(0, len(wanted), "asking servers")
        failures = await gateway.refresh(wanted, lambda name, done, total: working.at(done, total, name))
    return [
        Surveyed(name, provider.listing, provider.tools, provider.hidden, provider.tokens, failures.get(name))
        for name, provider in gateway.providers.items()
    ]
