"""Finds the server or the tool that a model means: by the name of a virtual file, or by server and tool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from codecall.globs import display_name
from codecall.meta_tools.starlark.servers import ToolServer

T = TypeVar("T")

FOLDER: Final = "servers"
SUFFIX: Final = ".pyi"

MAX_NAME: Final = 600
"""Most characters of a file name: `servers/`, two names of 256 characters, and `.pyi`."""

MAX_LISTED: Final = 50
"""Most names that a message lists."""


class NotFoundError(Exception):
    """There is no such file, server or tool, or several may be meant; the message lists what there is."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a file is about."""

    server: ToolServer
    function: str | None = None
    """One tool of the server; None: all of them."""


def file_names(servers: Mapping[str, ToolServer], *, by_tool: bool) -> list[str]:
    """The lines of a listing of all files, as a tree."""
    lines = [f"{FOLDER}/"]
    for server in servers.values():
        if by_tool:
            lines += [f"  {server.key}/", *(f"    {function}{SUFFIX}" for function in server.tools)]
        else:
            lines.append(f"  {server.key}{SUFFIX}")
    return lines


def find_file(name: str, servers: Mapping[str, ToolServer], *, by_tool: bool) -> Found:
    """The file of that name: letter case is one, and `servers/` and `.pyi` may be left out.

    Raises:
        NotFoundError: there is none, or several may be meant.
    """
    displayed = display_name(name)
    path = name.strip()
    if len(path) > MAX_NAME:
        raise NotFoundError(f"No file has a name of {len(path)} characters.")
    parts = path.split("/")
    if not path or "\\" in path or "\0" in path or any(part in ("", ".", "..") for part in parts):
        raise NotFoundError(
            f"'{displayed}' is no name of a file: a name is what listToolFiles shows, such as servers/x{SUFFIX}."
        )
    if parts[0].casefold() == FOLDER and len(parts) > 1:
        parts = parts[1:]
    if parts[-1].casefold().endswith(SUFFIX):
        parts[-1] = parts[-1][: -len(SUFFIX)]
    if len(parts) > 2:
        raise NotFoundError(
            f"No file '{displayed}': files are {FOLDER}/<server>{SUFFIX} or {FOLDER}/<server>/<tool>{SUFFIX}."
        )
    files = (
        [f"{FOLDER}/{server.key}/{function}{SUFFIX}" for server in servers.values() for function in server.tools]
        if by_tool
        else [f"{FOLDER}/{server.key}{SUFFIX}" for server in servers.values()]
    )
    server = _one(
        parts[0],
        [((each.key, each.name), f"{FOLDER}/{each.key}{SUFFIX}", each) for each in servers.values()],
        missing=f"No server found matching '{display_name(parts[0])}'. Available virtual files are:",
        several=f"Multiple servers match filename '{displayed}':",
        shown=files,
    )
    return Found(server, find_tool(server, parts[1], as_files=True) if len(parts) > 1 else None)


def find_server(name: str, servers: Mapping[str, ToolServer]) -> ToolServer:
    """The server of that name, in any letter case.

    Raises:
        NotFoundError: there is none, or several may be meant.
    """
    return _one(
        name.strip(),
        [((each.key, each.name), each.key, each) for each in servers.values()],
        missing=f"Server '{display_name(name)}' not found. Available servers are:",
        several=f"Multiple servers match '{display_name(name)}':",
        shown=list(servers),
    )


def find_tool(server: ToolServer, name: str, *, as_files: bool = False) -> str:
    """The name in code of the tool of that name, in any letter case.

    Raises:
        NotFoundError: there is none, or several may be meant.
    """
    head = f"{FOLDER}/{server.key}/" if as_files else ""
    tail = SUFFIX if as_files else ""
    return _one(
        name.strip(),
        [((function, entry.name), f"{head}{function}{tail}", function) for function, entry in server.tools.items()],
        missing=f"Tool '{display_name(name)}' not found in server '{server.key}'. Available tools are:",
        several=f"Multiple tools of server '{server.key}' match '{display_name(name)}':",
        shown=[f"{head}{function}{tail}" for function in server.tools],
    )


def _one(
    wanted: str, known: Sequence[tuple[Sequence[str], str, T]], *, missing: str, several: str, shown: Sequence[str]
) -> T:
    """The one thing that is called so: to the letter by its first name, else in any letter case by one of its names.

    Args:
        wanted: the name.
        known: the names of each thing, how a message names it, and the thing.
        missing: what to say where there is none.
        several: what to say where there are several.
        shown: what there is, for the message.
    """
    found: list[tuple[str, T]] = []
    for names, label, thing in known:
        if names[0] == wanted:
            return thing
        if any(name.casefold() == wanted.casefold() for name in names):
            found.append((label, thing))
    if len(found) == 1:
        return found[0][1]
    if found:
        listed = "\n".join(f"  - {label}" for label, _ in found)
        raise NotFoundError(f"{several}\n{listed}\nUse the exact name from listToolFiles.")
    from codecall.catalog.suggestions import similar_names  # loaded when a name is wrong

    labels = {names[0]: label for names, label, _ in known}
    near = [labels[name] for name in similar_names(wanted, labels)]
    guess = f"Did you mean {' or '.join(near)}?\n" if near else ""
    more = f"\n  … and {len(shown) - MAX_LISTED} more: see listToolFiles" if len(shown) > MAX_LISTED else ""
    listed = "\n".join(f"  - {label}" for label in shown[:MAX_LISTED])
    raise NotFoundError(f"{guess}{missing}\n{listed or '  (none)'}{more}")
