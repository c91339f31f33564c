"""What `codecall doctor` looks at of the servers: the configuration, and whether each starts and lists its tools."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence

from codecall.cli.choosing import Chosen
from codecall.cli.examining import Finding, cache
from codecall.cli.printing import Working, several
from codecall.errors import CodeCallError
from codecall.gateway.gateway import Gateway
from codecall.gateway.keeping import folder_of
from codecall.gateway.naming import label
from codecall.gateway.reading import Configuration
from codecall.gateway.unavailable import to_mend

ABOUT = "Servers"


def configuration(chosen: Chosen) -> tuple[Configuration | None, list[Finding]]:
    """What is configured; None where nothing is, or something wrong."""
    try:
        read = chosen.configuration()
    except CodeCallError as failure:
        missing = failure.code == "NO_CONFIGURATION"
        advice = failure.hint or "Mend the file that is named."
        return None, [Finding(ABOUT, "configuration", "warn" if missing else "fail", failure.message, advice)]
    files = ", ".join(map(str, read.files)) or "the command line"
    found = [Finding(ABOUT, "configuration", "ok", f"{several(len(read.options.servers), 'server')} in {files}")]
    found += [Finding(ABOUT, "configuration", "warn", note) for note in read.notes]
    return read, found


async def servers(read: Configuration, working: Working) -> AsyncIterator[Finding]:
    """Whether the servers start and list their tools, all at the same time."""
    yield cache(folder_of(read.options.cache_dir))
    for name, server in read.options.servers.items():
        if not server.enabled:
            yield Finding(ABOUT, name, "ok", "is switched off")
    try:
        # Without what is in the cache: the question is whether they work now.
        gateway = Gateway(read.options.model_copy(update={"cache_dir": False}))
    except CodeCallError as failure:
        yield Finding(ABOUT, "options", "fail", failure.message, failure.hint or "Mend the configuration.")
        return
    began, took = time.perf_counter(), dict[str, float]()

    def answered(name: str, done: int, total: int) -> None:
        took[name] = time.perf_counter() - began
        working.at(done, total, name)

    working.at(0, len(gateway.providers), "starting servers")
    async with gateway:
        failures = await gateway.refresh(None, answered)
        for name in gateway.providers:
            yield _server(name, gateway, failures.get(name), took[name], gateway.backends[name].health.stderr)


def _server(name: str, gateway: Gateway, failure: CodeCallError | None, took: float, stderr: Sequence[str]) -> Finding:
    provider, what = gateway.providers[name], label(gateway.options.servers[name])
    if failure is not None:
        wrote = "\n     ".join(("It wrote:", *stderr)) if stderr else ""
        advice = wrote or to_mend(failure) or "It wrote nothing to its standard error."
        return Finding(ABOUT, name, "fail", f"{failure.message} ({what})", advice)
    info = provider.listing.server_info
    version = f"{info.name} {info.version}, " if info is not None else ""
    hidden = sum(item.kind == "tool" for item in provider.hidden)
    tools = f"{several(len(provider.tools), 'tool')}{f' and {hidden} hidden' if hidden else ''}"
    advice = "codecall tools --all says why they are hidden." if hidden and not provider.tools else ""
    verdict = "ok" if provider.tools else "warn"
    return Finding(ABOUT, name, verdict, f"{version}{tools}, started and listed in {took:.1f} s ({what})", advice)
