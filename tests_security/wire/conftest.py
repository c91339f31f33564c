"""`replace_worker(program)`: from now on workers are processes that run `program`."""

from __future__ import annotations

from typing import Any

import pytest

from codecall.sandbox.host import process
from tests_security.wire.hostile import command


class ReplaceWorker:
    """Replaces the worker by a process that has been taken over and says what it likes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self.started: list[int] = []
        """Process ids of all workers."""
        start = process.start_process

        def recorded(*arguments: Any) -> Any:
            started = start(*arguments)
            self.started.append(started.pid)
            return started

        monkeypatch.setattr(process, "start_process", recorded)

    def __call__(self, program: str) -> None:
        self._monkeypatch.setattr(process, "WORKER_COMMAND", command(program))


@pytest.fixture
def replace_worker(monkeypatch: pytest.MonkeyPatch) -> ReplaceWorker:
    return ReplaceWorker(monkeypatch)
