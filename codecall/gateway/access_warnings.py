"""Warns of access rules that name what is no tool: a rule that is misspelt protects nothing."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias, cast

from codecall.gateway.config.options import AccessOptions, GatewayOptions
from codecall.gateway.tools.access import LIST_RULES, ListRule
from codecall.gateway.tools.provider import ServerProvider
from codecall.globs import display_name

logger = logging.getLogger("codecall")

_Named: TypeAlias = tuple[ListRule, str]
"""A rule, and a name or glob in its list."""


class AccessWarnings:
    """The warnings of one gateway.

    Args:
        options: of the gateway.
        providers: what is known of each server that is switched on.
    """

    def __init__(self, options: GatewayOptions, providers: Mapping[str, ServerProvider]) -> None:
        self._providers = providers
        shared = set(_named(options.access))
        self._servers_of: dict[_Named, list[list[str]]] = {}
        """By what rules name, the servers that it is for: those of the rules for all together, each other alone."""
        for name, server in options.servers.items():
            for named in dict.fromkeys(_named(server.access or options.access)):
                groups = self._servers_of.setdefault(named, [])
                if named in shared and groups:
                    groups[0].append(name)
                else:
                    groups.append([name])
        self._logged: set[str] = set()

    def current(self) -> list[str]:
        """A sentence for each name or glob that matches no tool. Nothing is said before all servers are listed that it
        is for."""
        return [
            sentence
            for named, groups in self._servers_of.items()
            for servers in groups
            if (sentence := self._sentence(named, servers)) is not None
        ]

    def log(self) -> None:
        """Log those that were not logged before."""
        for warning in self.current():
            if warning not in self._logged:
                self._logged.add(warning)
                logger.warning("%s", warning)

    def _sentence(self, named: _Named, servers: Sequence[str]) -> str | None:
        near: list[str] = []
        for name in servers:
            provider = self._providers.get(name)
            if provider is None or not provider.is_listed:
                return None
            unmatched = next((each for each in provider.unmatched if (each.rule, each.pattern) == named), None)
            if unmatched is None:
                return None
            if unmatched.near is not None:
                near.append(unmatched.near if len(servers) == 1 else f"{name}_{unmatched.near}")
        rule, pattern = named
        whose = servers[0] if len(servers) == 1 else "any server"
        meant = f"; did you mean {display_name(near[0])!r}?" if near else ""
        return f"access.{rule}: {display_name(pattern)!r} matches no tool of {whose}{meant}"


def _named(access: AccessOptions) -> Iterator[_Named]:
    """What its lists name."""
    for rule in LIST_RULES:
        listed = cast("object", getattr(access, rule))
        if isinstance(listed, tuple):
            for pattern in cast("tuple[str, ...]", listed):
                yield rule, pattern
