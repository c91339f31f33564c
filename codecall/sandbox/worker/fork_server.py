"""`python -I -m codecall.sandbox.worker.fork_server`: a clean process that forks workers ahead of need.

It has the engine, the parser and the jail loaded and nothing else: no environment, no file, no word of any script.
Descriptor 0 is its control socket (`wire.py` has the records); when that closes, all its workers end with it.
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
from codecall.sandbox.agentscript.validator.names import no_host
from codecall.sandbox.worker import jail
from codecall.sandbox.worker.serve import PrebuiltEngines, run
from codecall.sandbox.worker.startup import load_and_jail

MAX_PREPARE_BYTES = 64 * 1024
"""Longest first record, in bytes; it has some 500."""


class _Child(NamedTuple):
    """A live worker."""

    pid: int
    records: socket.socket
    """Takes the records of its start and end."""


class _Template(NamedTuple):
    """What every worker starts with."""

    shared: jail.Shared
    engines: PrebuiltEngines | None


def main() -> None:
    """Load everything, then fork a worker for each request."""
    with socket.socket(fileno=0) as control:
        prepare = wire.decode_server_message(control.recv(MAX_PREPARE_BYTES))
        if not isinstance(prepare, wire.Prepare):
            return
        template = _Template(load_and_jail(starlark=prepare.starlark), _engines(prepare))
        if template.engines is None:
            Realm(prepare.limits, no_host, lambda: 0.0).close()  # compiles the runtime for all workers
        # A collection would touch, and so copy, every page that the workers share.
        gc.collect()
        gc.freeze()
        _serve(control, template)


def _engines(prepare: wire.Prepare) -> PrebuiltEngines | None:
    """Engines for workers that serve one script each: those would spend most of their life building one.

    None where scripts may draw random numbers: copies of one engine all draw the same.
    """
    if prepare.runs > 1 or prepare.limits.allow_clock:
        return None
    return PrebuiltEngines(*(Realm(prepare.limits, no_host, lambda: 0.0) for _ in range(2)))


def _serve(control: socket.socket, template: _Template) -> None:
    poller = select.poll()
    poller.register(control, select.POLLIN)
    children: dict[int, _Child] = {}
    process_by_records: dict[int, int] = {}
    while True:
        for ready, _ in poller.poll():
            if ready in children:
                child = children.pop(ready)
                poller.unregister(ready)
                if process_by_records.pop(child.records.fileno(), None) is not None:
                    poller.unregister(child.records)
                _reap(ready, child)
            elif ready in process_by_records:
                # The server does not wait for it any more.
                poller.unregister(ready)
                signal.pidfd_send_signal(process_by_records.pop(ready), signal.SIGKILL)
            elif ready == control.fileno():
                request, descriptors, _, _ = socket.recv_fds(control, 1, 2)
                if not request:
                    _kill_all(children)
                    return
                if (forked := _fork(template, descriptors)) is not None:
                    process, child = forked
                    children[process] = child
                    process_by_records[child.records.fileno()] = process
                    poller.register(process, select.POLLIN)
                    poller.register(child.records, 0)  # reports all the same that the other end has closed


def _kill_all(children: dict[int, _Child]) -> None:
    for process in children:
        signal.pidfd_send_signal(process, signal.SIGKILL)
    for process, child in children.items():
        _reap(process, child)


def _fork(template: _Template, descriptors: list[int]) -> tuple[int, _Child] | None:
    """Fork a worker: the descriptor of its process, and the worker; None if that failed."""
    if len(descriptors) != 2:  # this process can take no more
        for descriptor in descriptors:
            os.close(descriptor)
        return None
    pipe, records = descriptors[0], socket.socket(fileno=descriptors[1])
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
        with records, contextlib.suppress(OSError):
            records.send(wire.EXIT_RECORD.pack(wire.SPAWN_FAILED, failure.errno or 0))
        return None
    finally:
        os.close(pipe)
    with contextlib.suppress(OSError):
        socket.send_fds(records, [wire.EXIT_RECORD.pack(wire.SPAWNED, pid)], [process])
    return process, _Child(pid, records)


def _become_worker(template: _Template, pipe: int, parent: int) -> NoReturn:
    try:
        # However the fork server ends, its workers do too.
        jail.end_with_parent()
        if os.getppid() == parent:
            os.dup2(pipe, 0)
            run(*template)
    finally:
        os._exit(1)


def _reap(process: int, child: _Child) -> None:
    os.close(process)
    _, status = os.waitpid(child.pid, 0)
    with child.records, contextlib.suppress(OSError):
        child.records.send(wire.EXIT_RECORD.pack(wire.EXITED, os.waitstatus_to_exitcode(status)))


if __name__ == "__main__":
    main()
