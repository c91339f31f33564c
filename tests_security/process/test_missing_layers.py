"""A system without one layer of the jail: who still runs scripts, who refuses, and that both say so."""

from __future__ import annotations

import logging
import sys

import anyio
import pytest

from codecall.errors import WorkerStartupError
from codecall.sandbox.enclave import Enclave
from codecall.sandbox.host import spawner

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the layers are those of Linux")

PACKAGES = {"seccomp": "pyseccomp", "landlock": "landlock"}


@pytest.fixture(params=PACKAGES)
def lacking(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, own_fork_server: None) -> str:
    """The name of a layer that workers cannot have: the package for it cannot be loaded."""
    package = PACKAGES[request.param]
    program = (
        f"import sys; sys.modules[{package!r}] = None; from codecall.sandbox.worker.fork_server import main; main()"
    )
    monkeypatch.setattr(spawner, "FORK_SERVER_COMMAND", (sys.executable, "-I", "-c", program))
    return request.param


async def test_secure_runs_and_warns(lacking: str, caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.INFO, logger="codecall"):
        async with Enclave("secure") as enclave:
            assert (await enclave.execute("return 1")).value == 1
            report = await enclave.sandbox_report()
    assert not report.complete
    assert lacking in {layer.name for layer in report.layers if not layer.active}
    assert f"{lacking}" in str(report)
    assert "NOT every layer holds" in str(report)
    (warning,) = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert f"{lacking} (" in warning


async def test_the_log_says_so_at_the_start(lacking: str, caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.INFO, logger="codecall"):
        async with Enclave("secure") as enclave:
            with anyio.fail_after(10):
                while not enclave.pool.spawner.layers:  # noqa: ASYNC110 - nobody tells, and the worker needs the processor
                    await anyio.sleep(0.002)
    assert f"missing: {lacking} (" in caplog.text
    caplog.clear()
    with caplog.at_level(logging.INFO, logger="codecall"):
        async with Enclave("locked_down"):
            with anyio.fail_after(10):
                while not caplog.records:  # noqa: ASYNC110
                    await anyio.sleep(0.002)
    assert "scripts cannot run" in caplog.text
    assert lacking in caplog.text


async def test_locked_down_refuses_and_names_the_layer(lacking: str):
    async with Enclave("locked_down", pool={"min_workers": 0}) as enclave:
        result = await enclave.execute("return 1")
    assert isinstance(result.error, WorkerStartupError)
    assert lacking in result.error.message
    assert result.error.hint
    assert "require_jail" in result.error.hint


async def test_any_preset_can_be_made_to_refuse(lacking: str):
    async with Enclave("experimental", require_jail=True, pool={"min_workers": 0}) as enclave:
        result = await enclave.execute("return 1")
    assert isinstance(result.error, WorkerStartupError)
    assert lacking in result.error.message


async def test_locked_down_can_be_made_to_run(lacking: str):
    async with Enclave("locked_down", require_jail=False) as enclave:
        assert (await enclave.execute("return 1")).value == 1
        assert lacking in {layer.name for layer in enclave.pool.spawner.layers if not layer.active}


async def test_a_worker_of_its_own_enters_the_same_jail():
    async with Enclave("locked_down", require_jail=False, pool={"fork_server": False}) as alone:
        started = (await alone.sandbox_report()).layers
    async with Enclave("locked_down", require_jail=False) as forking:
        forked = (await forking.sandbox_report()).layers
    assert [(layer.name, layer.active) for layer in started] == [(layer.name, layer.active) for layer in forked]
