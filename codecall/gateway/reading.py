"""Configurations, whoever wrote them: of Claude Desktop, Claude Code, Cursor and VS Code, of FastMCP, and our own.

    {"mcpServers": {…}}                    Claude Desktop, Claude Code (`.mcp.json`), Cursor, FastMCP and most others
    {"mcpServers": {…}, "projects": {…}}   Claude Code (`~/.claude.json`): servers of the user and of each project
    {"servers": {…}, "inputs": […]}        VS Code, with comments and trailing commas
    {"source": {…}}                        FastMCP (`fastmcp.json`): one server, which `fastmcp run` starts
    anything else                          our own, TOML, YAML or JSON: the fields of `GatewayOptions`

References (`${TOKEN}`) stay as written: `references` replaces them when a server starts.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Sequence
from itertools import count
from pathlib import Path
from typing import NamedTuple

from codecall.errors import OptionsError
from codecall.gateway.clients import TITLES, Client, find, known, places
from codecall.gateway.documents import read_document
from codecall.gateway.foreign import Surroundings, translated
from codecall.gateway.layers import Layer, layers_of
from codecall.gateway.naming import fitted
from codecall.gateway.options import AnyServer, GatewayOptions
from codecall.gateway.own import own_options
from codecall.gateway.references import input_variable


class Configuration(NamedTuple):
    """What was read."""

    options: GatewayOptions
    files: tuple[Path, ...] = ()
    """Every file that was read or, of a client, looked for: when one changes or appears, the rest is old."""
    notes: tuple[str, ...] = ()
    """What a person should know: what was left out, renamed, or must be set. For the error output."""


def read_config(path: str | os.PathLike[str], *, folder: Path | None = None, found: bool = False) -> Configuration:
    """The configuration in a file; its format is found by its content.

    Args:
        folder: Whose servers count in a file that has some for each project; None: the working directory.
        found: Nobody has named it: it must be a file that nobody else writes.

    Raises:
        OptionsError: it cannot be read, is malformed, or holds what it must not. Names the file and the field, and
            shows no value.
    """
    file = Path(path).expanduser().absolute()
    data = read_document(file, found=found)
    layers = layers_of(file, data, folder or Path.cwd())
    if layers is None:
        return Configuration(own_options(file, data), (file,))
    return _combined(layers, (file,))


def read_client(client: Client | str, *, folder: Path | None = None) -> Configuration:
    """The servers of a client (`claude-desktop`, `claude-code`, `cursor`, `vscode`), from all files in which it keeps
    some. Of two with one name the nearer counts: the project's before the user's.

    Raises:
        OptionsError: there is none of its files, or one cannot be used, or is one that somebody else may write to.
    """
    name = known(client)
    usual = [place.path for place in places(name, folder=folder)]
    files = find(name, folder=folder)
    if name in ("claude-desktop", "vscode"):
        # Files of several installations: what is found first is what the client reads, beside the project's.
        users = [place.path for place in places(name, folder=folder) if place.scope == "user" and place.path in files]
        files = [file for file in files if file not in users[1:]]
    if not files:
        looked = ", ".join(map(str, usual))
        raise OptionsError(f"no configuration of {TITLES[name]} was found; looked for {looked}")
    layers: list[Layer] = []
    for file in files:
        found = layers_of(file, read_document(file, found=True), folder or Path.cwd())
        if found is None:
            raise OptionsError(f"{file}: holds no servers in the form of {TITLES[name]}")
        layers.extend(found)
    return _combined(layers, usual)


def _combined(layers: Iterable[Layer], files: Sequence[Path]) -> Configuration:
    """One configuration of several sets of servers of one client; of two with one name the nearer counts."""
    ordered = sorted(layers, key=lambda layer: layer.rank)
    off = {name for layer in ordered for name in layer.off}
    off_in_project = {name for layer in ordered for name in layer.off_in_project}
    servers: dict[str, AnyServer] = {}
    origins: dict[str, tuple[str, str]] = {}
    seen: dict[str, str] = {}
    notes: list[str] = []
    for layer in ordered:
        for name, entry in layer.servers.items():
            fit = fitted(name)
            where = f"{layer.where}: {name}"
            if name in seen:
                notes.append(f"{where}: left out, {seen[name]} has one of that name, which counts more")
                continue
            why = ""
            if fit in origins:
                other, place = origins[fit]
                why = f": {other} in {place} is {fit}"
                fit = numbered(fit, origins)
            origins[fit], seen[name] = (name, layer.where), layer.where
            done = translated(entry, Surroundings(where, layer.folder, layer.inputs))
            notes.extend(f"{where}: {note}" for note in done.notes)
            notes.extend(_asked(where, done.inputs))
            if done.server is None:
                continue
            if fit != name:
                notes.append(f"{where}: is called {fit} here{why}")
            disabled = name in off or (layer.scope == "project" and name in off_in_project)
            servers[fit] = done.server.model_copy(update={"enabled": False}) if disabled else done.server
    return Configuration(GatewayOptions(servers=servers), tuple(files), tuple(notes))


def numbered(name: str, taken: Collection[str]) -> str:
    """`name`, or the first of `name_2`, `name_3` … that is free."""
    if name not in taken:
        return name
    return next(free for number in count(2) if (free := f"{name[:56]}_{number}") not in taken)


def _asked(where: str, inputs: Iterable[str]) -> Iterable[str]:
    for identity in inputs:
        variable = input_variable(identity)
        if variable not in os.environ:
            yield f"{where}: asks for {identity}: set the environment variable {variable}"


def merge(sources: Sequence[Configuration]) -> Configuration:
    """Several configurations as one: the servers of all, and every other option from the one that sets it.

    Raises:
        OptionsError: two have a server of the same name, or set the same option otherwise. Names both sources.
    """
    servers: dict[str, AnyServer] = {}
    values: dict[str, object] = {}
    origins: dict[str, str] = {}

    def claim(key: str, origin: str, *, same: bool = False) -> None:
        if key in origins and not same:
            raise OptionsError(f"{key} is given twice: by {origins[key]} and by {origin}")
        origins.setdefault(key, origin)

    for source in sources:
        origin = ", ".join(str(file) for file in source.files if file.exists()) or "the command line"
        for name, server in source.options.servers.items():
            claim(f"servers.{name}", origin)
            servers[name] = server
        for field in source.options.model_fields_set - {"servers"}:
            value: object = getattr(source.options, field)
            claim(field, origin, same=field in values and values[field] == value)
            values[field] = value
    files = tuple(dict.fromkeys(file for source in sources for file in source.files))
    notes = tuple(note for source in sources for note in source.notes)
    return Configuration(GatewayOptions.read({**values, "servers": servers}, where="", shown=False), files, notes)
