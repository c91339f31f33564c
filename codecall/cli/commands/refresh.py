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
ChangeKind = Literal["added", "removed", "changed"]

KINDS: Final = ("tools", "resources", "templates", "prompts")
"""The kinds of things that a server lists."""

SIGNS: Final[dict[ChangeKind, tuple[str, str]]] = {
    "added": ("+", "green"),
    "removed": ("-", "red"),
    "changed": ("~", "yellow"),
}
"""Sign and style of each kind of change on a terminal."""


class ListingChange(NamedTuple):
    """One difference between two listings of a server."""

    what: ChangeKind
    kind: str
    """One of `KINDS`, in the singular."""
    name: str


async def refresh(
    names: Annotated[tuple[str, ...], Parameter(help="Only these servers, by name.")] = (),
    /,
    *,
    server_args: ServerArguments = DEFAULT_SERVERS,
    as_json: AsJson = False,
) -> int:
    """List the servers' tools anew into the cache, and say what has changed. Starts the servers."""
    from codecall.cli.arguments import gateway_options
    from codecall.cli.gateway import list_servers, select_servers
    from codecall.cli.output import Output, count_of
    from codecall.gateway.gateway import Gateway

    output = Output(as_json=as_json)
    gateway = Gateway(select_servers(gateway_options(server_args, output), names))
    documents: list[JsonObject] = []
    failed = False
    with output.progress("servers", reports_servers=True) as progress:
        async with gateway:
            before = {name: (provider.is_listed, provider.listing) for name, provider in gateway.providers.items()}
            servers = await list_servers(gateway, progress, refresh_all=True)
    for server in servers:
        was_listed, old_listing = before[server.name]
        body: JsonObject = {"name": server.name, "tools": len(server.listing.tools), "known": was_listed}
        changes = list(listing_changes(old_listing, server.listing)) if server.failure is None else []
        body["changes"] = [change._asdict() for change in changes]
        if server.failure is not None:
            failed = True
            body["error"] = server.failure.as_dict()
        documents.append(body)
        if not as_json and server.failure is None:
            summary = "unchanged" if was_listed and not changes else count_of(len(server.listing.tools), "tool")
            output.row([server.name, summary]) if not output.rich else output.line(f"{server.name}: {summary}", "bold")
            for change in changes if was_listed else ():
                sign, style = SIGNS[change.what]
                if output.rich:
                    output.line(f"  {sign} {change.kind} {change.name}", style)
                else:
                    output.row([server.name, change.what, change.kind, change.name])
    if as_json:
        output.document({"servers": documents})
    for server in servers:
        if server.failure is not None and not as_json:
            output.failure(server.failure)
    return exits.UNAVAILABLE if failed else exits.OK


def listing_changes(old: Listing, new: Listing) -> Iterable[ListingChange]:
    """Compare two listings of a server: what `new` adds to `old`, leaves out, or changes."""
    from codecall.gateway.tools.filter import component_id

    for kind in KINDS:
        old_items = {component_id(item): item for item in getattr(old, kind)}
        new_items = {component_id(item): item for item in getattr(new, kind)}
        singular = kind.removesuffix("s")
        yield from (ListingChange("added", singular, name) for name in new_items if name not in old_items)
        yield from (ListingChange("removed", singular, name) for name in old_items if name not in new_items)
        yield from (
            ListingChange("changed", singular, name)
            for name, item in new_items.items()
            if name in old_items and old_items[name] != item
        )
