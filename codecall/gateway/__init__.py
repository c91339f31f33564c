"""The gateway: CodeCall in front of MCP servers that somebody else wrote. `codecall serve` runs it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from codecall.gateway.config.options import GatewayOptions
    from codecall.gateway.gateway import Gateway

__all__ = ["Gateway", "GatewayOptions"]


def __getattr__(name: str) -> object:
    if name == "Gateway":
        from codecall.gateway.gateway import Gateway

        return Gateway
    if name == "GatewayOptions":
        from codecall.gateway.config.options import GatewayOptions

        return GatewayOptions
    raise AttributeError(f"module 'codecall.gateway' has no attribute {name!r}")
