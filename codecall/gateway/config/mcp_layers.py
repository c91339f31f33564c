"""Which sets of servers a file of another program holds, and which of them takes precedence."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple, cast

from pydantic.alias_generators import to_snake

from codecall.errors import OptionsError
from codecall.gateway.config.mcp_clients import Scope
from codecall.gateway.config.options import RULES, GatewayOptions
from codecall.wording import nearest

_LOCAL, _PROJECT, _USER = range(3)


class ConfigLayer(NamedTuple):
    """Servers of one file, or of one part of it."""

    where: str
    """The file, for notes and errors, and the part."""
    rank: int
    """The lower, the more it counts: those of one person in one project, of the project, of the person."""
    servers: Mapping[str, object]
    scope: Scope = "user"
    folder: str | None = None
    """The project it belongs to."""
    inputs: Mapping[str, str | None] = {}
    """VS Code: what a person is asked for, by id, with its default."""
    disabled: frozenset[str] = frozenset()
    """Names of servers that are switched off, in this file and in others."""
    disabled_in_project: frozenset[str] = frozenset()
    """The same, only for those of the project's file."""
    unused: tuple[str, ...] = ()
    """Keys beside the servers that count for nothing, where the file should hold nothing else."""


_FOREIGN_NAMES: Final = frozenset(
    {"claude_desktop_config.json", ".claude.json", ".mcp.json", "mcp.json", "mcp_config.json"}
)
_OTHER_PROGRAMS: Final[Mapping[str, tuple[str, frozenset[str]]]] = {
    "mcp_servers": ("Codex", frozenset({"command", "url"})),
    "context_servers": ("Zed", frozenset({"command", "source", "url"})),
    "mcp": ("opencode", frozenset({"type"})),
    "extensions": ("Goose", frozenset({"type", "cmd", "uri"})),
}
"""Clients whose files are not read: the key under which their servers stand, and what each of these has."""
_ENTRY_KEYS: Final = frozenset({"command", "url", "httpUrl", "serverUrl", "openapi"})
_KEEP_MORE: Final = frozenset({"claude_desktop_config.json", ".claude.json"})
"""Files in which clients keep much besides servers."""
_OWN: Final = {*GatewayOptions.names(), *RULES} - {"name", "servers"}
"""Options by which a file is known for ours: its author expects it to be read."""


def find_layers(file: Path, data: Mapping[str, object], folder: Path) -> list[ConfigLayer] | None:
    """The servers in a file of another program; None: it is none of theirs, and so our own.

    Raises:
        OptionsError: a part of it that holds servers is no object; or options of ours stand beside `mcpServers`.
    """
    where = str(file)
    _refuse_other_program(where, data)
    is_only_ours = file.suffix.lower() in (".toml", ".yaml", ".yml")
    are_servers = data and all(isinstance(entry, dict) and _ENTRY_KEYS & entry.keys() for entry in data.values())
    if "mcpServers" in data:
        _refuse_options(where, data, but=("mcpServers", "$schema") if is_only_ours else None)
    elif is_only_ours or (_own_options(data) and not are_servers):
        return None
    project = _project_of(file)
    scope: Scope = "user" if project is None else "project"
    rank = _USER if project is None else _PROJECT
    if "mcpServers" in data or file.name == ".claude.json" or ("projects" in data and "servers" not in data):
        unused = _unused(file, data, "mcpServers", "projects")
        top = ConfigLayer(where, rank, _servers(data, "mcpServers", where), scope, project, unused=unused)
        return [*_project_layers(file, data, folder), top]
    if "servers" not in data and _is_fastmcp(data.get("source")):
        return [ConfigLayer(where, rank, {_fastmcp_name(file): _fastmcp_entry(file)}, scope)]
    holder, part = data, ""
    if "servers" not in data and isinstance(settings := data.get("mcp"), dict) and "servers" in settings:
        holder, part = cast("dict[str, object]", settings), "mcp."
    if part or _is_vscode(file, data):
        if part:
            _refuse_options(f"{where}: mcp", holder)
        inputs = _inputs(holder.get("inputs", []), f"{where}: {part}inputs")
        unused = _unused(file, holder, "servers", "inputs")
        servers = _servers(holder, "servers", where, part)
        return [ConfigLayer(where, rank, servers, scope, project, inputs, unused=unused)]
    if are_servers:
        return [ConfigLayer(where, rank, data, scope, project)]
    is_ours = file.name not in _FOREIGN_NAMES or "servers" in data or "name" in data
    return None if is_ours else [ConfigLayer(where, rank, {}, scope, project, unused=_unused(file, data))]


def _refuse_other_program(where: str, data: Mapping[str, object]) -> None:
    """Refuse a file of a client whose form is not read.

    Raises:
        OptionsError: it is one.
    """
    if "servers" in data or "mcpServers" in data:
        return
    for key, (program, marks) in _OTHER_PROGRAMS.items():
        entries = data.get(key)
        if not isinstance(entries, dict) or not entries:
            continue
        values = cast("dict[str, object]", entries).values()
        if all(isinstance(entry, dict) and marks & entry.keys() for entry in values):
            raise OptionsError(
                f"{where}: this is a file of {program}, which is not read",
                hint="Copy its servers: `codecall add NAME -- COMMAND…`, or `codecall add NAME https://…`, for each.",
            )


def _own_options(data: Mapping[str, object]) -> list[str]:
    return [key for key in data if to_snake(key) in _OWN]


def _refuse_options(where: str, data: Mapping[str, object], *, but: Sequence[str] | None = None) -> None:
    """Refuse options of ours where only servers are read, in the form of other programs: rules among them would count
    for nothing.

    Args:
        but: the only keys that there may be; None: any other program's.
    """
    ours = [key for key in data if key == "servers" and "mcpServers" in data] + _own_options(data)
    if but is not None:
        ours = [key for key in data if key not in but]
    if ours:
        raise OptionsError(
            f"{where}: {', '.join(ours)} would count for nothing: of a file in another program's form "
            "only the servers are read",
            hint="Write all servers under `servers`, in the gateway's own form; or keep those of the other program in "
            "a file of their own, and give both files with --config.",
        )


def _unused(file: Path, data: Mapping[str, object], *used: str) -> tuple[str, ...]:
    """The other keys of a file that should hold servers alone, with the option of ours that each may be meant for."""
    if file.name in _KEEP_MORE:
        return ()
    found: list[str] = []
    for key in data:
        if key not in (*used, "$schema"):
            near = nearest(to_snake(key), _OWN, min_similarity=0.8)
            found.append(f"{key:.80}" + (f" (did you mean {near[0]}?)" if near else ""))
    return tuple(found)


def _servers(data: Mapping[str, object], key: str, where: str, part: str = "") -> dict[str, object]:
    entries_found = data.get(key, {})
    if not isinstance(entries_found, dict):
        raise OptionsError(f"{where}: {part}{key}: an object is needed")
    return cast("dict[str, object]", entries_found)


def _project_of(file: Path) -> str | None:
    """The folder of the project whose file this is."""
    if file.name == ".mcp.json":
        return str(file.parent)
    if file.name == "mcp.json" and file.parent.name in (".vscode", ".cursor") and file.parent.parent != Path.home():
        return str(file.parent.parent)
    return None


def _is_vscode(file: Path, data: Mapping[str, object]) -> bool:
    if "servers" not in data:
        return False
    entries = data["servers"]
    typed = isinstance(entries, dict) and any(
        isinstance(entry, dict) and "type" in entry for entry in cast("dict[str, object]", entries).values()
    )
    return "inputs" in data or typed or file.name == "mcp.json"


def _inputs(value: object, where: str) -> dict[str, str | None]:
    """VS Code's `inputs`: ids with defaults. A password's default is none."""
    if not isinstance(value, list):
        raise OptionsError(f"{where}: a list is needed")
    inputs: dict[str, str | None] = {}
    for item in cast("Sequence[object]", value):
        entry = cast("dict[str, object]", item) if isinstance(item, dict) else {}
        identity, default = entry.get("id"), entry.get("default")
        if not isinstance(identity, str):
            raise OptionsError(f"{where}: every input needs an id")
        usable = isinstance(default, str) and entry.get("password") is not True and not re.search(r"[}]", default)
        inputs[identity] = default if usable and isinstance(default, str) else None
    return inputs


def _project_layers(file: Path, data: Mapping[str, object], folder: Path) -> list[ConfigLayer]:
    """Claude Code: what its user's file says of the project `folder` is in."""
    projects = data.get("projects")
    if not isinstance(projects, dict):
        return []
    entries = {_normalize_path(path): entry for path, entry in cast("dict[str, object]", projects).items()}
    here = folder.absolute()
    for each in dict.fromkeys((here, here.resolve(), *here.parents)):
        entry = entries.get(_normalize_path(str(each)))
        if isinstance(entry, dict) and "mcpServers" in entry:
            entries_found = cast("dict[str, object]", entry)
            where = f"{file} (project {each})"
            _refuse_options(where, entries_found)
            return [
                ConfigLayer(
                    where,
                    _LOCAL,
                    _servers(entries_found, "mcpServers", where),
                    folder=str(each),
                    disabled=_string_set(entries_found, "disabledMcpServers"),
                    disabled_in_project=_string_set(entries_found, "disabledMcpjsonServers"),
                )
            ]
    return []


def _normalize_path(path: str) -> str:
    return path.replace("\\", "/").rstrip("/").lower() if sys.platform == "win32" else path.rstrip("/")


def _string_set(entry: Mapping[str, object], key: str) -> frozenset[str]:
    names = entry.get(key)
    return (
        frozenset(name for name in cast("list[object]", names) if isinstance(name, str))
        if isinstance(names, list)
        else frozenset()
    )


def _is_fastmcp(source: object) -> bool:
    return isinstance(source, dict) and isinstance(cast("dict[str, object]", source).get("path"), str)


def _fastmcp_name(file: Path) -> str:
    """`fastmcp.json` is named after its folder, `weather.fastmcp.json` after itself."""
    stem = file.name.removesuffix(".json").removesuffix("fastmcp").rstrip(".")
    return stem or file.parent.name


def _fastmcp_entry(file: Path) -> dict[str, object]:
    return {
        "command": sys.executable,
        "args": ["-m", "fastmcp.cli", "run", str(file), "--transport", "stdio", "--no-banner"],
        "cwd": str(file.parent),
    }
