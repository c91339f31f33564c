"""A worker of the fork server, watched by more than one thread."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from codecall.errors import WorkerStartupError
from codecall.sandbox.host.process import WORKER_COMMAND, socket_pair, start_process
from codecall.sandbox.host.spawner import ForkedProcess
from codecall.sandbox.wire import EXIT_RECORD, EXITED


@pytest.mark.parametrize("_", range(20))
def test_its_end_may_be_learned_of_by_two_at_once(_: int) -> None:
    mine, theirs = socket_pair(socket.SOCK_SEQPACKET)
    process = ForkedProcess(mine)
    with theirs, ThreadPoolExecutor(4) as threads:
        waiting = [threads.submit(process.wait, 5) for _ in range(3)]
        theirs.send(EXIT_RECORD.pack(EXITED, 7))
        waiting.append(threads.submit(process.wait, 5))
        assert [future.result() for future in waiting] == [7] * 4
    process.kill()
    assert process.poll() == 7


def test_an_interpreter_that_was_found_by_a_relative_path_is_found_from_elsewhere() -> None:
    look = (
        "import sys; sys.executable = '../x/python'\n"
        "from codecall.sandbox.host import process, spawner\n"
        "print(process.WORKER_COMMAND[0], spawner.FORK_SERVER_COMMAND[0])"
    )
    ran = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == [str(Path.cwd() / "../x/python")] * 2


def test_an_interpreter_that_is_gone_is_named() -> None:
    ours, theirs = socket_pair()
    with ours, theirs, pytest.raises(WorkerStartupError, match="there is no /nowhere/python") as raised:
        start_process(("/nowhere/python", *WORKER_COMMAND[1:]), theirs)
    assert raised.value.hint == (
        "`/nowhere/python` was `sys.executable` when the server started: start it with an interpreter that is there."
    )


def test_local_time_of_a_worker_is_utc_wherever_its_machine_is() -> None:
    """A machine's own zone is read as `TZ` is, by the C library, while the interpreter starts."""
    look = (
        "import time; assert time.timezone == -9 * 3600\n"
        "from codecall.sandbox.worker import startup\n"
        "from codecall.sandbox.agentscript.engine.realm import Realm\n"
        "from codecall.sandbox.agentscript.instrument import instrument\n"
        "from codecall.sandbox.agentscript.policy import Rules\n"
        "from codecall.sandbox.agentscript.validate import validate_javascript\n"
        "startup.load_and_jail()\n"
        "limits = startup.WARM_UP_LIMITS\n"
        "script = 'const d = new Date(\"2026-10-20T19:30:00+01:00\");'\n"
        "script += 'return [d.toLocaleTimeString(), d.getHours(), d.getTimezoneOffset()]'\n"
        "realm = Realm(limits, lambda *_: None, lambda: 0.0)\n"
        "checked = validate_javascript(script, Rules.from_limits(limits))\n"
        "realm.start(instrument(script, checked, max_iterations=100), context=None)\n"
        "print(realm.outcome.value)"
    )
    environment = {"TZ": "JST-9", "PYTHONPATH": os.pathsep.join(sys.path)}
    ran = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True, env=environment)
    assert json.loads(ran.stdout) == ["6:30:00 PM", 18, 0]
