"""`codecall refresh`: the servers' tools listed anew into the cache, and what has changed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple

from cyclopts import Parameter

from codecall.cli import exit_codes as exits
from codecall.cli.arguments import USUAL, AsJson, Chosen

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


class Change(NamedTuple):
    """Something that a server lists otherwise than before."""

    what: What
    kind: str
    """Of `KINDS`, in the singular."""
    name: str


async def refresh(
    names: Annotated[tuple[str, ...], Parameter(help="Only these servers, by name.")] = (),
    /,
    *,
    chosen: Chosen = USUAL,
    as_json: AsJson = False,
) -> int:
    """List the servers' tools anew into the cache, and say what has changed. Starts the servers."""
    from codecall.cli.arguments import configured
    from codecall.cli.gateway import only, survey
    from codecall.cli.output import Output, several
    from codecall.gateway.gateway import Gateway

    output = Output(as_json=as_json)
    gateway = Gateway(only(configured(chosen, output), names))
    told: list[JsonObject] = []
    failed = False
    with output.working("servers") as working:
        async with gateway:
            before = {name: (provider.listed, provider.listing) for name, provider in gateway.providers.items()}
            servers = await survey(gateway, working, anew=True)
    for server in servers:
        known, old = before[server.name]
        body: JsonObject = {"name": server.name, "tools": len(server.listing.tools), "known": known}
        changes = list(changes_of(old, server.listing)) if server.failure is None else []
        body["changes"] = [change._asdict() for change in changes]
        if server.failure is not None:
            failed = True
            body["error"] = server.failure.as_dict()
        told.append(body)
        if not as_json and server.failure is None:
            said = "unchanged" if known and not changes else several(len(server.listing.tools), "tool")
            output.line_of([server.name, said]) if not output.rich else output.line(f"{server.name}: {said}", "bold")
            for change in changes if known else ():
                sign, style = SIGNS[change.what]
                if output.rich:
                    output.line(f"  {sign} {change.kind} {change.name}", style)
                else:
                    output.line_of([server.name, change.what, change.kind, change.name])
    if as_json:
        output.document({"servers": told})
    for server in servers:
        if server.failure is not None and not as_json:
            output.failure(server.failure)
    return exits.UNAVAILABLE if failed else exits.OK


def changes_of(old: Listing, new: Listing) -> Iterable[Change]:
    """What `new` has otherwise than `old`."""
    from codecall.gateway.tools.filter import identity

    for kind in KINDS:
        was = {identity(item): item for item in getattr(old, kind)}
        now = {identity(item): item for item in getattr(new, kind)}
        singular = kind.removesuffix("s")
        yield from (Change("added", singular, name) for name in now if name not in was)
        yield from (Change("removed", singular, name) for name in was if name not in now)
        yield from (
            Change("changed", singular, name) for name, item in now.items() if name in was and was[name] != item
        )
