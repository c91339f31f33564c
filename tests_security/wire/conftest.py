"""`replace_worker(program)`: from now on workers are processes that run `program`."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from codecall.sandbox.host import process
from tests_security.wire.hostile import command

ReplaceWorker = Callable[[str], None]


@pytest.fixture
def replace_worker(monkeypatch: pytest.MonkeyPatch) -> ReplaceWorker:
    """Replaces the worker by a process that has been taken over and says what it likes."""
    return lambda program: monkeypatch.setattr(process, "WORKER_COMMAND", command(program))
