"""Which addresses a stranger may have requests sent to."""

from __future__ import annotations

import pytest

from codecall.gateway.upstream.addresses import is_allowed_target

PRIVATE = [
    "64:ff9b::a9fe:a9fe",
    "64:ff9b::7f00:1",
    "64:ff9b:1::1",
    "64:ff9b:1::808:808",
    "::7f00:1",
    "::808:808",
    "::ffff:0:7f00:1",
    "::ffff:10.0.0.1",
    "2002:7f00:1::",
    "fec0::1",
    "::ffff:192.0.0.192",
    "5f00::1",
    "ff02::1",
    "ff0e::1",
    "2002:e000:1::",
]


@pytest.mark.parametrize(
    "host", [*(f"[{address}]" for address in PRIVATE), "224.0.0.1", "239.1.2.3", "10.0.0.1", "192.0.0.192"]
)
async def test_an_address_that_leads_to_a_private_network_is_refused_however_it_is_written(host: str) -> None:
    assert not await is_allowed_target(f"https://{host}/", [])
    assert await is_allowed_target(f"https://{host}/", [host.strip("[]")])


@pytest.mark.parametrize("host", ["8.8.8.8", "[2606:4700:4700::1111]", "[64:ff9b::808:808]", "[::ffff:8.8.8.8]"])
async def test_public_addresses_are_let_through(host: str) -> None:
    """Those behind NAT64, too, which networks without IPv4 have for every name."""
    assert await is_allowed_target(f"https://{host}/", [])
