"""What the gateway answered on an earlier start, kept on disk, so that the next start can say it before it has imported
anything.

A record belongs to one way of calling `codecall serve`: the same words in the same folder with the same settings, the
same Python and the same packages. It names every file its answers came from; when one of them has changed, is gone or
has appeared, or anything at all is odd, there is no record. Nothing in it is secret: answers are what servers list of
themselves, of variables there is only a digest, and only its owner can read it.

Standard library only: this is read before anything else is imported.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

FORMAT: Final = 1
MAX_BYTES: Final = 32 * 1024 * 1024
"""Bytes a record may have. A larger one is not written and not read."""
MAX_ANSWERS: Final = 64
"""Answers a record may have: clients that differ in what they can do get answers of their own. The oldest go first."""
SETTINGS: Final = ("CODECALL_", "FASTMCP_", "MCP_")
"""Environment variables that may change an answer, by how their names begin."""
PLACES: Final = (
    *("HOME", "USERPROFILE", "APPDATA", "LOCALAPPDATA", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"),
    *("CLAUDE_CONFIG_DIR", "VSCODE_PORTABLE"),
)
"""Those that say where files are looked for."""

ABSENT: Final = -1
IRREGULAR: Final = -2
_STREAMS: Final = ("/dev/", "/proc/")
"""Folders of what may be there once only, whatever it seems to be: a shell's `<(…)`."""

_PACKAGE: Final = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class Seen(NamedTuple):
    """One file as it was: contents by digest, or only its size and time where contents are large and never edited."""

    path: str
    digest: str | None
    size: int
    """`ABSENT`: there was none; `IRREGULAR`: a pipe or the like, which reading would empty. It is not read."""
    changed_ns: int

    @classmethod
    def of(cls, path: str, *, contents: bool) -> Seen:
        """The file as it is now."""
        try:
            if not contents:
                found = os.stat(path)
                return cls(path, None, found.st_size, found.st_mtime_ns)
            text = regular(path)
        except OSError:
            return cls(path, "" if contents else None, ABSENT, 0)
        if text is None:
            return cls(path, "", IRREGULAR, 0)
        return cls(path, hashlib.sha256(text).hexdigest(), len(text), 0)


def regular(path: str) -> bytes | None:
    """What is in a file; None: it is a pipe or the like. Waits for nobody.

    Raises:
        OSError: it cannot be read, or is a folder.
    """
    if os.path.abspath(path).startswith(_STREAMS):
        return None
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with os.fdopen(descriptor, "rb") as file:
        return file.read() if stat.S_ISREG(os.fstat(descriptor).st_mode) else None


def folder(words: Sequence[str]) -> str | None:
    """Where records are kept for `codecall serve` with these words; None: nowhere."""
    if "--no-cache" in words:
        return None
    named = os.environ.get("CODECALL_CACHE_DIR") or None
    for word, following in pairwise((*words, None)):
        if word == "--cache-dir" and following is not None:
            named = following
        elif word is not None and word.startswith("--cache-dir="):
            named = word.partition("=")[2]
    if named is None:
        home = os.path.expanduser("~")
        usual = os.path.join(home, "Library", "Caches") if sys.platform == "darwin" else os.path.join(home, ".cache")
        chosen = os.environ.get("XDG_CACHE_HOME", "") if sys.platform != "darwin" else ""
        named = os.path.join(chosen if os.path.isabs(chosen) else usual, "codecall")
    return os.path.join(os.path.abspath(os.path.expanduser(named)), "starts")


def place(words: Sequence[str]) -> str | None:
    """The file for `codecall serve` with these words, here and now; None: none is kept."""
    kept = folder(words)
    return None if kept is None else os.path.join(kept, f"{identity(words)}.json")


def identity(words: Sequence[str]) -> str:
    """What must be the same for an answer to be the same, but for files."""
    environment = sorted(
        (name, value) for name, value in os.environ.items() if name.startswith(SETTINGS) or name in PLACES
    )
    said = [FORMAT, list(words), os.getcwd(), environment, sys.version, sys.executable, sys.prefix, _PACKAGE]
    return hashlib.sha256(json.dumps(said).encode()).hexdigest()[:40]


def recall(path: str | None) -> dict[str, str]:
    """The answers kept there, by question; none where there is any doubt."""
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError, RecursionError):
        if path is not None and (text := _own(path)) is not None:
            kept = json.loads(text)
            seen = [Seen(*entry) for entry in kept["files"]]
            unchanged = all(Seen.of(entry.path, contents=entry.digest is not None) == entry for entry in seen)
            if kept["format"] == FORMAT and unchanged and kept["variables"] == variables(kept["named"]):
                return {str(question): str(answer) for question, answer in kept["answers"]}
    return {}


def keep(
    path: str,
    answers: Mapping[str, str],
    *,
    files: Iterable[str],
    packages: Iterable[str] = (),
    named: Iterable[str] = (),
) -> None:
    """Write a record; one that cannot be written, or compared with files later on, is done without.

    Args:
        path: From `place`.
        answers: Results as JSON text, by question.
        files: What they came from, whether there or not: configurations, catalogs.
        packages: Files of installed packages, which change with their version.
        named: Environment variables that configurations refer to.
    """
    named = sorted({*named})
    seen = [Seen.of(file, contents=True) for file in sorted({*files})]
    seen += [Seen.of(file, contents=False) for file in sorted({*packages})]
    if any(entry.size == IRREGULAR for entry in seen):
        return
    text = json.dumps(
        {
            "format": FORMAT,
            "files": seen,
            "named": named,
            "variables": variables(named),
            "answers": list(answers.items())[-MAX_ANSWERS:],
        }
    ).encode()
    if len(text) <= MAX_BYTES:
        with contextlib.suppress(OSError):
            _write(path, text)


def variables(named: Sequence[str]) -> str:
    """One digest over these environment variables."""
    values = [[name, os.environ.get(name)] for name in named]
    return hashlib.sha256(json.dumps(values).encode()).hexdigest() if values else ""


def _write(path: str, text: bytes) -> None:
    parent = os.path.dirname(path)
    os.makedirs(parent, mode=0o700, exist_ok=True)
    if not _safe(os.lstat(parent), stat.S_ISDIR):
        return
    # A name of its own: two gateways may end at the same moment.
    draft = f"{path}.{os.getpid()}.new"
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(text)
        os.replace(draft, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(draft)
        raise


def _own(path: str) -> bytes | None:
    """What is in a file that nobody else can have written."""
    if not _safe(os.lstat(os.path.dirname(path)), stat.S_ISDIR):
        return None
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        return file.read() if _safe(found, stat.S_ISREG) and found.st_size <= MAX_BYTES else None


def _safe(found: os.stat_result, kind: Callable[[int], bool]) -> bool:
    """Whether it is of that kind, and nobody else may write to it."""
    mine = not hasattr(os, "getuid") or found.st_uid == os.getuid()
    return kind(found.st_mode) and mine and not found.st_mode & 0o022
