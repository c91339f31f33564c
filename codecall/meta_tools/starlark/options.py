"""The option `tool_files` of `CodeCallPlugin.init`: tools as files, and what code may call without a person."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Final, Literal, TypeAlias, TypedDict, cast

from pydantic import Field
from pydantic.alias_generators import to_snake

from codecall.errors import OptionsError
from codecall.option_base import DURATION, Options

LIST_FILES: Final = "listToolFiles"
READ_FILE: Final = "readToolFile"
GET_DOCS: Final = "getToolDocs"
EXECUTE_CODE: Final = "executeToolCode"
TOOL_FILE_NAMES: Final = frozenset({LIST_FILES, READ_FILE, GET_DOCS, EXECUTE_CODE})
"""The names of the meta-tools of `tool_files`."""

Globs = Annotated[tuple[Annotated[str, Field(min_length=1, max_length=256)], ...], Field(strict=False)]
"""A list or tuple of names and globs."""


class ToolFileServer(Options):
    """What code may call of one server. Tools are named as the server itself names them."""

    name: str = Field(min_length=1, max_length=256)
    """The server: the namespace that it is mounted under, else its name."""
    tools_to_execute: Globs = ("*",)
    """Names or globs of the tools that code may call; the others are in no file, either."""
    tools_to_auto_execute: Globs | None = None
    """Names or globs of the tools that code may call without a person. Where any server has such a list, code that
    calls anything else is handed to a person (`approvals`), or refused. None: no list of its own."""
    code_mode: bool = True
    """Whether its tools are in files at all; also as `is_code_mode_client`."""


class ToolFilesOptions(Options):
    """Tools as `.pyi` files: `listToolFiles`, `readToolFile`, `getToolDocs`, `executeToolCode`."""

    binding_level: Literal["server", "tool"] = "server"
    """`server`: one file for each server; `tool`: one for each tool. Also as `code_mode_binding_level`."""
    tool_execution_timeout: str = Field(default="30s", pattern=f"^{DURATION}$", max_length=64)
    """How long one call may take: `30s`, `1m30s`, `500ms`."""
    servers: Annotated[tuple[ToolFileServer, ...], Field(strict=False, max_length=1_000)] = ()
    """Servers of which code may not call everything: a list, or a mapping by name."""


_OTHER_NAMES: Final = {"code_mode_binding_level": "binding_level"}
_OTHER_SERVER_NAMES: Final = {"is_code_mode_client": "code_mode"}


def read_tool_files(value: object) -> object:
    """Expands the forms of `tool_files`: a bool, servers by name, and the names that Bifrost has for options.

    Raises:
        OptionsError: an option is given under two names, or a server twice.
    """
    if isinstance(value, bool):
        return ToolFilesOptions() if value else None
    if not isinstance(value, Mapping):
        return value
    options = _renamed(cast("Mapping[str, object]", value), _OTHER_NAMES, "tool_files")
    servers = options.get("servers")
    if isinstance(servers, Mapping):
        named = cast("Mapping[str, object]", servers)
        servers = [{"name": name, **_table(entry, name)} for name, entry in named.items()]
    if not isinstance(servers, (list, tuple)):
        return options
    read: list[object] = []
    names: set[object] = set()
    for entry in cast("Sequence[object]", servers):
        if isinstance(entry, Mapping):
            named = _renamed(cast("Mapping[str, object]", entry), _OTHER_SERVER_NAMES, "tool_files.servers")
            if isinstance(name := named.get("name"), str) and name in names:
                raise OptionsError(f"tool_files.servers: {name!r:.80} is given twice")
            names.add(str(name))
            read.append(named)
        else:
            read.append(entry)
    return {**options, "servers": tuple(read)}


def _table(entry: object, name: str) -> Mapping[str, object]:
    if not isinstance(entry, Mapping):
        raise OptionsError(f"tool_files.servers.{name:.80}: a mapping is needed, got {type(entry).__name__}")
    return cast("Mapping[str, object]", entry)


def _renamed(values: Mapping[str, object], names: Mapping[str, str], where: str) -> dict[str, object]:
    renamed: dict[str, object] = {}
    for key, value in values.items():
        name = names.get(to_snake(key), to_snake(key))
        if name in renamed:
            raise OptionsError(f"{where}.{name}: given twice")
        renamed[name] = value
    return renamed


class ToolFileServerDict(TypedDict, total=False):
    """A server of `tool_files`. See `codecall.meta_tools.starlark.options.ToolFileServer`."""

    name: str
    tools_to_execute: Sequence[str]
    tools_to_auto_execute: Sequence[str] | None
    code_mode: bool


class ToolFilesDict(TypedDict, total=False):
    """`tool_files`: tools as files. See `codecall.meta_tools.starlark.options.ToolFilesOptions`."""

    binding_level: Literal["server", "tool"]
    tool_execution_timeout: str
    servers: Sequence[ToolFileServerDict] | Mapping[str, ToolFileServerDict]


ToolFiles: TypeAlias = bool | ToolFilesDict | Mapping[str, object] | ToolFilesOptions | None
"""The forms of the option `tool_files`."""
