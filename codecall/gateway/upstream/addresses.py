"""Which addresses a stranger may have the gateway send requests to: a server that says where its sign-in is, or a
document from the web that says where its API is. Behind the gateway may be a network that they cannot reach."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Collection
from urllib.parse import urlsplit


async def is_allowed_target(url: str, known_hosts: Collection[str]) -> bool:
    """Whether a request to `url` goes to one of the hosts that the configuration names, or to a public address.

    A name that is not known here is let through: nothing can be sent there, but by a proxy, which decides by itself.
    """
    try:
        host, port = urlsplit(url).hostname or "", urlsplit(url).port
    except ValueError:
        return False
    if host.lower() in {known.lower() for known in known_hosts}:
        return True
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError:
        return True
    return all(_is_public(str(address[4][0])) for address in found)


def _is_public(address: str) -> bool:
    ip = ipaddress.ip_address(address.partition("%")[0])
    inner = ip.ipv4_mapped or ip.sixtofour if isinstance(ip, ipaddress.IPv6Address) else None
    return ip.is_global and (inner is None or inner.is_global)
