"""What other clients have: their files, the servers in them, and whether the gateway is one of these."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from codecall.errors import OptionsError
from codecall.gateway.config.load import Configuration, read_client, read_config, unique_name
from codecall.gateway.config.mcp_clients import CLIENTS, Client, existing_client_files
from codecall.gateway.config.mcp_servers import ITSELF_NOTE
from codecall.gateway.config.names import fit_name
from codecall.gateway.config.options import AnyServer, GatewayOptions


class ClientFiles(NamedTuple):
    """One client that keeps servers on this machine; or a file that was named."""

    client: Client | None
    """None: a file that was named."""
    files: tuple[Path, ...]
    configuration: Configuration | None
    """None where its files cannot be used."""
    error: str = ""
    """Why they cannot."""

    @property
    def name(self) -> str:
        """The client's, or the file's path."""
        return self.client or str(self.files[0])

    @property
    def servers(self) -> Mapping[str, AnyServer]:
        """Its servers, without the gateway itself."""
        return self.configuration.options.servers if self.configuration is not None else {}

    @property
    def has_gateway(self) -> bool:
        """Whether the gateway is among them."""
        return self.configuration is not None and any(note.endswith(ITSELF_NOTE) for note in self.configuration.notes)


def find_clients() -> Iterator[ClientFiles]:
    """The clients of which there are files."""
    for client in CLIENTS:
        files = existing_client_files(client)
        if not files:
            continue
        try:
            yield ClientFiles(client, tuple(files), read_client(client))
        except OptionsError as failure:
            yield ClientFiles(client, tuple(files), None, failure.message)


def read_client_file(path: Path) -> ClientFiles:
    """A configuration that somebody named.

    Raises:
        OptionsError: it cannot be read, or is wrong.
    """
    return ClientFiles(None, (path,), read_config(path))


class MergedServers(NamedTuple):
    """The servers of several clients as one configuration."""

    options: GatewayOptions
    origins: dict[str, str]
    """The client, or the file's path, by server."""
    notes: tuple[str, ...]


def merge_servers(clients: list[ClientFiles]) -> MergedServers:
    """All of their servers but the gateway. Where two clients have different ones of the same name, the second is
    called by its client, too."""
    servers: dict[str, AnyServer] = {}
    origins: dict[str, str] = {}
    notes: list[str] = []
    for each in clients:
        said = (
            each.configuration.notes if each.configuration is not None else [f"{each.name} is left out: {each.error}"]
        )
        notes += [note for note in said if not note.endswith(ITSELF_NOTE)]
        for name, server in each.servers.items():
            if name in servers and _alike(servers[name], server):
                continue
            free = name
            if name in servers:
                free = unique_name(f"{name[:40]}_{each.client or fit_name(each.files[0].stem)[:20]}", servers)
                notes.append(f"{name} of {each.name} is another server than that of {origins[name]}: called {free}")
            servers[free], origins[free] = server, each.name
    return MergedServers(GatewayOptions(servers=servers), origins, tuple(dict.fromkeys(notes)))


def _alike(one: AnyServer, other: AnyServer) -> bool:
    """Whether two servers are one, started in whatever folder."""
    return type(one) is type(other) and one.model_dump(exclude={"cwd"}) == other.model_dump(exclude={"cwd"})
