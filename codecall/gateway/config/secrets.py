"""Replaces literal secrets in the options of servers by references; and the secrets that a program was given."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Final, cast
from urllib.parse import unquote, unquote_plus, urlsplit

from codecall.gateway.config.names import find_started_program
from codecall.gateway.config.options import AnyServer, GatewayOptions, HttpServer, OpenApiServer, StdioServer
from codecall.gateway.config.secret_detection import AUTHORIZATION_HEADERS, SCHEME, is_secret, is_secret_setting

_FLAG: Final = re.compile(r"-{1,2}([A-Za-z][\w-]*)")
_ASSIGNED: Final = re.compile(
    r"(?P<head>(?:-e=?|--env=)?-{0,2}(?P<key>[A-Za-z_][\w-]*)(?:=|:(?!//))\s*)(?P<value>.+)", re.DOTALL
)
_PATH_KEY: Final = re.compile(r"https?://[^/]+/(?:.*/)?[A-Za-z0-9_-]{24,}(?:[/?]|$)")
"""URLs in which services put a key as part of the path."""

_URL_SECRETS: Final = re.compile(
    r"(?P<head>^[\w+.-]+://[^/@:?#]*:(?=[^/@?#]+@)|[?&;](?P<key>[^=&;#]+)=)(?P<value>(?(key)[^&;#]+|[^@]+))"
)
"""The password of a URL, and each value of its query."""

_NO_PASSWORD: Final = re.compile(r"[\d.:\-]+(?:/\w+)?|[~.]?[/\\].*|[A-Za-z]:[/\\].*|.*[/\\].*", re.DOTALL)
"""Values of `-p` that are no password: ports, versions, paths, packages of a scope."""
_MIN_CREDENTIAL_CHARS: Final = 4
"""Least number of characters of a credential that is looked for in what a program writes."""


def replace_secrets(options: GatewayOptions) -> tuple[GatewayOptions, tuple[str, ...]]:
    """Replace every literal secret of a server, of `serve.auth`, `codecall` and `rate_limits` by a reference.

    Returns:
        The options, and for each secret a note that says which environment variable to set.
    """
    replacer = _SecretReplacer()
    servers = {name: _replace_in_server(name, server, replacer) for name, server in options.servers.items()}
    changes: dict[str, object] = {"servers": servers}
    for field in ("codecall", "rate_limits"):
        value: Mapping[str, object] | None = getattr(options, field)
        if value is not None:
            changes[field] = replacer.nested(value, field)
    if options.serve.auth is not None:
        auth = replacer.nested(options.serve.auth, "serve.auth")
        changes["serve"] = options.serve.model_copy(update={"auth": auth})
    return options.model_copy(update=changes), tuple(replacer.notes)


def find_credentials(server: StdioServer) -> frozenset[str]:
    """Find the values that a program was given and that must not show in what it writes: those of its environment,
    arguments that look like secrets, and the parts of these that a program would take apart.

    Args:
        server: with its references replaced.
    """
    replacer = _SecretReplacer()
    _replace_in_server("server", server, replacer)
    parts = {unquote(secret) for secret in replacer.secrets if "://" not in secret}
    for value in (*server.env.values(), *replacer.secrets):
        scheme = SCHEME.match(value)
        parts |= {value, *value.splitlines(), value[len(scheme[0]) :] if scheme else ""}
        parts.update(_url_parts(value) if "://" in value else _json_parts(value))
    return frozenset(each for part in parts if len(each := part.strip()) >= _MIN_CREDENTIAL_CHARS)


def _json_parts(text: str) -> list[str]:
    """The strings that are values in a JSON text, such as headers; also without `Bearer` and the like."""
    try:
        waiting: list[object] = [json.loads(text)] if text.lstrip().startswith(("{", "[")) else []
    except (ValueError, RecursionError):
        return []
    parts: list[str] = []
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            parts += [value, SCHEME.sub("", value, count=1)]
        elif isinstance(value, list):
            waiting += cast("list[object]", value)
        elif isinstance(value, dict):
            waiting += cast("dict[str, object]", value).values()
    return parts


def _url_parts(url: str) -> list[str]:
    """The password of a URL and the values of its query, encoded and decoded."""
    try:
        split = urlsplit(url)
        password = split.password or ""
    except ValueError:
        return []
    values = [pair.partition("=")[2] for pair in split.query.split("&")]
    return [each for value in (password, *values) for each in (value, unquote(value))]


class _SecretReplacer:
    """Gives each secret an environment variable, and notes which."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self._values: dict[str, str] = {}

    @property
    def secrets(self) -> tuple[str, ...]:
        """The secrets that were replaced."""
        return tuple(self._values.values())

    def reference(self, secret: str, name: str, prefix: str, where: str) -> str:
        """`${NAME}` for `secret`. A name that is taken by another secret gets the prefix, then a number."""
        plain = _variable_name(name)
        number = 2
        own = _variable_name(prefix)
        options = [plain] if plain.startswith(f"{own}_") else [plain, f"{own}_{plain}"]
        while (parts := next((each for each in options if self._values.get(each, secret) == secret), None)) is None:
            options.append(f"{plain}_{number}")
            number += 1
        self._values[parts] = secret
        self.notes.append(f"{where}: looks like a secret and was not copied: set the environment variable {parts}")
        return f"${{{parts}}}"

    def nested(self, values: Mapping[str, object], where: str) -> dict[str, object]:
        """Replace secrets in nested options, by the names of their keys."""
        return {key: self._walk(value, f"{where}.{key}", key) for key, value in values.items()}

    def _walk(self, value: object, place: str, key: str) -> object:
        match value:
            case str():
                return self.reference(value, place, "CODECALL", place) if is_secret(key, value) else value
            case list() | tuple():
                items = cast("Sequence[object]", value)
                return [self._walk(item, f"{place}[{index}]", key) for index, item in enumerate(items)]
            case Mapping():
                return self.nested(cast("Mapping[str, object]", value), place)
            case _:
                return value


class _ServerSecrets:
    """Replaces the secrets of one server, whose name the variables get as a prefix."""

    def __init__(self, name: str, replacer: _SecretReplacer) -> None:
        self.name = name
        self._replacing = replacer

    def text(self, key: str, value: str, field: str, variable_name: str) -> str:
        """`value`, or a reference in its place; `Bearer` and the like before it stay."""
        if not is_secret_setting(key, value):
            return value
        scheme = SCHEME.match(value)
        head = scheme[0] if scheme else ""
        return head + self._replacing.reference(
            value[len(head) :], variable_name, self.name, f"servers.{self.name}.{field}"
        )

    def headers(self, headers: Mapping[str, str]) -> dict[str, str]:
        """Replace secrets in headers; the one that signs in gives `<SERVER>_TOKEN`."""
        return {
            key: self.text(
                key, value, f"headers.{key}", f"{self.name}_{'token' if key.lower() in AUTHORIZATION_HEADERS else key}"
            )
            for key, value in headers.items()
        }

    def url(self, field: str, value: str | None, variable_name: str) -> str | None:
        """Replace the password of a URL and the secrets in its query. With a secret elsewhere in it, none of its parts
        can be trusted: it is replaced as a whole."""
        if value is None or not _has_secret(field, value):
            return value
        where = f"servers.{self.name}.{field}"
        if _has_secret(field, _URL_SECRETS.sub(lambda part: part["head"] if _is_secret_part(part) else part[0], value)):
            return self._replacing.reference(value, f"{self.name}_{variable_name}", self.name, where)

        def replaced(part: re.Match[str]) -> str:
            if not _is_secret_part(part):
                return part[0]
            name = f"{self.name}_{part['key'] or 'password'}"
            return part["head"] + self._replacing.reference(part["value"], name, self.name, where)

        return _URL_SECRETS.sub(replaced, value)

    def arguments(self, command: str, args: Sequence[str]) -> tuple[str, ...]:
        """Replace secrets in arguments: `--api-key SECRET`, `--api-key=SECRET`, `-e API_KEY=SECRET`, `Authorization:
        Bearer SECRET`, and URLs with a secret in them."""
        replaced: list[str] = []
        flag = ""
        # Before the word that is started, `-p` is the launcher's.
        started = find_started_program(command, args)
        own = args.index(started) if started in args else -1
        for index, arg in enumerate(args):
            field = f"args[{index}]"
            assigned = _ASSIGNED.fullmatch(arg)
            if assigned is not None and is_secret_setting(key := assigned["key"], assigned["value"]):
                variable_name = "token" if key.lower() in AUTHORIZATION_HEADERS else key
                text = assigned["head"] + self.text(key, assigned["value"], field, f"{self.name}_{variable_name}")
            elif flag == "p" and index > own and not arg.startswith("-") and not _NO_PASSWORD.fullmatch(arg):
                text = self.text("password", arg, field, f"{self.name}_password")
            elif flag and not arg.startswith("-") and is_secret_setting(flag, arg):
                text = self.text(flag, arg, field, f"{self.name}_{flag}")
            elif "://" in arg:
                text = self.url(field, arg, f"argument_{index}") or arg
            else:
                text = self.text(f"argument_{index}", arg, field, f"{self.name}_argument_{index}")
            replaced.append(text)
            flag = parts[1] if (parts := _FLAG.fullmatch(arg)) else ""
        return tuple(replaced)


def _has_secret(field: str, url: str) -> bool:
    return "://" in url and (is_secret_setting(field, url) or _PATH_KEY.match(url) is not None)


def _is_secret_part(part: re.Match[str]) -> bool:
    value = unquote_plus(part["value"])
    return is_secret_setting("password" if part["key"] is None else unquote_plus(part["key"]), value)


def _variable_name(name: str) -> str:
    plain = re.sub(r"\W+|-", "_", name).strip("_").upper()
    return plain if plain[:1].isalpha() else f"SECRET_{plain}"


def _replace_in_server(name: str, server: AnyServer, replacer: _SecretReplacer) -> AnyServer:
    own = _ServerSecrets(name, replacer)
    match server:
        case StdioServer():
            env = {key: own.text(key, value, f"env.{key}", key) for key, value in server.env.items()}
            changes: dict[str, object] = {"env": env, "args": own.arguments(server.command, server.args)}
        case HttpServer():
            auth = server.auth if server.auth is None else own.text("token", server.auth, "auth", f"{name}_token")
            changes = {"url": own.url("url", server.url, "url"), "headers": own.headers(server.headers), "auth": auth}
        case OpenApiServer():
            changes = {
                "openapi": own.url("openapi", server.openapi, "openapi"),
                "base_url": own.url("base_url", server.base_url, "base_url"),
                "headers": own.headers(server.headers),
            }
    return server.model_copy(update=changes)
