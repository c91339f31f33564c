"""`codecall add`: a server more in the configuration."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import Parameter

from codecall.cli import exit_codes as exits
from codecall.cli.arguments import AsJson, EditedConfig
from codecall.errors import CodeCallError

if TYPE_CHECKING:
    from codecall.gateway.config.options import AnyServer

_NAME: Final = re.compile(r"(?=.*[a-z])[A-Za-z][A-Za-z0-9_-]{0,63}")
"""A name that is told from a variable for a program where it stands before a server: `name=server`."""
_PAIR: Final = re.compile(r"([^=:\s]+)\s*([=:])\s*(.*)", re.DOTALL)


def add(
    name: Annotated[str, Parameter(help="Its name, which its tools have in front: git, my_shop.")],
    /,
    *command: Annotated[str, Parameter(help="A URL; or, behind --, a command with its arguments.")],
    env: Annotated[tuple[str, ...], Parameter(negative="", help="NAME=VALUE for its environment. Repeatable.")] = (),
    header: Annotated[
        tuple[str, ...], Parameter(negative="", help="NAME=VALUE, a header of each request to a URL. Repeatable.")
    ] = (),
    openapi: Annotated[
        str | None, Parameter(name="--openapi", help="Path or URL of the OpenAPI document of a REST API.")
    ] = None,
    base_url: Annotated[
        str | None, Parameter(name="--base-url", help="Where that API is; what its document says, if left out.")
    ] = None,
    config: EditedConfig = None,
    as_json: AsJson = False,
) -> int:
    """Add a server to the configuration: `codecall add git -- uvx mcp-server-git`. It is not started.

    A REST API is added by its document: `codecall add shop --openapi https://shop.example.com/openapi.json`.

    Secrets are not written: they become ${NAME}, and what to export is printed. A value may have ${NAME} itself:
    `codecall add crm https://… --header 'Authorization=Bearer ${CRM_TOKEN}'`.
    """
    from codecall.cli.commands.setup.config_file import edited_file, save_edit
    from codecall.cli.output import Output
    from codecall.gateway.config.codecall_toml import write_server, write_template
    from codecall.gateway.config.names import describe_server

    output = Output(as_json=as_json)
    if not _NAME.fullmatch(name):
        hint = "Letters, digits, - and _; a letter in front, and a small one among them."
        raise CodeCallError(f"{name!r:.80} is no name of a server", code="USAGE", hint=hint)
    headers = dict(_pairs("--header", header, "=:"))
    if openapi is not None:
        server: AnyServer = _rest_api(name, openapi, base_url, headers, command=command, env=env)
    elif base_url is not None:
        raise CodeCallError("--base-url belongs to --openapi", code="USAGE")
    else:
        server = _with_headers(name, _mcp_server(name, command, env), headers)
    file = edited_file(config)
    if name in file.options.servers:
        hint = f"`codecall remove {name}` first, or take another name."
        raise CodeCallError(f"{file.path} has a server {name} already", code="EXISTS_ALREADY", hint=hint)
    table = write_server(name, server)
    save_edit(file, f"{(file.text or write_template()).rstrip()}\n{table.text}")
    if as_json:
        output.document({"path": str(file.path), "added": name, "notes": list(table.notes)})
    else:
        output.line(f"added {name} to {file.path}: {describe_server(server)}")
        for note in table.notes:
            output.note(note, "yellow")
        output.note(f"`codecall tools {name}` lists its tools.")
    return exits.OK


def _mcp_server(name: str, command: Sequence[str], env: Sequence[str]) -> AnyServer:
    """The server that a command starts, or that a URL leads to.

    Raises:
        CodeCallError: it is neither.
    """
    from codecall.gateway.config.load import parse_servers

    if not command:
        hint = (
            f"codecall add {name} -- uvx mcp-server-git, or codecall add {name} https://…; "
            f"for a REST API codecall add {name} --openapi PATH_OR_URL"
        )
        raise CodeCallError(
            f"What is {name}? A command, a URL or an OpenAPI document is missing", code="USAGE", hint=hint
        )
    word = command[0] if len(command) == 1 else shlex.join(command)
    if env and re.match(r"https?://", word, re.IGNORECASE):
        hint = "--header sends a header with each request."
        raise CodeCallError(f"--env: {name} is a URL, and has no environment", code="USAGE", hint=hint)
    variables = " ".join(f"{key}={shlex.quote(value)}" for key, value in _pairs("--env", env, "="))
    read = parse_servers([f"{name}={variables} {word}" if variables else f"{name}={word}"])
    return read.options.servers[name]


def _rest_api(
    name: str,
    document: str,
    base_url: str | None,
    headers: Mapping[str, str],
    *,
    command: Sequence[str],
    env: Sequence[str],
) -> AnyServer:
    """The server of a REST API.

    Raises:
        CodeCallError: its document is no file, or something was given that it does not have.
    """
    from codecall.gateway.config.load import parse_openapi_servers
    from codecall.gateway.config.options import OpenApiServer

    if command:
        hint = (
            f"codecall add {name} --openapi PATH_OR_URL, without a command or another URL; --base-url says where it is."
        )
        raise CodeCallError(
            f"--openapi: {name} is a REST API, and {command[0]!r:.80} is left over", code="USAGE", hint=hint
        )
    if env:
        hint = "--header sends a header with each request."
        raise CodeCallError(f"--env: {name} is a REST API, and has no environment", code="USAGE", hint=hint)
    read = parse_openapi_servers([f"{name}={document}"]).options.servers[name]
    values = {**read.model_dump(include={"openapi"}), "base_url": base_url, "headers": headers}
    return OpenApiServer.read(values, where=name, show_values=False)


def _pairs(option: str, words: Sequence[str], marks: str) -> Iterator[tuple[str, str]]:
    """What `NAME=VALUE` says, each time it was given; an error does not show the value, which may be a secret."""
    for word in words:
        pair = _PAIR.fullmatch(word)
        if pair is None or pair[2] not in marks:
            raise CodeCallError(f"{option}: NAME=VALUE is needed", code="USAGE")
        yield pair[1], pair[3]


def _with_headers(name: str, server: AnyServer, headers: Mapping[str, str]) -> AnyServer:
    """The server with these headers.

    Raises:
        CodeCallError: it is a command.
    """
    from codecall.gateway.config.options import HttpServer

    if isinstance(server, HttpServer):
        return HttpServer.read({"url": server.url, "headers": headers}, where=name, show_values=False)
    if headers:
        hint = "--env sets variables of its environment."
        raise CodeCallError(f"--header: {name} is a command, and has no headers", code="USAGE", hint=hint)
    return server
