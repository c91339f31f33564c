"""Names of servers, also for those that were given none; and what of a server may be printed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePosixPath, PureWindowsPath
from typing import Final
from urllib.parse import urlsplit

from codecall.gateway.config.options import AnyServer, HttpServer, OpenApiServer, StdioServer
from codecall.gateway.config.urls import url_without_secrets

RUNNERS: Final = frozenset(
    {"uvx", "uv", "npx", "npm", "bunx", "bun", "pnpm", "pnpx", "yarn", "pipx", "docker", "podman", "python", "python3"}
    | {"py", "node", "deno", "cmd", "tsx", "ts-node"}
)
"""Programs that start another one, which their arguments name."""

_RUNNER_WORDS: Final = frozenset({"run", "tool", "dlx", "exec", "x", "/c", "-m", "--"})
"""Words of runners that are not the name of what they start."""
_UV_VALUE_FLAGS: Final = frozenset(
    {"--from", "--with", "--python", "-p", "--package", "--project", "--directory", "--env-file", "--index-url", "-i"}
    | {"--index", "--default-index", "--extra-index-url", "-w", "--with-editable", "--with-requirements"}
)
_DOCKER_VALUE_FLAGS: Final = frozenset(
    {"-e", "--env", "--env-file", "-v", "--volume", "--mount", "--name", "--network", "--platform", "-w", "--workdir"}
    | {"-l", "--label", "-p", "--publish", "--entrypoint", "-m", "--memory", "--cpus", "--cap-add", "--cap-drop"}
    | {"--add-host", "-u", "--user"}
)
_NODE_VALUE_FLAGS: Final = frozenset({"-p", "--package", "--env-file"})
_VALUE_FLAGS: Final = {
    **dict.fromkeys(("uv", "uvx"), _UV_VALUE_FLAGS),
    **dict.fromkeys(("docker", "podman"), _DOCKER_VALUE_FLAGS),
    **dict.fromkeys(("npx", "npm", "bunx", "bun", "pnpm", "pnpx", "yarn", "node", "tsx"), _NODE_VALUE_FLAGS),
}
"""Flags of runners that take the next word; the same letter means something else to another runner."""
_STANDALONE_FLAGS: Final = frozenset(
    {"-y", "--yes", "-q", "--quiet", "-s", "--silent", "--isolated", "--no-cache", "--refresh", "--offline", "--bun"}
    | {"-i", "--interactive", "-t", "--tty", "-it", "-ti", "--rm", "--init", "--read-only", "--privileged"}
    | {"-u", "-I", "-S", "-E", "-B", "-O", "-IS", "-A", "--allow-all", "--prefer-offline", "--no-install"}
)
"""Flags of runners that stand alone. For any other flag it is not known whether the next word belongs to it."""
_CODE_FLAGS: Final = frozenset({"-c", "--call", "--eval", "--print"})
"""Flags of runners that take the next word as a program's code."""
_AFFIXES: Final = re.compile(r"^(?:mcp[-_]server[-_]|server[-_]|mcp[-_])|[-_]mcp[-_]server$|[-_]mcp$|[-_]server$", re.I)
_GENERIC_NAMES: Final = frozenset(
    {"", "mcp", "server", "mcp-server", "mcp_server", "main", "index", "app", "start", "cli"}
)
_HOST_PREFIXES: Final = frozenset({"www", "mcp", "api"})
_VERSION: Final = re.compile(r"(?<=.)(?:@|==|>=|<=|~=|\[).*$")

MAX_NAME_CHARS: Final = 64
"""Characters that a name may have."""


def fit_name(name: str) -> str:
    """Bring `name` into the form that names of servers have: `My Server!` becomes `My_Server`, `3d` becomes
    `server_3d`."""
    plain = re.sub(r"[^A-Za-z0-9_-]+", "_", name).strip("_-")
    if plain and not plain[0].isalpha():
        plain = f"server_{plain}"
    return plain[:MAX_NAME_CHARS].rstrip("_-") or "server"


def program_stem(command: str) -> str:
    """The program without its folder and ending, in lower case."""
    return re.sub(r"\.(?:exe|cmd|bat|ps1)$", "", PureWindowsPath(command).name, flags=re.IGNORECASE).lower()


def find_started_program(command: str, args: Sequence[str]) -> str:
    """Find the package, module, image or file that a command starts: `mcp-server-git` for `uvx --quiet
    mcp-server-git`; the command itself where that is not certain, for the word could be anything, even a secret."""
    runner = program_stem(command)
    if not is_runner(runner):
        return command
    skip = False
    for word in args:
        if skip:
            skip = False
        elif word in _CODE_FLAGS or (runner in ("node", "bun", "deno") and word in ("-e", "-p")):
            break
        elif word in _VALUE_FLAGS.get(runner, ()):
            skip = True
        elif word in _RUNNER_WORDS or word in _STANDALONE_FLAGS or re.match(r"--allow-|-.*=", word):
            continue
        elif word.startswith("-"):
            break
        elif is_runner(program_stem(word)):
            runner = program_stem(word)
        else:
            # A word with blanks may be code, one with `=` an assignment.
            code = (runner == "cmd" and " " in word) or re.match(r"\w+=(?!=)", word)
            return command if code or looks_secret(word) else word
    return command


def is_runner(program: str) -> bool:
    """Whether a program starts others, or the code in a file or in its arguments."""
    return program in RUNNERS or re.fullmatch(r"python\d(?:\.\d+)?", program) is not None


def describe_program(command: str) -> str:
    """The base name of the first word of a command, unless it may be a secret; else `its program`."""
    name = PureWindowsPath(next(iter(command.split()), "")).name
    return "its program" if not name or len(name) > MAX_NAME_CHARS or looks_secret(name) else f"`{name}`"


def looks_secret(word: str) -> bool:
    """Whether an argument may be a secret."""
    from codecall.gateway.config.secret_detection import is_secret  # loads patterns, and most starts name no server

    return "://" not in word and is_secret("argument", word)


def name_from_command(command: str, args: Sequence[str]) -> str:
    """A name for a server that is a program: `git` for `uvx mcp-server-git`, `memory` for
    `npx -y @modelcontextprotocol/server-memory`."""
    started = find_started_program(command, args)
    if "://" in started:
        return _name_of_source(started)
    scope, _, package = started.rpartition("/") if started.startswith("@") else ("", "", started)
    package = _VERSION.sub("", package)
    if not scope:
        package = PurePosixPath(PureWindowsPath(package).as_posix()).name.partition(":")[0]
        package = re.sub(r"\.(?:py|m?js|ts|exe|cmd|bat)$", "", package, flags=re.IGNORECASE)
    plain = _AFFIXES.sub("", _AFFIXES.sub("", package)) if package.lower() not in _GENERIC_NAMES else ""
    if plain.lower() in _GENERIC_NAMES:
        plain = scope.lstrip("@") or package
    return fit_name(plain)


def name_from_url(url: str) -> str:
    """A name for a server behind a URL: `sentry` for `https://mcp.sentry.dev/mcp`."""
    host = _host(url)
    if re.fullmatch(r"[\d.]+|.*:.*", host):
        return fit_name(host)
    labels = host.split(".")
    while len(labels) > 2 and labels[0] in _HOST_PREFIXES:
        del labels[0]
    return fit_name(labels[0])


def _name_of_source(url: str) -> str:
    """The repository of `git+https://…`, else the host: other paths may hold what is secret."""
    if not url.startswith("git+"):
        return name_from_url(url)
    try:
        repository = PurePosixPath(urlsplit(url).path).name.partition("@")[0].removesuffix(".git")
    except ValueError:
        repository = ""
    plain = _AFFIXES.sub("", _AFFIXES.sub("", repository))
    return fit_name(plain) if plain and not looks_secret(repository) else name_from_url(url)


def _host(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def describe_server(server: AnyServer) -> str:
    """Describe a server without secrets: the program and what it starts, or a URL's host."""
    match server:
        case StdioServer():
            started = find_started_program(server.command, server.args)
            source = url_without_secrets(started) if "://" in started else started
            # Arguments that stand in `command`, where they do not belong, may be anything.
            program = server.command.split()[0] if re.search(r"\s-|\s\w+=|://", server.command) else server.command
            return program if started == server.command else f"{program} {source}"
        case HttpServer():
            return url_without_secrets(server.url)
        case OpenApiServer():
            return f"OpenAPI {url_without_secrets(server.openapi)}"
