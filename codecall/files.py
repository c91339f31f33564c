"""Files that only their owner may write: caches, which are trusted when they are read again, configurations that were
found and not named, and pages of traces. And files in folders that somebody else may have filled, links among them.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
import tempfile
from contextlib import suppress
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


def write_private_file(path: str | os.PathLike[str], content: str | bytes, *, mode: int = 0o600) -> None:
    """Replace the file at `path` by `content`, whole or not at all. A link of that name is replaced, and not followed.

    Args:
        mode: The rights of the file; without it, only its owner can read it.

    Raises:
        OSError: it cannot be written; what had that name is as it was.
    """
    target = Path(path)
    handle, name = tempfile.mkstemp(prefix=TEMPORARY_PREFIX, suffix=".part", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
        if mode != 0o600:  # as mkstemp creates it
            Path(name).chmod(mode)
        os.replace(name, target)  # noqa: PTH105 - beside mkstemp, which gives a name
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def write_project_file(path: Path, text: str) -> None:
    """Write a file of a project, with the rights that it has, or that new files get.

    Raises:
        OSError: it cannot be written, or is no plain file; links are not followed.
    """
    try:
        status = path.lstat()
    except FileNotFoundError:
        with path.open("x", encoding="utf-8", newline="\n") as file:
            file.write(text)
        return
    check_plain_file(path, status)
    write_private_file(path, text, mode=stat.S_IMODE(status.st_mode))


def check_plain_file(path: Path, status: os.stat_result) -> None:
    """Refuse what is written to where it is a link, or no file.

    Args:
        status: As `lstat` says.

    Raises:
        OSError: it is.
    """
    if stat.S_ISLNK(status.st_mode):
        raise OSError(errno.ELOOP, f"it is a link, to {path.readlink()}, and links are not followed")
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "it is no file")


def check_stays_inside(folder: Path) -> None:
    """Refuse a folder that is about to be written to if it is named by a path from the working directory, and a link
    on that path leads elsewhere: a repository that was cloned may hold one. Home folders, and those above, are not
    looked at: what links there are is for their users to say.

    Raises:
        OSError: a link leads elsewhere.
    """
    try:
        here = os.path.realpath(os.curdir)
    except FileNotFoundError:  # it was removed, and nothing is below it
        return
    named = folder.absolute()
    for above in (named, *named.parents):
        if os.path.realpath(above) == here:
            break
    else:
        return
    # With `..` in the path, the folder above that both are in.
    outer = os.path.commonpath([here, os.path.normpath(here / named.relative_to(above))])
    with suppress(RuntimeError):  # no home
        if Path(os.path.realpath(Path.home())).is_relative_to(outer):
            return
    real = Path(os.path.realpath(named))
    if not real.is_relative_to(outer):
        raise OSError(errno.ELOOP, f"a link on the way leads out of {outer}, to {real}")


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
