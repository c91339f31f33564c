"""Arguments that commands share, chiefly which servers a command works on. Importing it loads nothing heavy."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

from cyclopts import Group, Parameter

from codecall.errors import CodeCallError
from codecall.files import check_stays_inside

if TYPE_CHECKING:
    from codecall.cli.output import Output
    from codecall.gateway.config.load import Configuration
    from codecall.gateway.config.options import GatewayOptions

AsJson = Annotated[bool, Parameter(name="--json", negative="", help="Answer with one JSON document, errors too.")]
"""The option `--json`, which every command but `serve` has."""

PresetName = Annotated[
    str | None,
    Parameter(name="--preset", help="locked_down, secure, balanced, experimental, or the path of a preset file."),
]
"""The option `--preset`, of commands that run or check scripts or show limits."""

LanguageName = Annotated[
    Literal["javascript", "starlark"] | None,
    Parameter(
        name="--language", help="What it is written in; if left out, .star files are Starlark, others JavaScript."
    ),
]
"""The option `--language`, of commands that run or check scripts."""

AllowedCalls = Annotated[
    tuple[str, ...],
    Parameter(name="--allow", negative="", help="Make calls of this tool unasked, name or glob. Repeatable."),
]
"""The option `--allow`, of commands that make calls which rules may ask a person for."""

EditedConfig = Annotated[
    Path | None, Parameter(name=("--config", "-c"), help="The file; the one that counts here, if left out.")
]
"""The option `--config` of commands that change a configuration."""

CONFIG_FILES: Final = ("codecall.toml", "codecall.yaml", "codecall.yml", "codecall.json")
"""File names of configurations that are found without being named, in this order."""

_GROUP: Final = Group(
    "Which servers",
    sort_key=9,
    help=f"Without any of these: {CONFIG_FILES[0]} (or .yaml, .json) in this folder, once `codecall trust` was said "
    "there, else in the user's configuration folder.",
)


@Parameter(name="*", group=_GROUP)
@dataclass(frozen=True, slots=True)
class ServerArguments:
    """The options that say which servers a command works on."""

    config: Annotated[
        tuple[Path, ...],
        Parameter(name=("--config", "-c"), negative="", help="A configuration: ours, or another client's. Repeatable."),
    ] = ()
    from_: Annotated[
        tuple[str, ...],
        Parameter(
            name="--from",
            negative="",
            help="The servers of another client: claude-desktop, claude-code, cursor, vscode. Repeatable.",
        ),
    ] = ()
    server: Annotated[
        tuple[str, ...],
        Parameter(name="--server", negative="", help="A URL, or a command line in quotes. Repeatable."),
    ] = ()
    openapi: Annotated[
        tuple[str, ...],
        Parameter(name="--openapi", negative="", help="Path or URL of the OpenAPI document of a REST API. Repeatable."),
    ] = ()
    cache_dir: Annotated[Path | None, Parameter(name="--cache-dir", help="Where catalogs of servers are kept.")] = None
    no_cache: Annotated[bool, Parameter(name="--no-cache", negative="", help="Keep no catalogs.")] = False

    @property
    def any_named(self) -> bool:
        """Whether any servers were named on the command line."""
        return bool(self.config or self.from_ or self.server or self.openapi)

    def configuration(self, servers: Sequence[str] = ()) -> Configuration:
        """Merge all configurations that were named into one; without any, read the default configuration file.

        Args:
            servers: More servers: URLs and command lines.

        Raises:
            OptionsError: a file cannot be read or is wrong; with the code NO_CONFIGURATION, none was named and there
                is no default file; with the code UNTRUSTED_CONFIGURATION, the file is a folder's and not trusted.
        """
        from codecall.gateway.config.load import merge_configurations

        _ARGUMENTS.set(self._words())
        configurations = [*self._named_configurations(servers)]
        merged = merge_configurations(configurations) if configurations else _default_configuration()
        if not merged.options.servers:
            files = ", ".join(str(file) for file in merged.files if file.exists()) or "the command line"
            merged = merged._replace(notes=(*merged.notes, f"no servers in {files}"))
        cache_dir = False if self.no_cache else self.cache_dir
        if cache_dir is None:
            return merged
        if cache_dir is not False:
            try:
                check_stays_inside(cache_dir.expanduser())
            except OSError as failure:
                raise CodeCallError(f"--cache-dir {cache_dir}: {failure.strerror}", code="CANNOT_WRITE") from None
        return merged._replace(options=merged.options.model_copy(update={"cache_dir": cache_dir}))

    def _words(self) -> tuple[str, ...]:
        """These arguments as a command line has them; an address that may hold a credential is left out."""
        words: list[str] = []
        for option, values in (
            ("--config", self.config),
            ("--from", self.from_),
            ("--server", self.server),
            ("--openapi", self.openapi),
        ):
            for value in map(str, values):
                words += [option, "…" if "://" in value and {"@", "?"} & {*value} else value]
        return tuple(words)

    def _named_configurations(self, servers: Sequence[str]) -> Iterator[Configuration]:
        from codecall.cli.trust import pin_env_files, require_trust
        from codecall.gateway.config.load import parse_openapi_servers, parse_servers, read_client, read_config

        for path in self.config:
            yield read_config(path)
        for client in self.from_:
            configuration = read_client(client)
            for file in project_files(client):
                pin_env_files(configuration, require_trust(file, read_config(file, discovered=True)))
            yield configuration
        if self.server or servers:
            yield parse_servers([*self.server, *servers])
        if self.openapi:
            yield parse_openapi_servers(self.openapi)


_ARGUMENTS: Final[ContextVar[tuple[str, ...]]] = ContextVar("codecall_server_arguments", default=())
"""Those that say which servers this command works on."""


def whole_command(*words: str) -> str:
    """A command about the servers that this one works on, as it is typed."""
    return shlex.join(["codecall", *words, *_ARGUMENTS.get()])


DEFAULT_SERVERS: Final = ServerArguments()
"""The arguments of a command line that names no servers."""


def gateway_options(server_args: ServerArguments, output: Output) -> GatewayOptions:
    """The gateway options of a command that needs servers. What was found without being named, and notes on the
    configuration, go to stderr.

    Raises:
        OptionsError: the configuration is wrong, or there is none.
    """
    configuration = server_args.configuration()
    print_notes(configuration, output)
    return configuration.options


def configured_servers(server_args: ServerArguments, output: Output) -> GatewayOptions | None:
    """The servers that `codecall run` would use. None where there are none, or where the folder names some that nobody
    has trusted: then the language alone is checked."""
    try:
        options = gateway_options(server_args, output)
    except CodeCallError as failure:
        if server_args.any_named or failure.code not in {"NO_CONFIGURATION", "UNTRUSTED_CONFIGURATION"}:
            raise
        if failure.code == "UNTRUSTED_CONFIGURATION":
            output.note(f"{failure.message}; names and inputs of tools are not checked. {failure.hint or ''}", "yellow")
        return None
    return options if options.servers or server_args.any_named else None


def print_notes(configuration: Configuration, output: Output) -> None:
    """Say on stderr which file was found, and what a person should know of the configuration."""
    if configuration.found is not None:
        output.note(f"using {configuration.found}")
    for note in configuration.notes:
        output.warn(note)


def project_files(client: str) -> list[Path]:
    """The file of a client that is a project's, and not its user's, if there is one."""
    from codecall.gateway.config.mcp_clients import client_files, parse_client

    places = client_files(parse_client(client))
    return [place.path for place in places if place.scope == "project" and place.path.is_file()]


def default_config_paths() -> list[Path]:
    """The paths at which a configuration is looked for when none is named, best first."""
    return [folder / name for folder in (Path.cwd(), user_config_folder()) for name in CONFIG_FILES]


def user_config_folder() -> Path:
    """The user's configuration folder: a configuration there needs no trust."""
    from platformdirs import user_config_path

    return user_config_path("codecall", appauthor=False)


def find_configuration() -> Configuration | None:
    """The configuration that counts here without being named; None if there is none.

    Raises:
        OptionsError: it cannot be read or is wrong; with the code UNTRUSTED_CONFIGURATION, it is a folder's and not
            trusted.
    """
    from codecall.cli.trust import require_trust
    from codecall.gateway.config.load import read_config

    users_folder = user_config_folder().resolve()
    for path in default_config_paths():
        if path.is_file():
            configuration = read_config(path, discovered=True)
            if path.parent.resolve() != users_folder:
                require_trust(path, configuration)
            return configuration._replace(found=path)
    return None


def _default_configuration() -> Configuration:
    from codecall.errors import OptionsError

    if (found := find_configuration()) is not None:
        return found
    raise OptionsError(
        f"There is no {CONFIG_FILES[0]} here or in the user's configuration folder, and no servers were named",
        code="NO_CONFIGURATION",
        hint="Write one with `codecall init`, or name servers with --config, --from or --server.",
    )
