"""Literal secrets in the options of servers: found by the judgement of `masking`, replaced by references."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Final, cast
from urllib.parse import unquote, urlsplit

from codecall.gateway.config.names import find_started_program
from codecall.gateway.config.options import AnyServer, GatewayOptions, HttpServer, OpenApiServer, StdioServer
from codecall.gateway.config.secret_detection import AUTHORIZATION_NAMES, SCHEME, is_secret, is_secret_setting

_FLAG: Final = re.compile(r"-{1,2}([A-Za-z][\w-]*)")
_ASSIGNED: Final = re.compile(
    r"(?P<head>(?:-e=?|--env=)?-{0,2}(?P<key>[A-Za-z_][\w-]*)(?:=|:(?!//))\s*)(?P<value>.+)", re.DOTALL
)
_PATH_KEY: Final = re.compile(r"https?://[^/]+/(?:.*/)?[A-Za-z0-9_-]{24,}(?:[/?]|$)")
"""URLs in which services put a key as part of the path."""

_NO_PASSWORD: Final = re.compile(r"[\d.:\-]+(?:/\w+)?|[~.]?[/\\].*|[A-Za-z]:[/\\].*|.*[/\\].*", re.DOTALL)
"""What `-p` is followed by where that is no password: ports, versions, paths, packages of a scope."""
_SHORTEST: Final = 4
"""Characters of a credential at least for it to be looked for in what a program writes."""


def replace_secrets(options: GatewayOptions) -> tuple[GatewayOptions, tuple[str, ...]]:
    """The options with a reference in place of every literal secret of a server, of `serve.auth`, `codecall` and
    `rate_limits`, and what to export for each."""
    replacing = _Replacing()
    servers = {name: _of_server(name, server, replacing) for name, server in options.servers.items()}
    changes: dict[str, object] = {"servers": servers}
    for field in ("codecall", "rate_limits"):
        value: Mapping[str, object] | None = getattr(options, field)
        if value is not None:
            changes[field] = replacing.nested(value, field)
    if options.serve.auth is not None:
        auth = replacing.nested(options.serve.auth, "serve.auth")
        changes["serve"] = options.serve.model_copy(update={"auth": auth})
    return options.model_copy(update=changes), tuple(replacing.notes)


def find_credentials(server: StdioServer) -> frozenset[str]:
    """The values that a program was given and that nobody is to read in what it writes: those of its environment,
    arguments that look like secrets, and what of them a program would take apart.

    Args:
        server: with its references replaced.
    """
    replacing = _Replacing()
    _of_server("server", server, replacing)
    found: set[str] = set()
    for value in (*server.env.values(), *replacing.secrets):
        scheme = SCHEME.match(value)
        found |= {value, *value.splitlines(), value[len(scheme[0]) :] if scheme else ""}
        found.update(_in_url(value) if "://" in value else _in_json(value))
    return frozenset(each for part in found if len(each := part.strip()) >= _SHORTEST)


def _in_json(text: str) -> list[str]:
    """The texts that are values in it, such as headers; without `Bearer` and the like, too."""
    try:
        waiting: list[object] = [json.loads(text)] if text.lstrip().startswith(("{", "[")) else []
    except (ValueError, RecursionError):
        return []
    found: list[str] = []
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            found += [value, SCHEME.sub("", value, count=1)]
        elif isinstance(value, list):
            waiting += cast("list[object]", value)
        elif isinstance(value, dict):
            waiting += cast("dict[str, object]", value).values()
    return found


def _in_url(url: str) -> list[str]:
    """Its password and the values of its query, as written and as meant."""
    try:
        split = urlsplit(url)
        password = split.password or ""
    except ValueError:
        return []
    values = [pair.partition("=")[2] for pair in split.query.split("&")]
    return [each for value in (password, *values) for each in (value, unquote(value))]


class _Replacing:
    """Gives each secret an environment variable."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self._values: dict[str, str] = {}

    @property
    def secrets(self) -> tuple[str, ...]:
        """What was replaced."""
        return tuple(self._values.values())

    def reference(self, secret: str, name: str, prefix: str, where: str) -> str:
        """`${NAME}` for `secret`. A name that is taken by another secret gets the prefix, then a number."""
        plain = _variable(name)
        number = 2
        own = _variable(prefix)
        options = [plain] if plain.startswith(f"{own}_") else [plain, f"{own}_{plain}"]
        while (found := next((each for each in options if self._values.get(each, secret) == secret), None)) is None:
            options.append(f"{plain}_{number}")
            number += 1
        self._values[found] = secret
        self.notes.append(f"{where}: looks like a secret and was not copied: set the environment variable {found}")
        return f"${{{found}}}"

    def nested(self, values: Mapping[str, object], where: str) -> dict[str, object]:
        """Options within options, by the names of their keys."""
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


class _OfServer:
    """The same for one server: knows its name."""

    def __init__(self, name: str, replacing: _Replacing) -> None:
        self.name = name
        self._replacing = replacing

    def text(self, key: str, value: str, field: str, called: str) -> str:
        """`value`, or a reference in its place; `Bearer` and the like before it stay."""
        if not is_secret_setting(key, value):
            return value
        scheme = SCHEME.match(value)
        head = scheme[0] if scheme else ""
        return head + self._replacing.reference(value[len(head) :], called, self.name, f"servers.{self.name}.{field}")

    def headers(self, headers: Mapping[str, str]) -> dict[str, str]:
        """Headers; the one that signs in gives `<SERVER>_TOKEN`."""
        return {
            key: self.text(
                key, value, f"headers.{key}", f"{self.name}_{'token' if key.lower() in AUTHORIZATION_NAMES else key}"
            )
            for key, value in headers.items()
        }

    def url(self, field: str, value: str | None, called: str) -> str | None:
        """A URL, whole: with a secret in it none of its parts can be trusted."""
        if value is None or "://" not in value or not (is_secret_setting(field, value) or _PATH_KEY.match(value)):
            return value
        where = f"servers.{self.name}.{field}"
        return self._replacing.reference(value, f"{self.name}_{called}", self.name, where)

    def arguments(self, command: str, args: Sequence[str]) -> tuple[str, ...]:
        """`--api-key SECRET`, `--api-key=SECRET`, `-e API_KEY=SECRET`, `Authorization: Bearer SECRET`, and URLs with a
        secret in them."""
        done: list[str] = []
        flag = ""
        # Before the word that is started, `-p` is the launcher's.
        started = find_started_program(command, args)
        own = args.index(started) if started in args else -1
        for index, arg in enumerate(args):
            field = f"args[{index}]"
            assigned = _ASSIGNED.fullmatch(arg)
            if assigned is not None and is_secret_setting(key := assigned["key"], assigned["value"]):
                called = "token" if key.lower() in AUTHORIZATION_NAMES else key
                text = assigned["head"] + self.text(key, assigned["value"], field, f"{self.name}_{called}")
            elif flag == "p" and index > own and not arg.startswith("-") and not _NO_PASSWORD.fullmatch(arg):
                text = self.text("password", arg, field, f"{self.name}_password")
            elif flag and not arg.startswith("-") and is_secret_setting(flag, arg):
                text = self.text(flag, arg, field, f"{self.name}_{flag}")
            elif "://" in arg:
                text = self.url(field, arg, f"argument_{index}") or arg
            else:
                text = self.text(f"argument_{index}", arg, field, f"{self.name}_argument_{index}")
            done.append(text)
            flag = found[1] if (found := _FLAG.fullmatch(arg)) else ""
        return tuple(done)


def _variable(name: str) -> str:
    plain = re.sub(r"\W+|-", "_", name).strip("_").upper()
    return plain if plain[:1].isalpha() else f"SECRET_{plain}"


def _of_server(name: str, server: AnyServer, replacing: _Replacing) -> AnyServer:
    own = _OfServer(name, replacing)
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
