"""Configurations of folders that this user has trusted: whoever writes one decides what is started, and which secrets
of the environment go where. A repository that was cloned may hold one.

Trust belongs to a file's path and to a digest of all that it configures, the files of environment variables it names
included; what changes must be trusted anew. Each trusted file has a record in the user's data folder.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from codecall.errors import OptionsError
from codecall.files import check_private_file, make_private_folders, write_private_file

if TYPE_CHECKING:
    from codecall.gateway.config.load import Configuration
    from codecall.gateway.config.options import AnyServer, GatewayOptions


class TrustRecord(NamedTuple):
    """A file that was trusted."""

    file: Path
    state: Literal["trusted", "changed", "gone"]
    """`changed`: what it configures is not what was trusted, or cannot be read."""


_SHELLS: Final = frozenset(
    {"sh", "bash", "dash", "ash", "zsh", "ksh", "fish", "powershell", "pwsh", "perl", "ruby", "php"}
)
"""Programs, beside runners, whose arguments may be code."""
_MAX_CODE_CHARS: Final = 400
"""Characters of such arguments that are shown."""


def require_trust(file: Path, configuration: Configuration) -> None:
    """Refuse a configuration that was found in a folder, and not named, unless it was trusted as it is now.

    Raises:
        OptionsError: it was not, with the code UNTRUSTED_CONFIGURATION.
    """
    record = _read_record(_record_path(file))
    if record is not None and record[1] == _digest(file, configuration):
        return
    state = "is not trusted" if record is None else "has changed since it was trusted"
    raise OptionsError(
        f"{file} {state}, and decides what is started: {describe_started(configuration.options)}",
        code="UNTRUSTED_CONFIGURATION",
        hint=f"Look at it; then say `codecall trust {file}`, or name it in the command: --config {file}",
    )


def trust(file: Path, configuration: Configuration) -> None:
    """Trust what a file configures now.

    Raises:
        OSError: that cannot be recorded.
    """
    record = _record_path(file)
    make_private_folders(record.parent)
    check_private_file(record.parent, record.parent.stat())
    write_private_file(record, f"{_digest(file, configuration)}\n{_real_path(file)}")


def remove_trust(file: Path) -> bool:
    """Trust a file no longer; whether it was trusted.

    Raises:
        OSError: its record cannot be removed.
    """
    record = _record_path(file)
    found = record.exists()
    record.unlink(missing_ok=True)
    return found


def trust_records() -> Iterator[TrustRecord]:
    """Every file that was trusted, by path."""
    from codecall.gateway.config.load import read_config

    folder = _folder()
    records = [_read_record(record) for record in folder.iterdir()] if folder.is_dir() else []
    for name, digest in sorted(record for record in records if record is not None):
        file = Path(name)
        if not file.exists():
            yield TrustRecord(file, "gone")
            continue
        try:
            same = _digest(file, read_config(file, discovered=True)) == digest
        except OptionsError:
            same = False
        yield TrustRecord(file, "trusted" if same else "changed")


def describe_started(options: GatewayOptions) -> str:
    """The servers of a configuration in one line, without secrets."""
    servers = options.servers.items()
    return "; ".join(f"{name}: {_describe_server(server)}" for name, server in servers) or "no servers"


def _describe_server(server: AnyServer) -> str:
    """A server without secrets; with the arguments of a shell or an interpreter where these may be code, cut if they
    are long."""
    from codecall.audit.values import redact_script
    from codecall.gateway.config.names import describe_server, is_runner, looks_secret, program_stem
    from codecall.gateway.config.options import StdioServer

    described = describe_server(server)
    if not isinstance(server, StdioServer) or not server.args or described != server.command:
        return described
    stem = program_stem(server.command)
    if stem not in _SHELLS and not is_runner(stem):
        return described
    text = shlex.join(server.args).replace("\r", "\\r").replace("\n", "\\n")
    text = redact_script(" ".join("…" if looks_secret(word) else word for word in text.split(" ")))
    rest = len(text) - _MAX_CODE_CHARS
    return f"{described} {text[:_MAX_CODE_CHARS]}{f'… and {rest} characters more' if rest > 0 else ''}"


def _folder() -> Path:
    from platformdirs import user_data_path

    return user_data_path("codecall", appauthor=False) / "trusted"


def _real_path(file: Path) -> str:
    # A link is a file of its own: relative paths in it are those of the folder it lies in.
    return str(file.parent.resolve() / file.name)


def _record_path(file: Path) -> Path:
    return _folder() / sha256(os.fsencode(_real_path(file))).hexdigest()


def _read_record(record: Path) -> tuple[str, str] | None:
    """Path and digest of a record; None where there is none, or somebody else may have written it."""
    try:
        check_private_file(record.parent, record.parent.stat())
        check_private_file(record, record.stat())
        digest, _, name = record.read_text(encoding="utf-8", errors="surrogateescape").partition("\n")
    except OSError:
        return None
    return name, digest


def _digest(file: Path, configuration: Configuration) -> str:
    """A digest of everything that a file decides: made of what was read, so that later changes have no effect."""
    options = configuration.options.model_dump(exclude_unset=True)
    env_files = {name: getattr(server, "env_file", None) for name, server in configuration.options.servers.items()}
    contents = {name: _file_digest(option) for name, option in env_files.items() if option is not None}
    return sha256(repr((_real_path(file), options, contents)).encode("utf-8", "backslashreplace")).hexdigest()


def _file_digest(option: str) -> tuple[str, str | None] | None:
    """The path of an `env_file` as a start reads it, and a digest of the content; None for what no start reads."""
    from codecall.gateway.config.variables import env_file_bytes, env_file_path

    path = env_file_path(option, os.environ)
    try:
        content = None if path is None else env_file_bytes(path)
    except OSError:
        content = None
    return None if path is None else (str(path), None if content is None else sha256(content).hexdigest())
