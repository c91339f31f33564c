"""`codecall refresh`: the servers' tools listed anew into the cache, and what has changed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple

from cyclopts import Parameter

from codecall.cli import exit_codes as exits
from codecall.cli.arguments import DEFAULT_SERVERS, AsJson, ServerArguments

if TYPE_CHECKING:
    from codecall.gateway.upstream.listing import Listing

JsonObject = dict[str, Any]
What = Literal["added", "removed", "changed"]

KINDS: Final = ("tools", "resources", "templates", "prompts")
"""The lists of a server."""

SIGNS: Final[dict[What, tuple[str, str]]] = {
    "added": ("+", "green"),
    "removed": ("-", "red"),
    "changed": ("~", "yellow"),
}
"""How a change is shown."""


class ListingChange(NamedTuple):
    """Something that a server lists otherwise than before."""

    what: What
    kind: str
    """Of `KINDS`, in the singular."""
    name: str


async def refresh(
    names: Annotated[tuple[str, ...], Parameter(help="Only these servers, by name.")] = (),
    /,
    *,
    chosen: ServerArguments = DEFAULT_SERVERS,
    as_json: AsJson = False,
) -> int:
    """List the servers' tools anew into the cache, and say what has changed. Starts the servers."""
    from codecall.cli.arguments import gateway_options
    from codecall.cli.gateway import list_servers, select_servers
    from codecall.cli.output import Output, count_of
    from codecall.gateway.gateway import Gateway

    output = Output(as_json=as_json)
    gateway = Gateway(select_servers(gateway_options(chosen, output), names))
    told: list[JsonObject] = []
    failed = False
    with output.progress("servers") as working:
        async with gateway:
            before = {name: (provider.is_listed, provider.listing) for name, provider in gateway.providers.items()}
            servers = await list_servers(gateway, working, refresh_all=True)
    for server in servers:
        known, old = before[server.name]
        body: JsonObject = {"name": server.name, "tools": len(server.listing.tools), "known": known}
        changes = list(listing_changes(old, server.listing)) if server.failure is None else []
        body["changes"] = [change._asdict() for change in changes]
        if server.failure is not None:
            failed = True
            body["error"] = server.failure.as_dict()
        told.append(body)
        if not as_json and server.failure is None:
            said = "unchanged" if known and not changes else count_of(len(server.listing.tools), "tool")
            output.row([server.name, said]) if not output.rich else output.line(f"{server.name}: {said}", "bold")
            for change in changes if known else ():
                sign, style = SIGNS[change.what]
                if output.rich:
                    output.line(f"  {sign} {change.kind} {change.name}", style)
                else:
                    output.row([server.name, change.what, change.kind, change.name])
    if as_json:
        output.document({"servers": told})
    for server in servers:
        if server.failure is not None and not as_json:
            output.failure(server.failure)
    return exits.UNAVAILABLE if failed else exits.OK


def listing_changes(old: Listing, new: Listing) -> Iterable[ListingChange]:
    """What `new` has otherwise than `old`."""
    from codecall.gateway.tools.filter import component_id

    for kind in KINDS:
        was = {component_id(item): item for item in getattr(old, kind)}
        now = {component_id(item): item for item in getattr(new, kind)}
        singular = kind.removesuffix("s")
        yield from (ListingChange("added", singular, name) for name in now if name not in was)
        yield from (ListingChange("removed", singular, name) for name in was if name not in now)
        yield from (
            ListingChange("changed", singular, name) for name, item in now.items() if name in was and was[name] != item
        )
