"""Our own configuration files: every field of `GatewayOptions`, nothing unknown, paths from the file's folder."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Final, cast

from pydantic.alias_generators import to_camel, to_snake

from codecall.configuring import Options, refuse_two_spellings
from codecall.errors import OptionsError
from codecall.gateway.naming import fitted
from codecall.gateway.options import (
    AccessOptions,
    AnyServer,
    ExposeOptions,
    GatewayOptions,
    HttpServer,
    OpenApiServer,
    ServeOptions,
    StdioServer,
)
from codecall.gateway.references import ROOTED, escaped

_KINDS: Final[Mapping[str, type[StdioServer | HttpServer | OpenApiServer]]] = {
    "command": StdioServer,
    "url": HttpServer,
    "openapi": OpenApiServer,
}
_PARTS: Final[Mapping[str, type[Options]]] = {"access": AccessOptions, "expose": ExposeOptions, "serve": ServeOptions}
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")


def own_options(file: Path, data: Mapping[str, object]) -> GatewayOptions:
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
    for name, entry in cast("dict[object, object]", entries).items():
        where = f"{file}: servers.{name}"
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise OptionsError(f"{where}: is no name of a server; {fitted(str(name))} would be one")
        servers[name] = server_of(entry, where, file.parent)
    for key, part in _PARTS.items():
        if isinstance(given := values.get(key), dict):
            refuse_two_spellings(part, cast("dict[str, object]", given), f"{file}: {key}")
    for key in ("cache_dir", "cacheDir"):
        if isinstance(given := values.get(key), str):
            values[key] = _rooted(given, file.parent)
    # The prefix is a path's, so that fields of the top stand behind a colon as the others do.
    try:
        return GatewayOptions.read({**values, "servers": servers}, where="", shown=False)
    except OptionsError as failure:
        raise OptionsError(f"{file}: {failure.message}") from None


def server_of(entry: object, where: str, folder: Path) -> AnyServer:
    """One server of a file of ours. Its kind follows from the one of `command`, `url` and `openapi` that it has.

    Raises:
        OptionsError: it has none of them, or several, or something else is wrong.
    """
    if not isinstance(entry, dict):
        raise OptionsError(f"{where}: a table is needed")
    values = dict(cast("dict[str, object]", entry))
    kinds = [key for key in _KINDS if key in values]
    if len(kinds) != 1:
        found = f"{' and '.join(kinds)} are given" if kinds else "none is given"
        raise OptionsError(f"{where}: exactly one of command, url and openapi is needed, {found}{_unknown(values)}")
    model = _KINDS[kinds[0]]
    for key in ("cwd", "env_file", "envFile", "openapi"):
        if isinstance(given := values.get(key), str):
            values[key] = _rooted(given, folder)
    if isinstance(access := values.get("access"), dict):
        refuse_two_spellings(AccessOptions, cast("dict[str, object]", access), f"{where}.access")
    return model.read(values, where=where, shown=False)


def _unknown(keys: Iterable[str]) -> str:
    """The keys that no server has, and those that may be meant."""
    known = dict.fromkeys(name for model in _KINDS.values() for name in model.names())
    said = ""
    for key in keys:
        if key not in known and key not in map(to_camel, known):
            near = get_close_matches(to_snake(key), known, n=1)
            said += f"; unknown: {key}" + (f" (did you mean {near[0]}?)" if near else "")
    return said


def _rooted(path: str, folder: Path) -> str:
    return path if not path or ROOTED.match(path) else escaped(str(folder)) + f"/{path.removeprefix('./')}"
