"""The jail of a worker process: LAYERS, entered before the first script and never left.

Each layer stands for itself: were all the others missing, it would still hold what it says. A layer that the system
does not offer is reported, not hidden; whether the worker then runs at all is the preset's `require_jail`.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from functools import cache
from typing import Any, Final, NamedTuple, cast

from codecall.sandbox.wire import MAX_FRAME_BYTES, Layer
from codecall.sandbox.worker import syscalls

try:
    from landlock import plumbing as _plumbing  # pyright: ignore[reportMissingTypeStubs]
except ImportError as _failure:
    _landlock: Any = None
    _no_landlock = str(_failure)
else:
    _landlock = _plumbing
    _no_landlock = ""

WORKING_MEMORY_BYTES: Final = 5 * MAX_FRAME_BYTES
"""Address space beyond the engine's heap: a frame being read and one being written with their texts, and the second
thread's arena (64 MiB, reserved and hardly used)."""

NOBODY: Final = 65534
"""User and group of a worker whose server runs as root; the kernel's own overflow id."""

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS, _PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL = 1, 4, 38, 47, 4
_CAPABILITY_VERSION_3 = 0x20080522


class Terms(NamedTuple):
    """What the jail has to allow for."""

    memory_bytes: int
    """Engine heap."""
    cpu_seconds: int
    """Processor time of the worker's whole life."""
    size_bytes: int
    """Address space in use before; 0 where the system does not say."""


class _MissingError(Exception):
    """A layer that this system does not offer; says why."""


class Row(NamedTuple):
    """One layer."""

    name: str
    stops: str
    """What a worker that has been taken over cannot do because of it."""
    shut: Callable[[Terms], str]
    """Enters the layer; returns how it is set. Raises `_MissingError` or OSError."""


# ------------------------------------------------------------------------------------------------------- the layers


def _descriptors(_: Terms) -> str:
    os.closerange(1, _highest_descriptor())
    return ""


def _surroundings(_: Terms) -> str:
    os.environ.clear()
    # Otherwise it would be the machine's; some C libraries read the variable again, so it stays.
    os.environ["TZ"] = "UTC0"
    time.tzset()
    os.chdir("/")
    return ""


def _privileges(_: Terms) -> str:
    # Whoever may not change its identity holds no capability either once they are dropped.
    if os.getuid() == 0 or os.geteuid() == 0:
        try:
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
        except PermissionError:
            pass
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    _prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    if _libc().capset(header, (ctypes.c_uint32 * 6)()) != 0:
        raise OSError(ctypes.get_errno(), "capset")
    return f"user {os.getuid()}"


def _no_path(_: Terms) -> str:
    if _landlock is None:
        raise _MissingError(_no_landlock)
    rules, size, held = _ruleset()
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    # The package takes any number left in errno for a failure of its call.
    ctypes.set_errno(0)
    descriptor = cast("int", _landlock.get_create_ruleset()(ctypes.byref(rules), size, 0))
    ctypes.set_errno(0)
    _landlock.get_restrict_self()(descriptor, 0)
    os.close(descriptor)
    return held


def _limits(terms: Terms) -> str:
    space = terms.size_bytes + terms.memory_bytes + WORKING_MEMORY_BYTES
    wanted = {
        "AS": space if terms.size_bytes else None,
        "CPU": terms.cpu_seconds,
        **dict.fromkeys(("NOFILE", "FSIZE", "NPROC", "CORE", "MEMLOCK", "MSGQUEUE"), 0),
    }
    for name, value in wanted.items():
        number = cast("int | None", getattr(resource, f"RLIMIT_{name}", None))
        if number is not None and value is not None:
            resource.setrlimit(number, (value, value))
    size = f"address space {space >> 20} MiB, " if terms.size_bytes else ""
    return f"{size}processor {terms.cpu_seconds} s"


def _undumpable(_: Terms) -> str:
    _prctl(_PR_SET_DUMPABLE, 0)
    return ""


def _syscalls(_: Terms) -> str:
    if syscalls.MISSING is not None:
        raise _MissingError(syscalls.MISSING)
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    syscalls.enforce()
    return f"{len({row.name for row in syscalls.ALLOWED})} system calls allowed"


SHARED: Final = (
    Row("surroundings", "read an environment variable, or learn the server's folder or time zone", _surroundings),
    Row("privileges", "act as root when the server does, or with any capability, now or later", _privileges),
    Row("undumpable", "be looked into by another process of its user, or leave a core file", _undumpable),
)
"""Those that a fork server enters once for all its workers."""

OWN: Final = (
    Row("landlock", "open, list, create or run anything that has a path", _no_path),
    Row("descriptors", "use a file, socket or terminal of the server's: the pipe is all there is", _descriptors),
    Row("limits", "open a file, start a process or thread, take memory or processor time without end", _limits),
    Row("seccomp", "make any system call but those for memory, the pipe, the clock and the end", _syscalls),
)
"""Those that each worker enters itself. The first holds for a thread and those it starts, so that it comes before there
is a second thread; after the third there can be none."""

LAYERS: Final = (*SHARED, *OWN)
"""All of them, in order."""


class Shared(NamedTuple):
    """The first half of a jail."""

    layers: list[Layer]
    size_bytes: int
    """Address space in use, in bytes; 0 where the system does not say. Nobody inside can ask any more."""


def enter_shared() -> Shared:
    """Enter the layers that processes forked from this one share, and do ahead what can be done for all of them."""
    size = _address_space()
    with contextlib.suppress(OSError):  # reported when the layer is entered
        syscalls.prepare()
    with contextlib.suppress(OSError):
        _ruleset()
    terms = Terms(0, 0, size)
    return Shared([enter_layer(row, terms) for row in SHARED], size)


def enter_own(shared: Shared, memory_mb: int, cpu_seconds: int, start_threads: Callable[[], None]) -> list[Layer]:
    """Enter the rest; say which layers hold.

    Args:
        shared: The first half.
        memory_mb: Engine heap in MiB.
        cpu_seconds: Processor time for the rest of this process's life.
        start_threads: Starts what needs a thread of its own, when it is time.
    """
    terms = Terms(memory_mb << 20, cpu_seconds, shared.size_bytes)
    first = enter_layer(OWN[0], terms)
    start_threads()
    return [*shared.layers, first, *(enter_layer(row, terms) for row in OWN[1:])]


def end_with_parent() -> None:
    """Have the kernel end this process when the one that forked it ends.

    Raises:
        OSError: the kernel refuses.
    """
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def enter_layer(row: Row, terms: Terms) -> Layer:
    """Enter one layer; say whether it holds, and how it is set or why it is missing."""
    try:
        return Layer(row.name, active=True, stops=row.stops, detail=row.shut(terms))
    except _MissingError as missing:
        return Layer(row.name, active=False, stops=row.stops, detail=str(missing))
    except (OSError, ValueError, AttributeError) as failure:
        return Layer(row.name, active=False, stops=row.stops, detail=f"{type(failure).__name__}: {failure}")


# ------------------------------------------------------------------------------------------------------- the system


@cache
def landlock_abi() -> int:
    """The version of Landlock that this kernel offers.

    Raises:
        OSError: it offers none, or the package is missing.
    """
    if _landlock is None:
        raise OSError(errno.ENOSYS, _no_landlock)
    ctypes.set_errno(0)
    return cast("int", _landlock.landlock_abi_version())


@cache
def _ruleset() -> tuple[ctypes.Structure, int, str]:
    """`landlock_ruleset_attr` of the kernel's header with everything in it, its size here, and what it is called.

    The package knows its first field only.
    """
    abi = landlock_abi()
    more = (("handled_access_net", ctypes.c_uint64), ("scoped", ctypes.c_uint64))
    attributes: Any = type("RulesetAttributes", (_landlock.RulesetAttr,), {"_fields_": more})
    rules = attributes(int(_landlock.FSAccess.all()), _ALL_TCP if abi >= 4 else 0, _ALL_SCOPES if abi >= 6 else 0)
    held = f"ABI {abi}: files" + (", TCP" if abi >= 4 else "") + (", signals, abstract sockets" if abi >= 6 else "")
    return rules, 24 if abi >= 6 else 16 if abi >= 4 else 8, held


_ALL_TCP = 0b11
"""Bind and connect."""
_ALL_SCOPES = 0b11
"""Abstract sockets and signals: nothing outside this process."""


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _prctl(option: int, argument: int) -> None:
    if not sys.platform.startswith("linux"):
        raise _MissingError("Linux only")
    if _libc().prctl(option, argument, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _highest_descriptor() -> int:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return 1 << 20 if hard == resource.RLIM_INFINITY else min(hard, (1 << 31) - 1)


def _address_space() -> int:
    """Bytes of address space in use; 0 where the system does not say."""
    try:
        with open("/proc/self/statm", encoding="ascii") as statm:  # noqa: PTH123 - no pathlib after a fork
            return int(statm.read().split()[0]) * resource.getpagesize()
    except OSError:
        return 0
