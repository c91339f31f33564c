"""Somebody who listens, for one test."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.telemetry.listening import Listener


@pytest.fixture
def listener(monkeypatch: pytest.MonkeyPatch) -> Listener:
    """Listens from the start."""
    made = Listener(monkeypatch)
    made.listen()
    return made


@pytest.fixture
def make_listener(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Listener]:
    """Listens when it is told to."""

    def make(**options: Any) -> Listener:
        return Listener(monkeypatch, **options)

    return make
