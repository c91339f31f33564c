"""The configuration files of other MCP clients: the servers in them, and whether the gateway is one of these."""

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
    """One MCP client that keeps servers on this machine, or a configuration file that was named."""

    client: Client | None
    """None for a file that was named."""
    files: tuple[Path, ...]
    configuration: Configuration | None
    """None where its files cannot be used."""
    error: str = ""
    """Why they cannot be used."""

    @property
    def name(self) -> str:
        """The name of the client, or the path of the file."""
        return self.client or str(self.files[0])

    @property
    def servers(self) -> Mapping[str, AnyServer]:
        """The servers by name, without the gateway itself."""
        return self.configuration.options.servers if self.configuration is not None else {}

    @property
    def has_gateway(self) -> bool:
        """Whether the gateway is among the servers."""
        return self.configuration is not None and any(note.endswith(ITSELF_NOTE) for note in self.configuration.notes)


def find_clients() -> Iterator[ClientFiles]:
    """Read the configuration of each client that has one on this machine."""
    for client in CLIENTS:
        files = existing_client_files(client)
        if not files:
            continue
        try:
            yield ClientFiles(client, tuple(files), read_client(client))
        except OptionsError as failure:
            yield ClientFiles(client, tuple(files), None, failure.message)


def read_client_file(path: Path) -> ClientFiles:
    """Read a configuration file that was named.

    Raises:
        OptionsError: the file cannot be read, or is wrong.
    """
    return ClientFiles(None, (path,), read_config(path))


class MergedServers(NamedTuple):
    """The servers of several clients as one configuration."""

    options: GatewayOptions
    origins: dict[str, str]
    """The client, or the file's path, by server."""
    notes: tuple[str, ...]


def merge_servers(clients: list[ClientFiles]) -> MergedServers:
    """Merge the servers of several clients, leaving out the gateway. Where two clients have different servers of the
    same name, the name of the second gets its client's name appended."""
    servers: dict[str, AnyServer] = {}
    origins: dict[str, str] = {}
    notes: list[str] = []
    for client in clients:
        if client.configuration is None:
            notes.append(f"{client.name} is left out: {client.error}")
        else:
            notes += [note for note in client.configuration.notes if not note.endswith(ITSELF_NOTE)]
        for name, server in client.servers.items():
            if name in servers and _same_server(servers[name], server):
                continue
            free_name = name
            if name in servers:
                suffix = client.client or fit_name(client.files[0].stem)[:20]
                free_name = unique_name(f"{name[:40]}_{suffix}", servers)
                notes.append(
                    f"{name} of {client.name} is another server than that of {origins[name]}: called {free_name}"
                )
            servers[free_name], origins[free_name] = server, client.name
    return MergedServers(GatewayOptions(servers=servers), origins, tuple(dict.fromkeys(notes)))


def _same_server(one: AnyServer, other: AnyServer) -> bool:
    """Whether two servers are the same, whatever folder they are started in."""
    return type(one) is type(other) and one.model_dump(exclude={"cwd"}) == other.model_dump(exclude={"cwd"})
