# ruff: noqa: PTH102, PTH108, PTH116, PTH208, PTH211 - system calls are what this is about
"""Runs in a process of its own: enters the jail, or one layer of it, and tries what a script's author would like to do.

    python -I inside.py

Descriptor 0 is a socket on which records `<layers> <attack>` come in, each with another socket. For each a process is
forked, which has that socket as its descriptor 0; when it has ended, its exit status is the answer to the record.
`layers` is `all`, or names joined by commas; the attack `sweep` makes every system call there is. The result is one
line of JSON on the process's descriptor 0: what the attack returned, or the error it met. No line at all means that
the kernel ended the process.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import mmap
import os
import resource
import signal
import socket
import threading
import time
from collections.abc import Callable

from codecall.sandbox.worker import jail, syscalls
from codecall.sandbox.worker.startup import load_and_jail

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
PARENT = os.getppid()
BUFFER = ctypes.create_string_buffer(4096)


def number(name: str) -> int:
    """The call's number; none at all where there is no library that knows it."""
    return syscalls.number_of(name) if syscalls.MISSING is None else -1


def call(nr: int, *arguments: int) -> int:
    """A system call with nothing in between."""
    result = libc.syscall(nr, *(ctypes.c_long(value) for value in arguments))
    if result < 0:
        raise OSError(ctypes.get_errno(), "system call")
    return result


def by_library(function: Callable[..., int], *arguments: int) -> int:
    """The C library's function for a system call."""
    result = function(*(ctypes.c_long(value) for value in arguments))
    if result < 0:
        raise OSError(ctypes.get_errno(), "system call")
    return result


def raw(name: str, *arguments: int) -> Callable[[], object]:
    nr = number(name)
    return lambda: call(nr, *arguments)


def address(text: str) -> int:
    """A C string that stays where it is."""
    buffer = ctypes.create_string_buffer(text.encode())
    KEPT.append(buffer)
    return ctypes.addressof(buffer)


KEPT: list[object] = []

SYSCALL_NUMBERS = 480
"""More than any kernel has so far (6.18: 470)."""


def fork() -> str:
    if (child := os.fork()) == 0:
        os._exit(0)
    os.waitpid(child, 0)
    return "forked"


def thread() -> str:
    worker = threading.Thread(target=lambda: None)
    worker.start()
    worker.join()
    return "started"


def connect(port: int = 80) -> str:
    with socket.socket() as client:
        client.connect(("127.0.0.1", port))
    return "connected"


def read(path: str) -> str:
    descriptor = os.open(path, os.O_RDONLY)
    return os.read(descriptor, 4096).decode("utf-8", "replace")


def spin() -> None:
    while True:
        pass


def eat(size: int) -> int:
    return len(bytearray(size))


def give_descriptor() -> str:
    """Hand the pipe to somebody else, as a way to receive one in return."""
    pipe = socket.socket(fileno=0)
    socket.send_fds(pipe, [b"x"], [0])
    return "sent"


def environment() -> str:
    return json.dumps(dict(os.environ))


def open_descriptors() -> str:
    descriptors: list[int] = []
    for descriptor in range(1, 256):
        try:
            os.fstat(descriptor)
        except OSError as failure:
            if failure.errno != errno.EBADF:
                raise
        else:
            descriptors.append(descriptor)
    return json.dumps(descriptors)


def sweep(shared: jail.Shared) -> dict[str, str]:
    """Every number a system call could have, each in a child of its own: how it ended."""
    outcomes: dict[str, str] = {}
    for nr in range(SYSCALL_NUMBERS):
        child = os.fork()
        if child == 0:
            jail.enter_own(shared, 16, 1, lambda: None)
            try:
                call(nr, -1, -1, -1, -1, -1, -1)
            except OSError as failure:
                os._exit(failure.errno or 0)
            os._exit(0)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        outcomes[str(nr)] = signal.Signals(-status).name if status < 0 else errno.errorcode.get(status, str(status))
    return outcomes


def attacks() -> dict[str, Callable[[], object]]:
    """What to try, by name."""
    etc, tmp = address("/etc/passwd"), address("/tmp/codecall-escape")
    page = mmap.PAGESIZE
    private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    everything = mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC
    memory = libc.mmap
    memory.restype = ctypes.c_void_p
    memory.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    block = memory(None, page, mmap.PROT_READ | mmap.PROT_WRITE, private, -1, 0)
    return {
        "nothing": lambda: "done",
        # files
        "read a file": lambda: read("/etc/passwd"),
        "read a secret file": lambda: read("/etc/shadow"),
        "read its environment": lambda: read("/proc/self/environ"),
        "read its command line": lambda: read("/proc/self/cmdline"),
        "read its memory map": lambda: read("/proc/self/maps"),
        "read the server's environment": lambda: read(f"/proc/{PARENT}/environ"),
        "read the server's memory": lambda: read(f"/proc/{PARENT}/mem"),
        "list the root": lambda: os.listdir("/"),
        "list processes": lambda: os.listdir("/proc"),
        "create a file": lambda: os.open("/tmp/codecall-escape", os.O_CREAT | os.O_WRONLY),
        "create a file without a name": lambda: os.memfd_create("escape"),
        "delete a file": lambda: os.unlink("/tmp/codecall-nothing"),
        "make a directory": lambda: os.mkdir("/tmp/codecall-escape"),
        "make a link": lambda: os.symlink("/etc/passwd", "/tmp/codecall-escape"),
        "look at a file": lambda: os.stat("/etc/passwd").st_size,
        "open by openat2": raw("openat2", -100, etc, etc, 24),
        "open by handle": raw("open_by_handle_at", -1, etc, 0),
        "mount": raw("mount", tmp, tmp, tmp, 0, 0),
        "change the root": lambda: os.chroot("/tmp"),
        "change directory": lambda: os.chdir("/etc"),
        # network
        "make a socket": lambda: socket.socket().fileno(),
        "connect": connect,
        "make a local socket": lambda: socket.socket(socket.AF_UNIX).fileno(),
        "make a socket pair": lambda: len(socket.socketpair()),
        "make a netlink socket": raw("socket", 16, 3, 0),
        "listen on the pipe": raw("listen", 0, 1),
        "pass a descriptor": give_descriptor,
        "receive a descriptor": raw("recvmsg", 0, etc, 0),
        # processes
        "fork": fork,
        "start a thread": thread,
        "clone": raw("clone", signal.SIGCHLD, 0, 0, 0, 0),
        "clone3": raw("clone3", etc, 64),
        "run a program": lambda: os.execv("/bin/true", ["true"]),
        "run a program by descriptor": raw("execveat", 0, address(""), 0, 0, 0x1000),
        "kill the server": lambda: os.kill(PARENT, signal.SIGCONT),
        "kill everybody": lambda: os.kill(-1, signal.SIGCONT),
        "kill by tgkill": raw("tgkill", PARENT, PARENT, signal.SIGCONT),
        "queue a signal": raw("rt_sigqueueinfo", PARENT, signal.SIGCONT, etc),
        "trace the server": lambda: by_library(libc.ptrace, 16, PARENT, 0, 0),
        "read the server's memory from afar": raw("process_vm_readv", PARENT, etc, 1, etc, 1, 0),
        "write the server's memory from afar": raw("process_vm_writev", PARENT, etc, 1, etc, 1, 0),
        "a handle on the server": raw("pidfd_open", PARENT, 0),
        "take a descriptor from the server": raw("pidfd_getfd", 0, 0, 0),
        # power
        "become root": lambda: os.setuid(0),
        "take capabilities": raw("capset", etc, etc),
        "new namespaces": raw("unshare", 0x10000000),
        "join a namespace": raw("setns", 0, 0),
        "load a module": raw("init_module", etc, 1, etc),
        "load a program into the kernel": raw("bpf", 0, etc, 8),
        "io_uring": raw("io_uring_setup", 8, etc),
        "perf": raw("perf_event_open", etc, 0, -1, -1, 0),
        "userfaultfd": raw("userfaultfd", 0),
        "keys": raw("keyctl", 0, -3, 0, 0, 0),
        "reboot": lambda: by_library(libc.reboot, 0),
        "set the clock": raw("clock_settime", 0, etc),
        "raise a limit": lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)),
        "become dumpable": raw("prctl", 4, 1, 0, 0, 0),
        "replace the filter": raw("seccomp", 1, 0, etc),
        "shared memory": raw("shmget", 0, page, 0o1600),
        "message queue": raw("msgget", 0, 0o1600),
        "personality": raw("personality", 0x0400000),
        "who am I": os.getuid,
        "what machine is this": raw("uname", ctypes.addressof(BUFFER)),
        "type into the terminal": raw("ioctl", 0, 0x5412, etc),
        # the calls that are allowed, with other arguments
        "executable memory": lambda: memory(None, page, everything, private, -1, 0),
        "memory of a file": lambda: memory(None, page, mmap.PROT_READ, mmap.MAP_PRIVATE, 0, 0),
        "make memory executable": raw("mprotect", block or 0, page, everything),
        "read elsewhere": raw("recvfrom", 1, ctypes.addressof(BUFFER), 1, 0, 0, 0),
        "write elsewhere": raw("sendto", 2, ctypes.addressof(BUFFER), 1, 0, 0, 0),
        "write out of band": raw("sendto", 0, ctypes.addressof(BUFFER), 1, 1, 0, 0),
        "write to an address": raw("sendto", 0, ctypes.addressof(BUFFER), 1, 0, ctypes.addressof(BUFFER), 16),
        "share equal pages": raw("madvise", block or 0, page, 12),
        "read a clock of the server": raw("clock_gettime", (~PARENT << 3) | 2, ctypes.addressof(BUFFER)),
        "a futex shared with others": raw("futex", ctypes.addressof(BUFFER), 1, 1, 0, 0, 0),
        "a futex with priorities": raw("futex", ctypes.addressof(BUFFER), 128 | 6, 0, 0, 0, 0),
        "watch other descriptors": raw("pselect6", 64, 0, 0, 0, 0, 0),
        # resources
        "take memory": lambda: eat(2 << 30),
        "take time": spin,
        "write a large file": lambda: os.write(3, b"x"),
        "environment": environment,
        "time zone": lambda: time.localtime(0).tm_gmtoff,
        "open descriptors": open_descriptors,
        "where am I": os.getcwd,
        "sleep": lambda: time.sleep(0.001),
    }


def main(shared: jail.Shared | None = None) -> None:
    """Fork a process for each attack: starting Python for each would take longer than all of them. Those on the whole
    jail come from one that has settled in, as workers come from a fork server, and to it `shared` is given."""
    requests = socket.socket(fileno=0)
    settled = settling() if shared is None else None  # before there is a descriptor that it would keep open
    while True:
        record, descriptors, _, _ = socket.recv_fds(requests, 1_000, 1)
        if not record:
            if settled is not None:
                settled.close()
                os.wait()
            return
        layers, _, name = record.decode().partition(" ")
        if layers == "all" and settled is not None:
            socket.send_fds(settled, [record], descriptors)
            os.close(descriptors[0])
            requests.sendall(settled.recv(100))
            continue
        if (child := os.fork()) == 0:
            os.dup2(descriptors[0], 0)
            os.close(descriptors[0])
            try:
                attempt(shared, layers, name)
            finally:
                os._exit(1)
        os.close(descriptors[0])
        requests.sendall(b"%d" % os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


def settling() -> socket.socket:
    """The line to a process that does as this one, settled in."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if os.fork() == 0:
        try:
            ours.close()
            os.dup2(theirs.fileno(), 0)
            theirs.close()
            main(load_and_jail())
        finally:
            os._exit(0)
    theirs.close()
    return ours


def attempt(shared: jail.Shared | None, layers: str, name: str) -> None:
    """Enter what is asked for, try, tell."""
    attack = attacks()[name] if name != "sweep" else None
    line = socket.socket(fileno=0)
    if shared is not None:
        if attack is None:
            line.sendall(json.dumps(sweep(shared)).encode())
            os._exit(0)
        layers = jail.enter_own(shared, 16, 1, lambda: None)
    else:
        terms = jail.Terms(16 << 20, 1, 200 << 20)
        with contextlib.suppress(OSError):
            syscalls.prepare()
        rows = [row for row in jail.LAYERS if row.name in layers.split(",")]
        assert len(rows) == len(layers.split(","))
        layers = [jail.enter_layer(row, terms) for row in rows]
    missing = [layer for layer in layers if not layer.active]
    if missing:
        line.sendall(json.dumps({"missing": str(missing)}).encode())
        os._exit(0)
    try:
        outcome = {"result": attack()}
    except OSError as failure:
        outcome = {"error": errno.errorcode.get(failure.errno or 0, str(failure.errno))}
    except BaseException as failure:
        outcome = {"error": type(failure).__name__}
    line.sendall(json.dumps(outcome).encode())
    os._exit(0)


main()
