"""`python -I -m codecall.sandbox.worker.fork_server`: a clean process that forks workers ahead of need.

It has the engine, the parser and the jail loaded and nothing else: no environment, no file, no word of any script.
Descriptor 0 is its line to the server (`wire.py` has the records); when that closes, all its workers end with it.
"""

from __future__ import annotations

import contextlib
import gc
import os
import select
import signal
import socket
from typing import NamedTuple, NoReturn

from codecall.sandbox import wire
from codecall.sandbox.agentscript.engine.realm import Realm
from codecall.sandbox.agentscript.validator.names import ask_nobody
from codecall.sandbox.wire import EXIT_RECORD, EXITED, SPAWN_FAILED, SPAWNED
from codecall.sandbox.worker import jail
from codecall.sandbox.worker.serve import PrebuiltEngines, load_and_jail, run

MAX_PREPARE_BYTES = 64 * 1024
"""Longest first record, in bytes; it has some 500."""


class _Child(NamedTuple):
    """A worker that lives."""

    pid: int
    fate: socket.socket


class _Template(NamedTuple):
    """What every worker starts with."""

    shared: jail.Shared
    engines: PrebuiltEngines | None


def main() -> None:
    """Load everything, then fork whenever asked."""
    with socket.socket(fileno=0) as control:
        prepare = wire.decode_server_message(control.recv(MAX_PREPARE_BYTES))
        if not isinstance(prepare, wire.Prepare):
            return
        template = _Template(load_and_jail(), _engines(prepare))
        # A collection would touch, and so copy, every page that the workers share.
        gc.collect()
        gc.freeze()
        _serve(control, template)


def _engines(prepare: wire.Prepare) -> PrebuiltEngines | None:
    """Engines for workers that serve one script each, who would spend most of their life building one.

    Not where scripts may roll dice: copies of one engine all roll the same.
    """
    if prepare.runs > 1 or prepare.limits.allow_clock:
        return None
    return PrebuiltEngines(*(Realm(prepare.limits, ask_nobody, lambda: 0.0) for _ in range(2)))


def _serve(control: socket.socket, template: _Template) -> None:
    watched = select.poll()
    watched.register(control, select.POLLIN)
    children: dict[int, _Child] = {}
    fates: dict[int, int] = {}
    while True:
        for ready, _ in watched.poll():
            if ready in children:
                child = children.pop(ready)
                watched.unregister(ready)
                if fates.pop(child.fate.fileno(), None) is not None:
                    watched.unregister(child.fate)
                _bury(ready, child)
            elif ready in fates:
                # Nobody wants to know what becomes of it any more.
                watched.unregister(ready)
                signal.pidfd_send_signal(fates.pop(ready), signal.SIGKILL)
            elif ready == control.fileno():
                request, descriptors, _, _ = socket.recv_fds(control, 1, 2)
                if not request:
                    _end(children)
                    return
                if (born := _fork(template, descriptors)) is not None:
                    process, child = born
                    children[process] = child
                    fates[child.fate.fileno()] = process
                    watched.register(process, select.POLLIN)
                    watched.register(child.fate, 0)  # tells of its other end's closing all the same


def _end(children: dict[int, _Child]) -> None:
    for process in children:
        signal.pidfd_send_signal(process, signal.SIGKILL)
    for process, child in children.items():
        _bury(process, child)


def _fork(template: _Template, descriptors: list[int]) -> tuple[int, _Child] | None:
    """A new worker and the descriptor of its process; None when there could be none."""
    if len(descriptors) != 2:  # this process can take no more
        for descriptor in descriptors:
            os.close(descriptor)
        return None
    pipe, fate = descriptors[0], socket.socket(fileno=descriptors[1])
    parent = os.getpid()
    try:
        pid = os.fork()
        if pid == 0:
            _become_worker(template, pipe, parent)
        try:
            process = os.pidfd_open(pid)
        except OSError:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            raise
    except OSError as failure:
        with fate, contextlib.suppress(OSError):
            fate.send(EXIT_RECORD.pack(SPAWN_FAILED, failure.errno or 0))
        return None
    finally:
        os.close(pipe)
    with contextlib.suppress(OSError):
        socket.send_fds(fate, [EXIT_RECORD.pack(SPAWNED, pid)], [process])
    return process, _Child(pid, fate)


def _become_worker(template: _Template, pipe: int, parent: int) -> NoReturn:
    try:
        # However the fork server ends, its workers do too.
        jail.end_with_parent()
        if os.getppid() == parent:
            os.dup2(pipe, 0)
            run(*template)
    finally:
        os._exit(1)


def _bury(process: int, child: _Child) -> None:
    os.close(process)
    _, status = os.waitpid(child.pid, 0)
    with child.fate, contextlib.suppress(OSError):
        child.fate.send(EXIT_RECORD.pack(EXITED, os.waitstatus_to_exitcode(status)))


if __name__ == "__main__":
    main()
