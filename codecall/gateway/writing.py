"""Our own TOML from options, for `codecall init`: what differs from the defaults, with comments that teach.

TOML is written here, not by a library: the values of options are texts, numbers, truth values, lists and tables, whose
TOML is nearly their JSON, and the small writers there are put no comments between them.

Secrets are not copied. What looks like one becomes a reference (`${GITHUB_TOKEN}`), and a note says what to export.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple, cast

from codecall.configuring import Options
from codecall.errors import OptionsError
from codecall.gateway.options import GatewayOptions, HttpServer, OpenApiServer, StdioServer
from codecall.gateway.secrets import without_secrets

_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")

_HEAD: Final = """\
# What `codecall serve` runs; docs/gateway.md explains every option.
# `${NAME}` stands for an environment variable, read when a server starts; `${NAME:-text}` has a default.
"""

_COMMENTS: Final[Mapping[str, str]] = {
    "access": "Which tools may be used, for servers that do not say: allow, deny, read_only, destructive.",
    "expose": "auto: CodeCall's four tools once the definitions take more than `share` of the context; always, never.",
    "serve": "How clients reach the gateway: stdio, or http with host, port, path and auth.",
    "codecall": "Options of the plugin: vm.preset, top_k, audit and the rest.",
    "rate_limits": "How often tools may be called.",
}
_SERVERS: Final = """\
# The servers behind the gateway. Each may also say: enabled, description, call_timeout_s, idle_s, per_client, and
# access = { read_only = true } or { allow = ["…"], deny = ["…"] }.
"""


class Written(NamedTuple):
    """A configuration as text."""

    text: str
    notes: tuple[str, ...]
    """The environment variables to set, as their values were not copied, and which secret each holds."""


def written(options: GatewayOptions) -> Written:
    """The options as the text of a TOML file, which `read_config` reads back as they are, but for secrets.

    Raises:
        OptionsError: an option of the plugin or of rate limits holds null, which TOML has no word for.
    """
    safe, notes = without_secrets(options)
    parts = [_HEAD, *(_lines(_changed(safe, but=("servers", *_COMMENTS)), "") or [])]
    for field, comment in _COMMENTS.items():
        value: object = getattr(safe, field)
        if value == GatewayOptions.model_fields[field].get_default(call_default_factory=True):
            continue
        table = _changed(value) if isinstance(value, Options) else cast("Mapping[str, object]", value)
        parts.append(f"\n# {comment}\n[{field}]\n" + "".join(_lines(table, field)))
    if safe.servers:
        parts.append("\n" + _SERVERS)
    for name, server in safe.servers.items():
        parts.append(f"\n[servers.{name}]\n" + "".join(_lines(_server(server), f"servers.{name}")))
    return Written("".join(parts), notes)


def _server(server: StdioServer | HttpServer | OpenApiServer) -> dict[str, object]:
    """What a server is comes first."""
    changed = _changed(server)
    first = [key for key in ("command", "args", "url", "openapi") if key in changed]
    return {key: changed[key] for key in (*first, *(key for key in changed if key not in first))}


def _changed(options: Options, but: Sequence[str] = ()) -> dict[str, object]:
    """The options that differ from their defaults."""
    changed: dict[str, object] = {}
    for name, field in type(options).model_fields.items():
        value: object = getattr(options, name)
        if name not in but and (field.is_required() or value != field.get_default(call_default_factory=True)):
            changed[name] = _changed(value) if isinstance(value, Options) else value
    return changed


def _lines(table: Mapping[str, object], where: str) -> list[str]:
    return [f"{_key(key)} = {_value(value, f'{where}.{key}'.lstrip('.'))}\n" for key, value in table.items()]


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _text(key)


def _value(value: object, where: str) -> str:
    match value:
        case bool() | int():
            return json.dumps(value)
        case float():
            return repr(value) if abs(value) != float("inf") and value == value else str(value)  # noqa: PLR0124 - nan
        case str():
            return _text(value)
        case Path():
            return _text(str(value))
        case list() | tuple():
            items = cast("Sequence[object]", value)
            return f"[{', '.join(_value(item, f'{where}[{index}]') for index, item in enumerate(items))}]"
        case Mapping():
            pairs = cast("Mapping[str, object]", value)
            inner = ", ".join(f"{_key(key)} = {_value(item, f'{where}.{key}')}" for key, item in pairs.items())
            return f"{{ {inner} }}" if inner else "{}"
        case _:
            raise OptionsError(
                f"{where}: a value of type {type(value).__name__} cannot be written as TOML",
                hint="Leave it out, or keep the configuration as JSON or YAML.",
            )


def _text(text: str) -> str:
    """A text in quotes. JSON's escapes are TOML's, but for pairs of surrogates and for DEL, so neither is written."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise OptionsError("a text holds half a character and cannot be written as TOML") from None
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
