"""Servers as other programs write them (`mcpServers`, VS Code's `servers`), made into ours.

What those programs know and the gateway does not is left out, and a note says so. Notes and errors show no values.
"""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple, cast

from codecall.errors import OptionsError
from codecall.gateway.config.mcp_clients import Scope
from codecall.gateway.config.names import find_started_program, program_stem
from codecall.gateway.config.options import AnyServer, GatewayOptions, HttpServer, StdioServer
from codecall.gateway.config.variables import ABSOLUTE_PATH, escape_references, input_variable

# ----------------------------------------------------------------------------------------------------
# Servers as other programs write them (`mcpServers`, VS Code's `servers`), made into ours.

_TRANSPORTS: Final[Mapping[str, str]] = {
    "stdio": "stdio",
    "local": "stdio",
    "http": "http",
    "https": "http",
    "remote": "http",
    "streamable-http": "http",
    "streamablehttp": "http",
    "streamable_http": "http",
    "sse": "sse",
}
_STDIO_KEYS: Final = frozenset({"command", "args", "env", "envFile", "cwd"})
_HTTP_KEYS: Final = frozenset({"url", "httpUrl", "serverUrl", "headers", "auth", "oauth"})
_SHARED_KEYS: Final = frozenset(
    {"type", "transport", "disabled", "enabled", "description", "timeout"}
    | {"includeTools", "excludeTools", "disabledTools", "tools"}
)
ITSELF_NOTE: Final = "left out: it is the gateway itself"
"""The note on an entry that starts this gateway."""

_OWN: Final = re.compile(r"codecall(?:\.cli)?(?:[@=\[<>~!].*)?")
_DRIVE: Final = re.compile(r"[A-Za-z]:[/\\]|\\\\")
"""How a path of Windows begins; it may have spaces in it."""
_INPUT: Final = re.compile(r"(?<!\$)\$\{input:([A-Za-z_][\w.-]*)\}")
_WORKSPACE: Final = re.compile(r"(?<!\$)\$\{(workspaceFolder|workspaceFolderBasename)\}")
_LEAST_MILLISECONDS: Final = 1_000
"""A `timeout` below is taken for seconds: some clients count it in those, and nobody waits less than a second."""


class EntryContext(NamedTuple):
    """What an entry may refer to besides the environment."""

    where: str
    """The file, and what in it, for errors and notes."""
    folder: str | None = None
    """The project the file belongs to; None: it counts everywhere."""
    inputs: Mapping[str, str | None] = {}
    """What the file asks a person for, by id, with its default."""


class TranslatedEntry(NamedTuple):
    """One entry in our terms."""

    server: AnyServer | None
    """None: it is left out, and a note says why."""
    notes: tuple[str, ...]
    inputs: tuple[str, ...] = ()
    """The inputs without a default that it refers to."""


def translate_entry(entry: object, context: EntryContext) -> TranslatedEntry:
    """An entry of `mcpServers` or of VS Code's `servers`.

    Raises:
        OptionsError: a value of it is of the wrong type or out of range.
    """
    if not isinstance(entry, dict):
        raise OptionsError(f"{context.where}: an object is needed")
    given = {key: value for key, value in cast("dict[str, object]", entry).items() if value is not None}
    asked: dict[str, None] = {}
    given = cast("dict[str, object]", _within(given, context, asked))
    url = next((given[key] for key in ("url", "httpUrl", "serverUrl") if key in given), None)
    transport = given.get("transport", given.get("type"))
    kind = None if transport is None else _TRANSPORTS.get(str(transport).lower())
    if "command" not in given and url is None:
        return TranslatedEntry(None, ("left out: it has neither a command nor a url",))
    if transport is not None and kind is None:
        return TranslatedEntry(None, (f"left out: the gateway does not speak {_word(transport)}",))
    if "command" in given and (url is None or kind == "stdio"):
        if starts_codecall(given):
            return TranslatedEntry(None, (ITSELF_NOTE,))
        values, notes, used = _stdio(given, context)
        model: type[StdioServer | HttpServer] = StdioServer
    else:
        values, notes, used = _http(given, url, kind)
        model = HttpServer
    shared, more = _shared(given)
    ignored = sorted(
        key for key, value in given.items() if key not in used | _SHARED_KEYS and value not in (False, [], {})
    )
    if ignored:
        notes.append(f"not used here: {', '.join(ignored)}")
    server = model.read({**values, **shared}, where=context.where, show_values=False)
    return TranslatedEntry(server, (*notes, *more), tuple(asked))


def _word(value: object) -> str:
    """The name of a transport; anything longer is not shown."""
    return repr(value) if isinstance(value, str) and re.fullmatch(r"[\w-]{1,16}", value) else "its transport"


def starts_codecall(entry: Mapping[str, object]) -> bool:
    """Whether an entry starts CodeCall: by its command, or by what `uvx`, `python -m` or the like start."""
    command, args = entry.get("command"), entry.get("args")
    if not isinstance(command, str) or not command.strip():
        return False
    words = [str(word) for word in cast("Sequence[object]", args)] if isinstance(args, list) else []
    if not words and not _DRIVE.match(command):
        command, *words = command.split()
    return _OWN.fullmatch(program_stem(find_started_program(command, words))) is not None


def _within(value: object, around: EntryContext, asked: dict[str, None]) -> object:
    """`value` with what the file itself decides put in place: its project's folder, the defaults of its inputs."""
    match value:
        case str():
            if around.folder is not None:
                parts = {
                    "workspaceFolder": around.folder,
                    "workspaceFolderBasename": re.split(r"[/\\]", around.folder)[-1],
                }
                value = _WORKSPACE.sub(lambda found: escape_references(parts[found[1]]), value)

            def known(found: re.Match[str]) -> str:
                default = around.inputs.get(found[1])
                if default:
                    return f"${{{input_variable(found[1])}:-{default}}}"
                asked[found[1]] = None
                return found[0]

            return _INPUT.sub(known, value)
        case list():
            return [_within(item, around, asked) for item in cast("list[object]", value)]
        case dict():
            return {key: _within(item, around, asked) for key, item in cast("dict[str, object]", value).items()}
        case _:
            return value


Parts = tuple[dict[str, object], list[str], frozenset[str]]


def _stdio(given: Mapping[str, object], around: EntryContext) -> Parts:
    notes: list[str] = []
    command, args = given["command"], given.get("args", [])
    values: dict[str, object] = {
        "command": command,
        "args": _texts(args),
        "env": _variables(given.get("env", {}), notes),
    }
    whole = isinstance(command, str) and not args and not _DRIVE.match(command) and shutil.which(command) is None
    if isinstance(command, str) and whole and re.search(r"\s", command):
        try:
            words = shlex.split(command)
        except ValueError:
            raise OptionsError(f"{around.where}.command: a quotation mark is not closed") from None
        values.update(command=words[0], args=tuple(words[1:]))
        notes.append("the command is a whole line; its words were taken for program and arguments")
    if "envFile" in given:
        values["env_file"] = _rooted(given["envFile"], around.folder)
    if "cwd" in given or around.folder is not None:
        values["cwd"] = _rooted(given.get("cwd", ""), around.folder)
    return values, notes, _STDIO_KEYS


def _rooted(path: object, folder: str | None) -> object:
    """A path of a project's file, from the project's folder."""
    if not isinstance(path, str) or folder is None or ABSOLUTE_PATH.match(path):
        return path
    return escape_references(folder) + (f"/{path.removeprefix('./')}" if path not in ("", ".") else "")


def _http(given: Mapping[str, object], url: object, kind: str | None) -> Parts:
    notes: list[str] = []
    values: dict[str, object] = {"url": url, "headers": _variables(given.get("headers", {}), notes)}
    if kind in ("http", "sse"):
        values["transport"] = kind
    auth = given.get("auth", given.get("oauth"))
    if isinstance(auth, str):
        values["auth"] = auth
    elif auth:
        values["auth"] = "oauth"
        if isinstance(auth, dict):
            notes.append("signs in with a browser; the client's own settings for that are not used here")
    return values, notes, _HTTP_KEYS


def _shared(given: Mapping[str, object]) -> tuple[dict[str, object], list[str]]:
    values: dict[str, object] = {}
    notes: list[str] = []
    if given.get("disabled") is True or given.get("enabled") is False:
        values["enabled"] = False
    if isinstance(description := given.get("description"), str):
        values["description"] = description[:4_000]
    timeout = given.get("timeout")
    if isinstance(timeout, (int, float)) and not isinstance(timeout, bool) and timeout > 0:
        seconds = timeout < _LEAST_MILLISECONDS
        values["call_timeout_s"] = min(timeout if seconds else timeout / 1000, 86_400)
        if seconds:
            notes.append(f"timeout {timeout:g} is taken for seconds")
    tools: object = given.get("tools")
    listed = cast("list[object]", tools) if isinstance(tools, list) and tools != ["*"] else None
    allow = given.get("includeTools", listed)
    deny = [each for key in ("excludeTools", "disabledTools") for each in _listed(given.get(key, []))]
    if isinstance(tools, dict):
        notes.append("not used here: tools")
    if allow is not None or deny:
        values["access"] = {"allow": None if allow is None else _texts(allow), "deny": deny}
    return values, notes


def _listed(value: object) -> Sequence[object]:
    return cast("list[object]", value) if isinstance(value, list) else [value]


def _texts(value: object) -> object:
    """Arguments as texts: numbers are written out, anything else is left for the model to refuse."""
    if not isinstance(value, (list, tuple)):
        return value
    return tuple(_text(item) for item in cast("Sequence[object]", value))


def _text(value: object) -> object:
    match value:
        case bool():
            return "true" if value else "false"
        case int() | float():
            return str(value)
        case _:
            return value


def _variables(value: object, notes: list[str]) -> object:
    """`env` and `headers` as texts; null, by which VS Code takes a variable away, is left out."""
    if not isinstance(value, dict):
        return value
    pairs = cast("dict[str, object]", value)
    if gone := [key for key, item in pairs.items() if item is None]:
        notes.append(f"left out, as it is null: {', '.join(gone)}")
    return {key: _text(item) for key, item in pairs.items() if item is not None}


# ----------------------------------------------------------------------------------------------------
# Which sets of servers a file of another program holds, and which of them counts more.

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
_PARTS: Final = frozenset({"command", "url", "httpUrl", "serverUrl"})


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
        return [*_of_project(file, data, folder), top]
    if (source := data.get("source")) is not None and _is_fastmcp(source):
        return [ConfigLayer(where, rank, {_fastmcp_name(file): _fastmcp_entry(file)}, scope)]
    holder, part = data, ""
    if isinstance(settings := data.get("mcp"), dict) and "servers" in settings:
        holder, part = cast("dict[str, object]", settings), "mcp."
    if part or _is_vscode(file, data):
        inputs = _inputs(holder.get("inputs", []), f"{where}: {part}inputs")
        return [ConfigLayer(where, rank, _servers(holder, "servers", where, part), scope, project, inputs)]
    if data and all(isinstance(entry, dict) and _PARTS & entry.keys() for entry in data.values()):
        return [ConfigLayer(where, rank, data, scope, project)]
    return (
        [ConfigLayer(where, rank, {}, scope, project)] if file.name in _FOREIGN_NAMES and not _is_ours(data) else None
    )


def _servers(data: Mapping[str, object], key: str, where: str, part: str = "") -> dict[str, object]:
    found = data.get(key, {})
    if not isinstance(found, dict):
        raise OptionsError(f"{where}: {part}{key}: an object is needed")
    return cast("dict[str, object]", found)


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


def _of_project(file: Path, data: Mapping[str, object], folder: Path) -> list[ConfigLayer]:
    """Claude Code: what its user's file says of the project `folder` is in."""
    projects = data.get("projects")
    if not isinstance(projects, dict):
        return []
    entries = {_comparable(path): entry for path, entry in cast("dict[str, object]", projects).items()}
    here = folder.absolute()
    for each in dict.fromkeys((here, here.resolve(), *here.parents)):
        entry = entries.get(_comparable(str(each)))
        if isinstance(entry, dict) and "mcpServers" in entry:
            found = cast("dict[str, object]", entry)
            where = f"{file} (project {each})"
            return [
                ConfigLayer(
                    where,
                    _LOCAL,
                    _servers(found, "mcpServers", where),
                    folder=str(each),
                    disabled=_names(found, "disabledMcpServers"),
                    disabled_in_project=_names(found, "disabledMcpjsonServers"),
                )
            ]
    return []


def _comparable(path: str) -> str:
    return path.replace("\\", "/").rstrip("/").lower() if sys.platform == "win32" else path.rstrip("/")


def _names(entry: Mapping[str, object], key: str) -> frozenset[str]:
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
