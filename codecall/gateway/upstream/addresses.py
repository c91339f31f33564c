"""Which addresses a stranger may have the gateway send requests to: a server that says where its sign-in is, or a
document from the web that says where its API is. Behind the gateway may be a network that they cannot reach. And which
URLs a server may send a person to."""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
from collections.abc import Collection
from typing import Any, Final
from urllib.parse import urlsplit

import httpx2

from codecall.gateway.upstream.bounds.http_client import add_trace
from codecall.redaction.questions import HiddenTextError, visible

_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")
_ODD_NETWORKS: Final = tuple(
    map(ipaddress.ip_network, ("192.0.0.0/24", "64:ff9b:1::/48", "::/96", "::ffff:0:0:0/96", "5f00::/16"))
)
"""Networks that Python takes for global, at least in some versions: of protocols (RFC 6890), where Oracle's cloud has
its metadata, for translation to IPv4, and of segment routing (RFC 9602). What is behind an address of theirs is up to
who runs the network."""


_URL: Final = re.compile(r"[\w.~:/?#\[\]@!$&'()*+,;=%-]+", re.ASCII)
"""The characters of URLs (RFC 3986): none is hidden, looks like another, or changes the direction of others."""

_LABEL: Final = r"(?!-)[a-z0-9_-]{1,63}(?<!-)"
_NETLOC: Final = re.compile(
    rf"(?:\[[0-9a-f:.]+\]|(?:{_LABEL}\.)*(?![0-9]+\b|0x){_LABEL}\.?|[0-9.]+)(?::[0-9]*)?", re.I | re.A
)
"""A host of labels of the DNS, or an address, and a port. A browser decodes `%40` and the like in a host, so that
another one is shown than is visited."""


class PrivateAddressError(httpx2.ConnectError):
    """A stranger wants a request sent to an address that is not public."""


async def is_allowed_target(url: str, known_hosts: Collection[str]) -> bool:
    """Whether a request to `url` goes to one of the hosts that the configuration names, or to a public address.

    A name that is not known here is let through: nothing can be sent there, but by a proxy, which decides by itself.
    """
    try:
        host, port = urlsplit(url).hostname or "", urlsplit(url).port
    except ValueError:
        return False
    if _is_known(host, known_hosts):
        return True
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError:
        return True
    return all(_is_public(str(address[4][0])) for address in found)


def guard_connection(request: httpx2.Request, known_hosts: Collection[str], refusal: str) -> None:
    """Have `request` refused, before anything is sent, where the connection that is made for it leads to no public
    address and its host is none of those that are known: a name may mean another address than when it was looked up.

    Raises:
        PrivateAddressError: with this text; not here, but where the request is sent.
    """
    if _is_known(request.url.host, known_hosts):
        return
    connects_to = ""

    async def check(event: str, about: dict[str, Any]) -> None:
        nonlocal connects_to
        if event == "connection.connect_tcp.started":
            connects_to = about["host"]
        # Else it is a proxy, which the configuration names.
        elif event == "connection.connect_tcp.complete" and connects_to == request.url.raw_host.decode("ascii"):
            stream = about["return_value"]
            address = stream.get_extra_info("server_addr")
            if address is None or not _is_public(str(address[0])):
                await stream.aclose()
                raise PrivateAddressError(refusal)

    add_trace(request, check)


def check_url(url: str) -> None:
    """Refuse a URL that a person would not see as what it is, or that leads elsewhere than to a page.

    Raises:
        HiddenTextError: it is such a URL.
    """
    if not _URL.fullmatch(url):
        raise _url_error(url, "has hidden characters, or others that are none of URLs")
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port  # a port that is none raises only when it is read
    except ValueError:
        raise _url_error(url, "cannot be read") from None
    if not host or not (parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host))):
        raise _url_error(url, "is not of https (or, on this machine, of http)")
    if "@" in parts.netloc:
        raise _url_error(url, "has a user's name before its host")
    if not _NETLOC.fullmatch(parts.netloc) or (re.fullmatch(r"[0-9.]+|.*:.*", host) and not _is_address(host)):
        raise _url_error(url, "has a host that is neither a name nor an address")


def _url_error(url: str, reason: str) -> HiddenTextError:
    return HiddenTextError(f"its URL {visible(url[:80])!r} {reason}")


def _is_address(host: str) -> bool:
    try:
        return bool(ipaddress.ip_address(host))
    except ValueError:
        return False


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches that host."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _is_known(host: str, known_hosts: Collection[str]) -> bool:
    return host.lower() in {known.lower() for known in known_hosts}


def _is_public(address: str) -> bool:
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        inner = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF) if ip in _NAT64 else ip.ipv4_mapped or ip.sixtofour
        if inner is not None and not _is_public(str(inner)):
            return False
        if ip.is_site_local:
            return False
    return ip.is_global and not ip.is_multicast and not any(ip in network for network in _ODD_NETWORKS)
