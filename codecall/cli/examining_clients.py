"""What `codecall doctor` looks at of other clients: what they have, and whether they use the gateway."""

from __future__ import annotations

from collections.abc import Iterator

from codecall.cli.client_files import ClientFiles, present
from codecall.cli.examining import Finding
from codecall.cli.printing import several
from codecall.gateway.clients import TITLES

ABOUT = "Clients"


def clients() -> Iterator[Finding]:
    """One finding for each client of which there are files."""
    found = list(present())
    if not found:
        yield Finding(
            ABOUT, "none", "ok", "no configuration of a client was found", "codecall init says what to paste."
        )
    for each in found:
        yield _client(each)


def _client(each: ClientFiles) -> Finding:
    name = each.name if each.client is None else TITLES[each.client]
    files = ", ".join(map(str, each.files))
    if each.read is None:
        return Finding(
            ABOUT, name, "warn", each.trouble, "Mend that file; the client may not start its servers either."
        )
    count = len(each.servers)
    said = f"{several(count, 'server')}{' and the gateway' if each.has_gateway else ''} in {files}"
    if each.has_gateway and count:
        advice = (
            f"Its model sees the tools of {', '.join(each.servers)} directly: put them behind the gateway, and take "
            "them out there."
        )
        return Finding(ABOUT, name, "warn", said, advice)
    if each.has_gateway:
        return Finding(ABOUT, name, "ok", said)
    return Finding(ABOUT, name, "ok", said, f"codecall init prints what makes {name} use the gateway.")
