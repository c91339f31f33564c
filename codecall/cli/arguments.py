"""Arguments that commands share, the main ones being which servers they are about. Loads nothing heavy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import Group, Parameter

if TYPE_CHECKING:
    from codecall.gateway.config.load import Configuration
from codecall.cli.output import Output
from codecall.gateway.config.options import GatewayOptions

# ----------------------------------------------------------------------------------------------------
# Arguments that commands share, the main ones being which servers they are about. Loads nothing heavy.

AsJson = Annotated[bool, Parameter(name="--json", negative="", help="Answer with one JSON document, errors too.")]
"""The option that every command has."""

PresetName = Annotated[
    str | None,
    Parameter(name="--preset", help="locked_down, secure, balanced, experimental, or the path of a preset file."),
]
"""The option of commands that look at limits."""

CONFIG_FILES: Final = ("codecall.toml", "codecall.yaml", "codecall.yml", "codecall.json")
"""Names of configurations that are found without being named, first this one."""

_GROUP: Final = Group(
    "Which servers",
    sort_key=9,
    help=f"Without any of these: {CONFIG_FILES[0]} (or .yaml, .json) in this folder, else in the user's configuration "
    "folder.",
)


@Parameter(name="*", group=_GROUP)
@dataclass(frozen=True, slots=True)
class ServerArguments:
    """Which servers a command is about."""

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

    def configuration(self, words: Sequence[str] = ()) -> Configuration:
        """What a gateway is told of them: all that were named, as one.

        Args:
            words: More servers: URLs and command lines.

        Raises:
            OptionsError: a file cannot be read or is wrong; or none was named and there is none, with the code
                NO_CONFIGURATION.
        """
        from codecall.gateway.config.load import merge_configurations

        found = [*self._named(words)]
        merged = merge_configurations(found) if found else _default()
        if not merged.options.servers:
            files = ", ".join(str(file) for file in merged.files if file.exists()) or "the command line"
            merged = merged._replace(notes=(*merged.notes, f"no servers in {files}"))
        cache = False if self.no_cache else self.cache_dir
        if cache is None:
            return merged
        return merged._replace(options=merged.options.model_copy(update={"cache_dir": cache}))

    def _named(self, words: Sequence[str]) -> Iterator[Configuration]:
        from codecall.gateway.config.load import parse_openapi_servers, parse_servers, read_client, read_config

        for path in self.config:
            yield read_config(path)
        for client in self.from_:
            yield read_client(client)
        if self.server or words:
            yield parse_servers([*self.server, *words])
        if self.openapi:
            yield parse_openapi_servers(self.openapi)


DEFAULT_SERVERS: Final = ServerArguments()
"""None were named."""


def default_config_paths() -> list[Path]:
    """Where a configuration is found without being named, best first."""
    from platformdirs import user_config_path

    return [
        folder / name for folder in (Path(), user_config_path("codecall", appauthor=False)) for name in CONFIG_FILES
    ]


def _default() -> Configuration:
    from codecall.errors import OptionsError
    from codecall.gateway.config.load import read_config

    for path in default_config_paths():
        if path.is_file():
            return read_config(path, discovered=True)
    raise OptionsError(
        f"There is no {CONFIG_FILES[0]} here or in the user's configuration folder, and no servers were named",
        code="NO_CONFIGURATION",
        hint="Write one with `codecall init`, or name servers with --config, --from or --server.",
    )


# ----------------------------------------------------------------------------------------------------
# The configuration of a command, and what its reader is told about it.


def gateway_options(chosen: ServerArguments, output: Output) -> GatewayOptions:
    """What a gateway is told, for a command that needs servers; remarks on it go to stderr.

    Raises:
        OptionsError: it is wrong, or there is none.
    """
    configuration = chosen.configuration()
    for note in configuration.notes:
        output.warn(note)
    return configuration.options
