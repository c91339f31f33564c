"""Our own configuration files: parsing them, and writing options as TOML for `codecall init`.

Parsing knows every field of `GatewayOptions` and accepts nothing else; paths are relative to the file's folder. Writing
gives what differs from the defaults, with comments that explain. TOML is written here, not by a library: the values of
options are texts, numbers, truth values, lists and tables, whose TOML is nearly their JSON, and the small writers
there are put no comments between them.

Secrets are not copied. What looks like one becomes a reference (`${GITHUB_TOKEN}`), and a note says what to export.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple, cast

from pydantic.alias_generators import to_camel, to_snake

from codecall.errors import OptionsError
from codecall.gateway.config.names import fit_name
from codecall.gateway.config.options import (
    TABLE_EXAMPLES,
    AccessOptions,
    AnyServer,
    CompositeToolsOptions,
    ExposeOptions,
    GatewayOptions,
    HttpServer,
    OpenApiServer,
    ServeOptions,
    StdioServer,
)
from codecall.gateway.config.secrets import replace_secrets
from codecall.gateway.config.variables import ABSOLUTE_PATH, escape_references
from codecall.meta_tools.starlark.options import ToolFilesOptions
from codecall.option_base import OptionProblems, Options, reject_double_spelling
from codecall.options import PluginOptions, StarlarkOptions
from codecall.wording import nearest

_KINDS: Final[Mapping[str, type[StdioServer | HttpServer | OpenApiServer]]] = {
    "command": StdioServer,
    "url": HttpServer,
    "openapi": OpenApiServer,
}
_PARTS: Final[Mapping[str, type[Options]]] = {
    "access": AccessOptions,
    "expose": ExposeOptions,
    "serve": ServeOptions,
    "composite_tools": CompositeToolsOptions,
    "starlark": StarlarkOptions,
    "tool_files": ToolFilesOptions,
}
_PLUGIN_KEYS: Final = frozenset(PluginOptions.names())
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")


def parse_own_options(file: Path, data: Mapping[str, object]) -> GatewayOptions:
    """The options that a file of ours holds.

    Raises:
        OptionsError: something unknown, of the wrong type or out of range. Names the file and the field.
    """
    values = dict(data)
    values.pop("$schema", None)
    entries = values.pop("servers", {})
    if not isinstance(entries, dict):
        raise OptionsError(f"{file}: servers: a table of servers by name is needed")
    servers: dict[str, AnyServer] = {}
    problems = OptionProblems()
    for name, entry in cast("dict[object, object]", entries).items():
        where = f"{file}: servers.{name}"
        with problems.collecting():
            if not isinstance(name, str) or not _NAME.fullmatch(name):
                raise OptionsError(f"{where}: is no name of a server; {fit_name(str(name))} would be one")
            servers[name] = parse_server(entry, where, file.parent)
    for key in list(values):
        value = values.pop(key)
        with problems.collecting():
            values[key] = _read_table(file, key, value)
    # The prefix is a path's, so that fields of the top stand behind a colon as the others do.
    options = GatewayOptions()
    with problems.collecting():
        try:
            options = GatewayOptions.read({**values, "servers": servers}, where="", show_values=False)
        except OptionsError as failure:
            own = [key for key in values if to_snake(key) in _PLUGIN_KEYS - set(GatewayOptions.names())]
            hint = f"Under [codecall] there is {', '.join(own)}." if own else None
            raise OptionsError(f"{file}: {failure.message}", hint=hint) from None
    problems.raise_all()
    return options.read_from(dict.fromkeys(GatewayOptions.names(), str(file)))


def _read_table(file: Path, key: str, value: object) -> object:
    """What stands under a key of the top, as far as it is read by itself."""
    name = to_snake(key)
    if (example := TABLE_EXAMPLES.get(name)) is not None and value is not None and not isinstance(value, dict):
        raise OptionsError(f"{file}: {key}: a table is needed, such as {example}")
    if name == "cache_dir" and isinstance(value, str):
        return _from_folder(value, file.parent)
    if not isinstance(value, dict):
        return value
    table = cast("dict[str, object]", value)
    if (part := _PARTS.get(name)) is not None:
        reject_double_spelling(part, table, f"{file}: {key}")
    if name == "expose":
        # Unlike the others it holds no secrets, so that its values may be shown.
        return ExposeOptions.read(table, where=f"{file}: expose")
    if name == "codecall":
        return _with_record_files(table, file.parent)
    return _with_paths(table, file.parent) if name == "composite_tools" else table


def _with_record_files(values: dict[str, object], folder: Path) -> dict[str, object]:
    """The options of the plugin, in which files of records are relative to `folder`."""
    audit = values.get("audit")
    sinks: object = cast("dict[str, object]", audit).get("sinks") if isinstance(audit, dict) else None
    if not isinstance(sinks, (list, tuple)):
        return values

    def placed(sink: object) -> object:
        if isinstance(sink, str):
            return _from_folder(sink, folder)
        if isinstance(sink, dict) and isinstance(path := cast("dict[str, object]", sink).get("file"), str):
            return {**cast("dict[str, object]", sink), "file": _from_folder(path, folder)}
        return cast("object", sink)

    placed_sinks = [placed(sink) for sink in cast("Sequence[object]", sinks)]
    return {**values, "audit": {**cast("dict[str, object]", audit), "sinks": placed_sinks}}


def _with_paths(values: dict[str, object], folder: Path) -> dict[str, object]:
    """The options of composite tools, whose paths are relative to `folder`."""
    paths = values.get("paths")
    if not isinstance(paths, (list, tuple)):
        return values
    items = cast("Sequence[object]", paths)
    return {**values, "paths": tuple(str(folder / path) if isinstance(path, str) else path for path in items)}


def parse_server(entry: object, where: str, folder: Path) -> AnyServer:
    """One server of a file of ours. Its kind follows from the one of `command`, `url` and `openapi` that it has.

    Raises:
        OptionsError: it has none of them, or several, or something else is wrong.
    """
    if not isinstance(entry, dict):
        raise OptionsError(f"{where}: a table is needed")
    values = dict(cast("dict[str, object]", entry))
    kinds = [key for key in _KINDS if key in values]
    if len(kinds) != 1:
        count = f"{' and '.join(kinds)} are given" if kinds else "none is given"
        raise OptionsError(
            f"{where}: exactly one of command, url and openapi is needed, {count}{_unknown_keys(values)}"
        )
    model = _KINDS[kinds[0]]
    for key in ("cwd", "env_file", "envFile", "openapi"):
        if isinstance(value := values.get(key), str):
            values[key] = _from_folder(value, folder)
    if isinstance(access := values.get("access"), dict):
        reject_double_spelling(AccessOptions, cast("dict[str, object]", access), f"{where}.access")
    return model.read(values, where=where, show_values=False)


def _unknown_keys(keys: Iterable[str]) -> str:
    """The keys that no server has, and those that may be meant."""
    known_keys = dict.fromkeys(name for model in _KINDS.values() for name in model.names())
    message = ""
    for key in keys:
        if key not in known_keys and key not in map(to_camel, known_keys):
            near = nearest(to_snake(key), known_keys)
            message += f"; unknown: {key}" + (f" (did you mean {near[0]}?)" if near else "")
    return message


def _from_folder(path: str, folder: Path) -> str:
    return (
        path
        if not path or ABSOLUTE_PATH.match(path)
        else escape_references(str(folder)) + f"/{path.removeprefix('./')}"
    )


_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")

_HEAD: Final = """\
# What `codecall serve` runs; `codecall doctor` says whether it works.
# `${NAME}` stands for an environment variable, read when a server starts;
# `${NAME:-text}` has a default.
"""

_COMMENTS: Final[Mapping[str, str]] = {
    "access": "Which tools may be used: allow, deny, read_only, destructive.",
    "expose": "Whether clients list CodeCall's four tools: auto, always, never.",
    "serve": "How clients reach it: stdio, or http with host, port, path, auth.",
    "composite_tools": "Workflows that are served as tools: paths of their files, and of folders.",
    "codecall": "Options of the plugin: vm.preset, top_k, audit and the rest.",
    "starlark": "Scripts in Starlark: execute_tool_script, with code_mode, optimizer and description_tokens.",
    "tool_files": "Tools as .pyi files, with executeToolCode: binding_level, tool_execution_timeout, servers.",
    "rate_limits": "How often tools may be called.",
}
_SERVERS: Final = """\
# The servers behind the gateway. Each may also say: enabled, description,
# call_timeout_s, idle_s, per_client, and access = { read_only = true } or
# { allow = ["…"], deny = ["…"] }.
"""


_EXAMPLES: Final = """\
# `codecall add` writes such tables: of NAME -- COMMAND…, NAME URL, or
# NAME --openapi PATH_OR_URL.

# [servers.git]
# command = "uvx"
# args = ["mcp-server-git", "--repository", "${HOME}/work/shop"]

# [servers.issues]
# url = "https://mcp.example.com/mcp"
# headers = { Authorization = "Bearer ${ISSUES_TOKEN}" }
# access = { read_only = true }

# [servers.shop]
# openapi = "https://shop.example.com/openapi.json"
"""

_HEADER: Final = re.compile(r"""\s*\[\[?\s*servers\s*\.\s*["']?([A-Za-z][A-Za-z0-9_-]*)["']?\s*(?:\.[^\]]*)?\]""")
"""The head of a table of one server, or of one within it."""


class TomlDocument(NamedTuple):
    """A configuration as text."""

    text: str
    notes: tuple[str, ...]
    """The environment variables to set, as their values were not copied, and which secret each holds."""


def write_toml(options: GatewayOptions) -> TomlDocument:
    """The options as the text of a TOML file, which `read_config` reads back as they are, but for secrets.

    Raises:
        OptionsError: an option of the plugin or of rate limits holds null, which TOML has no word for.
    """
    safe, notes = replace_secrets(options)
    parts = [_HEAD, *(_table_lines(_non_defaults(safe, but=("servers", *_COMMENTS)), "") or [])]
    for field, comment in _COMMENTS.items():
        value: object = getattr(safe, field)
        if value == GatewayOptions.model_fields[field].get_default(call_default_factory=True):
            continue
        table = _non_defaults(value) if isinstance(value, Options) else cast("Mapping[str, object]", value)
        parts.append(f"\n# {comment}\n[{field}]\n" + "".join(_table_lines(table, field)))
    if safe.servers:
        parts.append("\n" + _SERVERS)
    for name, server in safe.servers.items():
        parts.append(f"\n[servers.{name}]\n" + "".join(_table_lines(_server_table(server), f"servers.{name}")))
    return TomlDocument("".join(parts), notes)


def write_server(name: str, server: AnyServer) -> TomlDocument:
    """The table of one server, to be put behind what a file of ours holds."""
    safe, notes = replace_secrets(GatewayOptions(servers={name: server}))
    lines = _table_lines(_server_table(safe.servers[name]), f"servers.{name}")
    return TomlDocument(f"\n[servers.{name}]\n{''.join(lines)}", notes)


def remove_server(text: str, name: str) -> str | None:
    """The text of a file of ours without the tables of a server; None if it has none of its own, as where it is
    written within another table.

    With a table go the comments right above its head and those in it, up to its last key and right below; comments
    behind a blank line, or right above the head of another table, stay.
    """
    lines = text.splitlines(keepends=True)
    removed: set[int] = set()
    head: int | None = None
    """The head of the server's table that is read; None: it is another's."""
    for number, line in enumerate([*lines, "["]):
        if not line.lstrip().startswith("["):
            continue
        if head is not None:
            removed.update(_lines_of_table(lines, head, number))
        header = _HEADER.match(line)
        head = number if header and header[1] == name else None
    expected = tomllib.loads(text)
    if name not in expected.get("servers", {}):
        return None
    del expected["servers"][name]
    kept: list[str] = []
    within_gap = False
    for number, line in enumerate(lines):
        is_blank = not line.strip()
        if number in removed:
            within_gap = not kept or not kept[-1].strip()
        elif not (within_gap and is_blank):  # one of the gaps around what is removed goes with it
            kept.append(line)
            within_gap = False
    while within_gap and kept and not kept[-1].strip():
        kept.pop()
    remaining = "".join(kept)
    try:
        parsed = tomllib.loads(remaining)
    except tomllib.TOMLDecodeError:  # a line of some text looked like the head of a table
        return None
    for document in (parsed, expected):
        if not document.get("servers"):
            document.pop("servers", None)
    return remaining if parsed == expected else None


def _lines_of_table(lines: Sequence[str], head: int, following: int) -> range:
    """The lines that belong to the table with its head at `head`, where the next begins at `following`."""

    def is_comment(number: int) -> bool:
        return lines[number].lstrip().startswith("#")

    start = head
    while start > 0 and is_comment(start - 1):
        start -= 1
    above_next = following
    while is_comment(above_next - 1):
        above_next -= 1
    last = max(number for number in range(head, above_next) if lines[number].strip() and not is_comment(number))
    end = last + 1
    while end < above_next and is_comment(end):
        end += 1
    return range(start, end)


def write_template() -> str:
    """A configuration without servers, with what to write for each kind."""
    return f"{_HEAD}\n{_SERVERS}{_EXAMPLES}"


def _server_table(server: StdioServer | HttpServer | OpenApiServer) -> dict[str, object]:
    """What a server is comes first."""
    changed = _non_defaults(server)
    first = [key for key in ("command", "args", "url", "openapi") if key in changed]
    return {key: changed[key] for key in (*first, *(key for key in changed if key not in first))}


def _non_defaults(options: Options, but: Sequence[str] = ()) -> dict[str, object]:
    """The options that differ from their defaults."""
    changed: dict[str, object] = {}
    for name, field in type(options).model_fields.items():
        value: object = getattr(options, name)
        if name not in but and (field.is_required() or value != field.get_default(call_default_factory=True)):
            changed[name] = _plain(value)
    return changed


def _plain(value: object) -> object:
    """Groups of options as tables, in lists too."""
    if isinstance(value, tuple):
        return [_plain(item) for item in cast("tuple[object, ...]", value)]
    return _non_defaults(value) if isinstance(value, Options) else value


def _table_lines(table: Mapping[str, object], where: str) -> list[str]:
    return [f"{_toml_key(key)} = {_to_toml(value, f'{where}.{key}'.lstrip('.'))}\n" for key, value in table.items()]


def _toml_key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _quote(key)


def _to_toml(value: object, where: str) -> str:
    match value:
        case bool() | int():
            return json.dumps(value)
        case float():
            return repr(value) if abs(value) != float("inf") and value == value else str(value)  # noqa: PLR0124 - nan
        case str():
            return _quote(value)
        case Path():
            return _quote(str(value))
        case list() | tuple():
            items = cast("Sequence[object]", value)
            return f"[{', '.join(_to_toml(item, f'{where}[{index}]') for index, item in enumerate(items))}]"
        case Mapping():
            pairs = cast("Mapping[str, object]", value)
            inner = ", ".join(f"{_toml_key(key)} = {_to_toml(item, f'{where}.{key}')}" for key, item in pairs.items())
            return f"{{ {inner} }}" if inner else "{}"
        case _:
            raise OptionsError(
                f"{where}: a value of type {type(value).__name__} cannot be written as TOML",
                hint="Leave it out, or keep the configuration as JSON or YAML.",
            )


def _quote(text: str) -> str:
    """A text in quotes. JSON's escapes are TOML's, but for pairs of surrogates and for DEL, so neither is written."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise OptionsError("a text holds half a character and cannot be written as TOML") from None
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
