"""Files that only their owner may write: caches, which are trusted when they are read again, configurations that were
found and not named, and pages of traces."""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from pathlib import Path
from typing import Final

TEMPORARY_PREFIX: Final = ".codecall-"
"""What names of files begin with that are being written."""


def make_private_folders(folder: Path) -> None:
    """Create `folder`, and those above it that are missing, for their owner alone.

    Raises:
        OSError: it cannot be created.
    """
    for each in (*reversed(folder.parents), folder):
        if not each.exists():
            each.mkdir(mode=0o700, exist_ok=True)


def write_private_file(path: str | os.PathLike[str], content: str | bytes) -> None:
    """Replace the file at `path` by `content`, whole or not at all; readable by its owner only.

    Raises:
        OSError: it cannot be written; what had that name is as it was.
    """
    target = Path(path)
    handle, name = tempfile.mkstemp(prefix=TEMPORARY_PREFIX, suffix=".part", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
        os.replace(name, target)  # noqa: PTH105 - beside mkstemp, which gives a name
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def check_private_file(path: Path, status: os.stat_result) -> None:
    """Refuse a file or folder of a cache that anybody but this user could have written to.

    Raises:
        PermissionError: it is another user's, or others may write to it.
    """
    if sys.platform == "win32":  # rights are lists there, and a user's folders are closed to others
        return
    if status.st_uid != os.geteuid():
        raise PermissionError(f"{path} belongs to another user; choose another cache_dir")
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise PermissionError(f"others may write to {path}; chmod go-w, or choose another cache_dir")


def check_found_file(path: Path, status: os.stat_result) -> None:
    """Refuse a file that was found, and not named, unless it is this user's or the system's own. Where each user has a
    group for themselves alone, that group may write to it, as new files there let it.

    Raises:
        PermissionError: it is another user's, or others may write to it.
    """
    if sys.platform == "win32":
        return
    if status.st_uid not in (os.geteuid(), 0):
        raise PermissionError(f"{path} belongs to another user")
    if status.st_mode & stat.S_IWOTH or (status.st_mode & stat.S_IWGRP and not _is_alone_in_group(status)):
        raise PermissionError(f"others may write to {path}")


def _is_alone_in_group(status: os.stat_result) -> bool:
    """Whether the file's owner is the only member of its group."""
    if sys.platform == "win32":
        return True
    import grp
    import pwd

    try:
        group, owner = grp.getgrgid(status.st_gid), pwd.getpwuid(status.st_uid)
    except KeyError:
        return False
    return group.gr_name == owner.pw_name and {*group.gr_mem} <= {owner.pw_name}
