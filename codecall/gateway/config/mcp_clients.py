"""Where Claude Desktop, Claude Code, Cursor and VS Code keep their servers, and what to paste there for the gateway."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal, NamedTuple, get_args

from codecall.errors import OptionsError
from codecall.wording import nearest

Client = Literal["claude-desktop", "claude-code", "cursor", "vscode"]
CLIENTS: Final[tuple[Client, ...]] = get_args(Client)
"""The clients whose files are known."""

TITLES: Final[Mapping[Client, str]] = {
    "claude-desktop": "Claude Desktop",
    "claude-code": "Claude Code",
    "cursor": "Cursor",
    "vscode": "VS Code",
}
"""Their names as people know them."""

Scope = Literal["project", "user"]
"""Whether a file counts in one project, or everywhere."""

PLACEHOLDER: Final = "…"
"""Stands for a value that a person has to write, in files that this program writes for clients. It is no value."""

_EDITORS: Final = ("Code", "Code - Insiders", "VSCodium")


class ClientFile(NamedTuple):
    """A file in which a client may keep servers."""

    path: Path
    scope: Scope


class Machine(NamedTuple):
    """What decides where files are."""

    platform: str
    """As `sys.platform`."""
    home: Path
    environ: Mapping[str, str]

    @classmethod
    def current(cls) -> Machine:
        """The one this process runs on."""
        return cls(sys.platform, Path.home(), os.environ)

    def settings_folder(self) -> Path:
        """The folder in which programs keep a user's settings."""
        match self.platform:
            case "win32":
                return Path(self.environ.get("APPDATA") or self.home / "AppData" / "Roaming")
            case "darwin":
                return self.home / "Library" / "Application Support"
            case _:
                return Path(self.environ.get("XDG_CONFIG_HOME") or self.home / ".config")

    def packages_folder(self) -> Path:
        """Windows: the folder in which packages from the store keep theirs."""
        return Path(self.environ.get("LOCALAPPDATA") or self.home / "AppData" / "Local") / "Packages"


def parse_client(client: str) -> Client:
    """`client` as one of `CLIENTS`, in any letter case.

    Raises:
        OptionsError: it is none of them.
    """
    plain = client.lower().replace(" ", "-").replace("_", "-").replace("vs-code", "vscode")
    for name in CLIENTS:
        if plain == name:
            return name
    near = nearest(plain, CLIENTS, limit=2)
    suggestion = f" (did you mean {' or '.join(near)}?)" if near else ""
    raise OptionsError(
        f"unknown client {client!r:.80}; known: {', '.join(CLIENTS)}{suggestion}", hint="For a file use --config FILE."
    )


def client_files(client: Client, *, folder: Path | None = None, machine: Machine | None = None) -> list[ClientFile]:
    """The files in which `client` keeps servers, what counts first first, whether or not they exist.

    Args:
        folder: The project: its file is looked for here and, within the home folder, in the folders above; None: the
            working directory.
        machine: None: this one.
    """
    on = machine or Machine.current()
    within = (folder or Path.cwd()).absolute()
    match client:
        case "claude-desktop":
            return [ClientFile(path, "user") for path in _claude_desktop(on)]
        case "claude-code":
            user = Path(on.environ.get("CLAUDE_CONFIG_DIR") or on.home) / ".claude.json"
            return [ClientFile(_find_upwards(within, Path(".mcp.json"), on), "project"), ClientFile(user, "user")]
        case "cursor":
            own = Path(".cursor", "mcp.json")
            user = on.home / own
            project = _find_upwards(within, own, on)
            return [*([ClientFile(project, "project")] if project != user else []), ClientFile(user, "user")]
        case "vscode":
            project = _find_upwards(within, Path(".vscode", "mcp.json"), on)
            return [ClientFile(project, "project"), *(ClientFile(path, "user") for path in _vscode(on))]


def _find_upwards(folder: Path, name: Path, on: Machine) -> Path:
    """The nearest such file at or above `folder`, or where it would be. Above, outside the home folder, others may
    write: `/tmp`."""
    above = folder.parents if folder.is_relative_to(on.home) else ()
    for each in (folder, *above):
        if (each / name).is_file():
            return each / name
        if each == on.home:
            break
    return folder / name


def _claude_desktop(on: Machine) -> Iterator[Path]:
    name = "claude_desktop_config.json"
    if on.platform == "win32":
        # From the store, and by today's installer: Windows redirects the usual folder for such packages.
        for package in sorted(on.packages_folder().glob("Claude_*")):
            yield package / "LocalCache" / "Roaming" / "Claude" / name
    yield on.settings_folder() / "Claude" / name


def _vscode(on: Machine) -> Iterator[Path]:
    if portable := on.environ.get("VSCODE_PORTABLE"):
        yield Path(portable, "user-data", "User", "mcp.json")
    for editor in _EDITORS:
        yield on.settings_folder() / editor / "User" / "mcp.json"


def existing_client_files(client: Client, *, folder: Path | None = None, machine: Machine | None = None) -> list[Path]:
    """Those of its files that exist, what counts first first."""
    return [place.path for place in client_files(client, folder=folder, machine=machine) if place.path.is_file()]


class Snippet(NamedTuple):
    """What makes a client use the gateway."""

    client: Client
    path: Path
    """The file that takes `text`."""
    scope: Scope
    """Whose it is."""
    text: str
    """The whole file if there is none, else the entry to put into it."""
    command: str | None
    """A command that does the same, where the client has one."""


def build_snippet(
    client: Client,
    arguments: Sequence[str],
    *,
    name: str = "codecall",
    program: str = "codecall",
    variables: Sequence[str] = (),
    scope: Scope = "user",
    folder: Path | None = None,
    machine: Machine | None = None,
) -> Snippet:
    """What to paste into `client`, or to run, for it to start the gateway by `program arguments…`.

    Args:
        arguments: As in `codecall serve --config /home/ada/codecall.toml`. Clients start servers in folders of their
            own, so that paths should be absolute.
        variables: What its environment must have. Clients with windows do not have a shell's, so that their entries get
            a place for each value; Claude Code hands its own on.
        scope: Of the file, for Claude Code; it is always the user's for the others.
    """
    on = machine or Machine.current()
    entry: dict[str, object] = {"command": program, "args": list(arguments)}
    if variables and client != "claude-code":
        entry["env"] = dict.fromkeys(variables, PLACEHOLDER)
    places = client_files(client, folder=folder, machine=on)
    user = [place.path for place in places if place.scope == "user"]
    command: list[str] | None = None
    match client:
        case "claude-desktop":
            path = next((each for each in user if each.parent.is_dir()), user[-1])
            document = {"mcpServers": {name: entry}}
        case "claude-code":
            path = next(place.path for place in places if place.scope == scope)
            document = {"mcpServers": {name: {"type": "stdio", **entry}}}
            command = ["claude", "mcp", "add", "--scope", scope, name, "--", program, *arguments]
        case "cursor":
            path = user[0]
            document = {"mcpServers": {name: entry}}
        case "vscode":
            path = next((each for each in user if each.parent.is_dir()), user[0])
            document = {"servers": {name: {"type": "stdio", **entry}}}
            if not variables:  # else they are to be filled in first
                command = ["code", "--add-mcp", json.dumps({"name": name, **entry})]
    command_line = None
    if command is not None:
        command_line = subprocess.list2cmdline(command) if on.platform == "win32" else shlex.join(command)
    scope = next(place.scope for place in places if place.path == path)
    return Snippet(client, path, scope, json.dumps(document, indent=2, ensure_ascii=False), command_line)
