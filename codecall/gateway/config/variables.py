"""References in configurations: `${TOKEN}` and its kin, replaced when a server is started and not before.

    ${NAME}  ${env:NAME}          the environment variable; in arguments, what `env` of the same server sets comes first
    ${NAME:-default}              the same, with a text for one that is unset or empty
    ${input:id}                   what VS Code would ask a person for: the environment variable CODECALL_INPUT_<ID>
    ${workspaceFolder}            the folder the gateway was started in (files of a project: the project's)
    ${workspaceFolderBasename}    its last part
    ${userHome}  ${pathSeparator} the home folder, `/` or `\\`
    $${NAME}                      the text `${NAME}` itself

Errors name the variable and the server, never a value.
"""

from __future__ import annotations

import errno
import io
import os
import re
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Final, TypeVar, cast

from codecall.errors import OptionsError
from codecall.gateway.config.mcp_clients import PLACEHOLDER
from codecall.gateway.config.options import AnyServer, HttpServer, OpenApiServer, StdioServer
from codecall.gateway.config.urls import explain_url, is_url, url_address

_LINE = re.compile(
    r"""[ \t]*(?:export[ \t]+)?(?P<name>[A-Za-z_][\w.-]*)[ \t]*=[ \t]*
    (?:'(?P<single>[^']*)'|"(?P<double>(?:\\.|[^"\\])*)"|(?!['"])(?P<plain>[^\r\n]*+))
    [ \t]*(?:(?<![^\s"'=])\#[^\r\n]*)?(?:\r?\n|\r|\Z)""",
    re.VERBOSE | re.DOTALL,
)
_EMPTY = re.compile(r"[ \t]*(?:\#[^\r\n]*)?(?:\r?\n|\r|\Z)")
_COMMENT = re.compile(r"""(?<![^\s"'=])\#""")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_MEANINGS = {"n": "\n", "r": "\r", "t": "\t"}


MAX_ENV_FILE_BYTES: Final = 1024 * 1024
"""Most bytes of an `env_file`, as many as a configuration has."""


def env_file_path(option: str, environ: Mapping[str, str]) -> Path | None:
    """The file that an option `env_file` names, as a start reads it; None where a variable in its path is missing."""
    replacer = _ReferenceReplacer("", environ)
    try:
        return _env_file(option, replacer)
    except OptionsError:
        return None


def env_file_bytes(file: Path) -> bytes | None:
    """What is in an `env_file`; None where that is no regular file, or is too large to be read.

    Raises:
        OSError: it cannot be read.
    """
    if not file.exists():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    return file.read_bytes() if file.is_file() and file.stat().st_size <= MAX_ENV_FILE_BYTES else None


def read_env_file(file: Path, *, where: str, digest: str | None = None) -> dict[str, str]:
    """Read the variables of a `.env` file. Values stand alone, or in quotes, which may hold several lines; `#` begins a
    comment.

    Args:
        file: The file.
        where: The option that names it.
        digest: SHA-256 of what has to be in it; None: anything.

    Raises:
        OptionsError: it cannot be read, a line is something else, or its content is.
    """
    try:
        content = env_file_bytes(file)
        if content is None:
            raise OptionsError(f"{where}: {file} is no file of at most {MAX_ENV_FILE_BYTES} bytes")
        if digest is not None and sha256(content).hexdigest() != digest:
            raise OptionsError(
                f"{where}: {file} has changed since it was trusted",
                hint="Look at it; then say `codecall trust`, and start this command again.",
            )
        text = io.TextIOWrapper(io.BytesIO(content), encoding="utf-8-sig").read()
    except OSError as failure:
        raise OptionsError(f"{where}: {file} cannot be read: {failure.strerror}") from None
    except UnicodeDecodeError:
        raise OptionsError(f"{where}: {file} is not UTF-8") from None
    variables: dict[str, str] = {}
    place = 0
    while place < len(text):
        if empty := _EMPTY.match(text, place):
            place = empty.end()
            continue
        line = _LINE.match(text, place)
        if line is None:
            raise OptionsError(f"{where}: {file}, line {text.count(chr(10), 0, place) + 1} is not NAME=value")
        variables[line["name"]] = _value(line)
        place = line.end()
    return variables


def _value(line: re.Match[str]) -> str:
    if line["double"] is not None:
        return _ESCAPE.sub(lambda match: _MEANINGS.get(match[1], match[1]), line["double"])
    return line["single"] if line["single"] is not None else _COMMENT.split(line["plain"], maxsplit=1)[0].rstrip(" \t")


REFERENCE = re.compile(
    r"\$(?P<escaped>\$\{)|\$\{(?:(?P<kind>[A-Za-z]+):(?!-))?(?P<name>[A-Za-z_][\w.-]*|/)(?::-(?P<default>[^}]*))?\}"
)
"""One reference, or the escaped beginning of one. Braces with anything else in them are no reference."""

ABSOLUTE_PATH = re.compile(r"[/\\~]|[A-Za-z]:[/\\]|[A-Za-z][A-Za-z0-9+.-]+://|(?i:https?):|\$?\$\{")
"""Beginnings of paths that are not relative to the folder of their file: a root, a home, a URL, be it a mistyped one,
a reference."""

_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")

Server = TypeVar("Server", StdioServer, HttpServer, OpenApiServer)


def input_variable(identity: str) -> str:
    """The environment variable that stands for an input of VS Code: `CODECALL_INPUT_API_KEY` for `api-key`."""
    return "CODECALL_INPUT_" + re.sub(r"\W", "_", identity).upper()


def escape_references(text: str) -> str:
    """Escape `text` so that it stays as it is when references are replaced."""
    return text.replace("${", "$${")


class _ReferenceReplacer:
    """Replaces the references of one server, or of one part of the options, and collects what was wrong."""

    def __init__(self, where: str, environ: Mapping[str, str]) -> None:
        self.where = where
        self.environ = environ
        self._problems: dict[str, None] = {}
        self._unset: dict[str, None] = {}
        self._unwritten: dict[str, None] = {}

    def text(self, text: str, place: str, own: Mapping[str, str] | None = None) -> str:
        """`text` with its references replaced; variables in `own` count before the environment."""
        return REFERENCE.sub(lambda match: self._replace(match, place, own or {}), text)

    def texts(self, texts: Mapping[str, str], place: str) -> dict[str, str]:
        """The values of a mapping."""
        return {key: self.text(value, f"{place}.{key}") for key, value in texts.items()}

    def refuse(self, problem: str) -> None:
        """Note a problem, which `finish` raises."""
        self._problems[f"{self.where}.{problem}"] = None

    def finish(self) -> None:
        """Raise `OptionsError` if anything was missing or wrong; it names everything."""
        if not self._problems:
            return
        hints = [f"Set {', '.join(self._unset)} in the environment codecall is started in."] if self._unset else []
        if self._unwritten:
            hints.append(
                f"Write the value of {', '.join(self._unwritten)} in place of {PLACEHOLDER} in the file of the client "
                "that starts codecall, or take the line out there if the environment of the client has it."
            )
        raise OptionsError("; ".join(self._problems), hint=" ".join(hints) or None)

    def _replace(self, match: re.Match[str], place: str, own: Mapping[str, str]) -> str:
        if match["escaped"]:
            return "${"
        kind, name, default = match["kind"], match["name"], match["default"]
        if kind is None and default is None and (value := _predefined(name)) is not None:
            return value
        variable = {None: name, "env": name, "input": input_variable(name)}.get(kind)
        if variable is None or name == "/":
            self.refuse(f"{place}: ${{{kind}:{name}}} means nothing here; $${{ stands for ${{ itself")
            return ""
        value = own.get(variable, PLACEHOLDER)
        value = self.environ.get(variable) if value == PLACEHOLDER else value
        unwritten = value == PLACEHOLDER
        if not unwritten and (value or (value is not None and default is None)):
            return value
        if default is not None:
            return default
        prefix = f"the input {name} is asked for: " if kind == "input" else ""
        what = f"still has the placeholder {PLACEHOLDER}" if unwritten else "is not set"
        self.refuse(f"{place}: {prefix}environment variable {variable} {what}")
        (self._unwritten if unwritten else self._unset)[variable] = None
        return ""


def _predefined(name: str) -> str | None:
    match name:
        case "workspaceFolder":
            return str(Path.cwd())
        case "workspaceFolderBasename":
            return Path.cwd().name
        case "userHome":
            return str(Path.home())
        case "pathSeparator" | "/":
            return os.sep
        case _:
            return None


def resolve_server(server: Server, *, name: str, environ: Mapping[str, str] | None = None) -> Server:
    """Replace references and `~` in the options of the server `name`, and add the variables of its `env_file`.

    Reads that file, which is small, and nothing else. For the one call that starts the server: the result holds
    secrets, which its `repr` does not show.

    Raises:
        OptionsError: a variable is not set, or a file cannot be read. Names them all, and no value.
    """
    replacer = _ReferenceReplacer(f"servers.{name}", os.environ if environ is None else environ)
    match server:
        case StdioServer():
            changes = _resolve_program(server, replacer)
        case HttpServer():
            changes = {
                "url": replacer.text(server.url, "url"),
                "headers": replacer.texts(server.headers, "headers"),
                "auth": None if server.auth is None else replacer.text(server.auth, "auth"),
            }
        case OpenApiServer():
            changes = {
                "openapi": _expand_home(replacer.text(server.openapi, "openapi")),
                "base_url": None if server.base_url is None else replacer.text(server.base_url, "base_url"),
                "headers": replacer.texts(server.headers, "headers"),
            }
    for field in ("command", "url", "openapi", "auth", "base_url"):
        if changes.get(field) == "":
            replacer.refuse(f"{field}: nothing is left of it once its references are replaced")
    # A library that meets these in a header would show the value in its error.
    for field, text in {
        "auth": changes.get("auth"),
        **{f"headers.{key}": value for key, value in cast("dict[str, str]", changes.get("headers", {})).items()},
    }.items():
        if isinstance(text, str) and _CONTROL.search(text):
            replacer.refuse(f"{field}: a line break or another control character is in it")
    for field in ("url", "openapi", "base_url"):
        if isinstance(text := changes.get(field), str) and (field != "openapi" or is_url(text)):
            _check_url(field, str(getattr(server, field)), text, replacer)
    replacer.finish()
    return server.model_copy(update=changes)


def _check_url(field: str, written: str, url: str, replacer: _ReferenceReplacer) -> None:
    if (reason := explain_url(url)) is not None:
        replacer.refuse(f"{field}: {reason}")
    _check_address(field, written, url, replacer)


def _check_address(field: str, written: str, url: str, replacer: _ReferenceReplacer) -> None:
    # `https://evil.example${HOME}@good.example/` is shown as the second, and leads to the first.
    address = url_address(written)
    if address and "${" not in address and address != url_address(url):
        replacer.refuse(f"{field}: what its references stand for leads to another host; / ? @ are written %2F %3F %40")


def _env_file(option: str, replacer: _ReferenceReplacer) -> Path:
    file = Path(_expand_home(replacer.text(option, "env_file")))
    replacer.finish()
    return file


def _resolve_program(server: StdioServer, replacer: _ReferenceReplacer) -> dict[str, object]:
    file_variables: dict[str, str] = {}
    if server.env_file is not None:
        file = _env_file(server.env_file, replacer)
        where = f"{replacer.where}.env_file"
        file_variables = read_env_file(file, where=where, digest=server.env_file_digest)
    for key, value in (*file_variables.items(), *server.env.items()):
        if value == PLACEHOLDER:
            replacer.refuse(f"env.{key}: still has the placeholder {PLACEHOLDER}")
    env = {
        **file_variables,
        **{key: replacer.text(value, f"env.{key}", file_variables) for key, value in server.env.items()},
    }
    return {
        "command": _expand_home(replacer.text(server.command, "command", env)),
        "args": tuple(replacer.text(each, f"args[{index}]", env) for index, each in enumerate(server.args)),
        "env": env,
        "env_file": None,
        "cwd": None if server.cwd is None else _expand_home(replacer.text(server.cwd, "cwd", env)),
    }


def _expand_home(text: str) -> str:
    """Replace `~` at the beginning by the home folder."""
    return str(Path.home()) + text[1:] if text == "~" or text.startswith(("~/", "~\\")) else text


def resolve_values(
    values: Mapping[str, object], *, where: str, environ: Mapping[str, str] | None = None
) -> dict[str, object]:
    """Copy nested options (`serve.auth`, `codecall`, `rate_limits`) with references replaced in every string.

    Raises:
        OptionsError: a variable is not set, or a URL leads to another host than is written. Names them all, under
            `where`, and no value.
    """
    replacer = _ReferenceReplacer(where, os.environ if environ is None else environ)

    def walk(value: object, place: str) -> object:
        match value:
            case str():
                text = replacer.text(value, place)
                _check_address(place, value, text, replacer)
                return text
            case list() | tuple():
                items = cast("list[object]", value)
                return [walk(item, f"{place}[{index}]") for index, item in enumerate(items)]
            case Mapping():
                pairs = cast("Mapping[str, object]", value)
                return {key: walk(item, f"{place}.{key}") for key, item in pairs.items()}
            case _:
                return value

    resolved = {key: walk(item, key) for key, item in values.items()}
    replacer.finish()
    return resolved


def required_variables(server: AnyServer) -> tuple[str, ...]:
    """The environment variables that the options of a server refer to without a default, each once."""
    names: dict[str, None] = {}
    for match in _references(server):
        kind, name = match["kind"], match["name"]
        if match["default"] is not None or (kind is None and _predefined(name) is not None):
            continue
        if kind in (None, "env", "input"):
            names[input_variable(name) if kind == "input" else name] = None
    return tuple(names)


def referenced_names(server: AnyServer | str) -> tuple[str, ...]:
    """The names that the options of a server, or a text, refer to in whatever way, each once."""
    return tuple(dict.fromkeys(match["name"] for match in _references(server)))


def _references(server: AnyServer | str) -> Iterator[re.Match[str]]:
    match server:
        case str():
            texts = [server]
        case StdioServer():
            texts = [server.command, *server.args, *server.env.values(), server.cwd or "", server.env_file or ""]
        case HttpServer():
            texts = [server.url, *server.headers.values(), server.auth or ""]
        case OpenApiServer():
            texts = [server.openapi, server.base_url or "", *server.headers.values()]
    return (match for text in texts for match in REFERENCE.finditer(text) if not match["escaped"])
