"""What serves the tools of a server, that which is mounted on it included."""

from __future__ import annotations

from collections.abc import Generator

from fastmcp.server.providers import AggregateProvider, Provider
from fastmcp.server.providers.fastmcp_provider import FastMCPProvider

from codecall.catalog.apps import FastMCPServer
from codecall.catalog.cache.fastmcp_internals import inner_provider


def providers_and_transforms(server: FastMCPServer) -> Generator[object]:
    """Yields a server, its providers and its transforms, and those of each server that is mounted on it."""
    waiting: list[Provider] = [server]
    seen: set[int] = set()
    while waiting:
        provider = waiting.pop()
        if id(provider) in seen:
            continue
        seen.add(id(provider))
        yield provider
        yield from provider.transforms
        inner = provider.server if isinstance(provider, FastMCPProvider) else inner_provider(provider)
        if inner is not None:
            waiting.append(inner)
        elif isinstance(provider, AggregateProvider):
            waiting.extend(provider.providers)
