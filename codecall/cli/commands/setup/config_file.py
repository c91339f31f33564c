"""The configuration that commands edit: which file it is, and how a change of it is saved and stays trusted."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from codecall.cli.arguments import CONFIG_FILES, find_configuration, user_config_folder
from codecall.errors import CodeCallError, OptionsError
from codecall.files import check_plain_file, check_stays_inside, write_private_file

if TYPE_CHECKING:
    from codecall.gateway.config.options import GatewayOptions


class EditedFile(NamedTuple):
    """A configuration, as it is before a change."""

    path: Path
    text: str
    """Empty where there is no file yet."""
    options: GatewayOptions
    is_trusted: bool
    """Whether it counts here without being named; a new file does."""


def edited_file(named: Path | None) -> EditedFile:
    """The file to change: the one that is named, else the one that counts here, else a new one in this folder.

    Raises:
        CodeCallError: it cannot be read, is wrong, or is not TOML; or it was found and not named, and is not trusted.
    """
    from codecall.cli.trust import require_trust
    from codecall.gateway.config.load import read_config
    from codecall.gateway.config.options import GatewayOptions

    found = find_configuration() if named is None else None
    path = (named or (found and found.found) or Path(CONFIG_FILES[0])).expanduser().absolute()
    if path.suffix != ".toml":
        hint = f"Change it with an editor, or write {CONFIG_FILES[0]} with `codecall init --config {path}`."
        raise CodeCallError(f"{path} is not TOML, which is all that commands change", code="CANNOT_WRITE", hint=hint)
    if not path.exists():
        return EditedFile(path, "", GatewayOptions(), is_trusted=True)
    configuration = found or read_config(path)
    try:
        require_trust(path, configuration)
        is_trusted = True
    except OptionsError:
        is_trusted = False
    return EditedFile(path, path.read_text(encoding="utf-8"), configuration.options, is_trusted)


def save_edit(file: EditedFile, text: str) -> None:
    """Replace the file by `text`, and trust it if what it was before is trusted.

    Raises:
        CodeCallError: it cannot be written, is a link, or would not be a configuration.
    """
    from codecall.cli.trust import trust
    from codecall.gateway.config.load import read_config

    path = written_file(file.path)
    try:
        write_private_file(path, text)
        configuration = read_config(file.path)
        if file.is_trusted:
            trust(file.path, configuration)
    except OSError as failure:
        raise CodeCallError(f"Cannot write {file.path}: {failure.strerror}", code="CANNOT_WRITE") from None
    except OptionsError:
        if file.text:
            write_private_file(path, file.text)
        else:
            path.unlink()
        raise


def counts_everywhere(path: Path) -> bool:
    """Whether a file is the user's configuration, which is read in every folder and needs no trust."""
    own = {os.path.realpath(user_config_folder() / name) for name in CONFIG_FILES}
    return os.path.realpath(path) in own


def written_file(path: Path, *, is_users: bool = False) -> Path:
    """The file that is written where `path` is named. A link in the user's configuration folder stays one, as people
    have who keep such files elsewhere. Any other may have come with a repository, and none is followed.

    Args:
        is_users: Whether it is a file of the user, as those in the configuration folder are.

    Raises:
        CodeCallError: it is a link, or no file; or a link on the way leads out of the working directory.
    """
    real = Path(os.path.realpath(path))
    if is_users:
        return real
    try:
        check_stays_inside(path.parent)
        if os.path.realpath(path.parent) == os.path.realpath(user_config_folder()):
            return real
        if os.path.lexists(path):
            check_plain_file(path, path.lstat())
    except OSError as failure:
        hint = "Remove the link, or name another file." if failure.errno == errno.ELOOP else None
        raise CodeCallError(f"Cannot write {path}: {failure.strerror}", code="CANNOT_WRITE", hint=hint) from None
    return path


def replace_file(path: Path, text: str, *, private: bool = False, is_users: bool = False) -> Path | None:
    """Write a file, whole or not at all; returns where what it was before is kept, under a name that nothing had.

    Args:
        private: Whether only its owner can read it afterwards.
        is_users: As for `written_file`.

    Raises:
        CodeCallError: it cannot be written, or is a link.
    """
    path = written_file(path, is_users=is_users)
    backup: Path | None = None
    mode = 0o600
    try:
        if path.exists():
            mode = mode if private else stat.S_IMODE(path.stat().st_mode)
            before = path.read_bytes()
            if before.strip():
                names = (path.with_name(f"{path.name}.backup-{number}") for number in range(1, 10_000))
                backup = next(name for name in names if not os.path.lexists(name))
                write_private_file(backup, before)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_private_file(path, text, mode=mode)
    except OSError as failure:
        raise CodeCallError(f"Cannot write {path}: {failure.strerror}", code="CANNOT_WRITE") from None
    return backup
