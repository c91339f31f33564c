"""What a worker can do that has been taken over entirely: nothing. And what each layer of its jail holds by itself."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from codecall.sandbox.worker import jail, syscalls

INSIDE = Path(__file__).parent / "compromised_worker.py"

linux_only = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the layers are those of Linux")

ENVIRONMENT = '{"TZ": "UTC0"}'
"""All that a worker has of one, wherever it runs."""

KILLED = "killed"
"""The kernel ended the process: SIGSYS."""


Attempt = Callable[[str, str], Any]
"""How that attack ends inside those layers: a result, the name of an error, or KILLED."""


@pytest.fixture(scope="module")
def attempt() -> Iterator[Attempt]:
    """Makes attacks, each in a process of its own."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours:
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-I", str(INSIDE)], stdin=theirs.fileno(), env={"CANARY": "environment", "TZ": "JST-9"}
            )
        ours.settimeout(20)
        yield lambda layers, attack: outcome_of(ours, layers, attack)
    process.wait(20)


def outcome_of(inside: socket.socket, layers: str, attack: str) -> Any:
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            socket.send_fds(inside, [f"{layers} {attack}".encode()], [theirs.fileno()])
        output = b"".join(iter(lambda: ours.recv(1 << 16), b""))
    status = int(inside.recv(100))
    if not output:
        return KILLED if status == -31 else f"exit status {status}"
    outcome = json.loads(output)
    if "missing" in outcome:
        pytest.skip(f"this system lacks the layer: {outcome['missing']}")
    return outcome.get("error", outcome.get("result", outcome))


@cache
def missing() -> tuple[str, ...]:
    """Layers that this system does not have: the others have to hold here."""
    absent: list[str] = []
    if syscalls.MISSING is not None:
        absent.append("seccomp")
    try:
        jail.landlock_abi()
    except OSError:
        absent.append("landlock")
    return tuple(absent)


@linux_only
def test_this_system_has_what_it_takes():
    assert "landlock" not in missing() or not Path("/sys/kernel/security/landlock").exists()


REFUSED = {
    "read a file": "EPERM",
    "read a secret file": "EPERM",
    "read its environment": "EPERM",
    "read its command line": "EPERM",
    "read its memory map": "EPERM",
    "read the server's environment": "EPERM",
    "read the server's memory": "EPERM",
    "list the root": "EPERM",
    "list processes": "EPERM",
    "create a file": "EPERM",
    "look at a file": "EPERM",
    "type into the terminal": "EPERM",
    "where am I": "EPERM",
    "write a large file": "EPERM",
    "take memory": "MemoryError",
    "environment": ENVIRONMENT,
    "time zone": 0,
    "nothing": "done",
    "sleep": None,
}
"""What an attack meets inside the whole jail when it is not ended by the kernel."""

RESULTS_ELSEWHERE = {"open descriptors", "take time"}
"""Attacks that are about one layer and say nothing here: `fstat` is refused, and time takes a second."""


def names() -> list[str]:
    """Every attack, as the program lists them."""
    text = INSIDE.read_text(encoding="utf-8")
    table = text[text.index("    return {\n") : text.index("    }\n\n\ndef main")]
    return [line.split('"')[1] for line in table.splitlines() if line.startswith('        "')]


@linux_only
@pytest.mark.parametrize("attack", [name for name in names() if name not in RESULTS_ELSEWHERE])
def test_inside_the_whole_jail(attack: str, attempt: Attempt):
    if "seccomp" in missing():
        pytest.skip(f"no seccomp here: {syscalls.MISSING}")
    assert attempt("all", attack) == REFUSED.get(attack, KILLED)


ALONE: list[tuple[str, str, object]] = [
    ("landlock", "read a file", "EACCES"),
    ("landlock", "read its environment", "EACCES"),
    ("landlock", "read the server's environment", "EACCES"),
    ("landlock", "read the server's memory", "EACCES"),
    ("landlock", "list the root", "EACCES"),
    ("landlock", "list processes", "EACCES"),
    ("landlock", "create a file", "EACCES"),
    ("landlock", "make a directory", "EACCES"),
    ("landlock", "make a link", "EACCES"),
    ("landlock", "run a program", "EACCES"),
    ("landlock", "connect", "EACCES"),
    ("landlock", "kill the server", "EPERM"),
    ("landlock", "trace the server", "EPERM"),
    ("limits", "read a file", "EMFILE"),
    ("limits", "make a socket", "EMFILE"),
    ("limits", "create a file without a name", "EMFILE"),
    ("limits", "take memory", "MemoryError"),
    ("limits", "take time", "exit status -9"),
    ("privileges,limits", "fork", "EAGAIN"),
    ("privileges,limits", "start a thread", "RuntimeError"),
    ("privileges,limits", "raise a limit", "ValueError"),
    ("privileges", "become root", "EPERM"),
    ("privileges", "read a secret file", "EACCES"),
    ("privileges", "change the root", "EPERM"),
    ("privileges", "reboot", "EPERM"),
    ("surroundings", "environment", ENVIRONMENT),
    ("surroundings", "time zone", 0),
    ("surroundings", "where am I", "/"),
    ("descriptors", "open descriptors", "[]"),
    ("descriptors", "write a large file", "EBADF"),
    ("privileges,undumpable", "read its environment", "EACCES"),
    ("seccomp", "read a file", "EPERM"),
    ("seccomp", "make a socket", KILLED),
    ("seccomp", "fork", KILLED),
    ("seccomp", "run a program", KILLED),
    ("seccomp", "become dumpable", KILLED),
]


@linux_only
@pytest.mark.parametrize(("layer", "attack", "outcome"), ALONE, ids=[f"{row[0]}-{row[1]}" for row in ALONE])
def test_each_layer_holds_by_itself(layer: str, attack: str, outcome: object, attempt: Attempt):
    if (layer, attack) == ("privileges,limits", "fork") and attempt("privileges", "who am I") == 0:
        pytest.skip("a root that may not change its user: the kernel does not count root's processes")
    assert attempt(layer, attack) == outcome


def test_every_layer_is_tried_alone():
    assert {name for layers, _, _ in ALONE for name in layers.split(",")} == {row.name for row in jail.LAYERS}


@linux_only
def test_what_a_layer_is_for_works_without_it(attempt: Attempt):
    # The attacks mean something: outside the jail most of them succeed.
    assert attempt("surroundings", "nothing") == "done"
    assert "root:" in str(attempt("surroundings", "read a file"))
    assert attempt("surroundings", "start a thread") == "started"
    assert attempt("surroundings", "fork") == "forked"
    assert attempt("surroundings", "make a socket pair") == 2


@linux_only
def test_every_system_call_there_is(attempt: Attempt):
    if "seccomp" in missing():
        pytest.skip(f"no seccomp here: {syscalls.MISSING}")
    outcomes = attempt("all", "sweep")
    allowed = {row.name for row in syscalls.ALLOWED}
    refused = {row.name for row in syscalls.REFUSED}
    names = {syscalls.number_of(name): name for name in allowed | refused}
    assert len(outcomes) > 450
    for number, outcome in outcomes.items():
        name = names.get(int(number))
        if name in refused:
            assert outcome == "EPERM", name
        elif name not in allowed:
            # Newer kernels let their own trampolines for probes pass every filter; anybody else gets an error for it.
            assert outcome in {"SIGSYS", "SIGILL", "ENXIO"}, number
    # Allowed calls, with arguments nobody would want: the conditions on them hold too.
    allowed_outcomes = {
        name: outcomes[str(number)] for number, name in names.items() if name in allowed and number >= 0
    }
    conditional = {row.name for row in syscalls.ALLOWED if row.conditions}
    assert {name for name in conditional if name in allowed_outcomes and allowed_outcomes[name] != "SIGSYS"} == set()
