"""Warns of rules and `app_ids` that name what there is not. The rules are about access, approvals, flows and rates: one
that is misspelt protects nothing."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias, cast

from fastmcp.tools import Tool

from codecall.approvals.options import ApprovalRule
from codecall.catalog.entries import COMPOSITE_APP, OTHER_NAMES, CatalogEntry
from codecall.gateway.config.options import AccessOptions, GatewayOptions
from codecall.gateway.exposure import GatewayPlugin
from codecall.gateway.tools.access import LIST_RULES, ListRule
from codecall.gateway.tools.provider import ServerProvider
from codecall.globs import Patterns, display_name, literal_head
from codecall.sandbox.agentscript.policy import is_meta_tool

logger = logging.getLogger("codecall")

_Named: TypeAlias = tuple[ListRule, str]
"""A rule, and a name or glob in its list."""


class RuleWarnings:
    """The warnings of one gateway.

    Args:
        options: of the gateway.
        providers: what is known of each server that is switched on.
        plugin: has rules about calls, and composite tools; None: there is none.
        rates: what the rules about rates are for.
        app_ids: the servers whose tools the operator has CodeCall manage.
    """

    def __init__(
        self,
        options: GatewayOptions,
        providers: Mapping[str, ServerProvider],
        plugin: GatewayPlugin | None = None,
        rates: Sequence[str] = (),
        app_ids: Sequence[str] = (),
    ) -> None:
        self._app_ids = app_ids
        self._providers = providers
        self._servers = frozenset(options.servers)
        self._off = self._servers - providers.keys()
        """The servers that are switched off, or left out of what a command is about."""
        self._plugin = plugin
        self._rates = [rate for rate in rates if not is_meta_tool(rate) and "://" not in rate]
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
        """A sentence for each name or glob that matches no tool, and for what is wrong with conditions. Nothing is said
        before all servers are listed that it is for, nor of what may be of a server that is switched off."""
        access = [
            sentence
            for named, groups in self._servers_of.items()
            for servers in groups
            if (sentence := self._sentence(named, servers)) is not None
        ]
        return [*access, *self._of_apps(), *self._of_calls()]

    def log(self) -> None:
        """Log those that were not logged before."""
        for warning in self.current():
            if warning not in self._logged:
                self._logged.add(warning)
                logger.warning("%s", warning)

    def _of_apps(self) -> list[str]:
        """A sentence for each of `app_ids` that is no server."""
        apps = self._servers | {COMPOSITE_APP}
        missing = [app for app in self._app_ids if app not in apps]
        if not missing:
            return []
        from codecall.approvals.unmatched import unmatched_sentence

        return [unmatched_sentence("app_ids", app, "server", apps) for app in missing]

    def _of_calls(self) -> list[str]:
        """A sentence for each name in the rules about calls and rates that matches nothing, and those on conditions."""
        options = self._plugin.options if self._plugin is not None else None
        rules = options.approvals.rules if options is not None and options.approvals is not None else ()
        flows = options.flows if options is not None else ()
        if not (rules or flows or self._rates) or not all(each.is_listed for each in self._providers.values()):
            return []
        from codecall.approvals.unmatched import KnownNames, rule_warnings, unmatched, unmatched_sentence

        tools, others, apps = set[str](), set(OTHER_NAMES), set(self._servers)
        entries: list[CatalogEntry] = []
        if self._plugin is not None and (composites := self._plugin.composite_tools):
            tools.update(composites)
            apps.add(COMPOSITE_APP)
            entries += (_entry(COMPOSITE_APP, name, tool) for name, tool in composites.items())
        for server, provider in self._providers.items():
            listing = provider.listing
            entries += (_entry(server, f"{server}_{tool.name}", tool) for tool in provider.tools_with_approvals)
            tools.update(f"{server}_{tool.name}" for tool in listing.tools)
            others.update(f"{server}_{prompt.name}" for prompt in listing.prompts)
            others.update(resource.uri for resource in listing.resources)
            others.update(template.uri_template for template in listing.templates)
        rules = [self._without_tools_of_off(rule) for rule in rules]
        flows = [
            flow.model_copy(update={"source": self._judged(flow.source), "to": self._judged(flow.to)}) for flow in flows
        ]
        found = rule_warnings(rules, flows, KnownNames(tools, apps, apps, "tool of any server", entries))
        what = "tool, resource or prompt of any server"
        rates = unmatched(self._judged(self._rates), tools | others)
        return [*found, *(unmatched_sentence("rate_limits.tool", rate, what, tools | others) for rate in rates)]

    def _without_tools_of_off(self, rule: ApprovalRule) -> ApprovalRule:
        """The rule without what may name tools of servers that are switched off, and without its condition if that may
        be about them."""
        if rule.servers is not None and not any(map(Patterns(rule.servers).matches, self._off)):
            return rule
        if rule.tools is None:
            return rule.model_copy(update={"input": None}) if self._off else rule
        tools = self._judged(rule.tools) if rule.servers is None else ()
        return rule if tools == rule.tools else rule.model_copy(update={"tools": tools, "input": None})

    def _judged(self, patterns: Sequence[str]) -> tuple[str, ...]:
        """Those of the patterns that name no tool of a server that is switched off: its tools are not known."""
        return tuple(each for each in patterns if not any(_may_be_of(each, server) for server in self._off))

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
        suggestion = f"; did you mean {display_name(near[0])!r}?" if near else ""
        return f"access.{rule}: {display_name(pattern)!r} matches no tool of {whose}{suggestion}"


def _entry(server: str, name: str, tool: Tool) -> CatalogEntry:
    """A tool as rules see it."""
    hints = tool.annotations.model_dump(by_alias=True) if tool.annotations is not None else {}
    return CatalogEntry(name, server, "", tool.parameters, annotations=hints, owner=server)


def _named(access: AccessOptions) -> Iterator[_Named]:
    """What its lists name."""
    for rule in LIST_RULES:
        listed = cast("object", getattr(access, rule))
        if isinstance(listed, tuple):
            for pattern in cast("tuple[str, ...]", listed):
                yield rule, pattern


def _may_be_of(pattern: str, server: str) -> bool:
    """Whether a name or glob may be of a tool of that server, by how it begins."""
    prefix = f"{server}_"
    head = literal_head(pattern)
    return head.startswith(prefix) or (head != pattern and prefix.startswith(head))
