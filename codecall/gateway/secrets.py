"""Literal secrets in the options of servers: found by the judgement of `masking`, replaced by references."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, cast

from codecall.gateway.options import AnyServer, GatewayOptions, HttpServer, OpenApiServer, StdioServer
from codecall.gateway.references import REFERENCE
from codecall.masking import Masker

_SCHEME: Final = re.compile(r"(?:bearer|basic|token|apikey|api-key)\s+", re.IGNORECASE)
_FLAG: Final = re.compile(r"-{1,2}([A-Za-z][\w-]*)")
_ASSIGNED: Final = re.compile(r"(?P<head>-{0,2}(?P<key>[A-Za-z][\w-]*)[=:]\s*)(?P<value>.+)", re.DOTALL)
_AUTHORIZED: Final = frozenset({"authorization", "proxy-authorization", "cookie", "x-auth"})
_PATH_KEY: Final = re.compile(r"https?://[^/]+/(?:.*/)?[A-Za-z0-9_-]{24,}(?:[/?]|$)")
"""URLs in which services put a key as part of the path."""


def without_secrets(options: GatewayOptions) -> tuple[GatewayOptions, tuple[str, ...]]:
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


class _Replacing:
    """Gives each secret an environment variable."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self._values: dict[str, str] = {}

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
        if not is_secret(key, value):
            return value
        scheme = _SCHEME.match(value)
        head = scheme[0] if scheme else ""
        return head + self._replacing.reference(value[len(head) :], called, self.name, f"servers.{self.name}.{field}")

    def headers(self, headers: Mapping[str, str]) -> dict[str, str]:
        """Headers; the one that signs in gives `<SERVER>_TOKEN`."""
        return {
            key: self.text(
                key, value, f"headers.{key}", f"{self.name}_{'token' if key.lower() in _AUTHORIZED else key}"
            )
            for key, value in headers.items()
        }

    def url(self, field: str, value: str | None, called: str) -> str | None:
        """A URL, whole: with a secret in it none of its parts can be trusted."""
        if value is None or "://" not in value or not (is_secret(field, value) or _PATH_KEY.match(value)):
            return value
        where = f"servers.{self.name}.{field}"
        return self._replacing.reference(value, f"{self.name}_{called}", self.name, where)

    def arguments(self, args: Sequence[str]) -> tuple[str, ...]:
        """`--api-key SECRET`, `--api-key=SECRET`, `Authorization: Bearer SECRET`, and URLs with a secret in them."""
        done: list[str] = []
        flag = ""
        for index, arg in enumerate(args):
            field = f"args[{index}]"
            assigned = None if "://" in arg else _ASSIGNED.fullmatch(arg)
            if assigned is not None and is_secret(key := assigned["key"], assigned["value"]):
                called = "token" if key.lower() in _AUTHORIZED else key
                text = assigned["head"] + self.text(key, assigned["value"], field, f"{self.name}_{called}")
            elif flag and not arg.startswith("-") and is_secret(flag, arg):
                text = self.text(flag, arg, field, f"{self.name}_{flag}")
            elif "://" in arg:
                text = self.url(field, arg, f"argument_{index}") or arg
            else:
                text = self.text(f"argument_{index}", arg, field, f"{self.name}_argument_{index}")
            done.append(text)
            flag = found[1] if (found := _FLAG.fullmatch(arg)) else ""
        return tuple(done)


def is_secret(name: str, value: str) -> bool:
    """Whether a literal `value` under `name` is to be kept out of files: by the name, or by how it looks. What is only
    references is none; their defaults count as literal."""
    literal = REFERENCE.sub(lambda found: "" if found["escaped"] else found["default"] or "", value)
    literal = _SCHEME.sub("", literal + " ").strip()
    if not literal or literal.lower() in ("bearer", "basic", "token"):
        return False
    if literal.lower() in ("true", "false", "0", "1", "none", "oauth") or literal.isdecimal():
        return False
    places: list[str] = []
    Masker().mask({name: literal}, "", places)
    return bool(places) or name.lower() in _AUTHORIZED


def _variable(name: str) -> str:
    plain = re.sub(r"\W+|-", "_", name).strip("_").upper()
    return plain if plain[:1].isalpha() else f"SECRET_{plain}"


def _of_server(name: str, server: AnyServer, replacing: _Replacing) -> AnyServer:
    own = _OfServer(name, replacing)
    match server:
        case StdioServer():
            env = {key: own.text(key, value, f"env.{key}", key) for key, value in server.env.items()}
            changes: dict[str, object] = {"env": env, "args": own.arguments(server.args)}
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
