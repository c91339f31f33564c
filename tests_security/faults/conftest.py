"""Real workers behind a relay."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from codecall.presets import load_preset
from codecall.sandbox import wire
from codecall.sandbox.host import spawner
from codecall.sandbox.host.spawner import ForkServer
from tests_security.faults.relay import Plan, RelayedServer


@pytest.fixture(scope="session")
def fork_server() -> Iterator[ForkServer]:
    """One for all tests of this folder."""
    preset = load_preset("secure")
    limits = wire.Limits(**{name: getattr(preset, name) for name in wire.PRESET_FIELDS})
    server = ForkServer(wire.Prepare(limits=limits, runs=200, cpu_seconds=600, require_jail=False))
    yield server
    server.close()
    server.wait()


@pytest.fixture
def plan(fork_server: ForkServer, monkeypatch: pytest.MonkeyPatch) -> Plan:
    """Enclaves fork their workers behind a relay that does as it says."""
    plan = Plan()
    monkeypatch.setattr(spawner, "ForkServer", RelayedServer(fork_server, plan))
    return plan
