"""Entries of servers as other programs write them (`mcpServers`, VS Code's `servers`), translated into our options.

What those programs know and the gateway does not is left out, and a note says so. Notes and errors show no values.
"""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, cast

from pydantic.alias_generators import to_snake

from codecall.errors import OptionsError
from codecall.gateway.config.names import find_started_program, program_stem
from codecall.gateway.config.options import RULES, AnyServer, HttpServer, OpenApiServer, StdioServer
from codecall.gateway.config.variables import ABSOLUTE_PATH, escape_references, input_variable
from codecall.wording import join_names

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
_OPENAPI_KEYS: Final = frozenset({"openapi", "base_url", "baseUrl", "headers"})
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
_MAX_KEYS: Final = 5
"""Keys that are named of an entry that names no server."""
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


_PLAIN_VARIABLE = re.compile(r"\$[A-Za-z_]\w*")
"""A variable as Gemini's files may have it, and as no other client reads it."""


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
        OptionsError: a value of it is of the wrong type or out of range; or it has a rule of ours.
    """
    if not isinstance(entry, dict):
        raise OptionsError(f"{context.where}: an object is needed")
    if rules := [key for key in cast("dict[str, object]", entry) if to_snake(key) in RULES]:
        raise OptionsError(
            f"{context.where}: {', '.join(rules)} would count for nothing in an entry of another program's form",
            hint="Write the server under `servers`, in the gateway's own form.",
        )
    fields = {key: value for key, value in cast("dict[str, object]", entry).items() if value is not None}
    missing_inputs: dict[str, None] = {}
    fields = cast("dict[str, object]", _substitute(fields, context, missing_inputs))
    url = next((fields[key] for key in ("url", "httpUrl", "serverUrl") if key in fields), None)
    transport = fields.get("transport", fields.get("type"))
    kind = None if transport is None else _TRANSPORTS.get(str(transport).lower())
    if "command" not in fields and url is None and "openapi" not in fields:
        return TranslatedEntry(None, (_nothing_to_reach(fields),))
    if transport is not None and kind is None:
        return TranslatedEntry(None, (f"left out: the gateway does not speak {_quote_short(transport)}",))
    if "openapi" in fields and "command" not in fields and url is None:
        if not _is_placed(fields["openapi"], context.folder):
            # The file counts in every folder, so that nothing says from which of them.
            return TranslatedEntry(None, ("left out: its `openapi` is no whole path: `codecall add NAME --openapi …`",))
        values, notes, used = _openapi_options(fields, context)
        model: type[StdioServer | HttpServer | OpenApiServer] = OpenApiServer
    elif "command" in fields and (url is None or kind == "stdio"):
        if starts_codecall(fields):
            return TranslatedEntry(None, (ITSELF_NOTE,))
        values, notes, used = _stdio_options(fields, context)
        model = StdioServer
    else:
        values, notes, used = _http_options(fields, url, kind)
        model = HttpServer
    shared, more = _shared_options(fields)
    ignored = sorted(
        key for key, value in fields.items() if key not in used | _SHARED_KEYS and value not in (False, [], {})
    )
    if ignored:
        notes.append(f"not used here: {', '.join(ignored)}")
    server = model.read({**values, **shared}, where=context.where, show_values=False)
    return TranslatedEntry(server, (*notes, *more), tuple(missing_inputs))


def _nothing_to_reach(fields: Mapping[str, object]) -> str:
    """What is said of an entry that names no server: its keys may be those of a program that is not known."""
    keys = [key for key in fields if key not in _SHARED_KEYS]
    has = f", but {join_names(keys, _MAX_KEYS, lambda key: f'{key!r:.40}')}" if keys else ""
    return f"left out: it has neither a command nor a url{has}; `codecall add NAME -- COMMAND…` or `… URL` adds it"


def _is_placed(path: object, folder: str | None) -> bool:
    """Whether it is known from which folder a path is."""
    return not isinstance(path, str) or folder is not None or ABSOLUTE_PATH.match(path) is not None


def _quote_short(value: object) -> str:
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


def _substitute(value: object, context: EntryContext, missing_inputs: dict[str, None]) -> object:
    """`value` with what the file itself decides put in place: its project's folder, the defaults of its inputs."""
    match value:
        case str():
            if context.folder is not None:
                parts = {
                    "workspaceFolder": context.folder,
                    "workspaceFolderBasename": re.split(r"[/\\]", context.folder)[-1],
                }
                value = _WORKSPACE.sub(lambda match: escape_references(parts[match[1]]), value)

            def with_default(match: re.Match[str]) -> str:
                default = context.inputs.get(match[1])
                if default:
                    return f"${{{input_variable(match[1])}:-{default}}}"
                missing_inputs[match[1]] = None
                return match[0]

            return _INPUT.sub(with_default, value)
        case list():
            return [_substitute(item, context, missing_inputs) for item in cast("list[object]", value)]
        case dict():
            return {
                key: _substitute(item, context, missing_inputs)
                for key, item in cast("dict[str, object]", value).items()
            }
        case _:
            return value


_Translation = tuple[dict[str, object], list[str], frozenset[str]]


def _stdio_options(fields: Mapping[str, object], context: EntryContext) -> _Translation:
    notes: list[str] = []
    command, args = fields["command"], fields.get("args", [])
    values: dict[str, object] = {
        "command": command,
        "args": _strings(args),
        "env": _string_mapping(fields.get("env", {}), notes),
    }
    is_command_line = (
        isinstance(command, str) and not args and not _DRIVE.match(command) and shutil.which(command) is None
    )
    if isinstance(command, str) and is_command_line and re.search(r"\s", command):
        try:
            words = shlex.split(command)
        except ValueError:
            raise OptionsError(f"{context.where}.command: a quotation mark is not closed") from None
        values.update(command=words[0], args=tuple(words[1:]))
        notes.append("the command is a whole line; its words were taken for program and arguments")
    if "envFile" in fields:
        values["env_file"] = _project_path(fields["envFile"], context.folder)
    if "cwd" in fields or context.folder is not None:
        values["cwd"] = _project_path(fields.get("cwd", ""), context.folder)
    return values, notes, _STDIO_KEYS


def _project_path(path: object, folder: str | None) -> object:
    """A path of a project's file, from the project's folder."""
    if not isinstance(path, str) or folder is None or ABSOLUTE_PATH.match(path):
        return path
    return escape_references(folder) + (f"/{path.removeprefix('./')}" if path not in ("", ".") else "")


def _http_options(fields: Mapping[str, object], url: object, kind: str | None) -> _Translation:
    notes: list[str] = []
    values: dict[str, object] = {"url": url, "headers": _string_mapping(fields.get("headers", {}), notes)}
    if kind in ("http", "sse"):
        values["transport"] = kind
    auth = fields.get("auth", fields.get("oauth"))
    if isinstance(auth, str):
        values["auth"] = auth
    elif auth:
        values["auth"] = "oauth"
        if isinstance(auth, dict):
            notes.append("signs in with a browser; the client's own settings for that are not used here")
    return values, notes, _HTTP_KEYS


def _openapi_options(fields: Mapping[str, object], context: EntryContext) -> _Translation:
    notes: list[str] = []
    values: dict[str, object] = {
        "openapi": _project_path(fields["openapi"], context.folder),
        "base_url": fields.get("base_url", fields.get("baseUrl")),
        "headers": _string_mapping(fields.get("headers", {}), notes),
    }
    return values, notes, _OPENAPI_KEYS


def _shared_options(fields: Mapping[str, object]) -> tuple[dict[str, object], list[str]]:
    values: dict[str, object] = {}
    notes: list[str] = []
    if fields.get("disabled") is True or fields.get("enabled") is False:
        values["enabled"] = False
    if isinstance(description := fields.get("description"), str):
        values["description"] = description[:4_000]
    timeout = fields.get("timeout")
    if isinstance(timeout, (int, float)) and not isinstance(timeout, bool) and timeout > 0:
        seconds = timeout < _LEAST_MILLISECONDS
        values["call_timeout_s"] = min(timeout if seconds else timeout / 1000, 86_400)
        if seconds:
            notes.append(f"timeout {timeout:g} is taken for seconds")
    tools: object = fields.get("tools")
    listed = cast("list[object]", tools) if isinstance(tools, list) and tools != ["*"] else None
    allow = fields.get("includeTools", listed)
    deny = [each for key in ("excludeTools", "disabledTools") for each in _as_list(fields.get(key, []))]
    if isinstance(tools, dict):
        notes.append("not used here: tools")
    if allow is not None or deny:
        values["access"] = {"allow": None if allow is None else _strings(allow), "deny": deny}
    return values, notes


def _as_list(value: object) -> Sequence[object]:
    return cast("list[object]", value) if isinstance(value, list) else [value]


def _strings(value: object) -> object:
    """Arguments as texts: numbers are written out, anything else is left for the model to refuse."""
    if not isinstance(value, (list, tuple)):
        return value
    return tuple(_string(item) for item in cast("Sequence[object]", value))


def _string(value: object) -> object:
    match value:
        case bool():
            return "true" if value else "false"
        case int() | float():
            return str(value)
        case _:
            return value


def _string_mapping(value: object, notes: list[str]) -> object:
    """`env` and `headers` as texts; null, by which VS Code takes a variable away, is left out."""
    if not isinstance(value, dict):
        return value
    pairs = cast("dict[str, object]", value)
    if nulls := [key for key, item in pairs.items() if item is None]:
        notes.append(f"left out, as it is null: {', '.join(nulls)}")
    if plain := [key for key, item in pairs.items() if isinstance(item, str) and _PLAIN_VARIABLE.fullmatch(item)]:
        notes.append(f"passed on as it stands, since only ${{NAME}} is replaced and not $NAME: {', '.join(plain)}")
    return {key: _string(item) for key, item in pairs.items() if item is not None}
