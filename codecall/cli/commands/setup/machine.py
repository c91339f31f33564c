"""Checks of this machine and of the sandbox, for `codecall doctor`."""

from __future__ import annotations

import platform
import sys
import time
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

if TYPE_CHECKING:
    from codecall.sandbox.enclave import Enclave
    from codecall.sandbox.host.process import SandboxReport

Verdict = Literal["ok", "warn", "fail"]

MACHINE: Final = "This machine"
SANDBOX: Final = "Sandbox"

OLDEST_PYTHON: Final = (3, 11)

PACKAGES: Final = ("codecall", "fastmcp", "mcp", "quickjs-ng", "msgspec", "pydantic")
"""Packages whose versions are checked."""

SLOW_MS: Final = 250.0
"""Milliseconds above which a script of one call is slow, on a worker that is ready."""


class Check(NamedTuple):
    """The result of one check."""

    section: str
    """The part of the report it belongs to."""
    name: str
    verdict: Verdict
    detail: str
    """What was found."""
    advice: str = ""
    """What to do about it."""

    def document(self) -> dict[str, str]:
        """The check as `--json` shows it."""
        return {
            "about": self.section,
            "name": self.name,
            "verdict": self.verdict,
            "said": self.detail,
            "advice": self.advice,
        }


def machine_checks() -> Iterator[Check]:
    """Check Python and the installed packages."""
    detail = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    too_old = sys.version_info < OLDEST_PYTHON
    advice = f"Use Python {'.'.join(map(str, OLDEST_PYTHON))} or newer." if too_old else ""
    yield Check(MACHINE, "Python", "fail" if too_old else "ok", detail, advice)
    for package in PACKAGES:
        try:
            yield Check(MACHINE, package, "ok", version(package))
        except PackageNotFoundError:
            advice = "Install codecall anew: pip install --force-reinstall codecall"
            yield Check(MACHINE, package, "fail", "is not installed", advice)


async def sandbox_checks(preset: str | None) -> list[Check]:
    """Check the layers of the jail, and how long a script takes."""
    from codecall.errors import CodeCallError
    from codecall.sandbox.enclave import Enclave

    try:
        async with Enclave(preset, pool={"min_workers": 1, "max_workers": 1}) as enclave:
            report = await enclave.sandbox_report()
            return [*_jail_checks(report), await _engine_check(enclave)]
    except CodeCallError as failure:
        advice = failure.hint or "Run python -m codecall.sandbox.report"
        return [Check(SANDBOX, "worker", "fail", failure.message, advice)]


def _jail_checks(report: SandboxReport) -> Iterator[Check]:
    from codecall.sandbox.host.process import KERNEL_FACTS

    for layer in report.layers:
        reason = f" ({layer.detail})" if layer.detail else ""
        if layer.active:
            yield Check(SANDBOX, layer.name, "ok", f"a worker that is taken over cannot {layer.stops}{reason}")
        else:
            advice = "python -m codecall.sandbox.report says more; scripts run without it."
            yield Check(SANDBOX, layer.name, "fail" if report.required else "warn", f"missing{reason}", advice)
    if not report.layers:
        detail = f"there are no layers on {report.platform}"
        yield Check(SANDBOX, "jail", "warn", detail, "Run it on Linux for a whole jail.")
    denied = [name for name, expected in KERNEL_FACTS.items() if report.kernel.get(name, expected) != expected]
    if denied:
        detail = f"says otherwise of {', '.join(denied)}"
        yield Check(SANDBOX, "kernel", "warn", detail, "See python -m codecall.sandbox.report")
    if not report.fork_server:
        detail = "are started one by one, which takes some hundred milliseconds each"
        yield Check(SANDBOX, "workers", "warn", detail)


async def _engine_check(enclave: Enclave) -> Check:
    """Run one script with one call, on a worker that is ready."""

    def echo(_name: str, value: dict[str, Any]) -> object:
        return value

    script = "return await callTool('echo', { n: 41 + 1 })"
    await enclave.execute(script, tool_handler=echo)
    start = time.perf_counter()
    result = await enclave.execute(script, tool_handler=echo)
    elapsed_ms = (time.perf_counter() - start) * 1000
    if result.value != {"n": 42}:
        error = result.error
        detail = "a script gives a wrong answer" if error is None else f"{error.code}: {error.message}"
        return Check(SANDBOX, "engine", "fail", detail, "Please report this.")
    slow = elapsed_ms > SLOW_MS
    advice = "The machine is busy, or very slow." if slow else ""
    return Check(
        SANDBOX, "engine", "warn" if slow else "ok", f"a script with one call takes {elapsed_ms:.1f} ms", advice
    )
