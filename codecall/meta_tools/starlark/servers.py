"""The tools of one caller by server, with the names that servers and tools have in code and in files."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from anyio import to_thread
from fastmcp.server.context import Context

from codecall.catalog.entries import CatalogEntry
from codecall.catalog.view import CatalogView
from codecall.concurrency import CHUNK
from codecall.globs import Patterns
from codecall.meta_tools.starlark.options import ToolFileServer, ToolFilesOptions
from codecall.namespaces import SEPARATORS
from codecall.sandbox.languages import RESERVED
from codecall.sandbox.starlark.policy import function_name

logger = logging.getLogger("codecall")

VALUE: Final = "result"
"""The variable whose value is that of the code."""

_RESERVED_KEYS: Final = RESERVED | {VALUE}


@dataclass(slots=True)
class ToolServer:
    """One server, with those of its tools that code may call."""

    key: str
    """Its name in code."""
    name: str
    """Its own name."""
    tools: dict[str, CatalogEntry] = field(default_factory=dict[str, CatalogEntry])
    """By their names in code."""
    automatic: dict[str, bool] = field(default_factory=dict[str, bool])
    """By the same names: whether code may call it without a person."""


class ServerRules:
    """What the option `tool_files` says of servers.

    Args:
        options: The option.
    """

    def __init__(self, options: ToolFilesOptions) -> None:
        self._rules = {server.name: _Rule(server) for server in options.servers}
        self._unseen = set(self._rules)
        self.automatic = any(server.tools_to_auto_execute is not None for server in options.servers)
        """Whether there are lists of what code may call without a person."""

    def servers(self, entries: Iterable[CatalogEntry], home: str) -> dict[str, ToolServer]:
        """The servers of some tools by their names in code, in the order of the tools; `home` is the one that the
        others are mounted on."""
        grouped: dict[str, dict[str, CatalogEntry]] = {}
        for entry in entries:
            name = entry.server
            self._unseen.discard(name)
            rule = self._rules.get(name)
            # What code may not call takes no name from what it may.
            if rule is None or (rule.code_mode and rule.executes.matches(_own_name(entry, home))):
                grouped.setdefault(name, {})[entry.name] = entry
        keys = code_names(grouped, _RESERVED_KEYS)
        return {key: self._server(key, name, grouped[name], home) for key, name in keys.items()}

    async def of_caller(self, context: Context, view: CatalogView) -> dict[str, ToolServer]:
        """The servers of the caller of a request; see `servers`."""
        entries, home = await view.entries(), context.fastmcp.name
        if len(entries) <= CHUNK:
            return self.servers(entries, home)
        return await to_thread.run_sync(self.servers, entries, home)

    def warn_of_unseen(self) -> None:
        """Log each server that options name and that has no tool."""
        for name in sorted(self._unseen):
            logger.warning("tool_files.servers: there is no tool of a server %r so far", name)
        self._unseen.clear()

    def _server(self, key: str, name: str, entries: Mapping[str, CatalogEntry], home: str) -> ToolServer:
        rule, server = self._rules.get(name), ToolServer(key, name)
        members = member_names(entries, name)
        for function, member in code_names(members, RESERVED).items():
            entry = server.tools[function] = entries[members[member]]
            server.automatic[function] = rule is not None and rule.runs_alone(_own_name(entry, home))
        return server


def _own_name(entry: CatalogEntry, home: str) -> str:
    """The name by which lists name a tool: the same for every caller, whatever else that one may see."""
    return entry.name if entry.server == home else entry.name.removeprefix(f"{entry.server}_")


class _Rule:
    """The options of one server, compiled."""

    def __init__(self, server: ToolFileServer) -> None:
        self.code_mode = server.code_mode
        self.executes = Patterns(server.tools_to_execute)
        self._alone = Patterns(server.tools_to_auto_execute or ())

    def runs_alone(self, member: str) -> bool:
        """Whether code may call a tool without a person."""
        return self._alone.matches(member)


def member_names(tools: Iterable[str], server: str) -> dict[str, str]:
    """Tools by their names without that of their server before them, where no two are alike then."""
    names = list(tools)
    members = {name: _without(server, name) for name in names}
    alike = Counter([*members.values(), *names])
    # A tool whose name does not change counts twice.
    return {(members[name] if alike[members[name]] == 1 else name): name for name in names}


def _without(server: str, name: str) -> str:
    head, separator, member = name[: len(server)], name[len(server) : len(server) + 1], name[len(server) + 1 :]
    is_prefixed = server and member and separator in SEPARATORS and head.casefold() == server.casefold()
    return member if is_prefixed else name


def code_names(names: Iterable[str], reserved: frozenset[str]) -> dict[str, str]:
    """Names by what they are in code: other characters are `_`. What is a name already stays as it is; others that
    would be called alike get numbers, and words that code cannot use a `_` behind them."""
    listed = list(names)
    taken = {name for name in listed if name and function_name(name) == name and name not in reserved}
    found: dict[str, str] = {}
    numbers: Counter[str] = Counter()
    for name in listed:
        written = name
        if name not in taken:
            wanted = written = f"{function_name(name)}{'_' if function_name(name) in reserved or not name else ''}"
            while written in taken or written in found:
                numbers[wanted] += 1
                written = f"{wanted}_{numbers[wanted] + 1}"
        found[written] = name
    return found
