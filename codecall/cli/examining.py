"""What `codecall doctor` looks at on this machine: Python, packages, the jail, the engine, the cache."""

from __future__ import annotations

import os
import platform
import sys
import time
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from codecall.cli.printing import several
from codecall.errors import CodeCallError
from codecall.sandbox.enclave import Enclave
from codecall.sandbox.report import KERNEL_FACTS, SandboxReport

Verdict = Literal["ok", "warn", "fail"]

OLDEST: Final = (3, 11)
"""The oldest Python that will do."""

SLOW_MS: Final = 250.0
"""Milliseconds that a script of one call may take on a worker that is ready."""

PACKAGES: Final = ("codecall", "fastmcp", "mcp", "quickjs-ng", "msgspec", "pydantic")
"""Packages whose versions are told."""


class Finding(NamedTuple):
    """One thing that was looked at."""

    about: str
    """The part it belongs to."""
    name: str
    verdict: Verdict
    said: str
    """What was found."""
    advice: str = ""
    """What to do about it."""


def machine() -> Iterator[Finding]:
    """Python and packages."""
    about = "This machine"
    said = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    old = sys.version_info < OLDEST
    advice = f"Use Python {'.'.join(map(str, OLDEST))} or newer." if old else ""
    yield Finding(about, "Python", "fail" if old else "ok", said, advice)
    for package in PACKAGES:
        try:
            yield Finding(about, package, "ok", version(package))
        except PackageNotFoundError:
            yield Finding(
                about,
                package,
                "fail",
                "is not installed",
                "Install codecall anew: pip install --force-reinstall codecall",
            )


async def sandbox(preset: str | None) -> list[Finding]:
    """The layers of the jail, and how long a script takes."""
    try:
        async with Enclave(preset, pool={"min_workers": 1, "max_workers": 1}) as enclave:
            report = await enclave.sandbox_report()
            return [*_layers(report), await _engine(enclave)]
    except CodeCallError as failure:
        return [
            Finding(
                "Sandbox", "worker", "fail", failure.message, failure.hint or "Run python -m codecall.sandbox.report"
            )
        ]


def _layers(report: SandboxReport) -> Iterator[Finding]:
    for layer in report.layers:
        missing: Verdict = "fail" if report.required else "warn"
        said = f"a worker that is taken over cannot {layer.stops}"
        detail = f" ({layer.detail})" if layer.detail else ""
        advice = "" if layer.active else "docs/security.md says what it needs; scripts run without it."
        yield Finding(
            "Sandbox",
            layer.name,
            "ok" if layer.active else missing,
            f"{said if layer.active else 'missing'}{detail}",
            advice,
        )
    if not report.layers:
        yield Finding(
            "Sandbox", "jail", "warn", f"there are no layers on {report.platform}", "Run it on Linux for a whole jail."
        )
    denied = [name for name, wanted in KERNEL_FACTS.items() if report.kernel.get(name, wanted) != wanted]
    if denied:
        yield Finding(
            "Sandbox",
            "kernel",
            "warn",
            f"says otherwise of {', '.join(denied)}",
            "See python -m codecall.sandbox.report",
        )
    if not report.fork_server:
        yield Finding(
            "Sandbox", "workers", "warn", "are started one by one, which takes some hundred milliseconds each"
        )


async def _engine(enclave: Enclave) -> Finding:
    """One script with one call, on a worker that is ready."""

    def answer(_name: str, value: dict[str, Any]) -> object:
        return value

    script = "return await callTool('echo', { n: 41 + 1 })"
    await enclave.execute(script, tool_handler=answer)
    began = time.perf_counter()
    result = await enclave.execute(script, tool_handler=answer)
    took = (time.perf_counter() - began) * 1000
    if result.value != {"n": 42}:
        error = result.error
        said = "a script gives a wrong answer" if error is None else f"{error.code}: {error.message}"
        return Finding("Sandbox", "engine", "fail", said, "Please report this.")
    slow = took > SLOW_MS
    advice = "The machine is busy, or very slow." if slow else ""
    return Finding("Sandbox", "engine", "warn" if slow else "ok", f"a script with one call takes {took:.1f} ms", advice)


def cache(folder: Path | None) -> Finding:
    """The folder of catalogues."""
    about, name = "Servers", "cache"
    if folder is None:
        return Finding(about, name, "ok", "is switched off: every start asks all servers")
    there = next(path for path in (folder, *folder.parents) if path.exists())
    if not os.access(there, os.W_OK | os.X_OK):
        return Finding(about, name, "warn", f"{there} cannot be written to", "Name another folder with cache_dir.")
    if (
        hasattr(os, "getuid")
        and there == folder
        and (folder.stat().st_uid != os.getuid() or folder.stat().st_mode & 0o022)
    ):
        return Finding(about, name, "warn", f"{folder} is not yours alone, so it is not used", f"chmod 700 {folder}")
    files = list(folder.glob("*.listing")) if there == folder else []
    size = sum(file.stat().st_size for file in files)
    return Finding(about, name, "ok", f"{folder}: {several(len(files), 'catalogue')}, {size / 1024:,.0f} KiB")
