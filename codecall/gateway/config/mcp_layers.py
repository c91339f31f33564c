"""Which sets of servers a file of another program holds, and which of them takes precedence."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple, cast

from codecall.errors import OptionsError
from codecall.gateway.config.mcp_clients import Scope
from codecall.gateway.config.options import GatewayOptions

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


_FOREIGN_NAMES: Final = frozenset(
    {"claude_desktop_config.json", ".claude.json", ".mcp.json", "mcp.json", "mcp_config.json"}
)
_ENTRY_KEYS: Final = frozenset({"command", "url", "httpUrl", "serverUrl"})


def find_layers(file: Path, data: Mapping[str, object], folder: Path) -> list[ConfigLayer] | None:
    """The servers in a file of another program; None: it is none of theirs, and so our own.

    Raises:
        OptionsError: a part of it that holds servers is no object.
    """
    if file.suffix.lower() in (".toml", ".yaml", ".yml") and "mcpServers" not in data:
        return None
    project = _project_of(file)
    where = str(file)
    scope: Scope = "user" if project is None else "project"
    rank = _USER if project is None else _PROJECT
    if "mcpServers" in data or "projects" in data or file.name == ".claude.json":
        top = ConfigLayer(where, rank, _servers(data, "mcpServers", where), scope, project)
        return [*_project_layers(file, data, folder), top]
    if (source := data.get("source")) is not None and _is_fastmcp(source):
        return [ConfigLayer(where, rank, {_fastmcp_name(file): _fastmcp_entry(file)}, scope)]
    holder, part = data, ""
    if isinstance(settings := data.get("mcp"), dict) and "servers" in settings:
        holder, part = cast("dict[str, object]", settings), "mcp."
    if part or _is_vscode(file, data):
        inputs = _inputs(holder.get("inputs", []), f"{where}: {part}inputs")
        return [ConfigLayer(where, rank, _servers(holder, "servers", where, part), scope, project, inputs)]
    if data and all(isinstance(entry, dict) and _ENTRY_KEYS & entry.keys() for entry in data.values()):
        return [ConfigLayer(where, rank, data, scope, project)]
    return (
        [ConfigLayer(where, rank, {}, scope, project)] if file.name in _FOREIGN_NAMES and not _is_ours(data) else None
    )


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


def _is_ours(data: Mapping[str, object]) -> bool:
    return any(name in data for name, field in GatewayOptions.model_fields.items() for name in (name, field.alias))


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
