"""A script that is too long: refused in the server as its worker would refuse it, before anything reads all of it."""

from __future__ import annotations

from codecall.envelopes import ExecutionResult
from codecall.errors import IllegalAccess, Location
from codecall.options import SanitizationOptions
from codecall.presets import Preset
from codecall.redaction.clean import ThreadedCleaner
from codecall.sandbox.agentscript.policy import MAX_SCRIPT_BYTES, SOURCE, TOO_LONG, excess_offset
from codecall.sandbox.host.outcomes import MAX_EXCERPT, LineIndex
from codecall.sandbox.host.preflight import LIMITS


async def refuse_excess(
    script: str, preset: Preset, sanitization: SanitizationOptions, *, dry_run: bool
) -> ExecutionResult | None:
    """The result of a script that is too long for any worker, or of a dry run of it; None if it is not.

    Args:
        script: Any text; however long it is, little of it is read.
        preset: The limits of the run.
        sanitization: What its result leaves out.
        dry_run: Whether it would only be checked.
    """
    if (error := excess_error(script)) is None:
        return None
    await ThreadedCleaner().clean_error(error, sanitization)
    if not dry_run:
        return ExecutionResult(error.status, error=error)
    # Of its lines nothing is known.
    size = {"bytes": len(script.encode("utf-8", "surrogatepass")), "maxBytes": MAX_SCRIPT_BYTES}
    limits = {name: getattr(preset, field) for name, field in LIMITS.items()}
    manifest = {"size": size, "limits": limits}
    return ExecutionResult("ok", value={"valid": False, "findings": [error.as_dict()], "manifest": manifest})


def excess_error(script: str) -> IllegalAccess | None:
    """The error of a script that is too long; None if it is not."""
    offset = excess_offset(script)
    if offset is None:
        return None
    error = IllegalAccess(TOO_LONG, kind="UnsafeSource", hint=SOURCE["script length"].instead)
    # What stands before the place may be tens of thousands of lines, and one is all that is shown.
    before = script[:offset].removesuffix("\r") if script[offset : offset + 1] == "\n" else script[:offset]
    ends = before.count("\n") + before.count("\r") - before.count("\r\n")
    start = max(before.rfind("\n"), before.rfind("\r")) + 1
    column = offset - start + 1
    error.location = Location(1 + ends, column)
    error.excerpt = LineIndex(script[start : offset + MAX_EXCERPT + 1]).excerpt(Location(1, column))
    return error
