"""What `codecall doctor` looks at on this machine: Python, packages, the jail, the engine, the cache."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Final

from codecall.cli import exit_codes as exits
from codecall.cli.arguments import DEFAULT_SERVERS, AsJson, PresetName, ServerArguments

if TYPE_CHECKING:
    pass
    from codecall.cli.output import Output, ProgressLine
import os
import platform
import sys
import time
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal, NamedTuple

from codecall.cli.client_files import ClientFiles, find_clients
from codecall.cli.output import ProgressLine, count_of
from codecall.errors import CodeCallError
from codecall.gateway.config.load import Configuration
from codecall.gateway.config.mcp_clients import TITLES
from codecall.gateway.config.names import describe_server
from codecall.gateway.gateway import Gateway
from codecall.gateway.tools.disk_cache import cache_folder
from codecall.gateway.upstream.errors import repair_advice
from codecall.sandbox.enclave import Enclave
from codecall.sandbox.host.process import KERNEL_FACTS, SandboxReport

# ----------------------------------------------------------------------------------------------------
# `codecall doctor`: whether everything works here, and what to do if not.

JsonObject = dict[str, Any]

MARKS: Final = {"ok": ("✓", "green"), "warn": ("!", "yellow"), "fail": ("✗", "bold red")}
"""How a verdict is shown on a terminal."""


async def doctor(
    *,
    preset: PresetName = None,
    chosen: ServerArguments = DEFAULT_SERVERS,
    as_json: AsJson = False,
) -> int:
    """Say whether everything works here, and what to do if not.

    Looks at Python and packages, the layers of the jail, the engine, the cache, every configured server (which it
    starts), and the configurations of other clients.
    """
    from codecall.cli.output import Output

    output = Output(as_json=as_json)
    found: list[Check] = []
    with output.progress("looking") as working:
        async for finding in _findings(preset, chosen, working):
            found.append(finding)
            if not as_json:
                with working.paused():
                    _show(output, finding, new=len(found) == 1 or found[-2].section != finding.section)
    failed = sum(finding.verdict == "fail" for finding in found)
    warned = sum(finding.verdict == "warn" for finding in found)
    if as_json:
        output.document({"ok": not failed, "checks": [finding._asdict() for finding in found]})
    elif output.rich:
        said = f"{failed} failed, {warned} to look at" if failed or warned else "everything works"
        output.line(f"\n{said}", "bold red" if failed else "bold yellow" if warned else "bold green")
    return exits.FAILED if failed else exits.OK


async def _findings(preset: str | None, chosen: ServerArguments, working: ProgressLine) -> AsyncIterator[Check]:
    working.update(0, None, "this machine")
    for finding in machine():
        yield finding
    working.update(0, None, "jail and engine")
    for finding in await sandbox(preset):
        yield finding
    configured, findings = configuration(chosen)
    for finding in findings:
        yield finding
    if configured is not None:
        async for finding in servers(configured, working):
            yield finding
    for finding in clients():
        yield finding


def _show(output: Output, finding: Check, *, new: bool) -> None:
    if not output.rich:
        output.row([finding.verdict, finding.section, finding.name, finding.detail, finding.advice])
        return
    from rich.text import Text

    from codecall.cli.output import escape_unprintable

    if new:
        output.show(Text(f"\n{finding.section}", style="bold"))
    mark, style = MARKS[finding.verdict]
    output.show(
        Text.assemble(
            (f" {mark} ", style), (f"{escape_unprintable(finding.name)}: ", "bold"), escape_unprintable(finding.detail)
        )
    )
    if finding.advice:
        output.show(Text.assemble(("   → ", "cyan"), escape_unprintable(finding.advice)))


# ----------------------------------------------------------------------------------------------------
# What `codecall doctor` looks at on this machine: Python, packages, the jail, the engine, the cache.

Verdict = Literal["ok", "warn", "fail"]

OLDEST: Final = (3, 11)
"""The oldest Python that will do."""

SLOW_MS: Final = 250.0
"""Milliseconds that a script of one call may take on a worker that is ready."""

PACKAGES: Final = ("codecall", "fastmcp", "mcp", "quickjs-ng", "msgspec", "pydantic")
"""Packages whose versions are told."""


class Check(NamedTuple):
    """One thing that was looked at."""

    section: str
    """The part it belongs to."""
    name: str
    verdict: Verdict
    detail: str
    """What was found."""
    advice: str = ""
    """What to do about it."""


def machine() -> Iterator[Check]:
    """Python and packages."""
    about = "This machine"
    said = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    old = sys.version_info < OLDEST
    advice = f"Use Python {'.'.join(map(str, OLDEST))} or newer." if old else ""
    yield Check(about, "Python", "fail" if old else "ok", said, advice)
    for package in PACKAGES:
        try:
            yield Check(about, package, "ok", version(package))
        except PackageNotFoundError:
            yield Check(
                about,
                package,
                "fail",
                "is not installed",
                "Install codecall anew: pip install --force-reinstall codecall",
            )


async def sandbox(preset: str | None) -> list[Check]:
    """The layers of the jail, and how long a script takes."""
    try:
        async with Enclave(preset, pool={"min_workers": 1, "max_workers": 1}) as enclave:
            report = await enclave.sandbox_report()
            return [*_layers(report), await _engine(enclave)]
    except CodeCallError as failure:
        return [
            Check("Sandbox", "worker", "fail", failure.message, failure.hint or "Run python -m codecall.sandbox.report")
        ]


def _layers(report: SandboxReport) -> Iterator[Check]:
    for layer in report.layers:
        missing: Verdict = "fail" if report.required else "warn"
        said = f"a worker that is taken over cannot {layer.stops}"
        detail = f" ({layer.detail})" if layer.detail else ""
        advice = "" if layer.active else "docs/internals/jail.md says what it needs; scripts run without it."
        yield Check(
            "Sandbox",
            layer.name,
            "ok" if layer.active else missing,
            f"{said if layer.active else 'missing'}{detail}",
            advice,
        )
    if not report.layers:
        yield Check(
            "Sandbox", "jail", "warn", f"there are no layers on {report.platform}", "Run it on Linux for a whole jail."
        )
    denied = [name for name, wanted in KERNEL_FACTS.items() if report.kernel.get(name, wanted) != wanted]
    if denied:
        yield Check(
            "Sandbox",
            "kernel",
            "warn",
            f"says otherwise of {', '.join(denied)}",
            "See python -m codecall.sandbox.report",
        )
    if not report.fork_server:
        yield Check("Sandbox", "workers", "warn", "are started one by one, which takes some hundred milliseconds each")


async def _engine(enclave: Enclave) -> Check:
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
        return Check("Sandbox", "engine", "fail", said, "Please report this.")
    slow = took > SLOW_MS
    advice = "The machine is busy, or very slow." if slow else ""
    return Check("Sandbox", "engine", "warn" if slow else "ok", f"a script with one call takes {took:.1f} ms", advice)


def cache_check(folder: Path | None) -> Check:
    """The folder of catalogs."""
    about, name = "Servers", "cache"
    if folder is None:
        return Check(about, name, "ok", "is switched off: every start asks all servers")
    there = next(path for path in (folder, *folder.parents) if path.exists())
    if not os.access(there, os.W_OK | os.X_OK):
        return Check(about, name, "warn", f"{there} cannot be written to", "Name another folder with cache_dir.")
    if (
        hasattr(os, "getuid")
        and there == folder
        and (folder.stat().st_uid != os.getuid() or folder.stat().st_mode & 0o022)
    ):
        return Check(about, name, "warn", f"{folder} is not yours alone, so it is not used", f"chmod 700 {folder}")
    files = list(folder.glob("*.listing")) if there == folder else []
    size = sum(file.stat().st_size for file in files)
    return Check(about, name, "ok", f"{folder}: {count_of(len(files), 'catalog')}, {size / 1024:,.0f} KiB")


# ----------------------------------------------------------------------------------------------------
# What `codecall doctor` looks at of other clients: what they have, and whether they use the gateway.

ABOUT_CLIENTS = "Clients"


def clients() -> Iterator[Check]:
    """One finding for each client of which there are files."""
    found = list(find_clients())
    if not found:
        yield Check(
            ABOUT_CLIENTS, "none", "ok", "no configuration of a client was found", "codecall init says what to paste."
        )
    for each in found:
        yield _client(each)


def _client(each: ClientFiles) -> Check:
    name = each.name if each.client is None else TITLES[each.client]
    files = ", ".join(map(str, each.files))
    if each.configuration is None:
        return Check(
            ABOUT_CLIENTS, name, "warn", each.error, "Mend that file; the client may not start its servers either."
        )
    count = len(each.servers)
    said = f"{count_of(count, 'server')}{' and the gateway' if each.has_gateway else ''} in {files}"
    if each.has_gateway and count:
        advice = (
            f"Its model sees the tools of {', '.join(each.servers)} directly: put them behind the gateway, and take "
            "them out there."
        )
        return Check(ABOUT_CLIENTS, name, "warn", said, advice)
    if each.has_gateway:
        return Check(ABOUT_CLIENTS, name, "ok", said)
    return Check(ABOUT_CLIENTS, name, "ok", said, f"codecall init prints what makes {name} use the gateway.")


# ----------------------------------------------------------------------------------------------------
# What `codecall doctor` looks at of the servers: the configuration, and whether each starts and lists its tools.

ABOUT_SERVERS = "Servers"


def configuration(chosen: ServerArguments) -> tuple[Configuration | None, list[Check]]:
    """What is configured; None where nothing is, or something wrong."""
    try:
        read = chosen.configuration()
    except CodeCallError as failure:
        missing = failure.code == "NO_CONFIGURATION"
        advice = failure.hint or "Mend the file that is named."
        return None, [Check(ABOUT_SERVERS, "configuration", "warn" if missing else "fail", failure.message, advice)]
    files = ", ".join(map(str, read.files)) or "the command line"
    found = [Check(ABOUT_SERVERS, "configuration", "ok", f"{count_of(len(read.options.servers), 'server')} in {files}")]
    found += [Check(ABOUT_SERVERS, "configuration", "warn", note) for note in read.notes]
    return read, found


async def servers(read: Configuration, working: ProgressLine) -> AsyncIterator[Check]:
    """Whether the servers start and list their tools, all at the same time."""
    yield cache_check(cache_folder(read.options.cache_dir))
    for name, server in read.options.servers.items():
        if not server.enabled:
            yield Check(ABOUT_SERVERS, name, "ok", "is switched off")
    try:
        # Without what is in the cache: the question is whether they work now.
        gateway = Gateway(read.options.model_copy(update={"cache_dir": False}))
    except CodeCallError as failure:
        yield Check(ABOUT_SERVERS, "options", "fail", failure.message, failure.hint or "Mend the configuration.")
        return
    began, took = time.perf_counter(), dict[str, float]()

    def answered(name: str, done: int, total: int) -> None:
        took[name] = time.perf_counter() - began
        working.update(done, total, name)

    working.update(0, len(gateway.providers), "starting servers")
    async with gateway:
        failures = await gateway.refresh(None, answered)
        for name in gateway.providers:
            yield _server(name, gateway, failures.get(name), took[name], gateway.backends[name].health.stderr)


def _server(name: str, gateway: Gateway, failure: CodeCallError | None, took: float, stderr: Sequence[str]) -> Check:
    provider, what = gateway.providers[name], describe_server(gateway.options.servers[name])
    if failure is not None:
        wrote = "\n     ".join(("It wrote:", *stderr)) if stderr else ""
        advice = wrote or repair_advice(failure) or "It wrote nothing to its standard error."
        return Check(ABOUT_SERVERS, name, "fail", f"{failure.message} ({what})", advice)
    info = provider.listing.server_info
    version = f"{info.name} {info.version}, " if info is not None else ""
    hidden = sum(item.kind == "tool" for item in provider.hidden)
    tools = f"{count_of(len(provider.tools), 'tool')}{f' and {hidden} hidden' if hidden else ''}"
    advice = "codecall tools --all says why they are hidden." if hidden and not provider.tools else ""
    verdict = "ok" if provider.tools else "warn"
    return Check(ABOUT_SERVERS, name, verdict, f"{version}{tools}, started and listed in {took:.1f} s ({what})", advice)
