"""`codecall doctor`: whether everything works here, and what to do if not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Final

from codecall.cli import exits
from codecall.cli.choosing import USUAL, AsJson, Chosen, PresetName

if TYPE_CHECKING:
    from codecall.cli.examining import Finding
    from codecall.cli.printing import Output, Working

JsonObject = dict[str, Any]

MARKS: Final = {"ok": ("✓", "green"), "warn": ("!", "yellow"), "fail": ("✗", "bold red")}
"""How a verdict is shown on a terminal."""


async def doctor(
    *,
    preset: PresetName = None,
    chosen: Chosen = USUAL,
    as_json: AsJson = False,
) -> int:
    """Say whether everything works here, and what to do if not.

    Looks at Python and packages, the layers of the jail, the engine, the cache, every configured server (which it
    starts), and the configurations of other clients.
    """
    from codecall.cli.printing import Output

    output = Output(as_json=as_json)
    found: list[Finding] = []
    with output.working("looking") as working:
        async for finding in _findings(preset, chosen, working):
            found.append(finding)
            if not as_json:
                with working.paused():
                    _show(output, finding, new=len(found) == 1 or found[-2].about != finding.about)
    failed = sum(finding.verdict == "fail" for finding in found)
    warned = sum(finding.verdict == "warn" for finding in found)
    if as_json:
        output.document({"ok": not failed, "checks": [finding._asdict() for finding in found]})
    elif output.rich:
        said = f"{failed} failed, {warned} to look at" if failed or warned else "everything works"
        output.line(f"\n{said}", "bold red" if failed else "bold yellow" if warned else "bold green")
    return exits.FAILED if failed else exits.OK


async def _findings(preset: str | None, chosen: Chosen, working: Working) -> AsyncIterator[Finding]:
    from codecall.cli import examining, examining_clients, examining_servers

    working.at(0, None, "this machine")
    for finding in examining.machine():
        yield finding
    working.at(0, None, "jail and engine")
    for finding in await examining.sandbox(preset):
        yield finding
    configuration, findings = examining_servers.configuration(chosen)
    for finding in findings:
        yield finding
    if configuration is not None:
        async for finding in examining_servers.servers(configuration, working):
            yield finding
    for finding in examining_clients.clients():
        yield finding


def _show(output: Output, finding: Finding, *, new: bool) -> None:
    if not output.rich:
        output.line_of([finding.verdict, finding.about, finding.name, finding.said, finding.advice])
        return
    from rich.text import Text

    from codecall.cli.printing import harmless

    if new:
        output.show(Text(f"\n{finding.about}", style="bold"))
    mark, style = MARKS[finding.verdict]
    output.show(Text.assemble((f" {mark} ", style), (f"{harmless(finding.name)}: ", "bold"), harmless(finding.said)))
    if finding.advice:
        output.show(Text.assemble(("   → ", "cyan"), harmless(finding.advice)))
