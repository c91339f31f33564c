"""What servers list, kept on disk from one start of the gateway to the next: one file for each server.

A file is named by a digest of how its server is configured, so that another configuration has another file, and holds
what the server listed, after a line with the format and a checksum. It is replaced as a whole or not at all, and
written only where its content would differ; when it was last confirmed is its time. Like all that a server lists it is
checked before use: see `filter`.

A cache may fail, and the gateway must not notice but for time. What goes wrong is logged once for each file; the server
is then started and asked.
"""

from __future__ import annotations

import json
import logging
import os
import stat
import time
from collections.abc import Mapping
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Final, Literal

from codecall.errors import OptionsError
from codecall.files import TEMPORARY_PREFIX, check_private_file, make_private_folders, write_private_file
from codecall.gateway.config.options import AnyServer, HttpServer, OpenApiServer, StdioServer
from codecall.gateway.config.variables import resolve_values
from codecall.gateway.upstream.listing import Listing

logger = logging.getLogger("codecall")

FORMAT: Final = 1
"""Version of the format; files of another one are not read."""

MAX_BYTES: Final = 16 * 1024 * 1024
"""Bytes of the largest file: a server that lists more is asked at every start."""

MAX_AGE_DAYS: Final = 90
"""Days after its last confirmation that a file is kept."""

_SUFFIX: Final = ".listing"


def default_cache_folder() -> Path:
    """The folder of the files when none is configured."""
    from platformdirs import user_cache_path  # most callers have a folder

    return user_cache_path("codecall", appauthor=False) / "listings"


def cache_folder(cache_dir: str | Path | Literal[False] | None) -> Path | None:
    """The folder of the files with that option of the gateway; None: listings are not kept."""
    if cache_dir is False:
        return None
    return default_cache_folder() if cache_dir is None else Path(cache_dir).expanduser().absolute() / "listings"


def config_fingerprint(name: str, server: AnyServer) -> str:
    """A digest that two servers share only if they are called and configured alike, and mean the same by it here and
    now.

    Of environment variables and headers only the names count, so that a new token does not make another server. The
    folder a program runs in counts, and what references (`${workspaceFolder}`, `~`) in its command, its arguments, its
    folder or a URL stand for: of that a digest, as it may be secret.
    """
    configuration: dict[str, object] = {"format": FORMAT, "name": name}
    if server.per_client:
        configuration["per_client"] = True  # what was listed over a connection of all clients is not for each of them
    references: list[str] = []
    variables: dict[str, str] = {}
    match server:
        case StdioServer():
            configuration |= {
                "command": server.command,
                "args": server.args,
                "cwd": server.cwd,
                "env": sorted(server.env),
            }
            configuration |= {"env_file": server.env_file}
            references = [server.command, *server.args]
            variables = {key: value for key, text in server.env.items() if (value := _resolve(text, {})) is not None}
        case HttpServer():
            configuration |= {"url": server.url, "transport": server.transport, "headers": sorted(server.headers)}
            references = [server.url]
        case OpenApiServer():
            configuration |= {"openapi": server.openapi, "base_url": server.base_url, "headers": sorted(server.headers)}
            references = [server.openapi, server.base_url or ""]
    encoded_configuration = json.dumps(configuration).encode("utf-8", "surrogatepass")
    resolved: list[str | None] = [
        _resolve(text, variables) for text in references if "$" in text or text.startswith("~")
    ]
    if isinstance(server, StdioServer):
        resolved.append(_absolute_folder(_resolve(server.cwd or "", variables)))
    elif isinstance(server, OpenApiServer) and "://" not in server.openapi:
        resolved.append(_absolute_folder(""))
    if resolved:
        # Keyed by what stands around it, so that the same secret in two places cannot be seen to be the same.
        encoded = json.dumps(resolved).encode("utf-8", "surrogatepass")
        encoded_configuration += blake2b(encoded, key=blake2b(encoded_configuration).digest()).digest()
    return blake2b(encoded_configuration, digest_size=16).hexdigest()


def _resolve(text: str, variables: Mapping[str, str]) -> str | None:
    """`text` with its references replaced; None where one cannot be. Variables in `variables` come first."""
    try:
        resolved = resolve_values({"": text}, where="", environ={**os.environ, **variables} if "$" in text else {})[""]
    except (OptionsError, OSError, RuntimeError):  # not set; no current folder; no home
        return None
    return os.path.expanduser(str(resolved))  # noqa: PTH111 - it need not be a path


def _absolute_folder(below: str | None) -> str | None:
    """`below` as an absolute path, from the folder of this process; None where there is none."""
    with suppress(OSError):
        return None if below is None else str(Path.cwd() / below)
    return None


class ListingCacheFile:
    """The cache file of one server. Any thread may use it, one at a time.

    Args:
        path: where it is. Both it and its folder are made for their owner alone; a folder that is there already must be
            this user's, and writable by nobody else.
    """

    def __init__(self, path: Path) -> None:
        self.path: Final = path
        self._has_warned = False

    @classmethod
    def from_server(cls, folder: Path, name: str, server: AnyServer) -> ListingCacheFile:
        """The file for a server of that name and configuration."""
        return cls(folder / f"{config_fingerprint(name, server)}{_SUFFIX}")

    def load(self) -> Listing | None:
        """Read the listing; None where there is none that can be used."""
        try:
            content = self._read_file()
            if content is None:
                return None
            head, _, encoded = content.partition(b"\n")
            if head != _header(encoded):
                raise ValueError("it is damaged, or of another version")  # noqa: TRY301
            return Listing.from_json(encoded)
        except (OSError, ValueError) as failure:
            self._warn("is not used, and the server is asked instead", failure)
            return None

    def save(self, listing: Listing) -> None:
        """Keep `listing` in place of what was there."""
        try:
            content = _header(listing.encoded) + b"\n" + listing.encoded
            if len(content) > MAX_BYTES:
                raise ValueError(f"the server lists {len(content)} bytes; at most {MAX_BYTES} are kept")  # noqa: TRY301
            folder = self.path.parent
            make_private_folders(folder)
            check_private_file(folder, folder.stat())
            write_private_file(self.path, content)
        except (OSError, ValueError) as failure:
            self._warn("is not written", failure)

    def confirm(self) -> None:
        """Note that the server still lists the same."""
        with suppress(OSError):
            os.utime(self.path, follow_symlinks=False)

    def age_s(self) -> float | None:
        """Seconds since it was last confirmed; None where it is not there."""
        try:
            return max(0.0, time.time() - self.path.lstat().st_mtime)
        except OSError:
            return None

    def _read_file(self) -> bytes | None:
        folder = self.path.parent
        if not os.path.lexists(self.path):
            return None
        check_private_file(folder, folder.stat())
        # Without O_NONBLOCK a pipe in its place would hold us up for ever.
        opened = os.open(self.path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
        with os.fdopen(opened, "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise PermissionError("it is no file")
            check_private_file(self.path, status)
            content = file.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise ValueError(f"it is larger than {MAX_BYTES} bytes")
        return content

    def _warn(self, what: str, failure: Exception) -> None:
        level = logging.DEBUG if self._has_warned else logging.WARNING
        self._has_warned = True
        logger.log(level, "The catalog cache %s %s: %s", self.path, what, failure)


def remove_old_files(folder: Path) -> None:
    """Remove the files that have not been confirmed for `MAX_AGE_DAYS`, and temporary files that were left over."""
    oldest = time.time() - MAX_AGE_DAYS * 86_400
    with suppress(OSError):
        for path in [*folder.glob(f"*{_SUFFIX}"), *folder.glob(f"{TEMPORARY_PREFIX}*")]:
            with suppress(OSError):
                if path.lstat().st_mtime < oldest:
                    path.unlink()


def _header(encoded: bytes) -> bytes:
    return f"codecall-listing {FORMAT} {blake2b(encoded, digest_size=16).hexdigest()}".encode()
