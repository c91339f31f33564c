"""A folder where a person decides about calls that nobody could be asked for, and withdraws what has been allowed.

    pending/ID.json   a call that ended its run; written by the server
    decided/ID.json   a person's decision (`codecall approvals`); the process that removes it makes the call, once
    grants/ID.json    what has been allowed in advance; a grant whose file is gone counts no more

Files are read and written in threads. Write access to the folder makes an operator. All gateways of a user share
`default_folder()`: what is decided there is for the process that asked, and is gone with it, since another gateway may
have tools of the same names.
"""

from __future__ import annotations

import json
import logging
import os
import re
import shlex
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, Literal, TypeVar, cast

from codecall.approvals.grants import Grant, GrantKey
from codecall.approvals.request import ApprovalRequest, Decision
from codecall.files import check_private_file, make_private_folders, write_private_file
from codecall.jsonio.decode import sha256

logger = logging.getLogger("codecall")

PENDING_S: Final = 86_400.0
"""Seconds after which a call without a decision is dropped."""

DECIDED_S: Final = 3_600.0
"""Seconds after which a decision that no call has used is worth nothing."""

MAX_PENDING: Final = 1_000
"""Most calls that wait for a decision; of one more nothing is kept."""

MAX_PENDING_OF_CALLER: Final = 100
"""Most of them of one caller, so that none takes the room of others."""

MAX_FILE_BYTES: Final = 512 * 1024
"""Most bytes of a file: a call whose input can be shown needs 400,000 at worst."""

T = TypeVar("T")

_WRITER: Final = ThreadPoolExecutor(1, "approvals")

_ID: Final = re.compile(r"(call|grant)_[A-Za-z0-9_-]{10,40}")

Verdict = Literal["once", "session", "deny"]
"""What a person says of a call: it may be made once, or all with its input in the session, or not."""


def shell_quoted(argument: str) -> str:
    """An argument as the shell of this machine takes it."""
    return subprocess.list2cmdline([argument]) if os.name == "nt" else shlex.quote(argument)


def default_folder() -> Path:
    """The folder of gateways whose options name none."""
    from platformdirs import user_state_path  # most servers have a folder, or none

    return user_state_path("codecall", appauthor=False) / "approvals"


class ApprovalFolder:
    """A folder in which calls wait for the decisions of persons.

    Args:
        folder: Its path; it is made when it is needed.
        process: Which process it is for, where several share the folder.
    """

    def __init__(self, folder: Path, process: str = "") -> None:
        self._folder = folder
        self._process = process
        self._asked: set[str] = set()
        """The calls that wait for this process alone."""
        self._kept: set[str] = set()
        """The grants whose files have been written."""

    # ----------------------------------------------------------------------------------------------- the server

    def ask(self, calls: Sequence[tuple[ApprovalRequest, GrantKey]]) -> list[str]:
        """Have calls of one caller wait for decisions; the ids of those for which they do. One that has been decided
        waits for none, and of what is beyond the limits nothing is kept."""
        waiting = {file.stem for file in self._files("pending", PENDING_S)}
        of_caller = len([stem for stem in waiting if stem.startswith(_caller_part(calls[0][1].caller))])
        asked: list[str] = []
        for request, key in calls:
            call_id = self._call_id(key, request.digest)
            if call_id in asked or self._file("decided", call_id).exists():
                continue
            if call_id not in waiting and (len(waiting) >= MAX_PENDING or of_caller >= MAX_PENDING_OF_CALLER):
                counts = (len(waiting), of_caller)
                logger.warning("approvals: %d calls wait, %d of them of this caller; no more are kept", *counts)
                break
            body = {**request.as_dict(), "id": call_id, "shown": request.shown, "runId": request.run_id}
            if not self._write("pending", call_id, body):
                break
            if call_id not in waiting:
                waiting.add(call_id)
                of_caller += 1
            if self._process:
                self._asked.add(call_id)
            asked.append(call_id)
        return asked

    @property
    def path(self) -> str:
        """The path of the folder as a command takes it; empty where commands find it by themselves."""
        return "" if self._process else shell_quoted(str(self._folder.absolute()))

    def hint(self, call_ids: Sequence[str], path: str) -> str:
        """What to do so that calls may be made.

        Args:
            call_ids: The ids of the calls.
            path: `path`, if who reads it is at this machine and may know it; else empty.
        """
        command, where = f"codecall approvals allow {' '.join(call_ids)}", ""
        if path:
            command += f" --folder {path}"
        elif not self._process:
            where = " with `--folder` and the `approvals.folder` of this server"
        return (
            f"The operator may allow {'it' if len(call_ids) == 1 else 'them'} where the server runs: "
            f"`{command}`{where}. Then send the same request again: calls that have completed are not made again."
        )

    def decision(self, key: GrantKey, digest: str) -> Decision | None:
        """What a person has said of a call, which counts once; None while they have said nothing."""
        call_id = self._call_id(key, digest)
        body = self._read(file := self._file("decided", call_id), DECIDED_S)
        # Who may move a file may not make a decision about one call one about another.
        if body is None or body.get("id") != call_id or not _removed(file):
            return None
        _removed(self._file("pending", call_id))
        match body.get("verdict"):
            case "once":
                return Decision.once()
            case "session":
                return Decision.same_input("session")
            case _:
                return Decision.deny()

    def keep_grant(self, grant: Grant) -> None:
        """Write a grant into the folder, where it can be withdrawn."""
        body = {
            "id": grant.id,
            "tool": grant.tool,
            "lifetime": grant.lifetime,
            "shown": grant.shown,
            "calls": grant.calls_left,
            "expires": grant.expires,
        }
        if self._write("grants", grant.id, body):
            self._kept.add(grant.id)

    def withdrawn(self, grants: Iterable[Grant]) -> list[str]:
        """The ids of those grants that somebody has withdrawn."""
        return [grant.id for grant in grants if grant.id in self._kept and not self._file("grants", grant.id).exists()]

    def forget_grants(self, ids: Iterable[str]) -> None:
        """Show these grants no longer: they have ended."""
        for grant_id in ids:
            self._kept.discard(grant_id)
            _removed(self._file("grants", grant_id))

    def close(self) -> None:
        """Show no more of what ends with this process."""
        self.forget_grants(list(self._kept))
        for call_id in self._asked:
            for kind in ("pending", "decided"):
                _removed(self._file(kind, call_id))
        self._asked.clear()

    def _call_id(self, key: GrantKey, digest: str) -> str:
        """Names a call of a caller: the same again if a later run makes it."""
        parts = [key.caller, key.tool, key.version, digest, *([self._process] if self._process else [])]
        return f"{_caller_part(key.caller)}{sha256(json.dumps(parts))[:20]}"

    # -------------------------------------------------------------------------------------------- the operator

    def pending(self) -> list[dict[str, Any]]:
        """The calls that wait for a decision, the oldest first."""
        return [body for file in self._files("pending", PENDING_S) if (body := self._read(file, PENDING_S)) is not None]

    def grants(self) -> list[dict[str, Any]]:
        """What has been allowed in advance and has not expired."""
        bodies = [self._read(file) for file in self._files("grants")]
        return [body for body in bodies if body is not None and cast("float", body.get("expires", 0)) > time.time()]

    def decide(self, call_id: str, verdict: Verdict) -> bool:
        """Say whether a call may be made; whether there is such a call, which can be read."""
        if not _ID.fullmatch(call_id) or self._read(self._file("pending", call_id), PENDING_S) is None:
            return False
        if not self._write("decided", call_id, {"id": call_id, "verdict": verdict}):
            raise OSError(f"nothing can be written to {self._folder}")
        return _removed(self._file("pending", call_id))

    def revoke(self, grant_id: str) -> bool:
        """Withdraw a grant; whether there was one."""
        return _ID.fullmatch(grant_id) is not None and _removed(self._file("grants", grant_id))

    def _file(self, kind: str, name: str) -> Path:
        return self._folder / kind / f"{name}.json"

    def _files(self, kind: str, max_age_s: float | None = None) -> Iterable[Path]:
        """The files of one kind, the oldest first; those that are too old are removed."""
        found: list[tuple[float, Path]] = []
        folder = self._folder / kind
        for file in () if folder.is_symlink() else folder.glob("*.json"):
            if not _ID.fullmatch(file.stem):
                continue
            try:
                age_s = time.time() - file.stat().st_mtime
            except OSError:
                continue
            if max_age_s is not None and age_s > max_age_s:
                _removed(file)
            else:
                found.append((-age_s, file))
        return [file for _, file in sorted(found)]

    def _read(self, file: Path, max_age_s: float | None = None) -> dict[str, Any] | None:
        """What a file says; None if there is none, or it is too old, or not the operator's."""
        try:
            status = file.stat()
            self._check_folders(file)
            check_private_file(file, status)
            if status.st_size > MAX_FILE_BYTES or (max_age_s and time.time() - status.st_mtime > max_age_s):
                return None
            body: object = json.loads(file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as failure:
            logger.warning("approvals: %s is not used: %s", file, failure)
            return None
        return cast("dict[str, Any]", body) if isinstance(body, dict) else None

    def _write(self, kind: str, name: str, body: Mapping[str, object]) -> bool:
        file, text = self._file(kind, name), json.dumps(body, ensure_ascii=True)
        if len(text) > MAX_FILE_BYTES:
            logger.warning("approvals: %s is not written: %d bytes are more than a file may have", file, len(text))
            return False
        try:
            make_private_folders(file.parent)
            self._check_folders(file)
            write_private_file(file, text)
        except OSError as failure:
            logger.warning("approvals: %s cannot be written: %s", file, failure)
            return False
        return True

    def _check_folders(self, file: Path) -> None:
        """Refuse folders where others could put or move a file, and links to others within the folder."""
        if file.parent.is_symlink():
            raise PermissionError(f"{file.parent} is a link")
        for folder in (self._folder, file.parent):
            check_private_file(folder, folder.stat())


def in_thread(work: Callable[[T], None], about: T) -> None:
    """Have the folder's files changed in the one thread for that, in the order of these calls, without waiting."""
    _WRITER.submit(work, about)


def _caller_part(caller: str) -> str:
    """How the ids of a caller's calls begin."""
    return f"call_{sha256(caller)[:8]}"


def _removed(file: Path) -> bool:
    try:
        file.unlink()
    except OSError:
        return False
    return True
