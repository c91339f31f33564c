"""Servers and access rules as words of the command line."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Collection, Iterable, Sequence
from itertools import count
from pathlib import Path
from typing import Final, Literal, NamedTuple

from codecall.errors import OptionsError
from codecall.gateway.config.codecall_toml import parse_own_options
from codecall.gateway.config.mcp_clients import (
    TITLES,
    Client,
    Scope,
    client_files,
    existing_client_files,
    parse_client,
)
from codecall.gateway.config.mcp_layers import ConfigLayer, find_layers
from codecall.gateway.config.mcp_servers import EntryContext, translate_entry
from codecall.gateway.config.names import fit_name, name_from_command, name_from_url
from codecall.gateway.config.options import (
    AccessOptions,
    AnyServer,
    GatewayOptions,
    HttpServer,
    OpenApiServer,
    StdioServer,
)
from codecall.gateway.config.variables import input_variable
from codecall.jsonio.documents import SUFFIXES, read_document


class Configuration(NamedTuple):
    """What was loaded."""

    options: GatewayOptions
    files: tuple[Path, ...] = ()
    """Every file that was read or, of a client, looked for."""
    notes: tuple[str, ...] = ()
    """What a person should know: what was left out, renamed, or must be set. For standard error."""
    found: Path | None = None
    """The file, if it was found where configurations are looked for, rather than named."""


def read_config(path: str | os.PathLike[str], *, folder: Path | None = None, discovered: bool = False) -> Configuration:
    """Read the configuration in a file; its format is recognised by its content.

    Args:
        folder: the project whose servers count in a file that has some for each project; None: the working directory.
        discovered: whether the file was found rather than named; then nobody else may be able to write to it.

    Raises:
        OptionsError: it cannot be read, is malformed, or holds what it must not. Names the file and the field, and
            shows no value.
    """
    file = Path(path).expanduser().absolute()
    data = read_document(file, discovered=discovered)
    layers = find_layers(file, data, folder or Path.cwd())
    if layers is None:
        return Configuration(parse_own_options(file, data), (file,))
    return _combine(layers, (file,))


def read_client(client: Client | str, *, folder: Path | None = None) -> Configuration:
    """Read the servers of a client (`claude-desktop`, `claude-code`, `cursor`, `vscode`), from all files in which it
    keeps some. Of two with one name the nearer counts: the project's before the user's.

    Raises:
        OptionsError: there is none of its files, or one cannot be used, or is one that somebody else may write to.
    """
    name = parse_client(client)
    candidates = [place.path for place in client_files(name, folder=folder)]
    files = existing_client_files(name, folder=folder)
    if name in ("claude-desktop", "vscode"):
        # Files of several installations: what is found first is what the client reads, beside the project's.
        users = [
            place.path for place in client_files(name, folder=folder) if place.scope == "user" and place.path in files
        ]
        files = [file for file in files if file not in users[1:]]
    if not files:
        looked = ", ".join(map(str, candidates))
        raise OptionsError(f"no configuration of {TITLES[name]} was found; looked for {looked}")
    layers: list[ConfigLayer] = []
    for file in files:
        file_layers = find_layers(file, read_document(file, discovered=True), folder or Path.cwd())
        if file_layers is None:
            raise OptionsError(f"{file}: holds no servers in the form of {TITLES[name]}")
        layers.extend(file_layers)
    return _combine(layers, candidates)


def scope_of_servers(client: Client | str, *, folder: Path | None = None) -> Scope:
    """Whose file of a client has servers, the gateway included: the project's, if no other has, else the user's."""
    scopes: set[Scope] = set()
    for file in existing_client_files(parse_client(client), folder=folder):
        try:
            layers = find_layers(file, read_document(file, discovered=True), folder or Path.cwd())
        except OptionsError:
            continue  # reading the client says so
        scopes.update(layer.scope for layer in layers or () if layer.servers)
    return "project" if scopes == {"project"} else "user"


def _combine(layers: Iterable[ConfigLayer], files: Sequence[Path]) -> Configuration:
    """Combine several sets of servers of one client; of two with one name the nearer counts."""
    ordered = sorted(layers, key=lambda layer: layer.rank)
    off = {name for layer in ordered for name in layer.disabled}
    off_in_project = {name for layer in ordered for name in layer.disabled_in_project}
    servers: dict[str, AnyServer] = {}
    origins: dict[str, tuple[str, str]] = {}
    seen: dict[str, str] = {}
    notes: list[str] = []
    for layer in ordered:
        if layer.unused:
            notes.append(f"{layer.where}: not used here: {', '.join(layer.unused)}")
        for name, entry in layer.servers.items():
            fitted_name = fit_name(name)
            where = f"{layer.where}: {name}"
            if name in seen:
                notes.append(f"{where}: left out, {seen[name]} has one of that name, which counts more")
                continue
            reason = ""
            if fitted_name in origins:
                other, place = origins[fitted_name]
                reason = f": {other} in {place} is {fitted_name}"
                fitted_name = unique_name(fitted_name, origins)
            origins[fitted_name], seen[name] = (name, layer.where), layer.where
            translated = translate_entry(entry, EntryContext(where, layer.folder, layer.inputs))
            notes.extend(f"{where}: {note}" for note in translated.notes)
            notes.extend(_input_notes(where, translated.inputs))
            if translated.server is None:
                continue
            if fitted_name != name:
                notes.append(f"{where}: is called {fitted_name} here{reason}")
            disabled = name in off or (layer.scope == "project" and name in off_in_project)
            servers[fitted_name] = (
                translated.server.model_copy(update={"enabled": False}) if disabled else translated.server
            )
    return Configuration(GatewayOptions(servers=servers), tuple(files), tuple(notes))


def unique_name(name: str, taken: Collection[str]) -> str:
    """`name`, or the first of `name_2`, `name_3` … that is free."""
    if name not in taken:
        return name
    return next(free for number in count(2) if (free := f"{name[:56]}_{number}") not in taken)


def _input_notes(where: str, inputs: Iterable[str]) -> Iterable[str]:
    for identity in inputs:
        variable = input_variable(identity)
        if variable not in os.environ:
            yield f"{where}: asks for {identity}: set the environment variable {variable}"


def merge_configurations(sources: Sequence[Configuration]) -> Configuration:
    """Merge configurations: the servers of all, and every other option from the one that sets it.

    Raises:
        OptionsError: two have a server of the same name, or set the same option otherwise. Names both sources.
    """
    servers: dict[str, AnyServer] = {}
    values: dict[str, object] = {}
    origins: dict[str, str] = {}

    def claim(key: str, origin: str, *, same: bool = False) -> None:
        if key in origins and not same:
            raise OptionsError(f"{key} is given twice: by {origins[key]} and by {origin}")
        origins.setdefault(key, origin)

    for source in sources:
        origin = ", ".join(str(file) for file in source.files if file.exists()) or "the command line"
        for name, server in source.options.servers.items():
            claim(f"servers.{name}", origin)
            servers[name] = server
        for field in source.options.model_fields_set - {"servers"}:
            value: object = getattr(source.options, field)
            claim(field, origin, same=field in values and values[field] == value)
            values[field] = value
    files = tuple(dict.fromkeys(file for source in sources for file in source.files))
    notes = tuple(note for source in sources for note in source.notes)
    options = GatewayOptions.read({**values, "servers": servers}, where="", show_values=False)
    return Configuration(options.read_from(origins), files, notes)


_NAMED: Final = re.compile(r"(?P<name>(?=[^=]*[a-z])[A-Za-z][A-Za-z0-9_-]{0,63})=(?P<rest>.+)", re.DOTALL)
"""`name=server`. Without a small letter it is a variable for the program, as a shell takes it."""
_VARIABLE: Final = re.compile(r"(?P<name>[A-Z_][A-Z0-9_]*)=(?P<value>.*)", re.DOTALL)
_URL: Final = re.compile(r"https?://", re.IGNORECASE)
_DOCUMENT_URL: Final = re.compile(
    r"https?://[^/?#]+/[^?#]*(?:openapi|swagger)\.(?:json|ya?ml)(?:[?#]|$)", re.IGNORECASE
)
"""The URL of an OpenAPI document, as frameworks name it."""
_SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]*://(?=\S+$)", re.IGNORECASE)
_SCRIPTS: Final = {".py": (sys.executable,), ".js": ("node",), ".mjs": ("node",), ".cjs": ("node",)}


def parse_servers(words: Iterable[str]) -> Configuration:
    """Parse words of the command line that name servers, each with or without `name=` before it:

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
        server, name = _parse_server(text.strip(), named["name"] if named else None)
        _add_server(servers, named["name"] if named else name, server)
    return Configuration(GatewayOptions(servers=servers))


def parse_openapi_servers(words: Iterable[str]) -> Configuration:
    """Parse words that name OpenAPI documents of REST APIs: paths or URLs, each with or without `name=` before it.

    Raises:
        OptionsError: a file does not exist, or two have one name.
    """
    servers: dict[str, AnyServer] = {}
    for word in words:
        named = _NAMED.fullmatch(word) if not _URL.match(word) else None
        document = named["rest"] if named else word
        if _URL.match(document):
            name = name_from_url(document)
        else:
            file = Path(document).expanduser().absolute()
            if not file.is_file():
                raise OptionsError(f"--openapi: {file} is no file")
            document, name = str(file), fit_name(file.name.partition(".")[0])
        _add_server(servers, named["name"] if named else name, OpenApiServer(openapi=document))
    return Configuration(GatewayOptions(servers=servers))


def _add_server(servers: dict[str, AnyServer], name: str, server: AnyServer) -> None:
    if name in servers:
        raise OptionsError(f"two servers are called {name}", hint=f'Give one another name: {name}2="…".')
    servers[name] = server


def _parse_server(text: str, name: str | None) -> tuple[AnyServer, str]:
    """Parse one word into a server, and the name it gets if none was given. Errors quote no more than the first
    word."""
    if _URL.match(text):
        if _DOCUMENT_URL.match(text):
            # A server of MCP is never at such a path, and the mistake would only show when it is started.
            raise OptionsError(
                f"{name or 'url'}: the URL is that of an OpenAPI document, and not of an MCP server",
                hint="Give it with --openapi, which makes a server of the REST API.",
            )
        return HttpServer.read({"url": text}, where=name or "url", show_values=False), name_from_url(text)
    if (scheme := _SCHEME.match(text)) is not None:
        raise OptionsError(f"a server is reached at http:// or https://, not at {scheme[0]}")
    file = Path(text).expanduser()
    if file.suffix.lower() in SUFFIXES and not re.search(r"\s", text):
        raise OptionsError(f"{text}: is a file of data, no server", hint="Give it with --config, or with --openapi.")
    if (runner := _SCRIPTS.get(file.suffix.lower())) and (file.is_file() or not re.search(r"\s", text)):
        if not file.is_file():
            raise OptionsError(f"{text}: there is no such file")
        server = StdioServer(command=runner[0], args=(*runner[1:], str(file.absolute())))
        plain = file.stem in ("server", "main", "index", "app")
        return server, fit_name(file.absolute().parent.name if plain else file.stem)
    try:
        words = _split_command(text)
    except ValueError:
        raise OptionsError(f"{name or 'server'}: a quotation mark is not closed") from None
    env: dict[str, str] = {}
    while words and (variable := _VARIABLE.fullmatch(words[0])):
        env[variable["name"]] = variable["value"]
        del words[0]
    if not words:
        raise OptionsError(f"{name or 'server'}: a URL, a command or a file is needed")
    return StdioServer(command=words[0], args=tuple(words[1:]), env=env), name_from_command(words[0], words[1:])


def _split_command(text: str) -> list[str]:
    """Split a command as the shell of this system would."""
    if os.name != "nt":
        return shlex.split(text)
    return [word[1:-1] if word[:1] == word[-1:] == '"' else word for word in shlex.split(text, posix=False)]


def add_access_rules(
    options: GatewayOptions,
    *,
    allow: Sequence[str] = (),
    deny: Sequence[str] = (),
    read_only: bool | Sequence[str] = False,
    destructive: bool | Sequence[str] = False,
) -> GatewayOptions:
    """Add rules of the command line to the options. They count for every server, or for one when they begin with
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
    rules = {
        "allow": _group_by_server(options, allow),
        "deny": _group_by_server(options, deny),
        "destructive": _group_by_server(options, globs),
    }
    only = () if isinstance(read_only, bool) else tuple(read_only)
    for name in only:
        _check_server(options, name)

    def changed(access: AccessOptions, server: str | None) -> AccessOptions:
        keys = (None, server) if server is not None else (None,)
        added = {
            rule: tuple(glob for key in keys for glob in by_server.get(key, ())) for rule, by_server in rules.items()
        }
        loosened: bool | Literal["ask"] | tuple[str, ...] = access.destructive
        if destructive is True:
            loosened = True
        elif added["destructive"] and loosened is not True:
            loosened = (*(loosened if isinstance(loosened, tuple) else ()), *added["destructive"])
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


def _group_by_server(options: GatewayOptions, words: Sequence[str]) -> dict[str | None, list[str]]:
    """The globs of `words` by server; None: those of all."""
    by_server: dict[str | None, list[str]] = {}
    for word in words:
        server, colon, glob = word.partition(":")
        if colon and server == "*":
            by_server.setdefault(None, []).append(glob)
        elif colon and _check_server(options, server, word):
            by_server.setdefault(server, []).append(glob)
        else:
            by_server.setdefault(None, []).append(word)
    return by_server


def _check_server(options: GatewayOptions, name: str, word: str | None = None) -> bool:
    if name in options.servers:
        return True
    rule = "" if word is None else f"{word}: "
    raise OptionsError(f"{rule}there is no server {name!r:.80}; known: {', '.join(options.servers) or 'none'}")
