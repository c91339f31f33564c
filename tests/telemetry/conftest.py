"""Somebody who listens, for one test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.telemetry.listening import Listener


@pytest.fixture
def listener(monkeypatch: pytest.MonkeyPatch) -> Iterator[Listener]:
    """Listens from the start."""
    made = Listener(monkeypatch)
    made.listen()
    yield made
    made.close()


@pytest.fixture
def make_listener(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Listener]]:
    """Listens when it is told to."""
    made: list[Listener] = []

    def make(**options: Any) -> Listener:
        made.append(Listener(monkeypatch, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()
