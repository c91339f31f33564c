"""A worker of the fork server, watched by more than one thread."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor

import pytest

from codecall.sandbox.host.process import socket_pair
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
