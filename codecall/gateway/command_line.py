"""Servers and access rules as words of the command line."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from codecall.errors import OptionsError
from codecall.gateway.documents import SUFFIXES
from codecall.gateway.naming import fitted, name_of_command, name_of_url
from codecall.gateway.options import (
    AccessOptions,
    AnyServer,
    GatewayOptions,
    HttpServer,
    OpenApiServer,
    StdioServer,
)
from codecall.gateway.reading import Configuration

_NAMED: Final = re.compile(r"(?P<name>(?=[^=]*[a-z])[A-Za-z][A-Za-z0-9_-]{0,63})=(?P<rest>.+)", re.DOTALL)
"""`name=server`. Without a small letter it is a variable for the program, as a shell takes it."""
_VARIABLE: Final = re.compile(r"(?P<name>[A-Z_][A-Z0-9_]*)=(?P<value>.*)", re.DOTALL)
_URL: Final = re.compile(r"https?://", re.IGNORECASE)
_SCRIPTS: Final = {".py": (sys.executable,), ".js": ("node",), ".mjs": ("node",), ".cjs": ("node",)}


def servers_from(words: Iterable[str]) -> Configuration:
    """The servers that words name, each with or without `name=` before it:

        https://mcp.example.com/mcp                a URL
        "uvx mcp-server-git --repository ."        a command
        "TOKEN=${TOKEN} uvx mcp-server-github"     a command with environment variables
        server.py, server.js                       a file that Python or Node runs

    Raises:
        OptionsError: a word is none of these, or two servers have one name.
    """
    servers: dict[str, AnyServer] = {}
    for word in words:
        named = _NAMED.fullmatch(word)
        text = named["rest"] if named else word
        server, name = _server_of(text.strip(), named["name"] if named else None)
        _add(servers, named["name"] if named else name, server)
    return Configuration(GatewayOptions(servers=servers))


def openapi_servers(words: Iterable[str]) -> Configuration:
    """The REST APIs of OpenAPI documents: paths or URLs, each with or without `name=` before it.

    Raises:
        OptionsError: a file does not exist, or two have one name.
    """
    servers: dict[str, AnyServer] = {}
    for word in words:
        named = _NAMED.fullmatch(word) if not _URL.match(word) else None
        document = named["rest"] if named else word
        if _URL.match(document):
            name = name_of_url(document)
        else:
            file = Path(document).expanduser().absolute()
            if not file.is_file():
                raise OptionsError(f"--openapi: {file} is no file")
            document, name = str(file), fitted(file.name.partition(".")[0])
        _add(servers, named["name"] if named else name, OpenApiServer(openapi=document))
    return Configuration(GatewayOptions(servers=servers))


def _add(servers: dict[str, AnyServer], name: str, server: AnyServer) -> None:
    if name in servers:
        raise OptionsError(f"two servers are called {name}", hint=f'Give one another name: {name}2="…".')
    servers[name] = server


def _server_of(text: str, name: str | None) -> tuple[AnyServer, str]:
    """The server and the name it gets if none was given. Errors quote no more than a first word."""
    if _URL.match(text):
        return HttpServer.read({"url": text}, where=name or "url", shown=False), name_of_url(text)
    file = Path(text).expanduser()
    if file.suffix.lower() in SUFFIXES and not re.search(r"\s", text):
        raise OptionsError(f"{text}: is a file of data, no server", hint="Give it with --config, or with --openapi.")
    if (runner := _SCRIPTS.get(file.suffix.lower())) and (file.is_file() or not re.search(r"\s", text)):
        if not file.is_file():
            raise OptionsError(f"{text}: there is no such file")
        server = StdioServer(command=runner[0], args=(*runner[1:], str(file.absolute())))
        plain = file.stem in ("server", "main", "index", "app")
        return server, fitted(file.absolute().parent.name if plain else file.stem)
    try:
        words = _split(text)
    except ValueError:
        raise OptionsError(f"{name or 'server'}: a quotation mark is not closed") from None
    env: dict[str, str] = {}
    while words and (variable := _VARIABLE.fullmatch(words[0])):
        env[variable["name"]] = variable["value"]
        del words[0]
    if not words:
        raise OptionsError(f"{name or 'server'}: a URL, a command or a file is needed")
    return StdioServer(command=words[0], args=tuple(words[1:]), env=env), name_of_command(words[0], words[1:])


def _split(text: str) -> list[str]:
    """The words of a command as the shell of this system would give them."""
    if os.name != "nt":
        return shlex.split(text)
    return [word[1:-1] if word[:1] == word[-1:] == '"' else word for word in shlex.split(text, posix=False)]


def with_access(
    options: GatewayOptions,
    *,
    allow: Sequence[str] = (),
    deny: Sequence[str] = (),
    read_only: bool | Sequence[str] = False,
    destructive: bool | Sequence[str] = False,
) -> GatewayOptions:
    """The options with rules of the command line added. They count for every server, or for one when they begin with
    its name and a colon (`git:git_push`; `*:` stands for all, before a tool with a colon in its name).

    Args:
        allow: Globs that stand in place of those the configuration allows.
        deny: Globs beside those the configuration denies.
        read_only: For all servers, or for those named. It is never taken back.
        destructive: Destructive tools that may be used: all, or globs.

    Raises:
        OptionsError: a rule names a server that there is not.
    """
    if not (allow or deny or read_only or destructive):
        return options
    globs = destructive if not isinstance(destructive, bool) else ()
    rules = {"allow": _sorted(options, allow), "deny": _sorted(options, deny), "destructive": _sorted(options, globs)}
    only = () if isinstance(read_only, bool) else tuple(read_only)
    for name in only:
        _known(options, name)

    def changed(access: AccessOptions, server: str | None) -> AccessOptions:
        keys = (None, server) if server is not None else (None,)
        added = {rule: tuple(glob for key in keys for glob in found.get(key, ())) for rule, found in rules.items()}
        loosened: bool | tuple[str, ...] = access.destructive
        if destructive is True:
            loosened = True
        elif added["destructive"] and loosened is not True:
            loosened = (*(loosened or ()), *added["destructive"])
        return AccessOptions(
            allow=added["allow"] or access.allow,
            deny=(*access.deny, *added["deny"]),
            read_only=access.read_only or read_only is True or server in only,
            destructive=loosened,
        )

    servers = {
        name: server.model_copy(update={"access": changed(server.access or options.access, name)})
        for name, server in options.servers.items()
    }
    return options.model_copy(update={"servers": servers, "access": changed(options.access, None)})


def _sorted(options: GatewayOptions, words: Sequence[str]) -> dict[str | None, list[str]]:
    """The globs of `words` by server; None: those of all."""
    found: dict[str | None, list[str]] = {}
    for word in words:
        server, colon, glob = word.partition(":")
        if colon and server == "*":
            found.setdefault(None, []).append(glob)
        elif colon and _known(options, server, word):
            found.setdefault(server, []).append(glob)
        else:
            found.setdefault(None, []).append(word)
    return found


def _known(options: GatewayOptions, name: str, word: str | None = None) -> bool:
    if name in options.servers:
        return True
    rule = "" if word is None else f"{word}: "
    raise OptionsError(f"{rule}there is no server {name!r:.80}; known: {', '.join(options.servers) or 'none'}")
