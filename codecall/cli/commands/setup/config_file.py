"""The configuration that commands edit: which file it is, and how a change of it is saved and stays trusted."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from codecall.cli.arguments import CONFIG_FILES, find_configuration
from codecall.errors import CodeCallError, OptionsError
from codecall.files import write_private_file

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
        CodeCallError: it cannot be written, or would not be a configuration.
    """
    from codecall.cli.trust import trust
    from codecall.gateway.config.load import read_config

    try:
        write_private_file(file.path, text)
        configuration = read_config(file.path)
        if file.is_trusted:
            trust(file.path, configuration)
    except OSError as failure:
        raise CodeCallError(f"Cannot write {file.path}: {failure.strerror}", code="CANNOT_WRITE") from None
    except OptionsError:
        if file.text:
            write_private_file(file.path, file.text)
        else:
            file.path.unlink()
        raise


def replace_file(path: Path, text: str, *, private: bool = False) -> Path | None:
    """Write a file, whole or not at all; returns where what it was before is kept, under a name that nothing had.

    Args:
        private: Whether only its owner can read it afterwards.

    Raises:
        CodeCallError: it cannot be written.
    """
    path = path.resolve()  # a link, as people have who keep such files elsewhere, stays one
    backup: Path | None = None
    try:
        mode = path.stat().st_mode if path.exists() and not private else None
        before = path.read_bytes() if path.exists() else b""
        if before.strip():
            number = next(n for n in range(1, 10_000) if not path.with_name(f"{path.name}.backup-{n}").exists())
            backup = path.with_name(f"{path.name}.backup-{number}")
            write_private_file(backup, before)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_private_file(path, text)
        if mode is not None:
            path.chmod(mode)
    except OSError as failure:
        raise CodeCallError(f"Cannot write {path}: {failure.strerror}", code="CANNOT_WRITE") from None
    return backup
