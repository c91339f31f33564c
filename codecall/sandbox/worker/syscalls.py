"""What a jailed worker may ask of the kernel: ALLOWED. Everything else kills the process, but for REFUSED.

One row per system call, with the arguments it is allowed for and what needs it.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
from functools import cache
from typing import Any, Final, Literal, NamedTuple

try:
    import pyseccomp as _pyseccomp  # pyright: ignore[reportMissingTypeStubs]
except (ImportError, RuntimeError, OSError) as _failure:  # not Linux, not installed, or no libseccomp on the system
    _library: Any = None
    _trouble = str(_failure)
else:
    _library = _pyseccomp
    _trouble = None

MISSING: Final = _trouble
"""Why there can be no filter here; None when there can."""

PIPE: Final = 0
"""The descriptor of the pipe to the server."""


class Condition(NamedTuple):
    """What must hold of one argument."""

    argument: int
    """Its position, from 0."""
    test: Literal["is", "at most", "lacks", "has"]
    value: int
    """`lacks` and `has`: bits of the argument."""


class Row(NamedTuple):
    """One system call."""

    name: str
    why: str
    conditions: tuple[Condition, ...] = ()


_ON_PIPE = (Condition(0, "is", PIPE), Condition(3, "is", 0), Condition(4, "is", 0))
"""Without flags, without an address."""
_ONLY_PIPE = (Condition(0, "at most", PIPE + 1),)
_NOT_EXECUTABLE = Condition(2, "lacks", mmap.PROT_EXEC)

_OWN_CLOCKS = (Condition(0, "at most", 7),)
_MADV_DONTNEED = 4
_PRIVATE = 128
"""The bit of a futex that no other process takes part in."""

ALLOWED: Final = (
    # the pipe
    Row("recvfrom", "read a frame", _ON_PIPE),
    Row("sendto", "write a frame", _ON_PIPE),
    Row("pselect6", "look whether a frame has come", _ONLY_PIPE),
    Row("select", "the same, with other C libraries", _ONLY_PIPE),
    # memory
    Row("brk", "the heap grows"),
    Row("mmap", "new memory: of no file, never executable", (Condition(3, "has", mmap.MAP_ANONYMOUS), _NOT_EXECUTABLE)),
    Row("mprotect", "the heap of the second thread grows; never executable", (_NOT_EXECUTABLE,)),
    Row("mremap", "a large block grows"),
    Row("munmap", "memory given back"),
    Row("madvise", "memory given back; not shared with equal pages of others", (Condition(2, "is", _MADV_DONTNEED),)),
    # clock
    Row("clock_gettime", "the script's time, where the kernel offers no shorter way; no clock of others", _OWN_CLOCKS),
    Row("gettimeofday", "the same, for the engine's Date"),
    Row("clock_nanosleep", "the watchdog waits", _OWN_CLOCKS),
    Row("nanosleep", "the same, with other C libraries"),
    Row("getrusage", "how much memory the process took at most", (Condition(0, "is", 0),)),
    # threads
    Row("futex", "the watchdog and the interpreter take turns: wait", (Condition(1, "is", _PRIVATE | 0),)),
    Row("futex", "the same: wake", (Condition(1, "is", _PRIVATE | 1),)),
    Row("futex", "the same: wait until", (Condition(1, "is", _PRIVATE | 9),)),
    Row("futex", "the same: hand over, with other C libraries", (Condition(1, "is", _PRIVATE | 3),)),
    Row("futex", "the same: wait until, by the clock on the wall", (Condition(1, "is", _PRIVATE | 256 | 9),)),
    Row("sched_yield", "the same"),
    # the end
    Row("exit", "a thread ends"),
    Row("exit_group", "the process ends"),
    Row("rt_sigreturn", "a signal handler returns"),
    Row("restart_syscall", "a wait goes on after the process was stopped"),
)
"""What a worker needs after the jail is shut."""

REFUSED: Final = (
    Row("open", "what the interpreter tries when it prints a traceback or looks for a module"),
    Row("openat", "the same"),
    Row("stat", "the same"),
    Row("lstat", "the same"),
    Row("fstat", "the same"),
    Row("newfstatat", "the same"),
    Row("statx", "the same"),
    Row("readlink", "the same"),
    Row("access", "the same"),
    Row("getcwd", "the same"),
    Row("lseek", "the same"),
    Row("ioctl", "the same"),
    Row("write", "a traceback on a closed descriptor"),
    Row("close", "the interpreter ends"),
    Row("sched_getaffinity", "the C library counts processors before it gives a thread memory of its own"),
)
"""Answered with EPERM, so that an honest worker that stumbles ends in an orderly way. Nothing else is."""


@cache
def _program() -> tuple[ctypes.Structure, int]:
    """ALLOWED and REFUSED as the kernel reads them, and the number of the call that puts them in force."""
    built = _library.SyscallFilter(_library.KILL_PROCESS)
    built.set_attr(_library.Attr.ACT_BADARCH, _library.KILL_PROCESS)
    for action, rows in ((_library.ALLOW, ALLOWED), (_library.ERRNO(errno.EPERM), REFUSED)):
        for row in rows:
            if number_of(row.name) >= 0:
                built.add_rule_exactly(action, row.name, *map(_argument, row.conditions))
    with os.fdopen(os.memfd_create("filter"), "w+b") as file:
        built.export_bpf(file)
        file.seek(0)
        code = file.read()
    return _Program(len(code) // _INSTRUCTION_BYTES, code), number_of("seccomp")


def prepare() -> None:
    """Build the filter, once for all processes forked from this one.

    Raises:
        OSError: there can be no filter here; MISSING says why.
    """
    if MISSING is not None:
        raise OSError(errno.ENOSYS, MISSING)
    _program()


def enforce() -> None:
    """Put the filter in force, for every thread of the process and for good. `prepare` comes first.

    Raises:
        OSError: the kernel refuses.
    """
    # By the kernel's own call: `SyscallFilter.load` makes the program anew each time, which takes longer than a fork.
    program, number = _program()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(number, _SECCOMP_SET_MODE_FILTER, _SECCOMP_FILTER_FLAG_TSYNC, ctypes.byref(program)) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


class _Program(ctypes.Structure):
    """`sock_fprog` of the kernel's header."""

    _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_char_p))


_INSTRUCTION_BYTES = 8
_SECCOMP_SET_MODE_FILTER = 1
_SECCOMP_FILTER_FLAG_TSYNC = 1


def number_of(name: str) -> int:
    """The call's number on this machine; negative where its kernel does not have it, as newer ones lack `select`."""
    try:
        return int(_library.resolve_syscall(_library.system_arch(), name))
    except ValueError:
        return -1


def _argument(condition: Condition) -> object:
    match condition.test:
        case "is":
            return _library.Arg(condition.argument, _library.EQ, condition.value)
        case "at most":
            return _library.Arg(condition.argument, _library.LE, condition.value)
        case "lacks":
            return _library.Arg(condition.argument, _library.MASKED_EQ, condition.value, 0)
        case "has":
            return _library.Arg(condition.argument, _library.MASKED_EQ, condition.value, condition.value)
